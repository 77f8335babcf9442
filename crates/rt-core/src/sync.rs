//! What synchronisation does to clocks. A join that separates phases rounds up to a window boundary, so that accesses
//! before and after it never fall into one window.

use crate::arena::{self, lost};
use crate::lockfree;
use crate::standing::{self, By};
use crate::sys::Spin;
use crate::thread::{Entered, now, round};
use crate::wire::*;
use crate::{channels, company, detached, monitors, permits, processes, record, sampling, sections};
use core::sync::atomic::{AtomicU64, Ordering::*};

const SLOTS: usize = 4096;
const PROBES: usize = 8;
/// Shorter holds of a lock do not advance those who wait for it.
pub(crate) const HOLD_MIN: u64 = WINDOW_VT / 16;
/// Generations whose clocks are kept.
const RING: usize = 8;

/// What is known about one barrier, condition, mutex or semaphore. Several processes may have it.
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) addr: AtomicU64,
    /// Barrier: number of threads. Word of a lock: clock when it was taken.
    pub(crate) a: AtomicU64,
    /// Barrier: arrivals. Mutex: clock for which it was held, in total. Condition: waiters now.
    b: AtomicU64,
    /// Condition: most waiters at one broadcast. Semaphore: waiters now.
    pub(crate) c: AtomicU64,
    /// Condition: number of wake-ups sent. Word or channel: the clock of who told others something last. Latest clock
    /// of waiters in `waited`.
    pub(crate) seq: AtomicU64,
    pub(crate) waited: AtomicU64,
    pub(crate) ring: [AtomicU64; RING],
    /// Word of a lock: its value when it is free. By how much each of several readers changes it, 0 if unknown. What
    /// kind of guard it is.
    pub(crate) free: AtomicU64,
    pub(crate) kind: AtomicU64,
    /// Word of a lock: by how much a second thread changed it while another one had it, 0 if none did.
    pub(crate) second: AtomicU64,
    /// Word that threads count: what is known of it, and the latest clock of those who did. Mutex: see `monitors`.
    pub(crate) count: AtomicU64,
    pub(crate) counted: AtomicU64,
    /// Word of a lock: 1 if who has it came in by counting, see `waits`.
    pub(crate) by_count: AtomicU64,
    /// Word of a lock: bits that others set while somebody has it, see `waits`.
    pub(crate) marks: AtomicU64,
    /// Word of a lock: sections before it was one, and when the last long one of them ended, see `early`.
    pub(crate) earlier: AtomicU64,
    pub(crate) early: AtomicU64,
    /// Word of a lock: how often who seemed to have it tried to take it, in vain, and went on.
    pub(crate) in_vain: AtomicU64,
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
        free: AtomicU64::new(0),
        kind: AtomicU64::new(0),
        second: AtomicU64::new(0),
        count: AtomicU64::new(0),
        counted: AtomicU64::new(0),
        by_count: AtomicU64::new(0),
        marks: AtomicU64::new(0),
        earlier: AtomicU64::new(0),
        early: AtomicU64::new(0),
        in_vain: AtomicU64::new(0),
    }
}; SLOTS];
static EVICT: Spin = Spin::new();

/// In a forked child: nobody waits, nobody holds a lock.
pub fn reset_after_fork() {
    EVICT.reset();
    standing::reset_after_fork();
    channels::reset_after_fork();
    for s in &TABLE {
        // Waiters of the parent are not here.
        s.c.store(0, Relaxed);
        s.waited.store(0, Relaxed);
    }
}

pub(crate) fn clear(s: &Slot) {
    let counts = [&s.count, &s.counted, &s.by_count, &s.marks];
    let early = [&s.earlier, &s.early, &s.in_vain];
    let all = [&s.a, &s.b, &s.c, &s.seq, &s.waited, &s.free, &s.kind, &s.second];
    for x in all.into_iter().chain(counts).chain(early) {
        x.store(0, Relaxed);
    }
    for r in &s.ring {
        r.store(0, Relaxed);
    }
}

pub(crate) fn slot(entered: &Entered, addr: u64) -> &'static Slot {
    processes::slot(addr).unwrap_or_else(|| own_slot(entered, addr))
}

