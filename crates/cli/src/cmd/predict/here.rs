//! `tussle predict EVIDENCE` on this machine: the recorded operations on real threads, in both layouts.

use super::{Args, recorded_sides};
use crate::global::Global;
use anyhow::{Context, bail};
use std::time::{Duration, Instant};
use tussle_bench::Sample;
use tussle_evidence::Evidence;
use tussle_evidence::tables::ActorKind;
use tussle_host::bench::{self, BenchError, Command, Plan};
use tussle_host::calibrate::{Load, Reading};
use tussle_render::View;
use tussle_scenarios::recorded::measured::{Alone, NativeTime, Replayed};
use tussle_scenarios::recorded::{Recording, measured, measured_view, native};
use tussle_scenarios::{Setup, Side};
use tussle_stats::quantile;

/// Native runs on all CPUs: so many, and up to `NATIVE_MOST` while they take no longer than `NATIVE_S` together. What
/// lines cost may have two modes, and few runs see one of them only.
const NATIVE_RUNS: usize = 5;
const NATIVE_MOST: usize = 12;
const NATIVE_S: f64 = 4.0;
/// No operation takes less CPU time, ns: a cycle.
const OPERATION_MIN_NS: f64 = 0.2;
/// A native run ends within so many times the recorded one's time, and this much, s.
const NATIVE_TIMES_MAX: f64 = 3.0;
const NATIVE_LEAST_S: f64 = 5.0;
/// Native runs on one CPU.
const ALONE_RUNS: usize = 2;
/// Least share of a run's CPU time that has to be seen by thread.
const SEEN_MIN: f64 = 0.8;
/// A run on one CPU that takes this many times the time and CPU time of one on all CPUs is given up.
const ALONE_TIMES_MAX: f64 = 4.0;

/// Replays and answers.
pub fn predict(
    args: &Args,
    recording: Recording,
    evidence: &Evidence,
    global: &Global,
) -> anyhow::Result<View> {
    if !args.cpus.is_empty() || !args.set.is_empty() || args.draws.is_some() {
        bail!("--cpus, --set and --draws are for simulated machines: add --machine NAME");
    }
    let (before, after) = recorded_sides(args, &recording, evidence, global)?;
    let (before, after) =
        (before.unwrap_or(Side::Name("recorded".into())), after.unwrap_or(Side::Name("ideal".into())));
    let native = args.native.as_deref().map(|line| Command::shell("native", line));
    let question = ToReplay { recording: &recording, evidence, sides: (&before, &after), seed: args.seed };
    let answer = replayed(&question, native, global)?;
    Ok(measured_view::view(&recording, (&before, &after), &answer, args.check))
}

/// What is to be replayed.
pub struct ToReplay<'a> {
    /// Recorded operations.
    pub recording: &'a Recording,
    /// Where they are from.
    pub evidence: &'a Evidence,
    /// Layouts compared.
    pub sides: (&'a Side, &'a Side),
    /// Of the order of bursts.
    pub seed: u64,
}

/// Runs the program itself, if it is given, and replays the operations.
pub fn replayed(q: &ToReplay<'_>, native: Option<Command>, global: &Global) -> anyhow::Result<Replayed> {
    let setup = Setup::new(q.recording.actors() as u32);
    let program = native::of_sides(q.recording, q.sides.0, q.sides.1, &setup)?;
    let native = native.map(|command| native_time(command, q.recording, q.evidence, global)).transpose()?;
    let mut watch =
        |done: usize, of: usize| global.draw(format!("replaying on this machine, {done} of {of} pairs "));
    let before = Reading::now();
    let pairs =
        tussle_host::replay::replay(&program, q.recording.actors(), native.as_ref(), q.seed, &mut watch);
    global.erase();
    let others = Load::between(before.as_ref(), Reading::now().as_ref()).map(|l| l.others);
    let answer = measured::summary(q.recording, &pairs?, native).context("the replay measured nothing")?;
    Ok(Replayed { others, ..answer })
}

/// CPU time of an operation of every actor, ns, on one CPU and without instrumentation.
pub fn alone(
    line: &str,
    recording: &Recording,
    evidence: &Evidence,
    global: &Global,
) -> anyhow::Result<Vec<f64>> {
    let time = native_time(Command::shell("native", line), recording, evidence, global)?;
    // Where others use the machine, threads wait for it.
    if let Some(paced) = time.paced.filter(|_| time.crowded().is_none()) {
        bail!("--native {line}: {paced}, so that its operations have no time of their own");
    }
    let Some(Alone { mean_ns, each_ns }) = time.alone else {
        bail!(
            "--native {line}: it does not run on one CPU alone, so that its operations have no time of their own"
        );
    };
    Ok(if each_ns.is_empty() { vec![mean_ns; recording.actors()] } else { each_ns })
}

