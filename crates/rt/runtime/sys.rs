//! The few libc functions that the runtime asks for.

use core::ffi::{c_char, c_int, c_void};
pub use tussle_rt_core::sys::*;

unsafe extern "C" {
    pub fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    pub fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    pub fn dlerror() -> *mut c_char;
    pub fn getauxval(what: u64) -> u64;
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

/// Flags of `dlopen`: look for a library that is loaded already.
pub const RTLD_LAZY: c_int = 1;
pub const RTLD_NOLOAD: c_int = 4;

/// Value of an environment variable; null if it is not set. Does not rely on libc being initialised.
///
/// # Safety
/// The environment is not changed meanwhile.
pub unsafe fn env(name: &[u8]) -> *const u8 {
    // SAFETY: environment and its strings end with zeros.
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

/// A decimal number at the start of a string; `None` without one or for null.
///
/// # Safety
/// `s` is null or zero-terminated.
pub unsafe fn number(s: *const u8) -> Option<u64> {
    if s.is_null() {
        return None;
    }
    let mut n = 0u64;
    let mut i = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while (*s.add(i)).is_ascii_digit() {
            n = n.wrapping_mul(10).wrapping_add((*s.add(i) - b'0') as u64);
            i += 1;
        }
    }
    (i > 0).then_some(n)
}

/// Resolves `name` (zero-terminated) behind ours.
///
/// # Safety
/// `name` is zero-terminated.
pub unsafe fn next(name: &[u8]) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { dlsym(RTLD_NEXT, name.as_ptr().cast()) }
}
