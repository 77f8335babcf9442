//! The ordered log replayed in a coherence model: how many transfers the same accesses in the same order would have
//! cost with the bytes elsewhere. A model of order, not of time: it says nothing about speed.
//!
//! Every actor has an infinite cache; a line is modified in one cache, or clean in any number (the model of
//! `qemu/stream.md`). With every byte where it was, the counts are those of the recording.

use std::collections::{BTreeMap, HashMap};

use tussle_evidence::*;

/// Actors told apart; a log has those of one machine.
const ACTORS_MAX: u32 = 64;

/// An access reaches over this many lines at most.
const LINES_MAX: u64 = 64;

/// Transfers of one place, by what they found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// The line was modified in another cache.
    pub dirty: u64,
    /// A load was served by a clean copy.
    pub clean: u64,
    /// A store took the line from readers.
    pub invalidated: u64,
}

impl Moved {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.dirty + self.clean + self.invalidated
    }
}

/// Object and byte in it, where the log has them.
pub type Spot = (u32, u64);

/// Who has a line.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    present: u64,
    owner: Option<u32>,
}

impl Line {
    fn access(&mut self, actor: u32, store: bool, moved: &mut Moved) {
        let me = 1u64 << actor;
        let others = self.present & !me != 0;
        if store {
            if self.owner == Some(actor) {
                return;
            }
            match self.owner {
                Some(_) => moved.dirty += 1,
                None => moved.invalidated += u64::from(others),
            }
            (self.present, self.owner) = (me, Some(actor));
            return;
        }
        if self.present & me != 0 {
            return;
        }
        self.present |= me;
        match self.owner.take() {
            Some(_) => moved.dirty += 1,
            None => moved.clean += u64::from(others),
        }
    }
}

/// Replays the log with lines of `line_bytes`; `address` says where a byte of an object lies, or `None` to leave the
/// access out. `None` when the evidence has no log.
pub fn replay(
    e: &Evidence,
    line_bytes: u64,
    address: &dyn Fn(u32, u64) -> Option<u64>,
) -> Option<BTreeMap<Spot, Moved>> {
    let order = e.order.as_ref()?;
    let line_bytes = line_bytes.max(1);
    let mut lines: HashMap<u64, Line> = HashMap::new();
    let mut out: BTreeMap<Spot, Moved> = BTreeMap::new();
    let mut places: HashMap<Spot, Option<u64>> = HashMap::new();
    for turn in order.iter().filter(|t| t.actor < ACTORS_MAX) {
        for &(object, offset, size, kind) in &turn.visits {
            let spot = (object, offset);
            let Some(at) = *places.entry(spot).or_insert_with(|| address(object, offset)) else { continue };
            let moved = out.entry(spot).or_default();
            let last = at.saturating_add(u64::from(size.max(1)) - 1) / line_bytes;
            for line in (at / line_bytes..=last).take(LINES_MAX as usize) {
                lines.entry(line).or_default().access(turn.actor, kind != TouchKind::Read, moved);
            }
        }
    }
    Some(out)
}

/// Where the log's bytes were.
pub fn recorded(e: &Evidence) -> impl Fn(u32, u64) -> Option<u64> + '_ {
    |object, offset| e.objects.get(object as usize)?.base.checked_add(offset)
}

