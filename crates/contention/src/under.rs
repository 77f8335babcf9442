//! Accesses under locks: what one holder does cannot fall between the accesses of another, so pairs of accesses that
//! both happen under the same lock cost at most one transfer per turn of its owners. Accesses outside of it (pollers,
//! those who try, readers without the lock) fall between anything.
//!
//! So E of a line is E of all pairs, less that of pairs under the same lock, and instead of these the E of turns, in
//! which each critical section is one access: to bytes that it stores to one store, else one load.

use crate::window::{Piece, Rate, Sink, Spans};
use std::collections::{BTreeMap, BTreeSet};
use tussle_evidence::{Access, Evidence, TURN_BYTE};
use tussle_model::LineSize;

/// The lock under which accesses happened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Under {
    /// Its number; 0 is none.
    pub lock: u64,
    /// Critical sections in which these accesses happened.
    pub sections: f64,
    /// Those of them with a store to these bytes.
    pub storing: f64,
    /// Threads take turns at the line: they were seen to, or a lock that lies elsewhere is held for long.
    pub turn: bool,
}

/// Accesses of a line in one section from which on this is a visit. What holders of a lock do shortly is moved with
/// the lock's own line, and more of it would be gained.
const VISIT_MIN: f64 = 32.0;

/// In the number of a lock: it is a line's own, and the rest is its address.
const TURNS: u64 = 1 << 63;

impl Under {
    /// No lock, or it is not known.
    pub const NONE: Under = Under { lock: 0, sections: 0.0, storing: 0.0, turn: false };

    /// Of a row of accesses; its turns, if these are what it has, have the number `turns` of a lock.
    pub fn of(e: &Evidence, a: &Access, turns: u64) -> Under {
        let Some((object, offset, sections, storing)) = a.held else { return Under::NONE };
        let (lock_at, at) = (address(e, object, offset), address(e, a.object, a.offset));
        let elsewhere = LineSize::L64.index(lock_at) != LineSize::L64.index(at);
        let long = a.total() as f64 >= VISIT_MIN * sections as f64;
        let lock = lock_of(e, a);
        let by_turns = lock.is_none();
        // Turns are the line's, whichever objects lay there one after the other.
        let lock = lock.unwrap_or(turns);
        let turn = by_turns || elsewhere && long;
        Under { lock, sections: sections as f64, storing: storing as f64, turn }
    }

    /// The same for a part of the time.
    pub fn share(self, share: f64) -> Under {
        Under { sections: self.sections * share, storing: self.storing * share, ..self }
    }
}

/// The number of the turns at the line of this address.
pub fn turns_at(line: u64) -> u64 {
    TURNS | line
}

/// The number of the lock under which the accesses of a row happened; `None` for turns, and where there was none.
pub(crate) fn lock_of(e: &Evidence, a: &Access) -> Option<u64> {
    let (object, offset, ..) = a.held?;
    let by_turns = LineSize::L64.offset(address(e, object, offset)) == TURN_BYTE;
    (!by_turns).then(|| (u64::from(object) << 32 | (offset & 0xffff_ffff)).wrapping_add(1).max(1))
}

/// Where the lock with this number lies; `None` for turns.
pub(crate) fn place_of(lock: u64) -> Option<(u32, u64)> {
    let place = lock.checked_sub(1).filter(|_| lock & TURNS == 0)?;
    Some(((place >> 32) as u32, place & 0xffff_ffff))
}

/// Where a byte of an object lay.
pub(crate) fn address(e: &Evidence, object: u32, offset: u64) -> u64 {
    e.objects.get(object as usize).map_or(0, |o| o.base).wrapping_add(offset)
}

/// For each lock that two actors held, its sections as pieces: what is left of the accesses when all of one section
/// count as one.
pub(crate) fn turns(pieces: &[Piece]) -> Vec<Vec<Piece>> {
    let locks: BTreeSet<u64> = pieces.iter().map(|p| p.under.lock).filter(|l| *l != 0).collect();
    locks.into_iter().map(|lock| turns_of(pieces, lock)).collect()
}

fn turns_of(pieces: &[Piece], lock: u64) -> Vec<Piece> {
    let of = || pieces.iter().filter(move |p| p.under.lock == lock);
    // Sections, and those that store, of each actor and part.
    let mut per: BTreeMap<u32, BTreeMap<u32, (f64, f64)>> = BTreeMap::new();
    for p in of() {
        let sum = per.entry(p.actor).or_default().entry(p.part).or_default();
        (sum.0, sum.1) = (sum.0 + p.under.sections, sum.1 + p.under.storing);
    }
    // A section that visits several parts is one visit of the line all the same.
    let factor: BTreeMap<u32, (f64, f64)> = per.iter().map(|(a, parts)| (*a, one_visit(parts))).collect();
    let one = |p: &Piece| {
        let (loads, stores) = factor[&p.actor];
        let reads = loads * (p.under.sections - p.under.storing).max(0.0);
        Piece { reads, writes: stores * p.under.storing, rmws: 0.0, under: Under::NONE, ..*p }
    };
    of().map(one).filter(|p| p.accesses() > 0.0).collect()
}