/// The slot of what has one.
pub(crate) fn known(addr: u64) -> Option<&'static Slot> {
    let own = || (0..PROBES).map(|k| place(addr, k)).find(|s| s.addr.load(Acquire) == addr);
    processes::slot(addr).or_else(own)
}

/// Locks of one array fall into neighbouring slots, words of 4 bytes each into its own; what is known beside a word
/// (`guards`) into the other half. What finds its slot taken goes somewhere else at once: such an array has no room
/// beside it. (Multiplicative hashing: Knuth, The Art of Computer Programming, volume 3, 6.4.)
fn place(addr: u64, k: usize) -> &'static Slot {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let h = match k {
        0 => (addr >> 2 ^ addr >> 14) as usize + (addr as usize & 1) * (SLOTS / 2),
        _ => (addr.wrapping_mul(GOLDEN) >> 40) as usize + k,
    };
    // SAFETY: the index is below SLOTS.
    unsafe { TABLE.get_unchecked(h % SLOTS) }
}

/// The slot of what this process has for itself.
pub(crate) fn own_slot(entered: &Entered, addr: u64) -> &'static Slot {
    let get = |k: usize| place(addr, k);
    match lockfree::claim(PROBES, |k| &get(k).addr, addr) {
        Some(k) => get(k),
        None => evict(entered, get((addr >> 6) as usize % PROBES), addr),
    }
}

/// All cells are taken: one makes room, and what was known of its lock is lost.
#[cold]
fn evict(entered: &Entered, s: &'static Slot, addr: u64) -> &'static Slot {
    let held = EVICT.lock(entered);
    if s.addr.load(Relaxed) != addr {
        lost(LOST_SLOTS, 1);
        clear(s);
        s.addr.store(addr, Release);
    }
    drop(held);
    s
}

/// Forgets an object whose address may become another one.
pub fn forget(entered: &Entered, addr: u64) {
    let s = slot(entered, addr);
    monitors::forget(entered, s, addr);
    clear(s);
}

/// Sets the clock forward; accesses before and after are different epochs.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub(crate) unsafe fn advance(t: *mut Live, vt: u64) {
    // SAFETY: clock and epoch are the thread's own; others read the clock as an atomic.
    unsafe {
        if vt > now(t) {
            // Small moves within a window separate nothing; runs go on across them.
            if vt / WINDOW_VT != now(t) / WINDOW_VT || vt - now(t) >= WINDOW_VT / 4 {
                (*t).epoch = (*t).epoch.wrapping_add(1);
            }
            (*t).vt.store(vt, Relaxed);
            (*t).sweep_vt = vt + WINDOW_VT;
            sampling::place(t);
        }
        (*t).sync_vt = now(t);
    }
}

/// Empties the thread's table: what it does from now on lies in no run with what it did before. Its clock, now exact.
pub(crate) fn new_run(entered: &Entered) -> u64 {
    let vt = settle(entered);
    // SAFETY: the thread's own word.
    unsafe { (*entered.live()).epoch = (*entered.live()).epoch.wrapping_add(1) };
    vt
}

/// Empties the thread's table; its clock is exact afterwards.
pub fn settle(entered: &Entered) -> u64 {
    // SAFETY: `sweep` empties this thread's table, and the clock is its own.
    unsafe {
        let t = entered.live();
        record::sweep(t);
        now(t)
    }
}

/// The calling thread gives away what it has used so far, see `company`.
fn gives(entered: &Entered, addr: u64) {
    // SAFETY: the state is the calling thread's, which is inside the recorder.
    unsafe { company::gives(entered.live(), addr) }
}

/// It goes on behind who gave something away there.
fn takes_over(entered: &Entered, addr: u64) {
    // SAFETY: the state is the calling thread's, which is inside the recorder.
    unsafe { company::takes(entered.live(), addr) }
}

/// Brings the calling thread's clock to `vt` if it is behind.
pub fn join(entered: &Entered, vt: u64) {
    // SAFETY: the state is the calling thread's, whose clock only it sets.
    unsafe {
        let t = entered.live();
        record::sweep(t);
        let before = now(t);
        advance(t, vt);
        if now(t) > before {
            (*t).step_vt = now(t);
            standing::jumped(t, now(t) - before);
        }
    }
}

