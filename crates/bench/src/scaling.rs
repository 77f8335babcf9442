//! Scaling curves: one workload with different numbers of tasks, measured in random order.

use tussle_render::{Axis, Cell, Column, Curve, Dot, Draw, Mark, Node, Plot, Scale, Span, Tone};
use tussle_stats::{Interval, mean, paired_t, summary};

use crate::paired::Paired;
use crate::sample::Results;
use crate::verdict::percent;
use crate::view::significant;

/// The line of perfect scaling is cut at this multiple of the best rate, or it would press the curve to the ground.
const PERFECT_CUT: f64 = 1.5;

/// One point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// `threads` or `processes`.
    pub mode: String,
    /// Tasks.
    pub tasks: usize,
    /// Samples.
    pub samples: usize,
    /// Geometric mean of the rate of all tasks together.
    pub rate: f64,
    /// 95% interval of it.
    pub interval: Option<Interval>,
    /// Coefficient of variation.
    pub coeff_var_percent: Option<f64>,
    /// Rate per task against that of the first point of the same mode, with its paired interval; 1 is perfect scaling.
    pub efficiency: Option<(f64, Interval)>,
}

/// The points of a result whose arms are called `threads-4`, `processes-4`. Arms without samples are left out.
pub fn points(results: &Results) -> Vec<Point> {
    let arms = &results.header.arms;
    let parse = |name: &str| {
        let (mode, tasks) = name.rsplit_once('-')?;
        Some((mode.to_string(), tasks.parse::<usize>().ok().filter(|&n| n > 0)?))
    };
    let mut firsts: Vec<(String, usize, usize)> = Vec::new();
    let mut out = Vec::new();
    for (arm, name) in arms.iter().enumerate() {
        let Some((mode, tasks)) = parse(name) else { continue };
        let values: Vec<f64> =
            results.samples.iter().filter(|s| s.arm == arm && !s.warmup).filter_map(|s| s.value).collect();
        let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
        let Some(rate) = mean(&logs).map(f64::exp) else { continue };
        let first = firsts.iter().find(|f| f.0 == mode).cloned();
        let efficiency = first.as_ref().and_then(|(_, first_arm, first_tasks)| {
            let d = Paired::from_results(results, *first_arm, arm).ok()?.log_ratios()?;
            let t = paired_t(&d, 0.95)?;
            let perfect = (tasks as f64 / *first_tasks as f64).ln();
            let share = |x: f64| (x - perfect).exp();
            Some((share(t.mean), Interval { low: share(t.interval.low), high: share(t.interval.high) }))
        });
        if first.is_none() {
            firsts.push((mode.clone(), arm, tasks));
        }
        let interval = paired_t(&logs, 0.95).map(|t| t.interval);
        out.push(Point {
            mode,
            tasks,
            samples: values.len(),
            rate,
            interval: interval.map(|i| Interval { low: i.low.exp(), high: i.high.exp() }),
            coeff_var_percent: summary::coeff_var_percent(&values),
            efficiency,
        });
    }
    out
}

/// Plot and table of a curve, measured on a machine with so many logical CPUs (0 when unknown).
pub fn nodes(name: &str, points: &[Point], cpus: usize) -> Vec<Node> {
    let rows = points.iter().map(|p| {
        let interval = p.interval.map_or_else(Cell::unknown, |i| {
            let text = format!("{} .. {}", significant(i.low), significant(i.high));
            Cell::value(serde_json::json!([i.low, i.high]), text)
        });
        let cv = p.coeff_var_percent.map_or_else(Cell::unknown, |c| Cell::number(c, format!("{c:.2}%")));
        let efficiency = p.efficiency.map_or_else(
            || Cell::value(serde_json::Value::Null, "reference"),
            |(e, i)| {
                let text = format!("{:.0}% ({:.0} .. {:.0}%)", 100.0 * e, 100.0 * i.low, 100.0 * i.high);
                Cell::value(serde_json::json!({ "share": e, "low": i.low, "high": i.high }), text)
            },
        );
        vec![
            Cell::text(p.mode.clone()),
            Cell::count(p.tasks as u64),
            Cell::number(p.rate, significant(p.rate)),
            interval,
            cv,
            efficiency,
            Cell::count(p.samples as u64),
        ]
    });
    let columns = vec![
        Column::text("mode", "mode"),
        Column::number("tasks", "tasks"),
        Column::number("operations_per_s", "operations/s"),
        Column::text("interval", "95% interval"),
        Column::number("coeff_var_percent", "CoeffVar"),
        Column::text("efficiency", "per task against the first"),
        Column::number("samples", "samples"),
    ];
    let table = Node::Table { key: "points".into(), columns, rows: rows.collect() };
    let heading = Node::Text(vec![Span { text: format!("Scaling of {name}"), tone: Tone::Strong }]);
    vec![heading, Node::Plot(plot(name, points, cpus)), table, spread(points)]
}

