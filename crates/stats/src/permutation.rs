//! The sign-flip permutation test and its interval: exact when the order within pairs was drawn at random, whatever the
//! noise.

use crate::Interval;
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

/// Fewest differences for [`interval`]: with fewer the tails hold too few subsets.
pub const INTERVAL_PAIRS_MIN: usize = 8;

/// Up to this many differences the means of all subsets are visited.
const SUBSETS_EXACT_MAX: usize = 12;

/// Subsets drawn beyond.
const SUBSETS: usize = 1_999;

/// The values of the mean that [`sign_flip`] does not reject, by J. A. Hartigan's typical values ("Using subsample
/// values as typical values", JASA 64, 1969): when each difference is symmetric around the true mean, that mean falls
/// with the same probability into each of the gaps between the ordered means of subsets. So the interval that leaves
/// out (1 − confidence)/2 of the gaps on each side holds it with the stated probability, whatever the distributions.
///
/// All subsets up to 12 differences, 1,999 random ones beyond. `None` below [`INTERVAL_PAIRS_MIN`] differences.
pub fn interval(d: &[f64], confidence: f64, rng: &mut Rng) -> Option<Interval> {
    if !usable(d, INTERVAL_PAIRS_MIN) {
        return None;
    }
    let mut means = subset_means(d, rng);
    let left_out = (0.5 * (1.0 - confidence) * (means.len() + 1) as f64 + 1e-9).floor() as usize;
    if left_out == 0 {
        return None;
    }
    let last = means.len() - left_out;
    let low = *means.select_nth_unstable_by(left_out - 1, f64::total_cmp).1;
    let high = *means.select_nth_unstable_by(last, f64::total_cmp).1;
    Some(Interval { low, high })
}

/// How sure the mean is to be positive: the share of gaps between ordered means of subsets above zero, the one around
/// zero counting half. One half below [`INTERVAL_PAIRS_MIN`] differences or where all are zero; never 0 or 1.
pub fn positive_probability(d: &[f64], rng: &mut Rng) -> f64 {
    if !usable(d, INTERVAL_PAIRS_MIN) {
        return 0.5;
    }
    let means = subset_means(d, rng);
    let above = means.iter().filter(|m| **m > 0.0).count() as f64;
    let at = means.iter().filter(|m| **m == 0.0).count() as f64;
    (above + 0.5 * at + 0.5) / (means.len() + 1) as f64
}

fn subset_means(d: &[f64], rng: &mut Rng) -> Vec<f64> {
    if d.len() <= SUBSETS_EXACT_MAX { all_means(d) } else { random_means(d, rng) }
}

/// Means of all non-empty subsets, one change a step (Gray code).
fn all_means(d: &[f64]) -> Vec<f64> {
    let (mut sum, mut count, mut inside) = (0.0, 0i32, vec![false; d.len()]);
    let means = (1u32..1 << d.len()).map(|k| {
        let i = k.trailing_zeros() as usize;
        inside[i] = !inside[i];
        let sign = if inside[i] { 1.0 } else { -1.0 };
        (sum, count) = (sum + sign * d[i], count + sign as i32);
        sum / f64::from(count)
    });
    means.collect()
}

/// Each difference is in a subset with probability one half; an empty one is drawn anew.
fn random_means(d: &[f64], rng: &mut Rng) -> Vec<f64> {
    let mut out = Vec::with_capacity(SUBSETS);
    while out.len() < SUBSETS {
        let (mut sum, mut count) = (0.0, 0u32);
        let mut bits = 0;
        for (i, x) in d.iter().enumerate() {
            if i % 64 == 0 {
                bits = rng.next_u64();
            }
            let chosen = bits & 1;
            bits >>= 1;
            sum += x * chosen as f64;
            count += chosen as u32;
        }
        if count > 0 {
            out.push(sum / f64::from(count));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interval and the test are one thing: what lies inside is not rejected, what lies outside is.
    #[test]
    fn the_interval_holds_what_the_test_does_not_reject() {
        let mut rng = Rng::new(5);
        for n in [8, 10, 12] {
            let d: Vec<f64> = (0..n).map(|_| 0.3 + rng.normal()).collect();
            let i = interval(&d, 0.95, &mut rng).unwrap();
            let p = |at: f64, rng: &mut Rng| {
                sign_flip(&d.iter().map(|x| x - at).collect::<Vec<_>>(), 0, rng).unwrap()
            };
            let hair = 1e-6;
            for (outside, inside) in [(i.low - hair, i.low + hair), (i.high + hair, i.high - hair)] {
                let (out, within) = (p(outside, &mut rng), p(inside, &mut rng));
                assert!(out <= 0.05 && within > out, "n = {n}: {out} {within}");
                assert!(within > 0.045, "{within}");
            }
        }
    }

    #[test]
    fn odds_agree_with_the_interval() {
        let mut rng = Rng::new(2);
        for shift in [-2.0, -0.4, 0.0, 0.4, 2.0] {
            let d: Vec<f64> = (0..16).map(|_| shift + rng.normal()).collect();
            let (p, i) =
                (positive_probability(&d, &mut Rng::new(1)), interval(&d, 0.95, &mut Rng::new(1)).unwrap());
            assert_eq!(i.low > 0.0, p > 0.975, "{shift} {p} {i:?}");
            assert_eq!(i.high < 0.0, p < 0.025, "{shift} {p} {i:?}");
        }
        assert_eq!(positive_probability(&[0.0; 9], &mut rng), 0.5);
        assert_eq!(positive_probability(&[1.0; 3], &mut rng), 0.5);
        assert_eq!(positive_probability(&[1.0; 8], &mut rng), 255.5 / 256.0);
    }

    #[test]
    fn too_few_differences_have_no_interval_and_equal_ones_one_point() {
        let mut rng = Rng::new(1);
        assert_eq!(interval(&[1.0; 7], 0.95, &mut rng), None);
        assert_eq!(interval(&[f64::NAN; 9], 0.95, &mut rng), None);
        assert_eq!(interval(&[0.25; 9], 0.95, &mut rng), Some(Interval { low: 0.25, high: 0.25 }));
        assert_eq!(interval(&[0.25; 40], 0.95, &mut rng), Some(Interval { low: 0.25, high: 0.25 }));
        // One in a million cannot be left out of 255 gaps.
        assert_eq!(interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 0.999_999, &mut rng), None);
    }
}
