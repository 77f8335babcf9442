//! Locks that several readers hold together, each of whom changes the word by as much.

use crate::sections;
use crate::sync::Slot;
use crate::thread::Entered;
use crate::waits::{How, LOCKED_MIN, holder, is_free, is_lock, releases, starts_anew, taken_to, unmarked};
use crate::wire::{Came, Live};
use core::sync::atomic::Ordering::Relaxed;

/// In a slot's `second`: its lock has no readers that are counted.
pub(crate) const NEVER: u64 = u64::MAX;

/// By how much each reader changes the word; 0 if none is known.
pub(crate) fn step(s: &'static Slot) -> u64 {
    s.kind.load(Relaxed)
}

/// A second thread changes a word that another one took, by as much: perhaps they are readers.
pub(crate) fn joined(s: &'static Slot, from: u64, by: u64, me: u64) -> bool {
    let others = ![0, me].contains(&holder(s).load(Relaxed));
    let as_much = from == taken_to(s) && by == from.wrapping_sub(s.free.load(Relaxed));
    step(s) == 0 && others && as_much
}

/// Two threads changed a word by as much, and one of them takes that back while the other one's change stays: they are
/// readers, who are counted from then on. A mutex whose waiters mark it is freed at once.
pub(crate) fn leave_with_others(s: &'static Slot, from: Option<u64>, to: u64) {
    let second = s.second.load(Relaxed);
    let taken_to = taken_to(s);
    let leaves = to == taken_to && from == Some(taken_to.wrapping_add(second));
    if ![0, NEVER].contains(&second) && step(s) == 0 && leaves {
        s.kind.store(second, Relaxed);
        holder(s).store(0, Relaxed);
    }
}

/// A reader leaves what was held to be free: it was in all the time while the first ones seen came and went.
pub(crate) fn was_read(s: &'static Slot, (from, to): (u64, u64), how: How) -> bool {
    let free = s.free.load(Relaxed);
    let by = match step(s) {
        0 if holder(s).load(Relaxed) != 0 => 0,
        0 => taken_to(s).wrapping_sub(free),
        known => known,
    };
    how == How::Counts && from == free && (1..=free).contains(&by) && to == free - by
}

/// Who brings the word from this value to what it is when it is free leaves as the last one of several readers.
pub(crate) fn is_last(s: &'static Slot, from: Option<u64>) -> bool {
    let one = s.free.load(Relaxed).wrapping_add(step(s));
    step(s) != 0 && from.is_some_and(|from| unmarked(s, from) == unmarked(s, one))
}

/// Who seemed to be the first of two readers to leave sets the word free with a plain store: it has been the only one.
/// So does a mutex that is counted down before it is set free for who waits.
pub(crate) fn are_not_counted(s: &'static Slot) {
    s.kind.store(0, Relaxed);
    s.second.store(NEVER, Relaxed);
}

/// Who took the word last did so as readers do; a writer, who sets it free with a plain store, changes it otherwise.
pub(crate) fn came_as_one(s: &'static Slot) -> bool {
    taken_to(s) == s.free.load(Relaxed).wrapping_add(step(s))
}

/// The calling thread has changed a watched word with one instruction: whether that shows that what is known of it was
/// wrong. Readers compare when they come in, so that no writer is, and count down by as much when they leave.
pub(crate) fn learned(entered: &Entered, s: &'static Slot, addr: u64, change: (u64, u64), how: How) -> bool {
    // SAFETY: the state is the calling thread's, which is inside the recorder.
    let Some((by, together)) = (unsafe { news(entered.live(), s, addr, change, how) }) else { return false };
    sections::given_up(entered, addr);
    let free = change.1 % by;
    starts_anew(s, free, free.wrapping_add(by));
    // Nor is it to be learned again from what comes first.
    releases(s).store(if together { LOCKED_MIN } else { 1 }, Relaxed);
    if together {
        s.kind.store(by, Relaxed);
    }
    true
}

/// By how much each reader changes the word, and whether others were in meanwhile; `None` where nothing is new.
///
/// # Safety
/// `t` is the calling thread's.
unsafe fn news(
    t: *mut Live,
    s: &'static Slot,
    addr: u64,
    (from, to): (u64, u64),
    how: How,
) -> Option<(u64, bool)> {
    // SAFETY: the thread's own cells.
    let came = unsafe { &mut (*t).came };
    let before = core::mem::replace(came, Came { word: 0, from: 0, to: 0 });
    if how == How::Compares && to > from {
        *came = Came { word: addr, from, to };
        return None;
    }
    let by = before.to.wrapping_sub(before.from);
    if how != How::Counts || before.word != addr || from.wrapping_sub(to) != by {
        return None;
    }
    let others_left = before.to > from && (before.to - from).is_multiple_of(by);
    let others_were_in = before.from >= by && before.from.is_multiple_of(by) && !is_free_lock(s, before.from);
    let together = (others_left || others_were_in) && s.second.load(Relaxed) != NEVER;
    ((together && step(s) != by) || is_free(s, from)).then_some((by, together))
}

/// It is a lock that is free with this value.
fn is_free_lock(s: &'static Slot, value: u64) -> bool {
    is_lock(s) && is_free(s, value)
}
