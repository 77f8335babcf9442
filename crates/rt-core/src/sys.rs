//! System calls. Nothing here touches `errno`.
#![allow(non_upper_case_globals)]

pub use crate::arch::die;

pub const SYS_open: usize = 2;
pub const SYS_close: usize = 3;
pub const SYS_read: usize = 0;
pub const SYS_mmap: usize = 9;
pub const SYS_munmap: usize = 11;
pub const SYS_sched_yield: usize = 24;
pub const SYS_madvise: usize = 28;
pub const SYS_getpid: usize = 39;
pub const SYS_ftruncate: usize = 77;
pub const SYS_readlink: usize = 89;
pub const SYS_getppid: usize = 110;
pub const SYS_prctl: usize = 157;
pub const SYS_gettid: usize = 186;
pub const SYS_prlimit64: usize = 302;

/// A raw system call; the result is negative on errors.
#[inline(always)]
pub unsafe fn call(n: usize, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    unsafe { crate::arch::call(n, [a, b, c, d, e, f]) }
}

pub unsafe fn call3(n: usize, a: usize, b: usize, c: usize) -> isize {
    unsafe { call(n, a, b, c, 0, 0, 0) }
}

pub fn yield_cpu() {
    unsafe { call3(SYS_sched_yield, 0, 0, 0) };
}

pub fn getpid() -> u32 {
    unsafe { call3(SYS_getpid, 0, 0, 0) as u32 }
}

pub fn gettid() -> u32 {
    unsafe { call3(SYS_gettid, 0, 0, 0) as u32 }
}

/// The limit on file sizes, bytes.
pub fn file_size_limit() -> u64 {
    let mut lim = [u64::MAX; 2];
    unsafe { call(SYS_prlimit64, 0, 1, 0, lim.as_mut_ptr() as usize, 0, 0) };
    lim[0]
}

/// A spin lock that yields: held for a few instructions only, so it need not sleep.
pub struct Spin(core::sync::atomic::AtomicU32);

impl Spin {
    pub const fn new() -> Spin {
        Spin(core::sync::atomic::AtomicU32::new(0))
    }
    pub fn lock(&self) {
        use core::sync::atomic::Ordering::*;
        let mut n = 0u32;
        while self.0.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            n += 1;
            if n > 64 {
                yield_cpu();
            } else {
                core::hint::spin_loop();
            }
        }
    }
    pub fn unlock(&self) {
        self.0.store(0, core::sync::atomic::Ordering::Release);
    }
    /// In a forked child nobody else is left who could hold it.
    pub fn reset(&self) {
        self.unlock();
    }
}
