//! The paired t test on log ratios: the default of every comparison in tussle.
//!
//! Two runs stand in a pair because they ran next to each other; d = ln(b/a) removes what both shared (a noisy
//! neighbour, a hot machine), and exp of its mean is a ratio of geometric means.

use crate::Interval;
use crate::dist::{t_cdf, t_quantile, t_two_sided};
use crate::summary::{mean, std_dev};

/// Estimate and interval of a mean log ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogRatio {
    /// Number of pairs.
    pub pairs: usize,
    /// Mean of ln(b/a).
    pub mean: f64,
    /// Standard deviation of ln(b/a).
    pub std_dev: f64,
    /// Interval for the mean.
    pub interval: Interval,
    /// Two-sided p-value of "no difference".
    pub p: f64,
    /// Probability that b is larger than a: the t distribution around the mean under a flat prior.
    pub larger_probability: f64,
}

/// ln(b/a) of each pair. `None` when the lengths differ or any value is not finite and positive.
pub fn log_ratios(a: &[f64], b: &[f64]) -> Option<Vec<f64>> {
    if a.len() != b.len() {
        return None;
    }
    let d: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b / a).ln()).collect();
    let fine = |xs: &[f64]| xs.iter().all(|x| x.is_finite() && *x > 0.0);
    (fine(a) && fine(b)).then_some(d)
}

/// Student's t on paired differences with two-sided confidence `confidence` (0.95). Needs two pairs.
/// Without any spread the interval is the mean itself and p is 0 or 1.
pub fn paired_t(d: &[f64], confidence: f64) -> Option<LogRatio> {
    let (m, sd) = (mean(d)?, std_dev(d)?);
    let df = (d.len() - 1) as f64;
    let error = sd / (d.len() as f64).sqrt();
    let t = t_quantile(0.5 + confidence / 2.0, df)?;
    let interval = Interval { low: m - t * error, high: m + t * error };
    let (p, larger_probability) = if error > 0.0 {
        (t_two_sided(m / error, df), t_cdf(m / error, df))
    } else if m == 0.0 {
        (1.0, 0.5)
    } else {
        (0.0, if m > 0.0 { 1.0 } else { 0.0 })
    };
    Some(LogRatio { pairs: d.len(), mean: m, std_dev: sd, interval, p, larger_probability })
}
