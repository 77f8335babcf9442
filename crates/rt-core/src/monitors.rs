//! Locks made of a mutex, a condition and plain variables: under the mutex a thread waits until it may go on, what it
//! may then do it does outside, and under the mutex again it lets others go on. Semaphores, reader-writer locks, turns
//! and tickets by hand are such.
//!
//! Who leaves the mutex without having woken anybody may be *in*. It is out when it wakes somebody under the mutex, or
//! just after it, or leaves at a place where threads mostly do. What the variables say nobody knows, so a place in the
//! code must prove itself: only one that others give back is a way in. Two threads that are in at once went in as
//! readers do, by ways that do not exclude each other.
//!
//! A monitor counts as a lock when it was given back twice. It has an address of its own, beside the mutex's: what
//! happens under the mutex does not happen under it.

use crate::code;
use crate::processes;
use crate::sections;
use crate::sync::{self, Slot, thread_number};
use crate::thread::Entered;
use crate::wire::*;
use core::sync::atomic::Ordering::Relaxed;

/// In `Slot::count` of a mutex: threads wait for conditions with it. Words have smaller numbers there.
const MONITOR: u64 = 9;
/// Where the monitor's own address lies, from the mutex's.
const BESIDE: u64 = 2;

/// What is known of a place in the code that leaves a mutex.
const UNKNOWN: u64 = 0;
/// Who went in there gave it back.
const IN: u64 = 1;
/// The same, and several may be in.
const SHARED: u64 = 2;
/// Somebody was woken there.
const OUT: u64 = 3;
/// Who went in there did not give it back.
const NEITHER: u64 = 4;

/// In `Monitor::locked`: together with others.
const AS_READER: u64 = 2;

/// Accesses within which a condition is signalled that was changed under the mutex just before.
const JUST_MAX: u64 = 16;
/// How often a monitor must have been given back to count as a lock.
const GIVEN_MIN: u64 = 2;

/// Meaning of the ring's cells in a monitor's slot: who is in, how often it was given back, where the latest one went
/// in.
const WITHIN: usize = 1;
const GIVEN: usize = 2;
const SITE: usize = 3;

/// # Safety
/// `t` is the calling thread's, and no other reference to it is used any more.
#[inline(always)]
unsafe fn own<'a>(t: *mut Live) -> &'a mut Monitor {
    // SAFETY: only the thread itself uses it.
    unsafe { &mut (*t).monitor }
}

/// The calling thread's. Asked for anew after each call of what may use it, too.
#[inline(always)]
#[allow(clippy::mut_from_ref)]
fn mine(entered: &Entered) -> &mut Monitor {
    // SAFETY: `Entered` hands out the calling thread's state only, and the functions here keep no reference over calls.
    unsafe { own(entered.live()) }
}

/// The calling thread has a mutex under which threads wait: to leave it is to be told.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn has(t: *mut Live, mutex: u64) -> bool {
    // SAFETY: the caller's promise.
    let own = unsafe { own(t) };
    own.has != 0 && own.mutex == mutex
}

fn slot(entered: &Entered, mutex: u64) -> &'static Slot {
    sync::slot(entered, mutex + BESIDE)
}

/// What is known of a place in the code.
fn class(entered: &Entered, site: u64) -> &'static Slot {
    sync::slot(entered, site)
}

fn is(entered: &Entered, site: u64, wanted: u64) -> bool {
    class(entered, site).kind.load(Relaxed) == wanted
}

fn is_lock(s: &Slot) -> bool {
    s.ring[GIVEN].load(Relaxed) >= GIVEN_MIN
}

fn accesses(entered: &Entered) -> u64 {
    // SAFETY: `Entered` hands out the calling thread's state only.
    unsafe { sections::exact(entered.live()) }
}

/// The calling thread has taken a lock whose slot that is.
#[inline(always)]
pub(crate) fn locked(entered: &Entered, s: &Slot, mutex: u64) {
    if s.count.load(Relaxed) == MONITOR {
        let own = mine(entered);
        // Another one under it: what is given back under the outer one would be missed, so that it ends here.
        if own.has != 0 && own.mutex != mutex && own.within != 0 {
            leave(entered);
        }
        let own = mine(entered);
        if own.within == mutex && own.locked != 0 {
            // Under the mutex it is the mutex that keeps others out: a long section of the monitor's would hide that.
            sections::releasing(entered, mutex + BESIDE);
        }
        let own = mine(entered);
        (own.mutex, own.has, own.woke) = (mutex, 1, 0);
    }
}

/// The calling thread is about to release a lock.
#[inline(always)]
pub(crate) fn unlocking(entered: &Entered, lock: u64) {
    let own = mine(entered);
    if own.has == 0 && own.within == 0 {
        own.mutex = lock;
    }
}

/// The lock that the calling thread took last of those that it has.
fn innermost(entered: &Entered) -> Option<u64> {
    // SAFETY: the thread's own places, of which those below `held_count` are in use.
    unsafe {
        let t = entered.live();
        let last = ((*t).held_count as usize).min(HELD).checked_sub(1)?;
        Some((*sections::held(t, last)).addr)
    }
}

fn becomes_one(entered: &Entered, mutex: u64) {
    if processes::slot(mutex).is_none() {
        let _ = sync::slot(entered, mutex).count.compare_exchange(0, MONITOR, Relaxed, Relaxed);
    }
}

