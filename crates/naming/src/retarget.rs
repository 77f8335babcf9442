//! Splitting objects: rows that point into an old object are moved to the pieces that it consists of.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tussle_evidence::{Access, Evidence, Object, Rate, Touch};

/// A part of an old object that becomes (part of) another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First byte in the old object.
    pub start: u64,
    /// One past the last byte in the old object.
    pub end: u64,
    /// The new object.
    pub object: u32,
    /// Offset in the new object of the byte at `start`.
    pub at: u64,
}

/// Pieces by old object, in order of `start`, not overlapping. What no piece covers stays where it is.
pub(crate) type Pieces = HashMap<u32, Vec<Piece>>;

/// What is to become of objects: parts of them, and the objects that these go to, which come after the existing ones.
#[derive(Default)]
pub(crate) struct Split {
    pub new: Vec<Object>,
    /// By object and first byte.
    parts: HashMap<u32, BTreeMap<u64, Piece>>,
}

impl Split {
    /// A part of an object becomes one of its own. The part must be no other's.
    pub fn add(&mut self, evidence: &Evidence, object: u32, start: u64, part: Object) {
        let id = (evidence.objects.len() + self.new.len()) as u32;
        let piece = Piece { start, end: start.saturating_add(part.size), object: id, at: 0 };
        self.parts.entry(object).or_default().insert(start, piece);
        self.new.push(part);
    }

    /// How many parts each object has so far that has any.
    pub fn counts(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        self.parts.iter().map(|(object, parts)| (*object, parts.len()))
    }

    /// Some of these bytes of an object are a part already.
    pub fn meets(&self, object: u32, start: u64, end: u64) -> bool {
        let last = self.parts.get(&object).and_then(|all| all.range(..end).next_back());
        last.is_some_and(|(_, part)| start < part.end)
    }

    /// Does it.
    pub fn apply(self, evidence: &mut Evidence) {
        let pieces = self.parts.into_iter().map(|(object, parts)| (object, parts.into_values().collect()));
        apply(evidence, pieces.collect(), self.new);
    }
}

/// Moves all rows, then drops old objects that nothing refers to any more. `new` are the objects after the existing.
pub(crate) fn apply(evidence: &mut Evidence, mut pieces: Pieces, new: Vec<Object>) {
    if pieces.is_empty() {
        return;
    }
    for list in pieces.values_mut() {
        list.sort_by_key(|p| p.start);
    }
    let old = evidence.objects.len();
    evidence.objects.extend(new);
    split_rows(&mut evidence.accesses, |a| {
        pieces.contains_key(&a.object).then(|| split_access(&pieces, a.clone()))
    });
    split_rows(&mut evidence.touches, |t| {
        pieces.contains_key(&t.object).then(|| split_touch(&pieces, t.clone()))
    });
    for held in evidence.accesses.iter_mut().filter_map(|a| a.held.as_mut()) {
        (held.0, held.1) = locate(&pieces, held.0, held.1);
    }
    for op in evidence.operations.iter_mut().flatten() {
        if let (Some(object), Some(offset)) = (op.lock_object, op.lock_offset) {
            let (object, offset) = locate(&pieces, object, offset);
            (op.lock_object, op.lock_offset) = (Some(object), Some(offset));
        }
        for v in &mut op.visits {
            (v.0, v.1) = locate(&pieces, v.0, v.1);
        }
        for l in op.inner.iter_mut().flatten() {
            (l.2, l.3) = locate(&pieces, l.2, l.3);
        }
    }
    for v in evidence.order.iter_mut().flatten().flat_map(|t| &mut t.visits) {
        (v.0, v.1) = locate(&pieces, v.0, v.1);
    }
    let rates = located_rates(evidence, &pieces);
    for s in evidence.samples.iter_mut().flatten() {
        // Counts of samples cannot be shared out: a row that reaches over several pieces is of the first.
        (s.object, s.offset, s.size) = parts(&pieces, s.object, s.offset, s.size)[0];
    }
    for t in evidence.transfers.iter_mut().flatten() {
        (t.object, t.offset) = locate(&pieces, t.object, t.offset);
    }
    for (r, to) in evidence.rates.iter_mut().flatten().zip(rates) {
        (r.object, r.offset, r.size) = to;
    }
    for h in evidence.heat.iter_mut().flatten() {
        (h.object, h.offset) = locate(&pieces, h.object, h.offset);
    }
    drop_unused(evidence, &pieces, old);
}

