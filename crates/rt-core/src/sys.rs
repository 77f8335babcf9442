//! System calls. Nothing here touches `errno`.
#![allow(non_upper_case_globals)]

pub use crate::arch::die;
use crate::thread::Entered;
use core::sync::atomic::{AtomicU32, Ordering::*};

const SIG_SETMASK: usize = 2;

/// Numbers of system calls on x86-64.
#[allow(missing_docs)]
mod numbers {
    pub const SYS_open: usize = 2;
    pub const SYS_close: usize = 3;
    pub const SYS_fstat: usize = 5;
    pub const SYS_read: usize = 0;
    pub const SYS_readv: usize = 19;
    pub const SYS_poll: usize = 7;
    pub const SYS_rt_sigpending: usize = 127;
    pub const SYS_fcntl: usize = 72;
    pub const SYS_recvfrom: usize = 45;
    pub const SYS_recvmsg: usize = 47;
    pub const SYS_preadv: usize = 295;
    pub const SYS_rt_sigprocmask: usize = 14;
    pub const SYS_rt_tgsigqueueinfo: usize = 297;
    pub const SYS_futex: usize = 202;
    pub const SYS_mmap: usize = 9;
    pub const SYS_mprotect: usize = 10;
    pub const SYS_munmap: usize = 11;
    pub const SYS_unlink: usize = 87;
    pub const SYS_mremap: usize = 25;
    pub const SYS_pread64: usize = 17;
    pub const SYS_seccomp: usize = 317;
    pub const SYS_io_uring_setup: usize = 425;
    pub const SYS_sched_yield: usize = 24;
    pub const SYS_madvise: usize = 28;
    pub const SYS_getpid: usize = 39;
    pub const SYS_ftruncate: usize = 77;
    pub const SYS_readlink: usize = 89;
    pub const SYS_getppid: usize = 110;
    pub const SYS_prctl: usize = 157;
    pub const SYS_getrusage: usize = 98;
    pub const SYS_gettid: usize = 186;
    pub const SYS_prlimit64: usize = 302;
    pub const SYS_munlock: usize = 150;
    pub const SYS_openat: usize = 257;
    pub const SYS_clone: usize = 56;
    pub const SYS_wait4: usize = 61;
    pub const SYS_exit_group: usize = 231;
}
pub use numbers::*;

/// 1 from when the program put itself into a sandbox: a system call that it does not make itself may kill it.
static SILENT: AtomicU32 = AtomicU32::new(0);

/// Makes every later system call of the recorder fail without being made, or takes that back.
pub fn silence(on: bool) {
    SILENT.store(on as u32, SeqCst);
}

/// A raw system call; the result is negative on errors.
///
/// # Safety
/// As the system call: pointers among the arguments are valid for what the kernel does with them.
#[inline(always)]
pub unsafe fn call(n: usize, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    const EPERM: isize = 1;
    if SILENT.load(Relaxed) != 0 {
        return -EPERM;
    }
    // SAFETY: the caller's promise.
    unsafe { crate::arch::call(n, [a, b, c, d, e, f]) }
}

/// # Safety
/// As the system call: pointers among the arguments are valid for what the kernel does with them.
pub unsafe fn call3(n: usize, a: usize, b: usize, c: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { call(n, a, b, c, 0, 0, 0) }
}

/// Lets others run.
pub fn yield_cpu() {
    // SAFETY: a system call on memory of our own, or none.
    unsafe { call3(SYS_sched_yield, 0, 0, 0) };
}

/// Whether there is something to read from a descriptor, or reading fails at once.
pub fn readable(fd: i32) -> bool {
    const POLLIN: u64 = 1;
    let asked = fd as u32 as u64 | POLLIN << 32;
    // SAFETY: one `struct pollfd`, which the kernel writes to.
    unsafe { call3(SYS_poll, &raw const asked as usize, 1, 0) != 0 }
}

/// Which signals (bit 0 for signal 1) have come to the calling thread or its process and wait, being blocked.
pub fn pending() -> u64 {
    let mut set = 0u64;
    // SAFETY: the kernel writes eight bytes.
    unsafe { call3(SYS_rt_sigpending, &raw mut set as usize, size_of::<u64>(), 0) };
    set
}

