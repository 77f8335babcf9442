//! Bounds on the numbers of an evidence file, so that what reads it can add and multiply them.
//!
//! A total per table, not only a bound per row: no sum over any of its rows overflows then.

use crate::tables::*;
use tussle_model::TypeTable;
use tussle_model::check::SIZE_MAX;

/// Latest virtual time, in accesses: two years of a billion accesses per second.
pub(crate) const VT_MAX: u64 = 1 << 56;

/// Largest sum of the counts of one table.
const TOTAL_MAX: u64 = 1 << 56;

/// Running sum of what was kept.
#[derive(Default)]
pub(crate) struct Total(u64);

impl Total {
    /// Adds what one row counts; false, and nothing is added, when that is more than any run can have.
    fn take(&mut self, counts: impl IntoIterator<Item = Option<u64>>) -> bool {
        let sum = counts.into_iter().try_fold(self.0, |n, c| n.checked_add(c?));
        let fits = sum.filter(|n| *n <= TOTAL_MAX);
        self.0 = fits.unwrap_or(self.0);
        fits.is_some()
    }

    /// Adds what other rows count; false as of [`Total::take`].
    pub(crate) fn join(&mut self, other: Total) -> bool {
        self.take([Some(other.0)])
    }

    pub(crate) fn access(&mut self, a: &Access) -> bool {
        a.vt0.max(a.vt1) <= VT_MAX && self.take([a.reads, a.writes, a.rmws].map(Some))
    }

    pub(crate) fn touch(&mut self, t: &Touch) -> bool {
        self.take([Some(t.samples)])
    }

    pub(crate) fn loss(&mut self, l: &Loss) -> bool {
        self.take([Some(l.count)])
    }

    /// Everything that an operation stands for, repeated.
    pub(crate) fn operation(&mut self, o: &Operation) -> bool {
        let visits = o.visits.iter().map(|v| v.4.saturating_add(1));
        let rest = [o.think_instructions, o.instructions].into_iter().flatten();
        let each = visits.chain(rest).fold(1u64, |n, c| n.saturating_add(c));
        o.vt0.max(o.vt1) <= VT_MAX && self.take([each.checked_mul(o.repeats.max(1))])
    }

    pub(crate) fn transfer(&mut self, t: &Transfer) -> bool {
        self.take([Some(t.transfers)])
    }

    /// Events, and finite numbers of them per second.
    pub(crate) fn rate(&mut self, r: &Rate) -> bool {
        let numbers = [Some(r.from_s), Some(r.to_s), Some(r.per_s), r.low_per_s, r.high_per_s, r.first_s];
        numbers.into_iter().flatten().all(|n| n.is_finite() && n >= 0.0) && self.take([Some(r.events)])
    }

    pub(crate) fn heat(&mut self, h: &Heat) -> bool {
        self.take([h.reads, h.writes].map(Some))
    }

    pub(crate) fn sampled(&mut self, s: &Sampled) -> bool {
        let counts = [
            Some(s.records),
            s.hitm_local,
            s.hitm_remote,
            s.peer,
            s.loads,
            s.store_l1_hit,
            s.store_l1_miss,
            s.store_no_level,
            s.latency_cycles,
            s.period,
            s.locked,
            s.blocked_data,
            s.blocked_address,
            s.tlb_miss,
        ];
        self.take(counts.into_iter().flatten().map(Some))
    }
}

/// Repairs what no object can have; counts the repairs.
pub(crate) fn object(o: &mut Object, types: &TypeTable) -> u64 {
    let before = (o.size, o.count, o.live_max, o.vt0, o.vt1);
    o.size = o.size.min(SIZE_MAX).min(u64::MAX - o.base);
    let element = o.ty.and_then(|t| types.size(t)).unwrap_or(1);
    if o.count.checked_mul(element.max(1)).is_none_or(|n| n > SIZE_MAX) {
        o.count = 1;
    }
    // All that are alive together lie in one address space.
    if o.live_max.checked_mul(o.size.max(1)).is_none_or(|n| n > 2 * SIZE_MAX) {
        o.live_max = 1;
    }
    o.vt0 = o.vt0.min(VT_MAX);
    o.vt1 = o.vt1.map(|v| v.min(VT_MAX));
    u64::from(before != (o.size, o.count, o.live_max, o.vt0, o.vt1))
}
