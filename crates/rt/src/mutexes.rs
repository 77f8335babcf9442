//! What the functions of a mutex, or of a rwlock's writers, do to its own words. Who takes a lock changes them when
//! nobody else has it, and gives it back before anybody else can: that happens under it as much as what it protects.
//! Tries in vain and readers fall between.
//!
//! Spin locks are left out: their waiters poll, which is not recorded. They are given back by a store.

use crate::held::{ALL_SHARE_MIN, Share, accesses_of};
use crate::lines::AccessRun;
use crate::wire::LINE;
use std::collections::HashMap;

/// glibc's locks: aligned to 8 bytes, what is taken at 0; of a mutex, owner and users at 8.
const ALIGN: u64 = 8;
const OWNER: u64 = 8;
const END: u64 = 16;

/// Of each word, taking it is one access and giving it back another one.
const PER_SECTION: f64 = 2.0;
/// What the words have must be at least this share of what so many sections do to them: sections are sampled.
const SEEN_MIN: f64 = 0.8;
/// Spin locks are given back by a store: so many others have at most, as a share of the atomics.
const STORES_MAX: f64 = 0.05;

/// How often each thread took each lock that keeps others out.
#[derive(Default)]
pub(crate) struct Mutexes(HashMap<(usize, u64), f64>);

impl Mutexes {
    /// A thread took a lock so often.
    pub fn add(&mut self, thread: usize, lock: u64, times: f64) {
        if lock.is_multiple_of(ALIGN) {
            *self.0.entry((thread, lock)).or_default() += times;
        }
    }

    /// Which of a thread's accesses to bytes `[lo, hi)` of a line were those of taking and giving back a mutex that
    /// lies there.
    pub fn share(&self, line: u64, (lo, hi): (u64, u64), thread: usize, runs: &[AccessRun]) -> Option<Share> {
        let word = (line + lo) & !(ALIGN - 1);
        let mut near =
            [word, word.wrapping_sub(OWNER)].into_iter().filter(|m| line + hi <= m.saturating_add(END));
        near.find_map(|lock| {
            let taken = *self.0.get(&(thread, lock))?;
            is_one(lock, line, taken, runs).then_some(())?;
            (word == lock || has_owner(lock, line, taken, runs)).then_some(())?;
            let all = accesses_of(runs, (lo, hi), 0);
            let words = ((hi - 1) / 8 - lo / 8 + 1) as f64;
            let share = (words * PER_SECTION * taken / all).min(1.0);
            let share = if share >= ALL_SHARE_MIN { 1.0 } else { share };
            let sections = (taken / (share * all)).min(1.0);
            Some(Share { lock, share, sections, storing: sections })
        })
    }
}

/// Whether a lock's word, if it is in the line, is taken and given back by atomics.
fn is_one(lock: u64, line: u64, taken: f64, runs: &[AccessRun]) -> bool {
    let atomics = sum(runs, |r| &r.rmws, line, lock);
    let stores = sum(runs, |r| &r.writes, line, lock);
    atomics
        .zip(stores)
        .is_none_or(|(atomics, stores)| atomics >= expected(taken) && stores <= STORES_MAX * atomics)
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

    fn share(r: AccessRun, range: (u64, u64)) -> Option<f64> {
        let mut mutexes = Mutexes::default();
        mutexes.add(3, 0x40, 100.0);
        mutexes.share(0x40, range, 3, &[r]).map(|s| s.share)
    }

    #[test]
    fn a_mutex_changes_its_words_under_itself() {
        assert_eq!(share(run(200, 0, 200), (0, 4)), Some(1.0));
        assert_eq!(share(run(200, 0, 200), (8, 16)), Some(1.0));
        assert_eq!(share(run(200, 0, 200), (0, 16)), Some(1.0));
        assert_eq!(share(run(200, 0, 200), (16, 24)), None);
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
