//! Waiting without libc: words that one thread polls and another one writes. Barriers, latches, flags and locks made of
//! atomics are such, whatever they are called; with futexes, too: who sleeps looks before and after.
//!
//! A word becomes *watched* when a thread sees the same value in it twice in a row, or takes it from 0 and brings it
//! back. All that follows costs only those who use watched words.
//!
//! - A watched word that changes rarely (on average, and since its last change, a quarter window) separates phases like
//!   a barrier, when one who changes it or waits for it has worked for as long since its clock was last set: who
//!   changes it, and everybody who sees the change, go on at the window boundary after the latest of those who wait.
//!   Words that change more often order nothing here: on few CPUs the order would be the scheduler's.
//! - A watched word that one thread takes from 0 to something else, and the same thread brings back to 0, time and
//!   again, and nobody else meanwhile, is a lock: what happens between is a critical section.

use crate::sections;
use crate::sync::{self, Slot};
use crate::thread::{Entered, now, round};
use crate::wire::*;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

const WATCHED: usize = 4096;
/// One byte per hash of an address: 0, or why such a word is watched.
static TABLE: [AtomicU8; WATCHED] = [const { AtomicU8::new(0) }; WATCHED];

const GIVEN_BACK: u8 = 1;
const POLLED: u8 = 2;

/// A word that changes again within so much is no border between phases.
const RARE: u64 = WINDOW_VT / 4;
/// Times that a word must have been taken and given back to count as a lock.
const LOCKED_MIN: u64 = 2;

/// What the latest look at a word showed: nothing to compare with, the same value again, another one.
const FIRST: u64 = 0;
const AGAIN: u64 = 1;
const OTHER: u64 = 2;

/// Meaning of the ring's cells in slots of words.
const PUBLISHED: usize = 0;
const HOLDER: usize = 1;
const RELEASES: usize = 2;
const NO_LOCK: usize = 3;
const CHANGED: usize = 4;
const CHANGES: usize = 5;
const FIRST_CHANGE: usize = 6;

fn cell(addr: u64) -> &'static AtomicU8 {
    // SAFETY: below the table's size.
    unsafe { TABLE.get_unchecked((addr >> 2 ^ addr >> 14) as usize % WATCHED) }
}

/// Somebody polls this word, or one with its hash.
#[inline(always)]
pub fn watched(addr: u64) -> bool {
    cell(addr).load(Relaxed) != 0
}

/// Notes that the calling thread saw `value`; true if [`seen`] is to be told. Without entering the recorder: only the
/// thread itself looks at these cells, and a handler in between costs one look.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn look(t: *mut Live, addr: u64, value: u64) -> bool {
    // SAFETY: the thread's own cells, below their number.
    unsafe {
        if crate::arena::forked() {
            return false;
        }
        let l = own(t, addr);
        (*t).looked = addr;
        if (*l).addr != addr {
            (*l).addr = addr;
            (*l).value = value;
            (*l).again = FIRST;
            return watched(addr);
        }
        let same = (*l).value == value;
        (*l).value = value;
        let news = if same { (*l).again != AGAIN } else { watched(addr) };
        (*l).again = if same { AGAIN } else { OTHER };
        news
    }
}

/// Notes that the calling thread brought a word from `from` to `to`: one that it takes from 0 and gives back may be a
/// lock, and is watched from then on.
///
/// # Safety
/// As for [`look`].
#[inline(always)]
pub unsafe fn taken_or_given(t: *mut Live, addr: u64, from: Option<u64>, to: u64) {
    // SAFETY: the thread's own cell.
    unsafe {
        if crate::arena::forked() {
            return;
        }
        if to == 0 && (*t).took == addr {
            let _ = cell(addr).compare_exchange(0, GIVEN_BACK, Relaxed, Relaxed);
        } else if from == Some(0) {
            (*t).took = addr;
        }
    }
}

/// The calling thread saw the same value again, or another one than before.
pub fn seen(entered: &Entered, addr: u64) {
    // SAFETY: the caller is inside the recorder: the thread's structures are its own.
    unsafe {
        let t = entered.live();
        let again = (*own(t, addr)).again;
        let s = sync::slot(entered, addr);
        if again == OTHER {
            let vt = ring(s, PUBLISHED).load(Acquire);
            if vt > now(t) {
                return sync::join(entered, vt);
            }
        }
        cell(addr).store(POLLED, Relaxed);
        if again == AGAIN && is_lock(s) {
            sync::tried(entered, addr);
        }
        if worked(t) && now(t) >= ring(s, CHANGED).load(Relaxed) + RARE {
            s.waited.fetch_max(sync::settle(entered), AcqRel);
        }
    }
}

