//! What is done once, by whoever comes first: `pthread_once`, C11's `call_once`, `std::call_once`, a function's static
//! variables. Nobody gets by before it is done, so whoever comes by goes on after it, waited or not: the others may
//! have come later, as the program's clock goes, and earlier by what they had done.

use crate::sync;
use crate::thread::{Entered, now, round};
use crate::waits;
use crate::wire::*;
use core::sync::atomic::Ordering::*;

/// Shorter work orders nothing: what meets it is as short, and most of what is done once is.
const WORK_MIN: u64 = WINDOW_VT / 64;

/// What is known of it has a slot of its own, that many bytes behind: its word may be looked at as any.
const BEHIND: u64 = 3;

/// Cells of a slot's ring: the clock when the work began, and when it was done.
const BEGAN: usize = 0;
const DONE: usize = 1;

/// The calling thread is about to do it.
pub fn begins(entered: &Entered, addr: u64) {
    let vt = sync::settle(entered);
    sync::slot(entered, addr + BEHIND).ring[BEGAN].store(vt, Relaxed);
}

/// The calling thread has done it; nobody else knows yet.
pub fn ends(entered: &Entered, addr: u64) {
    let vt = sync::settle(entered);
    let s = sync::slot(entered, addr + BEHIND);
    if vt >= s.ring[BEGAN].load(Relaxed) + WORK_MIN {
        let vt = round(vt);
        s.ring[DONE].store(vt, Release);
        waits::told(entered, addr, vt);
        sync::join_at_work(entered, vt);
    }
}

/// Somebody comes by for whom it is done; true if [`passes`] is to be told.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn is_news(t: *mut Live, addr: u64) -> bool {
    // SAFETY: the thread's own clock.
    sync::known(addr + BEHIND).is_some_and(|s| s.ring[DONE].load(Acquire) > unsafe { now(t) })
}

/// The calling thread comes by.
pub fn passes(entered: &Entered, addr: u64) {
    sync::join(entered, sync::slot(entered, addr + BEHIND).ring[DONE].load(Acquire));
}
