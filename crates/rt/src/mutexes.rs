//! What the functions of a mutex, or of a rwlock's writers, do to its own words. Who takes a lock changes them when
//! nobody else has it, and gives it back before anybody else can: that happens under it as much as what it protects.
//! Tries in vain and readers fall between.
//!
//! Spin locks are left out: their waiters poll, which is not recorded. They are given back by a store.

use crate::held::{Share, accesses_of, covers};
use crate::lines::{AccessRun, Use};
use crate::wire::LINE;
use crate::words::{Span, Words};
use std::collections::{HashMap, HashSet};

/// glibc's locks: aligned to 8 bytes, what is taken at 0; of a mutex, owner and users at 8. Those of others are what is
/// taken alone, wherever it lies.
const ALIGN: u64 = 8;
const OWNER: u64 = 8;
const END: u64 = 16;

/// Of each word, taking it is one access and giving it back another one. Who compares and exchanges has read it just
/// before: one read for each time, not those of who polls.
const PER_SECTION: f64 = 2.0;
/// What the words have must be at least this share of what so many sections do to them: sections are sampled.
const SEEN_MIN: f64 = 0.8;
/// Spin locks are given back by a store: so many others have at most, as a share of the atomics.
const STORES_MAX: f64 = 0.05;

/// The locks that keep others out.
#[derive(Default)]
pub(crate) struct Mutexes {
    /// How often each thread took each.
    taken: HashMap<(usize, u64), f64>,
    /// Clock of the first time that was seen of each.
    first: HashMap<u64, u64>,
    /// Those that are known by their words.
    words: HashSet<u64>,
}

impl Mutexes {
    /// A thread took a lock so often, from a moment on.
    pub fn add(&mut self, thread: usize, lock: u64, times: f64, from: u64) {
        *self.taken.entry((thread, lock)).or_default() += times;
        let first = self.first.entry(lock).or_insert(from);
        *first = from.min(*first);
    }

    /// A lock is known by the word at its address.
    pub fn is_word(&mut self, lock: u64) {
        self.words.insert(lock);
    }

    /// Which of a thread's accesses to bytes `[lo, hi)` of a line were those of taking and giving back a mutex that
    /// lies there.
    pub fn share(&self, line: u64, (lo, hi): Span, words: &Words, u: &Use) -> Option<Share> {
        let (at, word) = (line + lo, (line + lo) & !(ALIGN - 1));
        let mut near = [(at, true), (word, true), (word.wrapping_sub(OWNER), false)].into_iter();
        near.find_map(|(lock, own)| {
            let taken =
                *self.taken.get(&(u.thread, lock)).filter(|_| line + hi <= lock.saturating_add(END))?;
            (own || lock.is_multiple_of(ALIGN)).then_some(())?;
            let expected = if self.words.contains(&lock) { 0.0 } else { expected(taken) };
            is_one(lock, line, expected, words, &u.runs).then_some(())?;
            (own || has_owner(lock, line, taken, &u.runs)).then_some(())?;
            let kinds = words.kinds((lo, hi));
            let since = |kinds, from| accesses_of(&u.runs, ((lo, hi), kinds), from);
            let (all, late) = (since(kinds, 0), since(kinds, self.first.get(&lock).copied().unwrap_or(0)));
            let reads = since(kinds.only_reads(), 0);
            let count = ((hi - 1) / 8 - lo / 8 + 1) as f64;
            let inside = count * PER_SECTION * taken + reads.min(count * taken);
            let share = if covers(inside, all, late) { 1.0 } else { inside / all };
            let sections = (taken / (share * all)).min(1.0);
            Some(Share { lock, share, sections, storing: sections })
        })
    }
}

