//! `tussle predict`.

use super::source::Source;
use crate::global::Global;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tussle_scenarios::predict::{self, Question};
use tussle_scenarios::{Side, Story, validation, view};
use tussle_sim::{Machine, machine};

/// Say what a layout or a lock choice costs on a machine that you do not own.
///
/// Simulates both sides of a scenario many times over what nobody knows exactly, and answers with an interval, the
/// share
/// of draws of that sign, what it hangs on, and a verdict only where the draws agree.
#[derive(clap::Args)]
pub struct Args {
    /// 000 mmap_lock, 001 i_mmap, 002 per-VMA locks, 003 per-CPU page lists, 004 anon_vma; or an evidence file with
    /// recorded operations
    #[arg(value_name = "SCENARIO|EVIDENCE", required_unless_present_any = ["list_machines", "validate"])]
    scenario: Option<String>,
    /// Machine by name, or a profile's file [default: that of the published figures]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Numbers of CPUs; with several, the last is the answer and all make the curve
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    cpus: Vec<u32>,
    /// Fix an unknown (think=0.8, a factor) or a machine parameter (latency_ns.cross=120); also tasks=N, run_us=N
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The side compared from: a variant, or a file with the type
    #[arg(long, value_name = "VARIANT|FILE")]
    before: Option<String>,
    /// The side compared with
    #[arg(long, value_name = "VARIANT|FILE")]
    after: Option<String>,
    /// Draws over the unknowns, per number of CPUs
    #[arg(long, value_name = "N", default_value_t = 21)]
    draws: u32,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Show the built-in machines
    #[arg(long)]
    list_machines: bool,
    /// Compare every scenario with its published figures
    #[arg(long)]
    validate: bool,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    if args.list_machines {
        global.print(&view::machines(&machine::built_in()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.validate {
        return validate(args, global);
    }
    let Some(name) = &args.scenario else { bail!("which scenario?") };
    if Story::find(name).is_err() && Path::new(name).exists() {
        return evidence(args, Path::new(name), global);
    }
    let story = Story::find(name)?;
    let question = question(args, story, global)?;
    if question.machine.unsourced {
        let m = &question.machine.name;
        global.remark(format_args!("{m} is unsourced: some of its figures are guesses"));
    }
    let prediction = predict_one(&question, global)?;
    global.print(&view::prediction(&prediction))?;
    Ok(ExitCode::SUCCESS)
}

fn question(args: &Args, story: Story, global: &Global) -> anyhow::Result<Question> {
    let mut q = Question::of(story)?;
    if let Some(name) = &args.machine {
        q.machine = open_machine(name)?;
    }
    if !args.cpus.is_empty() {
        q.cpus = args.cpus.clone();
    } else {
        q.cpus = vec![q.cpus.last().copied().unwrap_or(1).min(q.machine.cpus())];
    }
    if let Some(&n) = q.cpus.iter().find(|&&n| n == 0 || n > q.machine.cpus()) {
        bail!("--cpus {n}: {} has {} CPUs", q.machine.name, q.machine.cpus());
    }
    if !(1..=100_000).contains(&args.draws) {
        bail!("--draws {}: from 1 to 100000", args.draws);
    }
    (q.draws, q.seed) = (args.draws, args.seed);
    for pair in &args.set {
        let (key, value) =
            pair.split_once('=').with_context(|| format!("--set {pair}: KEY=VALUE is needed"))?;
        let value: f64 = value.parse().with_context(|| format!("--set {pair}: not a number"))?;
        q.set(key, value)?;
    }
    if let Some(side) = &args.before {
        q.before = open_side(story, side, global)?;
    }
    if let Some(side) = &args.after {
        q.after = open_side(story, side, global)?;
    }
    Ok(q)
}

/// A built-in machine, or a profile in a file.
pub fn open_machine(name: &str) -> anyhow::Result<Machine> {
    if let Ok(m) = machine::find(name) {
        return Ok(m);
    }
    let path = PathBuf::from(name);
    if !path.exists() {
        return Ok(machine::find(name)?);
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("{name}"))?;
    Machine::from_toml(&text).with_context(|| format!("{name}"))
}

/// A variant by name, or the types of a file.
fn open_side(story: Story, side: &str, global: &Global) -> anyhow::Result<Side> {
    if story.about().variants.contains(&side) || !Path::new(side).exists() {
        return Ok(Side::Name(side.into()));
    }
    let ty = if story == Story::Mmap { "mm_struct" } else { "address_space" };
    let source = Source::open(Path::new(side), &[ty.to_string()], global)?;
    source.find(ty)?;
    Ok(Side::Types(side.into(), Box::new(source.table)))
}

fn predict_one(question: &Question, global: &Global) -> anyhow::Result<predict::Prediction> {
    let jobs = predict::jobs(question);
    let (total, show) = (jobs.len(), global.progress());
    let samples = tussle_host::threads::map(
        &jobs,
        |job| predict::run(question, job),
        |n| {
            if show {
                eprint!("\r{n}/{total} draws ");
            }
        },
    );
    if show {
        eprint!("\r\x1b[K");
    }
    let samples = samples.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(predict::analyse(question, samples))
}

/// Every scenario beside its published figures.
fn validate(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for story in Story::ALL {
        let mut q = Question::of(story)?;
        q.cpus = validation::cpus(story);
        (q.draws, q.seed) = (args.draws, args.seed);
        rows.push(predict_one(&q, global)?);
    }
    global.print(&validation::view(&rows))?;
    Ok(ExitCode::SUCCESS)
}

/// Recorded operations, replayed with and without their fields sharing lines.
fn evidence(args: &Args, path: &Path, global: &Global) -> anyhow::Result<ExitCode> {
    let (evidence, problems) =
        tussle_host::evidence_file::read(path).with_context(|| format!("{}", path.display()))?;
    for p in problems.iter().take(5) {
        global.remark(format_args!("{}: {p}", path.display()));
    }
    let machine = open_machine(args.machine.as_deref().unwrap_or("2s-icelake-sp-96"))?;
    let cpus = args.cpus.last().copied().unwrap_or(evidence.actors.len() as u32).clamp(1, machine.cpus());
    let answer = tussle_scenarios::recorded::predict(&evidence, &machine, cpus, args.draws, args.seed)
        .with_context(|| format!("{}", path.display()))?;
    global.print(&answer)?;
    Ok(ExitCode::SUCCESS)
}
