//! Threads: who is inside the recorder, the list of threads, what a thread begins and ends with.

use crate::arena::{self, alloc, at, forked, header, lost, reference};
use crate::record;
use crate::sys::{self, Spin};
use crate::wire::*;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

static LIST: Spin = Spin::new();
static FREE: AtomicU64 = AtomicU64::new(0);
/// Threads registered and not ended.
pub static ALIVE: AtomicU32 = AtomicU32::new(0);

/// The calling thread is inside the recorder: its state belongs to whoever holds this, until it is dropped.
pub struct Entered(*mut Live);

impl Entered {
    /// Enters with the calling thread's state; `None` if it is inside already, not recorded, or a forked child that has
    /// no file of its own yet.
    #[inline(always)]
    pub unsafe fn enter(t: *mut Live) -> Option<Entered> {
        unsafe {
            if (*t).free == 0 || forked() {
                return None;
            }
            (*t).free = 0;
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
        unsafe { (*self.0).free = 1 }
    }
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
pub unsafe fn register(birth: &Birth) -> *mut Live {
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
        LIST.lock();
        (*info).index = (*h).threads_count;
        (*info).next = (*h).threads;
        (*h).threads = reference(info as u64);
        (*h).threads_count += 1;
        LIST.unlock();
        ALIVE.fetch_add(1, Relaxed);
        t
    }
}

/// The state that a thread begins with.
unsafe fn begin(t: *mut Live, info: *mut ThreadInfo, vt: u64) {
    unsafe {
        (*t).vt = vt;
        (*t).sync_vt = vt;
        (*t).burst_vt = u64::MAX;
        (*t).sweep_vt = vt + WINDOW_VT;
        (*t).epoch = 1;
        (*t).info = reference(info as u64);
        (*t).info_at = info as u64;
        (*t).frames[1].sp = u64::MAX;
        (*t).depth = size_of::<Frame>() as u32;
        (*t).free = 1;
    }
}

unsafe fn name(info: *mut ThreadInfo) {
    const PR_GET_NAME: usize = 16;
    unsafe { sys::call3(sys::SYS_prctl, PR_GET_NAME, &raw mut (*info).name as usize, 0) };
}

/// Reads the calling thread's name again.
pub unsafe fn renamed(t: *mut Live) {
    unsafe { name((*t).info_at as *mut ThreadInfo) }
}

/// The clock of the most advanced thread: for threads that nobody is known to have created.
unsafe fn latest() -> u64 {
    unsafe {
        let mut max = (*header()).fork_vt;
        let mut i = (*header()).threads;
        while i != 0 {
            let info = at::<ThreadInfo>(i);
            let vt = if (*info).live != 0 { (*at::<Live>((*info).live)).vt } else { (*info).vt1 };
            max = max.max(vt);
            i = (*info).next;
        }
        round(max)
    }
}

/// The next boundary between windows: accesses before and after it never count as concurrent.
pub fn round(vt: u64) -> u64 {
    vt.div_ceil(WINDOW_VT) * WINDOW_VT
}

unsafe fn take_live() -> *mut Live {
    unsafe {
        LIST.lock();
        let p = FREE.load(Relaxed) as *mut Live;
        if !p.is_null() {
            FREE.store((*p).next_free, Relaxed);
        }
        LIST.unlock();
        if p.is_null() {
            return alloc(size_of::<Live>() as u64) as *mut Live;
        }
        (*p).next_free = 0;
        p
    }
}

/// Keeps the calling thread's own hooks out for good: its recording is about to end.
pub unsafe fn shut(t: *mut Live) {
    unsafe {
        (*t).free = 0;
        (*t).depth = 0;
    }
}

/// Ends the recording of a thread that was [`shut`]; its numbers stay in the file.
pub unsafe fn end(t: *mut Live) {
    unsafe {
        crate::sections::reset(t);
        record::sweep(t);
        let info = (*t).info_at as *mut ThreadInfo;
        (*info).vt1 = (*t).vt;
        name(info);
        core::sync::atomic::compiler_fence(SeqCst);
        (*info).live = 0;
        for c in &mut (*t).code_cache {
            c.pc = 0;
        }
        for c in &mut (*t).page_cache {
            c.page = 0;
        }
        ALIVE.fetch_sub(1, Relaxed);
        LIST.lock();
        (*t).next_free = FREE.load(Relaxed);
        FREE.store(t as u64, Relaxed);
        LIST.unlock();
    }
}

/// The clock at which the latest thread with this thread pointer stopped.
pub unsafe fn vt_of(tp: u64) -> u64 {
    unsafe {
        let mut i = (*header()).threads;
        while i != 0 {
            let info = at::<ThreadInfo>(i);
            if (*info).tp == tp {
                return if (*info).live != 0 { (*at::<Live>((*info).live)).vt } else { (*info).vt1 };
            }
            i = (*info).next;
        }
        0
    }
}

/// Forgets the parent's threads.
pub fn reset_after_fork() {
    LIST.reset();
    FREE.store(0, Relaxed);
    ALIVE.store(0, Relaxed);
    arena::reset_after_fork();
    crate::heap::reset_after_fork();
    crate::sync::reset_after_fork();
}