/// The same where the thread goes on with what it was at: what it has done so far is news to others still.
pub(crate) fn join_at_work(entered: &Entered, vt: u64) {
    // SAFETY: the thread's own cells.
    unsafe {
        let t = entered.live();
        let before = settle(entered);
        let (since, step) = ((*t).sync_vt, (*t).step_vt);
        join(entered, vt);
        let by = now(t) - before;
        ((*t).sync_vt, (*t).step_vt) = (since + by, step + by);
    }
}

/// The same where that is no time for which locks were held.
pub(crate) fn join_holding(entered: &Entered, vt: u64) {
    // SAFETY: the state is the calling thread's, and has HELD places.
    unsafe {
        let t = entered.live();
        let before = settle(entered);
        join(entered, vt);
        (*t).since.iter_mut().for_each(|since| since.vt += now(t) - before);
    }
}

/// Since when the thread has had a lock, if it took it. It keeps that for itself: what is no lock may be had by several
/// at once, whose clocks say nothing of each other's.
///
/// # Safety
/// `t` is the calling thread's.
unsafe fn since(t: *mut Live, lock: u64) -> Option<*mut Since> {
    // SAFETY: the thread's own cells, below their number.
    unsafe { (0..HELD).map(|k| (&raw mut (*t).since[0]).add(k)).find(|since| (**since).lock == lock) }
}

/// The thread takes a lock: of the last ones that it took, the oldest is forgotten.
///
/// # Safety
/// `t` is the calling thread's.
unsafe fn takes(t: *mut Live, lock: u64) {
    // SAFETY: the caller's promise; the place is below HELD.
    unsafe {
        let new = Since { lock, vt: now(t) };
        let cell = since(t, lock).unwrap_or_else(|| {
            (*t).since_next = ((*t).since_next + 1) % HELD as u64;
            (&raw mut (*t).since[0]).add((*t).since_next as usize)
        });
        *cell = new;
    }
}

/// A thread is about to be created: the clock at which it starts. All threads of one burst start together, after
/// what their creator did before.
pub fn creation(entered: &Entered) -> u64 {
    // SAFETY: the state is the calling thread's, whose clock only it sets.
    unsafe {
        let t = entered.live();
        record::sweep(t);
        let behind = detached::before(entered);
        let near = (*t).burst_vt != u64::MAX && now(t) < (*t).burst_vt + WINDOW_VT / 8;
        if !near || behind > (*t).burst_vt {
            let vt = round(now(t).max(behind));
            advance(t, vt);
            (*t).burst_vt = vt;
        }
        standing::creates_first(t);
        standing::creates(t);
        (*t).burst_vt
    }
}

/// Stands for the end of some thread where threads wait.
const END: u64 = 1;

/// Before waiting for a thread's end.
pub fn joining(entered: &Entered) {
    standing::waits_in_call(entered, END);
}

/// A thread that ended at `vt` was joined.
pub fn joined(entered: &Entered, vt: u64) {
    standing::goes_on(entered, END);
    // SAFETY: the state is the calling thread's, whose clock only it sets.
    unsafe {
        let t = entered.live();
        record::sweep(t);
        // What the other one did counts as the joiner's own work: whoever it lets go now comes after both.
        let since = (*t).sync_vt;
        advance(t, round(vt));
        ((*t).sync_vt, (*t).burst_vt) = (since, u64::MAX);
    }
}

/// A barrier for `count` threads was made.
pub fn barrier_init(entered: &Entered, addr: u64, count: u64) {
    forget(entered, addr);
    slot(entered, addr).a.store(count, Relaxed);
}

/// For how many threads a barrier was made; 0 if it is not known.
pub fn barrier_threads(entered: &Entered, addr: u64) -> u64 {
    slot(entered, addr).a.load(Relaxed)
}

/// Before waiting at a barrier: the slot of this generation.
pub fn barrier_arrive(entered: &Entered, addr: u64) -> u64 {
    standing::waits_in_call(entered, addr);
    let vt = settle(entered);
    let s = slot(entered, addr);
    let count = s.a.load(Relaxed);
    let generation = lockfree::arrive(&s.b, &s.ring, count, vt);
    gives(entered, turn(addr, generation));
    generation
}

/// Stands for one generation of a barrier: who leaves it late knows nothing of those who have come back.
fn turn(addr: u64, generation: u64) -> u64 {
    addr ^ generation << 48
}

