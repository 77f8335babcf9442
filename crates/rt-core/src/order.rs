//! What a thread did with a line that others know to be over. Whatever goes from thread to thread is given away by
//! something that orders what came before it (an unlock, an atomic store of order *release*, a message), and taken by
//! something that orders what comes after: so who comes to a line that another one used, and has learned since that
//! this one went on to something else, has the line by turns, however the scheduler ran the two.
//!
//! A thread's *steps* count how often it gave away what it had used. At every word by which it does so it leaves its
//! number of steps; who looks at the word learns that number, and what that thread knows of others. Both are as happens
//! before in vector clocks (Lamport, CACM 1978; FastTrack, PLDI 2009), but for two things: a word keeps the latest one
//! only, who passes on what was left there before; and what a thread learns of others by way of one is what that one
//! passes on now.

use crate::mem::hash;
use crate::wire::*;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Words and lines of which the latest thread is known at the same time.
const PLACES: usize = 1 << 13;

/// Steps that are told apart.
const STEPS_MAX: u32 = (1 << 24) - 1;

static WORDS: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
static LINES: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

/// The threads, by index: where their states are.
static THREADS: [AtomicU64; KNOWN] = [const { AtomicU64::new(0) }; KNOWN];

/// Some thread watches lines that others use. Nothing is noted before.
static WATCHING: AtomicU32 = AtomicU32::new(0);

/// Whoever tells of atomic operations tells what they order, too.
static TOLD: AtomicU32 = AtomicU32::new(0);

/// Number of a thread of which nothing is noted: there are more than [`KNOWN`].
const NONE: u32 = KNOWN as u32;

/// How a thread came to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Came {
    /// Nothing is known of who used it last.
    Unknown = 0,
    /// The thread itself did.
    Again = 1,
    /// Another one did, and had gone on to something else.
    Behind = 2,
    /// Another one did, and nothing says that it is done.
    Beside = 3,
}

/// A place's hash, a thread's number from 1, and its steps.
fn mark(place: u64, number: u32, steps: u32) -> u64 {
    tag(place) | (number as u64 + 1) << 24 | steps as u64
}

/// Bits of the hash beside those that choose the cell.
fn tag(place: u64) -> u64 {
    (hash(place, 64) as u64) << PLACES.ilog2() & 0xffff_ffff_0000_0000
}

fn cell(of: &'static [AtomicU64; PLACES], place: u64) -> &'static AtomicU64 {
    // SAFETY: as many bits as there are places.
    unsafe { of.get_unchecked(hash(place, PLACES.ilog2())) }
}

/// The thread and its steps in a mark of this place, if it is one.
fn read(mark: u64, place: u64) -> Option<(u32, u32)> {
    let number = ((mark >> 24) as u32 & 0xff).wrapping_sub(1);
    (number < NONE && (mark ^ tag(place)) >> 32 == 0).then_some((number, mark as u32 & STEPS_MAX))
}

/// In a forked child, which has one thread.
pub(crate) fn reset_after_fork() {
    THREADS.iter().for_each(|cell| cell.store(0, Relaxed));
    if WATCHING.swap(0, Relaxed) != 0 {
        WORDS.iter().chain(&LINES).for_each(|cell| cell.store(0, Relaxed));
    }
}

/// Some thread watches lines.
#[inline(always)]
pub fn watching() -> bool {
    WATCHING.load(Relaxed) != 0
}

/// From now on some thread does.
pub(crate) fn watch() {
    if TOLD.load(Relaxed) != 0 && !watching() {
        WATCHING.store(1, Relaxed);
    }
}

/// Atomic operations are told with what they order, by `company::releases` and its like. An emulator sees instructions,
/// of which any store may hand something on: nothing is noted there.
pub fn is_told() {
    if TOLD.load(Relaxed) == 0 {
        TOLD.store(1, Relaxed);
    }
}

/// A thread begins, with the state at `t`.
///
/// # Safety
/// `t` is the calling thread's, whose description is filled.
pub(crate) unsafe fn begins(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe {
        let index = (*((*t).info_at as *const ThreadInfo)).index;
        (*t).order.number = index.min(NONE);
        ((*t).order.steps, (*t).order.has_news, (*t).order.passes_more, (*t).order.fenced) = (1, 0, 0, 0);
        ((*t).order.known, (*t).order.passed) = ([0; KNOWN], [0; KNOWN]);
        if let Some(cell) = THREADS.get(index as usize) {
            cell.store(t as u64, Release);
        }
    }
}

/// The calling thread is about to change a word, or something else that has this number, by which it may give away what
/// it has used so far: one step, if it used something since the one before, or has more to pass on. It goes on behind
/// who was there before if it `takes` as well.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub(crate) unsafe fn gives(t: *mut Live, place: u64, takes: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*t).order.number == NONE {
            return;
        }
        let cell = cell(&WORDS, place);
        let latest = cell.load(Acquire);
        learn(t, latest, place, takes);
        (*t).order.steps = ((*t).order.steps + core::mem::take(&mut (*t).order.has_news)).min(STEPS_MAX);
        let own = mark(place, (*t).order.number, (*t).order.steps);
        if latest != own {
            // Who came in between is not to be overlooked.
            learn(t, cell.swap(own, AcqRel), place, takes);
        }
    }
}

