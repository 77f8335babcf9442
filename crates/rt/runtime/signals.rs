//! The program's signal handlers: none runs while its thread is inside the recorder.
//!
//! Each handler is installed behind a wrapper ([`tussle_signal_decide`], called from `arch`). If the thread is inside
//! the recorder, the wrapper blocks all signals in the interrupted context, sends the signal to its own thread again
//! and returns; leaving the recorder unblocks them, and the kernel delivers the signal at the place where the program
//! called the recorder, with its own siginfo and a true context. So a handler may leave by `siglongjmp`, wait for ever
//! in `sigsuspend`, or call whatever it wants: the recorder's state is whole, and its locks are free.

use crate::arch::{alias, current};
use crate::arena::recording;
use crate::interpose::P;
use crate::libc_calls::{call, next};
use crate::{sys, thread};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use tussle_rt_core::thread as core_thread;
use tussle_rt_core::wire::Live;

const SIGNALS: usize = 65;
const SIG_IGN: usize = 1;
const SIG_HOLD: usize = 2;
const SIG_ERR: usize = usize::MAX;
const SA_SIGINFO: u32 = 4;
const SA_RESTART: u32 = 0x1000_0000;
const SA_INTERRUPT: u32 = 0x2000_0000;
const SA_NODEFER: u32 = 0x4000_0000;
const SA_RESETHAND: u32 = 0x8000_0000;
/// Flags with which the wrapper is installed whatever the program says.
const CHANGED: u32 = SA_SIGINFO | SA_RESETHAND;
/// Signals that the program's own instructions raise: SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS.
const RAISED: u64 = bit(4) | bit(5) | bit(7) | bit(8) | bit(11) | bit(31);
/// SIGKILL and SIGSTOP have no handler; 32 and 33 are libc's own.
const NOT_OURS: u64 = bit(9) | bit(19) | bit(32) | bit(33);
/// First signal that queues.
const REAL_TIME: c_int = 34;
/// Where a signal's frame keeps the mask that returning from the handler restores: `ucontext_t.uc_sigmask`.
const UC_SIGMASK: usize = 296;
/// Upper half of the `si_errno` of a signal that is sent again with another `si_code`, which the lower half keeps.
const KEEPS_CODE: u32 = 0x5455;
/// `saved_signal` has this bit where nothing waits that stands for it: the limit on queued signals is reached.
const ALONE: u32 = 1 << 31;
/// `si_errno` of a signal that only says that an earlier one waits in `Live::saved`.
const STANDS_FOR_SAVED: u32 = 0x7455_534c;

const fn bit(sig: u32) -> u64 {
    1 << (sig - 1)
}

/// `struct sigaction` of glibc.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Action {
    handler: usize,
    mask: [u64; 16],
    flags: u32,
    pad: u32,
    restorer: usize,
}

const NO_ACTION: Action = Action { handler: 0, mask: [0; 16], flags: 0, pad: 0, restorer: 0 };

/// Handlers of the program, and the flags that it gave.
struct Wanted {
    handler: AtomicUsize,
    flags: AtomicU32,
}

static WANTED: [Wanted; SIGNALS] =
    [const { Wanted { handler: AtomicUsize::new(0), flags: AtomicU32::new(0) } }; SIGNALS];
/// Signals that interrupt system calls even if their handler is installed by `signal`.
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

next! {
    pub SIGACTION = "sigaction"; pub SIGNAL = "signal"; pub SYSV_SIGNAL = "sysv_signal"; pub SIGSET = "sigset";
    pub SIGINTERRUPT = "siginterrupt"; pub SETCANCELTYPE = "pthread_setcanceltype";
}
alias! {
    "sigaction" => "tussle_sigaction";
    "__sigaction" => "tussle_sigaction";
    "signal" => "tussle_bsd_signal";
    "bsd_signal" => "tussle_bsd_signal";
    "ssignal" => "tussle_bsd_signal";
    "sysv_signal" => "tussle_sysv_signal";
    "__sysv_signal" => "tussle_sysv_signal";
    "sigset" => "tussle_sigset";
    "siginterrupt" => "tussle_siginterrupt";
    "pthread_setcanceltype" => "tussle_setcanceltype";
}

/// Looks up what may be called in handlers.
pub fn resolve() {
    for n in [&SIGACTION, &SIGNAL, &SYSV_SIGNAL, &SIGSET, &SIGINTERRUPT, &SETCANCELTYPE] {
        n.find();
    }
}

unsafe extern "C" {
    /// In `arch`: asks [`tussle_signal_decide`], then goes on to the handler as if the kernel had called it.
    fn tussle_signal();
}

fn wrapper() -> usize {
    tussle_signal as *const () as usize
}

fn wanted(sig: c_int) -> Option<&'static Wanted> {
    let ours = (1..SIGNALS as c_int).contains(&sig) && NOT_OURS & bit(sig as u32) == 0;
    if ours { WANTED.get(sig as usize) } else { None }
}

