//! Threads: who is inside the recorder, the list of threads, what a thread begins and ends with.

use crate::arch;
use crate::arena::{self, alloc, at, forked, header, lost, reference};
use crate::record;
use crate::wire::*;
use crate::{detached, lockfree, order, sampling, sys};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, compiler_fence};

/// Stack of [`Live`]s whose threads have ended.
static FREE: AtomicU64 = AtomicU64::new(0);
/// Threads registered and not ended.
pub static ALIVE: AtomicU32 = AtomicU32::new(0);

/// The calling thread is inside the recorder: its state belongs to whoever holds this, until it is dropped. None of the
/// program's signal handlers runs in the thread meanwhile (`rt/runtime/signals.rs`), and it is not cancelled. What
/// takes a lock of the recorder asks for this, so that nobody can be stopped or left for ever while holding one.
pub struct Entered(*mut Live);

impl Entered {
    /// Enters with the calling thread's state; `None` if it is inside already, not recorded, or a forked child that has
    /// no file of its own yet.
    ///
    /// # Safety
    /// `t` is the calling thread's state, or the state of threads that are not recorded.
    #[inline(always)]
    pub unsafe fn enter(t: *mut Live) -> Option<Entered> {
        // SAFETY: the caller's promise; nobody else writes `free`.
        unsafe {
            if (*t).free.load(Relaxed) == 0 || forked() {
                return None;
            }
            // A stack overflow is raised before the thread is inside: its handler may leave by siglongjmp.
            arch::reach_down_the_stack();
            (*t).free.store(0, Relaxed);
            compiler_fence(SeqCst);
            Some(Entered(t))
        }
    }

    /// The same in a thread that can be cancelled at any instruction: signals are blocked until it leaves.
    ///
    /// # Safety
    /// `t` is the calling thread's state, or the state of threads that are not recorded.
    #[cold]
    pub unsafe fn enter_asynchronous(t: *mut Live) -> Option<Entered> {
        // SAFETY: the caller's promise; only the thread itself writes these cells.
        unsafe {
            if (*t).asynchronous.load(Relaxed) != 1 || forked() {
                return None;
            }
            arch::reach_down_the_stack();
            (*t).signal_mask.store(sys::block_signals()?, Relaxed);
            (*t).asynchronous.store(2, Relaxed);
            (*t).deferred.store(1, Relaxed);
            compiler_fence(SeqCst);
            Some(Entered(t))
        }
    }

    /// The calling thread's state.
    #[inline(always)]
    pub fn live(&self) -> *mut Live {
        self.0
    }
}

impl Drop for Entered {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the state is the calling thread's, and stays in the mapping.
        unsafe {
            compiler_fence(SeqCst);
            (*self.0).free.store(1, Relaxed);
            // A signal that comes before this store is deferred, and seen here; one that comes after it is not.
            compiler_fence(SeqCst);
            if (*self.0).deferred.load(Relaxed) != 0 {
                deliver(self.0);
            }
        }
    }
}

/// Lets deferred signals through; their handlers run before this returns.
///
/// # Safety
/// `t` is the calling thread's, which has just left.
#[cold]
unsafe fn deliver(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*t).asynchronous.load(Relaxed) != 0 {
            (*t).free.store(0, Relaxed);
            (*t).asynchronous.store(1, Relaxed);
        }
        let mask = (*t).signal_mask.load(Relaxed);
        (*t).deferred.store(0, Relaxed);
        compiler_fence(SeqCst);
        sys::set_signal_mask(mask);
    }
}

/// A thread may be cancelled at any instruction from now on, or (`on` false) no more.
///
/// # Safety
/// `t` is the calling thread's, which is not inside.
pub unsafe fn set_asynchronous(t: *mut Live, on: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        (*t).free.store(!on as u32, Relaxed);
        (*t).asynchronous.store(on as u32, Relaxed);
    }
}

/// True while none of the program's handlers may run in the calling thread.
///
/// # Safety
/// `t` is the calling thread's.
pub unsafe fn inside(t: *mut Live) -> bool {
    // SAFETY: the caller's promise; atomics.
    unsafe { (*t).free.load(Relaxed) == 0 && (*t).asynchronous.load(Relaxed) == 0 }
}

/// Defers a signal that came while the thread is [`inside`]. `blocked` is the mask that returning from the handler
/// restores: everything is blocked until the thread leaves, which restores what was blocked before. `now` are the
/// signals that must not be blocked because the program's own instructions may raise them.
///
/// # Safety
/// `t` is the calling thread's; `blocked` is the mask in the frame of the handler that runs.
pub unsafe fn defer(t: *mut Live, blocked: *mut u64, now: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        // Of signals that come at once the last one's handler interrupts that of the one before, and the first one's
        // has the mask of the recorder's caller: it returns last.
        if *blocked | now != u64::MAX {
            (*t).signal_mask.store(*blocked, Relaxed);
        }
        *blocked = !now;
        (*t).deferred.store(1, Relaxed);
    }
}

