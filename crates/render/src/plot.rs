//! Plots: points with intervals on labelled axes, drawn as characters or as SVG from the same data.

use serde_json::{Value, json};

use crate::tree::Tone;

/// Columns of the field of a character plot.
const FIELD_COLUMNS: usize = 48;

/// Most points drawn; a plot of more is cut, because nobody can read it and a page must stay small.
pub(crate) const POINTS_MAX: usize = 5_000;

/// Points with intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// JSON name; empty where a table beside the picture has the same numbers.
    pub key: String,
    /// What it shows; the caption.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves.
    pub series: Vec<Curve>,
    /// Places on the horizontal axis that deserve a vertical line.
    pub marks: Vec<Mark>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it counts, with its unit: `tasks`, `operations/s`.
    pub label: String,
    /// How values become places.
    pub scale: Scale,
    /// Starts at zero, so that lengths compare; otherwise at the smallest value drawn.
    pub from_zero: bool,
    /// Values are changes in percent.
    pub percent: bool,
    /// Names at places (commits), in ascending order; numbers are chosen when empty.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// A value as it is read.
    pub(crate) fn text(&self, v: f64) -> String {
        if self.percent { format!("{v:+.1}%") } else { short(v) }
    }
}

/// How values become places on an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// In proportion.
    #[default]
    Linear,
    /// Each doubling takes the same room; values must be positive.
    Log2,
}

/// A curve of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name in the legend; an empty one is not listed.
    pub name: String,
    /// How it is drawn.
    pub draw: Draw,
    /// Points by ascending `x`.
    pub points: Vec<Dot>,
}

impl Curve {
    /// What was measured or computed, not what follows from it.
    pub(crate) fn is_data(&self) -> bool {
        matches!(self.draw, Draw::Points | Draw::Scatter | Draw::Bars)
    }
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draw {
    /// Measured: points with intervals, joined by a line.
    #[default]
    Points,
    /// Measured, but neighbours have nothing to do with each other: points with intervals alone.
    Scatter,
    /// A row for each point: an arrow from the first end of its interval to the second. Such a curve stands alone.
    Bars,
    /// A level that follows from points: a plain line. Not in character plots.
    Level,
    /// What would be expected: a dashed line. Not in character plots.
    Reference,
}

/// A point.
#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    /// Place on the horizontal axis.
    pub x: f64,
    /// Value.
    pub y: f64,
    /// Interval of the value, the lower end first but for [`Draw::Bars`]; absent when unknown.
    pub interval: Option<(f64, f64)>,
    /// Name for people (`threads-4`, a commit); stands before the line of a character plot.
    pub label: String,
}

/// A vertical line.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Place on the horizontal axis.
    pub x: f64,
    /// What happened there, in a few words.
    pub label: String,
    /// Good or bad news.
    pub tone: Tone,
}

impl Dot {
    /// Lower and upper end; the value itself when there is no interval.
    pub(crate) fn ends(&self) -> (f64, f64) {
        self.interval.unwrap_or((self.y, self.y))
    }

    fn finite(&self) -> bool {
        let (low, high) = self.ends();
        [self.x, self.y, low, high].iter().all(|v| v.is_finite())
    }
}

