//! Predictions: many draws over what nobody knows exactly, the effect as an interval with the share of draws of that
//! sign, what it hangs on, and what would have to be measured.
//!
//! Everything here is a pure function; whoever calls it spreads [`Job`]s over cores and hands the samples back in
//! order.

pub use crate::answer::{
    COVERAGE_MIN, Doubt, EFFECT_MIN, OPERATION_NS_MIN, OPERATIONS_MIN, Point, Prediction, SHARE_MIN, Verdict,
};
use crate::recorded::{RecordedError, Recording};
use crate::stories::{ScenarioError, Setup, Side, Story};
pub use crate::subject::{Ablation, Subject};
use std::sync::Arc;
use tussle_sim::{Config, Machine, MachineError, SimError};
use tussle_stats::Rng;

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

/// Of recorded operations on a machine that has a table of what is hidden behind work: the kind of work is not
/// recorded, so that both columns of the table are spanned.
pub const CHAIN: Unknown = Unknown {
    key: "chain",
    range: (1.0, 2.0),
    machine: &[],
    what: "work between accesses: 1 waits for nothing, 2 is one chain",
    measure: "which work lies between accesses (a chain hides most of a line's way)",
};

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
    /// Recorded operations on real threads.
    #[error(transparent)]
    Native(#[from] crate::recorded::NativeError),
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
pub struct Comparison {
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
    /// Draws per number of CPUs; `None`: until it is decided ([`decide`](crate::decide)).
    pub draws: Option<u32>,
    /// Seed.
    pub seed: u64,
    /// Factors fixed by the user, by the key of their [`Unknown`].
    pub fixed: Vec<(String, f64)>,
    /// Simulated time of a run, ns; `None` takes the scenario's.
    pub run_ns: Option<u64>,
}

impl Comparison {
    /// The scenario's own comparison on the machine of its published figures.
    ///
    /// # Errors
    /// Never for built-in machines.
    pub fn of(story: Story) -> Result<Comparison, PredictError> {
        let about = story.about();
        let side = |name: &str| Side::Name(name.into());
        Ok(Comparison {
            subject: Subject::Story(story),
            before: side(about.before),
            after: side(about.after),
            machine: tussle_sim::machine::find(about.machine)?,
            cpus: vec![about.cpus],
            tasks: None,
            draws: None,
            seed: 1,
            fixed: Vec::new(),
            run_ns: None,
        })
    }

    /// What it would bring to give every recorded field a line of its own, with as many CPUs as there were actors.
    pub fn of_recording(recording: Recording, machine: Machine) -> Comparison {
        let cpus = (recording.actors() as u32).clamp(1, machine.cpus().max(1));
        Comparison {
            subject: Subject::Recording(Arc::new(recording)),
            before: Side::Name("recorded".into()),
            after: Side::Name("ideal".into()),
            machine,
            cpus: vec![cpus],
            tasks: None,
            draws: None,
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
        let unknowns = self.subject.unknowns(&self.machine);
        if unknowns.iter().any(|u| u.key == key) {
            if !(0.01..=100.0).contains(&value) {
                return Err(error("a factor from 0.01 to 100 on the nominal value".into()));
            }
            self.fixed.push((key.into(), value));
            return Ok(());
        }
        if self.machine.set(key, value).is_err() {
            let own: Vec<&str> = unknowns.iter().map(|u| u.key).collect();
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

pub(crate) fn ratio(after: f64, before: f64) -> f64 {
    if before > 0.0 { after / before - 1.0 } else { 0.0 }
}

/// Runs both sides of one job. The same draw has the same unknowns, phases and seeds on both sides.
///
/// # Errors
/// See [`PredictError`].
pub fn run(q: &Comparison, job: &Job) -> Result<Sample, PredictError> {
    let mut rng = Rng::new(q.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(job.draw)));
    let unknowns = q.subject.unknowns(&q.machine);
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
            // From 1 to 2, as a share of 0 to 1.
            "chain" => {
                setup.ahead = q.machine.curve.clone().map(|c| (Arc::new(c), factor.log2().clamp(0.0, 1.0)))
            }
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
    let one = |side: &Side, config: &Config| -> Result<Measured, PredictError> {
        let run = q.subject.simulate(side, &setup, &machine, config)?;
        let failed =
            |source| PredictError::Run { side: side.label().into(), cpus: job.cpus, draw: job.draw, source };
        Ok(measured(&run.map_err(failed)?))
    };
    loop {
        let before = one(&q.before, &config)?;
        let after = one(&after, &config)?;
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
const RUN_ACCESSES_MAX: f64 = 2e6;

/// How long to run again, where too little happened in runs whose length nobody asked for.
fn longer(q: &Comparison, config: &Config, sides: [&Measured; 2]) -> Option<u64> {
    if q.run_ns.is_some() || !matches!(q.subject, Subject::Recording(_)) {
        return None;
    }
    let done = sides.iter().map(|m| m.operations).fold(f64::INFINITY, f64::min);
    let accesses = sides.iter().map(|m| m.accesses).max().unwrap_or(0).max(1) as f64;
    let factor = (1.3 * WANTED_PER_TASK / done.max(1.0)).min(RUN_ACCESSES_MAX / accesses).min(16.0);
    let run_ns = (config.run_ns as f64 * factor).min(1e9) as u64;
    (done < WANTED_PER_TASK && factor >= 1.2 && run_ns > config.run_ns).then_some(run_ns)
}

fn measured(run: &tussle_sim::Simulated) -> Measured {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_question_has_the_same_answer() {
        let mut q = Comparison::of(Story::Mmap).unwrap();
        q.run_ns = Some(50_000);
        let job = Job { cpus: 8, draw: 3, ablation: Ablation::None };
        assert_eq!(run(&q, &job).unwrap(), run(&q, &job).unwrap());
    }

    #[test]
    fn keys_are_checked() {
        let mut q = Comparison::of(Story::Mmap).unwrap();
        q.set("latency_ns.cross", 150.0).unwrap();
        q.set("think", 0.5).unwrap();
        for (key, value) in [("latency_ns.cross", 0.0), ("think", 0.0), ("warp", 1.0), ("tasks", 0.0)] {
            assert!(q.clone().set(key, value).is_err(), "{key}");
        }
    }
}
