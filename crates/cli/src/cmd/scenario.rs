//! `tussle scenario`: a lock story's two sides on real threads of this machine, in randomly ordered pairs.

use super::predict::open_side;
use crate::global::Global;
use anyhow::{Context, anyhow};
use std::process::ExitCode;
use std::time::Duration;
use tussle_render::{Cell, Fact, Node, Span, View};
use tussle_scenarios::predict::Comparison;
use tussle_scenarios::{Setup, Side, Story, World, view};
use tussle_stats::{Rng, log_ratios, paired_t};

/// Time that one run counts.
const RUN: Duration = Duration::from_millis(200);

/// Run a built-in lock story on real threads, both sides in randomly ordered pairs.
///
/// Without a name it lists the stories; `tussle predict` simulates the same ones for machines that are not here.
#[derive(clap::Args)]
pub struct Args {
    /// mmap_lock, i_mmap, vma_lock, pcp_lists or anon_vma
    name: Option<String>,
    /// The side compared from: a variant, a file with the types, or VARIANT@FILE
    #[arg(long, value_name = "VARIANT|FILE")]
    before: Option<String>,
    /// The side compared with
    #[arg(long, value_name = "VARIANT|FILE")]
    after: Option<String>,
    /// Tasks, each a thread
    #[arg(long, value_name = "N", default_value_t = 2)]
    tasks: u32,
    /// Pairs to run, 0.2 s each side
    #[arg(long, value_name = "N", default_value_t = 20)]
    pairs: usize,
    /// Seed of the order of runs and of where objects begin
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let Some(name) = &args.name else {
        global.print(&view::stories())?;
        return Ok(ExitCode::SUCCESS);
    };
    let story = Story::find(name)?;
    let question = sides(args, story, global)?;
    let (before, after) = pairs(args, story, &question)?;
    global.print(&answer(args, story, &question, &before, &after)?)?;
    Ok(ExitCode::SUCCESS)
}

fn sides(args: &Args, story: Story, global: &Global) -> anyhow::Result<Comparison> {
    let mut question = Comparison::of(story)?;
    if let Some(side) = &args.before {
        question.before = open_side(story, side, global)?;
    }
    if let Some(side) = &args.after {
        question.after = open_side(story, side, global)?;
    }
    Ok(question)
}

/// Operations per second of both sides, pair by pair.
fn pairs(args: &Args, story: Story, question: &Comparison) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let &Args { tasks, pairs, seed, .. } = args;
    let name = story.about().name;
    let mut rng = Rng::new(seed);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for pair in 0..pairs.max(2) as u64 {
        // Phases and random streams are the same on both sides of a pair.
        let setup = Setup { tasks: Some(tasks), phase: rng.next_u64(), ..Setup::new(tasks) };
        let measure = |side: &Side| -> anyhow::Result<f64> {
            let world = World::build(story, side, &setup)?;
            let run = tussle_host::threads::run_scenario(&world, RUN, seed ^ pair);
            let run =
                run.map_err(|e| anyhow!("{name} {}: objects are wrong at the end: {e}", side.label()))?;
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
    Ok((before, after))
}

fn answer(
    args: &Args,
    story: Story,
    question: &Comparison,
    before: &[f64],
    after: &[f64],
) -> anyhow::Result<View> {
    let (tasks, cpus, about) = (args.tasks, tussle_host::threads::cpus(), story.about());
    let ratios = log_ratios(before, after).context("a run did nothing")?;
    let test = paired_t(&ratios, 0.95).context("too few pairs")?;
    let percent = |x: f64| Cell::number(x.exp() - 1.0, format!("{:+.1}%", (x.exp() - 1.0) * 100.0));
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let mean = |xs: &[f64]| xs.iter().sum::<f64>() / xs.len() as f64;
    let rate = |x: f64| Cell::number(x, format!("{x:.0}/s"));
    let facts = Node::Facts(vec![
        fact("scenario", "Scenario", Cell::value(about.name, format!("{}: {}", about.name, about.title))),
        fact("origin", "From", Cell::text(about.origin)),
        fact("tasks", "Tasks", Cell::count(u64::from(tasks))),
        fact("cpus", "CPUs of this machine", Cell::count(u64::from(cpus))),
        fact("before", question.before.label(), rate(mean(before))),
        fact("after", question.after.label(), rate(mean(after))),
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
    Ok(View { kind: "scenario", schema_version: 1, nodes })
}