/// CPU time of one operation when the program runs without instrumentation, on all CPUs and on one.
fn native_time(
    command: Command,
    recording: &Recording,
    evidence: &Evidence,
    global: &Global,
) -> anyhow::Result<NativeTime> {
    // As it runs without us.
    let mut plan = Plan { counters: false, ..Plan::new(vec![command], 2) };
    let text = plan.arms[0].text();
    let recorded_s = evidence.run.duration_s.filter(|s| s.is_finite());
    let most_s = recorded_s.map_or(60.0, |s| (s * NATIVE_TIMES_MAX + NATIVE_LEAST_S).clamp(0.0, 600.0));
    plan.timeout = Some(Duration::from_secs_f64(most_s));
    let fails = |why| anyhow::anyhow!("native run of {text}: {why}");
    let all = runs(&plan, NATIVE_RUNS..NATIVE_MOST, bare, global)?.map_err(fails)?;
    let each = 1e9 / recording.operations().0.max(1) as f64;
    if all.iter().all(|a| a.cpu_s * each < OPERATION_MIN_NS) {
        let operations = tussle_render::thousands(recording.operations().0);
        bail!(
            "native run of {text}: its CPU time is too little for {operations} operations: is it the recorded program, \
             with the same arguments?"
        );
    }
    // On one CPU no line is on its way between caches. A program whose threads wait for each other by spinning may take
    // for ever there.
    plan.cpus = tussle_host::threads::first_cpu().map(|cpu| vec![cpu]);
    let most_s = all.iter().map(|a| a.cpu_s + a.wall_s).fold(0.0, f64::max);
    plan.timeout = Some(Duration::from_secs_f64(most_s * ALONE_TIMES_MAX + 1.0));
    let alone =
        if plan.cpus.is_some() { runs(&plan, ALONE_RUNS..ALONE_RUNS, watched, global)?.ok() } else { None };
    // Others can only add to the least one. One that binds its threads itself runs on several CPUs all the same.
    let alone = alone.and_then(|a| a.into_iter().min_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s)));
    let alone = alone.filter(|a| a.cpu_s <= a.wall_s * 1.05);
    let alone_s = alone.as_ref().map(|a| a.wall_s);
    let alone = alone.map(|a| Alone { mean_ns: a.cpu_s * each, each_ns: by_actor(&a, recording, evidence) });
    let took: Vec<(f64, f64)> = all.iter().map(|a| (a.wall_s, a.cpu_s)).collect();
    let longest = measured::longest(recording, alone.as_ref());
    let paced = measured::Times { all: &took, alone_s, recorded_s, longest }.paced();
    let others = all.iter().map(|a| a.others).collect::<Option<Vec<f64>>>().and_then(|o| quantile(&o, 0.5));
    Ok(NativeTime { all_ns: all.iter().map(|a| a.cpu_s * each).collect(), alone, others, paced })
}

/// CPU time of an operation of every actor, ns. Threads are known by the order of their creation, so that a run with
/// another number of threads tells nothing.
fn by_actor(run: &Took, recording: &Recording, evidence: &Evidence) -> Vec<f64> {
    let ids = recording.actor_ids();
    let actor = |id: u32| evidence.actors.get(id as usize);
    let process = ids.first().and_then(|id| actor(*id)).map(|a| a.process);
    let mates: Vec<u32> = (0..evidence.actors.len() as u32)
        .filter(|id| actor(*id).is_some_and(|a| a.kind == ActorKind::Thread && Some(a.process) == process))
        .collect();
    let seen: f64 = run.threads_s.iter().sum();
    if mates.len() != run.threads_s.len() || seen < run.cpu_s * SEEN_MIN {
        return Vec::new();
    }
    // The end of a thread is not seen.
    let whole = run.cpu_s / seen;
    let one = |(id, n): (&u32, u64)| {
        let at = mates.iter().position(|m| m == id)?;
        Some(run.threads_s[at] * whole * 1e9 / n.max(1) as f64).filter(|ns| *ns > 0.0)
    };
    ids.iter().zip(recording.operations_of_actors()).map(one).collect::<Option<_>>().unwrap_or_default()
}

/// What a run took.
struct Took {
    cpu_s: f64,
    wall_s: f64,
    /// Share of the machine that others used.
    others: Option<f64>,
    /// CPU time of its threads; empty where unknown.
    threads_s: Vec<f64>,
}

/// A run, and the CPU time of its threads where somebody looked.
type Ran = Result<(Sample, String), BenchError>;

/// Nobody looks at the threads: who looks runs on one of their CPUs, and while one thread waits the others are in
/// nobody's way. A look of 0.1 ms in 3 hides a fifth of a loss of ten times.
fn bare(plan: &Plan, position: usize) -> (Ran, Vec<f64>) {
    (bench::once(plan, position), Vec::new())
}

/// On one CPU there is nothing to disturb.
fn watched(plan: &Plan, position: usize) -> (Ran, Vec<f64>) {
    tussle_host::threads_cpu::watch(|| bench::once(plan, position))
}

/// What so many runs took, more of them where they are short; as text why there are none.
fn runs(
    plan: &Plan,
    count: std::ops::Range<usize>,
    one: fn(&Plan, usize) -> (Ran, Vec<f64>),
    global: &Global,
) -> anyhow::Result<Result<Vec<Took>, String>> {
    let mut out = Vec::new();
    let begun = Instant::now();
    for i in 0..count.end {
        if i >= count.start && begun.elapsed().as_secs_f64() > NATIVE_S {
            break;
        }
        global.draw(format!("native run {} of {} ", i + 1, count.end));
        let (ran, threads_s) = one(plan, i);
        let (sample, text) = ran?;
        global.erase();
        let Some(cpu_s) = sample.cpu_s().filter(|_| sample.value.is_some()) else {
            return Ok(Err(format!("{:?}: {text}", sample.status)));
        };
        let machine_s = sample.wall_s * f64::from(tussle_host::threads::cpus());
        let others = sample.foreign_s.map(|s| s.max(0.0) / machine_s.max(1e-9));
        out.push(Took { cpu_s, wall_s: sample.wall_s, others, threads_s });
    }
    Ok(Ok(out))
}
