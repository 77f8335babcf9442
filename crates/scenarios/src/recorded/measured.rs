//! What a replay on real threads says: pairs of bursts to an interval, and the verdict that would follow.

use super::Recording;
use crate::answer::{COVERAGE_MIN, EFFECT_MIN, Verdict};
use tussle_stats::quantile;

/// One pair of bursts, both layouts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The work between accesses waits for what was loaded before it.
    pub dependent: bool,
    /// Factor on the recorded lengths of work.
    pub factor: f64,
    /// Operations per second of all threads, before and after.
    pub rate: [f64; 2],
    /// CPU time of an operation, ns, before and after.
    pub cpu_ns: [f64; 2],
}

/// Reads what the generated program printed; lines that are none of its own are left out.
pub fn parse(text: &str) -> Vec<Pair> {
    let one = |line: &str| {
        let n: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let [kind, factor, before, after, cpu_before, cpu_after] = n[..] else { return None };
        let sound = [factor, before, after].iter().all(|x| x.is_finite() && *x > 0.0);
        let (rate, cpu_ns) = ([before, after], [cpu_before, cpu_after]);
        sound.then_some(Pair { dependent: kind == 0.0, factor, rate, cpu_ns })
    };
    text.lines().filter_map(one).collect()
}

/// Bursts with one kind and length of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variant {
    /// Kind of work.
    pub dependent: bool,
    /// Factor on its length.
    pub factor: f64,
    /// Median effect, as after/before - 1.
    pub effect: f64,
    /// Median CPU time of an operation before, ns.
    pub cpu_ns: f64,
}

/// The answer of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// 5% quantile of the effect over pairs of all variants, widened by `error`.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// 95% quantile, widened.
    pub high: f64,
    /// Factor by which 1 + effect of replays missed the truth: see [`error_factor`].
    pub error: f64,
    /// CPU time of one operation before, median, ns.
    pub period_ns: f64,
    /// By kind and length of work.
    pub variants: Vec<Variant>,
    /// Pairs measured.
    pub pairs: usize,
    /// What the interval says; it is withheld until the closed loop holds.
    pub verdict: Verdict,
    /// Time between operations comes from a native run.
    pub native: bool,
}

/// Largest factors between (1 + effect) replayed and measured, by CPU time of an operation in ns: 15 cases replayed by
/// hand on two cores of a Sapphire Rapids guest. None of them is of `suite/closed-loop`. Patterns were chosen by hand,
/// so this is a lower bound of the error of patterns that were recorded.
const ERRORS: [(f64, f64); 3] = [(35.0, 1.34), (100.0, 1.09), (340.0, 1.06)];

/// Factor by which 1 + effect may be off for operations of this length, by interpolation over the logarithm.
pub fn error_factor(period_ns: f64) -> f64 {
    let at = period_ns.clamp(ERRORS[0].0, ERRORS[2].0).ln();
    for two in ERRORS.windows(2) {
        let ((a, x), (b, y)) = (two[0], two[1]);
        if at <= b.ln() {
            return x + (y - x) * (at - a.ln()) / (b.ln() - a.ln());
        }
    }
    ERRORS[2].1
}

/// Sums up pairs; `None` without any. Effects of all kinds and lengths of work count the same: which of them the
/// program has is not known.
pub fn summary(r: &Recording, pairs: &[Pair], native: bool) -> Option<Replayed> {
    let logs: Vec<f64> = pairs.iter().map(|p| (p.rate[1] / p.rate[0]).ln()).collect();
    let cpu: Vec<f64> = pairs.iter().map(|p| p.cpu_ns[0]).collect();
    let period_ns = quantile(&cpu, 0.5)?;
    let [low, median, high] = [0.05, 0.5, 0.95].map(|p| quantile(&logs, p).unwrap_or(0.0));
    let error = error_factor(period_ns);
    // Errors of the model and of the choice of work have nothing to do with each other.
    let wide = |half: f64| half.hypot(error.ln());
    let (low, high) = (median - wide(median - low), median + wide(high - median));
    let [low, median, high] = [low, median, high].map(|x| x.exp() - 1.0);
    let blind = r.coverage().is_some_and(|share| share < COVERAGE_MIN);
    let verdict = match () {
        () if blind => Verdict::Undecided,
        () if low > 0.0 && median >= EFFECT_MIN => Verdict::Faster,
        () if high < 0.0 && median <= -EFFECT_MIN => Verdict::Slower,
        () => Verdict::Undecided,
    };
    let variants = variants(pairs);
    Some(Replayed { low, median, high, error, period_ns, variants, pairs: pairs.len(), verdict, native })
}

fn variants(pairs: &[Pair]) -> Vec<Variant> {
    let same = |a: &Pair, b: &Pair| (a.dependent, a.factor) == (b.dependent, b.factor);
    let one = |group: &[Pair]| {
        let of = |f: fn(&Pair) -> f64| quantile(&group.iter().map(f).collect::<Vec<_>>(), 0.5).unwrap_or(0.0);
        let effect = of(|p| p.rate[1] / p.rate[0] - 1.0);
        let Pair { dependent, factor, .. } = group[0];
        Variant { dependent, factor, effect, cpu_ns: of(|p| p.cpu_ns[0]) }
    };
    pairs.chunk_by(same).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_lines_are_no_pairs() {
        let pairs = parse("0 1 100 150 20 15\nhello\n1 0.5 100 nan 1 1\n1 2 0 5 1 1\n1 0.5 100 90 30 33\n");
        assert_eq!(pairs.iter().map(|p| p.dependent).collect::<Vec<_>>(), [true, false]);
        let v = variants(&pairs);
        assert!((v[0].effect - 0.5).abs() < 1e-9 && (v[1].effect + 0.1).abs() < 1e-9, "{v:?}");
    }

    #[test]
    fn shorter_operations_are_less_sure() {
        let at: Vec<f64> = [1.0, 35.0, 60.0, 100.0, 200.0, 340.0, 1e6].map(error_factor).to_vec();
        assert_eq!((at[0], at[1], at[3], at[6]), (1.34, 1.34, 1.09, 1.06));
        assert!(at.windows(2).all(|w| w[0] >= w[1]), "{at:?}");
    }
}
