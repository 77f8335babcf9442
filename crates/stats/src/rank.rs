//! Mann and Whitney's rank-sum test, ties included.

use crate::special::normal_sf;
use crate::summary::usable;

/// Up to this many values in both samples together the null distribution is computed exactly.
pub const EXACT_VALUES_MAX: usize = 60;

/// The result of a rank-sum test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// U of the second sample: pairs in which b is larger, ties counted half.
    pub u: f64,
    /// Two-sided p-value.
    pub p: f64,
    /// Whether `p` comes from the exact distribution.
    pub exact: bool,
    /// U/(n·m): the probability that a value of b exceeds one of a.
    pub superiority: f64,
}

/// Two-sided rank-sum test. The exact null distribution is that of the observed midranks under all assignments of
/// ranks to samples (so it is exact with ties as well, where tables and several libraries are not); beyond
/// [`EXACT_VALUES_MAX`] values the normal approximation with tie and continuity corrections (R's `wilcox.test`).
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<MannWhitney> {
    if !usable(a, 1) || !usable(b, 1) {
        return None;
    }
    let (doubled, ties) = doubled_midranks(a, b);
    let (n, m) = (a.len(), b.len());
    let rank_sum: u64 = doubled[n..].iter().sum();
    let doubled_u = rank_sum - (m * (m + 1)) as u64;
    let exact = n + m <= EXACT_VALUES_MAX;
    let p = if exact {
        exact_p(&doubled, m, rank_sum)
    } else {
        normal_p(n as f64, m as f64, doubled_u as f64 / 2.0, ties)
    };
    let u = doubled_u as f64 / 2.0;
    Some(MannWhitney { u, p, exact, superiority: u / (n * m) as f64 })
}

/// Twice the midrank (a whole number) of each value, a first, and Σ(t³ − t) over groups of ties.
fn doubled_midranks(a: &[f64], b: &[f64]) -> (Vec<u64>, f64) {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|&i, &j| all[i].total_cmp(&all[j]));
    let mut ranks = vec![0; all.len()];
    let (mut ties, mut from) = (0.0, 0);
    while from < order.len() {
        let to = from + order[from..].iter().take_while(|&&i| all[i] == all[order[from]]).count();
        for &i in &order[from..to] {
            ranks[i] = (from + 1 + to) as u64;
        }
        let t = (to - from) as f64;
        ties += t * t * t - t;
        from = to;
    }
    (ranks, ties)
}

/// Counts, for every sum, the ways to choose m of the doubled ranks; two-sided by doubling the smaller tail.
fn exact_p(doubled: &[u64], m: usize, observed: u64) -> f64 {
    let total: usize = doubled.iter().sum::<u64>() as usize;
    let mut ways = vec![vec![0.0f64; total + 1]; m + 1];
    ways[0][0] = 1.0;
    for &rank in doubled {
        let rank = rank as usize;
        for chosen in (1..=m).rev() {
            for sum in (rank..=total).rev() {
                let add = ways[chosen - 1][sum - rank];
                ways[chosen][sum] += add;
            }
        }
    }
    let all: f64 = ways[m].iter().sum();
    let low: f64 = ways[m][..=observed as usize].iter().sum();
    let high: f64 = ways[m][observed as usize..].iter().sum();
    (2.0 * low.min(high) / all).min(1.0)
}

fn normal_p(n: f64, m: f64, u: f64, ties: f64) -> f64 {
    let all = n + m;
    let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    (2.0 * normal_sf(z)).min(1.0)
}