/// Whether a lock's word, if it is in the line, is taken and given back by atomics, so many at least.
fn is_one(lock: u64, line: u64, expected: f64, words: &Words, runs: &[AccessRun]) -> bool {
    // Half of the word may be what it protects.
    let own = words.kinds_at(lock.wrapping_sub(line));
    let atomics = sum(runs, |r| &r.rmws, line, lock).map(|n| n * own.rmws);
    let stores = sum(runs, |r| &r.writes, line, lock).map(|n| n * own.writes);
    atomics.zip(stores).is_none_or(|(atomics, stores)| atomics >= expected && stores <= STORES_MAX * atomics)
}

/// Whether there is a word for the owner.
fn has_owner(lock: u64, line: u64, taken: f64, runs: &[AccessRun]) -> bool {
    sum(runs, |r| &r.writes, line, lock + OWNER).is_some_and(|stores| stores >= expected(taken))
}

fn expected(taken: f64) -> f64 {
    SEEN_MIN * PER_SECTION * taken
}

/// Accesses to the word at an address, if it is in the line.
fn sum(runs: &[AccessRun], counts: fn(&AccessRun) -> &[u32; 8], line: u64, at: u64) -> Option<f64> {
    let word = (at & !(LINE - 1) == line).then(|| (at - line) as usize / 8)?;
    Some(runs.iter().map(|r| f64::from(counts(r)[word])).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(atomics: u32, stores: u32, owner: u32) -> AccessRun {
        let (writes, rmws) = ([stores, owner, 0, 0, 0, 0, 0, 0], [atomics, 0, 0, 0, 0, 0, 0, 0]);
        AccessRun { vt0: 0, vt1: 1, reads: [0; 8], writes, rmws }
    }

    fn share_of(mutexes: &Mutexes, r: AccessRun, range: (u64, u64)) -> Option<f64> {
        let u = Use { thread: 3, rmask: 0xff0f, wmask: 0xff0f, runs: vec![r], ..Use::none() };
        mutexes.share(0x40, range, &Words::new(&u), &u).map(|s| s.share)
    }

    fn share(r: AccessRun, range: (u64, u64)) -> Option<f64> {
        let mut mutexes = Mutexes::default();
        mutexes.add(3, 0x40, 100.0, 0);
        share_of(&mutexes, r, range)
    }

    #[test]
    fn who_looks_before_it_takes_a_lock_is_told_from_who_polls() {
        let reads = |n: u32| AccessRun { reads: [n, 0, 0, 0, 0, 0, 0, 0], ..run(200, 0, 200) };
        assert_eq!(share(reads(100), (0, 4)), Some(1.0));
        assert_eq!(share(reads(600), (0, 4)), Some(300.0 / 800.0));
    }

    #[test]
    fn a_mutex_changes_its_words_under_itself() {
        assert_eq!(share(run(200, 0, 200), (0, 4)), Some(1.0));
        assert_eq!(share(run(200, 0, 200), (8, 16)), Some(1.0));
        assert_eq!(share(run(200, 0, 200), (0, 16)), Some(1.0));
        assert_eq!(share(run(200, 0, 200), (16, 24)), None);
    }

    #[test]
    fn a_lock_known_by_its_word_may_be_taken_by_code_that_is_not_recorded() {
        let share = |stores: u32| {
            let mut mutexes = Mutexes::default();
            mutexes.add(3, 0x40, 100.0, 0);
            mutexes.is_word(0x40);
            share_of(&mutexes, run(60, stores, 0), (0, 4))
        };
        assert_eq!(share(0), Some(1.0));
        assert_eq!(share(30), None, "a spin lock");
    }

    #[test]
    fn tries_in_vain_and_readers_are_outside() {
        assert_eq!(share(run(2000, 0, 200), (0, 4)), Some(0.1));
    }

    #[test]
    fn other_locks_are_no_mutex() {
        assert_eq!(share(run(100, 100, 0), (0, 4)), None, "a spin lock");
        assert_eq!(share(run(200, 0, 0), (0, 4)), Some(1.0), "a rwlock's writers");
        assert_eq!(share(run(200, 0, 0), (8, 16)), None, "nobody notes an owner");
        assert_eq!(share(run(20, 0, 20), (0, 4)), None, "taken more often than its words change");
    }
}
