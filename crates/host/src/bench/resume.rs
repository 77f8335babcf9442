//! What an interrupted benchmark leaves to be done.

use super::{Order, Plan, header};
use std::collections::HashSet;
use tussle_bench::sample::{Header, Results, Sample};

/// Why an older result cannot be gone on with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// It is of something else.
    #[error("it is another benchmark: its {0} differ; without --resume it is kept as .old")]
    Differs(&'static str),
    /// Nothing pairs its runs.
    #[error("arms that ran in blocks are not in pairs: there is nothing to go on with")]
    Blocked,
}

/// The complete rounds of an older result of the same plan, from the first one on; what ran of a later round is left
/// out: two runs with an interruption between them are no pair.
///
/// # Errors
/// [`ResumeError`].
pub fn rounds(old: &Results, plan: &Plan) -> Result<Vec<Sample>, ResumeError> {
    if plan.order == Order::Blocked {
        return Err(ResumeError::Blocked);
    }
    if let Some(what) = difference(&old.header, &header(plan)) {
        return Err(ResumeError::Differs(what));
    }
    let measured = || old.samples.iter().filter(|s| !s.warmup);
    let ran: HashSet<(usize, usize)> = measured().map(|s| (s.pair, s.arm)).collect();
    let complete = |pair: &usize| (0..plan.arms.len()).all(|arm| ran.contains(&(*pair, arm)));
    // No more rounds than samples: numbers of rounds come from a file.
    let whole = (0..old.samples.len()).take_while(complete).count();
    Ok(measured().filter(|s| s.pair < whole).cloned().collect())
}

/// What makes two results different benchmarks.
fn difference(old: &Header, new: &Header) -> Option<&'static str> {
    let all = [
        ("arms", old.arms == new.arms && old.commands == new.commands),
        ("commits", old.commits == new.commits),
        ("metrics", old.metric == new.metric),
        ("orders or seeds", old.order == new.order && old.seed == new.seed),
        ("rules for the end", old.sequential == new.sequential),
        ("numbers of CPUs", old.cpus == new.cpus),
    ];
    all.into_iter().find(|(_, same)| !same).map(|(what, _)| what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Command;
    use tussle_bench::sample::Status;

    #[test]
    fn complete_rounds_count_and_others_do_not() {
        let plan = Plan::new(vec![Command::shell("a", "true"), Command::shell("b", "false")], 9);
        let of = |runs: &[(usize, usize)]| {
            let run = |(i, (pair, arm)): (usize, &(usize, usize))| Sample::new(*pair, *arm, i, Status::Ok);
            Results { header: header(&plan), samples: runs.iter().enumerate().map(run).collect() }
        };
        let pairs = |runs| rounds(&of(runs), &plan).map(|s| s.iter().map(|s| s.pair).collect::<Vec<_>>());
        assert_eq!(pairs(&[(0, 1), (0, 0), (1, 0)]), Ok(vec![0, 0]));
        assert_eq!(pairs(&[(0, 1), (2, 0), (2, 1)]), Ok(vec![]));
        assert_eq!(pairs(&[(usize::MAX, 1), (usize::MAX, 0)]), Ok(vec![]));
        let other = Plan { seed: 2, ..plan.clone() };
        assert_eq!(rounds(&of(&[]), &other), Err(ResumeError::Differs("orders or seeds")));
        let blocked = Plan { order: Order::Blocked, ..plan.clone() };
        assert_eq!(rounds(&of(&[]), &blocked), Err(ResumeError::Blocked));
    }
}
