//! A plot as inline SVG: no script, colours from the page's style sheet, a tooltip on every point.

use std::fmt::Write;

use crate::html::escape;
use crate::plot::{Curve, Dot, Draw, Plot, Scale, short};
use crate::tree::Tone;

/// Size of the picture and of the margins around the field, in SVG units.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 18.0;
const BOTTOM: f64 = 58.0;

/// Room of a line of legend or of a mark's label above the field.
const LINE: f64 = 18.0;

/// Width of a character of the small type, for deciding what overlaps.
const CHARACTER: f64 = 7.3;

/// Colours of the style sheet, `p1` to `p6`.
const COLOURS: usize = 6;

/// Longest label of a mark or tick.
const LABEL_CHARS_MAX: usize = 40;

/// The style sheet of plots.
pub(crate) const STYLE: &str = "\
:root{--p1:#0b6e99;--p2:#c05b00;--p3:#1a7f37;--p4:#8250df;--p5:#b3196b;--p6:#66707a}\
@media(prefers-color-scheme:dark){:root{--p1:#6cc7ec;--p2:#f0a050;--p3:#57c26c;--p4:#c297ff;--p5:#ff80b5;--p6:#8b96a1}}\
figure{margin:1em 0 1.4em}figcaption{font-weight:600;margin-bottom:.3em}svg{width:100%;height:auto;max-width:860px;\
display:block;font:12px system-ui,sans-serif}svg text{fill:var(--dim)}svg .ax{fill:var(--fg)}\
svg .gr{stroke:var(--rule);stroke-width:1}svg .mk{stroke-dasharray:2 3;stroke-width:1.5}\
.p1{--c:var(--p1)}.p2{--c:var(--p2)}.p3{--c:var(--p3)}.p4{--c:var(--p4)}.p5{--c:var(--p5)}.p6{--c:var(--p6)}\
svg .ln{fill:none;stroke:var(--c);stroke-width:1.6}svg .rf{stroke-dasharray:6 5;opacity:.75}\
svg .lv{stroke-width:4;opacity:.35}svg .iv{stroke:var(--c);stroke-width:1.4}svg .dt{fill:var(--c)}\
svg .mg{stroke:var(--good)}svg .mb{stroke:var(--bad)}svg .mp{stroke:var(--dim)}\
svg .zr{stroke:var(--dim);stroke-width:1.5}svg .ar{stroke:var(--c);stroke-width:9;opacity:.55}\
svg .tg{fill:var(--good)}svg .tb{fill:var(--bad)}";

/// The figure, or nothing when no point can be drawn.
pub(crate) fn figure(plot: &Plot) -> String {
    if plot.series.iter().any(|c| c.draw == Draw::Bars) {
        return crate::bars::figure(plot);
    }
    let Some(frame) = Frame::of(plot) else { return String::new() };
    let mut out = format!(
        "<figure>\n<figcaption>{0}</figcaption>\n\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">\n",
        escape(&plot.title)
    );
    frame.grid(plot, &mut out);
    frame.legend(plot, &mut out);
    frame.marks(plot, &mut out);
    for (i, curve) in plot.series.iter().enumerate() {
        frame.curve(plot, curve, colour(plot, i), &mut out);
    }
    out.push_str("</svg>\n</figure>\n");
    out
}

/// Measured curves take the colours in turn; levels and references the colour of the measured curve before them.
fn colour(plot: &Plot, index: usize) -> usize {
    let before = plot.series[..=index].iter().filter(|c| c.is_data()).count();
    before.max(1).wrapping_sub(1) % COLOURS + 1
}

/// Which values lie where.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
    top: f64,
}

fn placed(scale: Scale, v: f64) -> f64 {
    match scale {
        Scale::Linear => v,
        Scale::Log2 => v.log2(),
    }
}

impl Frame {
    fn of(plot: &Plot) -> Option<Frame> {
        let y = plot.span(|_| true)?;
        let xs = plot.series.iter().flat_map(|c| plot.dots(c)).map(|d| placed(plot.x.scale, d.x));
        let (from, to) = xs.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        let room = if to > from { 0.04 * (to - from) } else { 0.5 };
        let legend = plot.series.iter().filter(|c| !c.name.is_empty()).count() > 1;
        let lines = usize::from(legend) + mark_rows(plot);
        let top = 10.0 + LINE * lines as f64;
        Some(Frame { x: (from - room, to + room), y: padded(plot, y), top })
    }