/// Puts what becomes of a row in its place, one row at least. Most rows stay as they are, and there are millions of
/// them: they are not copied, and where one becomes several, those behind it are moved once.
fn split_rows<T: Clone>(rows: &mut Vec<T>, becomes: impl Fn(&T) -> Option<Vec<T>>) {
    let mut more: Vec<(usize, Vec<T>)> = Vec::new();
    for (i, row) in rows.iter_mut().enumerate() {
        let mut parts = becomes(row).unwrap_or_default().into_iter();
        let Some(first) = parts.next() else { continue };
        *row = first;
        if parts.len() > 0 {
            more.push((i, parts.collect()));
        }
    }
    let Some(filler) = rows.first().cloned() else { return };
    let mut from = rows.len();
    let mut to = from + more.iter().map(|m| m.1.len()).sum::<usize>();
    rows.resize(to, filler);
    for (i, parts) in more.into_iter().rev() {
        while from > i + 1 {
            (from, to) = (from - 1, to - 1);
            rows.swap(from, to);
        }
        for part in parts.into_iter().rev() {
            to -= 1;
            rows[to] = part;
        }
    }
}

/// Where the words of rates are now: a debug register watches eight bytes, which may hold several variables. Then it
/// is the one in which that thread was sampled; where these are several, the word stays where it is.
fn located_rates(evidence: &Evidence, pieces: &Pieces) -> Vec<(u32, u64, u32)> {
    let rates = evidence.rates.as_deref().unwrap_or_default();
    let split: HashSet<u32> = rates.iter().map(|r| r.object).filter(|o| pieces.contains_key(o)).collect();
    let mut sampled: HashMap<(u32, Option<u32>), BTreeSet<u64>> = HashMap::new();
    for s in evidence.samples.iter().flatten().filter(|s| split.contains(&s.object)) {
        sampled.entry((s.object, s.actor)).or_default().insert(s.offset);
    }
    let of = |r: &Rate| {
        let parts = parts(pieces, r.object, r.offset, r.size);
        if let [one] = parts[..] {
            return one;
        }
        let mut ends = r.offset;
        let touched = parts.into_iter().filter(|part| {
            let start = ends;
            ends += u64::from(part.2);
            sampled.get(&(r.object, r.actor)).is_some_and(|at| at.range(start..ends).next().is_some())
        });
        match touched.collect::<Vec<_>>()[..] {
            [one] => one,
            _ => (r.object, r.offset, r.size),
        }
    };
    rates.iter().map(of).collect()
}

/// Where a byte of an old object is now.
pub(crate) fn locate(pieces: &Pieces, object: u32, offset: u64) -> (u32, u64) {
    let Some(list) = pieces.get(&object) else { return (object, offset) };
    let i = list.partition_point(|p| p.end <= offset);
    match list.get(i) {
        Some(p) if p.start <= offset => (p.object, p.at + (offset - p.start)),
        _ => (object, offset),
    }
}

/// `(object, offset, size)` of the parts of a range, in order.
fn parts(pieces: &Pieces, object: u32, offset: u64, size: u32) -> Vec<(u32, u64, u32)> {
    let end = offset.saturating_add(u64::from(size));
    let list = pieces.get(&object).map(Vec::as_slice).unwrap_or(&[]);
    let mut out = Vec::new();
    let mut at = offset;
    while at < end {
        let i = list.partition_point(|p| p.end <= at);
        let (target, stop) = match list.get(i) {
            Some(p) if p.start <= at => ((p.object, p.at + (at - p.start)), p.end.min(end)),
            Some(p) => ((object, at), p.start.min(end)),
            None => ((object, at), end),
        };
        out.push((target.0, target.1, u32::try_from(stop - at).unwrap_or(u32::MAX)));
        at = stop;
    }
    if out.is_empty() {
        let (o, off) = locate(pieces, object, offset);
        out.push((o, off, size));
    }
    out
}

