//! From samples to an answer: an interval, what it hangs on, and a verdict or the one reason why there is none.

use crate::decide::decide;
use crate::predict::{Comparison, Sample, Unknown, ratio};
use crate::subject::{Ablation, Subject};
use tussle_stats::quantile;

/// Faster, slower, or nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The after side has more throughput.
    Faster,
    /// It has less.
    Slower,
    /// The draws do not agree.
    Undecided,
}

impl Verdict {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Undecided => "undecided",
        }
    }
}

/// Share of draws that must agree for a verdict.
pub const SHARE_MIN: f64 = 0.8;
/// Margin: effects smaller than this are no verdict. What real comparisons of whole programs tell apart at best.
pub const EFFECT_MIN: f64 = 0.01;

/// Smallest share of the accesses to the objects of recorded operations that must lie in the operations, for a verdict:
/// with more than half of the traffic left out, the simulated half may have the other sign.
pub const COVERAGE_MIN: f64 = 0.5;

/// Fewest operations per task that a verdict on recorded operations, or on a run of a length that was asked for, rests
/// on; the scenarios' own lengths are part of what `docs/validation.md` compares.
pub const OPERATIONS_MIN: f64 = 20.0;

/// Shortest operation under a lock that a verdict may be about, ns: below it a processor hides more of a transfer
/// behind other work, or less, than the model's nominal times tell (docs/simulator.md).
pub const OPERATION_NS_MIN: f64 = 50.0;

/// The one reason why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Doubt {
    /// Only this share of the accesses to the objects is simulated.
    Coverage(f64),
    /// So few operations were simulated per task.
    TooFew(f64),
    /// An operation alone takes so long, ns: too short to be predicted.
    Short(f64),
    /// More tasks than actors were recorded, and nobody knows what further ones would do.
    Replicas(&'static str),
    /// The draws do not agree, or the effect is too small.
    Draws,
    /// Without a mechanism that nobody has measured the effect has the other sign.
    Turned(Ablation),
    /// Recorded with turns of several lengths, which no machine has, and they do not agree on a sign.
    TurnLength,
    /// Predictions of recorded programs have not held against reality yet.
    Withheld,
}

impl Doubt {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Doubt::Coverage(_) => "coverage",
            Doubt::TooFew(_) => "too_few",
            Doubt::Short(_) => "short",
            Doubt::Replicas(_) => "replicas",
            Doubt::Draws => "draws",
            Doubt::Turned(_) => "turned",
            Doubt::TurnLength => "turn_length",
            Doubt::Withheld => "withheld",
        }
    }
}

/// Draws of one number of CPUs, summed up.
#[derive(Clone, Debug)]
pub struct Point {
    /// CPUs.
    pub cpus: u32,
    /// 5% quantile, median and 95% quantile of the effect.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// 95% quantile.
    pub high: f64,
    /// Draws.
    pub draws: u32,
    /// Share of draws with a positive effect.
    pub positive_share: f64,
    /// Median operations measured per task, of the side with fewer.
    pub operations: f64,
    /// Median throughput before and after.
    pub throughput: (f64, f64),
    /// Median change of context switches; `None` where there are next to none.
    pub switches: Option<f64>,
    /// What it means.
    pub verdict: Verdict,
    /// Why there is no verdict.
    pub doubt: Option<Doubt>,
    /// The verdict that is not given, because of [`Doubt::Withheld`].
    pub withheld: Option<Verdict>,
}

