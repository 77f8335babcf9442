//! What a series of samples says against the assumptions made about it.

use crate::summary::{mean, usable};

/// Lag-1 autocorrelation Σ(xᵢ−m)(xᵢ₊₁−m)/Σ(xᵢ−m)². `None` below three values or without spread.
pub fn autocorrelation(xs: &[f64]) -> Option<f64> {
    if !usable(xs, 3) {
        return None;
    }
    let m = mean(xs)?;
    let below: f64 = xs.iter().map(|x| (x - m).powi(2)).sum();
    let above: f64 = xs.windows(2).map(|w| (w[0] - m) * (w[1] - m)).sum();
    (below > 0.0).then(|| above / below)
}

/// Whether the lag-1 autocorrelation lies beyond what independent values show in 1 of 20 series: |r + 1/n| > 1.96/√n
/// (the mean of r is −1/n; Kendall, 1976).
pub fn autocorrelated(xs: &[f64]) -> bool {
    let n = xs.len() as f64;
    xs.len() >= 8 && autocorrelation(xs).is_some_and(|r| (r + 1.0 / n).abs() > 1.96 / n.sqrt())
}

/// Two clusters in a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoModes {
    /// Mean of the lower cluster.
    pub low: f64,
    /// Mean of the upper cluster.
    pub high: f64,
    /// Share of the values in the upper cluster.
    pub high_share: f64,
}

/// Warns of two modes: the split into two clusters with the least variance within (Otsu, 1979) leaves at most 10% of
/// the variance (a normal sample keeps 1 − 2/π = 36% of it, a uniform one 25%), and each side holds at least a
/// tenth and
/// two values. Needs eight values.
pub fn two_modes(xs: &[f64]) -> Option<TwoModes> {
    if !usable(xs, 8) {
        return None;
    }
    let mut sorted = xs.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    let squares = |part: &[f64]| {
        let m = part.iter().sum::<f64>() / part.len() as f64;
        part.iter().map(|x| (x - m).powi(2)).sum::<f64>()
    };
    let all = squares(&sorted);
    let least = (n / 10).max(2);
    let best = (least..=n - least)
        .map(|k| (k, squares(&sorted[..k]) + squares(&sorted[k..])))
        .min_by(|x, y| x.1.total_cmp(&y.1))?;
    let (low, high) = sorted.split_at(best.0);
    let modes = TwoModes { low: mean(low)?, high: mean(high)?, high_share: high.len() as f64 / n as f64 };
    (all > 0.0 && best.1 <= 0.1 * all).then_some(modes)
}
