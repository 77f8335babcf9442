//! A sample of the run: of each part of virtual time one stretch is counted, the same ones of all threads.
//!
//! Clocks go on in between: hooks count how many accesses they pass over, so that every clock is what it would be if
//! all were recorded, and nothing hangs on who has a CPU when. What is counted in a stretch is all that happens in it.

use crate::stretches::{STRETCH_VT, period_vt, stretch_vt};
use crate::thread::{Entered, now, pass};
use crate::wire::*;
use crate::{record, sections};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One of so many parts is counted; 0: all of them.
static EVERY: AtomicU32 = AtomicU32::new(0);

/// Of what one in `every` is to be counted; 0: all. Called before the first thread is registered.
pub fn begin(every: u32) {
    EVERY.store(every, Relaxed);
}

/// True if this run is sampled.
#[inline(always)]
pub fn sampled() -> bool {
    EVERY.load(Relaxed) != 0
}

/// True if the thread is within a stretch, or all is counted.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn within(t: *mut Live) -> bool {
    // SAFETY: the caller's promise.
    unsafe { !sampled() || (*t).within != 0 }
}

/// Gives the clock what hooks passed over. In a stretch they pass nothing over.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub unsafe fn settle(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*t).within == 0 && (*t).skip_from != (*t).skip {
            let passed = ((*t).skip_from - (*t).skip) as u64;
            (*t).skip_from = (*t).skip;
            (*t).skipped += passed;
            if sampled() {
                pass(t, passed);
            }
        }
    }
}

/// Finds where the thread's clock is among the stretches. Its table is empty, and the clock settled.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub unsafe fn place(t: *mut Live) {
    let every = EVERY.load(Relaxed);
    if every == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let clock = now(t);
        let here = clock / period_vt(every);
        let mut start = stretch_vt(here, every);
        if clock >= start + STRETCH_VT {
            start = stretch_vt(here + 1, every);
        }
        if clock >= start {
            (*t).within = 1;
            (*t).stretch_end = start + STRETCH_VT;
            ((*t).skip_from, (*t).skip) = (-1, -1);
            (*t).skip_end = -1 - (start + STRETCH_VT - clock) as i32;
        } else {
            (*t).within = 0;
            // The hook that finds less than none left tells, before it has counted.
            let left = (start - clock) as i32;
            ((*t).skip_from, (*t).skip) = (left, left);
        }
    }
}

/// Whether an access is to be counted that a hook tells of: stretches begin and end here. It is passed over if not.
/// `hooked`: by a hook that counts down before it tells.
pub fn counts(entered: &Entered, words: u64, hooked: bool) -> bool {
    if !sampled() {
        return true;
    }
    let t = entered.live();
    // SAFETY: the state is the calling thread's, which is inside the recorder.
    unsafe {
        if (*t).within != 0 {
            if (*t).skip >= (*t).skip_end && now(t) < (*t).stretch_end {
                return true;
            }
            sections::close(t);
            sections::show(t);
            record::sweep(t);
            (*t).vt.fetch_max((*t).stretch_end, Relaxed);
            // Runs do not go on in the next stretch: how stretches differ is the error.
            (*t).epoch = (*t).epoch.wrapping_add(1);
            place(t);
        } else {
            if hooked {
                // The hook has counted this one, too.
                (*t).skip += 1;
            }
            settle(t);
            place(t);
        }
        if (*t).within == 0 {
            pass(t, words);
            (*t).skipped += words;
            place(t);
        }
        (*t).within != 0
    }
}