/// There is more to be known at a place than what the thread itself left there.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub(crate) unsafe fn has_to_give(t: *mut Live, place: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        (*t).order.has_news != 0
            || cell(&WORDS, place).load(Relaxed) != mark(place, (*t).order.number, (*t).order.steps)
    }
}

/// Something may be learned from what was left at a place.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub(crate) unsafe fn is_news(t: *mut Live, place: u64) -> bool {
    // SAFETY: the caller's promise; known threads have numbers below KNOWN.
    unsafe {
        let Some((number, steps)) = read(cell(&WORDS, place).load(Relaxed), place) else { return false };
        match number == (*t).order.number {
            true => (*t).order.passes_more != 0,
            false => (*t).order.known[number as usize] < steps,
        }
    }
}

/// The calling thread has looked at a word, or taken what was sent.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub(crate) unsafe fn takes(t: *mut Live, place: u64) {
    // SAFETY: the caller's promise.
    unsafe { learn(t, cell(&WORDS, place).load(Acquire), place, true) }
}

/// From a mark the thread has something to pass on, and, if it goes on behind it, knows it.
///
/// # Safety
/// As [`takes`].
unsafe fn learn(t: *mut Live, mark: u64, place: u64, knows: bool) {
    // SAFETY: states stay in the mapping, and what they pass on are numbers; threads have numbers below KNOWN.
    unsafe {
        let Some((number, steps)) = read(mark, place) else { return };
        if number == (*t).order.number && knows && (*t).order.passes_more != 0 {
            // What it found there when it left its own it passes on, and is behind it now.
            (*t).order.known = (*t).order.passed;
            (*t).order.passes_more = 0;
        }
        let so_far =
            if knows { (*t).order.known[number as usize] } else { (*t).order.passed[number as usize] };
        if number == (*t).order.number || so_far >= steps {
            return;
        }
        let raise = |k: usize, steps: u32| {
            raise((&raw mut (*t).order.passed[0]).add(k), steps);
            if knows {
                raise((&raw mut (*t).order.known[0]).add(k), steps);
            }
        };
        let other = THREADS[number as usize].load(Acquire) as *mut Live;
        if !other.is_null() {
            for k in (0..KNOWN).take_while(|&k| THREADS[k].load(Relaxed) != 0) {
                raise(k, AtomicU32::from_ptr((&raw mut (*other).order.passed[0]).add(k)).load(Relaxed));
            }
        }
        raise(number as usize, steps);
        (*t).order.has_news = 1;
        (*t).order.passes_more |= !knows as u32;
    }
}

