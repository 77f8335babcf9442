//! Predictions: many draws over what nobody knows exactly, the effect as an interval with the share of draws of that
//! sign, what it hangs on, and what would have to be measured.
//!
//! Everything here is a pure function; whoever calls it spreads [`Job`]s over cores and hands the samples back in
//! order.

use crate::recorded::{RecordedError, Recording};
use crate::stories::{ScenarioError, Setup, Side, Story};
pub use crate::subject::{Ablation, Subject};
use std::sync::Arc;
use tussle_sim::{Config, Machine, MachineError, SimError};
use tussle_stats::{Rng, quantile};

/// What is not known exactly: a factor on a nominal value, drawn log-uniformly from its range.
#[derive(Clone, Copy, Debug)]
pub struct Unknown {
    /// Name on the command line and in output.
    pub key: &'static str,
    /// Lowest and highest factor.
    pub range: (f64, f64),
    /// Machine parameters that it multiplies; none for the scenario's own.
    pub machine: &'static [&'static str],
    /// What it is.
    pub what: &'static str,
    /// How to find out.
    pub measure: &'static str,
}

/// All unknowns. The ranges were fixed before the table of `docs/validation.md` was first made, from how far
/// textbooks,
/// data sets and calibrations of such machines lie apart; what was changed after a look at a published figure is
/// listed
/// there.
pub const UNKNOWNS: &[Unknown] = &[
    Unknown {
        key: "think",
        range: (0.6, 1.67),
        machine: &[],
        what: "time between operations",
        measure: "the time between two operations (a tracepoint on unlock and on the next lock)",
    },
    Unknown {
        key: "work",
        range: (0.7, 1.5),
        machine: &[],
        what: "length of critical sections",
        measure: "the length of the critical sections on one CPU without contention",
    },
    Unknown {
        key: "latency",
        range: (0.85, 1.18),
        machine: &["latency_ns.smt", "latency_ns.cluster", "latency_ns.socket", "latency_ns.cross"],
        what: "line transfers between CPUs",
        measure: "line transfers between CPUs (tussle calibrate)",
    },
    Unknown {
        key: "tenure",
        range: (0.5, 2.0),
        machine: &["core.tenure_ns"],
        what: "how long a line stays",
        measure: "how long a line stays with a CPU under contention (tussle calibrate)",
    },
    Unknown {
        key: "commit",
        range: (0.5, 2.0),
        machine: &["core.commit_ns"],
        what: "how late stores commit",
        measure: "how late stores commit: no simple measurement is known to us",
    },
    Unknown {
        key: "clean",
        range: (0.75, 1.3),
        machine: &["core.clean_share"],
        what: "reads of lines that several CPUs share",
        measure: "the latency of reading a line that several CPUs share",
    },
    Unknown {
        key: "socket",
        range: (0.5, 8.0),
        machine: &["core.socket_run"],
        what: "runs of a line within a socket",
        measure: "how many CPUs of a socket a contended line visits in a row (fetch-and-add by all CPUs)",
    },
    Unknown {
        key: "rmw",
        range: (0.75, 1.33),
        machine: &["core.rmw_ns"],
        what: "locked operations on an own line",
        measure: "an uncontended locked operation (tussle calibrate)",
    },
    Unknown {
        key: "wake",
        range: (0.5, 2.0),
        machine: &["sched.wake_latency_ns", "sched.wake_cost_ns"],
        what: "wake-ups",
        measure: "wake-up latency (perf sched latency, cyclictest)",
    },
    Unknown {
        key: "switch",
        range: (0.7, 1.5),
        machine: &["sched.switch_ns"],
        what: "context switches",
        measure: "the cost of a context switch (perf bench sched pipe)",
    },
];

