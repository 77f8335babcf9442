//! What a replay on real threads says: pairs of bursts to an interval, and the verdict that would follow.

use super::Recording;
pub use super::bursts::{Each, Pair, Work, parse};
use crate::answer::{COVERAGE_MIN, EFFECT_MIN, Verdict};
use tussle_stats::quantile;

/// CPU time of one operation of the uninstrumented program.
#[derive(Clone, Debug, PartialEq)]
pub struct NativeTime {
    /// On all CPUs, ns: how much of it lines cost differs from run to run, so every run counts.
    pub all_ns: Vec<f64>,
    /// With all threads on one CPU, where no line is on its way; `None` where that could not be measured.
    pub alone: Option<Alone>,
    /// Share of the machine that others used meanwhile; `None` where unknown.
    pub others: Option<f64>,
    /// Why a run's time does not follow from that of its operations.
    pub paced: Option<Paced>,
}

/// What sets the time of a run if it is not the work of its threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Paced {
    /// The thread that works longest waits or sleeps for this share of the run.
    Waits(f64),
    /// The clock: it takes as long on one CPU as on all, however fast its operations are, or always the same.
    Clock,
}

impl std::fmt::Display for Paced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Paced::Waits(share) => {
                write!(f, "its threads wait or sleep for {:.0}% of the run, whatever their work takes", share * 100.0)
            }
            Paced::Clock => f.write_str(
                "its time is the same on one CPU, or hardly varies from run to run: it seems to run by the clock",
            ),
        }
    }
}

/// What native runs took, s.
pub struct Times<'a> {
    /// On all CPUs: from start to end, and CPU time.
    pub all: &'a [(f64, f64)],
    /// With all threads on one CPU, from start to end.
    pub alone_s: Option<f64>,
    /// While it was recorded.
    pub recorded_s: Option<f64>,
    /// Share in the CPU time of the thread with most of it.
    pub longest: f64,
}

/// Waiting for less than this share of a run, and this time, is starting and ending, s.
const WAITS: (f64, f64) = (0.25, 0.01);
/// A program that takes this share of the time that its recording took may run for a fixed time.
const SAME_TIME: f64 = 0.7;
/// Two times that differ by less are the same: for one that may, and for any.
const ALIKE: (f64, f64) = (0.15, 0.05);
/// No line on its way keeps a program to its time that well: runs that differ by less keep to a pace, unless one CPU
/// makes a difference of `OTHERWISE`.
const STEADY: f64 = 0.004;
const OTHERWISE: f64 = 0.5;

/// Share in the CPU time of the thread that has most of it.
pub fn longest(recording: &Recording, alone: Option<&Alone>) -> f64 {
    let of = |(n, ns): (&u64, &f64)| *n as f64 * ns;
    let each: Vec<f64> = match alone.filter(|a| !a.each_ns.is_empty()) {
        Some(a) => recording.operations_of_actors().iter().zip(&a.each_ns).map(of).collect(),
        None => recording.shares(),
    };
    each.iter().fold(0.0, |most: f64, x| most.max(*x)) / each.iter().sum::<f64>().max(1e-9)
}

impl Times<'_> {
    /// Whether something else than work sets the time.
    pub fn paced(&self) -> Option<Paced> {
        let wall: Vec<f64> = self.all.iter().map(|a| a.0).collect();
        let idle: Vec<f64> = self.all.iter().map(|(wall, cpu)| wall - cpu * self.longest).collect();
        let (typical, idle) = (quantile(&wall, 0.5)?, quantile(&idle, 0.5)?);
        if idle > WAITS.1 && idle > WAITS.0 * typical {
            return Some(Paced::Waits(idle / typical));
        }
        // What takes milliseconds says more about starting a program.
        if typical < 10.0 * WAITS.1 {
            return None;
        }
        let spread = wall.iter().fold(0.0, |most: f64, w| most.max((w / typical - 1.0).abs()));
        let differs = self.alone_s.map(|alone| (alone / typical - 1.0).abs());
        let fixed = self.recorded_s.is_some_and(|recorded| typical > SAME_TIME * recorded);
        let alike = match differs {
            Some(differs) => differs < if fixed { ALIKE.0 } else { ALIKE.1 },
            None => fixed,
        };
        let steady = wall.len() > 2 && spread < STEADY && differs.is_none_or(|d| d < OTHERWISE);
        (alike || steady).then_some(Paced::Clock)
    }
}

/// Others who use more of the machine than this keep threads from running at the same time.
const OTHERS_MAX: f64 = 0.1;

