//! The calling thread's state, in thread-local storage: registration, end, and what fork does to it.

use crate::arch::{current, set_current, set_state, state, thread_pointer};
use crate::wire::*;
use crate::{asleep, exec, marks, sys};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use tussle_rt_core::arena::{self, Settings, lost, recording};
use tussle_rt_core::{counting, probe, processes, sync};
use tussle_rt_core::sys::Blocked;
use tussle_rt_core::thread as core_thread;
pub use tussle_rt_core::thread::{Birth, Entered, vt_of};

/// What threads use before they are registered and after their end: every access misses, nothing is written.
#[unsafe(no_mangle)]
// SAFETY: the state is the calling thread's.
pub static mut tussle_dummy: Live = unsafe { core::mem::zeroed() };

/// States of a thread, kept beside the pointer.
const NEW: u64 = 0;
const ACTIVE: u64 = 1;
const ENDED: u64 = 2;
const BUSY: u64 = 3;
/// Found no memory: the loss *threads* stands for all that it does.
const REFUSED: u64 = 4;

fn dummy() -> *mut Live {
    &raw mut tussle_dummy
}

/// True for the state of threads that are not recorded.
pub fn is_dummy(t: *mut Live) -> bool {
    t == dummy()
}

/// The calling thread may be cancelled at any instruction from now on, or (`on` false) no more.
///
/// # Safety
/// Called by the program's code, not inside the recorder.
pub unsafe fn set_asynchronous(on: bool) {
    drop(enter());
    let t = current();
    if t != dummy() {
        // SAFETY: the state is the calling thread's.
        unsafe { core_thread::set_asynchronous(t, on) };
    }
}

/// Enters the recorder; `None` if the calling thread is not to be recorded now.
#[inline(always)]
pub fn enter() -> Option<Entered> {
    // SAFETY: the state is the calling thread's.
    unsafe {
        let t = current();
        let entered = match Entered::enter(t) {
            None => enter_slowly(t),
            entered => entered,
        };
        if counting::news()
            && let Some(entered) = &entered
        {
            counting::obey(entered, asleep::count);
        }
        entered
    }
}

/// # Safety
/// `t` is [`current`].
#[cold]
unsafe fn enter_slowly(t: *mut Live) -> Option<Entered> {
    // SAFETY: the caller's promise.
    unsafe {
        if !recording() {
            return None;
        }
        if check_fork() {
            return Entered::enter(current());
        }
        if t != dummy() {
            let entered = Entered::enter_asynchronous(t);
            if entered.is_none() {
                // Only a handler that was installed by a raw system call, or of a fault, gets here.
                lost(LOST_REENTRANT, 1);
            }
            return entered;
        }
        match state() {
            NEW => {
                register(Birth::unknown());
                Entered::enter(current())
            }
            ENDED => {
                lost(LOST_AFTER_END, 1);
                None
            }
            _ => None,
        }
    }
}

/// Makes the calling thread a recorded one.
///
/// # Safety
/// The calling thread is not inside the recorder.
pub unsafe fn register(birth: Birth) {
    // SAFETY: signals are blocked; the state is the calling thread's.
    unsafe {
        if !recording() || [ACTIVE, BUSY, REFUSED].contains(&state()) {
            return;
        }
        let _blocked = Blocked::all();
        set_state(BUSY);
        tussle_rt_core::order::is_told();
        let t = core_thread::register(&Birth { pointer: thread_pointer(), ..birth });
        if t.is_null() {
            set_state(REFUSED);
            return;
        }
        set_current(t);
        set_state(ACTIVE);
    }
}

/// Reads the calling thread's name again.
///
/// # Safety
/// The calling thread is not inside the recorder.
pub unsafe fn renamed() {
    // SAFETY: the state is the calling thread's.
    unsafe {
        let t = current();
        if t != dummy() {
            core_thread::renamed(t);
        }
    }
}

/// Index of the calling thread; [`NONE`] if it is not recorded.
pub fn index() -> u32 {
    // SAFETY: the state is the calling thread's.
    unsafe {
        match (*current()).info_at as *mut ThreadInfo {
            i if i.is_null() => NONE,
            i => (*i).index,
        }
    }
}

/// Ends the recording of the calling thread; its numbers stay in the file.
///
/// # Safety
/// The calling thread is not inside the recorder and runs none of the program's code any more.
pub unsafe fn end() {
    // SAFETY: signals are blocked; the state is the calling thread's.
    unsafe {
        let t = current();
        if t == dummy() || state() != ACTIVE {
            set_state(ENDED);
            return;
        }
        if check_fork() {
            return;
        }
        let _blocked = Blocked::all();
        core_thread::shut(t);
        set_state(ENDED);
        set_current(dummy());
        core_thread::end(t);
    }
}

