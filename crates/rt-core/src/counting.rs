//! Whether accesses are counted now: the program may mark the regions that matter (`tussle.h`), and `tussle record`
//! may be told to wait. All else goes on meanwhile: threads, locks, clocks, the heap.
//!
//! While nothing is counted no clock advances. When counting goes on, everybody goes to a boundary after the latest
//! thread, so that accesses before and after the pause never share a window. Where threads mark their own share of the
//! work, which of them comes first is chance: the n-th regions of all threads begin at one boundary.

use crate::arena::lost;
use crate::sys::Spin;
use crate::thread::{Entered, latest, now};
use crate::wire::{LOST_SWITCHES, Live, WINDOW_VT};
use crate::{sections, sync};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// No marked region is open.
pub const OUTSIDE: u32 = 1;
/// `tussle record` said so.
pub const TOLD: u32 = 2;

/// Why nothing is counted: the constants above; 0 while accesses are counted.
static OFF: AtomicU32 = AtomicU32::new(0);
/// Where every thread's clock goes before it counts again.
static RESUMED_VT: AtomicU64 = AtomicU64::new(0);
/// Not 0 if only what happens in marked regions is counted.
static MARKED: AtomicU32 = AtomicU32::new(0);
/// The most regions that any thread began.
static ROUND: AtomicU32 = AtomicU32::new(0);
/// Regions that are open, those of all threads together.
static OPEN: AtomicU32 = AtomicU32::new(0);
/// Held while the hooks change.
static CHANGING: Spin = Spin::new();
/// What tables of other threads may have counted and not given to their clocks.
const SLACK_VT: u64 = 2 * WINDOW_VT;

/// True while accesses are counted.
#[inline(always)]
pub fn counting() -> bool {
    OFF.load(Relaxed) == 0
}

/// Begins without counting for these reasons. Called before the first access; `switch` as in [`change`].
pub fn begin(why: u32, switch: fn(bool) -> bool) {
    MARKED.store(why & OUTSIDE, Relaxed);
    if why != 0 && switch(false) {
        OFF.store(why, Relaxed);
    } else if why != 0 {
        lost(LOST_SWITCHES, 1);
    }
}

/// In a forked child, which has one thread: another one of the parent may have been changing the hooks.
pub fn reset_after_fork(switch: fn(bool) -> bool) {
    CHANGING.reset();
    if RESUMED_VT.load(Relaxed) != 0 || !counting() {
        switch(counting());
    }
}

/// True if only what happens in marked regions is counted.
pub fn marked() -> bool {
    MARKED.load(Relaxed) != 0
}

/// A region begins; it may lie within another one, and other threads may have theirs.
pub fn region_begins(entered: &Entered, switch: fn(bool) -> bool) {
    let held = CHANGING.lock(entered);
    OPEN.fetch_add(1, Relaxed);
    // SAFETY: the state is the calling thread's.
    let number = unsafe {
        let t = entered.live();
        (*t).regions_begun += 1;
        (*t).regions_begun
    };
    let first = ROUND.fetch_max(number, Relaxed) < number;
    change(entered, 0, OUTSIDE, first, switch);
    drop(held);
}

/// A region ends. One that never began is none.
pub fn region_ends(entered: &Entered, switch: fn(bool) -> bool) {
    let held = CHANGING.lock(entered);
    let before = OPEN.load(Relaxed);
    OPEN.store(before.saturating_sub(1), Relaxed);
    if before == 1 && MARKED.load(Relaxed) != 0 {
        change(entered, OUTSIDE, 0, false, switch);
    }
    drop(held);
}

/// Sets and clears reasons. Where counting goes on, `later` puts it after everything that was counted. `switch` lets
/// the hooks count (true) or return at once, and says whether it could: where the system does not let it, all goes on
/// as before, and a loss says so. The caller holds [`CHANGING`].
fn change(entered: &Entered, set: u32, clear: u32, later: bool, switch: fn(bool) -> bool) {
    let old = OFF.load(Relaxed);
    let new = (old | set) & !clear;
    if (old == 0) == (new == 0) {
        return OFF.store(new, Relaxed);
    }
    if new == 0 && later {
        // SAFETY: a thread that is inside has a mapped header.
        let vt = unsafe { latest() }.max(sync::settle(entered));
        RESUMED_VT.store(vt + SLACK_VT, Relaxed);
    }
    OFF.store(new, SeqCst);
    if !switch(new == 0) {
        lost(LOST_SWITCHES, 1);
        OFF.store(old, SeqCst);
    }
}

/// True if the calling thread has not counted since the pause.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn is_behind(t: *mut Live) -> bool {
    // SAFETY: the caller's promise.
    unsafe { now(t) < RESUMED_VT.load(Relaxed) }
}

/// Brings the calling thread over the pause.
#[inline(always)]
pub fn catch_up(entered: &Entered) {
    // SAFETY: the state is the calling thread's.
    if unsafe { is_behind(entered.live()) } {
        catch_up_now(entered);
    }
}

#[cold]
fn catch_up_now(entered: &Entered) {
    // SAFETY: the state is the calling thread's, which is inside the recorder. An open window ends before the pause, an
    // open section is cut.
    unsafe {
        sections::close(entered.live());
        sections::show(entered.live());
    }
    sync::join(entered, RESUMED_VT.load(Relaxed));
}