impl NativeTime {
    /// Median of the runs on all CPUs, ns.
    pub fn typical_ns(&self) -> Option<f64> {
        quantile(&self.all_ns, 0.5)
    }

    /// Share of the machine that others used while it ran, where that is too much to measure by.
    pub fn crowded(&self) -> Option<f64> {
        self.others.filter(|share| *share > OTHERS_MAX)
    }

    /// Of every run, how many times as long operations take on all CPUs as on one; empty where not measured.
    fn ratios(&self) -> Vec<f64> {
        let alone = self.alone.as_ref().map_or(0.0, |a| a.mean_ns);
        let runs = self.all_ns.iter().filter(|_| alone > 0.0);
        runs.map(|ns| (ns / alone).max(1.0)).collect()
    }
}

/// CPU time of one operation on one CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Alone {
    /// Mean over operations, ns.
    pub mean_ns: f64,
    /// Of every actor, ns; empty where the threads could not be told apart.
    pub each_ns: Vec<f64>,
}

/// Bursts with one kind and length of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variant {
    /// Kind of work.
    pub work: Work,
    /// Factor on its length.
    pub factor: f64,
    /// Median effect as replayed, as after/before - 1.
    pub effect: f64,
    /// Median CPU time of an operation before, ns.
    pub cpu_ns: f64,
    /// The same with all threads on one CPU.
    pub alone_ns: f64,
    /// It counts: its operations lose about as much to lines on their way as those of the native run.
    pub counts: bool,
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
    /// What the interval says; printed where nothing stands against it.
    pub verdict: Verdict,
    /// Native runs, from which the time between operations comes.
    pub native: Option<NativeTime>,
    /// Share of the machine that others used during the replay; `None` where unknown.
    pub others: Option<f64>,
}

impl Replayed {
    /// Share of the machine that others used meanwhile, where that is too much: threads did not run at the same time.
    pub fn crowded(&self) -> Option<f64> {
        let during_replay = || self.others.filter(|share| *share > OTHERS_MAX);
        self.native.as_ref().map_or_else(during_replay, NativeTime::crowded)
    }