/// A row over several pieces is shared out by bytes; the sums stay what they were.
fn split_access(pieces: &Pieces, a: Access) -> Vec<Access> {
    let parts = parts(pieces, a.object, a.offset, a.size);
    let total = u64::from(a.size.max(1));
    let mut left = (a.reads, a.writes, a.rmws);
    let last = parts.len() - 1;
    let mut out = Vec::with_capacity(parts.len());
    for (i, (object, offset, size)) in parts.into_iter().enumerate() {
        let share = |whole: u64, left: &mut u64| {
            let n = if i == last {
                *left
            } else {
                (u128::from(whole) * u128::from(size) / u128::from(total)) as u64
            };
            *left -= n.min(*left);
            n
        };
        let reads = share(a.reads, &mut left.0);
        let writes = share(a.writes, &mut left.1);
        let rmws = share(a.rmws, &mut left.2);
        let all = reads.saturating_add(writes).saturating_add(rmws);
        // A section that visits several pieces visits each of them, but no more often than there are accesses.
        let held =
            a.held.map(|(lock, at, sections, storing)| (lock, at, sections.min(all), storing.min(all)));
        out.push(Access { object, offset, size, reads, writes, rmws, held, ..a.clone() });
    }
    out
}

fn split_touch(pieces: &Pieces, t: Touch) -> Vec<Touch> {
    let parts = parts(pieces, t.object, t.offset, t.size);
    parts.into_iter().map(|(object, offset, size)| Touch { object, offset, size, ..t.clone() }).collect()
}

