//! `tussle predict EVIDENCE` on this machine: the recorded operations on real threads, in both layouts.

use super::{Args, recorded_sides};
use crate::global::Global;
use anyhow::{Context, bail};
use tussle_evidence::Evidence;
use tussle_host::bench::{self, Command, Plan};
use tussle_render::View;
use tussle_scenarios::recorded::{Recording, measured, measured_view, native};
use tussle_scenarios::{Setup, Side};

/// Native runs; the one with least CPU time counts, since others can only add to it.
const NATIVE_RUNS: usize = 3;
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
    let target_ns =
        args.native.as_deref().map(|line| operation_ns(line, &recording, evidence, global)).transpose()?;
    global.draw("replaying on this machine, some seconds ");
    let pairs = tussle_host::replay::replay(&program, recording.actors(), target_ns, args.seed);
    global.erase();
    let answer =
        measured::summary(&recording, &pairs?, target_ns.is_some()).context("the replay measured nothing")?;
    Ok(measured_view::view(&recording, (&before, &after), &answer, args.check))
}

/// CPU time of one operation when the program runs without instrumentation, ns.
fn operation_ns(
    line: &str,
    recording: &Recording,
    evidence: &Evidence,
    global: &Global,
) -> anyhow::Result<f64> {
    let plan = Plan::new(vec![Command::shell("native", line)], 2);
    let mut best: Option<(f64, f64)> = None;
    for i in 0..NATIVE_RUNS {
        global.draw(format!("native run {} of {NATIVE_RUNS} ", i + 1));
        let (sample, text) = bench::once(&plan, i)?;
        global.erase();
        let Some(cpu_s) = sample.cpu_s().filter(|_| sample.value.is_some()) else {
            bail!("--native {line}: {:?}: {text}", sample.status);
        };
        if best.is_none_or(|b| cpu_s < b.0) {
            best = Some((cpu_s, sample.wall_s));
        }
    }
    let (cpu_s, wall_s) = best.context("no native run")?;
    if evidence.run.duration_s.is_some_and(|recorded| wall_s > 0.1 && wall_s > SAME_TIME * recorded) {
        global.remark(format_args!(
            "--native {line}: takes {wall_s:.2} s, as long as the recorded run; if it runs for a fixed time its \
             operations are not those recorded, and this prediction is void"
        ));
    }
    Ok(cpu_s * 1e9 / recording.operations().0.max(1) as f64)
}
