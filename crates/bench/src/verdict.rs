//! The answer to "is it real, and with what odds?".

use serde::{Deserialize, Serialize};
use tussle_stats::{Interval, Rng, eprocess, paired_t, permutation, power, series};

use crate::design::Order;
use crate::paired::Paired;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// Relative difference that nobody minds: 0.01 is one percent.
    pub margin: f64,
    /// Confidence of the interval.
    pub confidence: f64,
}

impl Default for Criterion {
    fn default() -> Criterion {
        Criterion { margin: 0.01, confidence: 0.95 }
    }
}

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The interval lies on the bad side of zero and not within the margin.
    Regressed,
    /// The interval lies on the good side of zero and not within the margin.
    Improved,
    /// The interval lies within the margin.
    Equivalent,
    /// None of these: more pairs are needed.
    Inconclusive,
}

impl Outcome {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Regressed => "regressed",
            Outcome::Improved => "improved",
            Outcome::Equivalent => "equivalent",
            Outcome::Inconclusive => "inconclusive",
        }
    }
}

/// A ratio candidate/reference with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Ratio of geometric means.
    pub ratio: f64,
    /// Lower end; absent while the pairs cannot exclude anything.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Ratio {
    pub(crate) fn of(mean: f64, interval: Option<Interval>) -> Ratio {
        Ratio { ratio: mean.exp(), low: interval.map(|i| i.low.exp()), high: interval.map(|i| i.high.exp()) }
    }

    /// `+14.8% (+13.9% .. +15.7%)`.
    pub fn text(&self) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) => {
                format!("{} ({} .. {})", percent(self.ratio), percent(low), percent(high))
            }
            _ => format!("{} (no interval yet)", percent(self.ratio)),
        }
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// In one word.
    pub outcome: Outcome,
    /// Candidate/reference of the metric with its interval.
    pub ratio: Ratio,
    /// Work per own CPU second, candidate/reference, where CPU time is known. Higher is better.
    pub per_cpu: Option<Ratio>,
    /// Complete pairs.
    pub pairs: usize,
    /// Standard deviation of the log ratios.
    pub std_dev: f64,
    /// Two-sided p-value of "no difference": paired t.
    pub p: f64,
    /// The same without any assumption on the noise: random sign flips.
    pub p_sign_flip: Option<f64>,
    /// `p` corrected for the number of candidates (Holm); absent with one candidate.
    pub p_holm: Option<f64>,
    /// Evidence against "no difference" that may be looked at after every pair; 20 is as rare as p = 0.05.
    pub e_value: f64,
    /// How sure the candidate is to be better: by the sign flips that give the interval, or by Student's t under a flat
    /// prior below eight pairs.
    pub better_probability: f64,
    /// Further pairs after which this effect would be decided; absent when decided or beyond reach.
    pub more_pairs: Option<usize>,
    /// Smallest effect that as many pairs find with 80% probability.
    pub detectable: Option<f64>,
    /// One sentence.
    pub wording: String,
    /// When raw and per-CPU figures disagree: what that usually means.
    pub hint: Option<String>,
    /// What weakens the answer.
    pub warnings: Vec<String>,
}

/// `+14.8%` of a ratio of 1.148; more digits when small.
pub fn percent(ratio: f64) -> String {
    let p = (ratio - 1.0) * 100.0;
    if p.abs() >= 1000.0 {
        format!("{ratio:.1}x")
    } else if p.abs() < 0.005 {
        "0.00%".into()
    } else if p.abs() < 10.0 {
        format!("{p:+.2}%")
    } else {
        format!("{p:+.1}%")
    }
}

/// The outcome of an interval of the log ratio of the metric.
pub fn outcome(interval: Option<Interval>, margin: f64, higher_is_better: bool) -> Outcome {
    let Some(i) = interval else { return Outcome::Inconclusive };
    // The margin is a ratio: one percent up and one percent down are as far on the log scale.
    if i.within(margin.max(0.0).ln_1p()) {
        Outcome::Equivalent
    } else if i.low > 0.0 {
        if higher_is_better { Outcome::Improved } else { Outcome::Regressed }
    } else if i.high < 0.0 {
        if higher_is_better { Outcome::Regressed } else { Outcome::Improved }
    } else {
        Outcome::Inconclusive
    }
}

/// [`verdict_of`] with a margin of 1% and an interval of 95%.
pub fn verdict(paired: &Paired) -> Option<Verdict> {
    verdict_of(paired, Criterion::default())
}