/// Why a prediction failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredictError {
    /// The scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Recorded operations.
    #[error(transparent)]
    Recorded(RecordedError),
    /// A side that recorded operations do not have.
    #[error(
        "recorded operations have no variant `{0}`: recorded, ideal, a file with the types, or -C with --move"
    )]
    Variant(String),
    /// The machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The run.
    #[error("{side}, {cpus} CPUs, draw {draw}: {source}")]
    Run {
        /// Which side.
        side: String,
        /// CPUs.
        cpus: u32,
        /// Draw.
        draw: u32,
        /// Why.
        source: SimError,
    },
    /// A key that is neither an unknown, nor the scenario's, nor the machine's.
    #[error("--set {key}: {why}")]
    Set {
        /// Key.
        key: String,
        /// What would do.
        why: String,
    },
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Scenario or recording.
    pub subject: Subject,
    /// Compared from.
    pub before: Side,
    /// Compared with.
    pub after: Side,
    /// Machine.
    pub machine: Machine,
    /// Numbers of CPUs; the last one is the question, the others make the curve.
    pub cpus: Vec<u32>,
    /// Tasks instead of what the scenario has.
    pub tasks: Option<u32>,
    /// Draws per number of CPUs.
    pub draws: u32,
    /// Seed.
    pub seed: u64,
    /// Factors fixed by the user, by the key of their [`Unknown`].
    pub fixed: Vec<(String, f64)>,
    /// Simulated time of a run, ns; `None` takes the scenario's.
    pub run_ns: Option<u64>,
}

impl Question {
    /// The scenario's own comparison on the machine of its published figures.
    ///
    /// # Errors
    /// Never for built-in machines.
    pub fn of(story: Story) -> Result<Question, PredictError> {
        let about = story.about();
        let side = |name: &str| Side::Name(name.into());
        Ok(Question {
            subject: Subject::Story(story),
            before: side(about.before),
            after: side(about.after),
            machine: tussle_sim::machine::find(about.machine)?,
            cpus: vec![about.cpus],
            tasks: None,
            draws: 21,
            seed: 1,
            fixed: Vec::new(),
            run_ns: None,
        })
    }

    /// What it would bring to give every recorded field a line of its own, with as many CPUs as there were actors.
    pub fn of_recording(recording: Recording, machine: Machine) -> Question {
        let cpus = (recording.actors() as u32).clamp(1, machine.cpus().max(1));
        Question {
            subject: Subject::Recording(Arc::new(recording)),
            before: Side::Name("recorded".into()),
            after: Side::Name("ideal".into()),
            machine,
            cpus: vec![cpus],
            tasks: None,
            draws: 21,
            seed: 1,
            fixed: Vec::new(),
            run_ns: None,
        }
    }

    /// Fixes an unknown (`think=0.8`, a factor), a machine parameter (`latency_ns.cross=120`) or `tasks=96`.
    ///
    /// # Errors
    /// Unknown keys and values that make no sense.
    pub fn set(&mut self, key: &str, value: f64) -> Result<(), PredictError> {
        let error = |why: String| PredictError::Set { key: key.into(), why };
        if key == "tasks" || key == "run_us" {
            if !(1.0..=1e6).contains(&value) {
                return Err(error("from 1 to 1,000,000".into()));
            }
            match key {
                "tasks" => self.tasks = Some(value as u32),
                _ => self.run_ns = Some(value as u64 * 1000),
            }
            return Ok(());
        }
        if UNKNOWNS.iter().any(|u| u.key == key) {
            if !(0.01..=100.0).contains(&value) {
                return Err(error("a factor from 0.01 to 100 on the nominal value".into()));
            }
            self.fixed.push((key.into(), value));
            return Ok(());
        }
        if self.machine.set(key, value).is_err() {
            let own: Vec<&str> = UNKNOWNS.iter().map(|u| u.key).collect();
            let keys = tussle_sim::machine::keys().join(", ");
            let own = own.join(", ");
            return Err(error(format!(
                "no such key; factors: {own}; numbers: tasks, run_us; of the machine: {keys}"
            )));
        }
        self.machine.validate()?;
        Ok(())
    }
}

