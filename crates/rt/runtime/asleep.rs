//! Hooks that return at once while nothing is recorded, or only count how many accesses they pass over while none is to
//! be recorded for a while, or outside of the stretches of a sample.
//!
//! A hook that looked whether it is to record would cost every access a load and a branch, recorded or not. Instead the
//! first bytes of each hook become a return, or a jump. They are written as one aligned word within one instruction, so
//! that a thread on its way sees the old instruction or the new one. Where the system does not let code be written,
//! hooks stay as they are: they find no line in the dummy table, and are slow but right.

use crate::arch::{Point, points};
use crate::sys::{SYS_mprotect, call3};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tussle_rt_core::counting;
use tussle_rt_core::sampling::sampled;

const READ_EXEC: usize = 1 | 4;
const WRITE: usize = 2;
const PAGE: usize = 4096;

/// Lets all hooks return at once, for good. True if they do now.
pub fn sleep() -> bool {
    change(true, |p| Some(p.returning))
}

/// Lets the hooks of accesses record, or (`on` false) pass accesses over for a while; those of functions go on, so that
/// it is known who called whom. Hooks that pass over look from time to time whether they are to record again, if that
/// may be asked. True if they do now; if not they are as before.
pub fn count(on: bool) -> bool {
    let awake = |p: &Point| if sampled() { p.paused } else { Some(p.awake) };
    let off = |p: &Point| if counting::controlled() { p.paused } else { Some(p.returning) };
    let done = if on { change(false, awake) } else { change(false, off) };
    if !done {
        // Half of them would be worse than none.
        if on { change(false, off) } else { change(false, awake) };
    }
    done
}

fn change(frames: bool, to: impl Fn(&Point) -> Option<u64>) -> bool {
    let (mut low, mut high) = (usize::MAX, 0);
    points(frames, |p| (low, high) = (low.min(p.at as usize), high.max(p.at as usize + 8)));
    let from = low & !(PAGE - 1);
    let bytes = high.next_multiple_of(PAGE) - from;
    // SAFETY: pages of the runtime's own code; it stays executable throughout, and readable.
    if unsafe { call3(SYS_mprotect, from, bytes, READ_EXEC | WRITE) } != 0 {
        return false;
    }
    let mut done = true;
    points(frames, |p| {
        // SAFETY: hooks begin on multiples of 32 bytes, and the page can be written now.
        let word = unsafe { AtomicU64::from_ptr(p.at) };
        let now = word.load(SeqCst);
        // What somebody else put there (a debugger's breakpoint) stays.
        let known = [Some(p.awake), Some(p.returning), p.paused].contains(&Some(now & p.mask));
        match to(&p).filter(|_| known) {
            Some(new) => word.store((now & !p.mask) | new, SeqCst),
            None => done = false,
        }
    });
    // SAFETY: as above; pages of code are what they were.
    unsafe { call3(SYS_mprotect, from, bytes, READ_EXEC) };
    done
}
