//! Waiting for other processes: what one did before it ended comes before what its parent does afterwards, as when a
//! thread is joined.

use crate::arch::alias;
use crate::arena::recording;
use crate::interpose::P;
use crate::libc_calls::{call, next_all};
use crate::sync;
use crate::thread;
use core::ffi::c_int;
use tussle_rt_core::processes::latest_of;

next_all! {
    ALL:
    WAIT = "wait"; WAITPID = "waitpid"; WAIT3 = "wait3"; WAIT4 = "wait4"; WAITID = "waitid"; CLONE = "clone";
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
    "wait" => "tussle_wait";
    "waitpid" => "tussle_waitpid";
    "wait3" => "tussle_wait3";
    "wait4" => "tussle_wait4";
    "waitid" => "tussle_waitid";
    "clone" => "tussle_clone";
}

/// Flags of `clone`, linux/sched.h.
const CLONE_VM: c_int = 0x100;
const CLONE_VFORK: c_int = 0x4000;
const CLONE_SETTLS: c_int = 0x8_0000;

/// `clone`. A child in the same memory, beside its parent and with its parent's thread pointer, would be the parent to
/// the recorder: two at once in one thread's structures. Nothing is recorded of either from here on.
///
/// # Safety
/// As `clone`; those of the last three arguments that the flags do not ask for may be anything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_clone(f: P, stack: P, flags: c_int, of: P, parent: P, tls: P, child: P) -> c_int {
    let one_for_two = flags & (CLONE_VM | CLONE_VFORK | CLONE_SETTLS) == CLONE_VM;
    // SAFETY: as the caller of the function that this stands in front of; it is not inside the recorder.
    unsafe {
        if one_for_two && recording() {
            thread::end();
        }
        call!(CLONE, (f => P, stack => P, flags => c_int, of => P, parent => P, tls => P, child => P) -> c_int)
    }
}

/// A child with this id has ended, or nobody has if it is not positive.
fn ended(pid: c_int) -> c_int {
    if pid > 0 && recording() {
        latest_of(pid as u32).into_iter().for_each(sync::joined);
    }
    pid
}

/// # Safety
/// As `waitpid`. A child that only stopped, or goes on, has not ended.
unsafe fn after(pid: c_int, status: *const c_int) -> c_int {
    // SAFETY: the kernel wrote the status where the program wanted it.
    let status = if pid > 0 && !status.is_null() { unsafe { *status } } else { 0 };
    let lives = status & 0xff == 0x7f || status == 0xffff;
    if lives { pid } else { ended(pid) }
}

/// # Safety
/// As `wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_wait(status: *mut c_int) -> c_int {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe { after(call!(WAIT, (status => *mut c_int) -> c_int), status) }
}

/// # Safety
/// As `waitpid`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe {
        let r = call!(WAITPID, (pid => c_int, status => *mut c_int, options => c_int) -> c_int);
        after(r, status)
    }
}

/// # Safety
/// As `wait3`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_wait3(status: *mut c_int, options: c_int, usage: P) -> c_int {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe {
        let r = call!(WAIT3, (status => *mut c_int, options => c_int, usage => P) -> c_int);
        after(r, status)
    }
}

/// # Safety
/// As `wait4`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_wait4(pid: c_int, status: *mut c_int, options: c_int, usage: P) -> c_int {
    // SAFETY: as the caller of the function that this stands in front of.
    unsafe {
        let r = call!(WAIT4, (pid => c_int, status => *mut c_int, options => c_int, usage => P) -> c_int);
        after(r, status)
    }
}

/// # Safety
/// As `waitid`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_waitid(kind: c_int, id: u32, info: *mut c_int, options: c_int) -> c_int {
    /// Words of `siginfo_t`: why, and which child.
    const CODE: usize = 2;
    const PID: usize = 4;
    /// CLD_EXITED, CLD_KILLED, CLD_DUMPED.
    const ENDED: core::ops::RangeInclusive<c_int> = 1..=3;
    // SAFETY: as the caller of the function that this stands in front of; the kernel wrote what is read.
    unsafe {
        let r = call!(WAITID, (kind => c_int, id => u32, info => *mut c_int, options => c_int) -> c_int);
        if r == 0 && !info.is_null() && ENDED.contains(&*info.add(CODE)) {
            ended(*info.add(PID));
        }
        r
    }
}