/// One pair of runs.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// CPUs.
    pub cpus: u32,
    /// Number of the draw.
    pub draw: u32,
    /// Change of the model.
    pub ablation: Ablation,
}

/// What one run gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Operations per second.
    pub throughput: f64,
    /// Context switches per second.
    pub switches: f64,
    /// Line transfers per operation.
    pub transfers: f64,
    /// Jain's index.
    pub fairness: f64,
    /// Operations measured, per task.
    pub operations: f64,
    /// Accesses simulated.
    pub accesses: u64,
    /// Most transferred fields: (name, transfers per operation, share of them hit-modified).
    pub fields: Vec<(String, f64, f64)>,
}

/// Both sides of a draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Factors of the unknowns, in order.
    pub factors: Vec<f64>,
    /// Before.
    pub before: Measured,
    /// After.
    pub after: Measured,
}

impl Sample {
    /// After/before − 1 of throughput.
    pub fn effect(&self) -> f64 {
        ratio(self.after.throughput, self.before.throughput)
    }
}

fn ratio(after: f64, before: f64) -> f64 {
    if before > 0.0 { after / before - 1.0 } else { 0.0 }
}

/// All jobs of a question, ablations last. An ablation takes a quarter of the draws, at least five.
pub fn jobs(q: &Question) -> Vec<Job> {
    let mut out = Vec::new();
    for &cpus in &q.cpus {
        out.extend((0..q.draws).map(|draw| Job { cpus, draw, ablation: Ablation::None }));
    }
    let few = (q.draws / 4).max(5).min(q.draws);
    let Some(&cpus) = q.cpus.last() else { return out };
    for ablation in q.subject.ablations(&q.machine, &q.after) {
        out.extend((0..few).map(|draw| Job { cpus, draw, ablation }));
    }
    out
}

/// Runs both sides of one job. The same draw has the same unknowns, phases and seeds on both sides.
///
/// # Errors
/// See [`PredictError`].
pub fn run(q: &Question, job: &Job) -> Result<Sample, PredictError> {
    let mut rng = Rng::new(q.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(job.draw)));
    let unknowns = q.subject.unknowns();
    let mut factors: Vec<f64> = unknowns
        .iter()
        .map(|u| (u.range.0.ln() + rng.uniform() * (u.range.1.ln() - u.range.0.ln())).exp())
        .collect();
    let (phase, seed) = (rng.next_u64(), rng.next_u64());
    for (key, value) in &q.fixed {
        if let Some(i) = unknowns.iter().position(|u| u.key == key) {
            factors[i] = *value;
        }
    }
    let mut machine = q.machine.clone();
    let mut setup = Setup { tasks: q.tasks, phase, ..Setup::new(job.cpus) };
    for (u, factor) in unknowns.iter().zip(&factors) {
        for key in u.machine {
            if let Some(nominal) = machine.get(key) {
                machine.set(key, (nominal * factor).max(0.05))?;
            }
        }
        match u.key {
            "think" => setup.think = *factor,
            "work" => setup.work = *factor,
            _ => {}
        }
    }
    machine.core.clean_share = machine.core.clean_share.min(1.0);
    let mut config = Config::new(job.cpus, q.run_ns.unwrap_or(q.subject.run_ns(job.cpus)), seed);
    let mut after = q.after.clone();
    match job.ablation {
        Ablation::None => {}
        Ablation::NoStealing => setup.steal = false,
        Ablation::NoSpinning => setup.spin = false,
        Ablation::NoEarlyRequest => machine.core.early_rfo = false,
        Ablation::FreeOwner => config.free_stores = "owner".into(),
        Ablation::NoPairs => machine.adjacent_pairs = false,
        Ablation::IdealSplit => after = Side::Name("ideal".into()),
    }
    let one = |side: &Side, other: &Side, config: &Config| -> Result<Measured, PredictError> {
        let run = q.subject.simulate((side, other), &setup, &machine, config)?;
        let failed =
            |source| PredictError::Run { side: side.label().into(), cpus: job.cpus, draw: job.draw, source };
        Ok(measured(&run.map_err(failed)?))
    };
    loop {
        let before = one(&q.before, &after, &config)?;
        let after = one(&after, &q.before, &config)?;
        match longer(q, &config, [&before, &after]) {
            Some(run_ns) => {
                config = Config { free_stores: config.free_stores, ..Config::new(job.cpus, run_ns, seed) }
            }
            None => return Ok(Sample { factors, before, after }),
        }
    }
}

