//! Long sections under a word that has not yet proven itself a lock. Nothing says then that they hold anything; so who
//! takes the word later goes on behind them, in another window, and a thread that comes late seems to do nothing at
//! the same time.

use crate::sync::{self, HOLD_MIN, Slot};
use crate::thread::{Entered, now, round};
use crate::waits::LOCKED_MIN;
use core::sync::atomic::Ordering::*;

/// Such sections of a word that are put in order: a lock proves itself within these, and a word that never does orders
/// nothing from then on.
const EARLY_MAX: u64 = 2 * LOCKED_MIN;

/// The calling thread is about to bring a word back, which is no lock so far; it took it at `since`. Short sections
/// order nothing, as short holds of a lock do not: what meets them is as short.
pub(crate) fn ends(entered: &Entered, s: &'static Slot, since: u64) {
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
