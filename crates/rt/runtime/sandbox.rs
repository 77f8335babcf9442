//! What programs ask of the system and the recorder must follow: where they give up system calls (seccomp) it makes
//! none; where they lock all memory its own stays out of it. And what the kernel does to memory unseen.

use crate::arch::{alias, syscall_stub};
use crate::arena;
use crate::interpose::P;
use crate::libc_calls::{call, next_all};
use crate::{sys, waits};
use crate::wire::LOST_KERNEL;
use core::ffi::{c_int, c_long};

next_all! { ALL: PRCTL = "prctl"; SYSCALL = "syscall"; MLOCKALL = "mlockall"; }

/// Resolves the functions behind.
///
/// # Safety
/// Called where looking up is allowed.
pub unsafe fn resolve() {
    for n in ALL {
        n.find();
    }
}

const PR_SET_SECCOMP: c_long = 22;

alias! { "prctl" => "tussle_prctl"; "mlockall" => "tussle_mlockall"; }
// A call that does not concern the recorder goes on to the real function with all that it has.
syscall_stub!("syscall", tussle_find_syscall, tussle_syscall);

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_find_syscall() -> P {
    SYSCALL.get()
}

/// # Safety
/// As `prctl`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_prctl(op: c_int, a: c_long, b: c_long, c: c_long, d: c_long) -> c_int {
    // SAFETY: the arguments go on as they came.
    unsafe {
        let go = || call!(PRCTL, (op => c_int, a => c_long, b => c_long, c => c_long, d => c_long) -> c_int);
        if op as c_long != PR_SET_SECCOMP {
            return go();
        }
        arena::before_sandbox();
        let r = go();
        arena::after_sandbox(r == 0);
        r
    }
}

/// `syscall` with a number that concerns the recorder.
///
/// # Safety
/// As `syscall`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_syscall(
    n: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    /// `SECCOMP_SET_MODE_STRICT` and `_FILTER`; other operations only ask.
    const SET_MODES: [c_long; 2] = [0, 1];
    /// `FUTEX_WAIT` and `FUTEX_WAIT_BITSET`, without flags.
    const FUTEX_WAITS: [c_long; 2] = [0, 9];
    const FUTEX_OPERATION: c_long = 127;
    // SAFETY: the arguments go on as they came.
    unsafe {
        let go = || {
            type L = c_long;
            call!(SYSCALL, (n => L, a => L, b => L, c => L, d => L, e => L, f => L) -> L)
        };
        if n as usize == sys::SYS_futex && FUTEX_WAITS.contains(&(b & FUTEX_OPERATION)) {
            waits::asleep_for(a as u64);
        }
        let sets = match n as usize {
            sys::SYS_seccomp => SET_MODES.contains(&a),
            sys::SYS_prctl => a == PR_SET_SECCOMP,
            _ => false,
        };
        if sets {
            arena::before_sandbox();
        }
        let r = go();
        if sets {
            arena::after_sandbox(r >= 0);
        }
        if n as usize == sys::SYS_io_uring_setup && r >= 0 {
            arena::lost(LOST_KERNEL, 1);
        }
        r
    }
}

/// Locked memory counts against a limit: the recorder's must not take the program's part of it.
///
/// # Safety
/// As `mlockall`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mlockall(flags: c_int) -> c_int {
    // SAFETY: the argument goes on as it came.
    unsafe {
        let r = call!(MLOCKALL, (flags => c_int) -> c_int);
        if r == 0 {
            arena::unlock();
        }
        r
    }
}