/// Operations of every task that a run of recorded operations should hold: how they wait for each other is not known
/// before, and the first ones fetch lines that nobody has yet.
const WANTED_PER_TASK: f64 = 100.0;
/// Accesses of one run beyond which it is not made longer.
const RUN_ACCESSES_MAX: f64 = 6e6;

/// How long to run again, where too little happened in runs whose length nobody asked for.
fn longer(q: &Question, config: &Config, sides: [&Measured; 2]) -> Option<u64> {
    if q.run_ns.is_some() || !matches!(q.subject, Subject::Recording(_)) {
        return None;
    }
    let done = sides.iter().map(|m| m.operations).fold(f64::INFINITY, f64::min);
    let accesses = sides.iter().map(|m| m.accesses).max().unwrap_or(0).max(1) as f64;
    let factor = (1.3 * WANTED_PER_TASK / done.max(1.0)).min(RUN_ACCESSES_MAX / accesses).min(16.0);
    let run_ns = (config.run_ns as f64 * factor).min(1e9) as u64;
    (done < WANTED_PER_TASK && factor >= 1.2 && run_ns > config.run_ns).then_some(run_ns)
}

fn measured(run: &tussle_sim::Run) -> Measured {
    let ops = run.operations.max(1) as f64;
    let seconds = run.measured_ns.max(1) as f64 / 1e9;
    // A scalar has no field: its name ends with the dot.
    let name = |n: &str| n.trim_end_matches('.').replacen(".[", "[", 1);
    let field = |(n, t, h): &(String, u64, u64)| (name(n), *t as f64 / ops, *h as f64 / (*t).max(1) as f64);
    Measured {
        throughput: run.throughput(),
        switches: run.counters.switches as f64 / seconds,
        transfers: run.counters.transfers as f64 / ops,
        fairness: run.fairness(),
        operations: run.operations as f64 / run.by_task.len().max(1) as f64,
        accesses: run.counters.accesses,
        fields: run.by_field.iter().take(16).map(field).collect(),
    }
}

/// Faster, slower, or nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The after side has more throughput.
    Faster,
    /// It has less.
    Slower,
    /// The draws do not agree.
    Undecided,
}

impl Verdict {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Undecided => "undecided",
        }
    }
}

/// Share of draws that must agree, and the smallest median effect, for a verdict.
pub const SHARE_MIN: f64 = 0.8;
/// Effects smaller than this are no verdict.
pub const EFFECT_MIN: f64 = 0.002;

/// Smallest share of the accesses to the objects of recorded operations that must lie in the operations, for a verdict:
/// with more than half of the traffic left out, the simulated half may have the other sign.
pub const COVERAGE_MIN: f64 = 0.5;

/// Fewest operations per task that a verdict on recorded operations, or on a run of a length that was asked for, rests
/// on; the scenarios' own lengths are part of what `docs/validation.md` compares.
pub const OPERATIONS_MIN: f64 = 20.0;

/// Draws of one number of CPUs, summed up.
#[derive(Clone, Debug)]
pub struct Point {
    /// CPUs.
    pub cpus: u32,
    /// 5% quantile, median and 95% quantile of the effect.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// 95% quantile.
    pub high: f64,
    /// Share of draws with a positive effect.
    pub positive_share: f64,
    /// Median operations measured per task, of the side with fewer.
    pub operations: f64,
    /// Median throughput before and after.
    pub throughput: (f64, f64),
    /// Median change of context switches; `None` where there are next to none.
    pub switches: Option<f64>,
    /// What it means.
    pub verdict: Verdict,
}