/// Effect in the lower and the upper third of an unknown's draws.
#[derive(Clone, Debug)]
pub struct Influence {
    /// The unknown.
    pub unknown: Unknown,
    /// Mean effect where it is low.
    pub low: f64,
    /// Mean effect where it is high.
    pub high: f64,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The question.
    pub question: Comparison,
    /// One per number of CPUs, in ascending order of the question.
    pub curve: Vec<Point>,
    /// Strongest first.
    pub tornado: Vec<Influence>,
    /// Changes of the model: (which, median effect).
    pub ablations: Vec<(Ablation, f64)>,
    /// (CPUs between which the sign of the median changes, "wins above" or "loses above").
    pub crossovers: Vec<(u32, u32, &'static str)>,
    /// Samples of the last number of CPUs.
    pub samples: Vec<Sample>,
}

impl Prediction {
    /// The point that was asked for.
    pub fn point(&self) -> Option<&Point> {
        self.curve.last()
    }
}

/// Sums up draws of one number of CPUs; the verdict is what `alpha` allows: see [`decide`](crate::decide::decide).
pub fn point(cpus: u32, samples: &[Sample], alpha: f64) -> Point {
    let effects: Vec<f64> = samples.iter().map(Sample::effect).collect();
    let q = |xs: &[f64], p| quantile(xs, p).unwrap_or(0.0);
    let median_of = |f: &dyn Fn(&Sample) -> f64| q(&samples.iter().map(f).collect::<Vec<_>>(), 0.5);
    let positive = effects.iter().filter(|e| **e > 0.0).count() as f64 / effects.len().max(1) as f64;
    let median = q(&effects, 0.5);
    let verdict = decide(&effects, alpha).unwrap_or(Verdict::Undecided);
    let before = median_of(&|s| s.before.switches);
    let switches = (before > 1_000.0).then(|| median_of(&|s| ratio(s.after.switches, s.before.switches)));
    Point {
        cpus,
        low: q(&effects, 0.05),
        median,
        high: q(&effects, 0.95),
        draws: effects.len() as u32,
        positive_share: positive,
        operations: median_of(&|s| s.before.operations.min(s.after.operations)),
        throughput: (median_of(&|s| s.before.throughput), median_of(&|s| s.after.throughput)),
        switches,
        verdict,
        doubt: (verdict == Verdict::Undecided).then_some(Doubt::Draws),
        withheld: None,
    }
}

/// Why the draws' verdict on one number of CPUs is not the answer; the reason that weighs most.
fn doubt(q: &Comparison, p: &Point, turned: Option<Ablation>) -> Option<Doubt> {
    let recording = match &q.subject {
        Subject::Recording(r) => Some(r),
        Subject::Story(_) => None,
    };
    let share = q.subject.seen_share().filter(|share| *share < COVERAGE_MIN);
    let tasks = q.tasks.unwrap_or(p.cpus) as usize;
    let replicas = recording.filter(|r| tasks > r.actors()).and_then(|r| r.no_replicas());
    let short = recording.map(|r| r.operation_ns()).filter(|ns| *ns < OPERATION_NS_MIN);
    share
        .map(Doubt::Coverage)
        .or(too_few(q, p).then_some(Doubt::TooFew(p.operations)))
        .or(short.map(Doubt::Short))
        .or(replicas.map(Doubt::Replicas))
        .or(p.doubt)
        .or(turned.map(Doubt::Turned))
        .or(recording.map(|_| Doubt::Withheld))
}

fn judge(q: &Comparison, p: &mut Point, turned: Option<Ablation>) {
    p.doubt = doubt(q, p, turned);
    if p.doubt == Some(Doubt::Withheld) {
        p.withheld = Some(p.verdict);
    }
    if p.doubt.is_some() {
        p.verdict = Verdict::Undecided;
    }
}

/// Too few operations were simulated for a verdict.
pub fn too_few(q: &Comparison, p: &Point) -> bool {
    let asked = q.run_ns.is_some() || matches!(q.subject, Subject::Recording(_));
    asked && p.operations < OPERATIONS_MIN
}

/// Sums up the draws of every number of CPUs, and those of the changed models.
pub(crate) fn analyse(
    q: &Comparison,
    points: Vec<(u32, Vec<Sample>)>,
    ablations: &[(Ablation, Vec<Sample>)],
    alpha: f64,
) -> Prediction {
    let mut curve: Vec<Point> = points.iter().map(|(cpus, samples)| point(*cpus, samples, alpha)).collect();
    let ablations: Vec<(Ablation, f64)> =
        ablations.iter().map(|(a, samples)| (*a, point(0, samples, alpha).median)).collect();
    let last = curve.len().saturating_sub(1);
    for (i, p) in curve.iter_mut().enumerate() {
        // The changed models were asked for the last number of CPUs.
        let turned = turned(p, &ablations).filter(|_| i == last);
        judge(q, p, turned);
    }
    let blind = q.subject.seen_share().is_some_and(|share| share < COVERAGE_MIN);
    let samples = points.into_iter().next_back().unwrap_or_default().1;
    Prediction {
        crossovers: if blind { Vec::new() } else { crossovers(&curve) },
        tornado: tornado(&q.subject.unknowns(&q.machine), &samples),
        question: q.clone(),
        curve,
        ablations,
        samples,
    }
}

/// The unmeasured mechanism without which the effect has the other sign, beyond the margin; the one that turns it
/// farthest.
fn turned(p: &Point, ablations: &[(Ablation, f64)]) -> Option<Ablation> {
    let against = |effect: f64| -effect * p.median.signum();
    let turns = |(a, effect): &&(Ablation, f64)| a.unmeasured() && against(*effect) >= EFFECT_MIN;
    let most = ablations.iter().filter(turns).max_by(|a, b| against(a.1).total_cmp(&against(b.1)));
    most.filter(|_| p.median != 0.0).map(|a| a.0)
}

fn crossovers(curve: &[Point]) -> Vec<(u32, u32, &'static str)> {
    let mut points: Vec<&Point> = curve.iter().filter(|p| p.median.abs() >= EFFECT_MIN).collect();
    points.sort_by_key(|p| p.cpus);
    points
        .windows(2)
        .filter(|w| (w[0].median > 0.0) != (w[1].median > 0.0))
        .map(|w| (w[0].cpus, w[1].cpus, if w[1].median > 0.0 { "wins above" } else { "loses above" }))
        .collect()
}

fn tornado(unknowns: &[Unknown], samples: &[Sample]) -> Vec<Influence> {
    let third = (samples.len() / 3).max(1);
    let mut out: Vec<Influence> = unknowns
        .iter()
        .enumerate()
        .map(|(i, u)| {
            let mut order: Vec<&Sample> = samples.iter().collect();
            order.sort_by(|a, b| a.factors[i].total_cmp(&b.factors[i]));
            let mean = |s: &[&Sample]| s.iter().map(|s| s.effect()).sum::<f64>() / s.len().max(1) as f64;
            let end = order.len().min(third);
            let (low, high) = (mean(&order[..end]), mean(&order[order.len() - end..]));
            Influence { unknown: *u, low, high }
        })
        .collect();
    out.sort_by(|a, b| (b.high - b.low).abs().total_cmp(&(a.high - a.low).abs()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::{Measured, UNKNOWNS};

    fn samples(effects: &[f64]) -> Vec<Sample> {
        let side = |t: f64| Measured { throughput: t, ..Measured::default() };
        let sample = |(i, e): (usize, &f64)| Sample {
            factors: vec![i as f64; UNKNOWNS.len()],
            before: side(100.0),
            after: side(100.0 * (1.0 + e)),
        };
        effects.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn verdicts_need_agreement_and_size() {
        let verdict = |e: &[f64]| point(8, &samples(e), 0.05).verdict;
        assert_eq!(verdict(&[0.05; 21]), Verdict::Faster);
        assert_eq!(verdict(&[-0.05; 21]), Verdict::Slower);
        assert_eq!(verdict(&[0.009; 21]), Verdict::Undecided);
        assert_eq!(verdict(&[0.05; 10]), Verdict::Undecided, "ten draws do not show that 80% agree");
        let p = point(8, &samples(&[0.1, 0.2, -0.1, 0.3]), 0.05);
        assert_eq!((p.positive_share, p.draws), (0.75, 4));
    }

    #[test]
    fn a_verdict_that_an_unmeasured_mechanism_turns_round_is_none() {
        let q = Comparison::of(crate::Story::Fault).unwrap();
        let asked = |effect: f64, ablation: Ablation| {
            let without = vec![(ablation, samples(&[effect; 21]))];
            analyse(&q, vec![(56, samples(&[0.016; 40]))], &without, 0.05).curve.remove(0)
        };
        let p = asked(-0.264, Ablation::NoEarlyRequest);
        assert_eq!((p.verdict, p.doubt), (Verdict::Undecided, Some(Doubt::Turned(Ablation::NoEarlyRequest))));
        assert_eq!(asked(-0.004, Ablation::NoEarlyRequest).verdict, Verdict::Faster, "within the margin");
        assert_eq!(asked(-0.264, Ablation::NoStealing).verdict, Verdict::Faster, "a lock's known way");
    }

    #[test]
    fn the_strongest_unknown_comes_first() {
        let got = tornado(UNKNOWNS, &samples(&[0.0, 0.1, 0.2, 0.3, 0.4, 0.5]));
        assert!((got[0].high - got[0].low - 0.4).abs() < 1e-9);
    }
}
