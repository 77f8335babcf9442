//! Words that threads count down, each with one instruction, and for which they wait until they are 0: C++20's latch,
//! and the same by hand. Who sees the 0 goes on after all who counted, however short their work was: unlike a flag,
//! whose changes a scheduler may order otherwise, a count does not get there without the last one. So it is treated as
//! a barrier is, also where each word is used once.
//!
//! A word becomes a *count* when a thread looks twice in vain at what it has just counted down, or when another one
//! waits for a value above 0 that others count down. A word that also goes up is none (a semaphore, a counter of
//! references or readers, a lock), nor is one that is stored to.

use crate::sync::{self, Slot};
use crate::thread::{Entered, round};
use crate::waits;
use crate::wire::*;
use core::sync::atomic::Ordering::*;

/// A count changes by at most so much at once.
const STEP_MAX: u64 = 64;

/// What a word is known to be.
const WAITED_FOR: u64 = 1;
const COUNT: u64 = 2;
const NO_COUNT: u64 = 3;

fn goes_down(from: u64, to: u64) -> bool {
    to < from && from - to <= STEP_MAX
}

/// Notes that the calling thread brought a word from `from` to `to` with one instruction. Without entering the
/// recorder: only the thread itself looks at these cells.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn counted(t: *mut Live, addr: u64, from: u64, to: u64) {
    // SAFETY: the thread's own cells.
    unsafe {
        if goes_down(from, to) {
            (*t).counted = addr;
            (*t).counted_looks = 0;
        }
    }
}

/// Notes that the calling thread looks at a word; true if [`first`] is to be told. What reached 0 by this thread and
/// was never waited for is no count (a counter of references whose object goes).
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn looks_first(t: *mut Live, addr: u64, value: u64) -> bool {
    // SAFETY: the thread's own cells.
    unsafe {
        if (*t).counted != addr {
            return false;
        }
        (*t).counted_looks += 1;
        (*t).counted_looks == 1 && (value != 0 || waits::watched(addr))
    }
}

/// The calling thread looks for the first time at a word that it has just counted down.
pub fn first(entered: &Entered, addr: u64, value: u64) {
    let s = sync::slot(entered, addr);
    if s.count.load(Relaxed) == NO_COUNT {
        return;
    }
    s.counted.fetch_max(sync::settle(entered), AcqRel);
    if value == 0 {
        zero(entered, addr);
    }
}

/// The calling thread sees the same value above 0 again: it waits.
pub fn waits(entered: &Entered, addr: u64) {
    let s = sync::slot(entered, addr);
    // SAFETY: the cell is the calling thread's.
    let own = unsafe { (*entered.live()).counted == addr };
    match s.count.load(Relaxed) {
        0 | WAITED_FOR if own => s.count.store(COUNT, Relaxed),
        0 => s.count.store(WAITED_FOR, Relaxed),
        _ => {}
    }
}

/// The calling thread sees that a watched word has become 0.
pub fn zero(entered: &Entered, addr: u64) {
    let s = sync::slot(entered, addr);
    if s.count.load(Relaxed) == COUNT {
        sync::join(entered, round(s.counted.load(Acquire) + 1));
    }
}

/// The calling thread is about to change a watched word to `to`; `from` is what one instruction will find there.
pub(crate) fn changing(entered: &Entered, s: &'static Slot, from: Option<u64>, to: u64) {
    if ![WAITED_FOR, COUNT].contains(&s.count.load(Relaxed)) {
        return;
    }
    if from.is_some_and(|from| goes_down(from, to)) {
        s.count.store(COUNT, Relaxed);
        s.counted.fetch_max(sync::settle(entered), AcqRel);
    } else {
        s.count.store(NO_COUNT, Relaxed);
    }
}
