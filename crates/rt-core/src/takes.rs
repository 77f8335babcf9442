//! Words that a thread changes with one instruction and brings back: locks, perhaps. The last few are kept, as under a
//! lock references are counted, say, before it is given back.

use crate::thread::now;
use crate::waits::{How, watch};
use crate::wire::*;

/// Notes that the calling thread brought a word from `from` to `to`: one that it brings back to what it was may be a
/// lock, and is watched from then on.
///
/// # Safety
/// As for [`crate::waits::look`].
#[inline(always)]
pub unsafe fn taken_or_given(t: *mut Live, addr: u64, from: Option<(u64, How)>, to: u64) {
    // SAFETY: the thread's own cell.
    unsafe {
        if crate::arena::forked() {
            return;
        }
        if brings_back(t, addr, from.is_some(), to) {
            watch(addr);
        } else if let Some((from, how)) = from {
            let take = take_of(t, addr).unwrap_or_else(|| {
                (*t).last_take = ((*t).last_take + 1) % TAKES as u64;
                (&raw mut (*t).takes[0]).add((*t).last_take as usize)
            });
            (*t).took = addr;
            let empties = (how == How::Sets && to == 0) as u64;
            *take = Take { word: addr, from, empties, vt: now(t) };
        }
    }
}

/// The word becomes again what it was before the thread changed it. Who set it to 0, whatever was there, and takes it
/// from there with an instruction that reads it, too (`at_once`), had given it back: code that is not instrumented took
/// it then.
///
/// # Safety
/// As for [`crate::waits::look`].
#[inline(always)]
pub unsafe fn brings_back(t: *mut Live, addr: u64, at_once: bool, to: u64) -> bool {
    // SAFETY: the thread's own cells.
    unsafe { take_of(t, addr).is_some_and(|take| (*take).from == to && !(at_once && (*take).empties != 0)) }
}

/// What the thread keeps of its change of a word, if it is one of the last few.
///
/// # Safety
/// As for [`crate::waits::look`].
#[inline(always)]
unsafe fn take_of(t: *mut Live, addr: u64) -> Option<*mut Take> {
    // SAFETY: the thread's own cells, below their number.
    unsafe {
        let at = |k: usize| (&raw mut (*t).takes[0]).add(k % TAKES);
        let last = (*t).last_take as usize;
        (0..TAKES).map(|k| at(last + TAKES - k)).find(|take| (**take).word == addr)
    }
}

/// When the thread changed the word.
///
/// # Safety
/// As for [`crate::waits::look`].
pub(crate) unsafe fn take_vt(t: *mut Live, addr: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { take_of(t, addr).map_or(now(t), |take| (*take).vt) }
}
