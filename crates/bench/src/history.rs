//! A series of results per commit, kept as JSON Lines in the repository, and the commits at which it changed.

use serde::{Deserialize, Serialize};
use tussle_render::{Axis, Cell, Column, Curve, Dot, Draw, Mark, Node, Plot, Span, Tone};
use tussle_stats::change::{Search, e_divisive};
use tussle_stats::{Interval, Rng, dist, welch};

use crate::verdict::percent;
use crate::view::significant;

/// Version of the lines.
pub const SCHEMA_VERSION: u32 = 1;

/// One line: the samples of one benchmark at one commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// [`SCHEMA_VERSION`].
    pub tussle_history: u32,
    /// Commit hash.
    pub commit: String,
    /// First line of its message.
    #[serde(default)]
    pub subject: String,
    /// Name of the benchmark.
    pub name: String,
    /// Metric with its unit.
    pub metric: String,
    /// Which way is better.
    pub higher_is_better: bool,
    /// Samples, all finite and positive.
    pub values: Vec<f64>,
}

/// Reads a history; lines that cannot be used become problems.
pub fn parse(text: &str) -> (Vec<Entry>, Vec<String>) {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let at = i + 1;
        match serde_json::from_str::<Entry>(line) {
            Ok(e) if e.tussle_history != SCHEMA_VERSION => {
                problems.push(format!("line {at}: version {} is not known", e.tussle_history));
            }
            Ok(e) if e.values.is_empty() || e.values.iter().any(|v| !v.is_finite() || *v <= 0.0) => {
                problems.push(format!("line {at}: its values must be finite and positive, at least one"));
            }
            Ok(e) => entries.push(e),
            Err(e) => problems.push(format!("line {at}: {e}")),
        }
    }
    (entries, problems)
}

/// One commit of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Commit hash.
    pub commit: String,
    /// First line of its message.
    pub subject: String,
    /// Geometric mean.
    pub mean: f64,
    /// 95% interval of it; absent with one sample.
    pub interval: Option<Interval>,
}

/// A commit at which a series changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Index of the first point of the new level.
    pub index: usize,
    /// New level over old level.
    pub ratio: f64,
    /// 95% interval of that ratio (Welch, on logarithms of the points of both levels).
    pub interval: Option<Interval>,
    /// Permutation p-value of the change.
    pub p: f64,
}

/// The history of one benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name.
    pub name: String,
    /// Metric with its unit.
    pub metric: String,
    /// Which way is better.
    pub higher_is_better: bool,
    /// Commits in the order of the file.
    pub points: Vec<Point>,
    /// Where it changed.
    pub changes: Vec<Change>,
    /// Commits with another metric under the same name, left out.
    pub mixed: usize,
}

/// All series of a history. Lines of the same commit and name are put together.
pub fn analyse(entries: &[Entry]) -> Vec<Series> {
    let mut names: Vec<&str> = Vec::new();
    for e in entries {
        if !names.contains(&e.name.as_str()) {
            names.push(&e.name);
        }
    }
    names.into_iter().filter_map(|name| series(entries.iter().filter(|e| e.name == name).collect())).collect()
}

fn series(entries: Vec<&Entry>) -> Option<Series> {
    let first = *entries.first()?;
    let same = |e: &&Entry| e.metric == first.metric && e.higher_is_better == first.higher_is_better;
    let mixed = entries.iter().filter(|e| !same(e)).count();
    let mut samples: Vec<(&Entry, Vec<f64>)> = Vec::new();
    for e in entries.iter().copied().filter(same) {
        let logs = e.values.iter().map(|v| v.ln());
        match samples.iter_mut().find(|(known, _)| known.commit == e.commit) {
            Some((_, all)) => all.extend(logs),
            None => samples.push((e, logs.collect())),
        }
    }
    let points: Vec<Point> = samples.iter().filter_map(|(e, logs)| point(e, logs)).collect();
    let logs: Vec<f64> = points.iter().map(|p| p.mean.ln()).collect();
    // Eight commits have 70 ways to split in half: at 1% no change in a short history could ever be found.
    let alpha = if logs.len() < 16 { 0.05 } else { 0.01 };
    let search = Search { segment_min: 3, alpha, permutations: 399 };
    let found = e_divisive(&logs, search, &mut Rng::new(1));
    let bounds: Vec<usize> =
        std::iter::once(0).chain(found.iter().map(|c| c.index)).chain(std::iter::once(logs.len())).collect();
    let changes = found.iter().enumerate().filter_map(|(i, c)| {
        let (old, new) = (&logs[bounds[i]..c.index], &logs[c.index..bounds[i + 2]]);
        let ratio = tussle_stats::mean(new)? - tussle_stats::mean(old)?;
        Some(Change { index: c.index, ratio: ratio.exp(), interval: interval_of(old, new, ratio), p: c.p })
    });
    let changes = changes.collect();
    let (name, metric) = (first.name.clone(), first.metric.clone());
    Some(Series { name, metric, higher_is_better: first.higher_is_better, points, changes, mixed })
}

