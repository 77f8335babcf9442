//! Threads: registration, end, and what fork does to them.

use crate::arena::{self, alloc, at, header, lost, recording, reference};
use crate::record;
use crate::sys::{self, Spin};
use crate::wire::*;
use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// What threads use before they are registered and after their end: every access misses, nothing is written.
#[unsafe(no_mangle)]
pub static mut tussle_dummy: Live = unsafe { core::mem::zeroed() };

/// States of a thread, kept beside the pointer.
const NEW: u64 = 0;
const ACTIVE: u64 = 1;
const ENDED: u64 = 2;
const BUSY: u64 = 3;

static LIST: Spin = Spin::new();
static FREE: AtomicU64 = AtomicU64::new(0);
/// Threads registered and not ended.
pub static ALIVE: AtomicU32 = AtomicU32::new(0);

#[inline(always)]
pub fn current() -> *mut Live {
    let p: *mut Live;
    unsafe {
        asm!("mov {0}, qword ptr [rip + tussle_tls@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]", out(reg) p,
            options(nostack, preserves_flags, readonly));
    }
    p
}

fn set_current(p: *mut Live) {
    unsafe {
        asm!("mov {1}, qword ptr [rip + tussle_tls@GOTTPOFF]", "mov qword ptr fs:[{1}], {0}", in(reg) p,
            out(reg) _, options(nostack, preserves_flags));
    }
}

fn state() -> u64 {
    let s: u64;
    unsafe {
        asm!("mov {0}, qword ptr [rip + tussle_state@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]", out(reg) s,
            options(nostack, preserves_flags, readonly));
    }
    s
}

fn set_state(s: u64) {
    unsafe {
        asm!("mov {1}, qword ptr [rip + tussle_state@GOTTPOFF]", "mov qword ptr fs:[{1}], {0}", in(reg) s,
            out(reg) _, options(nostack, preserves_flags));
    }
}

fn dummy() -> *mut Live {
    &raw mut tussle_dummy
}

/// The calling thread's state, marked busy; null if it is not to be recorded now. Pair with [`leave`].
#[inline(always)]
pub unsafe fn enter() -> *mut Live {
    unsafe {
        let t = current();
        if (*t).free == 0 || arena::forked() {
            return enter_slowly(t);
        }
        (*t).free = 0;
        t
    }
}

#[cold]
unsafe fn enter_slowly(t: *mut Live) -> *mut Live {
    unsafe {
        if !recording() {
            return core::ptr::null_mut();
        }
        if record::check_fork() {
            return enter_again();
        }
        if t != dummy() {
            lost(LOST_REENTRANT, 1);
            return core::ptr::null_mut();
        }
        match state() {
            NEW => {
                register(NONE, 0, 0, NONE as u64, 0, 0);
                enter_again()
            }
            ENDED => {
                lost(LOST_AFTER_END, 1);
                core::ptr::null_mut()
            }
            _ => core::ptr::null_mut(),
        }
    }
}

unsafe fn enter_again() -> *mut Live {
    unsafe {
        let t = current();
        if (*t).free == 0 {
            return core::ptr::null_mut();
        }
        (*t).free = 0;
        t
    }
}

/// Leaves what [`enter`] entered.
#[inline(always)]
pub unsafe fn leave(t: *mut Live) {
    unsafe { (*t).free = 1 }
}

