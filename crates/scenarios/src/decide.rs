//! How many draws are enough: until a binomial bound tells on which side of the line the share of agreeing draws is.

use crate::answer::{EFFECT_MIN, Prediction, SHARE_MIN, Verdict, analyse};
use crate::predict::{Comparison, Job, Sample};
use crate::subject::{Ablation, Subject};
use tussle_stats::special::beta_inc;

/// Draws looked at first, doubled until it is decided: all of these must agree for a verdict.
pub const DRAWS_FIRST: u32 = 24;
/// Most draws; then it is undecided.
pub const DRAWS_MAX: u32 = 2_000;
/// Looks from the first to the last number of draws.
const LOOKS: f64 = 8.0;
/// Error of one answer, whatever the number of looks (Bonferroni).
const ALPHA: f64 = 0.05;
/// Simulated accesses of one number of CPUs after which no further draws are made: some ten seconds of one core.
/// Accesses and not seconds, so that the answer is the same on every machine.
const ACCESSES_MAX: u64 = 100_000_000;
/// Draws of each changed model.
const ABLATION_DRAWS: u32 = 21;
/// Of recorded operations, whose runs may be long: so many accesses in all changed models, but some draws of each.
const ABLATION_ACCESSES_MAX: u64 = 20_000_000;
/// Those draws.
const ABLATION_DRAWS_MIN: u32 = 5;

/// P(X >= k) for X binomial of `n` draws with probability `p`, by the incomplete beta function.
fn at_least(k: usize, n: usize, p: f64) -> f64 {
    match k {
        0 => 1.0,
        k if k > n => 0.0,
        k => beta_inc(k as f64, (n - k + 1) as f64, p),
    }
}

/// Is the true share above `line` (`Some(true)`), below (`Some(false)`), or not told by `k` of `n` at this error?
fn side(k: usize, n: usize, line: f64, alpha: f64) -> Option<bool> {
    if at_least(k, n, line) <= alpha {
        return Some(true);
    }
    (at_least(n - k, n, 1.0 - line) <= alpha).then_some(false)
}

/// The verdict of the draws at an error of `alpha`; `None` while more draws may tell.
///
/// Faster: more than [`SHARE_MIN`] of all draws are positive and the median is above [`EFFECT_MIN`], both by an exact
/// binomial bound (Clopper and Pearson 1934). Undecided: neither sign can have that any more.
pub fn decide(effects: &[f64], alpha: f64) -> Option<Verdict> {
    let n = effects.len();
    let count = |f: &dyn Fn(f64) -> bool| effects.iter().filter(|e| f(**e)).count();
    let one = |sign: f64| {
        let share = side(count(&|e| e * sign > 0.0), n, SHARE_MIN, alpha);
        let size = side(count(&|e| e * sign > EFFECT_MIN), n, 0.5, alpha);
        match (share, size) {
            (Some(true), Some(true)) => Some(true),
            (Some(false), _) | (_, Some(false)) => Some(false),
            _ => None,
        }
    };
    match (one(1.0), one(-1.0)) {
        (Some(true), _) => Some(Verdict::Faster),
        (_, Some(true)) => Some(Verdict::Slower),
        (Some(false), Some(false)) => Some(Verdict::Undecided),
        _ => None,
    }
}

/// Accesses that a draw has simulated, both sides.
fn accesses(s: &Sample) -> u64 {
    s.before.accesses.saturating_add(s.after.accesses)
}

/// The way from a question to its answer: which draws come next, until it is decided. Whoever runs them may spread
/// them over cores; the answer does not depend on it.
#[derive(Clone, Debug)]
pub struct Course<'a> {
    question: &'a Comparison,
    /// By number of CPUs, each once.
    points: Vec<(u32, Vec<Sample>)>,
    ablations: Vec<(Ablation, Vec<Sample>)>,
}