fn point(e: &Entry, logs: &[f64]) -> Option<Point> {
    let interval = tussle_stats::paired_t(logs, 0.95).map(|t| t.interval);
    let interval = interval.map(|i| Interval { low: i.low.exp(), high: i.high.exp() });
    let mean = tussle_stats::mean(logs)?.exp();
    Some(Point { commit: e.commit.clone(), subject: e.subject.clone(), mean, interval })
}

fn interval_of(old: &[f64], new: &[f64], difference: f64) -> Option<Interval> {
    let t = welch::welch(old, new)?;
    let half = dist::t_quantile(0.975, t.df)? * (difference / t.t).abs();
    Some(Interval { low: (difference - half).exp(), high: (difference + half).exp() })
}

/// Whether the last change of any series made it worse.
pub fn regressed(all: &[Series]) -> bool {
    let worse = |s: &Series, c: &Change| if s.higher_is_better { c.ratio < 1.0 } else { c.ratio > 1.0 };
    all.iter().any(|s| s.changes.last().is_some_and(|c| worse(s, c)))
}

/// Plot, points and changes of every series.
pub fn nodes(all: &[Series], problems: &[String]) -> Vec<Node> {
    let mut out = vec![Node::List { key: "series".into(), items: all.iter().map(section).collect() }];
    if !problems.is_empty() {
        let rows = problems.iter().map(|p| vec![Cell::text(p.clone()).tone(Tone::Warn)]).collect();
        let columns = vec![Column::text("text", "could not be read")];
        out.push(Node::Table { key: "problems".into(), columns, rows });
    }
    out
}

