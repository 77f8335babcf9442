//! System calls and the few libc functions that the runtime asks for. Nothing here touches `errno`.

use core::arch::asm;
use core::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    pub fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    pub fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    pub fn __libc_malloc(n: usize) -> *mut c_void;
    pub fn __libc_calloc(n: usize, m: usize) -> *mut c_void;
    pub fn __libc_realloc(p: *mut c_void, n: usize) -> *mut c_void;
    pub fn __libc_free(p: *mut c_void);
    pub fn __libc_memalign(a: usize, n: usize) -> *mut c_void;
    pub fn __register_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
        dso: *mut c_void,
    ) -> c_int;
    pub static environ: *const *const c_char;
}

/// The next definition after ours.
pub const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;

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
    let r: isize;
    unsafe {
        asm!("syscall", inlateout("rax") n as isize => r, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    r
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

pub fn die() -> ! {
    unsafe { asm!("ud2", options(noreturn)) }
}

/// The limit on file sizes, bytes.
pub fn file_size_limit() -> u64 {
    let mut lim = [u64::MAX; 2];
    unsafe { call(SYS_prlimit64, 0, 1, 0, lim.as_mut_ptr() as usize, 0, 0) };
    lim[0]
}

/// Value of an environment variable; null if it is not set. Does not rely on libc being initialised.
pub unsafe fn env(name: &[u8]) -> *const u8 {
    unsafe {
        let mut e = environ;
        if e.is_null() {
            return core::ptr::null();
        }
        while !(*e).is_null() {
            let s = *e as *const u8;
            let mut i = 0;
            while i < name.len() && *s.add(i) == name[i] {
                i += 1;
            }
            if i == name.len() && *s.add(i) == b'=' {
                return s.add(i + 1);
            }
            e = e.add(1);
        }
        core::ptr::null()
    }
}

/// Resolves `name` (zero-terminated) behind ours.
pub unsafe fn next(name: &[u8]) -> *mut c_void {
    unsafe { dlsym(RTLD_NEXT, name.as_ptr().cast()) }
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