impl<'a> Course<'a> {
    /// Nothing drawn yet.
    pub fn new(question: &'a Comparison) -> Course<'a> {
        let mut cpus: Vec<u32> = Vec::new();
        for &n in &question.cpus {
            // The last one is the question, also where it was named before.
            cpus.retain(|c| *c != n);
            cpus.push(n);
        }
        let points = cpus.into_iter().map(|n| (n, Vec::new())).collect();
        Course { question, points, ablations: Vec::new() }
    }

    /// Error of one look.
    fn alpha(&self) -> f64 {
        if self.question.draws.is_some() { ALPHA } else { ALPHA / LOOKS }
    }

    /// Draws that one number of CPUs has to have next; `None` when it has enough.
    fn wanted(&self, samples: &[Sample]) -> Option<u32> {
        let has = samples.len() as u32;
        if let Some(n) = self.question.draws {
            return (has < n).then_some(n);
        }
        let accesses: u64 = samples.iter().map(accesses).fold(0, u64::saturating_add);
        let effects: Vec<f64> = samples.iter().map(Sample::effect).collect();
        let next = (has * 2).clamp(DRAWS_FIRST, DRAWS_MAX);
        let open = has < DRAWS_MAX && accesses < ACCESSES_MAX && decide(&effects, self.alpha()).is_none();
        (has == 0 || open).then_some(next)
    }

    /// The jobs to run next, in this order; none when there is an answer.
    pub fn next(&self) -> Vec<Job> {
        let mut out = Vec::new();
        for (cpus, samples) in &self.points {
            let draws = samples.len() as u32..self.wanted(samples).unwrap_or(0);
            out.extend(draws.map(|draw| Job { cpus: *cpus, draw, ablation: Ablation::None }));
        }
        if out.is_empty() && self.ablations.is_empty() {
            out = self.changed();
        }
        out
    }

    /// Draws of the changed models.
    fn changed(&self) -> Vec<Job> {
        let q = self.question;
        let draws = q.draws.map_or(ABLATION_DRAWS, |n| (n / 4).max(5).min(n));
        let Some(&cpus) = q.cpus.last() else { return Vec::new() };
        let all = q.subject.ablations(&q.machine, &q.after);
        let draws = self.affordable(all.len()).map_or(draws, |n| draws.min(n));
        all.into_iter()
            .flat_map(|ablation| (0..draws).map(move |draw| Job { cpus, draw, ablation }))
            .collect()
    }

    /// Draws of each of so many changed models of recorded operations; `None` where nothing bounds them.
    fn affordable(&self, models: usize) -> Option<u32> {
        if self.question.draws.is_some() || !matches!(self.question.subject, Subject::Recording(_)) {
            return None;
        }
        let samples = &self.points.last()?.1;
        let all: u64 = samples.iter().map(accesses).fold(0, u64::saturating_add);
        let each = all / samples.len().max(1) as u64;
        let fits = ABLATION_ACCESSES_MAX / each.saturating_mul(models as u64).max(1);
        Some((fits.min(u64::from(u32::MAX)) as u32).max(ABLATION_DRAWS_MIN))
    }

    /// Takes what the jobs of [`next`](Self::next) gave, in their order.
    pub fn add(&mut self, jobs: &[Job], samples: Vec<Sample>) {
        for (job, sample) in jobs.iter().zip(samples) {
            if job.ablation == Ablation::None {
                let mut points = self.points.iter_mut();
                points.find(|p| p.0 == job.cpus).into_iter().for_each(|p| p.1.push(sample.clone()));
                continue;
            }
            match self.ablations.iter_mut().find(|a| a.0 == job.ablation) {
                Some(a) => a.1.push(sample),
                None => self.ablations.push((job.ablation, vec![sample])),
            }
        }
    }

    /// The answer to what was drawn.
    pub fn answer(self) -> Prediction {
        let alpha = self.alpha();
        analyse(self.question, self.points, &self.ablations, alpha)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_stats::Rng;

    #[test]
    fn bounds_are_those_of_the_binomial() {
        assert!((at_least(24, 24, 0.8) - 0.8f64.powi(24)).abs() < 1e-12);
        assert!((at_least(1, 3, 0.5) - 0.875).abs() < 1e-12);
        assert_eq!((at_least(0, 5, 0.3), at_least(6, 5, 0.3)), (1.0, 0.0));
        let n = DRAWS_FIRST as usize;
        assert_eq!(decide(&vec![0.1; n], ALPHA / LOOKS), Some(Verdict::Faster));
        assert_eq!(decide(&vec![0.005; n], ALPHA / LOOKS), Some(Verdict::Undecided), "within the margin");
    }

    /// A share of exactly 80%, where it was a coin once, is called a verdict in no more than 5% of all answers.
    #[test]
    fn near_the_threshold_there_is_no_verdict() {
        let looks: Vec<usize> =
            std::iter::successors(Some(24), |n| (*n < 2_000).then(|| (n * 2).min(2_000))).collect();
        assert_eq!(looks.len(), LOOKS as usize);
        let mut decided = 0;
        for seed in 0..400 {
            let mut rng = Rng::new(seed);
            let effects: Vec<f64> =
                (0..2_000).map(|_| if rng.uniform() < 0.8 { 0.1 } else { -0.1 }).collect();
            let first = looks.iter().find_map(|&n| decide(&effects[..n], ALPHA / LOOKS));
            decided += usize::from(first.is_some_and(|v| v != Verdict::Undecided));
        }
        assert!(decided <= 20, "{decided} of 400");
    }
}
