//! What a thread has done lately, by its table and its looks: others ask, too. What they see may be a moment old.

use crate::record::index;
use crate::thread::now;
use crate::waits;
use crate::wire::*;
use core::ops::Range;
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering::*};

/// A thread that did no more than this does nothing to speak of: a loop's counter, what its turn is.
pub(crate) const IDLE_MAX: u64 = 16;
/// Lines that one may have touched that does nothing.
pub(crate) const IDLE_LINES_MAX: u32 = 8;
/// Lines of a thread's table that are looked through at most.
pub(crate) const LINES_MAX: u32 = 48;
/// Accesses that belong to each look at what it waits for: where that lies is kept on the thread's own stack, or in a
/// closure on the heap that refers to its creator's variables, and unoptimised code keeps all on the stack.
const PER_LOOK: u64 = 8;

/// The thread's clock as if its table were empty, nearly: of a full one it is what was flushed.
///
/// # Safety
/// `t` is the calling thread's.
pub(crate) unsafe fn count(t: *mut Live) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { now(t) + in_table(t, IDLE_LINES_MAX, &|_| What::All).unwrap_or(0) }
}

/// The same, 0 if the table holds too many lines to say.
///
/// # Safety
/// `t` is the calling thread's.
pub(crate) unsafe fn count_of_many(t: *mut Live) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { in_table(t, LINES_MAX, &|_| What::All).map_or(0, |n| now(t) + n) }
}

/// The thread has done nothing but look, lately at `addr`, since its table was emptied last, which all do that begin to
/// wait or change something, or no more than so many accesses of so many lines. What goes with the looks is none: what
/// lies on its own stack, and reads of what thread `by`, which asks, has not changed.
pub(crate) fn is_idle(live: *mut Live, addr: u64, by: *mut Live, (most, lines): (u64, u32)) -> bool {
    // SAFETY: states stay in the mapping; what is read there are numbers, old ones at worst.
    unsafe {
        let beside = |line: u64| if polls(live, line) { What::Stores } else { What::All };
        let works = |line: u64| match beside(line) {
            What::All if is_of_stack(live, line) => What::Nothing,
            What::All if !changes(by, line) => What::Changes,
            what => what,
        };
        let Some(all) = in_table(live, lines, &beside) else { return false };
        all <= most
            || (all <= most + PER_LOOK * waits::times_again(live, addr)
                && in_table(live, lines, &works).is_some_and(|n| n <= most))
    }
}

/// The thread's table holds stores to the line.
///
/// # Safety
/// `t` is a thread's state.
unsafe fn changes(t: *mut Live, line: u64) -> bool {
    // SAFETY: the caller's promise; indices are below ENTRIES.
    unsafe {
        let i = index(line);
        key(t, i) == line && stores(t, i) + atomics(t, i) != 0
    }
}

/// The line lies on the thread's own stack.
///
/// # Safety
/// `t` is a thread's state.
unsafe fn is_of_stack(t: *mut Live, line: u64) -> bool {
    // SAFETY: states and what describes threads stay in the mapping; the stack is noted when the thread begins.
    unsafe {
        let info = (*t).info_at as *const ThreadInfo;
        ((*info).stack_lo..(*info).stack_hi).contains(&line)
    }
}

/// One of the words that the thread looked at lies in the line.
///
/// # Safety
/// `t` is a thread's state.
pub(crate) unsafe fn polls(t: *mut Live, line: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { any_look(t, |addr| addr & !(LINE - 1) == line) }
}

/// One of the words that the thread looked at is this one.
pub(crate) fn looks_at(live: *mut Live, addr: u64) -> bool {
    // SAFETY: states stay in the mapping.
    unsafe { any_look(live, |looked| looked == addr) }
}