/// The calling thread gives the CPU away: it waits for the word that it looked at last.
pub fn yielding(entered: &Entered) {
    // SAFETY: the caller is inside the recorder: the thread's structures are its own.
    unsafe {
        let addr = (*entered.live()).looked;
        if addr != 0 && (*own(entered.live(), addr)).addr == addr {
            (*own(entered.live(), addr)).again = AGAIN;
            seen(entered, addr);
        }
    }
}

/// Since its clock was last set the thread has worked for so long that a phase may end.
///
/// # Safety
/// `t` is the calling thread's.
unsafe fn worked(t: *mut Live) -> bool {
    // SAFETY: the thread's own clock.
    unsafe { now(t) >= (*t).sync_vt + RARE }
}

/// The thread's look at a word.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
unsafe fn own(t: *mut Live, addr: u64) -> *mut Look {
    // SAFETY: below their number.
    unsafe { (&raw mut (*t).looks[0]).add((addr >> 2) as usize % LOOKS) }
}

fn ring(s: &'static Slot, k: usize) -> &'static AtomicU64 {
    // SAFETY: below the ring's size.
    unsafe { s.ring.get_unchecked(k) }
}

fn is_lock(s: &'static Slot) -> bool {
    ring(s, NO_LOCK).load(Relaxed) == 0 && ring(s, RELEASES).load(Relaxed) >= LOCKED_MIN
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
unsafe fn me(t: *mut Live) -> u64 {
    // SAFETY: the thread's own description.
    unsafe { (*((*t).info_at as *const ThreadInfo)).index as u64 + 1 }
}

/// The calling thread is about to change a watched word to `to`; `from` is what one instruction will find there.
pub fn changing(entered: &Entered, addr: u64, from: Option<u64>, to: u64) {
    // SAFETY: the caller is inside the recorder: the thread's structures are its own.
    unsafe {
        let t = entered.live();
        let s = sync::slot(entered, addr);
        // What a thread wrote itself is no news to it.
        let l = own(t, addr);
        (*l).addr = addr;
        (*l).value = to;
        (*l).again = FIRST;
        if to == 0 {
            release(entered, s, addr);
        }
        let taking = from == Some(0) && ring(s, NO_LOCK).load(Relaxed) == 0;
        if taking || is_lock(s) || cell(addr).load(Relaxed) != POLLED {
            return;
        }
        let last = ring(s, CHANGED).fetch_max(now(t), AcqRel);
        let before = ring(s, CHANGES).fetch_add(1, Relaxed);
        if before == 0 {
            ring(s, FIRST_CHANGE).store((*t).sync_vt, Relaxed);
        }
        let latest = now(t).max(s.waited.load(Relaxed));
        let since = latest.saturating_sub(ring(s, FIRST_CHANGE).load(Relaxed));
        let waiter_worked = s.waited.load(Relaxed) >= last + RARE;
        if !(worked(t) || waiter_worked) || latest < last + RARE || since < RARE.saturating_mul(before + 1) {
            return;
        }
        let vt = round(sync::settle(entered).max(s.waited.load(Acquire)) + 1);
        ring(s, PUBLISHED).fetch_max(vt, AcqRel);
        ring(s, CHANGED).fetch_max(vt, AcqRel);
        sync::join(entered, vt);
    }
}

/// The calling thread has changed a watched word with one instruction.
pub fn changed(entered: &Entered, addr: u64, from: u64) {
    // SAFETY: the caller is inside the recorder: the thread's structures are its own.
    unsafe {
        let s = sync::slot(entered, addr);
        if from == 0 && ring(s, NO_LOCK).load(Relaxed) == 0 {
            ring(s, HOLDER).store(me(entered.live()), Relaxed);
            if is_lock(s) {
                sync::locked_by_try(entered, addr);
            }
        }
    }
}

/// The word is, or is about to be, 0 again: if the calling thread took it, it was a lock.
///
/// # Safety
/// The slot is of `addr`.
unsafe fn release(entered: &Entered, s: &'static Slot, addr: u64) {
    // SAFETY: the caller is inside the recorder: the thread's structures are its own.
    unsafe {
        let holder = ring(s, HOLDER).load(Relaxed);
        if holder == 0 || ring(s, NO_LOCK).load(Relaxed) != 0 {
            return;
        }
        if holder != me(entered.live()) {
            ring(s, NO_LOCK).store(1, Relaxed);
            return;
        }
        if is_lock(s) {
            sections::releasing(entered, addr);
            sync::unlocking(entered, addr);
        }
        ring(s, HOLDER).store(0, Relaxed);
        ring(s, RELEASES).fetch_add(1, Relaxed);
    }
}
