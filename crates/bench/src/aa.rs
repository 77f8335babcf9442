//! What this machine's noise does to a design: the same command against itself.

use serde::Serialize;
use tussle_stats::{Rng, paired_t, power, series, welch};

use crate::paired::Paired;
use crate::verdict;

/// Relabelings drawn.
const DRAWS: usize = 1_000;

/// The result of an A/A measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoiseOfMachine {
    /// Pairs measured.
    pub pairs: usize,
    /// Standard deviation of a pair's log ratio.
    pub std_dev: f64,
    /// Share of random relabelings of these pairs that the paired test calls different; 0.05 is what it promises.
    pub false_positives: f64,
    /// The same for Welch's test on two blocks cut out of the run at random places: what an A..AB..B design would do.
    pub false_positives_blocked: Option<f64>,
    /// Lag-1 autocorrelation of single runs in the order they ran.
    pub autocorrelation: Option<f64>,
    /// Smallest effect found with 80% probability by as many pairs.
    pub detectable: Option<f64>,
    /// Whether this very measurement called the command different from itself.
    pub different: bool,
}

/// Judges the noise of two arms that ran the same command.
pub fn noise(paired: &Paired, rng: &mut Rng) -> Option<NoiseOfMachine> {
    let d = paired.log_ratios()?;
    let t = paired_t(&d, 0.95)?;
    let mut runs: Vec<(usize, f64)> =
        paired.pairs.iter().flatten().filter_map(|s| Some((s.position, s.value?.ln()))).collect();
    runs.sort_unstable_by_key(|r| r.0);
    let series: Vec<f64> = runs.iter().map(|r| r.1).collect();
    let mut relabelled = d.clone();
    let mut hits = 0;
    for _ in 0..DRAWS {
        for x in &mut relabelled {
            if rng.coin() {
                *x = -*x;
            }
        }
        hits += usize::from(different(&relabelled));
    }
    Some(NoiseOfMachine {
        pairs: d.len(),
        std_dev: t.std_dev,
        false_positives: hits as f64 / DRAWS as f64,
        false_positives_blocked: blocked(&series),
        autocorrelation: series::autocorrelation(&series),
        detectable: power::detectable_effect(t.std_dev, d.len(), 0.05, 0.8),
        different: different(&d),
    })
}

/// The rule of the default design.
fn different(d: &[f64]) -> bool {
    verdict::interval(d, 0.95, false).is_some_and(|i| !i.contains(0.0))
}

/// Welch's test on every window of neighbouring blocks of a quarter of the series (at least four runs each).
fn blocked(series: &[f64]) -> Option<f64> {
    let block = (series.len() / 4).max(4);
    let windows = series.windows(2 * block);
    let total = windows.len();
    let hits = windows.filter(|w| welch::welch(&w[..block], &w[block..]).is_some_and(|t| t.p < 0.05)).count();
    (total > 0).then(|| hits as f64 / total as f64)
}