/// The calling thread is about to wait for a condition with a mutex that it has.
pub fn waiting(entered: &Entered, mutex: u64) {
    becomes_one(entered, mutex);
    let own = mine(entered);
    (own.mutex, own.has) = (mutex, 0);
    if own.within == mutex {
        leave_for_good(entered);
    }
    let s = slot(entered, mutex);
    if ![0, thread_number(entered)].contains(&s.ring[WITHIN].load(Relaxed)) {
        sync::tried(entered, mutex + BESIDE);
    }
}

/// The calling thread wakes somebody who waits for a condition.
pub(crate) fn wakes(entered: &Entered) {
    let own = mine(entered);
    if own.has != 0 {
        own.woke = 1;
        give_back(entered, true);
    } else if own.within != 0 && own.within == own.mutex && accesses(entered) <= own.left + JUST_MAX {
        class(entered, own.left_site).kind.store(OUT, Relaxed);
        // Who left there was not in before.
        if own.site == own.left_site { leave(entered) } else { give_back(entered, false) }
    } else if own.within == 0 {
        // Under a mutex, or under the one that it had just before.
        let mutex = innermost(entered).unwrap_or(own.mutex);
        if mutex != 0 {
            becomes_one(entered, mutex);
        }
    }
}

/// The calling thread has left a mutex under which threads wait, at `pc`.
pub fn left(entered: &Entered, mutex: u64, pc: u64) {
    // SAFETY: `Entered` hands out the calling thread's state only.
    let site = unsafe { code::whereabouts(entered.live(), pc ^ mutex << 17) };
    let own = mine(entered);
    own.has = 0;
    own.left_site = site;
    let (woke, again) = (own.woke != 0, own.within == mutex && own.site == site);
    let known = class(entered, site);
    if woke {
        known.kind.store(OUT, Relaxed);
    } else if known.kind.load(Relaxed) == OUT {
        give_back(entered, true);
    } else if again {
        leave_for_good(entered);
    } else {
        go_in(entered, mutex, site);
    }
    mine(entered).left = accesses(entered);
}

/// The calling thread goes in, as far as is known, if it is not already.
fn go_in(entered: &Entered, mutex: u64, site: u64) {
    let own = mine(entered);
    if own.within == mutex && own.locked != 0 {
        // Outside of the mutex again, and still in.
        return sections::taken(entered, mutex + BESIDE, own.locked == AS_READER);
    }
    if own.within == mutex || is(entered, site, NEITHER) {
        return;
    }
    if own.within != 0 {
        // Something else inside of a lock, or the other one was none.
        if own.locked != 0 {
            return;
        }
        leave_for_good(entered);
    }
    let s = slot(entered, mutex);
    let own = mine(entered);
    (own.within, own.site, own.locked) = (mutex, site, is_lock(s) as u64);
    s.ring[WITHIN].store(thread_number(entered), Relaxed);
    s.ring[SITE].store(site, Relaxed);
    if own.locked != 0 && is(entered, site, SHARED) {
        own.locked = AS_READER;
        sections::taken(entered, mutex + BESIDE, true);
    } else if own.locked != 0 {
        sync::locked_by_try(entered, mutex + BESIDE);
    }
}

/// The calling thread gives back what it is in, if that is the mutex that it used last; `now`, or when it left.
fn give_back(entered: &Entered, now: bool) {
    let own = mine(entered);
    let (within, site, since) = (own.within, own.site, own.left);
    if within == 0 || within != own.mutex {
        return;
    }
    let s = slot(entered, within);
    let other = s.ring[SITE].load(Relaxed);
    let alone = s.ring[WITHIN].load(Relaxed) == thread_number(entered);
    let proven = is(entered, other, IN) || is(entered, other, SHARED);
    if !alone && proven && now && accesses(entered) > since + JUST_MAX {
        class(entered, other).kind.store(SHARED, Relaxed);
        class(entered, site).kind.store(SHARED, Relaxed);
    } else if !is(entered, site, SHARED) {
        class(entered, site).kind.store(IN, Relaxed);
    }
    s.ring[GIVEN].fetch_add(1, Relaxed);
    leave(entered);
}

/// What the calling thread is in was no way in.
fn leave_for_good(entered: &Entered) {
    let known = class(entered, mine(entered).site);
    if known.kind.load(Relaxed) == UNKNOWN {
        known.kind.store(NEITHER, Relaxed);
    }
    leave(entered);
}

/// The calling thread is in nothing any more.
fn leave(entered: &Entered) {
    let own = mine(entered);
    let (within, locked) = (own.within, own.locked);
    if locked != 0 {
        sections::releasing(entered, within + BESIDE);
    }
    if ![0, AS_READER].contains(&locked) {
        sync::unlocking(entered, within + BESIDE);
    }
    let me = thread_number(entered);
    let _ = slot(entered, within).ring[WITHIN].compare_exchange(me, 0, Relaxed, Relaxed);
    let own = mine(entered);
    (own.within, own.locked) = (0, 0);
}

/// The mutex is gone: its address may become another one's.
pub(crate) fn forget(entered: &Entered, s: &Slot, mutex: u64) {
    if s.count.load(Relaxed) == MONITOR {
        sync::clear(slot(entered, mutex));
    }
}