/// # Safety
/// `steps` are the calling thread's, which others read.
unsafe fn raise(own: *mut u32, steps: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        let own = AtomicU32::from_ptr(own);
        if own.load(Relaxed) < steps {
            own.store(steps, Relaxed);
        }
    }
}

/// The latest long use of a line, as a number that changes with each.
pub(crate) fn latest(line: u64) -> u64 {
    cell(&LINES, line).load(Acquire)
}

/// That is a use of this line, not of another one with its place in the table.
pub(crate) fn is_of(latest: u64, line: u64) -> bool {
    read(latest, line).is_some()
}

/// The latest long use of a line was another thread's.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub(crate) unsafe fn is_others(t: *mut Live, line: u64) -> bool {
    // SAFETY: the caller's promise.
    read(cell(&LINES, line).load(Relaxed), line)
        .is_some_and(|(number, _)| number != unsafe { (*t).order.number })
}

/// How the thread comes to a line whose latest use that is.
///
/// # Safety
/// `t` is the calling thread's.
pub(crate) unsafe fn comes(t: *mut Live, line: u64, latest: u64) -> Came {
    // SAFETY: the caller's promise; known threads have numbers below KNOWN.
    unsafe {
        match read(latest, line) {
            None => Came::Unknown,
            Some((number, _)) if number == (*t).order.number => Came::Again,
            // It counts no further.
            Some((_, STEPS_MAX)) => Came::Unknown,
            Some((number, steps)) => match (*t).order.known[number as usize] {
                // They were never seen to give each other anything.
                0 => Came::Unknown,
                known if known > steps => Came::Behind,
                _ => Came::Beside,
            },
        }
    }
}

/// How the thread came to a line, now that it is seen to use it for the first time; that one had it before.
///
/// # Safety
/// `t` is the calling thread's.
pub(crate) unsafe fn came(t: *mut Live, line: u64, before: u32) -> Came {
    // SAFETY: the caller's promise; states stay in the mapping, and those that run have numbers below KNOWN.
    unsafe {
        let latest = latest(line);
        let Some((number, _)) = read(latest, line).filter(|r| r.0 == before) else { return Came::Unknown };
        let other = THREADS[number as usize].load(Acquire) as *mut Live;
        let is_back = !other.is_null() && stays(other, line);
        match comes(t, line, latest) {
            Came::Behind if is_back => Came::Beside,
            came => came,
        }
    }
}

/// Another thread is at a line, as far as it is seen.
///
/// # Safety
/// `other` is a thread's state.
unsafe fn stays(other: *mut Live, line: u64) -> bool {
    // SAFETY: the caller's promise; what the other one changes meanwhile are numbers.
    unsafe {
        let count = AtomicU32::from_ptr(&raw mut (*other).stays_count).load(Relaxed) as usize;
        let stay = |k: usize| AtomicU64::from_ptr(&raw mut (*other).stays[k].line).load(Relaxed);
        (0..count.min(STAYS)).any(|k| stay(k) == line)
    }
}

/// The thread's long use of a line is over with its next step.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub(crate) unsafe fn used(t: *mut Live, line: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*t).order.number != NONE {
            (*t).order.has_news = 1;
            cell(&LINES, line).store(mark(line, (*t).order.number, (*t).order.steps), Release);
        }
    }
}

/// A line is nobody's now.
pub(crate) fn forget(line: u64) {
    let cell = cell(&LINES, line);
    if read(cell.load(Relaxed), line).is_some() {
        cell.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_places_threads_and_steps() {
        for (place, number, steps) in [(0x1000, 0, 1), (0x7fff_ffff_ffc0, 127, STEPS_MAX), (64, 5, 77)] {
            assert_eq!(read(mark(place, number, steps), place), Some((number, steps)));
            assert_eq!(read(mark(place, number, steps), place + 64), None);
        }
        assert_eq!(read(0, 0x1000), None);
    }
}
