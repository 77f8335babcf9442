//! Means, deviations and quantiles, also in the forms that mmtests prints.

/// All values finite and at least `n` of them.
pub(crate) fn usable(xs: &[f64], n: usize) -> bool {
    xs.len() >= n && xs.iter().all(|x| x.is_finite())
}

/// Arithmetic mean.
pub fn mean(xs: &[f64]) -> Option<f64> {
    usable(xs, 1).then(|| xs.iter().sum::<f64>() / xs.len() as f64)
}

/// Harmonic mean n/Σ(1/x); all values must be positive.
pub fn harmonic_mean(xs: &[f64]) -> Option<f64> {
    let ok = usable(xs, 1) && xs.iter().all(|&x| x > 0.0);
    ok.then(|| xs.len() as f64 / xs.iter().map(|x| 1.0 / x).sum::<f64>())
}

/// Geometric mean exp(mean(ln x)); all values must be positive.
pub fn geometric_mean(xs: &[f64]) -> Option<f64> {
    let ok = usable(xs, 1) && xs.iter().all(|&x| x > 0.0);
    ok.then(|| (xs.iter().map(|x| x.ln()).sum::<f64>() / xs.len() as f64).exp())
}

/// Sample variance with n − 1, by two passes.
pub fn variance(xs: &[f64]) -> Option<f64> {
    let m = mean(xs)?;
    (xs.len() > 1).then(|| xs.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / (xs.len() - 1) as f64)
}

/// Sample standard deviation (n − 1): mmtests' `Stddev` before and after its middle period.
pub fn std_dev(xs: &[f64]) -> Option<f64> {
    variance(xs).map(f64::sqrt)
}

/// Coefficient of variation in percent of the *arithmetic* mean, 100·sd/mean. mmtests prints it so even below a
/// harmonic mean, which is why a pasted `CoeffVar` may differ in its last digit from 100·`Stddev`/`Hmean`.
pub fn coeff_var_percent(xs: &[f64]) -> Option<f64> {
    let m = mean(xs)?;
    (m != 0.0).then_some(100.0 * std_dev(xs)? / m)
}

/// Standard deviation around a harmonic mean as mmtests' middle period printed it (`HStddev`): the delta method,
/// h²·√(Σ(1/x − 1/h)²/n) with n, not n − 1 (found by recomputing its published output).
pub fn harmonic_std_dev(xs: &[f64]) -> Option<f64> {
    let h = harmonic_mean(xs)?;
    let sum: f64 = xs.iter().map(|x| (1.0 / x - 1.0 / h).powi(2)).sum();
    Some(h * h * (sum / xs.len() as f64).sqrt())
}

/// 100·[`harmonic_std_dev`]/[`harmonic_mean`], mmtests' `HCoeffVar`.
pub fn harmonic_coeff_var_percent(xs: &[f64]) -> Option<f64> {
    Some(100.0 * harmonic_std_dev(xs)? / harmonic_mean(xs)?)
}

/// The best ⌊n·percent/100⌋ values, best first, as mmtests' `BHmean-50` and `BAmean-95` take them.
pub fn best_percent(xs: &[f64], percent: usize, higher_is_better: bool) -> Option<Vec<f64>> {
    let keep = (xs.len() * percent.min(100)) / 100;
    if !usable(xs, 1) || keep == 0 {
        return None;
    }
    let mut sorted = xs.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    if higher_is_better {
        sorted.reverse();
    }
    sorted.truncate(keep);
    Some(sorted)
}

/// Median.
pub fn median(xs: &[f64]) -> Option<f64> {
    quantile(xs, 0.5)
}

/// Quantile `p` in 0..=1 by linear interpolation between order statistics (R type 7, numpy's default).
pub fn quantile(xs: &[f64], p: f64) -> Option<f64> {
    if !usable(xs, 1) || !(0.0..=1.0).contains(&p) {
        return None;
    }
    let mut sorted = xs.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(quantile_sorted(&sorted, p))
}

/// [`quantile`] of values already sorted and checked.
pub(crate) fn quantile_sorted(sorted: &[f64], p: f64) -> f64 {
    let at = p * (sorted.len() - 1) as f64;
    let low = at.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (at - low as f64) * (sorted[high] - sorted[low])
}
