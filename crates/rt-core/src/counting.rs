//! Whether accesses are counted now: the program may mark the regions that matter (`tussle.h`), and `tussle record`
//! may be told to wait. All else goes on meanwhile: threads, locks, clocks, the heap.
//!
//! While nothing is counted no clock advances. When counting goes on, everybody goes to a boundary after the latest
//! thread, so that accesses before and after the pause never share a window. Where threads mark their own share of the
//! work, which of them comes first is chance: the n-th regions of all threads begin at one boundary.

use crate::arena::{alloc, header, lost, reference, session_file};
use crate::sys::{SYS_close, SYS_mmap, SYS_open, Spin, call, call3};
use crate::thread::{Entered, latest, now};
use crate::wire::{LOST_SWITCHES, Live, Stretch, WINDOW_VT};
use crate::{lockfree, sampling, sections, sync};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// No marked region is open.
pub const OUTSIDE: u32 = 1;
/// `tussle record` said so.
pub const TOLD: u32 = 2;

/// What every event looks at, side by side.
#[repr(C, align(64))]
struct State {
    /// Why nothing is counted: the constants above; 0 while accesses are counted. The hooks look at it.
    off: AtomicU32,
    /// What `word` was when it was last obeyed.
    obeyed: AtomicU32,
    /// Address of the word by which `tussle record` says whether to count; 0 if it says nothing.
    word: AtomicU64,
    /// Where every thread's clock goes before it counts again.
    resumed_vt: AtomicU64,
}

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static tussle_counting: State = State {
    off: AtomicU32::new(0),
    obeyed: AtomicU32::new(0),
    word: AtomicU64::new(0),
    resumed_vt: AtomicU64::new(0),
};
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
    tussle_counting.off.load(Relaxed) == 0
}

/// The same, or there is news: entering the recorder obeys it.
#[inline(always)]
pub fn may_count() -> bool {
    counting() || news()
}

/// True if `tussle record` can be asked to let counting begin and end.
pub fn controlled() -> bool {
    tussle_counting.word.load(Relaxed) != 0
}

fn word() -> Option<&'static AtomicU32> {
    let word = tussle_counting.word.load(Relaxed) as *const AtomicU32;
    // SAFETY: null, or in a mapping that is never taken away.
    unsafe { word.as_ref() }
}

/// True if `tussle record` has said something that was not obeyed yet.
#[inline(always)]
pub fn news() -> bool {
    word().is_some_and(|w| w.load(Relaxed) != tussle_counting.obeyed.load(Relaxed))
}

/// Does what `tussle record` says; `switch` as in [`change`].
#[cold]
pub fn obey(entered: &Entered, switch: fn(bool) -> bool) {
    let held = CHANGING.lock(entered);
    let now = word().map_or(0, |w| w.load(Relaxed));
    if tussle_counting.obeyed.swap(now, Relaxed) != now {
        match now & 1 {
            0 => change(entered, 0, TOLD, true, switch),
            _ => change(entered, TOLD, 0, false, switch),
        }
        if now & 1 == 0 {
            stretch();
        }
    }
    drop(held);
}

/// Writes down that a stretch begins.
fn stretch() {
    let s = alloc(size_of::<Stretch>() as u64) as *mut Stretch;
    if s.is_null() {
        return;
    }
    // SAFETY: the stretch is new and ours until it is in the list.
    unsafe {
        (*s).vt0 = tussle_counting.resumed_vt.load(Relaxed);
        let next = AtomicU32::from_ptr(&raw mut (*s).next);
        lockfree::prepend(AtomicU32::from_ptr(&raw mut (*header()).stretches), reference(s as u64), next);
    }
}

