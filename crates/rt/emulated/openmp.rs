//! OpenMP as gcc's library does it, by the functions that compiled code calls: critical sections, parts that are done
//! in order, locks, and barriers of a team. The library's own words are not looked at meanwhile.

use crate::cpu::Cpu;
use core::sync::atomic::{AtomicU64, Ordering::*};
use tussle_rt_core::sync;
use tussle_rt_core::thread::Entered;

#[allow(dead_code)]
mod kinds {
    include!("kinds.rs");
}
use kinds::*;

/// Their addresses stand for the unnamed critical section, for parts that are done in order, and for the team's
/// barrier.
static UNNAMED: AtomicU64 = AtomicU64::new(0);
static IN_ORDER: AtomicU64 = AtomicU64::new(0);
static TEAM: AtomicU64 = AtomicU64::new(0);

/// Parallel regions begun so far, and those that are open: more than one if they are nested.
static REGIONS: AtomicU64 = AtomicU64::new(0);
static OPEN: AtomicU64 = AtomicU64::new(0);

/// The lock that a function of this kind takes.
pub fn taken(kind: u32, argument: u64) -> Option<u64> {
    match kind {
        OMP_CRITICAL => Some(&raw const UNNAMED as u64),
        OMP_ORDERED => Some(&raw const IN_ORDER as u64),
        OMP_LOCK => Some(argument),
        _ => None,
    }
}

/// The lock that it gives.
pub fn given(kind: u32, argument: u64) -> Option<u64> {
    let takes = match kind {
        OMP_CRITICAL_END => OMP_CRITICAL,
        OMP_ORDERED_END => OMP_ORDERED,
        OMP_UNLOCK => OMP_LOCK,
        _ => return None,
    };
    taken(takes, argument)
}

/// A team begins.
pub fn opens() {
    if OPEN.fetch_add(1, AcqRel) == 0 {
        REGIONS.fetch_add(1, AcqRel);
    }
}

/// It has ended.
pub fn closes() {
    OPEN.fetch_sub(1, AcqRel);
}

/// The thread comes to a barrier of its team: the barrier's number, or nothing where teams are nested and several may
/// wait at once. Nobody says here how many threads a team has. But all of them come to the same barriers, one after the
/// other (OpenMP 5.2, 15.3): a thread's own count of them since the region began is the number.
pub fn arrives(entered: &Entered, me: &mut Cpu) -> Option<u64> {
    if OPEN.load(Acquire) != 1 {
        return None;
    }
    let region = REGIONS.load(Acquire);
    if me.team.0 != region {
        me.team = (region, 0);
    }
    let number = me.team.1;
    me.team.1 += 1;
    sync::barrier_arrive_at(entered, &raw const TEAM as u64, number);
    Some(number)
}

/// All have come.
pub fn leaves(entered: &Entered, number: u64) {
    sync::barrier_leave(entered, &raw const TEAM as u64, number);
}