/// The handler of a signal that has come, or 0 if the thread is inside the recorder: then the signal comes again.
///
/// # Safety
/// Called by the kernel's frame for a handler installed with SA_SIGINFO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_signal_decide(sig: c_int, info: *mut u32, context: *mut u8) -> usize {
    let Some(w) = wanted(sig) else { return 0 };
    // SAFETY: the kernel's siginfo; the thread's own state.
    unsafe {
        let t = current();
        let raised = RAISED & bit(sig as u32) != 0 && *info.add(2) as c_int > 0;
        if !thread::is_dummy(t) {
            if core_thread::inside(t) && !raised && deferred(t, sig, info, context) {
                return 0;
            }
            if sig == ((*t).saved_signal & !ALONE) as c_int {
                take_turns(t, info);
            }
            restore_code(info);
        }
        if w.flags.load(Relaxed) & SA_RESETHAND != 0 {
            reset(sig, w);
        }
        w.handler.load(Acquire)
    }
}

/// Has the signal come again when the thread leaves the recorder. False if it cannot be queued.
///
/// # Safety
/// `t` is the calling thread's; `info` and `context` are the kernel's for the handler that runs.
unsafe fn deferred(t: *mut Live, sig: c_int, info: *mut u32, context: *mut u8) -> bool {
    // SAFETY: `info` and `context` are the kernel's for this handler.
    unsafe {
        // A handler with SA_NODEFER would be entered again at once.
        let Some(blocked) = sys::block_signals() else { return false };
        let mut again = *(info as *const [u32; 32]);
        if sig < REAL_TIME {
            keep_code(&mut again);
        }
        let save = sig >= REAL_TIME && (*t).saved_signal == 0;
        if save {
            // Others of this signal may be queued already, and must not come before this one.
            (*t).saved = again;
            again[1] = STANDS_FOR_SAVED;
        }
        let (pid, tid) = (sys::getpid() as usize, sys::gettid() as usize);
        let send = |what: &[u32; 32]| {
            let at = &raw const *what as usize;
            sys::call(sys::SYS_rt_tgsigqueueinfo, pid, tid, sig as usize, at, 0, 0)
        };
        let mut alone = 0;
        let mut sent = send(&again);
        if sent < 0 && save {
            // No room in the queue: a signal as `kill` sends it comes all the same, without its siginfo.
            (again[1], again[2], alone) = (0, SI_USER, ALONE);
            sent = send(&again);
        }
        if sent < 0 {
            sys::set_signal_mask(blocked);
            return false;
        }
        if save {
            (*t).saved_signal = sig as u32 | alone;
        }
        core_thread::defer(t, context.add(UC_SIGMASK).cast(), RAISED & !bit(sig as u32));
        true
    }
}

const SI_USER: u32 = 0;

/// Gives a signal that does not queue the code of `kill`: the kernel then finds room for its siginfo whatever
/// RLIMIT_SIGPENDING says, as it does for the timer or the kernel's own that came first. The true code is kept.
fn keep_code(info: &mut [u32; 32]) {
    if info[1] == 0 && info[2] as i32 == i32::from(info[2] as i16) {
        info[1] = KEEPS_CODE << 16 | info[2] & 0xffff;
        info[2] = SI_USER;
    }
}

/// # Safety
/// `info` is the kernel's for the handler that runs.
unsafe fn restore_code(info: *mut u32) {
    // SAFETY: the caller's promise: `si_errno` and `si_code` are its second and third word.
    unsafe {
        if *info.add(1) >> 16 == KEEPS_CODE && *info.add(2) == SI_USER {
            *info.add(2) = i32::from(*info.add(1) as i16) as u32;
            *info.add(1) = 0;
        }
    }
}

/// The signal that was saved is first, this one waits for the next turn; the one that stands for it is the last.
///
/// # Safety
/// `t` is the calling thread's; `info` is the kernel's for the handler that runs.
unsafe fn take_turns(t: *mut Live, info: *mut u32) {
    // SAFETY: the kernel's siginfo has 128 bytes.
    unsafe {
        let info = info as *mut [u32; 32];
        let alone = (*t).saved_signal & ALONE != 0;
        // Without room in the queue it comes without a sender.
        let last = if alone { (*info)[2] == SI_USER && (*info)[4] == 0 } else { (*info)[1] == STANDS_FOR_SAVED };
        core::ptr::swap(info, &raw mut (*t).saved);
        if last {
            (*t).saved_signal = 0;
        }
    }
}

/// What SA_RESETHAND asks for; the kernel would do it for the wrapper before a signal is known to be deferred.
///
/// # Safety
/// None: a number that is no signal is an error of libc.
unsafe fn reset(sig: c_int, w: &Wanted) {
    let mut a = NO_ACTION;
    // SAFETY: two valid structures.
    unsafe {
        real(sig, core::ptr::null(), &mut a);
        a.handler = 0;
        a.flags = a.flags & !CHANGED | w.flags.load(Relaxed) & CHANGED;
        real(sig, &a, core::ptr::null_mut());
    }
}

/// # Safety
/// As `sigaction`.
unsafe fn real(sig: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: libc's function, arguments as the caller's.
    unsafe { call!(SIGACTION, (sig => c_int, new => *const Action, old => *mut Action) -> c_int) }
}