/// Transfers that the recording itself counted, for the objects in the log: what a replay in place must give.
pub fn counted(e: &Evidence) -> BTreeMap<Spot, Moved> {
    let logged: std::collections::HashSet<u32> =
        e.order.iter().flatten().flat_map(|t| &t.visits).map(|v| v.0).collect();
    let mut out: BTreeMap<Spot, Moved> = BTreeMap::new();
    for t in e.transfers.iter().flatten().filter(|t| logged.contains(&t.object)) {
        let moved = out.entry((t.object, t.offset)).or_default();
        let rest = t.transfers.saturating_sub(t.dirty);
        moved.dirty += t.dirty;
        match t.kind {
            TouchKind::Read => moved.clean += rest,
            TouchKind::Write | TouchKind::Rmw => moved.invalidated += rest,
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::sample::Sample;

    const R: TouchKind = TouchKind::Read;
    const W: TouchKind = TouchKind::Write;

    /// Two objects of 128 bytes, and turns of (actor, (object, offset, kind)...).
    fn log(turns: &[(u32, &[(u32, u64, TouchKind)])]) -> Evidence {
        let mut s = Sample::new(1000);
        s.heap(0x1000, 128, None, 1, 64, None);
        s.heap(0x1080, 128, None, 1, 64, None);
        let turn = |(actor, visits): &(u32, &[(u32, u64, TouchKind)])| Turn {
            actor: *actor,
            visits: visits.iter().map(|&(object, offset, kind)| (object, offset, 8, kind)).collect(),
            schedule: None,
        };
        let mut e = s.evidence();
        e.order = Some(turns.iter().map(turn).collect());
        e
    }

    fn total(e: &Evidence, address: &dyn Fn(u32, u64) -> Option<u64>) -> (u64, u64, u64) {
        let all = replay(e, 64, address).unwrap();
        all.values().fold((0, 0, 0), |s, m| (s.0 + m.dirty, s.1 + m.clean, s.2 + m.invalidated))
    }

    #[test]
    fn what_each_access_finds() {
        let check = |turns: &[(u32, &[(u32, u64, TouchKind)])], want| {
            let e = log(turns);
            assert_eq!(total(&e, &recorded(&e)), want, "{turns:?}");
        };
        check(&[(0, &[(0, 0, W), (0, 0, R), (0, 8, W)])], (0, 0, 0));
        check(&[(0, &[(0, 0, R)]), (1, &[(0, 8, R)]), (0, &[(0, 0, R)])], (0, 1, 0));
        check(&[(0, &[(0, 0, W)]), (1, &[(0, 8, R)]), (0, &[(0, 0, R)])], (1, 0, 0));
        check(&[(0, &[(0, 0, W)]), (1, &[(0, 8, R)]), (0, &[(0, 0, W)])], (1, 0, 1));
        check(&[(0, &[(0, 0, W)]), (1, &[(0, 8, W)]), (0, &[(0, 0, W)])], (2, 0, 0));
        check(&[(0, &[(0, 0, W)]), (1, &[(0, 64, W)]), (0, &[(0, 0, W)])], (0, 0, 0));
        check(&[(0, &[(0, 0, W)]), (1, &[(1, 0, W)])], (0, 0, 0));
    }

    #[test]
    fn fields_that_part_stop_fighting() {
        let turns: &[(u32, &[(u32, u64, TouchKind)])] =
            &[(0, &[(0, 0, W)]), (1, &[(0, 8, R)]), (0, &[(0, 0, W)]), (1, &[(0, 8, R)])];
        let e = log(turns);
        assert_eq!(total(&e, &recorded(&e)), (2, 0, 1));
        let apart = |o: u32, at: u64| recorded(&e)(o, if at == 8 { 72 } else { at });
        assert_eq!(total(&e, &apart), (0, 0, 0));
        assert_eq!(total(&e, &|_, _| None), (0, 0, 0));
        assert!(replay(&Sample::new(1000).evidence(), 64, &|_, _| None).is_none());
    }

    #[test]
    fn an_access_over_two_lines_takes_both() {
        let e = log(&[(0, &[(0, 60, W)]), (1, &[(0, 60, W)]), (0, &[(0, 64, R)])]);
        assert_eq!(total(&e, &recorded(&e)), (3, 0, 0));
    }

    proptest::proptest! {
        /// Bytes that keep their distances modulo the line keep their transfers.
        #[test]
        fn a_shift_by_whole_lines_changes_nothing(
            turns in proptest::collection::vec((0u32..4, 0u32..2, 0u64..120, proptest::bool::ANY), 1..60),
            lines in 1u64..9,
        ) {
            let visits: Vec<[(u32, u64, TouchKind); 1]> =
                turns.iter().map(|t| [(t.1, t.2, if t.3 { W } else { R })]).collect();
            let turns: Vec<(u32, &[(u32, u64, TouchKind)])> =
                turns.iter().zip(&visits).map(|(t, v)| (t.0, v.as_slice())).collect();
            let e = log(&turns);
            let shifted = |o: u32, at: u64| recorded(&e)(o, at).map(|a| a + 64 * lines);
            proptest::prop_assert_eq!(total(&e, &recorded(&e)), total(&e, &shifted));
        }
    }
}