/// The clock.
///
/// # Safety
/// `t` is a thread's state.
#[inline(always)]
pub unsafe fn now(t: *mut Live) -> u64 {
    // SAFETY: states stay in the mapping; the clock is an atomic.
    unsafe { (*t).vt.load(Relaxed) }
}

/// Lets the clock of the calling thread go on.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn pass(t: *mut Live, n: u64) {
    // SAFETY: only the thread itself writes its clock.
    unsafe { (*t).vt.store((*t).vt.load(Relaxed) + n, Relaxed) }
}

/// What is known of a thread when it begins.
pub struct Birth {
    /// Index of the creating thread, or [`NONE`].
    pub creator: u32,
    /// Start routine.
    pub start: u64,
    /// Return address of the call that created it.
    pub create_pc: u64,
    /// Clock; [`NONE`] means the latest that any thread has.
    pub vt: u64,
    /// Its stack.
    pub stack: (u64, u64),
    /// Its thread pointer.
    pub pointer: u64,
}

impl Birth {
    /// Of a thread that nobody is known to have created.
    pub const fn unknown() -> Birth {
        Birth { creator: NONE, start: 0, create_pc: 0, vt: NONE as u64, stack: (0, 0), pointer: 0 }
    }
}

/// Makes the calling thread a recorded one: its state, null without memory.
///
/// # Safety
/// Signals are blocked; the calling thread has no state yet.
pub unsafe fn register(birth: &Birth) -> *mut Live {
    // SAFETY: state and description are new and ours until they are in the list.
    unsafe {
        let t = take_live();
        let info = alloc(size_of::<ThreadInfo>() as u64) as *mut ThreadInfo;
        if t.is_null() || info.is_null() {
            lost(LOST_THREADS, 1);
            return core::ptr::null_mut();
        }
        let vt = if birth.vt == NONE as u64 { latest() } else { birth.vt };
        (*info).tid = sys::gettid();
        (*info).creator = birth.creator;
        (*info).start = birth.start;
        (*info).create_pc = birth.create_pc;
        (*info).vt0 = vt;
        (*info).stack_lo = birth.stack.0;
        (*info).stack_hi = birth.stack.1;
        (*info).tp = birth.pointer;
        (*info).live = reference(t as u64);
        name(info);
        begin(t, info, vt);
        let h = header();
        crate::standing::begin(t);
        (*info).index = AtomicU32::from_ptr(&raw mut (*h).threads_count).fetch_add(1, Relaxed);
        order::begins(t);
        let next = AtomicU32::from_ptr(&raw mut (*info).next);
        lockfree::prepend(AtomicU32::from_ptr(&raw mut (*h).threads), reference(info as u64), next);
        ALIVE.fetch_add(1, Relaxed);
        detached::begun(info);
        t
    }
}

/// The state that a thread begins with.
///
/// # Safety
/// Both are new, and nobody else knows of them.
unsafe fn begin(t: *mut Live, info: *mut ThreadInfo, vt: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        (*t).vt.store(vt, Relaxed);
        (*t).sync_vt = vt;
        (*t).burst_vt = u64::MAX;
        (*t).sweep_vt = vt + WINDOW_VT;
        (*t).window_vt = vt;
        (*t).tells_operations = 0;
        (*t).regions_begun = 0;
        ((*t).monitor.mutex, (*t).monitor.has, (*t).monitor.within, (*t).monitor.locked) = (0, 0, 0, 0);
        ((*t).skip, (*t).skip_from, (*t).skipped, (*t).within) = (0, 0, 0, 0);
        has_seen_nothing(t);
        sampling::place(t);
        (*t).epoch = 1;
        (*t).info = reference(info as u64);
        (*t).info_at = info as u64;
        (*t).frames[1].sp = u64::MAX;
        (*t).depth = size_of::<Frame>() as u32;
        (*t).free.store(1, Relaxed);
    }
}

/// The state may be that of a thread that ended: what that one saw and did to words is not this one's.
///
/// # Safety
/// As [`begin`].
unsafe fn has_seen_nothing(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe {
        (*t).looks.iter_mut().for_each(|look| look.addr = 0);
        (*t).takes.iter_mut().for_each(|take| take.word = 0);
        (*t).since.iter_mut().for_each(|since| since.lock = 0);
        (*t).told.iter_mut().for_each(|told| told.addr = 0);
        (*t).watched.iter_mut().for_each(|watched| watched.line = 0);
        (*t).guard = Guard::NONE;
        ((*t).looked, (*t).took, (*t).counted, (*t).tried) = (0, 0, 0, 0);
        ((*t).slept_with, (*t).came.word, (*t).stays_count) = (0, 0, 0);
    }
}