/// Old objects that were split and hold nothing any more go; ids are renumbered.
pub(crate) fn drop_unused(evidence: &mut Evidence, pieces: &Pieces, old: usize) {
    let mut used = vec![false; evidence.objects.len()];
    let mut mark = |id: u32| {
        if let Some(u) = used.get_mut(id as usize) {
            *u = true;
        }
    };
    evidence.accesses.iter().for_each(|a| mark(a.object));
    evidence.accesses.iter().filter_map(|a| a.held).for_each(|h| mark(h.0));
    evidence.touches.iter().for_each(|t| mark(t.object));
    for op in evidence.operations.iter().flatten() {
        op.lock_object.into_iter().for_each(&mut mark);
        op.visits.iter().for_each(|v| mark(v.0));
        op.inner.iter().flatten().for_each(|l| mark(l.2));
    }
    evidence.order.iter().flatten().flat_map(|t| &t.visits).for_each(|v| mark(v.0));
    evidence.samples.iter().flatten().for_each(|s| mark(s.object));
    evidence.transfers.iter().flatten().for_each(|t| mark(t.object));
    evidence.rates.iter().flatten().for_each(|r| mark(r.object));
    evidence.heat.iter().flatten().for_each(|h| mark(h.object));
    let mut ids: Vec<u32> = Vec::with_capacity(used.len());
    let mut next = 0u32;
    let mut kept = Vec::with_capacity(used.len());
    for (i, object) in std::mem::take(&mut evidence.objects).into_iter().enumerate() {
        ids.push(next);
        if used[i] || i >= old || !pieces.contains_key(&(i as u32)) {
            kept.push(object);
            next += 1;
        }
    }
    evidence.objects = kept;
    let renumber = |id: &mut u32| {
        if let Some(n) = ids.get(*id as usize) {
            *id = *n;
        }
    };
    evidence.accesses.iter_mut().for_each(|a| renumber(&mut a.object));
    evidence.accesses.iter_mut().filter_map(|a| a.held.as_mut()).for_each(|h| renumber(&mut h.0));
    evidence.touches.iter_mut().for_each(|t| renumber(&mut t.object));
    evidence.samples.iter_mut().flatten().for_each(|s| renumber(&mut s.object));
    evidence.transfers.iter_mut().flatten().for_each(|t| renumber(&mut t.object));
    evidence.rates.iter_mut().flatten().for_each(|r| renumber(&mut r.object));
    evidence.heat.iter_mut().flatten().for_each(|h| renumber(&mut h.object));
    for op in evidence.operations.iter_mut().flatten() {
        op.lock_object.iter_mut().for_each(renumber);
        op.visits.iter_mut().for_each(|v| renumber(&mut v.0));
        op.inner.iter_mut().flatten().for_each(|l| renumber(&mut l.2));
    }
    evidence.order.iter_mut().flatten().flat_map(|t| &mut t.visits).for_each(|v| renumber(&mut v.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::{RateOf, Run, Sampled, Sees, Source};

    #[test]
    fn a_watched_word_of_two_variables_is_of_the_one_in_which_the_thread_was_sampled() {
        let piece = |start, object| Piece { start, end: start + 4, object, at: 0 };
        let pieces = Pieces::from([(0, vec![piece(64, 1), piece(68, 2), piece(72, 3)])]);
        let none = Rate {
            object: 0,
            offset: 0,
            size: 8,
            actor: None,
            code: None,
            of: RateOf::Writes,
            from_s: 0.0,
            to_s: 1.0,
            events: 9,
            per_s: 1e5,
            low_per_s: None,
            high_per_s: None,
            first_s: None,
        };
        let rate = |offset, actor| Rate { offset, actor: Some(actor), ..none.clone() };
        let sample = |offset, actor| Sampled { offset, size: 4, actor: Some(actor), ..Sampled::default() };
        let mut e = Evidence {
            rates: Some(vec![rate(64, 0), rate(64, 1), rate(64, 2), rate(72, 2), rate(80, 0)]),
            samples: Some(vec![sample(64, 0), sample(68, 1), sample(64, 2), sample(68, 2), sample(72, 2)]),
            ..Evidence::empty(Run::new(Source::Live, 1, Sees::NOTHING))
        };
        let rates = located_rates(&e, &pieces);
        // Thread 2 was seen in both variables of the word: it stays a word of memory.
        assert_eq!(rates, [(1, 0, 4), (2, 0, 4), (0, 64, 8), (3, 0, 4), (0, 80, 8)]);
        e.rates = None;
        assert!(located_rates(&e, &pieces).is_empty());
    }

    #[test]
    fn rows_that_become_several_push_the_others_back() {
        let split = |rows: &[u32]| {
            let mut rows = rows.to_vec();
            split_rows(&mut rows, |n| (*n > 1).then(|| vec![*n * 10; *n as usize]));
            rows
        };
        assert_eq!(split(&[1, 2, 1, 3]), [1, 20, 20, 1, 30, 30, 30]);
        assert_eq!(split(&[2, 0, 0]), [20, 20, 0, 0]);
        assert_eq!(split(&[1, 1]), [1, 1]);
        assert_eq!(split(&[]), [0; 0]);
    }

    #[test]
    fn a_row_under_a_lock_stays_sound_when_two_variables_share_it() {
        let piece = |start, object| Piece { start, end: start + 4, object, at: 0 };
        let pieces = Pieces::from([(0, vec![piece(0, 1), piece(4, 2)])]);
        let whole = Access {
            object: 0,
            offset: 0,
            size: 8,
            actor: 0,
            vt0: 0,
            vt1: 1,
            reads: 0,
            writes: 120,
            rmws: 0,
            held: Some((3, 0, 61, 59)),
        };
        let parts = split_access(&pieces, whole);
        let of = |a: &Access| (a.object, a.writes, a.held);
        assert_eq!(
            parts.iter().map(of).collect::<Vec<_>>(),
            [(1, 60, Some((3, 0, 60, 59))), (2, 60, Some((3, 0, 60, 59)))]
        );
    }
}
