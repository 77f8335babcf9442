//! `tussle predict`.

pub mod here;
mod kept;
mod turns;

use super::source::Source;
use crate::global::Global;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use tussle_advise::Edit;
use tussle_advise::abi::Shapes;
use tussle_advise::advice;
use tussle_advise::relayout::Relayout;
use tussle_evidence::Evidence;
use tussle_render::View;
use tussle_scenarios::decide::Course;
use tussle_scenarios::predict::{self, Comparison};
use tussle_scenarios::recorded::{Recording, Relocation};
use tussle_scenarios::stories::Build;
use tussle_scenarios::{Side, Story, validation, view};
use tussle_sim::{Machine, machine};

/// This machine, by replay.
const HERE: &str = "here";
/// Machine for operations of a kernel when none is named: two sockets, and its figures all have a source.
const EVIDENCE_MACHINE: &str = "2s-icelake-sp-96";

/// Say what a layout or a lock choice costs on a machine that you do not own.
///
/// Simulates both sides of a scenario, or of recorded operations, many times over what nobody knows exactly, and
/// answers with an interval, the share of draws of that sign, what it hangs on, and a verdict only where the draws
/// agree.
#[derive(Clone, Default, clap::Args)]
pub struct Args {
    /// A scenario (mmap_lock, i_mmap, vma_lock, pcp_lists, anon_vma: `tussle scenario` lists them), an evidence file
    /// with recorded operations, or with --check a folder with a program's sources
    #[arg(value_name = "SCENARIO|EVIDENCE|DIR", required_unless_present_any = ["list_machines", "validate", "kept"])]
    scenario: Option<String>,
    /// Machine by name, or a profile's file; `here` replays recorded operations on threads of this one
    /// [default: that of a scenario's published figures; `here` for recorded programs]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Numbers of CPUs; with several, the last is the answer and all make the curve
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    cpus: Vec<u32>,
    /// Fix an unknown (think=0.8, a factor) or a machine parameter (latency_ns.cross=120); also tasks=N, run_us=N
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The side compared from: a variant, a file with the types (vmlinux, BTF, snapshot), or VARIANT@FILE: that lock
    /// in the layout of that file. Of recorded operations: recorded, ideal or a file
    #[arg(long, value_name = "VARIANT|FILE")]
    before: Option<String>,
    /// The side compared with [default of recorded operations: the move that `tussle advise` proposes first]
    #[arg(long, value_name = "VARIANT|FILE", conflicts_with = "moves")]
    after: Option<String>,
    /// Struct that --move changes, in recorded operations
    #[arg(short = 'C', long = "class", value_name = "NAME", requires = "moves")]
    class: Option<String>,
    /// The other side is the recorded layout after this move, as `tussle advise` proposes and `tussle fix` makes it:
    /// FIELD:after:FIELD, swap:A,B, align:FIELD=N, ...; may be given several times
    #[arg(long = "move", value_name = "MOVE", requires = "class")]
    moves: Vec<Edit>,
    /// Draws over the unknowns, per number of CPUs [default: until it is decided, at most 2000]
    #[arg(long, value_name = "N")]
    draws: Option<u32>,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The recorded program without instrumentation, for the shell: run on this machine, it tells how long operations
    /// and what lies between them take
    #[arg(long, value_name = "CMD")]
    native: Option<String>,
    /// Show the built-in machines
    #[arg(long)]
    list_machines: bool,
    /// Compare every scenario with its published figures
    #[arg(long)]
    validate: bool,
    /// Show what every hunt predicted before it measured, beside what it measured
    #[arg(long)]
    kept: bool,
    /// Also show the verdict that is withheld where no closed loop holds: for testing the predictor. Of a folder:
    /// record its program, predict its patch, then measure it
    #[arg(long)]
    check: bool,
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
    if args.kept {
        kept::print(global)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(name) = &args.scenario else { bail!("which scenario?") };
    if Path::new(name).is_dir() {
        return closed_loop(args, Path::new(name), global);
    }
    let evidence = match Story::find(name) {
        Err(_) if Path::new(name).exists() => Some(super::fix::read_evidence(Path::new(name), global)?),
        _ => None,
    };
    let same = evidence.as_ref().map(|e| turns::same_change(args, e));
    let args = same.as_ref().unwrap_or(args);
    let question = match Story::find(name) {
        Ok(_) if args.native.is_some() => bail!("--native: a scenario has no program to run"),
        Ok(story) => of_story(args, story, global)?,
        Err(e) => match &evidence {
            None => bail!("{e}; and there is no file of that name"),
            Some(evidence) => match about(args, evidence, name, global)? {
                Asked::Simulated(question) => *question,
                Asked::Answered(view) => {
                    global.print(&view)?;
                    return Ok(ExitCode::SUCCESS);
                }
            },
        },
    };
    global.print(&simulated(args, &question, evidence.as_ref(), name, global)?)?;
    Ok(ExitCode::SUCCESS)
}

/// What moves of one struct's members would bring to the operations of a kernel's recording, at every length of a turn.
///
/// # Errors
/// The operations do not touch what moves, or there are none.
pub fn of_kernel(class: &str, moves: &[Edit], evidence: &Evidence, global: &Global) -> anyhow::Result<View> {
    let (class, moves) = (Some(class.to_string()), moves.to_vec());
    let args = Args { class, moves, ..Args::default() };
    let label = "the recording";
    match about(&args, evidence, label, global)? {
        Asked::Simulated(question) => simulated(&args, &question, Some(evidence), label, global),
        Asked::Answered(view) => Ok(view),
    }
}

fn simulated(
    args: &Args,
    question: &Comparison,
    evidence: Option<&Evidence>,
    name: &str,
    global: &Global,
) -> anyhow::Result<View> {
    for side in [&question.before, &question.after] {
        question.subject.check(side)?;
    }
    if let Some(mark) = question.machine.mark() {
        global.remark(format_args!("{} is {mark}", question.machine.name));
    }
    let mut prediction = predict_one(question, global)?;
    let others = match evidence {
        Some(e) => turns::others(args, e, name, global)?,
        None => Vec::new(),
    };
    turns::judge(&mut prediction, &others);
    let mut view = view::prediction(&prediction, args.check);
    let instructions = evidence.and_then(Evidence::turn_instructions);
    turns::add(&mut view, turns::Turn { instructions, point: prediction.point().cloned() }, others);
    Ok(view)
}

/// Builds, records, predicts, patches and measures the program of a folder.
fn closed_loop(args: &Args, folder: &Path, global: &Global) -> anyhow::Result<ExitCode> {
    if !args.check {
        bail!("{}: a folder is predicted and measured by --check", folder.display());
    }
    kept::print_line(&super::hunt::closed_loop(folder, global)?, global)?;
    Ok(ExitCode::SUCCESS)
}

fn of_story(args: &Args, story: Story, global: &Global) -> anyhow::Result<Comparison> {
    let mut q = Comparison::of(story)?;
    if let Some(edit) = args.moves.first() {
        bail!("--move {edit}: moves are for recorded operations; a scenario takes --before and --after");
    }
    if let Some(name) = &args.machine {
        q.machine = open_machine(name)?;
    }
    settings(args, &mut q)?;
    if let Some(side) = &args.before {
        q.before = open_side(story, side, global)?;
    }
    if let Some(side) = &args.after {
        q.after = open_side(story, side, global)?;
    }
    Ok(q)
}

/// What the command line says about any question.
fn settings(args: &Args, q: &mut Comparison) -> anyhow::Result<()> {
    if !args.cpus.is_empty() {
        q.cpus = args.cpus.clone();
    } else {
        q.cpus = vec![q.cpus.last().copied().unwrap_or(1).min(q.machine.cpus())];
    }
    if let Some(&n) = q.cpus.iter().find(|&&n| n == 0 || n > q.machine.cpus()) {
        let (name, has) = (&q.machine.name, q.machine.cpus());
        bail!(
            "--cpus {n}: {name} has CPUs 1 to {has}; --list-machines shows larger ones, a profile may describe one"
        );
    }
    if let Some(n) = args.draws.filter(|n| !(1..=100_000).contains(n)) {
        bail!("--draws {n}: from 1 to 100000");
    }
    (q.draws, q.seed) = (args.draws, args.seed);
    for pair in &args.set {
        let (key, value) =
            pair.split_once('=').with_context(|| format!("--set {pair}: KEY=VALUE is needed"))?;
        let value: f64 = value.parse().with_context(|| format!("--set {pair}: not a number"))?;
        q.set(key, value)?;
    }
    Ok(())
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
    let text = tussle_host::whole::read_to_string(&path).with_context(|| format!("{name}"))?;
    Machine::from_toml(&text).with_context(|| format!("{name}"))
}

/// A variant by name, the types of a file, or a variant's lock in a file's layout.
pub fn open_side(story: Story, side: &str, global: &Global) -> anyhow::Result<Side> {
    let about = story.about();
    if about.variants.contains(&side) {
        return Ok(Side::Name(side.into()));
    }
    let (lock, file) = match side.split_once('@').filter(|(lock, _)| about.variants.contains(lock)) {
        Some((lock, file)) => (Some(lock), file),
        None => (None, side),
    };
    if !Path::new(file).exists() {
        if lock.is_some() {
            bail!("{file}: no such file");
        }
        // The scenario says which variants there are.
        return Ok(Side::Name(side.into()));
    }
    let wanted: Vec<String> = about.types.iter().map(|t| t.to_string()).collect();
    let source = Source::open(Path::new(file), &wanted, global)?;
    for ty in about.types {
        source.find(ty)?;
    }
    Ok(Side::Build(Build::new(story, side, source.table, lock)?))
}

fn predict_one(question: &Comparison, global: &Global) -> anyhow::Result<predict::Prediction> {
    let mut course = Course::new(question);
    loop {
        let jobs = course.next();
        if jobs.is_empty() {
            return Ok(course.answer());
        }
        let (total, start) = (jobs.len(), Instant::now());
        let samples = tussle_host::threads::map(
            &jobs,
            |job| predict::run(question, job),
            |n| {
                let left = start.elapsed().as_secs_f64() / n.max(1) as f64 * total.saturating_sub(n) as f64;
                global.draw(format!("{n} of {total} draws, {left:.0} s left "));
            },
        );
        global.erase();
        course.add(&jobs, samples.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
}

/// Every scenario beside its published figures.
fn validate(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for q in validation::questions(args.draws, args.seed)? {
        rows.push(predict_one(&q, global)?);
    }
    global.print(&validation::view(&rows))?;
    Ok(ExitCode::SUCCESS)
}

/// What became of a question about recorded operations.
enum Asked {
    /// It is to be simulated.
    Simulated(Box<Comparison>),
    /// This machine has answered.
    Answered(View),
}

/// Recorded operations in two layouts.
fn about(args: &Args, evidence: &Evidence, label: &str, global: &Global) -> anyhow::Result<Asked> {
    let mut recording = Recording::new(evidence).with_context(|| label.to_string())?;
    let kernel = evidence.run.source == tussle_evidence::tables::Source::KernelRecorder;
    let named = args.machine.as_deref();
    if named == Some(HERE) || (named.is_none() && !kernel) {
        return here::predict(args, recording, evidence, global).map(Asked::Answered);
    }
    if let Some(line) = &args.native {
        if kernel {
            bail!("--native: a kernel's operations are timed by their instructions");
        }
        recording.timed(&here::alone(line, &recording, evidence, global)?);
    }
    let machine = open_machine(named.unwrap_or(EVIDENCE_MACHINE))?;
    if named.is_none() {
        global.remark(format_args!("no --machine: {EVIDENCE_MACHINE} it is (--list-machines shows others)"));
    }
    let (before, after) = recorded_sides(args, &recording, evidence, global)?;
    let mut q = Comparison::of_recording(recording, machine);
    settings(args, &mut q)?;
    q.before = before.unwrap_or(q.before);
    q.after = after.unwrap_or(q.after);
    Ok(Asked::Simulated(Box::new(q)))
}

/// Both sides as asked for; `None` for what a question has by itself.
fn recorded_sides(
    args: &Args,
    recording: &Recording,
    evidence: &Evidence,
    global: &Global,
) -> anyhow::Result<(Option<Side>, Option<Side>)> {
    let side = |name: &str| recorded_side(name, recording, evidence, global);
    let before = args.before.as_deref().map(side).transpose()?;
    let after = match (&args.class, args.after.as_deref()) {
        (Some(class), _) => Some(moved(class, &args.moves, recording, evidence)?),
        (None, Some(name)) => Some(side(name)?),
        (None, None) => advised(recording, evidence, global),
    };
    Ok((before, after))
}

/// The name of an array's element: a variable may be an array, a build has its elements.
fn element(mut name: String) -> String {
    while let Some(at) = name.rfind('[').filter(|_| name.ends_with(']')) {
        name.truncate(at);
    }
    name
}

/// `recorded`, `ideal`, or the types of a file.
fn recorded_side(
    side: &str,
    recording: &Recording,
    evidence: &Evidence,
    global: &Global,
) -> anyhow::Result<Side> {
    if !Path::new(side).exists() {
        return Ok(Side::Name(side.into()));
    }
    let names: Vec<String> = recording.wanted().keys().map(|t| element(evidence.types.name(*t))).collect();
    let source = Source::open(Path::new(side), &names, global)?;
    let moved = Relocation::of_types(recording, &evidence.types, &source.table, side)?;
    Ok(Side::Moved(Arc::new(moved)))
}

/// The move that `tussle advise` would make first and that touches a recorded operation; `None`, told, where there is
/// none: then every field on a line of its own is the only other layout that is known.
fn advised(recording: &Recording, evidence: &Evidence, global: &Global) -> Option<Side> {
    let advices = advice::best(evidence, &advice::Options::default());
    let side = advices.iter().find_map(|a| moved(&a.type_name, &a.edits, recording, evidence).ok());
    if side.is_none() {
        global.remark(
            "advise proposes no move of these fields: compared with every field on a line of its own",
        );
    }
    side
}

/// The recorded layout after moves of one struct's members, everywhere it is contained.
pub fn moved(
    class: &str,
    moves: &[Edit],
    recording: &Recording,
    evidence: &Evidence,
) -> anyhow::Result<Side> {
    let types = &evidence.types;
    let target = types.find(class).with_context(|| format!("the evidence has no type named `{class}`"))?;
    let shapes = Shapes::new(types);
    let layout = Relayout::new(&shapes, target, moves)?;
    let label: Vec<String> = moves.iter().map(Edit::to_string).collect();
    let mut out = Relocation::new(&format!("{class} {}", label.join(" ")));
    for (ty, offsets) in recording.wanted() {
        let (Some(old), Some(new)) = (types.size(ty), layout.size(ty)?) else { continue };
        let to = offsets.iter().map(|&at| Ok((at, layout.translate(ty, at)?)));
        let to: Vec<(u64, u64)> = to.collect::<anyhow::Result<_>>()?;
        let align = layout.align(ty).unwrap_or(1);
        if old != new || to.iter().any(|(a, b)| a != b) || align != shapes.align(ty).unwrap_or(align) {
            out.add(ty, new, align, to);
        }
    }
    if out.is_empty() {
        bail!("{}: none of the recorded operations touches a byte that it moves", out.label);
    }
    Ok(Side::Moved(Arc::new(out)))
}