/// The same where the caller knows which generation of the barrier it is.
pub fn barrier_arrive_at(entered: &Entered, addr: u64, generation: u64) {
    standing::waits_in_call(entered, addr);
    gives(entered, turn(addr, generation));
    let vt = settle(entered);
    lockfree::arrive_at(&slot(entered, addr).ring, generation, vt);
}

/// After the barrier: everybody goes on at the same clock.
pub fn barrier_leave(entered: &Entered, addr: u64, generation: u64) {
    takes_over(entered, turn(addr, generation));
    standing::all_go_on(addr);
    standing::goes_on(entered, addr);
    join(entered, round(lockfree::latest(&slot(entered, addr).ring, generation) + 1));
    // SAFETY: the state is the calling thread's, and its table is empty.
    unsafe { standing::creates(entered.live()) }
}

/// Before waiting for a condition: the number of wake-ups so far.
pub fn cond_wait_begin(entered: &Entered, addr: u64) -> u64 {
    standing::waits_in_call(entered, addr);
    let vt = settle(entered);
    let s = slot(entered, addr);
    s.waited.fetch_max(vt, AcqRel);
    s.b.fetch_add(1, AcqRel);
    s.seq.load(Acquire)
}

/// Somebody waits for the condition.
pub(crate) fn has_waiters(addr: u64) -> bool {
    known(addr).is_some_and(|s| s.b.load(Acquire) != 0)
}

/// After waiting for a condition; `woken` is false after a timeout.
pub fn cond_wait_end(entered: &Entered, addr: u64, seq: u64, woken: bool) {
    standing::goes_on(entered, addr);
    let s = slot(entered, addr);
    let _ = s.b.fetch_update(AcqRel, Acquire, |n| Some(n.saturating_sub(1)));
    if woken && s.seq.load(Acquire) != seq {
        join(entered, s.ring[(seq + 1) as usize % RING].load(Acquire));
    }
}

/// Before a signal or broadcast.
pub fn cond_wake(entered: &Entered, addr: u64, all: bool) {
    monitors::wakes(entered);
    // SAFETY: the state is the calling thread's; what waiters share are the slot's atomics.
    unsafe {
        let s = slot(entered, addr);
        let waiters = s.b.load(Acquire);
        if waiters == 0 {
            return;
        }
        let t = entered.live();
        record::sweep(t);
        let border = standing::border(entered, addr, all, By::Call);
        let most = s.c.fetch_max(waiters, AcqRel).max(waiters);
        let mut vt = now(t);
        if all && waiters == most {
            // Like a barrier: everybody waited for the last one.
            vt = round(vt.max(s.waited.load(Acquire)) + 1);
            join_holding(entered, vt);
        } else if vt - (*t).sync_vt >= WINDOW_VT / 4 {
            vt = round(vt);
        }
        vt = border.map_or(vt, |border| vt.max(border));
        let seq = s.seq.load(Acquire);
        s.ring[(seq + 1) as usize % RING].store(vt, Release);
        s.seq.store(seq + 1, Release);
    }
}

/// A lock was taken. `held_before` is what [`lock_contended`] returned if it had to be waited for.
pub fn locked(entered: &Entered, addr: u64, held_before: Option<u64>) {
    // SAFETY: the state is the calling thread's; what holders share are the slot's atomics.
    unsafe {
        let t = entered.live();
        let s = slot(entered, addr);
        if let Some(before) = held_before {
            let held = s.b.load(Acquire).saturating_sub(before);
            if held > 0 {
                let vt = now(t) + held;
                advance(t, vt);
            }
        }
        takes(t, addr);
        monitors::locked(entered, s, addr);
        sections::begin(t, addr, false);
    }
}

/// Before waiting for a lock: for how long it has been held so far, all holders together.
pub fn lock_contended(entered: &Entered, addr: u64) -> u64 {
    slot(entered, addr).b.load(Acquire)
}

/// A lock was tried in vain.
pub fn tried(entered: &Entered, addr: u64) {
    // SAFETY: `tried` and `tried_before` are the thread's own words.
    unsafe {
        let t = entered.live();
        if (*t).tried != addr {
            (*t).tried_before = lock_contended(entered, addr);
            (*t).tried = addr;
        }
    }
}

