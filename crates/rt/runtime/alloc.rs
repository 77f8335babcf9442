//! Allocation: malloc and its family, and C++ new and delete.

use crate::arch::{alias, stub};
use crate::heap;
use crate::interpose::*;
use crate::libc_calls::call;
use crate::sys;
use core::ffi::c_int;

/// True while this thread asks the dynamic linker for `malloc` itself.
static ASKING: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// The function behind, or null while it is being looked up (the linker may allocate).
#[inline(always)]
unsafe fn behind(n: &crate::libc_calls::Next) -> P {
    use core::sync::atomic::Ordering::*;
    let p = n.known();
    if !p.is_null() {
        return p;
    }
    if ASKING.swap(1, Acquire) != 0 {
        return core::ptr::null_mut();
    }
    let p = n.find();
    ASKING.store(0, Release);
    p
}

macro_rules! behind_or {
    ($n:expr, $libc:path, ($($a:expr => $t:ty),*) -> $r:ty) => {{
        let p = behind(&$n);
        if p.is_null() {
            $libc($($a),*)
        } else {
            let f: unsafe extern "C" fn($($t),*) -> $r = core::mem::transmute(p);
            f($($a),*)
        }
    }};
}

unsafe fn allocate(n: usize) -> P {
    unsafe { behind_or!(MALLOC, sys::__libc_malloc, (n => usize) -> P) }
}

stub! {
    "malloc" => "tussle_malloc", "rsi";
    "calloc" => "tussle_calloc", "rdx";
    "realloc" => "tussle_realloc", "rdx";
    "aligned_alloc" => "tussle_aligned_alloc", "rdx";
    "posix_memalign" => "tussle_posix_memalign", "rcx";
    "memalign" => "tussle_memalign", "rdx";
    "valloc" => "tussle_valloc", "rsi";
    "pvalloc" => "tussle_pvalloc", "rsi";
    "reallocarray" => "tussle_reallocarray", "rcx";
    "_Znwm" => "tussle_new", "rsi";
    "_Znam" => "tussle_new_array", "rsi";
    "_ZnwmRKSt9nothrow_t" => "tussle_new_nothrow", "rdx";
    "_ZnamRKSt9nothrow_t" => "tussle_new_array_nothrow", "rdx";
    "_ZnwmSt11align_val_t" => "tussle_new_align", "rdx";
    "_ZnamSt11align_val_t" => "tussle_new_array_align", "rdx";
    "_ZnwmSt11align_val_tRKSt9nothrow_t" => "tussle_new_align_nothrow", "rcx";
    "_ZnamSt11align_val_tRKSt9nothrow_t" => "tussle_new_align_nothrow", "rcx";
}
alias! {
    "free" => "tussle_free";
    "cfree" => "tussle_free";
    "_ZdlPv" => "tussle_free";
    "_ZdaPv" => "tussle_free";
    "_ZdlPvm" => "tussle_free";
    "_ZdaPvm" => "tussle_free";
    "_ZdlPvRKSt9nothrow_t" => "tussle_free";
    "_ZdaPvRKSt9nothrow_t" => "tussle_free";
    "_ZdlPvSt11align_val_t" => "tussle_free";
    "_ZdaPvSt11align_val_t" => "tussle_free";
    "_ZdlPvmSt11align_val_t" => "tussle_free";
    "_ZdaPvmSt11align_val_t" => "tussle_free";
    "_ZdlPvSt11align_val_tRKSt9nothrow_t" => "tussle_free";
    "_ZdaPvSt11align_val_tRKSt9nothrow_t" => "tussle_free";
}

