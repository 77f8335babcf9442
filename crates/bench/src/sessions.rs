//! Several sessions of one benchmark as one answer.
//!
//! An interval of pairs says what the same session would say again. Memory lies elsewhere in the next one, neighbours
//! and clock differ: sessions of the same binaries may give disjoint intervals. Of two sessions the union of their
//! intervals counts; from three on sessions are the samples, and Student's t over their means tells what others
//! would give.

use tussle_render::{Cell, Column, Fact, Node, Span};
use tussle_stats::{Interval, mean, paired};

use crate::verdict::{Outcome, Ratio, interval, outcome, percent};
use crate::view::tone;
use crate::{Criterion, Paired};

/// One session.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Where it is from.
    pub name: String,
    /// Both arms.
    pub paired: Paired,
}

/// All of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Joined {
    /// In one word.
    pub outcome: Outcome,
    /// Candidate/reference.
    pub ratio: Ratio,
    /// Of every session: name, pairs, ratio.
    pub sessions: Vec<(String, usize, Ratio)>,
    /// Two sessions exclude each other's means.
    pub disjoint: bool,
}

/// Why sessions are none of the same thing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Fewer than two.
    #[error("give two sessions or more of `tussle bench`")]
    TooFew,
    /// Other arms or another metric.
    #[error("{0} measures {1}; {2} measures {3}")]
    Differ(String, String, String, String),
    /// The same runs twice.
    #[error("{0} and {1} are the same session: another one of the same commands is needed")]
    Same(String, String),
    /// Nothing to compare.
    #[error("{0}: fewer than two complete pairs")]
    Short(String),
}

/// Joins sessions that measured the same two arms.
///
/// # Errors
/// [`JoinError`].
pub fn join(sessions: &[Session], question: Criterion) -> Result<Joined, JoinError> {
    let [first, _, ..] = sessions else { return Err(JoinError::TooFew) };
    let what = |s: &Session| {
        let p = &s.paired;
        format!("{} of {} against {}", p.metric.name, p.names[1], p.names[0])
    };
    if let Some(other) = sessions.iter().find(|s| what(s) != what(first)) {
        return Err(JoinError::Differ(first.name.clone(), what(first), other.name.clone(), what(other)));
    }
    let twice = sessions.iter().enumerate().find_map(|(i, a)| {
        let same = |b: &&Session| a.paired.pairs == b.paired.pairs;
        sessions[..i].iter().find(same).map(|b| JoinError::Same(b.name.clone(), a.name.clone()))
    });
    if let Some(same) = twice {
        return Err(same);
    }
    let mut means = Vec::new();
    let mut each: Vec<Interval> = Vec::new();
    for s in sessions {
        let short = || JoinError::Short(s.name.clone());
        let logs = s.paired.log_ratios().ok_or_else(short)?;
        means.push(mean(&logs).ok_or_else(short)?);
        each.push(interval(&logs, question.confidence, s.paired.sequential).ok_or_else(short)?);
    }
    let middle = mean(&means).ok_or(JoinError::TooFew)?;
    let whole = match each.as_slice() {
        [a, b] => Some(Interval { low: a.low.min(b.low), high: a.high.max(b.high) }),
        _ => paired::paired_t(&means, question.confidence).map(|t| t.interval),
    };
    let disjoint = each.iter().any(|a| each.iter().any(|b| a.high < b.low));
    let ratio = |mean: f64, i: Option<Interval>| Ratio::of(mean, i);
    let rows = sessions.iter().zip(&means).zip(&each);
    Ok(Joined {
        outcome: outcome(whole, question.margin, first.paired.metric.higher_is_better()),
        ratio: ratio(middle, whole),
        sessions: rows
            .map(|((s, m), i)| (s.name.clone(), s.paired.pairs.len(), ratio(*m, Some(*i))))
            .collect(),
        disjoint,
    })
}