/// `sigaction`.
///
/// # Safety
/// As `sigaction`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sigaction(sig: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: pointers are the program's own; libc's function reads the same bytes.
    unsafe {
        thread::init();
        let Some(w) = wanted(sig) else { return real(sig, new, old) };
        let (handler, flags) = (w.handler.load(Acquire), w.flags.load(Relaxed));
        let mut mine;
        let mut given = new;
        if !new.is_null() && (*new).handler > SIG_IGN && (*new).handler != wrapper() && recording() {
            mine = *new;
            w.flags.store(mine.flags, Relaxed);
            w.handler.store(mine.handler, Release);
            mine.handler = wrapper();
            mine.flags = mine.flags & !CHANGED | SA_SIGINFO;
            given = &mine;
        }
        let r = real(sig, given, old);
        if r == 0 && !old.is_null() && (*old).handler == wrapper() {
            (*old).handler = handler;
            (*old).flags = (*old).flags & !CHANGED | flags & CHANGED;
        }
        r
    }
}

/// Installs a handler as `signal` and its relatives do; the one before.
///
/// # Safety
/// `handler` is a function for that signal.
unsafe fn install(sig: c_int, handler: usize, mask: u64, flags: u32) -> usize {
    let mut new = Action { handler, flags, ..NO_ACTION };
    new.mask[0] = mask;
    let mut old = NO_ACTION;
    // SAFETY: two valid structures.
    if unsafe { tussle_sigaction(sig, &new, &mut old) } == 0 { old.handler } else { SIG_ERR }
}

/// What libc says about the handler before: never the wrapper.
fn told(sig: c_int, handler: usize) -> usize {
    match wanted(sig) {
        Some(w) if handler == wrapper() => w.handler.load(Acquire),
        _ => handler,
    }
}

fn is_handler(sig: c_int, handler: usize) -> bool {
    recording() && wanted(sig).is_some() && handler > SIG_HOLD && handler != SIG_ERR
}

/// `signal`.
///
/// # Safety
/// As `signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_bsd_signal(sig: c_int, handler: usize) -> usize {
    // SAFETY: as the caller.
    unsafe {
        thread::init();
        if !is_handler(sig, handler) {
            return told(sig, call!(SIGNAL, (sig => c_int, handler => usize) -> usize));
        }
        let own = bit(sig as u32);
        let flags = if INTERRUPTS.load(Relaxed) & own != 0 { 0 } else { SA_RESTART };
        install(sig, handler, own, flags)
    }
}

/// `sysv_signal`: what `signal` means under `_XOPEN_SOURCE`.
///
/// # Safety
/// As `sysv_signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sysv_signal(sig: c_int, handler: usize) -> usize {
    // SAFETY: as the caller.
    unsafe {
        thread::init();
        if !is_handler(sig, handler) {
            return told(sig, call!(SYSV_SIGNAL, (sig => c_int, handler => usize) -> usize));
        }
        install(sig, handler, 0, SA_RESETHAND | SA_NODEFER | SA_INTERRUPT)
    }
}

/// `sigset`.
///
/// # Safety
/// As `sigset`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sigset(sig: c_int, handler: usize) -> usize {
    // SAFETY: as the caller; the masks are ours.
    unsafe {
        thread::init();
        if !is_handler(sig, handler) {
            return told(sig, call!(SIGSET, (sig => c_int, handler => usize) -> usize));
        }
        let before = install(sig, handler, 0, 0);
        const SIG_UNBLOCK: usize = 1;
        let own = bit(sig as u32);
        let blocked = sys::change_signal_mask(SIG_UNBLOCK, own);
        if before != SIG_ERR && blocked & own != 0 { SIG_HOLD } else { before }
    }
}

/// `siginterrupt`.
///
/// # Safety
/// As `siginterrupt`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_siginterrupt(sig: c_int, on: c_int) -> c_int {
    // SAFETY: as the caller.
    let r = unsafe { call!(SIGINTERRUPT, (sig => c_int, on => c_int) -> c_int) };
    if r == 0 && wanted(sig).is_some() {
        match on {
            0 => INTERRUPTS.fetch_and(!bit(sig as u32), Relaxed),
            _ => INTERRUPTS.fetch_or(bit(sig as u32), Relaxed),
        };
    }
    r
}

/// `pthread_setcanceltype`: a thread that can be cancelled at any instruction blocks signals inside the recorder.
///
/// # Safety
/// As `pthread_setcanceltype`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_setcanceltype(kind: c_int, old: P) -> c_int {
    const ASYNCHRONOUS: c_int = 1;
    // SAFETY: as the caller; the state is the calling thread's.
    unsafe {
        if kind == ASYNCHRONOUS {
            thread::set_asynchronous(true);
        }
        let r = call!(SETCANCELTYPE, (kind => c_int, old => P) -> c_int);
        if r == 0 && kind != ASYNCHRONOUS {
            thread::set_asynchronous(false);
        }
        r
    }
}
