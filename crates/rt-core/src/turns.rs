//! Words by which threads take turns: each change is made by who waited at the word and saw the change before it. At a
//! barrier that counts, who came last has waited for nothing.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Words of which it is known, by a hash of the address.
const WORDS: usize = 64;

/// Changes in a row, each by who waited and saw the one before it, that make turns, and more than there are threads.
const TURNS_MIN: u64 = 4;

struct Word {
    addr: AtomicU64,
    /// Changes so far, and how many of the last ones were turns.
    changes: AtomicU64,
    turns: AtomicU64,
}

static TABLE: [Word; WORDS] =
    [const { Word { addr: AtomicU64::new(0), changes: AtomicU64::new(0), turns: AtomicU64::new(0) } }; WORDS];

fn word(addr: u64) -> &'static Word {
    // SAFETY: below their number.
    unsafe { TABLE.get_unchecked((addr >> 2 ^ addr >> 8) as usize % WORDS) }
}

/// Number of the latest change of the word at an address.
pub(crate) fn latest(addr: u64) -> u64 {
    let w = word(addr);
    if w.addr.load(Relaxed) == addr { w.changes.load(Relaxed) } else { 0 }
}

/// The word is about to change, by who waited there and saw its change of number `saw` (0 if it did not wait). Whether
/// that is a turn as those before it were, more than there are `threads`.
pub(crate) fn changes(addr: u64, saw: u64, threads: impl Fn() -> u64) -> bool {
    let w = word(addr);
    if w.addr.load(Relaxed) != addr {
        w.addr.store(addr, Relaxed);
        w.changes.store(0, Relaxed);
        w.turns.store(0, Relaxed);
    }
    let before = w.changes.fetch_add(1, Relaxed);
    let turns = if saw != 0 && saw == before { w.turns.load(Relaxed) + 1 } else { 0 };
    w.turns.store(turns, Relaxed);
    turns > TURNS_MIN && turns > threads()
}
