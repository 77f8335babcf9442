//! Runs benchmark commands in randomly ordered pairs and keeps every sample.

pub mod counters;
pub mod machine;
mod process;
pub mod resume;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tussle_bench::design::{self, Order, Slot};
use tussle_bench::metric::{Extractor, MetricError};
use tussle_bench::sample::{self, Header, Results, Sample, Status};
use tussle_bench::{Criterion, Metric, Paired, PairedError, verdict};

/// What one arm runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A program and its arguments.
    Argv(Vec<OsString>),
    /// A line for `sh -c`; only for text that the user typed on the command line.
    Shell(String),
}

/// One arm of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Name for people; unique within a plan.
    pub name: String,
    /// What runs.
    pub program: Program,
    /// Working directory; the current one if absent.
    pub folder: Option<PathBuf>,
    /// Variables added to the environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl Command {
    /// A program with arguments, in the current folder.
    pub fn argv<S: Into<OsString>>(name: &str, argv: impl IntoIterator<Item = S>) -> Command {
        let argv = argv.into_iter().map(Into::into).collect();
        Command { name: name.into(), program: Program::Argv(argv), folder: None, environment: Vec::new() }
    }

    /// A line for the shell, in the current folder.
    pub fn shell(name: &str, line: &str) -> Command {
        Command {
            name: name.into(),
            program: Program::Shell(line.into()),
            folder: None,
            environment: Vec::new(),
        }
    }

    /// The same in another folder.
    pub fn in_folder(mut self, folder: impl Into<PathBuf>) -> Command {
        self.folder = Some(folder.into());
        self
    }

    /// As people would type it.
    pub fn text(&self) -> String {
        match &self.program {
            Program::Shell(line) => line.clone(),
            Program::Argv(argv) => argv.iter().map(|a| a.to_string_lossy()).collect::<Vec<_>>().join(" "),
        }
    }
}

/// When a benchmark ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// After this many pairs.
    Pairs(usize),
    /// As soon as every candidate is regressed, improved or equivalent, looked at after every pair, at the latest after
    /// `pairs_max`.
    Decided {
        /// The question to decide.
        question: Criterion,
        /// Most pairs.
        pairs_max: usize,
    },
}

/// A benchmark to run. The first arm is the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to run; two or more to compare.
    pub arms: Vec<Command>,
    /// When to end.
    pub until: Until,
    /// Rounds run and thrown away first.
    pub warmup: usize,
    /// Seed of the order of runs.
    pub seed: u64,
    /// What is measured.
    pub metric: Metric,
    /// Longest time of one run; no limit if absent.
    pub timeout: Option<Duration>,
    /// CPUs to pin every run to; not pinned if absent.
    pub cpus: Option<Vec<usize>>,
    /// Switch off address randomisation.
    pub fixed_addresses: bool,
    /// Order of runs; blocked order only for demonstrations, with [`Until::Pairs`].
    pub order: Order,
    /// Read hardware and kernel counters of every run where the machine has them.
    pub counters: bool,
    /// Commit of each arm, for the header of the results; empty when the arms are not revisions.
    pub commits: Vec<String>,
}

impl Plan {
    /// Wall time of these arms over `pairs` pairs with one warm-up round.
    pub fn new(arms: Vec<Command>, pairs: usize) -> Plan {
        Plan {
            arms,
            until: Until::Pairs(pairs),
            warmup: 1,
            seed: 1,
            metric: Metric::wall(),
            timeout: None,
            cpus: None,
            fixed_addresses: false,
            order: Order::RandomWithinPairs,
            counters: true,
            commits: Vec::new(),
        }
    }
}

/// Why a benchmark did not run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// No arms, no pairs, equal names.
    #[error("{0}")]
    Plan(String),
    /// The metric's pattern.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// An arm fails.
    #[error("{arm}: {status}{output} ({kept} samples kept)")]
    Failing {
        /// Name of the arm.
        arm: String,
        /// What happened.
        status: Status,
        /// `: the last lines it wrote`, or empty.
        output: String,
        /// Samples with a value so far.
        kept: usize,
    },
    /// The result file.
    #[error("cannot write samples: {0}")]
    Write(#[from] std::io::Error),
    /// Too little for a comparison.
    #[error(transparent)]
    Paired(#[from] PairedError),
}

/// Progress after one run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Runs done, warm-up included.
    pub done: usize,
    /// Runs planned; the most that may come when a rule may end it earlier.
    pub planned: usize,
    /// Time so far.
    pub elapsed: Duration,
    /// The run that just ended.
    pub sample: &'a Sample,
}

