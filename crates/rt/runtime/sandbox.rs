//! What programs ask of the system and the recorder must follow: where they give up system calls (seccomp, user
//! dispatch) it makes none; where they lock all memory its own stays out of it. And what the kernel
//! does to memory unseen.

use crate::arch::{alias, syscall_stub};
use crate::arena;
use crate::interpose::P;
use crate::libc_calls::{call, next_all};
use crate::wire::{LOST_KERNEL, WRITE};
use crate::{record, sys, vectors, waits};
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
/// System calls become signals: the recorder's would be the program's.
const PR_SET_SYSCALL_USER_DISPATCH: c_long = 59;

/// Whether a `prctl` takes system calls away.
fn takes_calls_away(op: c_long, a: c_long) -> bool {
    op == PR_SET_SECCOMP || op == PR_SET_SYSCALL_USER_DISPATCH && a != 0
}

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
        if !takes_calls_away(op as c_long, a) {
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
    /// `FUTEX_WAKE`, `_REQUEUE`, `_CMP_REQUEUE`, `_WAKE_OP` and `_WAKE_BITSET`.
    const FUTEX_WAKES: [c_long; 5] = [1, 3, 4, 5, 10];
    const FUTEX_OPERATION: c_long = 127;
    // SAFETY: the arguments go on as they came.
    unsafe {
        let go = || {
            type L = c_long;
            call!(SYSCALL, (n => L, a => L, b => L, c => L, d => L, e => L, f => L) -> L)
        };
        let mut asleep = None;
        if n as usize == sys::SYS_futex {
            match b & FUTEX_OPERATION {
                op if FUTEX_WAITS.contains(&op) => asleep = waits::sleeps(a as u64, c as u64),
                op if FUTEX_WAKES.contains(&op) => waits::wakes(a as u64, c as i32 > 1),
                _ => {}
            }
        }
        let sets = match n as usize {
            sys::SYS_seccomp => SET_MODES.contains(&a),
            sys::SYS_prctl => takes_calls_away(a, b),
            _ => false,
        };
        if sets {
            arena::before_sandbox();
        }
        let r = go();
        asleep.into_iter().for_each(|before| waits::woken(a as u64, before, r == 0));
        if sets {
            arena::after_sandbox(r >= 0);
        }
        if n as usize == sys::SYS_io_uring_setup && r >= 0 {
            arena::lost(LOST_KERNEL, 1);
        }
        let copied = match n as usize {
            sys::SYS_recvfrom => vectors::stored(r as isize, d as c_int),
            sys::SYS_recvmsg => vectors::stored(r as isize, c as c_int),
            _ => r as isize,
        };
        filled(n, b, c, copied as c_long);
        r
    }
}

/// Notes what a reading call put into memory. Its caller is told by the shadow stack.
///
/// # Safety
/// The kernel has just done the call, whose second and third argument are `to` and `count`.
unsafe fn filled(n: c_long, to: c_long, count: c_long, r: c_long) {
    if r <= 0 {
        return;
    }
    match n as usize {
        sys::SYS_read | sys::SYS_pread64 | sys::SYS_recvfrom => {
            // A datagram may have been longer than its room.
            record::range(to as u64, r.min(count) as u64, WRITE, 0);
        }
        // SAFETY: the caller's promise: places and messages that the kernel has read are read again.
        sys::SYS_readv | sys::SYS_preadv => unsafe { vectors::note(to as _, count as usize, r as isize, WRITE, 0) },
        // SAFETY: as before.
        sys::SYS_recvmsg => unsafe { vectors::note_message(to as _, r as isize, WRITE, 0) },
        _ => {}
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
