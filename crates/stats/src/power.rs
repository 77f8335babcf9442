//! How many pairs a question needs, and what a design can see.

use crate::dist::{t_cdf, t_quantile};

/// Most pairs any plan is asked to run; beyond it the answer is "too many".
pub const PAIRS_MAX: usize = 1_000_000;

/// Smallest mean log ratio that `pairs` pairs with standard deviation `std_dev` find with probability `power` at
/// two-sided level `alpha`: (t₁₋α/₂ + t_power)·sd/√n, the usual approximation of the non-central t.
pub fn detectable_effect(std_dev: f64, pairs: usize, alpha: f64, power: f64) -> Option<f64> {
    if pairs < 2 {
        return None;
    }
    let df = (pairs - 1) as f64;
    Some((t_quantile(1.0 - alpha / 2.0, df)? + t_quantile(power, df)?) * std_dev / (pairs as f64).sqrt())
}

/// Fewest pairs whose interval half-width t·sd/√n falls below `half_width`; `None` beyond [`PAIRS_MAX`].
pub fn pairs_for_half_width(std_dev: f64, half_width: f64, confidence: f64) -> Option<usize> {
    let fits = |n: usize| {
        let t = t_quantile(0.5 + confidence / 2.0, (n - 1) as f64)?;
        Some(t * std_dev / (n as f64).sqrt() <= half_width)
    };
    let positive = half_width > 0.0 && std_dev.is_finite();
    let (mut low, mut high) = (1, PAIRS_MAX);
    if !positive || !fits(high)? {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

/// Approximate power of the paired t test for a true mean `effect`: P(T > t₁₋α/₂ − effect·√n/sd).
pub fn power(effect: f64, std_dev: f64, pairs: usize, alpha: f64) -> Option<f64> {
    let df = pairs.checked_sub(1).filter(|&df| df > 0)? as f64;
    let shift = effect.abs() * (pairs as f64).sqrt() / std_dev;
    Some(1.0 - t_cdf(t_quantile(1.0 - alpha / 2.0, df)? - shift, df))
}