/// What lies at an address that the program gives to the kernel, which may be wrong; eight bytes at most.
///
/// # Safety
/// Any bytes are a value of `T`.
pub unsafe fn peek<T: Copy>(addr: u64) -> Option<T> {
    const NO_CHANGE: usize = 99;
    const EINVAL: isize = -22;
    // The kernel reads the signals before it refuses what is to be done with them.
    // SAFETY: the caller's promise; an address that the kernel can read is valid.
    unsafe {
        let r = call(SYS_rt_sigprocmask, NO_CHANGE, addr as usize, 0, size_of::<u64>(), 0, 0);
        (addr != 0 && r == EINVAL && size_of::<T>() <= 8).then(|| (addr as *const T).read_unaligned())
    }
}

/// Process id.
pub fn getpid() -> u32 {
    // SAFETY: a system call on memory of our own, or none.
    unsafe { call3(SYS_getpid, 0, 0, 0) as u32 }
}

/// Thread id.
pub fn gettid() -> u32 {
    // SAFETY: a system call on memory of our own, or none.
    unsafe { call3(SYS_gettid, 0, 0, 0) as u32 }
}

/// The limit on file sizes, bytes.
pub fn file_size_limit() -> u64 {
    const RLIMIT_FSIZE: usize = 1;
    limit(RLIMIT_FSIZE)
}

/// The limit on address space, bytes.
pub fn address_space_limit() -> u64 {
    const RLIMIT_AS: usize = 9;
    limit(RLIMIT_AS)
}

fn limit(what: usize) -> u64 {
    let mut lim = [u64::MAX; 2];
    // SAFETY: a system call on memory of our own.
    unsafe { call(SYS_prlimit64, 0, what, 0, lim.as_mut_ptr() as usize, 0, 0) };
    lim[0]
}

/// Blocks every signal in the calling thread; those that were blocked before, or `None` if that cannot be done.
pub fn block_signals() -> Option<u64> {
    let (all, mut old) = (u64::MAX, 0u64);
    let (new, was) = (&raw const all as usize, &raw mut old as usize);
    // SAFETY: the kernel reads and writes eight bytes of ours.
    let done = unsafe { call(SYS_rt_sigprocmask, SIG_SETMASK, new, was, 8, 0, 0) };
    (done >= 0).then_some(old)
}

/// Blocks these signals in the calling thread and lets all others through. Unlike other calls it is made whatever the
/// program has given up: a thread whose signals stay blocked would be changed for ever.
pub fn set_signal_mask(mask: u64) {
    change_signal_mask(SIG_SETMASK, mask);
}

/// Changes the calling thread's mask as `sigprocmask` does; the mask before.
pub fn change_signal_mask(how: usize, mask: u64) -> u64 {
    let mut old = 0u64;
    let (new, was) = (&raw const mask as usize, &raw mut old as usize);
    // SAFETY: the kernel reads and writes eight bytes of ours.
    unsafe { crate::arch::call(SYS_rt_sigprocmask, [how, new, was, 8, 0, 0]) };
    old
}

/// No handler runs in the calling thread while this lives.
pub struct Blocked(Option<u64>);

impl Blocked {
    /// Blocks all signals.
    pub fn all() -> Blocked {
        Blocked(block_signals())
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(mask) = self.0 {
            set_signal_mask(mask);
        }
    }
}

/// A lock that is held for a few instructions only. Waiting for it soon sleeps, so that under any scheduling policy the
/// holder gets to run.
pub struct Spin(AtomicU32);

/// A [`Spin`] that is held until this is dropped.
pub struct Guard<'a>(&'a AtomicU32);

impl Default for Spin {
    fn default() -> Spin {
        Spin::new()
    }
}

impl Spin {
    /// Free.
    pub const fn new() -> Spin {
        Spin(AtomicU32::new(0))
    }

    /// Takes the lock, which only those inside the recorder may: they are not interrupted.
    pub fn lock<'a>(&'a self, _: &'a Entered) -> Guard<'a> {
        let mut n = 0u32;
        while self.0.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            n += 1;
            match n {
                ..64 => core::hint::spin_loop(),
                64..72 => yield_cpu(),
                _ => self.sleep(),
            }
        }
        Guard(&self.0)
    }

    /// Sleeps for a while, or not at all if the lock is free. Nobody wakes sleepers: that would cost every release.
    #[cold]
    fn sleep(&self) {
        const FUTEX_WAIT_PRIVATE: usize = 128;
        const NAP_NS: u64 = 100_000;
        let nap = [0u64, NAP_NS];
        let word = self.0.as_ptr() as usize;
        // SAFETY: a system call on memory of our own, or none.
        unsafe { call(SYS_futex, word, FUTEX_WAIT_PRIVATE, 1, &raw const nap as usize, 0, 0) };
    }

    /// In a forked child nobody else is left who could hold it.
    pub fn reset(&self) {
        self.0.store(0, Release);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}
