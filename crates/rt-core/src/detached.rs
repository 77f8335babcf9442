//! Threads that nobody joins: nobody learns of their end, and those of a server that starts one for each connection
//! would all seem to run at once. A thread whose creator waited meanwhile (slept, accepted a connection) begins after
//! all detached ones that had ended by then. Where it did not wait, only the scheduler put one before the other.

use crate::sys;
use crate::thread::{Entered, clock, latest_of};
use crate::wire::*;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Clock at which the latest of them stopped; 0 if none did.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Thread pointers of those that were detached before they ran for the first time.
static EARLY: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

fn early(tp: u64) -> &'static AtomicU64 {
    &EARLY[(tp >> 12) as usize % EARLY.len()]
}

/// No thread of a forked child is of its parent.
pub fn reset_after_fork() {
    ENDED.store(0, Relaxed);
}

/// The thread with this thread pointer is joined by nobody.
///
/// # Safety
/// The header is mapped.
pub unsafe fn detached(_: &Entered, tp: u64) {
    early(tp).store(tp, SeqCst);
    // SAFETY: the caller's promise; what is found is in the list, and what others write of it are atomics.
    unsafe {
        let Some(info) = latest_of(tp) else { return };
        // One that has ended may be an earlier one, whose stack the new one has.
        if AtomicU32::from_ptr(&raw mut (*info).live).load(SeqCst) != 0 {
            early(tp).store(0, SeqCst);
        }
        flag(info).store(1, SeqCst);
        ended(info)
    }
}

/// A thread has begun.
///
/// # Safety
/// `info` is the calling thread's, and in the list.
pub(crate) unsafe fn begun(info: *mut ThreadInfo) {
    // SAFETY: the caller's promise.
    unsafe {
        let tp = (*info).tp;
        if early(tp).compare_exchange(tp, 0, SeqCst, Relaxed).is_ok() {
            flag(info).store(1, SeqCst);
        }
    }
}

/// A thread's clock stopped, if it did, and nobody joins it, if so.
///
/// # Safety
/// `info` is in the list of threads.
pub unsafe fn ended(info: *mut ThreadInfo) {
    // SAFETY: the caller's promise; both are atomics.
    unsafe {
        let stopped = AtomicU32::from_ptr(&raw mut (*info).live).load(SeqCst) == 0;
        if stopped && flag(info).load(SeqCst) != 0 {
            ENDED.fetch_max(clock(info), Relaxed);
        }
    }
}

/// The clock behind which a thread begins that the calling one is about to create; 0 if there is none.
pub(crate) fn before(entered: &Entered) -> u64 {
    let waits = waits();
    // SAFETY: the calling thread's own description.
    let known =
        unsafe { core::mem::replace(&mut (*((*entered.live()).info_at as *mut ThreadInfo)).waits, waits) };
    if waits > known { ENDED.load(Relaxed) } else { 0 }
}

/// # Safety
/// `info` is in the list of threads.
unsafe fn flag<'a>(info: *mut ThreadInfo) -> &'a AtomicU32 {
    // SAFETY: the caller's promise; descriptions stay in the mapping.
    unsafe { AtomicU32::from_ptr(&raw mut (*info).detached) }
}

/// How often the calling thread gave the CPU away to wait, as the kernel counts; 0 if it does not say.
fn waits() -> u64 {
    const THREAD: usize = 1;
    /// Of `struct rusage`, in numbers of 8 bytes.
    const SIZE: usize = 18;
    const VOLUNTARY_SWITCHES: usize = 16;
    let mut usage = [0u64; SIZE];
    // SAFETY: the kernel writes as many bytes as there are.
    unsafe { sys::call3(sys::SYS_getrusage, THREAD, usage.as_mut_ptr() as usize, 0) };
    usage[VOLUNTARY_SWITCHES]
}
