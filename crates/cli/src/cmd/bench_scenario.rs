//! `tussle bench --scenario`: a scenario's two sides on real threads of this machine, in randomly ordered pairs.

use super::predict::open_side;
use crate::global::Global;
use anyhow::{Context, anyhow};
use std::process::ExitCode;
use std::time::Duration;
use tussle_render::{Cell, Fact, Node, Span, View};
use tussle_scenarios::predict::Question;
use tussle_scenarios::{Setup, Side, Story, World};
use tussle_stats::{Rng, log_ratios, paired_t};

/// What runs.
pub struct Plan<'a> {
    /// Scenario by number.
    pub id: &'a str,
    /// The side compared from, if not the scenario's own.
    pub before: Option<&'a str>,
    /// The side compared with.
    pub after: Option<&'a str>,
    /// Tasks.
    pub tasks: u32,
    /// Pairs of runs.
    pub pairs: usize,
    /// Seed of the order and of phases.
    pub seed: u64,
}

/// Runs pairs of a scenario's two sides, 0.2 s each.
pub fn run(plan: &Plan<'_>, global: &Global) -> anyhow::Result<ExitCode> {
    let &Plan { id, tasks, pairs, seed, .. } = plan;
    let story = Story::find(id)?;
    let mut question = Question::of(story)?;
    if let Some(side) = plan.before {
        question.before = open_side(story, side, global)?;
    }
    if let Some(side) = plan.after {
        question.after = open_side(story, side, global)?;
    }
    let cpus = tussle_host::threads::cpus();
    let mut rng = Rng::new(seed);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for pair in 0..pairs.max(2) as u64 {
        // Phases and random streams are the same on both sides of a pair.
        let setup = Setup { tasks: Some(tasks), phase: rng.next_u64(), ..Setup::new(tasks) };
        let measure = |side: &Side| -> anyhow::Result<f64> {
            let world = World::build(story, side, &setup)?;
            let run = tussle_host::threads::run_scenario(&world, Duration::from_millis(200), seed ^ pair);
            let run = run.map_err(|e| anyhow!("{id} {}: objects are wrong at the end: {e}", side.label()))?;
            Ok(run.throughput())
        };
        let (b, a) = if rng.coin() {
            let b = measure(&question.before)?;
            (b, measure(&question.after)?)
        } else {
            let a = measure(&question.after)?;
            (measure(&question.before)?, a)
        };
        before.push(b);
        after.push(a);
    }
    let ratios = log_ratios(&before, &after).context("a run did nothing")?;
    let test = paired_t(&ratios, 0.95).context("too few pairs")?;
    let percent = |x: f64| Cell::number(x.exp() - 1.0, format!("{:+.1}%", (x.exp() - 1.0) * 100.0));
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let mean = |xs: &[f64]| xs.iter().sum::<f64>() / xs.len() as f64;
    let rate = |x: f64| Cell::number(x, format!("{x:.0}/s"));
    let facts = Node::Facts(vec![
        fact("scenario", "Scenario", Cell::text(format!("{id} {}", story.about().title))),
        fact("tasks", "Tasks", Cell::count(u64::from(tasks))),
        fact("cpus", "CPUs of this machine", Cell::count(u64::from(cpus))),
        fact("before", question.before.label(), rate(mean(&before))),
        fact("after", question.after.label(), rate(mean(&after))),
        fact("effect", "Effect (geometric mean)", percent(test.mean)),
        fact("low", "95% interval from", percent(test.interval.low)),
        fact("high", "to", percent(test.interval.high)),
        fact("unit", "Numbers", Cell::text("measured here")),
    ]);
    let checked = format!("Objects were checked at the end of all {} runs.", before.len() * 2);
    let mut nodes = vec![facts, Node::Text(vec![Span::plain(checked)])];
    if test.interval.contains(0.0) {
        let text = format!("The interval holds zero: {} pairs show no difference.", before.len());
        nodes.push(Node::Text(vec![Span::plain(text)]));
    }
    if tasks > cpus {
        let text =
            format!("{tasks} tasks share {cpus} CPUs: this measures the scheduler as much as the lock.");
        nodes.push(Node::Text(vec![Span::plain(text)]));
    }
    global.print(&View { kind: "bench_scenario", schema_version: 1, nodes })?;
    Ok(ExitCode::SUCCESS)
}
