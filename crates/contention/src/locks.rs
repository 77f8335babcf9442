//! What locks themselves cost. Whoever takes a lock pays for its line, wherever the data lie that it orders: what a
//! layout of these removes counts beside that.

use std::collections::HashMap;

use crate::analysis::{Contention, IN_TURN_MIN, LineContention};
use crate::objective::LineCost;
use crate::under;

/// What the lines cost on which locks lie, by the number of the lock: with every byte range apart, so that what lies
/// beside a lock does not count.
pub struct Locks(HashMap<u64, f64>);

impl Locks {
    /// Of all locks that order lines of these on which they do not lie.
    pub fn of(seen: &Contention) -> Locks {
        let mut places: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for lock in seen.lines.iter().filter_map(|l| l.ordered).map(|o| o.lock) {
            let Some((object, offset)) = under::place_of(lock) else { continue };
            let known = places.entry(object).or_default();
            if !known.contains(&(offset, lock)) {
                known.push((offset, lock));
            }
        }
        let mut costs: HashMap<u64, f64> = HashMap::new();
        for line in &seen.lines {
            for range in line.parts.iter().map(|p| p.range) {
                let here = |offset: u64| range.holds((range.object, offset));
                for (_, lock) in places.get(&range.object).into_iter().flatten().filter(|l| here(l.0)) {
                    let most = costs.entry(*lock).or_default();
                    *most = most.max(line.cost.apart);
                }
            }
        }
        Locks(costs)
    }

    /// What lines cost together with the lock that orders them; `None` where no single one does.
    pub fn with(&self, cost: &LineCost, lines: &[&LineContention]) -> Option<LineCost> {
        let lock = self.0.get(&ordered_by(lines)?)?;
        let mut both = *cost;
        both.add(&LineCost { main: *lock, apart: *lock, ..LineCost::default() });
        both.now.stores += lock;
        Some(both)
    }
}

/// The one lock that orders nearly all accesses of these lines, and lies on none of them.
fn ordered_by(lines: &[&LineContention]) -> Option<u64> {
    let lock = lines.iter().find_map(|l| l.ordered)?.lock;
    let of_lock = |l: &&&LineContention| l.ordered.is_some_and(|o| o.lock == lock);
    let accesses = |l: &&LineContention| l.accesses;
    let (theirs, all): (f64, f64) =
        (lines.iter().filter(of_lock).map(accesses).sum(), lines.iter().map(accesses).sum());
    (theirs >= IN_TURN_MIN * all).then_some(lock)
}