/// The verdict on two arms. `None` when a value is not finite and positive or there are fewer than two pairs; a
/// [`Paired`]
/// made by this crate never is.
pub fn verdict_of(paired: &Paired, question: Criterion) -> Option<Verdict> {
    let d = paired.log_ratios()?;
    let t = paired_t(&d, question.confidence)?;
    let interval = interval(&d, question.confidence, paired.sequential);
    let higher = paired.metric.higher_is_better();
    let outcome = outcome(interval, question.margin, higher);
    let ratio = Ratio::of(t.mean, interval);
    let per_cpu = paired.log_ratios_per_cpu().and_then(|c| {
        let mean = tussle_stats::mean(&c)?;
        Some(Ratio::of(mean, self::interval(&c, question.confidence, paired.sequential)))
    });
    let more_pairs = match outcome {
        Outcome::Inconclusive => more_pairs(t.mean, t.std_dev, d.len(), question),
        _ => None,
    };
    let larger = match d.len() >= permutation::INTERVAL_PAIRS_MIN {
        true => permutation::positive_probability(&d, &mut Rng::new(1)),
        false => t.larger_probability,
    };
    let mut verdict = Verdict {
        outcome,
        ratio,
        per_cpu,
        pairs: d.len(),
        std_dev: t.std_dev,
        p: t.p,
        p_sign_flip: permutation::sign_flip(&d, 20_000, &mut Rng::new(1)),
        p_holm: None,
        e_value: eprocess::ln_e_value(&d, 0.0).exp().min(1e300),
        better_probability: if higher { larger } else { 1.0 - larger },
        more_pairs,
        detectable: power::detectable_effect(t.std_dev, d.len(), 1.0 - question.confidence, 0.8),
        wording: String::new(),
        hint: None,
        warnings: warnings(paired, &d),
    };
    verdict.hint = hint(paired, &verdict, question.margin);
    verdict.wording = wording(paired, &verdict, question);
    Some(verdict)
}

/// Words a verdict anew after its outcome changed.
pub(crate) fn restate(paired: &Paired, v: &mut Verdict, question: Criterion) {
    v.wording = wording(paired, v, question);
}

/// Pairs still missing for an interval that leaves no doubt.
pub(crate) fn more_pairs_for(paired: &Paired, question: Criterion) -> Option<usize> {
    let d = paired.log_ratios()?;
    let t = paired_t(&d, question.confidence)?;
    more_pairs(t.mean, t.std_dev, d.len(), question)
}

/// The interval of the mean log ratio: the sign-flip interval from eight pairs on, Student's t below; the confidence
/// sequence when a rule looked after every pair.
pub fn interval(d: &[f64], confidence: f64, sequential: bool) -> Option<Interval> {
    if sequential {
        return eprocess::confidence_sequence(d, confidence);
    }
    // The seed is fixed: the same samples give the same interval.
    permutation::interval(d, confidence, &mut Rng::new(1))
        .or_else(|| paired_t(d, confidence).map(|t| t.interval))
}

/// Whether a sequential benchmark may stop: the confidence sequence of the log ratios decides the question.
pub fn decided(d: &[f64], question: Criterion) -> bool {
    // The whole interval is dear; without these exclusions it can decide nothing.
    let limit = question.margin.ln_1p();
    let excluded = |at: f64| eprocess::excludes(d, at, question.confidence);
    let worth_asking = excluded(0.0) || (excluded(limit) && excluded(-limit));
    worth_asking
        && outcome(interval(d, question.confidence, true), question.margin, true) != Outcome::Inconclusive
}

/// Pairs still missing until the interval either excludes zero or fits into the margin, whichever comes first.
fn more_pairs(mean: f64, std_dev: f64, have: usize, question: Criterion) -> Option<usize> {
    let widths = [mean.abs(), question.margin.ln_1p() - mean.abs()];
    let needed =
        widths.iter().filter_map(|&w| power::pairs_for_half_width(std_dev, w, question.confidence)).min()?;
    Some(needed.saturating_sub(have).max(1))
}

/// `odds 250:1` of a probability.
pub fn odds(probability: f64) -> String {
    let p = probability.max(1.0 - probability);
    let odds = p / (1.0 - p).max(1e-9);
    if odds > 9999.0 {
        "more than 9,999:1".into()
    } else if odds >= 10.0 {
        format!("{odds:.0}:1")
    } else {
        format!("{odds:.1}:1")
    }
}

fn wording(paired: &Paired, v: &Verdict, question: Criterion) -> String {
    let confidence = format!("{:.0}%", question.confidence * 100.0);
    let [a, b] = &paired.names;
    let effect = v.ratio.text();
    let interval = match (v.ratio.low, v.ratio.high) {
        (Some(l), Some(h)) => {
            format!("{confidence} interval {} .. {}, {} pairs", percent(l), percent(h), v.pairs)
        }
        _ => format!("{} pairs", v.pairs),
    };
    let name = &paired.metric.name;
    match v.outcome {
        Outcome::Equivalent => format!(
            "no effect on this machine: {b} and {a} differ by less than {:.3}% in {name} ({interval})",
            question.margin * 100.0
        )
        .replace(".000%", "%"),
        Outcome::Improved | Outcome::Regressed => {
            let word = v.outcome.name();
            let odds = odds(v.better_probability);
            format!(
                "{b} {word} against {a}: {name} {effect}, {confidence} interval of {} pairs, odds {odds}",
                v.pairs
            )
        }
        Outcome::Inconclusive => {
            let more = match v.more_pairs {
                Some(n) => format!("needs about {n} more pairs"),
                None => "more pairs than anyone runs would be needed".into(),
            };
            format!("inconclusive: {name} of {b} against {a} {} ({interval}); {more}", percent(v.ratio.ratio))
        }
    }
}