/// A lock was taken by a try: who had tried in vain before waited for it.
pub fn locked_by_try(entered: &Entered, addr: u64) {
    // SAFETY: `tried` and `tried_before` are the thread's own words.
    let before = unsafe {
        let t = entered.live();
        let before = ((*t).tried == addr).then_some((*t).tried_before);
        (*t).tried = 0;
        before
    };
    locked(entered, addr, before);
}

/// A lock is about to be released.
pub fn unlocking(entered: &Entered, addr: u64) {
    // SAFETY: the clock is the calling thread's; what holders share are the slot's atomics.
    unsafe {
        let t = entered.live();
        let s = slot(entered, addr);
        let held = since(t, addr).map_or(0, |since| now(t).saturating_sub((*since).vt));
        // The clock moves in steps when counters empty: what looks like a short hold may be no hold at all.
        if held >= HOLD_MIN {
            s.b.fetch_add(held, AcqRel);
        }
        // Who waited goes on after it: what the thread did meanwhile is not to lie in one run with what it does then.
        if held >= WINDOW_VT / 4 {
            new_run(entered);
        }
        monitors::unlocking(entered, addr);
    }
}

/// Before waiting for a semaphore that is not free: what [`lock_contended`] says of it.
pub fn sem_wait_begin(entered: &Entered, addr: u64) -> u64 {
    standing::waits_in_call(entered, addr);
    settle(entered);
    slot(entered, addr).c.fetch_add(1, AcqRel);
    lock_contended(entered, addr)
}

/// Meaning of the ring's cells in slots of semaphores.
const POSTED: usize = 0;
const LAST_POST: usize = 1;
/// The thread that took it last, and 1 once another one posted it: then it is no lock but a signal.
const TAKER: usize = 2;
const SIGNAL: usize = 3;

/// After having waited for a semaphore; `before` is what [`sem_wait_begin`] said, `more` if a permit is left.
pub fn sem_wait_end(entered: &Entered, addr: u64, before: u64, more: bool) {
    standing::goes_on(entered, addr);
    let s = slot(entered, addr);
    let _ = s.c.fetch_update(AcqRel, Acquire, |n| Some(n.saturating_sub(1)));
    s.ring[TAKER].store(thread_number(entered), Relaxed);
    takes_over(entered, addr);
    join(entered, s.ring[POSTED].load(Acquire));
    permits::taken(entered, addr, Some(before), more);
}

/// A semaphore was taken without waiting. If it is a signal, what came before it did so in time as well.
pub fn sem_taken(entered: &Entered, addr: u64, more: bool) {
    let s = slot(entered, addr);
    s.ring[TAKER].store(thread_number(entered), Relaxed);
    takes_over(entered, addr);
    if s.ring[SIGNAL].load(Relaxed) != 0 {
        join(entered, s.ring[POSTED].load(Acquire));
    }
    permits::taken(entered, addr, None, more);
}

/// What tells the calling thread from all others of all processes; never 0.
pub(crate) fn thread_number(entered: &Entered) -> u64 {
    let process = (arena::session_pid_seq().0 as u64) << 32;
    // SAFETY: the thread's own description.
    process | unsafe { (*((*entered.live()).info_at as *const ThreadInfo)).index as u64 + 1 }
}

/// Before posting a semaphore.
pub fn sem_post(entered: &Entered, addr: u64) {
    permits::given(entered, addr);
    gives(entered, addr);
    // SAFETY: the state is the calling thread's; what waiters share are the slot's atomics.
    unsafe {
        let t = entered.live();
        let s = slot(entered, addr);
        if s.ring[TAKER].load(Relaxed) != thread_number(entered) {
            s.ring[SIGNAL].store(1, Relaxed);
        }
        if s.c.load(Acquire) > 0 || s.ring[SIGNAL].load(Relaxed) != 0 {
            record::sweep(t);
        }
        standing::border(entered, addr, false, By::Call);
        let mut vt = now(t);
        let last = s.ring[LAST_POST].fetch_max(vt, AcqRel);
        // Who posts goes on beside who was woken, not before.
        if vt - (*t).sync_vt >= WINDOW_VT / 4 && vt >= last + WINDOW_VT / 4 {
            vt = round(vt);
            advance(t, vt);
        }
        s.ring[POSTED].fetch_max(vt, AcqRel);
    }
}