/// Effect in the lower and the upper third of an unknown's draws.
#[derive(Clone, Debug)]
pub struct Influence {
    /// The unknown.
    pub unknown: Unknown,
    /// Mean effect where it is low.
    pub low: f64,
    /// Mean effect where it is high.
    pub high: f64,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The question.
    pub question: Question,
    /// One per number of CPUs, in ascending order of the question.
    pub curve: Vec<Point>,
    /// Strongest first.
    pub tornado: Vec<Influence>,
    /// Changes of the model: (which, median effect).
    pub ablations: Vec<(Ablation, f64)>,
    /// (CPUs between which the sign of the median changes, "wins above" or "loses above").
    pub crossovers: Vec<(u32, u32, &'static str)>,
    /// Samples of the last number of CPUs.
    pub samples: Vec<Sample>,
}

impl Prediction {
    /// The point that was asked for.
    pub fn point(&self) -> Option<&Point> {
        self.curve.last()
    }
}

/// Sums up draws of one number of CPUs.
pub fn point(cpus: u32, samples: &[Sample]) -> Point {
    let effects: Vec<f64> = samples.iter().map(Sample::effect).collect();
    let q = |xs: &[f64], p| quantile(xs, p).unwrap_or(0.0);
    let median_of = |f: &dyn Fn(&Sample) -> f64| q(&samples.iter().map(f).collect::<Vec<_>>(), 0.5);
    let positive = effects.iter().filter(|e| **e > 0.0).count() as f64 / effects.len().max(1) as f64;
    let median = q(&effects, 0.5);
    let verdict = match positive {
        p if p >= SHARE_MIN && median >= EFFECT_MIN => Verdict::Faster,
        p if p <= 1.0 - SHARE_MIN && median <= -EFFECT_MIN => Verdict::Slower,
        _ => Verdict::Undecided,
    };
    let before = median_of(&|s| s.before.switches);
    let switches = (before > 1_000.0).then(|| median_of(&|s| ratio(s.after.switches, s.before.switches)));
    Point {
        cpus,
        low: q(&effects, 0.05),
        median,
        high: q(&effects, 0.95),
        positive_share: positive,
        operations: median_of(&|s| s.before.operations.min(s.after.operations)),
        throughput: (median_of(&|s| s.before.throughput), median_of(&|s| s.after.throughput)),
        switches,
        verdict,
    }
}

/// Too few operations were simulated for a verdict.
pub fn too_few(q: &Question, p: &Point) -> bool {
    let asked = q.run_ns.is_some() || matches!(q.subject, Subject::Recording(_));
    asked && p.operations < OPERATIONS_MIN
}

/// Sums up the samples of [`jobs`], in their order.
pub fn analyse(q: &Question, samples: Vec<Sample>) -> Prediction {
    let draws = q.draws.max(1) as usize;
    let main = q.cpus.len() * draws;
    let mut curve: Vec<Point> =
        q.cpus.iter().zip(samples.chunks(draws)).map(|(&cpus, chunk)| point(cpus, chunk)).collect();
    let blind = q.subject.seen_share().is_some_and(|share| share < COVERAGE_MIN);
    if blind {
        curve.iter_mut().for_each(|p| p.verdict = Verdict::Undecided);
    }
    for p in curve.iter_mut().filter(|p| too_few(q, p)) {
        p.verdict = Verdict::Undecided;
    }
    let few = (q.draws / 4).max(5).min(q.draws).max(1) as usize;
    let rest = samples.get(main..).unwrap_or_default();
    let ablations = q
        .subject
        .ablations(&q.machine, &q.after)
        .into_iter()
        .zip(rest.chunks(few))
        .map(|(a, chunk)| (a, point(0, chunk).median))
        .collect();
    let last = samples.get(main.saturating_sub(draws)..main).unwrap_or_default().to_vec();
    Prediction {
        crossovers: if blind { Vec::new() } else { crossovers(&curve) },
        tornado: tornado(&q.subject.unknowns(), &last),
        question: q.clone(),
        curve,
        ablations,
        samples: last,
    }
}

fn crossovers(curve: &[Point]) -> Vec<(u32, u32, &'static str)> {
    let mut points: Vec<&Point> = curve.iter().filter(|p| p.median.abs() >= EFFECT_MIN).collect();
    points.sort_by_key(|p| p.cpus);
    points
        .windows(2)
        .filter(|w| (w[0].median > 0.0) != (w[1].median > 0.0))
        .map(|w| (w[0].cpus, w[1].cpus, if w[1].median > 0.0 { "wins above" } else { "loses above" }))
        .collect()
}

fn tornado(unknowns: &[Unknown], samples: &[Sample]) -> Vec<Influence> {
    let third = (samples.len() / 3).max(1);
    let mut out: Vec<Influence> = unknowns
        .iter()
        .enumerate()
        .map(|(i, u)| {
            let mut order: Vec<&Sample> = samples.iter().collect();
            order.sort_by(|a, b| a.factors[i].total_cmp(&b.factors[i]));
            let mean = |s: &[&Sample]| s.iter().map(|s| s.effect()).sum::<f64>() / s.len().max(1) as f64;
            let end = order.len().min(third);
            let (low, high) = (mean(&order[..end]), mean(&order[order.len() - end..]));
            Influence { unknown: *u, low, high }
        })
        .collect();
    out.sort_by(|a, b| (b.high - b.low).abs().total_cmp(&(a.high - a.low).abs()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(effects: &[f64]) -> Vec<Sample> {
        let side = |t: f64| Measured { throughput: t, ..Measured::default() };
        let sample = |(i, e): (usize, &f64)| Sample {
            factors: vec![i as f64; UNKNOWNS.len()],
            before: side(100.0),
            after: side(100.0 * (1.0 + e)),
        };
        effects.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn verdicts_need_agreement_and_size() {
        let verdict = |e: &[f64]| point(8, &samples(e)).verdict;
        assert_eq!(verdict(&[0.05; 10]), Verdict::Faster);
        assert_eq!(verdict(&[-0.05; 10]), Verdict::Slower);
        assert_eq!(verdict(&[0.0001; 10]), Verdict::Undecided);
        assert_eq!(verdict(&[0.1, 0.1, -0.1, 0.1, -0.1]), Verdict::Undecided);
        let p = point(8, &samples(&[0.1, 0.2, -0.1, 0.3]));
        assert_eq!(p.positive_share, 0.75);
    }

    #[test]
    fn the_strongest_unknown_comes_first() {
        let got = tornado(UNKNOWNS, &samples(&[0.0, 0.1, 0.2, 0.3, 0.4, 0.5]));
        assert!((got[0].high - got[0].low - 0.4).abs() < 1e-9);
    }

    #[test]
    fn the_same_question_has_the_same_answer() {
        let mut q = Question::of(Story::Mmap).unwrap();
        q.run_ns = Some(50_000);
        let job = Job { cpus: 8, draw: 3, ablation: Ablation::None };
        assert_eq!(run(&q, &job).unwrap(), run(&q, &job).unwrap());
    }

    #[test]
    fn keys_are_checked() {
        let mut q = Question::of(Story::Mmap).unwrap();
        q.set("latency_ns.cross", 150.0).unwrap();
        q.set("think", 0.5).unwrap();
        for (key, value) in [("latency_ns.cross", 0.0), ("think", 0.0), ("warp", 1.0), ("tasks", 0.0)] {
            assert!(q.clone().set(key, value).is_err(), "{key}");
        }
    }
}
