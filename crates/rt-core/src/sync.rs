//! What synchronisation does to clocks. A join that separates phases rounds up to a window boundary, so that accesses
//! before and after it never fall into one window.

use crate::sys::Spin;
use crate::thread::{Entered, round};
use crate::wire::*;
use crate::{record, sections};
use core::sync::atomic::{AtomicU64, Ordering::*};

const SLOTS: usize = 4096;
const PROBES: usize = 8;
/// Shorter holds of a lock do not advance those who wait for it.
const HOLD_MIN: u64 = WINDOW_VT / 16;
/// Generations whose clocks are kept.
const RING: usize = 8;

/// What is known about one barrier, condition, mutex or semaphore.
struct Slot {
    addr: AtomicU64,
    /// Barrier: number of threads. Mutex: clock when it was taken.
    a: AtomicU64,
    /// Barrier: arrivals. Mutex: clock for which it was held, in total. Condition: waiters now.
    b: AtomicU64,
    /// Condition: most waiters at one broadcast. Semaphore: waiters now.
    c: AtomicU64,
    /// Condition: number of wake-ups sent. Latest clock of waiters in `waited`.
    seq: AtomicU64,
    waited: AtomicU64,
    ring: [AtomicU64; RING],
    _pad: [u64; 2],
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        addr: AtomicU64::new(0),
        a: AtomicU64::new(0),
        b: AtomicU64::new(0),
        c: AtomicU64::new(0),
        seq: AtomicU64::new(0),
        waited: AtomicU64::new(0),
        ring: [const { AtomicU64::new(0) }; RING],
        _pad: [0; 2],
    }
}; SLOTS];
static MAKE: Spin = Spin::new();

pub fn reset_after_fork() {
    MAKE.reset();
    for s in &TABLE {
        // Waiters of the parent are not here.
        s.c.store(0, Relaxed);
        s.waited.store(0, Relaxed);
    }
}

fn clear(s: &Slot) {
    for x in [&s.a, &s.b, &s.c, &s.seq, &s.waited] {
        x.store(0, Relaxed);
    }
    for r in &s.ring {
        r.store(0, Relaxed);
    }
}

fn slot(addr: u64) -> &'static Slot {
    // Locks of one array fall into neighbouring slots.
    let h = (addr >> 3 ^ addr >> 15) as usize % SLOTS;
    let get = |k: usize| unsafe { TABLE.get_unchecked((h + k) % SLOTS) };
    for k in 0..PROBES {
        let s = get(k);
        if s.addr.load(Acquire) == addr {
            return s;
        }
    }
    MAKE.lock();
    let mut found = None;
    for k in 0..PROBES {
        let s = get(k);
        let a = s.addr.load(Relaxed);
        if a == addr {
            found = Some(s);
            break;
        }
        if a == 0 && found.is_none() {
            found = Some(s);
        }
    }
    // All taken: the one that the address picks makes room.
    let s = found.unwrap_or_else(|| get((addr >> 6) as usize % PROBES));
    if s.addr.load(Relaxed) != addr {
        clear(s);
        s.addr.store(addr, Release);
    }
    MAKE.unlock();
    s
}

/// Forgets an object whose address may become another one.
pub fn forget(_entered: &Entered, addr: u64) {
    let s = slot(addr);
    MAKE.lock();
    clear(s);
    MAKE.unlock();
}

/// Sets the clock forward; accesses before and after are different epochs.
unsafe fn advance(t: *mut Live, vt: u64) {
    unsafe {
        if vt > (*t).vt {
            // Small moves within a window separate nothing; runs go on across them.
            if vt / WINDOW_VT != (*t).vt / WINDOW_VT || vt - (*t).vt >= WINDOW_VT / 4 {
                (*t).epoch = (*t).epoch.wrapping_add(1);
            }
            (*t).vt = vt;
            (*t).sweep_vt = vt + WINDOW_VT;
        }
        (*t).sync_vt = (*t).vt;
    }
}

/// Empties the thread's table; its clock is exact afterwards.
pub unsafe fn settle(entered: &Entered) -> u64 {
    unsafe {
        let t = entered.live();
        record::sweep(t);
        let vt = (*t).vt;
        vt
    }
}

/// Brings the calling thread's clock to `vt` if it is behind.
pub unsafe fn join(entered: &Entered, vt: u64) {
    unsafe {
        let t = entered.live();
        record::sweep(t);
        advance(t, vt);
    }
}

/// A thread is about to be created: the clock at which it starts. All threads of one burst start together, after
/// what their creator did before.
pub unsafe fn creation(entered: &Entered) -> u64 {
    unsafe {
        let t = entered.live();
        record::sweep(t);
        let near = (*t).burst_vt != u64::MAX && (*t).vt < (*t).burst_vt + WINDOW_VT / 8;
        if !near {
            let vt = round((*t).vt);
            advance(t, vt);
            (*t).burst_vt = vt;
        }
        let vt = (*t).burst_vt;
        vt
    }
}