const MALLOC_ALIGN: u32 = 16;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_malloc(n: usize, pc: u64) -> P {
    unsafe {
        let p = allocate(n);
        heap::born(p as u64, n as u64, 0, MALLOC_ALIGN, pc);
        p
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_calloc(n: usize, m: usize, pc: u64) -> P {
    unsafe {
        let p = behind_or!(CALLOC, sys::__libc_calloc, (n => usize, m => usize) -> P);
        heap::born(p as u64, n.wrapping_mul(m) as u64, 1, MALLOC_ALIGN, pc);
        p
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_realloc(old: P, n: usize, pc: u64) -> P {
    unsafe {
        heap::dead(old as u64);
        let p = behind_or!(REALLOC, sys::__libc_realloc, (old => P, n => usize) -> P);
        if p.is_null() && n != 0 {
            heap::revived(old as u64);
        } else {
            heap::born(p as u64, n as u64, 2, MALLOC_ALIGN, pc);
        }
        p
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_reallocarray(old: P, n: usize, m: usize, pc: u64) -> P {
    unsafe {
        heap::dead(old as u64);
        let p = call!(REALLOCARRAY, (old => P, n => usize, m => usize) -> P);
        if p.is_null() {
            heap::revived(old as u64);
        } else {
            heap::born(p as u64, n.wrapping_mul(m) as u64, 8, MALLOC_ALIGN, pc);
        }
        p
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_free(p: P) {
    unsafe {
        heap::dead(p as u64);
        behind_or!(FREE, sys::__libc_free, (p => P) -> ())
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_aligned_alloc(a: usize, n: usize, pc: u64) -> P {
    unsafe {
        let p = behind_or!(ALIGNED_ALLOC, sys::__libc_memalign, (a => usize, n => usize) -> P);
        heap::born(p as u64, n as u64, 3, a as u32, pc);
        p
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_posix_memalign(out: *mut P, a: usize, n: usize, pc: u64) -> c_int {
    unsafe {
        let r = call!(POSIX_MEMALIGN, (out => *mut P, a => usize, n => usize) -> c_int);
        if r == 0 {
            heap::born(*out as u64, n as u64, 4, a as u32, pc);
        }
        r
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memalign(a: usize, n: usize, pc: u64) -> P {
    unsafe {
        let p = behind_or!(MEMALIGN, sys::__libc_memalign, (a => usize, n => usize) -> P);
        heap::born(p as u64, n as u64, 5, a as u32, pc);
        p
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_valloc(n: usize, pc: u64) -> P {
    unsafe {
        let p = call!(VALLOC, (n => usize) -> P);
        heap::born(p as u64, n as u64, 6, 4096, pc);
        p
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pvalloc(n: usize, pc: u64) -> P {
    unsafe {
        let p = call!(PVALLOC, (n => usize) -> P);
        heap::born(p as u64, n as u64, 7, 4096, pc);
        p
    }
}

/// `operator new` is malloc; when that fails, the real one runs handlers and throws.
unsafe fn new(n: usize, real: &crate::libc_calls::Next, kind: u16, pc: u64) -> P {
    unsafe {
        let mut p = allocate(n.max(1));
        if p.is_null() {
            let f = real.get();
            if f.is_null() {
                return p;
            }
            let f: unsafe extern "C" fn(usize) -> P = core::mem::transmute(f);
            p = f(n);
        }
        heap::born(p as u64, n as u64, kind, MALLOC_ALIGN, pc);
        p
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_new(n: usize, pc: u64) -> P {
    unsafe { new(n, &NEW, 9, pc) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_new_array(n: usize, pc: u64) -> P {
    unsafe { new(n, &NEW_ARRAY, 10, pc) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_new_nothrow(n: usize, _t: P, pc: u64) -> P {
    unsafe {
        let p = allocate(n.max(1));
        heap::born(p as u64, n as u64, 11, MALLOC_ALIGN, pc);
        p
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_new_array_nothrow(n: usize, _t: P, pc: u64) -> P {
    unsafe {
        let p = allocate(n.max(1));
        heap::born(p as u64, n as u64, 12, MALLOC_ALIGN, pc);
        p
    }
}

unsafe fn new_align(n: usize, a: usize, real: &crate::libc_calls::Next, kind: u16, pc: u64) -> P {
    unsafe {
        let a = a.max(16);
        let n16 = (n.max(1) + a - 1) & !(a - 1);
        let mut p = behind_or!(ALIGNED_ALLOC, sys::__libc_memalign, (a => usize, n16 => usize) -> P);
        let f = real.get();
        if p.is_null() && !f.is_null() {
            let f: unsafe extern "C" fn(usize, usize) -> P = core::mem::transmute(f);
            p = f(n, a);
        }
        heap::born(p as u64, n as u64, kind, a as u32, pc);
        p
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_new_align(n: usize, a: usize, pc: u64) -> P {
    unsafe { new_align(n, a, &NEW_ALIGN, 13, pc) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_new_array_align(n: usize, a: usize, pc: u64) -> P {
    unsafe { new_align(n, a, &NEW_ARRAY_ALIGN, 14, pc) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_new_align_nothrow(n: usize, a: usize, _t: P, pc: u64) -> P {
    unsafe {
        let p = behind_or!(ALIGNED_ALLOC, sys::__libc_memalign, (a => usize, n => usize) -> P);
        heap::born(p as u64, n as u64, 16, a as u32, pc);
        p
    }
}
