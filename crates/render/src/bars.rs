//! A plot of arrows as inline SVG: a row each, from one value to another.

use std::fmt::Write;

use crate::html::escape;
use crate::plot::{Dot, Draw, Plot};
use crate::svg::{padded, y_ticks};

/// Sizes, in SVG units: the picture, its margins, a row, the head of an arrow.
const WIDTH: f64 = 860.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 48.0;
const ROW: f64 = 24.0;
const HEAD: f64 = 9.0;

/// Width of a character, and the longest label.
const CHARACTER: f64 = 7.3;
const LABEL_CHARS_MAX: usize = 40;

/// The figure, or nothing when no arrow can be drawn.
pub(crate) fn figure(plot: &Plot) -> String {
    let dots: Vec<&Dot> =
        plot.series.iter().filter(|c| c.draw == Draw::Bars).flat_map(|c| plot.dots(c)).collect();
    let Some(span) = plot.span(|c| c.draw == Draw::Bars) else { return String::new() };
    let frame = Frame::of(plot, &dots, span);
    let mut out = format!(
        "<figure>\n<figcaption>{0}</figcaption>\n\
         <svg viewBox=\"0 0 {WIDTH} {1}\" role=\"img\" aria-label=\"{0}\">\n",
        escape(&plot.title),
        frame.bottom + BOTTOM
    );
    frame.grid(plot, &mut out);
    out.push_str("<g class=\"p1\">\n");
    dots.iter().enumerate().for_each(|(i, d)| frame.row(plot, i, d, &mut out));
    out.push_str("</g>\n</svg>\n</figure>\n");
    out
}

/// Which values lie where.
struct Frame {
    left: f64,
    bottom: f64,
    low: f64,
    high: f64,
}

impl Frame {
    fn of(plot: &Plot, dots: &[&Dot], span: (f64, f64)) -> Frame {
        let longest = dots.iter().map(|d| label(d).chars().count()).max().unwrap_or(0);
        let (low, high) = padded(plot, span);
        let left = 16.0 + CHARACTER * longest as f64;
        Frame { left, bottom: TOP + ROW * dots.len() as f64, low, high }
    }

    fn px(&self, v: f64) -> f64 {
        self.left + (v - self.low) / (self.high - self.low) * (WIDTH - RIGHT - self.left)
    }

    fn grid(&self, plot: &Plot, out: &mut String) {
        let bottom = self.bottom;
        for (v, label) in y_ticks(plot, (self.low, self.high)) {
            let x = self.px(v);
            let class = if v == 0.0 { "zr" } else { "gr" };
            let _ = writeln!(
                out,
                "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 17.0,
                escape(&label)
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"ax\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            (self.left + WIDTH - RIGHT) / 2.0,
            bottom + 38.0,
            escape(&plot.y.label)
        );
    }

    fn row(&self, plot: &Plot, index: usize, d: &Dot, out: &mut String) {
        let y = TOP + ROW * (index as f64 + 0.5);
        let (from, to) = d.ends();
        let (from, to) = (self.px(from), self.px(to));
        let back = if to < from { HEAD } else { -HEAD };
        let tip = format!("{}: {}", d.label, plot.range(d));
        let _ = writeln!(
            out,
            "<g><title>{}</title><text class=\"ax\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <line class=\"ar\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <path class=\"dt\" d=\"M{to:.1} {y:.1}l{back} -6v12z\"/></g>",
            escape(&tip),
            self.left - 10.0,
            y + 4.0,
            escape(&label(d))
        );
    }
}

fn label(d: &Dot) -> String {
    d.label.chars().take(LABEL_CHARS_MAX).collect()
}
