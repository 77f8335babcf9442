//! The sign-flip permutation test: exact when the order within pairs was drawn at random, whatever the noise.

use crate::rng::Rng;
use crate::summary::usable;

/// Up to this many pairs all 2^n sign patterns are visited.
pub const EXACT_PAIRS_MAX: usize = 20;

/// Two-sided p-value of "the sign of each difference is a fair coin" with |mean| as statistic.
/// Exact up to [`EXACT_PAIRS_MAX`] pairs; beyond, `draws` random patterns with the (k + 1)/(draws + 1) rule of
/// Phipson and Smyth (2010), which never says zero.
pub fn sign_flip(d: &[f64], draws: usize, rng: &mut Rng) -> Option<f64> {
    if !usable(d, 1) {
        return None;
    }
    // A flipped sum that equals the observed one up to rounding must count as equal.
    let slack = 1e-12 * d.iter().map(|x| x.abs()).sum::<f64>();
    let reached = d.iter().sum::<f64>().abs() - slack;
    if d.len() <= EXACT_PAIRS_MAX {
        return Some(exact(d, reached));
    }
    let mut hits = 0usize;
    for _ in 0..draws {
        let sum: f64 = d.iter().map(|x| if rng.coin() { *x } else { -x }).sum();
        hits += usize::from(sum.abs() >= reached);
    }
    Some((hits + 1) as f64 / (draws + 1) as f64)
}

/// Walks all patterns in Gray-code order, one flip a step. The overall sign is a symmetry: half of them suffice.
fn exact(d: &[f64], reached: f64) -> f64 {
    let patterns = 1u64 << (d.len() - 1);
    let mut signs = vec![1.0; d.len()];
    let mut sum: f64 = d.iter().sum();
    let mut hits = u64::from(sum.abs() >= reached);
    for k in 1..patterns {
        let flip = k.trailing_zeros() as usize;
        signs[flip] = -signs[flip];
        sum += 2.0 * signs[flip] * d[flip];
        hits += u64::from(sum.abs() >= reached);
    }
    hits as f64 / patterns as f64
}