    /// Why the interval is no answer, whatever it says: nobody knows how long a run takes when its operations take
    /// another time.
    pub fn void(&self) -> Option<String> {
        if let Some(share) = self.crowded() {
            let share = share * 100.0;
            return Some(format!(
                "others used {share:.0}% of this machine meanwhile: repeat it on a quiet one"
            ));
        }
        Some(self.native.as_ref()?.paced?.to_string())
    }
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

/// With more operations than this under locks that several threads take, the threads fight for the locks themselves.
pub const CONTENDING_MAX: f64 = 0.1;
/// Where they do, the work around the lock alone moved a measured effect from +21% to -25% (two cores of a Sapphire
/// Rapids guest; none of these cases is of `suite/closed-loop`): half of that way, as a factor.
const CONTENDING_ERROR: f64 = 1.27;

/// Factor by which 1 + effect of this recording may be off.
fn error(r: &Recording, period_ns: f64) -> f64 {
    let own = error_factor(period_ns).ln();
    let locks = if r.contending() > CONTENDING_MAX { CONTENDING_ERROR.ln() } else { 0.0 };
    own.hypot(locks).exp()
}

/// What a processor hides of lines' ways may be misjudged by no more than what those ways cost: `lost` is how many
/// times as long operations take with them. Below the least of [`ERRORS`] nothing is known.
fn bounded(error: f64, lost: f64) -> f64 {
    error.min(lost.max(ERRORS[2].1))
}

/// How many times as long operations take with lines on their way, at most: in native runs, in replays of either
/// layout.
fn lost(counting: &[&Pair], shares: &[f64], ratios: &[f64]) -> f64 {
    let replayed = |side: usize| {
        let all: Vec<f64> =
            counting.iter().map(|p| p.whole(side, shares, 1.0).cpu_ns / p.alone(shares)).collect();
        quantile(&all, 0.95)
    };
    let all = [replayed(0), replayed(1), quantile(ratios, 0.95)];
    all.into_iter().map(|x| x.unwrap_or(f64::INFINITY)).fold(1.0, f64::max)
}

/// Kinds of work whose loss to lines is this much worse than that of the kind that is nearest to the native run, as a
/// logarithm, do not count.
const LEEWAY: f64 = 0.1;

/// Kinds of work that count: all of them where no native run tells.
fn likely(pairs: &[Pair], shares: &[f64], ratio: Option<f64>) -> Vec<Work> {
    let Some(ratio) = ratio else { return Work::ALL.to_vec() };
    let off = |work: Work| {
        let lost = |p: &Pair| p.whole(0, shares, 1.0).cpu_ns / p.alone(shares);
        let lost: Vec<f64> = pairs.iter().filter(|p| p.work == work).map(lost).collect();
        quantile(&lost, 0.5).map(|lost| (work, (ratio / lost.max(0.5)).ln().abs()))
    };
    let all: Vec<(Work, f64)> = Work::ALL.into_iter().filter_map(off).collect();
    let least = all.iter().map(|w| w.1).fold(f64::INFINITY, f64::min);
    all.into_iter().filter(|w| w.1 <= least + LEEWAY).map(|w| w.0).collect()
}

/// Sums up pairs; `None` without any. Effects of all kinds of work that count, of all their lengths, and of all
/// native runs count the same.
pub fn summary(r: &Recording, pairs: &[Pair], native: Option<NativeTime>) -> Option<Replayed> {
    let shares = r.shares();
    let ratios = native.as_ref().map(NativeTime::ratios).unwrap_or_default();
    let kinds = likely(pairs, &shares, quantile(&ratios, 0.5));
    let counting: Vec<&Pair> = pairs.iter().filter(|p| kinds.contains(&p.work)).collect();
    let ln = |p: &&Pair| -> Vec<f64> {
        match &native {
            None => vec![p.ln_effect()],
            Some(_) if ratios.is_empty() => vec![p.ln_speedup(&shares, 1.0)],
            Some(_) => ratios.iter().map(|r| p.ln_speedup(&shares, p.scale(&shares, *r))).collect(),
        }
    };
    let logs: Vec<f64> = counting.iter().flat_map(ln).collect();
    let cpu: Vec<f64> = counting.iter().map(|p| p.whole(0, &shares, 1.0).cpu_ns).collect();
    let period_ns = native.as_ref().map_or(quantile(&cpu, 0.5), NativeTime::typical_ns)?;
    let [low, median, high] = [0.05, 0.5, 0.95].map(|p| quantile(&logs, p));
    let (low, median, high) = (low?, median?, high?);
    // Without native runs nothing says what lines cost the program.
    let error = bounded(error(r, period_ns), lost(&counting, &shares, &ratios));
    // Errors of the model and of the choice of work have nothing to do with each other.
    let wide = |half: f64| half.hypot(error.ln());
    let (low, high) = (median - wide(median - low), median + wide(high - median));
    let [low, median, high] = [low, median, high].map(|x| x.exp() - 1.0);
    let paced = native.as_ref().is_some_and(|n| n.paced.is_some());
    let verdict = if paced { Verdict::Undecided } else { verdict(r, low, median, high) };
    let variants = variants(pairs, &shares, &kinds);
    let pairs = pairs.len();
    Some(Replayed { low, median, high, error, period_ns, variants, pairs, verdict, native, others: None })
}

/// Two sessions of the same binaries differ by some percent, so that less than this is no verdict: what the closed loop
/// calls clear.
pub const CLEAR_MIN: f64 = 0.05;

fn verdict(r: &Recording, low: f64, median: f64, high: f64) -> Verdict {
    let blind = r.coverage().is_some_and(|share| share < COVERAGE_MIN);
    match () {
        () if blind || r.contending() > CONTENDING_MAX => Verdict::Undecided,
        () if low >= CLEAR_MIN && median >= EFFECT_MIN => Verdict::Faster,
        () if high <= -CLEAR_MIN && median <= -EFFECT_MIN => Verdict::Slower,
        () => Verdict::Undecided,
    }
}

fn variants(pairs: &[Pair], shares: &[f64], kinds: &[Work]) -> Vec<Variant> {
    let same = |a: &Pair, b: &Pair| (a.work, a.factor) == (b.work, b.factor);
    let one = |group: &[Pair]| {
        let of =
            |f: &dyn Fn(&Pair) -> f64| quantile(&group.iter().map(f).collect::<Vec<_>>(), 0.5).unwrap_or(0.0);
        let Pair { work, factor, .. } = group[0];
        Variant {
            work,
            factor,
            effect: of(&|p| p.ln_effect().exp() - 1.0),
            cpu_ns: of(&|p| p.whole(0, shares, 1.0).cpu_ns),
            alone_ns: of(&|p| p.alone(shares)),
            counts: kinds.contains(&work),
        }
    };
    pairs.chunk_by(same).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(work: Work, alone_ns: f64, ns: [f64; 2]) -> Pair {
        let sides = ns.map(|ns| vec![Each { wall_ns: ns, cpu_ns: ns }; 2]);
        Pair { work, factor: 1.0, sides, alone_ns: vec![alone_ns; 2] }
    }

    #[test]
    fn the_native_loss_chooses_the_kind_of_work() {
        let pairs = [
            pair(Work::Chain, 50.0, [55.0, 50.0]),
            pair(Work::Fed, 50.0, [150.0, 50.0]),
            pair(Work::Independent, 50.0, [145.0, 50.0]),
        ];
        let likely = |ratio| likely(&pairs, &[0.5, 0.5], ratio);
        assert_eq!(likely(Some(1.12)), [Work::Chain]);
        assert_eq!(likely(Some(3.0)), [Work::Fed, Work::Independent]);
        assert_eq!(likely(None), Work::ALL);
        let all = variants(&pairs, &[0.5, 0.5], &[Work::Chain]);
        assert!((all[1].effect - 2.0).abs() < 1e-9 && all[0].counts && !all[1].counts, "{all:?}");
    }

    #[test]
    fn an_error_is_no_larger_than_what_lines_cost() {
        assert_eq!([(1.34, 1.01), (1.34, 1.2), (1.34, 9.0)].map(|(e, l)| bounded(e, l)), [1.06, 1.2, 1.34]);
        let pairs = [pair(Work::Chain, 50.0, [60.0, 55.0])];
        let all: Vec<&Pair> = pairs.iter().collect();
        let ends = |ratios: &[f64]| lost(&all, &[0.5, 0.5], ratios);
        assert!((ends(&[1.1]) - 1.2).abs() < 1e-9 && (ends(&[1.5]) - 1.5).abs() < 1e-9);
        assert!(ends(&[]).is_infinite());
    }

    #[test]
    fn a_crowded_machine_is_told() {
        let native = |others| Some(NativeTime { all_ns: vec![50.0], alone: None, others, paced: None });
        let answer = |native| Replayed {
            low: 0.0,
            median: 0.0,
            high: 0.0,
            error: 1.06,
            period_ns: 50.0,
            variants: Vec::new(),
            pairs: 0,
            verdict: Verdict::Undecided,
            native,
            others: None,
        };
        assert_eq!(answer(native(Some(0.5))).crowded(), Some(0.5));
        // Without a native run the replay itself tells.
        assert_eq!(Replayed { others: Some(0.5), ..answer(None) }.crowded(), Some(0.5));
        assert_eq!([native(Some(0.02)), native(None), None].map(|n| answer(n).crowded()), [None; 3]);
    }

    #[test]
    fn a_run_by_the_clock_is_known() {
        let took = |all: &[(f64, f64)], alone_s, recorded_s| {
            Times { all, alone_s, recorded_s, longest: 0.5 }.paced()
        };
        let busy = [(0.30, 0.60), (0.31, 0.62), (0.33, 0.66)];
        assert_eq!(took(&busy, Some(0.45), Some(3.0)), None, "it loses a quarter to lines");
        assert_eq!(took(&busy, Some(0.31), Some(3.0)), Some(Paced::Clock), "or it loses half: who knows");
        assert_eq!(took(&busy, Some(0.31), Some(0.32)), Some(Paced::Clock));
        assert_eq!(took(&busy, Some(0.60), Some(0.32)), None, "much work that no recording slows");
        assert_eq!(took(&busy, None, Some(0.32)), Some(Paced::Clock));
        let steady = [(0.300, 0.60), (0.300, 0.60), (0.301, 0.60)];
        assert_eq!(
            took(&steady, Some(0.36), Some(3.0)),
            Some(Paced::Clock),
            "paced, and slower when recorded"
        );
        assert_eq!(took(&steady, Some(0.6), Some(3.0)), None, "all of it is work");
        let sleeps = [(0.40, 0.1), (0.43, 0.1), (0.41, 0.1)];
        assert!(
            matches!(took(&sleeps, Some(0.41), None), Some(Paced::Waits(share)) if (share - 0.88).abs() < 0.01)
        );
        assert_eq!(took(&[(0.010, 0.004)], Some(0.01), Some(0.01)), None, "starting takes that");
        assert_eq!(took(&[], None, None), None);
    }

    #[test]
    fn shorter_operations_are_less_sure() {
        let at: Vec<f64> = [1.0, 35.0, 60.0, 100.0, 200.0, 340.0, 1e6].map(error_factor).to_vec();
        assert_eq!((at[0], at[1], at[3], at[6]), (1.34, 1.34, 1.09, 1.06));
        assert!(at.windows(2).all(|w| w[0] >= w[1]), "{at:?}");
    }
}
