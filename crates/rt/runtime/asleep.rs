//! Hooks that return at once while nothing is recorded, or nothing is counted for a while.
//!
//! A hook that looked whether it is to record would cost every access a load and a branch, recorded or not. Instead the
//! first bytes of each hook become a return. They are written as one aligned word within one instruction, so that a
//! thread on its way sees the old instruction or the new one. Where the system does not let code be written, hooks stay
//! as they are: they find no line in the dummy table, and are slow but right.

use crate::arch::points;
use crate::sys::{SYS_mprotect, call3};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

const READ_EXEC: usize = 1 | 4;
const WRITE: usize = 2;
const PAGE: usize = 4096;

/// Lets all hooks return at once, for good. True if they do now.
pub fn sleep() -> bool {
    change(true, true)
}

/// Lets the hooks of accesses record, or (`on` false) return at once for a while; those of functions go on, so that it
/// is known who called whom. True if they do now; if not they are as before.
pub fn count(on: bool) -> bool {
    change(!on, false) || {
        change(on, false);
        false
    }
}

fn change(asleep: bool, frames: bool) -> bool {
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
        let (old, new) = if asleep { (p.awake, p.asleep) } else { (p.asleep, p.awake) };
        // SAFETY: hooks begin on multiples of 32 bytes, and the page can be written now.
        let word = unsafe { AtomicU64::from_ptr(p.at) };
        let now = word.load(SeqCst);
        match now & p.mask {
            bytes if bytes == old => word.store((now & !p.mask) | new, SeqCst),
            bytes => done &= bytes == new,
        }
    });
    // SAFETY: as above; pages of code are what they were.
    unsafe { call3(SYS_mprotect, from, bytes, READ_EXEC) };
    done
}
