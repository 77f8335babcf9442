//! What threads share without locks: nobody who is stopped, interrupted or cancelled in here keeps others from going
//! on.
//!
//! Functions of plain cells, so that `tests/loom.rs` can try them under every interleaving.

use crate::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// How much of an arena is used, backed by memory, and allowed, bytes.
pub struct Bounds<'a> {
    pub used: &'a AtomicU64,
    pub ready: &'a AtomicU64,
    pub cap: &'a AtomicU64,
}

/// `bytes` from an arena: where they start; `None` if it is full. `back(from, to)` backs a range of the arena with
/// memory, at least up to `to`, and returns up to where it did; it may run in several threads at once, and twice for
/// the same range.
pub fn take(b: &Bounds<'_>, bytes: u64, back: impl Fn(u64, u64) -> Option<u64>) -> Option<u64> {
    let mut from = b.used.load(Relaxed);
    loop {
        let end = from.checked_add(bytes)?;
        if end > b.cap.load(Relaxed) {
            return None;
        }
        let ready = b.ready.load(Acquire);
        if end > ready {
            match back(ready, end) {
                Some(to) => b.ready.fetch_max(to, AcqRel),
                // What was handed out stays; from now on everything else is a stated loss.
                None => b.cap.fetch_min(ready, Relaxed),
            };
            // Another thread may have got further: look again.
            from = b.used.load(Relaxed);
            continue;
        }
        match b.used.compare_exchange_weak(from, end, Relaxed, Relaxed) {
            Ok(_) => return Some(from),
            Err(now) => from = now,
        }
    }
}

/// Puts `node`, whose link to the next is `next`, in front of a list. Lists are walked without locks, and nothing is
/// ever taken out of them.
pub fn prepend(head: &AtomicU32, node: u32, next: &AtomicU32) {
    let mut first = head.load(Relaxed);
    loop {
        next.store(first, Relaxed);
        match head.compare_exchange_weak(first, node, Release, Relaxed) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// Number of changes, in the high half of a stack's head: who read the head before others popped and pushed the same
/// node again must not succeed.
const CHANGE: u64 = 1 << 32;

fn changed(head: u64, node: u64) -> u64 {
    (head & !(CHANGE - 1)).wrapping_add(CHANGE) | node
}

/// Puts `node` (not 0) on a stack; `next` is the node's link.
pub fn push(head: &AtomicU64, node: u32, next: &AtomicU64) {
    let mut first = head.load(Relaxed);
    loop {
        next.store(first & (CHANGE - 1), Relaxed);
        match head.compare_exchange_weak(first, changed(first, node as u64), AcqRel, Relaxed) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// Takes a node off a stack; 0 when it is empty. `next` gives a node's link; nodes stay readable for ever.
pub fn pop<'a>(head: &AtomicU64, next: impl Fn(u32) -> &'a AtomicU64) -> u32 {
    let mut first = head.load(Acquire);
    loop {
        let node = first as u32;
        if node == 0 {
            return 0;
        }
        let rest = next(node).load(Relaxed);
        match head.compare_exchange_weak(first, changed(first, rest), AcqRel, Acquire) {
            Ok(_) => return node,
            Err(now) => first = now,
        }
    }
}

/// The cell among `probes` that holds `key` (not 0), taken if need be; `None` if others have all of them. Taken cells
/// are never given back, so that two threads with one key find one cell.
pub fn claim<'a>(probes: usize, cell: impl Fn(usize) -> &'a AtomicU64, key: u64) -> Option<usize> {
    (0..probes).find(|&k| {
        let c = cell(k);
        let seen = c.load(Acquire);
        seen == key
            || seen == 0
                && match c.compare_exchange(0, key, AcqRel, Acquire) {
                    Ok(_) => true,
                    Err(now) => now == key,
                }
    })
}

/// A thread with clock `vt` comes to a barrier for `count`: the generation that it belongs to, whose latest clock is
/// kept in `ring`. The last clock of as many generations ago as the ring has cells is behind all of this one's.
pub fn arrive(arrivals: &AtomicU64, ring: &[AtomicU64], count: u64, vt: u64) -> u64 {
    let generation = arrivals.fetch_add(1, AcqRel) / count.max(1);
    arrive_at(ring, generation, vt);
    generation
}

/// The same of a generation that is known.
pub fn arrive_at(ring: &[AtomicU64], generation: u64, vt: u64) {
    if let Some(cell) = ring.get(generation as usize % ring.len().max(1)) {
        cell.fetch_max(vt, AcqRel);
    }
}

/// The latest clock of those who came to the barrier in `generation`.
pub fn latest(ring: &[AtomicU64], generation: u64) -> u64 {
    ring.get(generation as usize % ring.len().max(1)).map_or(0, |c| c.load(Acquire))
}
