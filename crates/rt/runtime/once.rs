//! `pthread_once`, C11's `call_once`, and the guards of static variables in C++'s functions.

use crate::arch::{alias, current};
use crate::interpose::{P, YIELD};
use crate::libc_calls::{call, next_all};
use crate::events::once as event;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};

next_all! {
    ALL:
    ONCE = "pthread_once"; CALL_ONCE = "call_once";
    ACQUIRE = "__cxa_guard_acquire"; RELEASE = "__cxa_guard_release"; ABORT = "__cxa_guard_abort";
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

alias! {
    "pthread_once" => "tussle_once";
    "call_once" => "tussle_call_once";
    "__cxa_guard_acquire" => "tussle_guard_acquire";
    "__cxa_guard_release" => "tussle_guard_release";
    "__cxa_guard_abort" => "tussle_guard_abort";
}

type Routine = unsafe extern "C" fn();

/// What a thread is about to do once, if it is the first. On its stack while the function behind runs.
struct Once {
    control: u64,
    routine: Routine,
}

/// Does what the thread came for, as the first one.
///
/// # Safety
/// Called by the function behind, in [`once`].
unsafe extern "C" fn first() {
    // SAFETY: only called by the function behind, for the thread that set this before; the routine is the program's.
    unsafe {
        let once = (*current()).once as *const Once;
        let (control, routine) = ((*once).control, (*once).routine);
        event::begins(control);
        routine();
        event::ends(control);
    }
}

/// Calls a function `behind` with the routine, or with [`first`], which calls it. What it throws passes through, and
/// leaves a pointer that is set anew before it is looked at.
///
/// # Safety
/// `control` is the program's object of the kind that `behind` takes.
unsafe fn once(control: P, routine: Routine, mut behind: impl FnMut(Routine)) {
    // SAFETY: the state is the calling thread's.
    unsafe {
        let Some(t) = event::recorded() else { return behind(routine) };
        let outer = (*t).once;
        let once = Once { control: control as u64, routine };
        (*t).once = &raw const once as u64;
        behind(first);
        (*t).once = outer;
        event::passes(control as u64);
    }
}

/// # Safety
/// As `pthread_once`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_once(control: P, routine: Routine) -> c_int {
    let mut result = 0;
    // SAFETY: the function behind gets the control as it came, and a routine that calls the program's.
    unsafe { once(control, routine, |r| result = call!(ONCE, (control => P, r => Routine) -> c_int)) };
    result
}

/// # Safety
/// As `call_once`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_call_once(control: P, routine: Routine) {
    // SAFETY: the function behind gets the control as it came, and a routine that calls the program's.
    unsafe { once(control, routine, |r| call!(CALL_ONCE, (control => P, r => Routine) -> ())) }
}

/// # Safety
/// As `__cxa_guard_acquire`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_guard_acquire(guard: P) -> c_int {
    // SAFETY: the function behind gets the argument as it came.
    let first = unsafe {
        match ACQUIRE.known().is_null() {
            true => own::acquire(guard),
            false => call!(ACQUIRE, (guard => P) -> c_int),
        }
    };
    match first {
        0 => event::passes(guard as u64),
        _ => event::begins(guard as u64),
    }
    first
}

/// # Safety
/// As `__cxa_guard_release`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_guard_release(guard: P) {
    event::ends(guard as u64);
    // SAFETY: the function behind gets the argument as it came.
    unsafe {
        match RELEASE.known().is_null() {
            true => own::release(guard, 1),
            false => call!(RELEASE, (guard => P) -> ()),
        }
    }
}

/// # Safety
/// As `__cxa_guard_abort`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_guard_abort(guard: P) {
    // SAFETY: the function behind gets the argument as it came.
    unsafe {
        match ABORT.known().is_null() {
            true => own::release(guard, 0),
            false => call!(ABORT, (guard => P) -> ()),
        }
    }
}

/// Guards of a program that is linked to the C++ library as an archive: the names above are there already, so that the
/// linker did not take the library's. To look for what is not there would leave an error for the program to find
/// (`dlerror`), so it is asked what [`resolve`] found. Of a guard's eight bytes the first one says that it is done
/// (Itanium C++ ABI, 3.3.3); the last four are ours.
mod own {
    use super::*;

    /// # Safety
    /// `guard` is one of the program's.
    unsafe fn words<'a>(guard: P) -> (&'a AtomicU8, &'a AtomicU32) {
        // SAFETY: the caller's promise: eight bytes, aligned to eight.
        unsafe { (AtomicU8::from_ptr(guard.cast()), AtomicU32::from_ptr(guard.byte_add(4).cast())) }
    }

    /// # Safety
    /// `guard` is one of the program's.
    pub unsafe fn acquire(guard: P) -> c_int {
        // SAFETY: the caller's promise.
        let (done, busy) = unsafe { words(guard) };
        while done.load(Acquire) == 0 {
            if busy.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
                if done.load(Acquire) == 0 {
                    return 1;
                }
                busy.store(0, Release);
            } else {
                // SAFETY: libc's function.
                unsafe { call!(YIELD, () -> c_int) };
            }
        }
        0
    }

    /// # Safety
    /// `guard` is one that the calling thread acquired.
    pub unsafe fn release(guard: P, is_done: u8) {
        // SAFETY: the caller's promise.
        let (done, busy) = unsafe { words(guard) };
        done.store(is_done, Release);
        busy.store(0, Release);
    }
}
