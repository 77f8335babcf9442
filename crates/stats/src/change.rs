//! Change points in a series: E-divisive (Matteson and James, JASA 109, 2014).

use crate::rng::Rng;
use crate::summary::usable;

/// Longest series that is searched; the search is cubic in the worst case.
pub const LENGTH_MAX: usize = 2_000;

/// A place where the distribution of a series changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub index: usize,
    /// Permutation p-value of this split when it was found.
    pub p: f64,
}

/// How a series is searched.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Fewest values on each side of a change.
    pub segment_min: usize,
    /// Level at which a split counts.
    pub alpha: f64,
    /// Random orders per test.
    pub permutations: usize,
}

impl Default for Search {
    fn default() -> Search {
        Search { segment_min: 5, alpha: 0.05, permutations: 199 }
    }
}

/// Change points by repeated bisection of the segment with the largest energy statistic, each kept when fewer than
/// α of random orders within the segments reach it. Ascending by index. Empty when the series is too short, longer than
/// [`LENGTH_MAX`] or not finite.
pub fn e_divisive(xs: &[f64], search: Search, rng: &mut Rng) -> Vec<ChangePoint> {
    let least = search.segment_min.max(2);
    let mut found: Vec<ChangePoint> = Vec::new();
    if !usable(xs, 2 * least) || xs.len() > LENGTH_MAX {
        return found;
    }
    loop {
        let bounds = bounds(&found, xs.len());
        let Some((index, q)) = best_of_all(xs, &bounds, least) else { break };
        let mut shuffled = xs.to_vec();
        let mut reached = 0;
        for _ in 0..search.permutations {
            for w in bounds.windows(2) {
                rng.shuffle(&mut shuffled[w[0]..w[1]]);
            }
            reached += usize::from(best_of_all(&shuffled, &bounds, least).is_some_and(|b| b.1 >= q));
        }
        let p = (reached + 1) as f64 / (search.permutations + 1) as f64;
        if p > search.alpha {
            break;
        }
        found.push(ChangePoint { index, p });
        found.sort_unstable_by_key(|c| c.index);
    }
    found
}

fn bounds(found: &[ChangePoint], len: usize) -> Vec<usize> {
    std::iter::once(0).chain(found.iter().map(|c| c.index)).chain(std::iter::once(len)).collect()
}

fn best_of_all(xs: &[f64], bounds: &[usize], least: usize) -> Option<(usize, f64)> {
    let each = bounds.windows(2).filter_map(|w| {
        let (at, q) = best_split(&xs[w[0]..w[1]], least)?;
        Some((w[0] + at, q))
    });
    each.max_by(|x, y| x.1.total_cmp(&y.1))
}

/// The split with the largest scaled energy distance nm/(n+m)·(2·E|X−Y| − E|X−X'| − E|Y−Y'|), updated from one split
/// to the next in linear time.
fn best_split(xs: &[f64], least: usize) -> Option<(usize, f64)> {
    if xs.len() < 2 * least {
        return None;
    }
    let distance_to = |i: usize, part: &[f64]| part.iter().map(|x| (x - xs[i]).abs()).sum::<f64>();
    let (mut left, mut right, mut between) = (0.0, 0.0, 0.0);
    for i in 1..xs.len() {
        right += distance_to(i, &xs[..i]);
    }
    let mut best = None;
    for i in 0..xs.len() - least {
        let (to_left, to_right) = (distance_to(i, &xs[..i]), distance_to(i, &xs[i + 1..]));
        left += to_left;
        right -= to_right;
        between += to_right - to_left;
        let (n, m) = ((i + 1) as f64, (xs.len() - i - 1) as f64);
        if i + 1 < least {
            continue;
        }
        let energy = 2.0 * between / (n * m)
            - left / (n * (n - 1.0) / 2.0).max(1.0)
            - right / (m * (m - 1.0) / 2.0).max(1.0);
        let q = n * m / (n + m) * energy;
        if best.is_none_or(|(_, b)| q > b) {
            best = Some((i + 1, q));
        }
    }
    best
}
