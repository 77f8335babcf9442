//! Which proposal comes first.

use crate::advice::Advice;
use crate::edit::Edit;
use crate::turns;

/// Gains that differ by less are equal: below this share a class is undecided, too, because the evidence is not finer.
pub const EQUAL_SHARE: f64 = crate::class::UNDECIDED_SHARE_MIN;

/// Rows of a list.
const ROWS_MAX: usize = 10;

/// What leaves more than this share of the cost at some phase has left something.
const LEFT_SHARE: f64 = 0.05;

/// Orders advice as somebody would take it: gain at the recorded addresses first, then on other phases, and of equal
/// gain ([`EQUAL_SHARE`]) what leaves nothing at any phase, is no gap, makes nothing new that costs, adds the fewest
/// bytes and changes the fewest statements. What was replayed goes by that where all lengths of a turn agree.
pub fn sort_best(advices: &mut [Advice]) {
    let here = |a: &Advice| if a.is_latent() { 0.0 } else { a.gain_observed() };
    let (levels_here, levels) = (levels(advices, here), levels(advices, Advice::gain));
    // What leaves a part at some phase is back when the allocator decides otherwise.
    let leaves = |a: &Advice| a.after.worst > LEFT_SHARE * a.before.worst;
    let bill = |a: &Advice| {
        let statements: usize = a.edits.iter().map(Edit::statements).sum::<usize>() + a.sites.len();
        // New neighbours that cost next to nothing are no reason to take a larger change.
        let shares = !a.new_sharing.is_empty() && leaves(a);
        (a.has_gaps(), a.notes.len(), shares, a.live_bytes, statements, a.new_sharing.len())
    };
    advices
        .sort_by_cached_key(|a| (level(&levels_here, here(a)), level(&levels, a.gain()), leaves(a), bill(a)));
    turns::sort(advices);
}

/// The largest gain of each level, in falling order: a level begins where the gains of the one before end.
fn levels(advices: &[Advice], gain: impl Fn(&Advice) -> f64) -> Vec<f64> {
    let mut out: Vec<f64> = advices.iter().map(|a| gain(a).max(1.0)).collect();
    out.sort_unstable_by(|a, b| b.total_cmp(a));
    out.dedup_by(|next, first| *next > (1.0 - EQUAL_SHARE) * *first);
    out
}

/// The number of a gain's level.
fn level(levels: &[f64], gain: f64) -> usize {
    levels.partition_point(|first| gain.max(1.0) <= (1.0 - EQUAL_SHARE) * first)
}

/// Drops what another advice beats in everything, and what no reader would reach.
pub(crate) fn pareto(advices: &mut Vec<Advice>) {
    // Two percent of what the struct costs are no difference.
    let steps = |a: &Advice| (a.gain() / (0.02 * a.before.mean.max(1.0))).round() as i64;
    advices.sort_by_key(|a| {
        let bill = (a.live_bytes, a.bytes_added(), a.conditions(), a.edits.len(), a.moved.len());
        (std::cmp::Reverse(steps(a)), a.has_gaps(), bill)
    });
    let rank = |a: &Advice| {
        (a.bytes_added(), a.live_bytes, a.new_sharing.len(), a.edits.len(), a.moved.len(), a.conditions())
    };
    let mut kept: Vec<Advice> = Vec::new();
    for advice in advices.drain(..) {
        let r = rank(&advice);
        // Two percent of gain are no difference; the first of equals stays.
        let beaten = kept.iter().any(|k| {
            let q = rank(k);
            let gains = k.gain() >= advice.gain() - 0.02 * advice.before.mean
                && k.gain_observed() >= advice.gain_observed() - 0.02 * advice.before.observed;
            gains && q.0 <= r.0 && q.1 <= r.1 && q.2 <= r.2 && q.3 <= r.3 && q.4 <= r.4 && q.5 <= r.5
        });
        if !beaten {
            kept.push(advice);
        }
    }
    kept.truncate(ROWS_MAX);
    *advices = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;

    #[test]
    fn of_equal_gain_the_fewest_statements_come_first() {
        let advice = |gain: f64, edits: Vec<Edit>| {
            let before = Cost { mean: gain, observed: gain, ..Cost::default() };
            Advice { before, edits, ..Advice::default() }
        };
        let align = |field: &str| Edit::Align { field: field.into(), bytes: 64 };
        let seven = advice(100_000.0, ["a", "b", "c", "d", "e", "f", "g"].map(align).to_vec());
        let (one, less) = (advice(96_000.0, vec![align("a")]), advice(80_000.0, vec![align("b")]));
        let mut partly = advice(99_000.0, vec![align("c")]);
        (partly.before.worst, partly.after.worst) = (100_000.0, 20_000.0);
        let gap = advice(100_000.0, vec![Edit::Gap { field: "a".into(), bytes: 64 }]);
        let mut list = vec![partly.clone(), gap.clone(), less.clone(), seven.clone(), one.clone()];
        sort_best(&mut list);
        assert_eq!(list, [one, seven, gap, partly, less]);
    }
}
