//! Several candidates against one reference: more questions, more chances to be wrong.

use tussle_stats::multiple::holm;
use tussle_stats::permutation::INTERVAL_PAIRS_MIN;

use crate::paired::Paired;
use crate::sample::Results;
use crate::verdict::{Criterion, Outcome, Verdict, restate, verdict_of};
use crate::{PairedError, verdict};

/// One candidate with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Reference and candidate.
    pub paired: Paired,
    /// The verdict, corrected for the number of candidates.
    pub verdict: Verdict,
}

/// Why a result cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FamilyError {
    /// Too few arms or pairs.
    #[error(transparent)]
    Paired(#[from] PairedError),
    /// A value in a file that no run of ours can have written.
    #[error("{0}: a value is not finite and positive")]
    Value(String),
}

/// Every candidate against the first arm. With more than one candidate the p-values are corrected by Holm's method, and
/// what is no longer significant then is called inconclusive: together the verdicts are wrong as rarely as one alone.
///
/// # Errors
/// When there are fewer than two arms or pairs, or a value is not finite and positive.
pub fn judge(results: &Results, question: Criterion) -> Result<Vec<Judged>, FamilyError> {
    let arms = results.header.arms.len();
    if arms < 2 {
        return Err(PairedError::Arms(arms).into());
    }
    let mut out = Vec::new();
    for arm in 1..arms {
        let paired = Paired::from_results(results, 0, arm)?;
        let verdict = verdict_of(&paired, question);
        let verdict = verdict.ok_or_else(|| FamilyError::Value(paired.names[1].clone()))?;
        out.push(Judged { paired, verdict });
    }
    if out.len() > 1 {
        correct(&mut out, question);
    }
    Ok(out)
}

fn correct(all: &mut [Judged], question: Criterion) {
    // By Markov's inequality 1/e is a p-value, and stays one when the data are looked at again and again.
    let p: Vec<f64> = all
        .iter()
        .map(|j| match j.paired.sequential {
            true => 1.0 / j.verdict.e_value.max(1.0),
            // The p-value that belongs to the interval.
            false => {
                j.verdict.p_sign_flip.filter(|_| j.verdict.pairs >= INTERVAL_PAIRS_MIN).unwrap_or(j.verdict.p)
            }
        })
        .collect();
    for (j, p) in all.iter_mut().zip(holm(&p)) {
        j.verdict.p_holm = Some(p);
        let found = matches!(j.verdict.outcome, Outcome::Improved | Outcome::Regressed);
        // An e-value of exactly 20 decides at 95%.
        if found && p > (1.0 - question.confidence) * (1.0 + 1e-9) {
            let (alone, n) = (j.verdict.outcome.name(), j.paired.pairs.len());
            j.verdict.outcome = Outcome::Inconclusive;
            j.verdict.more_pairs = verdict::more_pairs_for(&j.paired, question).or(Some(n));
            j.verdict.warnings.push(format!(
                "alone it would be called {alone}; among several candidates its p is {p:.3} (Holm)"
            ));
            restate(&j.paired, &mut j.verdict, question);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Header, Sample, Status};
    use crate::{Metric, MetricKind};
    use tussle_stats::Rng;

    /// Arms with these effects (log ratios against the first) and 1% noise.
    fn results(effects: &[f64], pairs: usize, seed: u64) -> Results {
        let header = Header {
            cpus: 2,
            ..Header::new(
                (0..effects.len()).map(|i| format!("arm {i}")).collect(),
                Metric::regex("x", MetricKind::Rate),
            )
        };
        let mut rng = Rng::new(seed);
        let slots = (0..pairs).flat_map(|pair| (0..effects.len()).map(move |arm| (pair, arm)));
        let samples = slots.map(|(pair, arm)| Sample {
            value: Some((effects[arm] + 0.01 * rng.normal()).exp()),
            ..Sample::new(pair, arm, pair * effects.len() + arm, Status::Ok)
        });
        let samples = samples.collect();
        Results { header, samples }
    }

    #[test]
    fn many_equal_candidates_are_called_different_as_rarely_as_one() {
        let question = Criterion { margin: 0.0, ..Criterion::default() };
        let (mut any_alone, mut any_corrected) = (0, 0);
        for seed in 0..200 {
            let all = judge(&results(&[0.0; 9], 10, seed), question).unwrap();
            let found = |j: &Judged| matches!(j.verdict.outcome, Outcome::Improved | Outcome::Regressed);
            any_alone += usize::from(all.iter().any(|j| j.verdict.p < 0.05));
            any_corrected += usize::from(all.iter().any(found));
            assert!(all.iter().all(|j| j.verdict.p_holm.unwrap() >= j.verdict.p_sign_flip.unwrap()));
        }
        // 1 − 0.95⁸ would be 34% of independent tests; these share their reference.
        assert!(any_alone > 30, "{any_alone} of 200");
        assert!(any_corrected <= 15, "{any_corrected} of 200");
    }

    #[test]
    fn a_plain_effect_among_others_stays_and_two_arms_need_no_correction() {
        let question = Criterion::default();
        let all = judge(&results(&[0.0, 0.0, -0.05], 12, 3), question).unwrap();
        assert_eq!(all[1].verdict.outcome, Outcome::Regressed);
        assert_ne!(all[0].verdict.outcome, Outcome::Regressed);
        let two = judge(&results(&[0.0, 0.05], 12, 3), question).unwrap();
        assert_eq!((two[0].verdict.p_holm, two[0].verdict.outcome), (None, Outcome::Improved));
        assert!(judge(&results(&[0.0], 12, 3), question).is_err());
        let mut bad = results(&[0.0, 0.0], 3, 1);
        bad.samples[1].value = Some(-1.0);
        let text = judge(&bad, question).unwrap_err().to_string();
        assert_eq!(text, "arm 1: a value is not finite and positive");
    }
}