/// The clock of the child that is about to be forked; [`NONE`] if nobody said so.
static FORK_VT: AtomicU64 = AtomicU64::new(NONE as u64);

/// Before fork: what was counted so far is the parent's.
///
/// # Safety
/// Called by libc before a fork.
pub unsafe extern "C" fn before_fork() {
    if let Some(entered) = enter() {
            FORK_VT.store(sync::creation(&entered), Relaxed);
    }
}

/// In the parent, after fork.
///
/// # Safety
/// Called by libc after a fork.
pub unsafe extern "C" fn after_fork_in_parent() {
    FORK_VT.store(NONE as u64, Relaxed);
}

/// A child forked without our seeing it must not write into its parent's file.
///
/// # Safety
/// The calling thread is not inside the recorder.
unsafe fn check_fork() -> bool {
    if arena::forked() {
        // SAFETY: the caller's promise.
        unsafe { after_fork_in_child() };
        return true;
    }
    false
}

/// In the child: a file of its own, one thread.
///
/// # Safety
/// Called in a forked child that has one thread, outside of the recorder.
pub unsafe extern "C" fn after_fork_in_child() {
    // SAFETY: there is one thread, and signals are blocked.
    unsafe {
        if !recording() {
            return;
        }
        let _blocked = Blocked::all();
        let (pid, seq) = arena::session_pid_seq();
        let was = state();
        let vt = match FORK_VT.swap(NONE as u64, Relaxed) {
            vt if vt == NONE as u64 => core_thread::latest(),
            vt => vt,
        };
        core_thread::reset_after_fork();
        set_current(dummy());
        set_state(BUSY);
        counting::reset_after_fork(asleep::count);
        let open = arena::open(&settings(), pid, seq, vt);
        set_state(NEW);
        if open && was != ENDED {
            counting::describe();
            register(Birth { vt, ..Birth::unknown() });
        }
    }
}

/// What the environment said about this recording when the program began.
fn settings() -> Settings {
    // SAFETY: the state is the calling thread's.
    unsafe {
        Settings {
            dir: exec::kept(exec::SESSION),
            mem_max: sys::number(exec::kept(exec::MEM_MAX)).unwrap_or(1 << 30),
            operations: sys::number(exec::kept(exec::OPERATIONS)) != Some(0),
            thread_start: crate::interpose::thread_start(),
        }
    }
}

/// Sets up the recording; the first of constructor, `__tsan_init` and thread creation does it.
///
/// # Safety
/// None but that libc is loaded.
pub unsafe fn init() {
    static ONCE: AtomicU32 = AtomicU32::new(0);
    // SAFETY: signals are blocked, and one thread gets here once.
    unsafe {
        if ONCE.load(Relaxed) != 0 || ONCE.swap(1, AcqRel) != 0 {
            return;
        }
        let _blocked = Blocked::all();
        crate::interpose::resolve();
        crate::signals::resolve();
        exec::keep();
        if !exec::is_wanted() {
            asleep::sleep();
            return;
        }
        if !probe::calls_are_safe() {
            return;
        }
        let settings = settings();
        let vt = processes::clock_of_the_start(&settings);
        if !arena::open(&settings, 0, 0, vt) {
            return;
        }
        // What libc calls meanwhile (its own `calloc` for keys) registers no thread yet.
        set_state(BUSY);
        marks::begin();
        crate::keys::make();
        set_state(NEW);
        let child = Some(after_fork_in_child as unsafe extern "C" fn());
        let dso = core::ptr::null_mut();
        sys::__register_atfork(Some(before_fork), Some(after_fork_in_parent), child, dso);
        let (lo, hi) = main_stack();
        register(Birth { vt, stack: (lo, hi), ..Birth::unknown() });
    }
}

/// Where the name of the executed file stands: above all else of the main thread's stack.
const AT_EXECFN: u64 = 31;

/// The main thread's stack as far as it may grow.
///
/// # Safety
/// Called in the main thread.
unsafe fn main_stack() -> (u64, u64) {
    let mut lim = [8u64 << 20; 2];
    // SAFETY: the kernel writes two numbers; libc has what the kernel told before any code runs.
    unsafe {
        sys::call(sys::SYS_prlimit64, 0, 3, 0, lim.as_mut_ptr() as usize, 0, 0);
        // Not `__libc_stack_end`: that is the loader's, and GNU ld with LTO does not look there.
        let top = match sys::getauxval(AT_EXECFN) {
            0 => &raw const lim as u64 + (1 << 20),
            name => name + 4096,
        };
        let hi = top & !4095;
        (hi.saturating_sub(lim[0].min(1 << 30)), hi)
    }
}
