//! A sequential test that may be looked at after every pair.
//!
//! The order within each pair is drawn by a fair coin, so when both arms are equal the *sign* of each log ratio is a
//! fair coin given its size, whatever the distribution and the autocorrelation of the noise. A bet that pays
//! 2/(1 + exp(−2λx)) = exp(λx)/cosh(λx) on a difference x then has expectation one, for any λ that depends on sizes
//! only. The product over pairs is a test martingale; the mean of such products over a fixed grid of λ is one too, and
//! by Ville's inequality it exceeds 1/α with probability at most α, ever. (V. de la Peña, Annals of Probability 27,
//! 1999; A. Ramdas et al., "Game-theoretic statistics and safe anytime-valid inference", 2023.)
//!
//! All effects θ whose differences x − θ do not reach 1/α form a confidence sequence: an interval that is valid at
//! whatever time one stops.

use crate::Interval;
use crate::summary::{quantile_sorted, usable};

/// Bet sizes in units of 1/median(|x − θ|). Small ones win with many pairs, large ones with few.
const BETS: [f64; 7] = [0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 8.0];

/// The pairs whose sizes set the scale of the bets. Fixed, so that the scale never changes with later pairs.
const SCALE_PAIRS: usize = 4;

/// ln of the e-value against "each x − `shift` is symmetric around zero". 0 (no evidence) below one pair.
pub fn ln_e_value(d: &[f64], shift: f64) -> f64 {
    let mut sizes: Vec<f64> = d.iter().take(SCALE_PAIRS).map(|x| (x - shift).abs()).collect();
    if sizes.is_empty() || !usable(d, 1) {
        return 0.0;
    }
    sizes.sort_unstable_by(f64::total_cmp);
    let scale = quantile_sorted(&sizes, 0.5);
    if scale <= 0.0 {
        return signs_only(d, shift);
    }
    let mut logs = [0.0; 2 * BETS.len()];
    for (i, bet) in BETS.iter().enumerate() {
        let rate = bet / scale;
        let (mut up, mut all) = (0.0, 0.0);
        for x in d {
            let y = rate * (x - shift);
            up += ln_payoff(y);
            all += y;
        }
        // A bet the other way pays ln_payoff(−y) = ln_payoff(y) − 2y.
        logs[i] = up;
        logs[i + BETS.len()] = up - 2.0 * all;
    }
    ln_mean_exp(&logs)
}

/// ln(2/(1 + exp(−2y))) without overflow; exactly 0 at y = 0.
fn ln_payoff(y: f64) -> f64 {
    let softplus = if y > 0.0 { (-2.0 * y).exp().ln_1p() } else { -2.0 * y + (2.0 * y).exp().ln_1p() };
    std::f64::consts::LN_2 - softplus
}

/// Differences of size zero decide nothing; the others bet on their sign alone, at even stakes of one half.
fn signs_only(d: &[f64], shift: f64) -> f64 {
    let bet = |sign: f64| {
        d.iter().map(|x| (sign * 0.5 * (x - shift).signum() * f64::from(*x != shift)).ln_1p()).sum()
    };
    ln_mean_exp(&[bet(1.0), bet(-1.0)])
}

fn ln_mean_exp(logs: &[f64]) -> f64 {
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + (logs.iter().map(|l| (l - top).exp()).sum::<f64>() / logs.len() as f64).ln()
}

/// Whether an effect of `shift` is excluded at this confidence: what costs little to ask after every pair.
pub fn excludes(d: &[f64], shift: f64, confidence: f64) -> bool {
    ln_e_value(d, shift) >= -(1.0 - confidence).ln()
}

/// The confidence sequence at level `confidence` after these pairs: all θ with e-value below 1/(1 − confidence).
/// `None` without pairs, or while the pairs are too few to exclude any effect at all (the interval is the whole line).
pub fn confidence_sequence(d: &[f64], confidence: f64) -> Option<Interval> {
    if !usable(d, 2) {
        return None;
    }
    let limit = -(1.0 - confidence).ln();
    let mut sorted = d.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let centre = quantile_sorted(&sorted, 0.5);
    let spread = (sorted[sorted.len() - 1] - sorted[0]).max(centre.abs() * 1e-9).max(1e-12);
    let edge = |direction: f64| {
        // The e-value need not grow steadily with the distance: walk outwards in growing steps over the whole range and
        // keep the last step that was not excluded. Far away all signs agree; if that does not reach the limit,
        // nothing can.
        let (mut inside, mut outside) = (0.0, f64::INFINITY);
        let (mut at, mut step) = (0.0, spread / 64.0);
        while at < 64.0 * spread {
            at += step;
            step *= 1.25;
            if ln_e_value(d, centre + direction * at) < limit {
                (inside, outside) = (at, f64::INFINITY);
            } else {
                outside = at.min(outside);
            }
        }
        if outside.is_infinite() {
            return None;
        }
        for _ in 0..40 {
            let middle = 0.5 * (inside + outside);
            if ln_e_value(d, centre + direction * middle) < limit {
                inside = middle;
            } else {
                outside = middle;
            }
        }
        Some(centre + direction * outside)
    };
    Some(Interval { low: edge(-1.0)?, high: edge(1.0)? })
}