/// # Safety
/// `info` is the calling thread's.
unsafe fn name(info: *mut ThreadInfo) {
    const PR_GET_NAME: usize = 16;
    // SAFETY: the kernel writes 16 bytes, which the name has.
    unsafe { sys::call3(sys::SYS_prctl, PR_GET_NAME, &raw mut (*info).name as usize, 0) };
}

/// Reads the calling thread's name again.
///
/// # Safety
/// `t` is the calling thread's.
pub unsafe fn renamed(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe { name((*t).info_at as *mut ThreadInfo) }
}

/// The clock of the most advanced thread: for threads that nobody is known to have created.
///
/// # Safety
/// The header is mapped.
pub unsafe fn latest() -> u64 {
    // SAFETY: threads in the list stay in the mapping; what others write is read as atomics.
    unsafe {
        let mut max = (*header()).fork_vt;
        let mut i = AtomicU32::from_ptr(&raw mut (*header()).threads).load(Acquire);
        while i != 0 {
            let info = at::<ThreadInfo>(i);
            let vt = clock(info);
            max = max.max(vt);
            i = (*info).next;
        }
        round(max)
    }
}

/// A thread's clock, or where it stopped.
///
/// # Safety
/// `info` is in the list of threads.
pub(crate) unsafe fn clock(info: *mut ThreadInfo) -> u64 {
    // SAFETY: descriptions and states stay in the mapping.
    unsafe {
        match AtomicU32::from_ptr(&raw mut (*info).live).load(Acquire) {
            0 => AtomicU64::from_ptr(&raw mut (*info).vt1).load(Relaxed),
            live => now(at(live)),
        }
    }
}

/// The next boundary between windows: accesses before and after it never count as concurrent.
pub fn round(vt: u64) -> u64 {
    vt.div_ceil(WINDOW_VT) * WINDOW_VT
}

/// # Safety
/// The header is mapped.
unsafe fn take_live() -> *mut Live {
    // SAFETY: references on the stack are of states, which stay in the mapping.
    unsafe {
        match lockfree::pop(&FREE, |r| &(*at::<Live>(r)).next_free) {
            0 => alloc(size_of::<Live>() as u64) as *mut Live,
            r => at(r),
        }
    }
}

/// Keeps the calling thread's own hooks out for good: its recording is about to end.
///
/// # Safety
/// `t` is the calling thread's, which is not inside.
pub unsafe fn shut(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe {
        (*t).free.store(0, Relaxed);
        (*t).asynchronous.store(0, Relaxed);
        (*t).depth = 0;
    }
}

/// Ends the recording of a thread that was [`shut`]; its numbers stay in the file.
///
/// # Safety
/// `t` is the calling thread's, was [`shut`], and signals are blocked.
pub unsafe fn end(t: *mut Live) {
    // SAFETY: the caller's promise; the state is ours until it is on the stack.
    unsafe {
        crate::early::end(t);
        crate::sections::reset(t);
        crate::standing::end(t);
        crate::company::leaves(t);
        record::sweep(t);
        let info = (*t).info_at as *mut ThreadInfo;
        AtomicU64::from_ptr(&raw mut (*info).vt1).store(now(t), Relaxed);
        sampling::settle(t);
        (*info).skipped = (*t).skipped;
        name(info);
        AtomicU32::from_ptr(&raw mut (*info).live).store(0, SeqCst);
        detached::ended(info);
        for c in &mut (*t).code_cache {
            c.pc = 0;
        }
        for c in &mut (*t).page_cache {
            c.page = 0;
        }
        ALIVE.fetch_sub(1, Relaxed);
        lockfree::push(&FREE, reference(t as u64), &(*t).next_free);
    }
}

/// The clock at which the latest thread with this thread pointer stopped.
///
/// # Safety
/// The header is mapped.
pub unsafe fn vt_of(tp: u64) -> u64 {
    // SAFETY: the caller's promise; what is found is in the list.
    unsafe { latest_of(tp).map_or(0, |info| clock(info)) }
}

/// The latest thread with this thread pointer.
///
/// # Safety
/// The header is mapped.
pub(crate) unsafe fn latest_of(tp: u64) -> Option<*mut ThreadInfo> {
    // SAFETY: threads in the list stay in the mapping; what others write is read as atomics.
    unsafe {
        let mut i = AtomicU32::from_ptr(&raw mut (*header()).threads).load(Acquire);
        while i != 0 {
            let info = at::<ThreadInfo>(i);
            if (*info).tp == tp {
                return Some(info);
            }
            i = (*info).next;
        }
        None
    }
}

/// Forgets the parent's threads.
pub fn reset_after_fork() {
    FREE.store(0, Relaxed);
    ALIVE.store(0, Relaxed);
    arena::reset_after_fork();
    crate::heap::reset_after_fork();
    crate::marks::reset_after_fork();
    crate::sync::reset_after_fork();
    order::reset_after_fork();
    detached::reset_after_fork();
}
