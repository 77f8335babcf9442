//! The threads, mutexes and conditions of C11. In glibc they are those of pthreads under other names, called from
//! inside where nobody can stand in front.

use crate::arch::{alias, stub};
use crate::arena::recording;
use crate::interpose::{P, after_join, before_detach, created, started};
use crate::libc_calls::{call, next_all};
use crate::locks::{cond_wait, mutex_given_back, mutex_tried, mutex_wanted, seen};
use crate::wire::*;
use crate::sync;
use core::ffi::c_int;

next_all! {
    ALL:
    CREATE = "thrd_create"; JOIN = "thrd_join"; DETACH = "thrd_detach"; LOCK = "mtx_lock"; TRYLOCK = "mtx_trylock";
    TIMEDLOCK = "mtx_timedlock"; UNLOCK = "mtx_unlock"; DESTROY = "mtx_destroy"; WAIT = "cnd_wait";
    TIMEDWAIT = "cnd_timedwait"; SIGNAL = "cnd_signal"; BROADCAST = "cnd_broadcast"; YIELD = "thrd_yield";
}

/// Resolves the functions behind.
///
/// # Safety
/// Called where looking up is allowed.
pub unsafe fn resolve() {
    for n in ALL {
        n.find();
    }
}

stub! {
    "thrd_create" => "tussle_thrd_create", "rcx";
    "mtx_lock" => "tussle_mtx_lock", "rsi";
    "mtx_trylock" => "tussle_mtx_trylock", "rsi";
    "mtx_timedlock" => "tussle_mtx_timedlock", "rdx";
    "mtx_unlock" => "tussle_mtx_unlock", "rsi";
    "cnd_wait" => "tussle_cnd_wait", "rdx";
    "cnd_timedwait" => "tussle_cnd_timedwait", "rcx";
    "cnd_signal" => "tussle_cnd_signal", "rsi";
    "cnd_broadcast" => "tussle_cnd_broadcast", "rsi";
}
alias! {
    "thrd_join" => "tussle_thrd_join";
    "thrd_detach" => "tussle_thrd_detach";
    "mtx_destroy" => "tussle_mtx_destroy";
    "thrd_yield" => "tussle_thrd_yield";
}

/// # Safety
/// As `thrd_create`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_thrd_create(th: *mut u64, f: P, arg: P, pc: u64) -> c_int {
    // SAFETY: the function behind gets the arguments as they came, or ours that calls them. What the routine returns is
    // the low half of what ours does.
    unsafe {
        let recorded = started(core::ptr::null_mut(), f, arg, pc);
        let (f, arg) = recorded.unwrap_or((f, arg));
        created(recorded.is_some(), call!(CREATE, (th => *mut u64, f => P, arg => P) -> c_int))
    }
}

/// # Safety
/// As `thrd_join`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_thrd_join(th: u64, out: *mut c_int) -> c_int {
    // SAFETY: the function behind gets the arguments as they came.
    unsafe {
        sync::joining();
        after_join(th, call!(JOIN, (th => u64, out => *mut c_int) -> c_int))
    }
}

/// # Safety
/// As `thrd_detach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_thrd_detach(th: u64) -> c_int {
    before_detach(th);
    // SAFETY: the function behind gets the argument as it came.
    unsafe { call!(DETACH, (th => u64) -> c_int) }
}

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_thrd_yield() {
    crate::waits::yielding();
    // SAFETY: libc's function.
    unsafe { call!(YIELD, () -> ()) }
}

/// # Safety
/// As `mtx_lock`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mtx_lock(m: P, pc: u64) -> c_int {
    // SAFETY: the function behind gets the arguments as they came.
    unsafe {
        mutex_wanted(&LOCK, m, pc, || call!(LOCK, (m => P) -> c_int))
    }
}

/// # Safety
/// As `mtx_trylock`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mtx_trylock(m: P, pc: u64) -> c_int {
    // SAFETY: the function behind gets the arguments as they came.
    unsafe {
        mutex_tried(m, call!(TRYLOCK, (m => P) -> c_int), pc)
    }
}

/// # Safety
/// As `mtx_timedlock`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mtx_timedlock(m: P, t: P, pc: u64) -> c_int {
    // SAFETY: the function behind gets the arguments as they came.
    unsafe {
        mutex_wanted(&TIMEDLOCK, m, pc, || call!(TIMEDLOCK, (m => P, t => P) -> c_int))
    }
}

/// # Safety
/// As `mtx_unlock`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mtx_unlock(m: P, pc: u64) -> c_int {
    // SAFETY: the function behind gets the arguments as they came.
    unsafe {
        mutex_given_back(m, pc);
        call!(UNLOCK, (m => P) -> c_int)
    }
}

/// # Safety
/// As `mtx_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mtx_destroy(m: P) {
    sync::forget(m as u64);
    // SAFETY: the function behind gets the arguments as they came.
    unsafe { call!(DESTROY, (m => P) -> ()) }
}

/// # Safety
/// As `cnd_wait`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cnd_wait(c: P, m: P, pc: u64) -> c_int {
    // SAFETY: the function behind gets the arguments as they came.
    unsafe { cond_wait(c, m, pc, || call!(WAIT, (c => P, m => P) -> c_int)) }
}

/// # Safety
/// As `cnd_timedwait`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cnd_timedwait(c: P, m: P, t: P, pc: u64) -> c_int {
    // SAFETY: the function behind gets the arguments as they came.
    unsafe { cond_wait(c, m, pc, || call!(TIMEDWAIT, (c => P, m => P, t => P) -> c_int)) }
}

/// # Safety
/// As `cnd_signal`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cnd_signal(c: P, pc: u64) -> c_int {
    // SAFETY: the function behind gets the arguments as they came.
    unsafe {
        if recording() {
            seen(c, 8, RMW, pc);
            sync::cond_wake(c as u64, false);
        }
        call!(SIGNAL, (c => P) -> c_int)
    }
}

/// # Safety
/// As `cnd_broadcast`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cnd_broadcast(c: P, pc: u64) -> c_int {
    // SAFETY: the function behind gets the arguments as they came.
    unsafe {
        if recording() {
            seen(c, 8, RMW, pc);
            sync::cond_wake(c as u64, true);
        }
        call!(BROADCAST, (c => P) -> c_int)
    }
}