/// The curves of all modes from zero, and what perfect scaling from the first point would be.
fn plot(name: &str, points: &[Point], cpus: usize) -> Plot {
    let mut modes: Vec<&str> = Vec::new();
    for p in points {
        if !modes.contains(&p.mode.as_str()) {
            modes.push(&p.mode);
        }
    }
    let best = points.iter().map(|p| p.rate).fold(0.0, f64::max);
    let mut series = Vec::new();
    for mode in modes {
        let of_mode = || points.iter().filter(|p| p.mode == mode);
        let dots = of_mode().map(|p| Dot {
            x: p.tasks as f64,
            y: p.rate,
            interval: p.interval.map(|i| (i.low, i.high)),
            label: format!("{mode}-{}", p.tasks),
        });
        let mut dots: Vec<Dot> = dots.collect();
        dots.sort_by(|a, b| a.x.total_cmp(&b.x));
        let perfect = perfect(&dots, PERFECT_CUT * best);
        series.push(Curve { name: mode.into(), draw: Draw::Points, points: dots });
        if let Some(points) = perfect {
            series.push(Curve { name: format!("{mode}, if perfect"), draw: Draw::Reference, points });
        }
    }
    let most = points.iter().map(|p| p.tasks).max().unwrap_or(1);
    let beyond = (1..most).contains(&cpus).then(|| Mark {
        x: cpus as f64 + 0.5,
        label: format!("more tasks than CPUs ({cpus})"),
        tone: Tone::Dim,
    });
    let scale = if most >= 8 { Scale::Log2 } else { Scale::Linear };
    Plot {
        key: "plot".into(),
        title: format!("{name}: operations/s of all tasks together, with 95% intervals"),
        x: Axis { label: "tasks".into(), scale, ..Axis::default() },
        y: Axis { label: "operations/s".into(), from_zero: true, ..Axis::default() },
        series,
        marks: beyond.into_iter().collect(),
    }
}

/// The rate per task of the first point at every number of tasks, as far as `limit`.
fn perfect(dots: &[Dot], limit: f64) -> Option<Vec<Dot>> {
    let (first, last) = (dots.first()?, dots.last()?);
    let slope = first.y / first.x;
    let end = last.x.min(limit / slope);
    if end <= first.x {
        return None;
    }
    // A straight line is bent on an axis of doublings: enough points make it smooth.
    let at = |i: usize| first.x * (end / first.x).powf(i as f64 / 24.0);
    let dot = |x: f64| Dot { x, y: slope * x, interval: None, label: String::new() };
    Some((0..=24).map(|i| dot(at(i))).collect())
}

fn spread(points: &[Point]) -> Node {
    let best = points.iter().max_by(|a, b| a.rate.total_cmp(&b.rate));
    let first = best.and_then(|best| points.iter().find(|p| p.mode == best.mode));
    let text = match (first, best) {
        (Some(first), Some(best)) if best.tasks > first.tasks => {
            let gain = percent(best.rate / first.rate);
            format!("The best rate is at {} {}: {gain} against {}.", best.tasks, best.mode, first.tasks)
        }
        (Some(_), Some(best)) => format!("More tasks do not help: the best rate is at {}.", best.tasks),
        _ => String::new(),
    };
    Node::Text(vec![Span::plain(text)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Header, Sample, Status};
    use crate::{Metric, MetricKind};

    fn results(arms: &[(&str, f64)]) -> Results {
        let header = Header {
            cpus: 2,
            ..Header::new(
                arms.iter().map(|a| a.0.to_string()).collect(),
                Metric::regex("x", MetricKind::Rate),
            )
        };
        let sample = |pair: usize, arm: usize| Sample {
            value: Some(arms[arm].1 * (1.0 + 0.01 * (pair % 3) as f64)),
            ..Sample::new(pair, arm, pair, Status::Ok)
        };
        let samples = (0..6).flat_map(|pair| (0..arms.len()).map(move |arm| (pair, arm)));
        Results { header, samples: samples.map(|(p, a)| sample(p, a)).collect() }
    }

    #[test]
    fn efficiency_is_the_rate_per_task_against_the_first_point_of_the_same_mode() {
        let found = points(&results(&[
            ("threads-1", 100.0),
            ("threads-4", 200.0),
            ("processes-2", 50.0),
            ("odd", 1.0),
        ]));
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].efficiency, None);
        let (share, interval) = found[1].efficiency.unwrap();
        assert!((share - 0.5).abs() < 1e-9 && interval.contains(share), "{share}");
        assert_eq!((found[2].efficiency, found[2].samples), (None, 6));
        assert!(found[0].interval.unwrap().contains(101.0));
        let plot = plot("w", &found, 2);
        let drawn: Vec<_> = plot.series.iter().map(|c| (c.name.as_str(), c.points.len())).collect();
        // One point alone has nothing to scale to.
        assert_eq!(drawn, [("threads", 2), ("threads, if perfect", 25), ("processes", 1)]);
        let perfect = plot.series[1].points.last().unwrap();
        assert!(perfect.y <= 1.5 * 202.1 && (perfect.y / perfect.x - 101.0).abs() < 0.1, "{perfect:?}");
    }
}