    fn px(&self, plot: &Plot, x: f64) -> f64 {
        LEFT + (placed(plot.x.scale, x) - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    fn py(&self, plot: &Plot, y: f64) -> f64 {
        let share = (placed(plot.y.scale, y) - self.y.0) / (self.y.1 - self.y.0);
        HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - self.top)
    }

    fn grid(&self, plot: &Plot, out: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (v, label) in y_ticks(plot, self.y) {
            let y = self.py(plot, v);
            let _ = writeln!(
                out,
                "<line class=\"gr\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                escape(&label)
            );
        }
        let mut free = f64::NEG_INFINITY;
        for (v, label) in x_ticks(plot) {
            let (x, half) = (self.px(plot, v), 0.5 * CHARACTER * label.chars().count() as f64);
            if x - half < free || x.is_nan() {
                continue;
            }
            free = x + half + CHARACTER;
            let _ = writeln!(
                out,
                "<line class=\"gr\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 5.0,
                bottom + 19.0,
                escape(&label)
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"ax\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text class=\"ax\" x=\"14\" y=\"{1:.1}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 14 {3:.1})\" dy=\"{4:.1}\">{5}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 12.0,
            escape(&plot.x.label),
            (self.top + bottom) / 2.0,
            (self.top + bottom) / 2.0 - (HEIGHT - 12.0),
            escape(&plot.y.label)
        );
    }

    fn legend(&self, plot: &Plot, out: &mut String) {
        let named: Vec<(usize, &Curve)> =
            plot.series.iter().enumerate().filter(|(_, c)| !c.name.is_empty()).collect();
        if named.len() < 2 {
            return;
        }
        let mut x = LEFT;
        for (i, curve) in named {
            let class = colour(plot, i);
            let line = line_class(curve.draw);
            let _ = write!(
                out,
                "<g class=\"p{class}\"><line class=\"{line}\" x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"12\" y2=\"12\"/>",
                x + 22.0
            );
            if curve.is_data() {
                let _ = write!(out, "<circle class=\"dt\" cx=\"{:.1}\" cy=\"12\" r=\"3.5\"/>", x + 11.0);
            }
            let _ = writeln!(out, "<text x=\"{:.1}\" y=\"16\">{}</text></g>", x + 28.0, escape(&curve.name));
            x += 48.0 + CHARACTER * curve.name.chars().count() as f64;
        }
    }

    /// Marks with their labels above the field; labels take turns in two rows.
    fn marks(&self, plot: &Plot, out: &mut String) {
        let rows = mark_rows(plot);
        for (i, mark) in plot.marks.iter().enumerate() {
            let x = self.px(plot, mark.x);
            if !x.is_finite() {
                continue;
            }
            let y = self.top - 6.0 - LINE * (i % rows.max(1)) as f64;
            let (line, text) = match mark.tone {
                Tone::Good => ("mg", "tg"),
                Tone::Bad => ("mb", "tb"),
                _ => ("mp", "ax"),
            };
            let label: String = mark.label.chars().take(LABEL_CHARS_MAX).collect();
            let half = 0.5 * CHARACTER * label.chars().count() as f64;
            let at = x.clamp(LEFT + half, (WIDTH - RIGHT - half).max(LEFT + half));
            let _ = writeln!(
                out,
                "<line class=\"mk {line}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
                 <text class=\"{text}\" x=\"{at:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
                y + 4.0,
                HEIGHT - BOTTOM,
                escape(&label)
            );
        }
    }

    fn curve(&self, plot: &Plot, curve: &Curve, class: usize, out: &mut String) {
        let dots = plot.dots(curve);
        let _ = writeln!(out, "<g class=\"p{class}\">");
        if curve.draw != Draw::Scatter && dots.len() > 1 {
            let points: Vec<String> =
                dots.iter().map(|d| format!("{:.1},{:.1}", self.px(plot, d.x), self.py(plot, d.y))).collect();
            let _ = writeln!(
                out,
                "<polyline class=\"{}\" points=\"{}\"/>",
                line_class(curve.draw),
                points.join(" ")
            );
        }
        if curve.is_data() {
            dots.iter().for_each(|d| self.dot(plot, curve, d, out));
        }
        out.push_str("</g>\n");
    }

    fn dot(&self, plot: &Plot, curve: &Curve, d: &Dot, out: &mut String) {
        let (x, y) = (self.px(plot, d.x), self.py(plot, d.y));
        let mut tip = if d.label.is_empty() { curve.name.clone() } else { d.label.clone() };
        let _ = write!(tip, ": {}", plot.y.text(d.y));
        if let Some((low, high)) = d.interval {
            let _ = write!(tip, " ({} .. {})", plot.y.text(low), plot.y.text(high));
            let (low, high) = (self.py(plot, low), self.py(plot, high));
            let (from, to) = (x - 4.0, x + 4.0);
            let _ = write!(
                out,
                "<path class=\"iv\" d=\"M{x:.1} {low:.1}V{high:.1}M{from:.1} {low:.1}H{to:.1}M{from:.1} {high:.1}\
                 H{to:.1}\"/>"
            );
        }
        let _ = writeln!(
            out,
            "<circle class=\"dt\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{}</title></circle>",
            escape(&tip)
        );
    }
}

fn line_class(draw: Draw) -> &'static str {
    match draw {
        Draw::Points | Draw::Scatter | Draw::Bars => "ln",
        Draw::Level => "ln lv",
        Draw::Reference => "ln rf",
    }
}

fn mark_rows(plot: &Plot) -> usize {
    plot.marks.len().min(2)
}

/// The vertical span with some room, and never empty.
pub(crate) fn padded(plot: &Plot, (low, high): (f64, f64)) -> (f64, f64) {
    let (low, high) = (placed(plot.y.scale, low), placed(plot.y.scale, high));
    let room = if high > low { 0.06 * (high - low) } else { 0.05 * high.abs().max(1e-9) };
    let floor = if plot.y.from_zero && low >= 0.0 { low } else { low - room };
    (floor, high + room)
}

/// Steps of 1, 2 or 5 times a power of ten that give four to nine lines.
pub(crate) fn y_ticks(plot: &Plot, (low, high): (f64, f64)) -> Vec<(f64, String)> {
    if !plot.y.ticks.is_empty() {
        return plot.y.ticks.clone();
    }
    let raw = (high - low) / 6.0;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw).unwrap_or(raw);
    if !step.is_finite() || step <= 0.0 {
        return Vec::new();
    }
    let first = (low / step).ceil();
    let ticks = (0..20).map(|i| (first + f64::from(i)) * step).take_while(|v| *v <= high + 1e-9 * step);
    let unit = if plot.y.percent { "%" } else { "" };
    ticks.map(|v| (v, tick(v, step) + unit)).collect()
}