fn section(s: &Series) -> Node {
    let data = |key: &str, value: serde_json::Value| Node::Data { key: key.into(), value };
    let mut nodes = vec![
        data("name", s.name.clone().into()),
        data("metric", s.metric.clone().into()),
        data("higher_is_better", s.higher_is_better.into()),
        Node::Plot(plot(s)),
    ];
    nodes.push(points_table(s));
    nodes.push(changes_table(s));
    if s.changes.is_empty() {
        nodes.push(Node::Text(vec![Span { text: "No change of level.".into(), tone: Tone::Dim }]));
    }
    if s.mixed > 0 {
        let text = format!("{} lines with another metric under this name are left out.", s.mixed);
        nodes.push(Node::Text(vec![Span { text, tone: Tone::Warn }]));
    }
    Node::Section { key: s.name.clone(), title: format!("{}: {}", s.name, s.metric), nodes }
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

fn points_table(s: &Series) -> Node {
    let rows = s.points.iter().map(|p| {
        let interval = p.interval.map_or_else(Cell::unknown, |i| {
            let text = format!("{} .. {}", significant(i.low), significant(i.high));
            Cell::value(serde_json::json!([i.low, i.high]), text)
        });
        vec![
            Cell::text(short(&p.commit)).tone(Tone::Name),
            Cell::number(p.mean, significant(p.mean)),
            interval,
            Cell::text(p.subject.clone()),
        ]
    });
    let columns = vec![
        Column::text("commit", "commit"),
        Column::number("mean", "mean"),
        Column::text("interval", "95% interval"),
        Column::text("subject", "subject"),
    ];
    Node::Table { key: "points".into(), columns, rows: rows.collect() }
}

fn changes_table(s: &Series) -> Node {
    let rows = s.changes.iter().map(|c| {
        let good = (c.ratio > 1.0) == s.higher_is_better;
        let interval = c.interval.map_or_else(Cell::unknown, |i| {
            Cell::value(
                serde_json::json!([i.low, i.high]),
                format!("{} .. {}", percent(i.low), percent(i.high)),
            )
        });
        let at = &s.points[c.index];
        vec![
            Cell::text(short(&at.commit)).tone(Tone::Name),
            Cell::number(c.ratio, percent(c.ratio)).tone(if good { Tone::Good } else { Tone::Bad }),
            interval,
            Cell::number(c.p, format!("{:.4}", c.p)),
            Cell::text(at.subject.clone()),
        ]
    });
    let columns = vec![
        Column::text("commit", "changed at"),
        Column::number("ratio", "change"),
        Column::text("interval", "95% interval"),
        Column::number("p", "p"),
        Column::text("subject", "subject"),
    ];
    Node::Table { key: "changes".into(), columns, rows: rows.collect() }
}

/// Means with intervals, the level of each stretch without a change, a mark at every change.
fn plot(s: &Series) -> Plot {
    let dots = s.points.iter().enumerate().map(|(i, p)| Dot {
        x: i as f64,
        y: p.mean,
        interval: p.interval.map(|i| (i.low, i.high)),
        label: short(&p.commit).to_string(),
    });
    let measured = Curve { name: s.name.clone(), draw: Draw::Scatter, points: dots.collect() };
    let mut series = vec![measured];
    let starts = std::iter::once(0).chain(s.changes.iter().map(|c| c.index));
    let ends = s.changes.iter().map(|c| c.index).chain(std::iter::once(s.points.len()));
    for (i, (from, to)) in starts.zip(ends).enumerate() {
        let logs: Vec<f64> = s.points[from..to].iter().map(|p| p.mean.ln()).collect();
        let Some(level) = tussle_stats::mean(&logs).map(f64::exp) else { continue };
        let dot = |x: f64| Dot { x, y: level, interval: None, label: String::new() };
        let points = vec![dot(from as f64 - 0.4), dot(to as f64 - 0.6)];
        let name = if i == 0 { "level".into() } else { String::new() };
        series.push(Curve { name, draw: Draw::Level, points });
    }
    let mark = |c: &Change| Mark {
        x: c.index as f64 - 0.5,
        label: format!("{} at {}", percent(c.ratio), short(&s.points[c.index].commit)),
        tone: if (c.ratio > 1.0) == s.higher_is_better { Tone::Good } else { Tone::Bad },
    };
    let ticks = s.points.iter().enumerate().map(|(i, p)| (i as f64, short(&p.commit).to_string()));
    let direction = if s.higher_is_better { "higher is better" } else { "lower is better" };
    Plot {
        key: "plot".into(),
        title: format!("{} per commit, geometric means with 95% intervals ({direction})", s.metric),
        x: Axis { label: "commit, oldest first".into(), ticks: ticks.collect(), ..Axis::default() },
        y: Axis { label: s.metric.clone(), ..Axis::default() },
        series,
        marks: s.changes.iter().map(mark).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(commit: usize, values: Vec<f64>) -> Entry {
        Entry {
            tussle_history: 1,
            commit: format!("{commit:040}"),
            subject: format!("change {commit}"),
            name: "server".into(),
            metric: "requests/s".into(),
            higher_is_better: true,
            values,
        }
    }

    fn history(levels: &[(usize, f64)]) -> Vec<Entry> {
        let mut rng = Rng::new(3);
        let levels = levels.iter().flat_map(|&(n, level)| std::iter::repeat_n(level, n));
        let values =
            |level: f64, rng: &mut Rng| (0..5).map(|_| level * (1.0 + 0.02 * rng.normal())).collect();
        levels.enumerate().map(|(i, level)| entry(i, values(level, &mut rng))).collect()
    }

    #[test]
    fn a_drop_is_found_at_its_commit_with_its_size() {
        let all = analyse(&history(&[(12, 1000.0), (10, 900.0)]));
        let [c] = all[0].changes.as_slice() else { panic!("{:?}", all[0].changes) };
        assert_eq!(c.index, 12);
        assert!(c.interval.unwrap().contains(0.9), "{c:?}");
        assert!(regressed(&all));
        let plot = plot(&all[0]);
        assert_eq!(plot.marks.iter().map(|m| m.x).collect::<Vec<_>>(), [11.5]);
        let levels: Vec<f64> =
            plot.series.iter().filter(|c| c.draw == Draw::Level).map(|c| c.points[0].y).collect();
        assert!((levels[1] / levels[0] - c.ratio).abs() < 1e-9, "{levels:?}");
    }

    #[test]
    fn a_plain_drop_is_found_in_a_short_history() {
        let all = analyse(&history(&[(4, 1000.0), (4, 800.0)]));
        assert_eq!(all[0].changes.iter().map(|c| c.index).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn a_level_history_has_no_change() {
        let all = analyse(&history(&[(25, 1000.0)]));
        assert!(all[0].changes.is_empty() && !regressed(&all));
        assert_eq!(all[0].points.len(), 25);
    }

    #[test]
    fn lines_without_sense_are_problems_and_mixed_metrics_are_counted() {
        let good = serde_json::to_string(&entry(1, vec![1.0, 2.0])).unwrap();
        let negative = serde_json::to_string(&entry(1, vec![-1.0])).unwrap();
        let (entries, problems) = parse(&format!("{good}\n{negative}\n{{\"x\":1}}\n\n{good}"));
        assert_eq!((entries.len(), problems.len()), (2, 2));
        assert!(problems[0].starts_with("line 2: its values"));
        let other = Entry { metric: "s".into(), ..entry(2, vec![1.0]) };
        let all = analyse(&[entry(1, vec![1.0]), other, entry(1, vec![3.0])]);
        assert_eq!((all[0].mixed, all[0].points.len()), (1, 1));
        assert!((all[0].points[0].mean - 3f64.sqrt()).abs() < 1e-12);
    }
}