/// Makes the calling thread a recorded one. `vt` of `NONE` means: start with the latest clock known.
pub unsafe fn register(creator: u32, start: u64, pc: u64, vt: u64, stack_lo: u64, stack_hi: u64) {
    unsafe {
        if !recording() || state() == ACTIVE || state() == BUSY {
            return;
        }
        set_state(BUSY);
        let t = take_live();
        let info = alloc(size_of::<ThreadInfo>() as u64) as *mut ThreadInfo;
        if t.is_null() || info.is_null() {
            lost(LOST_THREADS, 1);
            set_state(ENDED);
            return;
        }
        let vt = if vt == NONE as u64 { latest() } else { vt };
        (*info).tid = sys::gettid();
        (*info).creator = creator;
        (*info).start = start;
        (*info).create_pc = pc;
        (*info).vt0 = vt;
        (*info).stack_lo = stack_lo;
        (*info).stack_hi = stack_hi;
        (*info).tp = thread_pointer();
        (*info).live = reference(t as u64);
        name(info);
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
        let h = header();
        LIST.lock();
        (*info).index = (*h).threads_count;
        (*info).next = (*h).threads;
        (*h).threads = reference(info as u64);
        (*h).threads_count += 1;
        LIST.unlock();
        ALIVE.fetch_add(1, Relaxed);
        set_current(t);
        set_state(ACTIVE);
    }
}

fn thread_pointer() -> u64 {
    let tp: u64;
    unsafe { asm!("mov {0}, qword ptr fs:[0]", out(reg) tp, options(nostack, preserves_flags, readonly)) };
    tp
}

unsafe fn name(info: *mut ThreadInfo) {
    const PR_GET_NAME: usize = 16;
    unsafe { sys::call3(sys::SYS_prctl, PR_GET_NAME, &raw mut (*info).name as usize, 0) };
}

/// Reads the calling thread's name again.
pub unsafe fn renamed() {
    unsafe {
        let t = current();
        if t != dummy() {
            name((*t).info_at as *mut ThreadInfo);
        }
    }
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

/// Ends the recording of the calling thread; its numbers stay in the file.
pub unsafe fn end() {
    unsafe {
        let t = current();
        if t == dummy() || state() != ACTIVE {
            set_state(ENDED);
            return;
        }
        if record::check_fork() {
            return;
        }
        (*t).free = 0;
        (*t).depth = 0;
        set_state(ENDED);
        set_current(dummy());
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

static FORK_VT: AtomicU64 = AtomicU64::new(0);

/// Before fork: what was counted so far is the parent's.
pub unsafe extern "C" fn before_fork() {
    unsafe {
        let t = enter();
        if !t.is_null() {
            record::sweep(t);
            FORK_VT.store((*t).vt, Relaxed);
            leave(t);
        }
    }
}

/// In the child: a file of its own, one thread.
pub unsafe extern "C" fn after_fork_in_child() {
    unsafe {
        if !recording() {
            return;
        }
        let (pid, seq) = arena::session_pid_seq();
        let was = state();
        arena::reset_after_fork();
        LIST.reset();
        FREE.store(0, Relaxed);
        ALIVE.store(0, Relaxed);
        crate::heap::reset_after_fork();
        crate::sync::reset_after_fork();
        set_current(dummy());
        set_state(NEW);
        let vt = FORK_VT.load(Relaxed);
        if arena::open(pid, seq, vt) && was != ENDED {
            register(NONE, 0, 0, vt, 0, 0);
        }
    }
}

/// Sets up the recording; the first of constructor, `__tsan_init` and thread creation does it.
pub unsafe fn init() {
    static ONCE: AtomicU32 = AtomicU32::new(0);
    unsafe {
        if ONCE.swap(1, AcqRel) != 0 {
            return;
        }
        crate::interpose::resolve();
        if !arena::open(0, 0, 0) {
            return;
        }
        sys::__register_atfork(Some(before_fork), None, Some(after_fork_in_child), core::ptr::null_mut());
        let (lo, hi) = main_stack();
        register(NONE, 0, 0, 0, lo, hi);
    }
}

unsafe extern "C" {
    static __libc_stack_end: u64;
}

/// The main thread's stack as far as it may grow.
unsafe fn main_stack() -> (u64, u64) {
    let mut lim = [8u64 << 20; 2];
    unsafe {
        sys::call(sys::SYS_prlimit64, 0, 3, 0, lim.as_mut_ptr() as usize, 0, 0);
        // Arguments and environment lie above; they are the process's, 1 MiB is generous.
        let hi = (__libc_stack_end + (1 << 20)) & !4095;
        (hi.saturating_sub(lim[0].min(1 << 30)), hi)
    }
}
