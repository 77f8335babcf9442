//! `tussle predict EVIDENCE` on this machine: the recorded operations on real threads, in both layouts.

use super::{Args, recorded_sides};
use crate::global::Global;
use anyhow::{Context, bail};
use std::time::Duration;
use tussle_evidence::Evidence;
use tussle_host::bench::{self, Command, Plan};
use tussle_render::View;
use tussle_scenarios::recorded::measured::NativeTime;
use tussle_scenarios::recorded::{Recording, measured, measured_view, native};
use tussle_scenarios::{Setup, Side};

/// Native runs on all CPUs.
const NATIVE_RUNS: usize = 3;
/// Native runs on one CPU.
const ALONE_RUNS: usize = 2;
/// A run on one CPU that takes this many times the CPU time of one on all CPUs is given up.
const ALONE_TIMES_MAX: f64 = 4.0;
/// A native run that takes this share of the recorded one's time may run for a fixed time.
const SAME_TIME: f64 = 0.7;

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
    let setup = Setup::new(recording.actors() as u32);
    let program = native::of_sides(&recording, &before, &after, &setup)?;
    let native =
        args.native.as_deref().map(|line| native_time(line, &recording, evidence, global)).transpose()?;
    global.draw("replaying on this machine, some seconds ");
    let pairs = tussle_host::replay::replay(&program, recording.actors(), native, args.seed);
    global.erase();
    let answer = measured::summary(&recording, &pairs?, native).context("the replay measured nothing")?;
    Ok(measured_view::view(&recording, (&before, &after), &answer, args.check))
}

/// CPU time of one operation when the program runs without instrumentation, on all CPUs and on one.
fn native_time(
    line: &str,
    recording: &Recording,
    evidence: &Evidence,
    global: &Global,
) -> anyhow::Result<NativeTime> {
    let mut plan = Plan::new(vec![Command::shell("native", line)], 2);
    let all =
        least_cpu(&plan, NATIVE_RUNS, global)?.map_err(|text| anyhow::anyhow!("--native {line}: {text}"))?;
    if evidence.run.duration_s.is_some_and(|recorded| all.wall_s > 0.1 && all.wall_s > SAME_TIME * recorded) {
        global.remark(format_args!(
            "--native {line}: takes {:.2} s, as long as the recorded run; if it runs for a fixed time its \
             operations are not those recorded, and this prediction is void",
            all.wall_s
        ));
    }
    // On one CPU no line is on its way between caches. A program whose threads wait for each other by spinning may take
    // for ever there.
    plan.cpus = tussle_host::threads::first_cpu().map(|cpu| vec![cpu]);
    plan.timeout = Some(Duration::from_secs_f64(all.cpu_s * ALONE_TIMES_MAX + 1.0));
    let alone = if plan.cpus.is_some() { least_cpu(&plan, ALONE_RUNS, global)?.ok() } else { None };
    // One that binds its threads itself runs on several all the same.
    let alone = alone.filter(|a| a.cpu_s <= a.wall_s * 1.05);
    let each = 1e9 / recording.operations().0.max(1) as f64;
    Ok(NativeTime { all_ns: all.cpu_s * each, alone_ns: alone.map(|a| a.cpu_s * each) })
}

/// What a run took.
struct Took {
    cpu_s: f64,
    wall_s: f64,
}

/// The run with least CPU time, since others can only add to it; as text why there is none.
fn least_cpu(plan: &Plan, runs: usize, global: &Global) -> anyhow::Result<Result<Took, String>> {
    let mut best: Option<Took> = None;
    for i in 0..runs {
        global.draw(format!("native run {} of {runs} ", i + 1));
        let (sample, text) = bench::once(plan, i)?;
        global.erase();
        let Some(cpu_s) = sample.cpu_s().filter(|_| sample.value.is_some()) else {
            return Ok(Err(format!("{:?}: {text}", sample.status)));
        };
        if best.as_ref().is_none_or(|b| cpu_s < b.cpu_s) {
            best = Some(Took { cpu_s, wall_s: sample.wall_s });
        }
    }
    Ok(best.ok_or_else(|| "no run".into()))
}
