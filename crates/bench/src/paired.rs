//! Two arms, run for run.

use std::collections::BTreeMap;

use crate::design::Order;
use crate::metric::{Extract, Metric, MetricKind};
use crate::sample::{Results, Sample, Status};

/// The complete pairs of two arms.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    /// Names of the arms: reference, candidate.
    pub names: [String; 2],
    /// What was measured.
    pub metric: Metric,
    /// Order of runs.
    pub order: Order,
    /// Logical CPUs of the machine; 0 when unknown.
    pub cpus: usize,
    /// Whether a rule looked at the data after every pair.
    pub sequential: bool,
    /// Frequency governor of the machine, where it tells.
    pub governor: Option<String>,
    /// Why PMU counters are absent; absent when nothing is missing.
    pub counters_missing: Option<String>,
    /// Pairs in which both runs have a value.
    pub pairs: Vec<[Sample; 2]>,
    /// What went wrong, one line per kind and arm.
    pub failures: Vec<String>,
}

/// Why there is nothing to compare.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PairedError {
    /// Fewer than two arms, or an index that is none.
    #[error("a comparison needs two arms; this result has {0}")]
    Arms(usize),
    /// Too few complete pairs.
    #[error("only {pairs} complete pairs; at least two are needed{failures}")]
    Pairs {
        /// Complete pairs.
        pairs: usize,
        /// `: what failed`, or empty.
        failures: String,
    },
}

impl Paired {
    /// Takes arms `a` (reference) and `b` (candidate) out of a result.
    pub fn from_results(results: &Results, a: usize, b: usize) -> Result<Paired, PairedError> {
        let arms = &results.header.arms;
        if a >= arms.len() || b >= arms.len() || a == b {
            return Err(PairedError::Arms(arms.len()));
        }
        // Numbers of rounds come from a file: they are keys, never sizes.
        let mut rounds: BTreeMap<usize, [Option<&Sample>; 2]> = BTreeMap::new();
        for s in results.samples.iter().filter(|s| !s.warmup && s.value.is_some()) {
            if let Some(side) = [a, b].iter().position(|&arm| arm == s.arm) {
                rounds.entry(s.pair).or_default()[side].get_or_insert(s);
            }
        }
        let both = |round: [Option<&Sample>; 2]| Some([round[0]?.clone(), round[1]?.clone()]);
        let pairs: Vec<[Sample; 2]> = rounds.into_values().filter_map(both).collect();
        let failures = failures(results, &[a, b]);
        if pairs.len() < 2 {
            let failures =
                if failures.is_empty() { String::new() } else { format!(": {}", failures.join("; ")) };
            return Err(PairedError::Pairs { pairs: pairs.len(), failures });
        }
        Ok(Paired {
            names: [arms[a].clone(), arms[b].clone()],
            metric: results.header.metric.clone(),
            order: results.header.order,
            cpus: results.header.cpus,
            sequential: results.header.sequential,
            governor: results.header.governor.clone(),
            counters_missing: results.header.counters_missing.clone(),
            pairs,
            failures,
        })
    }

    /// The metric of both arms, pair by pair.
    pub fn values(&self) -> [Vec<f64>; 2] {
        [0, 1].map(|i| self.pairs.iter().filter_map(|p| p[i].value).collect())
    }

    /// ln(candidate/reference) of the metric.
    pub fn log_ratios(&self) -> Option<Vec<f64>> {
        let [a, b] = self.values();
        tussle_stats::log_ratios(&a, &b)
    }

    /// ln(candidate/reference) of the work done per own CPU second (higher is better), where CPU times are known.
    pub fn log_ratios_per_cpu(&self) -> Option<Vec<f64>> {
        let per_cpu = |s: &Sample| {
            let (value, cpu) = (s.value?, s.cpu_s()?);
            let work = match self.metric.kind {
                // A whole run's time is that of its work; a time that it prints may be of any number of operations.
                MetricKind::Cost if matches!(self.metric.from, Extract::Wall | Extract::Cpu) => 1.0,
                MetricKind::Cost => return None,
                MetricKind::Rate => value * s.wall_s,
                MetricKind::Total => value,
            };
            (cpu > 0.0).then_some(work / cpu)
        };
        let side = |i: usize| self.pairs.iter().map(|p| per_cpu(&p[i])).collect::<Option<Vec<f64>>>();
        tussle_stats::log_ratios(&side(0)?, &side(1)?)
    }
}

/// `arm: what happened, n times`.
fn failures(results: &Results, arms: &[usize]) -> Vec<String> {
    let mut out: Vec<(usize, String, usize)> = Vec::new();
    for s in results.samples.iter().filter(|s| s.status != Status::Ok && arms.contains(&s.arm)) {
        let text = s.status.to_string();
        match out.iter_mut().find(|(arm, t, _)| *arm == s.arm && *t == text) {
            Some(known) => known.2 += 1,
            None => out.push((s.arm, text, 1)),
        }
    }
    let times = |n: usize| if n == 1 { String::new() } else { format!(", {n} times") };
    out.iter().map(|(arm, text, n)| format!("{}: {text}{}", results.header.arms[*arm], times(*n))).collect()
}