impl Progress<'_> {
    /// Time left if the remaining runs take as long as the ones so far.
    pub fn left(&self) -> Duration {
        self.elapsed.mul_f64((self.planned - self.done.min(self.planned)) as f64 / self.done.max(1) as f64)
    }
}

/// What a benchmark left behind; also when it had to stop.
#[derive(Debug)]
pub struct Finished {
    /// Every sample.
    pub results: Results,
    /// Why it ended early.
    pub stopped: Option<BenchError>,
}

/// Failures of one arm in a row that end a benchmark; the very first run of an arm ends it at once.
const FAILURES_MAX: usize = 3;

/// Runs a plan. Every sample goes to `log` as one line at once, so that a crash loses nothing; `watch` hears of
/// each run.
///
/// # Errors
/// A plan that cannot start. A benchmark that fails later is reported in [`Finished::stopped`] beside its samples.
pub fn run<'a>(
    plan: &'a Plan,
    log: Option<&'a mut dyn Write>,
    watch: &'a mut dyn FnMut(Progress<'_>),
) -> Result<Finished, BenchError> {
    resume(plan, Vec::new(), log, watch)
}

/// Goes on with a plan of which `done` ran before ([`resume::rounds`]); warms up again. `log` gets all samples.
///
/// # Errors
/// As [`run`].
pub fn resume<'a>(
    plan: &'a Plan,
    done: Vec<Sample>,
    log: Option<&'a mut dyn Write>,
    watch: &'a mut dyn FnMut(Progress<'_>),
) -> Result<Finished, BenchError> {
    check(plan)?;
    let extractor = Extractor::new(&plan.metric)?;
    let from = done.iter().map(|s| s.pair + 1).max().unwrap_or(0);
    let results = Results { header: header(plan), samples: done };
    let before =
        results.samples.iter().map(sample::line).fold(sample::line(&results.header), |all, l| all + &l);
    let mut session = Session {
        plan,
        extractor,
        before: results.samples.len(),
        from,
        results,
        log,
        watch,
        started: Instant::now(),
        failures: vec![0; plan.arms.len()],
        planned: plan.arms.len() * (plan.warmup + pairs_max(plan).saturating_sub(from)),
    };
    session.write(&before)?;
    let stopped = session.all().err();
    Ok(Finished { results: session.results, stopped })
}

/// Runs two arms and pairs their samples: what `hunt` needs.
///
/// # Errors
/// Also when an arm fails so often that fewer than two pairs are complete.
pub fn paired(plan: &Plan) -> Result<Paired, BenchError> {
    if plan.arms.len() < 2 {
        return Err(BenchError::Plan("a benchmark needs at least two arms".into()));
    }
    let run = run(plan, None, &mut |_| {})?;
    match (Paired::from_results(&run.results, 0, 1), run.stopped) {
        (_, Some(stopped)) => Err(stopped),
        (paired, None) => Ok(paired?),
    }
}

/// Runs the first arm of a plan once. The text is the end of what it wrote, for messages.
///
/// # Errors
/// When the metric's pattern is wrong or the plan has no arm; a run that fails says so in its status.
pub fn once(plan: &Plan, position: usize) -> Result<(Sample, String), BenchError> {
    if plan.arms.is_empty() {
        return Err(BenchError::Plan("a benchmark needs a command".into()));
    }
    let extractor = Extractor::new(&plan.metric)?;
    Ok(process::run_once(plan, Slot { pair: position, arm: 0, warmup: false }, position, &extractor))
}

fn check(plan: &Plan) -> Result<(), BenchError> {
    let mistake = |text: &str| Err(BenchError::Plan(text.into()));
    if plan.arms.is_empty() {
        return mistake("a benchmark needs a command");
    }
    if pairs_max(plan) < 2 {
        return mistake("at least two pairs are needed");
    }
    if plan.order == Order::Blocked && !matches!(plan.until, Until::Pairs(_)) {
        return mistake("a rule that looks after every pair cannot run the arms in blocks");
    }
    let empty = |c: &Command| match &c.program {
        Program::Argv(argv) => argv.is_empty(),
        Program::Shell(line) => line.trim().is_empty(),
    };
    if plan.arms.iter().any(empty) {
        return mistake("an arm has no command");
    }
    for (i, arm) in plan.arms.iter().enumerate() {
        if plan.arms[..i].iter().any(|other| other.name == arm.name) {
            return Err(BenchError::Plan(format!("two arms are called {}", arm.name)));
        }
    }
    Ok(())
}