/// What loads and stores of the parts count so that all sections sum up to those of the part that has most.
fn one_visit(parts: &BTreeMap<u32, (f64, f64)>) -> (f64, f64) {
    let most = |f: &dyn Fn(&(f64, f64)) -> f64| parts.values().map(f).fold(0.0, f64::max);
    let sum = |f: &dyn Fn(&(f64, f64)) -> f64| parts.values().map(f).sum::<f64>();
    let (stores, loads) = (|p: &(f64, f64)| p.1, |p: &(f64, f64)| (p.0 - p.1).max(0.0));
    let only_loads = (most(&|p| p.0) - most(&stores)).max(0.0);
    let share = |want: f64, have: f64| if have > 0.0 { want / have } else { 0.0 };
    (share(only_loads, sum(&loads)), share(most(&stores), sum(&stores)))
}

/// Actors under locks: numbers of what belongs together.
pub(crate) struct Nodes {
    /// Node of each slot: an actor, outside or under one lock.
    pub(crate) of_slot: Vec<usize>,
    /// Actor and lock of each node; lock 0 is none, the others count from 1.
    pub(crate) nodes: Vec<(usize, usize)>,
    /// Locks, with none.
    pub(crate) locks: usize,
}

impl Nodes {
    /// One node per actor.
    pub(crate) fn without_locks(line: &Spans) -> Nodes {
        let of_slot = line.slots.iter().map(|s| s.actor as usize).collect();
        Nodes { of_slot, nodes: (0..line.actors.len()).map(|a| (a, 0)).collect(), locks: 1 }
    }

    pub(crate) fn new(line: &Spans) -> Nodes {
        let locks: BTreeSet<u64> = line.slots.iter().map(|s| s.lock).filter(|l| *l != 0).collect();
        let number: BTreeMap<u64, usize> = locks.into_iter().zip(1..).collect();
        let mut known: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let mut nodes = Vec::new();
        let one = |s: &crate::window::Slot| {
            let key = (s.actor as usize, number.get(&s.lock).copied().unwrap_or(0));
            *known.entry(key).or_insert_with(|| {
                nodes.push(key);
                nodes.len() - 1
            })
        };
        let of_slot = line.slots.iter().map(one).collect();
        Nodes { of_slot, nodes, locks: number.len() + 1 }
    }
}

/// Sums up E of pairs of different actors under the same lock.
pub(crate) struct Bound {
    nodes: Nodes,
    rates: Vec<Rate>,
    /// Per lock: accesses, stores, and the sum of their products within one actor.
    locks: Vec<(f64, f64, f64)>,
    n: f64,
    active: i32,
    pub(crate) e: f64,
}

impl Bound {
    pub(crate) fn new(line: &Spans) -> Bound {
        let nodes = Nodes::new(line);
        let (rates, locks) = (vec![Rate::default(); nodes.nodes.len()], vec![(0.0, 0.0, 0.0); nodes.locks]);
        Bound { nodes, rates, locks, n: 0.0, active: 0, e: 0.0 }
    }
}

impl Bound {
    /// Passes `dt`, takes what falls out from each actor's share in `actor_e`, and returns it in all.
    pub(crate) fn count(&mut self, dt: f64, actor_e: &mut [f64]) -> f64 {
        let before = self.e;
        self.pass(dt);
        if self.n > 0.0 {
            for (r, &(actor, lock)) in self.rates.iter().zip(&self.nodes.nodes).filter(|(_, n)| n.1 > 0) {
                let (n, w, _) = self.locks[lock];
                let out = r.w * (n - r.n) + r.n * (w - r.w);
                actor_e[actor] = (actor_e[actor] - dt * out.max(0.0) / self.n).max(0.0);
            }
        }
        self.e - before
    }
}

impl Sink for Bound {
    fn pass(&mut self, dt: f64) {
        if self.n > 0.0 {
            let pairs: f64 = self.locks[1..].iter().map(|(n, w, own)| (n * w - own).max(0.0)).sum();
            self.e += dt * pairs / self.n;
        }
    }

    fn change(&mut self, _actor: usize, slot: usize, n: f64, w: f64, sign: i32) {
        let node = self.nodes.of_slot[slot];
        let r = &mut self.rates[node];
        let was = *r;
        r.add(n, w, sign);
        self.active += i32::from(r.live > 0) - i32::from(was.live > 0);
        self.n += r.n - was.n;
        let sum = &mut self.locks[self.nodes.nodes[node].1];
        *sum = (sum.0 + r.n - was.n, sum.1 + r.w - was.w, sum.2 + r.n * r.w - was.n * was.w);
    }

    fn settle(&mut self) {
        if self.active == 0 {
            self.n = 0.0;
            self.locks.fill((0.0, 0.0, 0.0));
        }
    }
}

#[cfg(test)]
#[path = "under_tests.rs"]
mod tests;
