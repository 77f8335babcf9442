//! Threads that the kernel lets sleep until a word changes (futexes), where the word is not seen: a library that is not
//! instrumented keeps it, or only its sleepers tell of it. Who is woken goes on as a waiter of a condition does.

use crate::readers;
use crate::sections;
use crate::sync;
use crate::thread::Entered;
use crate::waits;
use core::sync::atomic::Ordering::*;

/// What is known of the sleepers at a word has a slot of its own, that many bytes behind: the word's may be a lock's.
const BEHIND: u64 = 2;

/// The word of a lock: who sleeps there is handed nothing but its turn. Locks of glibc, Go and Rust hold 2 while
/// somebody waits, musl's the highest bit (Rust's parked threads have all).
fn is_of_lock(expected: u64) -> bool {
    let expected = expected as u32;
    expected == 2 || (expected >> 31 == 1 && expected != u32::MAX)
}

/// Whether who sleeps at the word, as long as it is what it expects, may be handed more than a turn. A word at which
/// somebody slept for another value counts something (Rust's conditions do: 0, 1, 2): no lock, whatever it holds.
pub fn hands_on(word: u64, expected: u64) -> bool {
    !is_of_lock(expected) || sync::known(word + BEHIND).is_some()
}

/// The word is a lock: who sleeps there waits for nothing but its turn.
pub(crate) fn takes_turns(word: u64) -> bool {
    sync::known(word).is_some_and(waits::is_lock)
}

/// The calling thread is about to sleep while a word is what it expects; to be told to [`woken`], if anything.
pub fn sleeps(entered: &Entered, word: u64, expected: u64) -> Option<u64> {
    gives_back(entered, word);
    let order = hands_on(word, expected) && !takes_turns(word);
    order.then(|| sync::cond_wait_begin(entered, word + BEHIND))
}

/// It goes on; `came` if another thread woke it.
pub fn woken(entered: &Entered, word: u64, before: u64, came: bool) {
    takes_again(entered);
    sync::cond_wait_end(entered, word + BEHIND, before, came);
}

/// The calling thread is about to wake all who sleep at a word, or one of them.
pub fn wakes(entered: &Entered, word: u64, all: bool) {
    if sync::has_waiters(word + BEHIND) && !takes_turns(word) {
        sync::cond_wake(entered, word + BEHIND, all);
    }
}

/// The calling thread is about to sleep until another word changes. The lock that it took last may have been given back
/// by code that is not seen, and will be taken again before the thread does anything else: so do conditions of Rust's
/// library. If not, the thread has it all the time, which is the same for what it does.
fn gives_back(entered: &Entered, word: u64) {
    // SAFETY: the thread's own cells.
    let lock = unsafe { (*entered.live()).took };
    let known = sync::known(lock).filter(|_| lock != 0 && lock != word);
    let Some(s) = known.filter(|s| waits::holder(s).load(Relaxed) == sync::thread_number(entered)) else {
        return;
    };
    if readers::step(s) != 0 || !waits::may_be_lock(s) {
        return;
    }
    waits::holder(s).store(0, Relaxed);
    // SAFETY: as above.
    unsafe { (*entered.live()).slept_with = lock };
    if waits::is_lock(s) {
        sections::given_up(entered, lock);
        sync::unlocking(entered, lock);
    }
}

/// The thread has the lock with which it slept, and will have it no more.
pub(crate) fn took_again(entered: &Entered, lock: u64) -> bool {
    // SAFETY: the thread's own cell.
    let slept_with = unsafe { &mut (*entered.live()).slept_with };
    let again = *slept_with == lock;
    if again {
        *slept_with = 0;
    }
    again
}

/// It goes on, and has that lock when it comes to do something.
fn takes_again(entered: &Entered) {
    // SAFETY: the thread's own cells.
    let lock = unsafe { (*entered.live()).slept_with };
    if lock != 0 && sync::known(lock).is_some_and(waits::is_lock) {
        sync::locked_by_try(entered, lock);
    }
}
