//! Semaphores of one permit: who has it keeps others out, as with a lock. How many permits there are shows when one is
//! left while a thread has one, when two threads have one at once, or when one gives back what another took. Then it is
//! no lock, for good.

use crate::sections;
use crate::sync::{self, Slot, thread_number};
use crate::thread::Entered;
use core::sync::atomic::Ordering::*;

/// What is known of a semaphore's permits has a slot of its own, that many bytes behind.
const BESIDE: u64 = 3;

/// How often a permit must have been given back by who took it before that is a lock.
const GIVEN_MIN: u64 = 2;

/// Meaning of the ring's cells: who has the permit, 0 if nobody; how often it was given back so; 1 if it is no lock.
const HOLDER: usize = 0;
const GIVEN: usize = 1;
const NO_LOCK: usize = 2;

fn slot(entered: &Entered, semaphore: u64) -> &'static Slot {
    sync::slot(entered, semaphore + BESIDE)
}

fn is_lock(s: &Slot) -> bool {
    s.ring[NO_LOCK].load(Relaxed) == 0 && s.ring[GIVEN].load(Relaxed) >= GIVEN_MIN
}

/// The calling thread has taken a permit; `waited` is what [`sync::lock_contended`] said before, if it waited;
/// `more` if another one is left.
pub(crate) fn taken(entered: &Entered, semaphore: u64, waited: Option<u64>, more: bool) {
    let s = slot(entered, semaphore);
    let before = s.ring[HOLDER].swap(thread_number(entered), AcqRel);
    if before != 0 || more {
        s.ring[NO_LOCK].store(1, Relaxed);
    } else if is_lock(s) {
        sync::locked(entered, semaphore, waited);
    }
}

/// It is about to give one back.
pub(crate) fn given(entered: &Entered, semaphore: u64) {
    let s = slot(entered, semaphore);
    let mine = s.ring[HOLDER].swap(0, AcqRel) == thread_number(entered);
    if !mine {
        s.ring[NO_LOCK].store(1, Relaxed);
    }
    // What was begun ends here, whatever it was.
    sections::releasing(entered, semaphore);
    if mine && is_lock(s) {
        sync::unlocking(entered, semaphore);
    }
    s.ring[GIVEN].fetch_add(1, Relaxed);
}