impl Plot {
    /// The points of a curve that can be drawn.
    pub(crate) fn dots<'a>(&self, curve: &'a Curve) -> Vec<&'a Dot> {
        let positive = |scale: Scale, v: f64| scale == Scale::Linear || v > 0.0;
        let fine = |d: &&Dot| {
            let (one, other) = d.ends();
            d.finite() && positive(self.x.scale, d.x) && positive(self.y.scale, d.y.min(one).min(other))
        };
        curve.points.iter().filter(fine).take(POINTS_MAX).collect()
    }

    /// Smallest and largest value on the vertical axis of what `of` selects; `None` when nothing can be drawn.
    pub(crate) fn span(&self, of: impl Fn(&Curve) -> bool) -> Option<(f64, f64)> {
        let ends = self.series.iter().filter(|c| of(c)).flat_map(|c| self.dots(c)).map(Dot::ends);
        let span = ends.fold(None, |span: Option<(f64, f64)>, (low, high)| {
            let (from, to) = span.unwrap_or((low, high));
            Some((from.min(low).min(high), to.max(low).max(high)))
        });
        span.map(|(low, high)| if self.y.from_zero { (low.min(0.0), high.max(0.0)) } else { (low, high) })
    }

    /// The lines of the character plot: label, `|--o--|`, value.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Some((low, high)) = self.span(Curve::is_data) else { return Vec::new() };
        let at = |v: f64| {
            let share = if high > low { (v - low) / (high - low) } else { 0.5 };
            (share.clamp(0.0, 1.0) * (FIELD_COLUMNS - 1) as f64).round() as usize
        };
        let curves: Vec<(Draw, Vec<&Dot>)> =
            self.series.iter().filter(|c| c.is_data()).map(|c| (c.draw, self.dots(c))).collect();
        let all = curves.iter().flat_map(|c| &c.1);
        let width = all.map(|d| crate::text::width(&d.label)).max().unwrap_or(0);
        let mut out = Vec::new();
        for (draw, dots) in &curves {
            let mut before = f64::NEG_INFINITY;
            for d in dots {
                for mark in self.marks.iter().filter(|m| before < m.x && m.x <= d.x && before.is_finite()) {
                    out.push(format!("{:width$}  {}  {}", "", "-".repeat(FIELD_COLUMNS), mark.label));
                }
                before = d.x;
                let pad = " ".repeat(width - crate::text::width(&d.label));
                let (field, value) = match draw {
                    Draw::Bars => (self.bar(d, at), self.range(d)),
                    _ => (self.field(d, at), self.y.text(d.y)),
                };
                out.push(format!("{}{pad}  {field}  {value}", d.label));
            }
        }
        out
    }

    fn field(&self, d: &Dot, at: impl Fn(f64) -> usize) -> String {
        let mut field = [' '; FIELD_COLUMNS];
        let (low, high) = d.ends();
        if self.y.from_zero {
            field[at(d.y.min(0.0))..at(d.y.max(0.0))].fill('=');
        }
        if d.interval.is_some() {
            field[at(low)..=at(high)].fill('-');
            field[at(low)] = '|';
            field[at(high)] = '|';
        }
        field[at(d.y)] = 'o';
        field.into_iter().collect()
    }

    /// An arrow; where zero is, a colon.
    fn bar(&self, d: &Dot, at: impl Fn(f64) -> usize) -> String {
        let mut field = [' '; FIELD_COLUMNS];
        let (from, to) = d.ends();
        let (from, to) = (at(from), at(to));
        field[from.min(to)..=from.max(to)].fill('=');
        if self.y.from_zero {
            field[at(0.0)] = ':';
        }
        field[from] = '|';
        field[to] = match from.cmp(&to) {
            std::cmp::Ordering::Less => '>',
            std::cmp::Ordering::Equal => 'o',
            std::cmp::Ordering::Greater => '<',
        };
        field.into_iter().collect()
    }

    /// Both ends of an arrow, in words.
    pub(crate) fn range(&self, d: &Dot) -> String {
        let (from, to) = d.ends();
        format!("{} to {}", self.y.text(from), self.y.text(to))
    }

    /// The data behind it.
    pub(crate) fn json(&self) -> Value {
        let dot = |d: &Dot| {
            let (low, high) = d.interval.map_or((Value::Null, Value::Null), |(l, h)| (json!(l), json!(h)));
            json!({ "x": d.x, "y": d.y, "low": low, "high": high, "label": d.label })
        };
        let draw = |d: Draw| match d {
            Draw::Points | Draw::Scatter | Draw::Bars => "measured",
            Draw::Level => "level",
            Draw::Reference => "reference",
        };
        let series = self.series.iter().map(|c| {
            let points: Vec<Value> = c.points.iter().map(dot).collect();
            json!({ "name": c.name, "draw": draw(c.draw), "points": points })
        });
        let marks = self.marks.iter().map(|m| json!({ "x": m.x, "label": m.label }));
        json!({
            "x": self.x.label,
            "y": self.y.label,
            "series": series.collect::<Vec<_>>(),
            "marks": marks.collect::<Vec<_>>(),
        })
    }
}

/// Four significant digits, thousands and more with `k`, `M`, `G`, `T`.
pub(crate) fn short(v: f64) -> String {
    let size = v.abs();
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
    let (factor, unit) = match steps.into_iter().find(|s| size >= s.0) {
        Some((_, "k")) => (1e3, "k"),
        Some(step) => step,
        None => (1.0, ""),
    };
    let v = v / factor;
    if v != 0.0 && v.abs() < 1e-4 {
        return format!("{v:.3e}");
    }
    let digits = (3 - v.abs().max(1e-12).log10().floor() as i32).clamp(0, 7) as usize;
    format!("{v:.digits$}{unit}")
}
