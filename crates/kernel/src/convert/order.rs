//! The ordered log: every access, in one order, to the objects with most transfers and to what shares their lines.

use std::collections::{BTreeMap, HashMap, HashSet};

use tussle_evidence::{TouchKind, Turn};

use crate::convert::rows::{Rows, label};
use crate::stream::{AccessKind, Ordered, Stream};

/// Visits kept at most.
const VISITS_MAX: usize = 400_000;

/// Bytes of a line, as the plugin's model has them.
const LINE: u64 = 64;

/// Rows in order.
pub(super) fn order(stream: &Stream, rows: &mut Rows) -> Vec<Turn> {
    let mut cache: HashMap<(u64, u32, u32), Option<u32>> = HashMap::new();
    let mut find = |o: &Ordered| {
        let key = rows.key(o.address, o.window, o.born);
        *cache.entry(key).or_insert_with(|| rows.find(o.address, o.window, o.born))
    };
    let owners: Vec<Option<u32>> = stream.order.iter().map(&mut find).collect();
    let chosen = chosen(rows, &owners);
    let of = |owner: &Option<u32>| owner.is_some_and(|o| chosen.contains(&o));
    let near: HashSet<u64> =
        stream.order.iter().zip(&owners).filter(|(_, o)| of(o)).map(|(a, _)| a.address / LINE).collect();
    let mut out = Turns::default();
    for (a, owner) in stream.order.iter().zip(&owners) {
        if !of(owner) && !near.contains(&(a.address / LINE)) {
            continue;
        }
        let object = match owner {
            Some(o) => *o,
            None => rows.object(a.address, a.window, a.born),
        };
        let Some(place) = rows.objects.get(object as usize) else { continue };
        out.add(a, object, a.address.saturating_sub(place.base), place.size);
    }
    out.rows
}

/// Objects of the kinds with most transfers that fit.
fn chosen(rows: &Rows, owners: &[Option<u32>]) -> HashSet<u32> {
    let mut visits: HashMap<u32, usize> = HashMap::new();
    owners.iter().flatten().for_each(|o| *visits.entry(*o).or_default() += 1);
    let mut kinds: BTreeMap<String, (u64, usize, Vec<u32>)> = BTreeMap::new();
    for (place, id) in rows.objects.iter().zip(0u32..) {
        let kind = kinds.entry(label(place)).or_default();
        kind.0 += rows.transfers(id);
        kind.1 += visits.get(&id).copied().unwrap_or(0);
        kind.2.push(id);
    }
    let mut kinds: Vec<(u64, usize, Vec<u32>)> = kinds.into_values().filter(|k| k.0 > 0).collect();
    kinds.sort_by_key(|k| std::cmp::Reverse(k.0));
    let mut room = VISITS_MAX;
    let mut out = HashSet::new();
    for (_, visits, ids) in kinds {
        if visits <= room {
            room -= visits;
            out.extend(ids);
        }
    }
    out
}

/// Rows while they grow.
#[derive(Default)]
struct Turns {
    rows: Vec<Turn>,
    /// What the last row holds: bytes, and whether a store came.
    seen: HashMap<(u32, u64, u32), bool>,
}

impl Turns {
    fn add(&mut self, a: &Ordered, object: u32, offset: u64, room: u64) {
        let actor = u32::from(a.vcpu);
        if self.rows.last().is_none_or(|t| t.actor != actor) {
            self.rows.push(Turn { actor, ..Turn::default() });
            self.seen.clear();
        }
        // What reaches over the line's end is in the log twice.
        let line = LINE - a.address % LINE;
        let size = u64::from(a.size).min(line).min(room.saturating_sub(offset)).max(1) as u32;
        let (store, kind) = match a.kind {
            AccessKind::Read => (false, TouchKind::Read),
            AccessKind::Write => (true, TouchKind::Write),
            AccessKind::Rmw => (true, TouchKind::Rmw),
        };
        let again = self.seen.get(&(object, offset, size)).is_some_and(|stored| *stored || !store);
        if !again && let Some(turn) = self.rows.last_mut() {
            turn.visits.push((object, offset, size, kind));
            let stored = self.seen.entry((object, offset, size)).or_default();
            *stored |= store;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_holds_what_one_cpu_did_once() {
        let mut turns = Turns::default();
        let mut add = |vcpu, address, size, kind| {
            let a = Ordered { address, born: 0, window: 0, kind, size, vcpu };
            turns.add(&a, 3, address - 0x1000, 4096);
        };
        add(0, 0x1000, 8, AccessKind::Read);
        add(0, 0x1000, 8, AccessKind::Read);
        add(0, 0x1000, 8, AccessKind::Rmw);
        add(0, 0x1000, 8, AccessKind::Write);
        add(0, 0x103c, 8, AccessKind::Read);
        add(1, 0x1000, 8, AccessKind::Read);
        add(0, 0x1000, 8, AccessKind::Read);
        let seen: Vec<(u32, Vec<(u64, u32, TouchKind)>)> = turns
            .rows
            .iter()
            .map(|t| (t.actor, t.visits.iter().map(|v| (v.1, v.2, v.3)).collect()))
            .collect();
        let first = vec![(0, 8, TouchKind::Read), (0, 8, TouchKind::Rmw), (0x3c, 4, TouchKind::Read)];
        let read = vec![(0, 8, TouchKind::Read)];
        assert_eq!(seen, [(0, first), (1, read.clone()), (0, read)]);
    }
}
