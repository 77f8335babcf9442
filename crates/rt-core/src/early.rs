//! Sections under a word that has not yet proven itself a lock. Nothing says then that they hold anything. Who takes
//! the word after a long one goes on behind it, in another window, so that a thread that comes late seems to do nothing
//! at the same time. Once the word is a lock they count as its sections, see [`proven`].

use crate::locks;
use crate::sections;
use crate::sleepers;
use crate::sync::{self, HOLD_MIN, Slot};
use crate::thread::{Entered, now, round};
use crate::waits::{self, LOCKED_MIN};
use crate::wire::*;
use core::sync::atomic::Ordering::*;

/// Such sections of a word that are put in order: a lock proves itself within these, and a word that never does orders
/// nothing from then on.
const EARLY_MAX: u64 = 2 * LOCKED_MIN;

/// The calling thread is about to bring a word back, which is no lock so far; it took it at `since`. Short sections
/// order nothing, as short holds of a lock do not: what meets them is as short.
pub(crate) fn ends(entered: &Entered, s: &'static Slot, since: u64) {
    let key = s.addr.load(Relaxed);
    // SAFETY: the thread's own cells.
    unsafe {
        let cell = cell(entered.live(), key);
        let so_far = if (*cell)[0] == key { (*cell)[1] } else { 0 };
        *cell = [key, so_far + 1];
    }
    if s.earlier.fetch_add(1, Relaxed) < EARLY_MAX {
        let vt = sync::settle(entered);
        if vt.saturating_sub(since) >= HOLD_MIN {
            s.early.fetch_max(vt, AcqRel);
        }
    }
}

/// The calling thread has taken a word, which may be a lock. All who do so go on in the same window.
pub(crate) fn after(entered: &Entered, s: &'static Slot) {
    let behind = round(s.early.load(Acquire));
    // SAFETY: the state is the calling thread's, which is inside the recorder.
    if unsafe { now(entered.live()) } < behind {
        sync::join(entered, behind);
    }
}

/// The thread's cell for a word: the key of its slot, and how many of its sections the thread ended while nobody knew
/// that it is a lock. What `guards` takes it for has a slot, and so sections, of its own: one may be proven without the
/// other.
///
/// # Safety
/// `t` is the calling thread's.
unsafe fn cell(t: *mut Live, key: u64) -> *mut [u64; 2] {
    // SAFETY: below their number.
    unsafe { (&raw mut (*t).early[0]).add((key >> 2) as usize % LOOKS) }
}

/// A word, whose slot this is, is a lock by now, and the calling thread holds none: its earlier sections were the
/// lock's, too.
pub(crate) fn proven(entered: &Entered, s: &'static Slot, word: u64) {
    let key = s.addr.load(Relaxed);
    // SAFETY: the thread's own cells.
    unsafe {
        let cell = cell(entered.live(), key);
        if (*cell)[0] == key && (*cell)[1] != 0 {
            sections::unseen(entered.live(), word, false, (*cell)[1]);
            (*cell)[1] = 0;
        }
    }
}

/// The same at the thread's end, of all words that are locks by now. What those protected that are none after all is
/// forgotten. The thread's state may become another thread's.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub(crate) unsafe fn end(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe {
        for k in 0..LOOKS {
            let [key, ended] = core::mem::take(&mut *(&raw mut (*t).early[0]).add(k));
            if let Some(s) = sync::known(key).filter(|s| ended != 0 && seems_lock(s)) {
                sections::unseen(t, waits::word_of(s), false, ended);
            }
        }
        locks::drop_of(t, was_refuted);
    }
}

/// The word is a lock, or one more time would have proven it one: it was given back while it was watched, which is so
/// since it was given back before.
fn seems_lock(s: &'static Slot) -> bool {
    waits::may_be_lock(s) && waits::releases(s).load(Relaxed) != 0
}

/// The word was taken for a lock, and was none; nor is it one of another kind.
fn was_refuted(addr: u64) -> bool {
    let is_none = |s: &'static Slot| !waits::may_be_lock(s) && waits::releases(s).load(Relaxed) >= LOCKED_MIN;
    sync::known(addr).is_some_and(is_none) && !sleepers::takes_turns(addr + 1)
}