/// As many digits as the step needs.
fn tick(v: f64, step: f64) -> String {
    let (factor, unit) = match v.abs().max(step) {
        s if s >= 1e9 => (1e9, "G"),
        s if s >= 1e6 => (1e6, "M"),
        s if s >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let digits = (-(step / factor).log10().floor()).clamp(0.0, 9.0) as usize;
    if v.abs() < 1e-9 * step { "0".into() } else { format!("{:.digits$}{unit}", v / factor) }
}

fn x_ticks(plot: &Plot) -> Vec<(f64, String)> {
    if !plot.x.ticks.is_empty() {
        let cut = |label: &str| label.chars().take(LABEL_CHARS_MAX).collect();
        return plot.x.ticks.iter().map(|(x, label)| (*x, cut(label))).collect();
    }
    let measured = plot.series.iter().filter(|c| c.is_data());
    let mut xs: Vec<f64> = measured.flat_map(|c| plot.dots(c)).map(|d| d.x).collect();
    xs.sort_unstable_by(f64::total_cmp);
    xs.dedup();
    xs.into_iter().map(|x| (x, short_tick(x))).collect()
}

fn short_tick(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 1e6 { format!("{x:.0}") } else { short(x) }
}

/// Width and height of one character of [`cells`], in pixels.
const CELL_PX: (usize, usize) = (9, 18);

/// A row of byte cells: one box per run of a letter, an empty one per run of `.`, nothing for blanks and borders.
pub(crate) fn cells(text: &str) -> String {
    let chars: Vec<char> = text.chars().filter(|c| *c != '|').collect();
    let (w, h) = CELL_PX;
    let mut out = format!(
        "<svg width=\"{}\" height=\"{h}\" role=\"img\" aria-label=\"{}\" font-family=\"ui-monospace,monospace\" \
         font-size=\"11\" text-anchor=\"middle\" stroke=\"currentColor\">",
        chars.len() * w,
        crate::html::escape(text)
    );
    let mut at = 0;
    for run in chars.chunk_by(|a, b| a == b) {
        let (x, width) = (at * w, run.len() * w);
        at += run.len();
        let filled = match run[0] {
            ' ' => continue,
            '.' => "fill=\"none\" stroke-dasharray=\"2\" stroke-opacity=\".5\"",
            _ => "fill=\"currentColor\" fill-opacity=\".12\"",
        };
        out.push_str(&format!("<rect x=\"{x}\" y=\"1\" width=\"{width}\" height=\"{}\" {filled}/>", h - 2));
        if run[0] != '.' {
            let middle = x + width / 2;
            let letter = crate::html::escape(&run[0].to_string());
            out.push_str(&format!(
                "<text x=\"{middle}\" y=\"13\" stroke=\"none\" fill=\"currentColor\">{letter}</text>"
            ));
        }
    }
    out + "</svg>"
}
