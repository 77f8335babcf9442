//! Bootstrap interval of a ratio of means.

use crate::Interval;
use crate::rng::Rng;
use crate::special::{normal_cdf, normal_quantile};
use crate::summary::{quantile_sorted, usable};

/// Interval of mean(b)/mean(a) by resampling, corrected for bias and skewness (BCa: B. Efron, JASA 82, 1987).
/// `paired` resamples pairs (the lengths must agree), otherwise each sample by itself. Needs positive values, at
/// least two a side.
pub fn ratio(
    a: &[f64],
    b: &[f64],
    paired: bool,
    confidence: f64,
    draws: usize,
    rng: &mut Rng,
) -> Option<Interval> {
    let fine = |xs: &[f64]| usable(xs, 2) && xs.iter().all(|&x| x > 0.0);
    if !fine(a) || !fine(b) || (paired && a.len() != b.len()) || draws < 2 {
        return None;
    }
    let observed = mean(b) / mean(a);
    let mut drawn: Vec<f64> = (0..draws).map(|_| draw(a, b, paired, rng)).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    let below = drawn.iter().filter(|&&r| r < observed).count() as f64;
    let ties = drawn.iter().filter(|&&r| r == observed).count() as f64;
    let share = ((below + ties / 2.0) / draws as f64).clamp(0.5 / draws as f64, 1.0 - 0.5 / draws as f64);
    let bias = normal_quantile(share)?;
    let skew = acceleration(a, b, paired);
    let tail = normal_quantile(0.5 - confidence / 2.0)?;
    let at = |z: f64| normal_cdf(bias + (bias + z) / (1.0 - skew * (bias + z)));
    Some(Interval { low: quantile_sorted(&drawn, at(tail)), high: quantile_sorted(&drawn, at(-tail)) })
}

fn mean(xs: &[f64]) -> f64 {
    xs.iter().sum::<f64>() / xs.len() as f64
}

fn draw(a: &[f64], b: &[f64], paired: bool, rng: &mut Rng) -> f64 {
    let mut sum = |xs: &[f64]| (0..xs.len()).map(|_| xs[rng.below(xs.len())]).sum::<f64>() / xs.len() as f64;
    if !paired {
        let of_a = sum(a);
        return sum(b) / of_a;
    }
    let (mut of_a, mut of_b) = (0.0, 0.0);
    for _ in 0..a.len() {
        let i = rng.below(a.len());
        of_a += a[i];
        of_b += b[i];
    }
    of_b / of_a
}

/// Jackknife acceleration Σ(r̄ − rᵢ)³ / (6·(Σ(r̄ − rᵢ)²)^{3/2}).
fn acceleration(a: &[f64], b: &[f64], paired: bool) -> f64 {
    let (sum_a, sum_b) = (a.iter().sum::<f64>(), b.iter().sum::<f64>());
    let (n, m) = (a.len() as f64, b.len() as f64);
    let without: Vec<f64> = if paired {
        a.iter().zip(b).map(|(x, y)| (sum_b - y) / (sum_a - x)).collect()
    } else {
        let first = a.iter().map(|x| (sum_b / m) / ((sum_a - x) / (n - 1.0)));
        first.chain(b.iter().map(|y| ((sum_b - y) / (m - 1.0)) / (sum_a / n))).collect()
    };
    let middle = mean(&without);
    let cubes: f64 = without.iter().map(|r| (middle - r).powi(3)).sum();
    let squares: f64 = without.iter().map(|r| (middle - r).powi(2)).sum();
    if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 }
}