/// Begins; without counting if only marked regions are counted, or `tussle record` says so. Called before the first
/// access; `switch` as in [`change`].
pub fn begin(marked: bool, switch: fn(bool) -> bool) {
    tussle_counting.word.store(map_control(), Relaxed);
    let now = word().map_or(0, |w| w.load(Relaxed));
    tussle_counting.obeyed.store(now, Relaxed);
    // SAFETY: the second word lies beside the first.
    sampling::begin(word().map_or(0, |w| unsafe { *w.as_ptr().add(1) }));
    MARKED.store(marked as u32, Relaxed);
    let why = if marked { OUTSIDE } else { 0 } | if now & 1 != 0 { TOLD } else { 0 };
    // Hooks of a sampled run are changed once.
    match (why != 0 || sampling::sampled()) && !switch(why == 0) {
        true => drop(lost(LOST_SWITCHES, 1)),
        false => tussle_counting.off.store(why, Relaxed),
    }
    describe();
}

/// Writes down what is counted, at the start and in a forked child's file.
pub fn describe() {
    // SAFETY: the file was opened just now; the second word lies beside the first.
    unsafe {
        let h = header();
        (*h).regions_marked = marked() as u32;
        if let Some(word) = word() {
            (*h).told = 1;
            (*h).sample_every = *word.as_ptr().add(1);
        }
    }
}

/// Maps the session's file `control`; 0 if there is none.
fn map_control() -> u64 {
    const PAGE: usize = 4096;
    let mut path = [0u8; 4200];
    // SAFETY: the path ends with a zero; the descriptor is ours.
    unsafe {
        if !session_file(&mut path, b"/control\0") {
            return 0;
        }
        // O_RDONLY | O_CLOEXEC | O_NOFOLLOW
        let fd = call3(SYS_open, path.as_ptr() as usize, 0o2000000 | 0o400000, 0);
        if fd < 0 {
            return 0;
        }
        // PROT_READ, MAP_SHARED
        let at = call(SYS_mmap, 0, PAGE, 1, 1, fd as usize, 0);
        call3(SYS_close, fd as usize, 0, 0);
        at.max(0) as u64
    }
}

/// Accesses that hooks pass over before they tell.
const SKIP: i32 = 4095;

/// Hooks have passed over as many accesses as they may, and the one that is at hand.
///
/// # Safety
/// `t` is the calling thread's, or the state of threads that are not recorded.
#[cold]
pub unsafe fn passed_over(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe {
        (*t).skipped += ((*t).skip_from - (*t).skip) as u64;
        ((*t).skip_from, (*t).skip) = (SKIP, SKIP);
    }
}

/// In a forked child, which has one thread: another one of the parent may have been changing the hooks.
pub fn reset_after_fork(switch: fn(bool) -> bool) {
    CHANGING.reset();
    if tussle_counting.resumed_vt.load(Relaxed) != 0 || !counting() {
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
    let old = tussle_counting.off.load(Relaxed);
    let new = (old | set) & !clear;
    if (old == 0) == (new == 0) {
        return tussle_counting.off.store(new, Relaxed);
    }
    if new == 0 && later {
        // SAFETY: a thread that is inside has a mapped header.
        let vt = unsafe { latest() }.max(sync::settle(entered));
        tussle_counting.resumed_vt.store(vt + SLACK_VT, Relaxed);
    }
    tussle_counting.off.store(new, SeqCst);
    if !switch(new == 0) {
        lost(LOST_SWITCHES, 1);
        tussle_counting.off.store(old, SeqCst);
    }
}

/// True if the calling thread has not counted since the pause, or there is news.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn is_behind(t: *mut Live) -> bool {
    // SAFETY: the caller's promise.
    unsafe { now(t) < tussle_counting.resumed_vt.load(Relaxed) || news() }
}

/// Brings the calling thread over the pause.
#[inline(always)]
pub fn catch_up(entered: &Entered) {
    // SAFETY: the state is the calling thread's.
    if unsafe { now(entered.live()) < tussle_counting.resumed_vt.load(Relaxed) } {
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
    sync::join(entered, tussle_counting.resumed_vt.load(Relaxed));
}