/// Where the raw metric and work per CPU second disagree, time went to waiting or to spinning.
fn hint(paired: &Paired, v: &Verdict, margin: f64) -> Option<String> {
    let cpu = v.per_cpu?;
    let better = |r: &Ratio, higher: bool| {
        let interval = Interval { low: r.low?.ln(), high: r.high?.ln() };
        Some(match outcome(Some(interval), margin, higher) {
            Outcome::Improved => 1,
            Outcome::Regressed => -1,
            Outcome::Equivalent => 0,
            // Nothing can be said of what is not known.
            Outcome::Inconclusive => return None,
        })
    };
    let switches = |i: usize| {
        let all: Option<Vec<f64>> = paired.pairs.iter().map(|p| p[i].switches().map(|n| n as f64)).collect();
        tussle_stats::mean(&all?)
    };
    let changed = match (switches(0), switches(1)) {
        (Some(a), Some(b)) if a >= 10.0 && b > 0.0 => format!("; context switches {}", percent(b / a)),
        _ => String::new(),
    };
    let text = match (better(&v.ratio, paired.metric.higher_is_better())?, better(&cpu, true)?) {
        (-1, 0 | 1) => {
            "slower, but no more CPU time per unit of work: it sleeps more (waiting for locks, I/O or a CPU)"
        }
        (0, -1) => {
            "as fast, but more CPU time per unit of work: it spins or does more where there was idle time"
        }
        (1, -1) => "faster, but with more CPU time per unit of work: waiting by spinning instead of sleeping",
        (0, 1) => "as fast, with less CPU time per unit of work: it sleeps where it spun, or does less",
        _ => return None,
    };
    Some(format!("{text}{changed}"))
}

fn warnings(paired: &Paired, d: &[f64]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    match paired.order {
        Order::RandomWithinPairs => {}
        Order::Blocked => {
            out.push("the arms ran in blocks: drift of the machine looks like a difference".into())
        }
        Order::Unknown => out.push("the order of runs is unknown: drift may look like a difference".into()),
    }
    if d.len() < permutation::INTERVAL_PAIRS_MIN {
        out.push(format!("only {} pairs: the interval rests on the assumption of normal noise", d.len()));
    }
    if series::autocorrelated(d) {
        let r = series::autocorrelation(d).unwrap_or(0.0);
        out.push(format!(
            "differences of neighbouring pairs are correlated (lag-1 {r:+.2}): \
         the interval is too narrow or wide"
        ));
    }
    out.extend(machine_warnings(paired));
    for (name, values) in paired.names.iter().zip(paired.values()) {
        if let Some(modes) = series::two_modes(&values) {
            let share = modes.high_share * 100.0;
            out.push(format!(
                "{name} has two modes, around {:.4} and {:.4} ({share:.0}%)",
                modes.low, modes.high
            ));
        }
    }
    out.extend(paired.failures.iter().cloned());
    out
}

fn machine_warnings(paired: &Paired) -> Vec<String> {
    let runs: Vec<_> = paired.pairs.iter().flatten().collect();
    let capacity: f64 = runs.iter().map(|s| s.wall_s).sum::<f64>() * paired.cpus as f64;
    let share =
        |each: Option<Vec<f64>>| each.map(|all| all.iter().sum::<f64>() / capacity).filter(|s| s.is_finite());
    let mut out = Vec::new();
    if let Some(foreign) = share(runs.iter().map(|s| s.foreign_s).collect()).filter(|&s| s > 0.05) {
        // CPU time suffers less from others than wall time.
        let hint = if paired.metric == crate::Metric::wall() { "; see what --metric cpu says" } else { "" };
        let share = foreign * 100.0;
        out.push(format!("others used {share:.0}% of this machine's CPU time during the runs{hint}"));
    }
    if let Some(steal) = share(runs.iter().map(|s| s.steal_s).collect()).filter(|&s| s > 0.01) {
        out.push(format!("the hypervisor gave {:.0}% of the CPU time to others (steal)", steal * 100.0));
    }
    if let Some(governor) = paired.governor.as_deref().filter(|g| *g != "performance") {
        out.push(format!("the frequency governor is {governor}: the clock may follow the load"));
    }
    let frequency = |i: usize| {
        let all: Option<Vec<f64>> = paired.pairs.iter().map(|p| Some(p[i].frequency_khz? as f64)).collect();
        tussle_stats::mean(&all?)
    };
    if let (Some(a), Some(b)) = (frequency(0), frequency(1))
        && (b / a).ln().abs() > 0.02
    {
        let [a, b] = [a, b].map(|khz| khz / 1e6);
        out.push(format!(
            "CPU 0 ran at {a:.2} GHz after runs of one arm and at {b:.2} GHz after the other's"
        ));
    }
    out
}