/// A thread that ended at `vt` was joined.
pub unsafe fn joined(entered: &Entered, vt: u64) {
    unsafe {
        let t = entered.live();
        record::sweep(t);
        advance(t, round(vt));
        (*t).burst_vt = u64::MAX;
    }
}

pub fn barrier_init(entered: &Entered, addr: u64, count: u64) {
    forget(entered, addr);
    slot(addr).a.store(count, Relaxed);
}

/// Before waiting at a barrier: the slot of this generation.
pub unsafe fn barrier_arrive(entered: &Entered, addr: u64) -> u64 {
    unsafe {
        let vt = settle(entered);
        let s = slot(addr);
        let count = s.a.load(Relaxed).max(1);
        let generation = s.b.fetch_add(1, AcqRel) / count;
        let cell = &s.ring[generation as usize % RING];
        // The last clock of eight generations ago is behind all of this one's.
        cell.fetch_max(vt, AcqRel);
        generation
    }
}

/// After the barrier: everybody goes on at the same clock.
pub unsafe fn barrier_leave(entered: &Entered, addr: u64, generation: u64) {
    unsafe { join(entered, round(slot(addr).ring[generation as usize % RING].load(Acquire) + 1)) };
}

/// Before waiting for a condition: the number of wake-ups so far.
pub unsafe fn cond_wait_begin(entered: &Entered, addr: u64) -> u64 {
    unsafe {
        let vt = settle(entered);
        let s = slot(addr);
        s.waited.fetch_max(vt, AcqRel);
        s.b.fetch_add(1, AcqRel);
        s.seq.load(Acquire)
    }
}

/// After waiting for a condition; `woken` is false after a timeout.
pub unsafe fn cond_wait_end(entered: &Entered, addr: u64, seq: u64, woken: bool) {
    unsafe {
        let s = slot(addr);
        let _ = s.b.fetch_update(AcqRel, Acquire, |n| Some(n.saturating_sub(1)));
        if woken && s.seq.load(Acquire) != seq {
            join(entered, s.ring[(seq + 1) as usize % RING].load(Acquire));
        }
    }
}

/// Before a signal or broadcast.
pub unsafe fn cond_wake(entered: &Entered, addr: u64, all: bool) {
    unsafe {
        let s = slot(addr);
        let waiters = s.b.load(Acquire);
        if waiters == 0 {
            return;
        }
        let t = entered.live();
        record::sweep(t);
        let most = s.c.fetch_max(waiters, AcqRel).max(waiters);
        let mut vt = (*t).vt;
        if all && waiters == most {
            // Like a barrier: everybody waited for the last one.
            vt = round(vt.max(s.waited.load(Acquire)) + 1);
            advance(t, vt);
        } else if vt - (*t).sync_vt >= WINDOW_VT / 4 {
            vt = round(vt);
        }
        let seq = s.seq.load(Acquire);
        s.ring[(seq + 1) as usize % RING].store(vt, Release);
        s.seq.store(seq + 1, Release);
    }
}

/// A lock was taken. `held_before` is what [`lock_contended`] returned if it had to be waited for.
pub unsafe fn locked(entered: &Entered, addr: u64, held_before: Option<u64>) {
    unsafe {
        let t = entered.live();
        let s = slot(addr);
        if let Some(before) = held_before {
            let held = s.b.load(Acquire).saturating_sub(before);
            if held > 0 {
                let vt = (*t).vt + held;
                advance(t, vt);
            }
        }
        s.a.store((*t).vt, Relaxed);
        sections::begin(t, addr, false);
    }
}

/// Before waiting for a lock: for how long it has been held so far, all holders together.
pub fn lock_contended(_entered: &Entered, addr: u64) -> u64 {
    slot(addr).b.load(Acquire)
}

/// A lock is about to be released.
pub unsafe fn unlocking(entered: &Entered, addr: u64) {
    unsafe {
        let t = entered.live();
        let s = slot(addr);
        let held = (*t).vt.saturating_sub(s.a.load(Relaxed));
        // The clock moves in steps when counters empty: what looks like a short hold may be no hold at all.
        if held >= HOLD_MIN {
            s.b.fetch_add(held, AcqRel);
        }
    }
}

/// Before waiting for a semaphore that is not free.
pub unsafe fn sem_wait_begin(entered: &Entered, addr: u64) {
    unsafe { settle(entered) };
    slot(addr).c.fetch_add(1, AcqRel);
}

/// After having waited for a semaphore.
pub unsafe fn sem_wait_end(entered: &Entered, addr: u64) {
    let s = slot(addr);
    let _ = s.c.fetch_update(AcqRel, Acquire, |n| Some(n.saturating_sub(1)));
    unsafe { join(entered, s.ring[0].load(Acquire)) };
}

/// Before posting a semaphore.
pub unsafe fn sem_post(entered: &Entered, addr: u64) {
    unsafe {
        let t = entered.live();
        let s = slot(addr);
        if s.c.load(Acquire) > 0 {
            record::sweep(t);
        }
        let mut vt = (*t).vt;
        if vt - (*t).sync_vt >= WINDOW_VT / 4 {
            vt = round(vt);
        }
        s.ring[0].fetch_max(vt, AcqRel);
    }
}
