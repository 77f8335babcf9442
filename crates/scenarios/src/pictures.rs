//! A prediction as pictures; the tables beside them have the numbers.

use crate::answer::{Influence, Point, Prediction};
use tussle_render::{Axis, Curve, Dot, Draw, Node, Plot, Scale};

/// Effect and interval by number of CPUs. A line in the middle would be all of a single number.
pub(crate) fn scaling(p: &Prediction) -> Option<Node> {
    let (first, last) = (p.curve.first()?, p.curve.last().filter(|_| p.curve.len() > 1)?);
    let dot = |x: &Point| Dot {
        x: f64::from(x.cpus),
        y: x.median * 100.0,
        interval: Some((x.low * 100.0, x.high * 100.0)),
        label: format!("{} CPUs", x.cpus),
    };
    let level = |x: &Point| Dot { x: f64::from(x.cpus), y: 0.0, interval: None, label: String::new() };
    let predicted =
        Curve { name: "predicted".into(), draw: Draw::Points, points: p.curve.iter().map(dot).collect() };
    let none = Curve {
        name: "no difference".into(),
        draw: Draw::Reference,
        points: vec![level(first), level(last)],
    };
    let scale = if last.cpus >= 4 * first.cpus { Scale::Log2 } else { Scale::Linear };
    Some(Node::Plot(Plot {
        key: String::new(),
        title: "Change of throughput by number of CPUs: median, and 90% of the draws".into(),
        x: Axis { label: "CPUs".into(), scale, ..Axis::default() },
        y: Axis { label: "change of throughput".into(), from_zero: true, percent: true, ..Axis::default() },
        series: vec![predicted, none],
        marks: Vec::new(),
    }))
}

/// The tornado: how far each unknown moves the effect.
pub(crate) fn tornado<'a>(influences: impl Iterator<Item = &'a Influence>) -> Option<Node> {
    let dot = |(i, x): (usize, &Influence)| Dot {
        x: i as f64,
        y: (x.low + x.high) * 50.0,
        interval: Some((x.low * 100.0, x.high * 100.0)),
        label: x.unknown.key.into(),
    };
    let points: Vec<Dot> = influences.enumerate().map(dot).collect();
    if points.is_empty() {
        return None;
    }
    Some(Node::Plot(Plot {
        key: String::new(),
        title: "Mean effect from the lower to the upper third of each unknown".into(),
        x: Axis::default(),
        y: Axis { label: "change of throughput".into(), from_zero: true, percent: true, ..Axis::default() },
        series: vec![Curve { name: String::new(), draw: Draw::Bars, points }],
        marks: Vec::new(),
    }))
}