/// # Safety
/// `t` is a thread's state.
unsafe fn any_look(t: *mut Live, wanted: impl Fn(u64) -> bool) -> bool {
    // SAFETY: states stay in the mapping; there are LOOKS looks.
    unsafe {
        let looks = (&raw mut (*t).looks).cast::<Look>();
        (0..LOOKS).any(|k| wanted(AtomicU64::from_ptr(&raw mut (*looks.add(k)).addr).load(Relaxed)))
    }
}

/// What of a line's accesses counts.
pub(crate) enum What {
    All,
    Changes,
    /// Without those that read what they change.
    Stores,
    Nothing,
}

/// Accesses that a thread's table holds, those that count of each line; `None` if it has touched more than `most`
/// lines, too many to say.
///
/// # Safety
/// `t` is a thread's state.
pub(crate) unsafe fn in_table(t: *mut Live, most: u32, what: &dyn Fn(u64) -> What) -> Option<u64> {
    let (mut lines, mut sum) = (0, 0);
    // SAFETY: states stay in the mapping; entries' indices are below ENTRIES, counters' below 16.
    unsafe {
        for g in 0..ENTRIES / 64 {
            let mut bits = AtomicU64::from_ptr((&raw mut (*t).used[0]).add(g)).load(Relaxed);
            lines += bits.count_ones();
            if lines > most {
                return None;
            }
            while bits != 0 {
                let i = g * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                sum += in_entry(t, i, what);
            }
        }
    }
    Some(sum)
}

/// # Safety
/// `t` is a thread's state, `i` is below ENTRIES.
unsafe fn in_entry(t: *mut Live, i: usize, what: &dyn Fn(u64) -> What) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        match what(key(t, i)) {
            What::All => plain(t, i, 0..8) + stores(t, i) + atomics(t, i),
            What::Changes => stores(t, i) + atomics(t, i),
            What::Stores => stores(t, i),
            What::Nothing => 0,
        }
    }
}

/// Accesses of a line that a thread's table holds.
///
/// # Safety
/// `t` is a thread's state.
pub(crate) unsafe fn in_line(t: *mut Live, line: u64) -> u64 {
    let i = index(line);
    // SAFETY: the caller's promise; indices are below ENTRIES.
    unsafe { if key(t, i) == line { in_entry(t, i, &|_| What::All) } else { 0 } }
}

/// The line of an entry, 0 if it is empty.
///
/// # Safety
/// As [`in_entry`].
unsafe fn key(t: *mut Live, i: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let e = (&raw mut (*t).entries[0]).add(i);
        AtomicU64::from_ptr(&raw mut (*e).key).load(Relaxed) & !HIDDEN
    }
}

/// Plain stores that an entry counts.
///
/// # Safety
/// As [`in_entry`].
unsafe fn stores(t: *mut Live, i: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { plain(t, i, 8..16) }
}

/// # Safety
/// As [`in_entry`]; an entry has 16 counters.
unsafe fn plain(t: *mut Live, i: usize, counters: Range<usize>) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let e = (&raw mut (*t).entries[0]).add(i);
        counters.map(|k| number((&raw mut (*e).cnt[0]).add(k)).saturating_sub(COUNT_START) as u64).sum()
    }
}

/// Read-modify-writes of an entry.
///
/// # Safety
/// As [`in_entry`]; there are 8 counters beside an entry.
unsafe fn atomics(t: *mut Live, i: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { (0..8).map(|k| number((&raw mut (*t).rmw[0][0]).add(i * 8 + k)) as u64).sum() }
}

/// # Safety
/// `counter` is one of a thread's state, which only that thread changes.
unsafe fn number(counter: *mut u16) -> u16 {
    // SAFETY: the caller's promise.
    unsafe { AtomicU16::from_ptr(counter).load(Relaxed) }
}

/// So many reads of a line as fill a counter go with so many looks.
///
/// # Safety
/// `t` is the calling thread's.
pub(crate) unsafe fn reads_while_looking(t: *mut Live, at: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { PER_LOOK * waits::times_again(t, at) >= COUNT_SPAN as u64 }
}
