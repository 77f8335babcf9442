//! What a run leaves behind, as JSON Lines: a header, then one line per run in the order they ran.

use serde::{Deserialize, Serialize};

use crate::design::Order;
use crate::metric::Metric;

/// Version of the JSON Lines written here.
pub const SCHEMA_VERSION: u32 = 1;

/// First line of a result file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA_VERSION`].
    pub tussle_bench: u32,
    /// Name of each arm.
    pub arms: Vec<String>,
    /// Command of each arm, for people.
    pub commands: Vec<String>,
    /// What is measured.
    pub metric: Metric,
    /// Order of runs.
    pub order: Order,
    /// Seed of the order.
    pub seed: u64,
    /// Rounds thrown away first.
    pub warmup: usize,
    /// Logical CPUs of the machine; 0 when unknown.
    pub cpus: usize,
    /// Whether a rule that looks after every pair may end the run.
    pub sequential: bool,
    /// Frequency governor of CPU 0, where the machine tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Commit of each arm, where the arms are checked out revisions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<String>,
    /// Why PMU counters are absent from the samples; absent when nothing is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters_missing: Option<String>,
}

impl Header {
    /// A run of these arms in random order within pairs, of which nothing else is known.
    pub fn new(arms: Vec<String>, metric: Metric) -> Header {
        Header {
            tussle_bench: SCHEMA_VERSION,
            arms,
            commands: Vec::new(),
            metric,
            order: Order::RandomWithinPairs,
            seed: 0,
            warmup: 0,
            cpus: 0,
            sequential: false,
            governor: None,
            commits: Vec::new(),
            counters_missing: None,
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It ran and the metric was found.
    Ok,
    /// It returned this status.
    Exit(i32),
    /// This signal killed it.
    Signal(i32),
    /// It ran into the time limit and was killed.
    Timeout,
    /// It ran, but the metric was not in its output. What was looked for.
    NoMetric(String),
    /// It could not be started. The reason.
    NotStarted(String),
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Status::Ok => write!(f, "ok"),
            Status::Exit(code) => write!(f, "exit status {code}"),
            Status::Signal(n) => write!(f, "killed by signal {n}"),
            Status::Timeout => write!(f, "ran into the time limit"),
            Status::NoMetric(what) => write!(f, "no metric in its output ({what})"),
            Status::NotStarted(why) => write!(f, "could not be started ({why})"),
        }
    }
}

/// One run. Unknown figures are absent, never zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Round, from 0.
    pub pair: usize,
    /// Index of the arm.
    pub arm: usize,
    /// Position in the whole sequence, from 0, warm-up included.
    pub position: usize,
    /// Thrown away.
    #[serde(default)]
    pub warmup: bool,
    /// How it ended.
    pub status: Status,
    /// The metric; absent unless `status` is ok.
    pub value: Option<f64>,
    /// Start, seconds since 1970.
    pub started_s: f64,
    /// Wall time.
    pub wall_s: f64,
    /// User CPU time of the process and the children it waited for.
    pub user_s: Option<f64>,
    /// System CPU time of the same.
    pub system_s: Option<f64>,
    /// CPU time that others used meanwhile on this machine. The machine counts it in ticks (10 ms): of a short run it
    /// may be a little below zero, the mean of many runs is right.
    pub foreign_s: Option<f64>,
    /// Time that the hypervisor gave to others.
    pub steal_s: Option<f64>,
    /// Load average of the last minute at the start.
    pub load: Option<f64>,
    /// Context switches by waiting.
    pub switches_voluntary: Option<u64>,
    /// Context switches by preemption.
    pub switches_forced: Option<u64>,
    /// Page faults without I/O.
    pub faults_minor: Option<u64>,
    /// Page faults with I/O.
    pub faults_major: Option<u64>,
    /// Frequency of CPU 0 at the end, where the machine tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_khz: Option<u64>,
    /// PMU counters of the run by name, where the machine has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<(String, u64)>,
}

impl Sample {
    /// A run of which only this is known.
    pub fn new(pair: usize, arm: usize, position: usize, status: Status) -> Sample {
        Sample {
            pair,
            arm,
            position,
            warmup: false,
            status,
            value: None,
            started_s: 0.0,
            wall_s: 0.0,
            user_s: None,
            system_s: None,
            foreign_s: None,
            steal_s: None,
            load: None,
            switches_voluntary: None,
            switches_forced: None,
            faults_minor: None,
            faults_major: None,
            frequency_khz: None,
            counters: Vec::new(),
        }
    }

    /// A counter by name.
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|c| c.0 == name).map(|c| c.1)
    }

    /// Own CPU seconds.
    pub fn cpu_s(&self) -> Option<f64> {
        Some(self.user_s? + self.system_s?)
    }

    /// All context switches.
    pub fn switches(&self) -> Option<u64> {
        Some(self.switches_voluntary?.saturating_add(self.switches_forced?))
    }
}

/// A result file.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// What was run.
    pub header: Header,
    /// Every run, warm-up included, in the order they ran.
    pub samples: Vec<Sample>,
}

/// Why a result file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// The first line is not a header of this version.
    #[error("line 1 is not the header of a tussle bench file: {0}")]
    Header(String),
}

/// One line of JSON with its newline.
pub fn line<T: Serialize>(value: &T) -> String {
    // Neither type has a map with keys other than strings nor can fail to serialise; an empty line is skipped by
    // `parse`.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

/// Reads a result file; lines that do not parse (a last line cut off by a crash) become problems.
pub fn parse(text: &str) -> Result<(Results, Vec<String>), ResultsError> {
    let mut lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    let first = lines.next().map_or("", |(_, l)| l);
    let header: Header = serde_json::from_str(first).map_err(|e| ResultsError::Header(e.to_string()))?;
    if header.tussle_bench != SCHEMA_VERSION {
        return Err(ResultsError::Header(format!("version {}", header.tussle_bench)));
    }
    let (mut samples, mut problems) = (Vec::new(), Vec::new());
    for (at, text) in lines {
        match serde_json::from_str::<Sample>(text) {
            Ok(s) if s.arm < header.arms.len() => samples.push(s),
            Ok(s) => problems.push(format!("line {}: arm {} is not in the header", at + 1, s.arm)),
            Err(e) => problems.push(format!("line {}: {e}", at + 1)),
        }
    }
    Ok((Results { header, samples }, problems))
}