fn pairs_max(plan: &Plan) -> usize {
    match plan.until {
        Until::Pairs(n) => n,
        Until::Decided { pairs_max, .. } => pairs_max,
    }
}

/// What a result of this plan begins with.
pub fn header(plan: &Plan) -> Header {
    Header {
        tussle_bench: sample::SCHEMA_VERSION,
        arms: plan.arms.iter().map(|a| a.name.clone()).collect(),
        commands: plan.arms.iter().map(Command::text).collect(),
        metric: plan.metric.clone(),
        order: plan.order,
        seed: plan.seed,
        warmup: plan.warmup,
        cpus: machine::cpus(),
        sequential: matches!(plan.until, Until::Decided { .. }),
        governor: machine::governor(),
        commits: plan.commits.clone(),
        counters_missing: if plan.counters { counters::missing() } else { None },
    }
}

struct Session<'a> {
    plan: &'a Plan,
    extractor: Extractor,
    results: Results,
    /// Samples of an earlier start.
    before: usize,
    /// First round that has not run yet.
    from: usize,
    log: Option<&'a mut dyn Write>,
    watch: &'a mut dyn FnMut(Progress<'_>),
    started: Instant,
    failures: Vec<usize>,
    planned: usize,
}

impl Session<'_> {
    fn all(&mut self) -> Result<(), BenchError> {
        let plan = self.plan;
        let arms = plan.arms.len();
        if let Until::Pairs(pairs) = plan.until {
            let mut slots = design::plan(plan.order, plan.seed, arms, plan.warmup, pairs);
            slots.retain(|s| s.warmup || s.pair >= self.from);
            return self.slots(&slots);
        }
        for round in 0..plan.warmup {
            self.slots(&design::round(plan.seed, round, arms, true))?;
        }
        if self.from > 0 && self.decided() {
            return Ok(());
        }
        for pair in self.from..pairs_max(plan) {
            self.slots(&design::round(plan.seed, pair, arms, false))?;
            if self.decided() {
                break;
            }
        }
        Ok(())
    }

    fn slots(&mut self, slots: &[Slot]) -> Result<(), BenchError> {
        slots.iter().try_for_each(|&slot| self.one(slot))
    }

    fn one(&mut self, slot: Slot) -> Result<(), BenchError> {
        // Warm-ups of an earlier start are not kept, but have had their places.
        let position = self.results.samples.last().map_or(0, |s| s.position.saturating_add(1));
        let (sample, output) = process::run_once(self.plan, slot, position, &self.extractor);
        let text = sample::line(&sample);
        self.results.samples.push(sample);
        self.write(&text)?;
        let Some(sample) = self.results.samples.last() else { return Ok(()) };
        let done = self.results.samples.len() - self.before;
        (self.watch)(Progress { done, planned: self.planned, elapsed: self.started.elapsed(), sample });
        if sample.status == Status::Ok {
            self.failures[slot.arm] = 0;
            return Ok(());
        }
        self.failures[slot.arm] += 1;
        let of_arm = self.results.samples.iter().filter(|s| s.arm == slot.arm).count();
        if of_arm > 1 && self.failures[slot.arm] < FAILURES_MAX {
            return Ok(());
        }
        Err(BenchError::Failing {
            arm: self.plan.arms[slot.arm].name.clone(),
            status: sample.status.clone(),
            output: if output.is_empty() { output } else { format!(": {output}") },
            kept: self.results.samples.iter().filter(|s| s.value.is_some() && !s.warmup).count(),
        })
    }

    fn write(&mut self, line: &str) -> Result<(), BenchError> {
        if let Some(log) = self.log.as_mut() {
            log.write_all(line.as_bytes())?;
            log.flush()?;
        }
        Ok(())
    }

    /// Whether every candidate is decided against the reference.
    fn decided(&self) -> bool {
        let Until::Decided { mut question, .. } = self.plan.until else { return false };
        // Several candidates share the error rate.
        question.confidence = 1.0 - (1.0 - question.confidence) / (self.plan.arms.len() - 1).max(1) as f64;
        (1..self.plan.arms.len()).all(|arm| {
            let paired = Paired::from_results(&self.results, 0, arm).ok();
            paired.and_then(|p| p.log_ratios()).is_some_and(|d| verdict::decided(&d, question))
        })
    }
}

#[cfg(test)]
#[path = "bench/tests.rs"]
mod tests;