/// For the screen.
pub fn nodes(joined: &Joined, first: &Paired) -> Vec<Node> {
    let n = joined.sessions.len();
    let text = format!(
        "{}: {} of {} against {} {}, {n} sessions",
        joined.outcome.name(),
        first.metric.name,
        first.names[1],
        first.names[0],
        joined.ratio.text()
    );
    let columns = vec![
        Column::text("session", "session"),
        Column::number("pairs", "pairs"),
        Column::number("ratio", "change"),
        Column::text("interval", "interval"),
    ];
    let row = |(name, pairs, ratio): &(String, usize, Ratio)| {
        let ends = ratio.low.zip(ratio.high);
        let ends = ends.map_or_else(Cell::unknown, |(low, high)| {
            Cell::value(vec![low, high], format!("{} .. {}", percent(low), percent(high)))
        });
        let change = Cell::number(ratio.ratio, percent(ratio.ratio));
        vec![Cell::text(name.clone()), Cell::count(*pairs as u64), change, ends]
    };
    let rows = joined.sessions.iter().map(row).collect();
    let how = if n == 2 { "union of the two intervals" } else { "Student's t over the means of sessions" };
    let apart = if joined.disjoint {
        "some exclude each other: more sessions, not more pairs, tell more"
    } else {
        ""
    };
    let fact = |key: &str, text: &str| Fact { key: key.into(), label: key.into(), cell: Cell::text(text) };
    let mut facts = vec![fact("rule", how)];
    facts.extend((!apart.is_empty()).then(|| fact("disjoint", apart)));
    vec![
        Node::Text(vec![Span { text, tone: tone(joined.outcome) }]),
        Node::Table { key: "sessions".into(), columns, rows },
        Node::Data {
            key: "ratio".into(),
            value: serde_json::json!({
                "low": joined.ratio.low,
                "ratio": joined.ratio.ratio,
                "high": joined.ratio.high,
            }),
        },
        Node::Data { key: "outcome".into(), value: joined.outcome.name().into() },
        Node::Facts(facts),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metric;
    use crate::sample::{Header, Results, Sample, Status};

    /// Pairs with these log ratios.
    fn session(name: &str, logs: &[f64]) -> Session {
        let header = Header::new(vec!["a".into(), "b".into()], Metric::wall());
        let run = |(pair, arm, value): (usize, usize, f64)| Sample {
            value: Some(value),
            ..Sample::new(pair, arm, pair, Status::Ok)
        };
        let runs = logs.iter().enumerate().flat_map(|(i, l)| [(i, 0, 1.0), (i, 1, l.exp())]);
        let results = Results { header, samples: runs.map(run).collect() };
        Session { name: name.into(), paired: Paired::from_results(&results, 0, 1).unwrap() }
    }

    #[test]
    fn two_sessions_that_exclude_each_other_are_undecided() {
        let (a, b) = (session("a", &[0.10, 0.11, 0.10, 0.11]), session("b", &[-0.10, -0.11, -0.10, -0.11]));
        let joined = join(&[a.clone(), b], Criterion::default()).unwrap();
        assert!(joined.disjoint && joined.outcome == Outcome::Inconclusive, "{joined:?}");
        assert!(joined.ratio.low.unwrap() < 0.91 && joined.ratio.high.unwrap() > 1.10, "{joined:?}");
        assert_eq!(join(&[a], Criterion::default()), Err(JoinError::TooFew));
    }

    #[test]
    fn from_three_on_sessions_are_the_samples() {
        let of = |x: f64| session("s", &[x, x + 0.01, x, x + 0.01]);
        let joined = join(&[of(0.20), of(0.21), of(0.22)], Criterion::default()).unwrap();
        assert_eq!((joined.outcome, joined.sessions.len()), (Outcome::Regressed, 3));
        let twice = join(&[of(0.20), of(0.20)], Criterion::default());
        assert!(matches!(twice, Err(JoinError::Same(_, _))), "{twice:?}");
        let far = join(&[of(0.20), of(0.0), of(0.4)], Criterion::default()).unwrap();
        assert_eq!(far.outcome, Outcome::Inconclusive);
    }
}
