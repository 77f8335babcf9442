//! Allocation: malloc and its family. C++'s operators are the program's own (or its library's) and end up here; the
//! site is the code that called them.

use crate::arch::{alias, frame_stub};
use crate::arena::recording;
use crate::interpose::*;
use crate::libc_calls::{call, unrecorded};
use crate::sys;
use crate::{caller, heap};
use core::ffi::c_int;
use tussle_rt_core::callers::Call;

/// True while this thread asks the dynamic linker for `malloc` itself.
static ASKING: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// The function behind, or null while it is being looked up (the linker may allocate).
///
/// # Safety
/// None.
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

/// # Safety
/// As `malloc`.
unsafe fn allocate(n: usize) -> P {
    // SAFETY: libc's function has this type.
    unsafe { behind_or!(MALLOC, sys::__libc_malloc, (n => usize) -> P) }
}

frame_stub! {
    "malloc" => "tussle_malloc", "rsi", "rdx";
    "calloc" => "tussle_calloc", "rdx", "rcx";
    "realloc" => "tussle_realloc", "rdx", "rcx";
    "aligned_alloc" => "tussle_aligned_alloc", "rdx", "rcx";
    "posix_memalign" => "tussle_posix_memalign", "rcx", "r8";
    "memalign" => "tussle_memalign", "rdx", "rcx";
    "valloc" => "tussle_valloc", "rsi", "rdx";
    "pvalloc" => "tussle_pvalloc", "rsi", "rdx";
    "reallocarray" => "tussle_reallocarray", "rcx", "r8";
}
alias! {
    "free" => "tussle_free";
    "cfree" => "tussle_free";
}

const MALLOC_ALIGN: u32 = 16;

/// Notes an allocation by `call`; an operator that was passed on the way is what the program asked.
///
/// # Safety
/// `call` is of the calling thread.
pub unsafe fn born(base: P, size: usize, allocator: u16, align: u32, call: Call) {
    if base.is_null() || !recording() {
        return;
    }
    // SAFETY: libc's functions get the program's arguments.
    unsafe {
        let asker = caller::of(call);
        let allocator = if asker.allocator != 0 { asker.allocator } else { allocator };
        heap::born(base as u64, size as u64, allocator, align, asker.pc);
    }
}

/// # Safety
/// As `malloc`; `sp` and `bp` are the stack pointer and frame pointer of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_malloc(n: usize, sp: u64, bp: u64) -> P {
    // SAFETY: the arguments go on as they came.
    unsafe {
        unrecorded!(MALLOC, (n => usize) -> P);
        malloc_recorded(n, sp, bp)
    }
}

/// # Safety
/// As `malloc`; `sp` and `bp` are the stack pointer and frame pointer of the call.
#[inline(never)]
unsafe extern "C" fn malloc_recorded(n: usize, sp: u64, bp: u64) -> P {
    // SAFETY: the `malloc` behind ours gets the arguments as they came; `sp` and `bp` are those of the call, on a
    // stack that is in use.
    unsafe {
        let p = allocate(n);
        born(p, n, 0, MALLOC_ALIGN, Call { sp, bp });
        p
    }
}

/// # Safety
/// As `calloc`; `sp` and `bp` are the stack pointer and frame pointer of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_calloc(n: usize, m: usize, sp: u64, bp: u64) -> P {
    // SAFETY: the arguments go on as they came.
    unsafe {
        unrecorded!(CALLOC, (n => usize, m => usize) -> P);
        calloc_recorded(n, m, sp, bp)
    }
}

/// # Safety
/// As `calloc`; `sp` and `bp` are the stack pointer and frame pointer of the call.
#[inline(never)]
unsafe extern "C" fn calloc_recorded(n: usize, m: usize, sp: u64, bp: u64) -> P {
    // SAFETY: the `calloc` behind ours gets the arguments as they came; `sp` and `bp` are those of the call, on a
    // stack that is in use.
    unsafe {
        let p = behind_or!(CALLOC, sys::__libc_calloc, (n => usize, m => usize) -> P);
        born(p, n.wrapping_mul(m), 1, MALLOC_ALIGN, Call { sp, bp });
        p
    }
}

/// # Safety
/// As `realloc`; `sp` and `bp` are the stack pointer and frame pointer of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_realloc(old: P, n: usize, sp: u64, bp: u64) -> P {
    // SAFETY: the arguments go on as they came.
    unsafe {
        unrecorded!(REALLOC, (old => P, n => usize) -> P);
        realloc_recorded(old, n, sp, bp)
    }
}

/// # Safety
/// As `realloc`; `sp` and `bp` are the stack pointer and frame pointer of the call.
#[inline(never)]
unsafe extern "C" fn realloc_recorded(old: P, n: usize, sp: u64, bp: u64) -> P {
    // SAFETY: the `realloc` behind ours gets the arguments as they came; `sp` and `bp` are those of the call, on a
    // stack that is in use.
    unsafe {
        heap::dead(old as u64);
        let p = behind_or!(REALLOC, sys::__libc_realloc, (old => P, n => usize) -> P);
        if p.is_null() && n != 0 {
            heap::revived(old as u64);
        } else {
            born(p, n, 2, MALLOC_ALIGN, Call { sp, bp });
        }
        p
    }
}

/// # Safety
/// As `reallocarray`; `sp` and `bp` are the stack pointer and frame pointer of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_reallocarray(old: P, n: usize, m: usize, sp: u64, bp: u64) -> P {
    // SAFETY: the `reallocarray` behind ours gets the arguments as they came; `sp` and `bp` are those of the call,
    // on a stack that is in use.
    unsafe {
        heap::dead(old as u64);
        let p = call!(REALLOCARRAY, (old => P, n => usize, m => usize) -> P);
        if p.is_null() {
            heap::revived(old as u64);
        } else {
            born(p, n.wrapping_mul(m), 8, MALLOC_ALIGN, Call { sp, bp });
        }
        p
    }
}

/// # Safety
/// As `free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_free(p: P) {
    // SAFETY: the arguments go on as they came.
    unsafe {
        unrecorded!(FREE, (p => P) -> ());
        free_recorded(p)
    }
}

/// # Safety
/// As `free`.
#[inline(never)]
unsafe extern "C" fn free_recorded(p: P) {
    // SAFETY: the `free` behind ours gets the arguments as they came; the recorder notes their addresses and follows
    // none.
    unsafe {
        heap::dead(p as u64);
        behind_or!(FREE, sys::__libc_free, (p => P) -> ())
    }
}

/// # Safety
/// As `aligned_alloc`; `sp` and `bp` are the stack pointer and frame pointer of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_aligned_alloc(a: usize, n: usize, sp: u64, bp: u64) -> P {
    // SAFETY: the `aligned_alloc` behind ours gets the arguments as they came; `sp` and `bp` are those of the call,
    // on a stack that is in use.
    unsafe {
        let p = behind_or!(ALIGNED_ALLOC, sys::__libc_memalign, (a => usize, n => usize) -> P);
        born(p, n, 3, a as u32, Call { sp, bp });
        p
    }
}

/// # Safety
/// As `posix_memalign`; `sp` and `bp` are the stack pointer and frame pointer of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_posix_memalign(out: *mut P, a: usize, n: usize, sp: u64, bp: u64) -> c_int {
    // SAFETY: the `posix_memalign` behind ours gets the arguments as they came; `sp` and `bp` are those of the call,
    // on a stack that is in use.
    unsafe {
        let r = call!(POSIX_MEMALIGN, (out => *mut P, a => usize, n => usize) -> c_int);
        if r == 0 {
            born(*out, n, 4, a as u32, Call { sp, bp });
        }
        r
    }
}

/// # Safety
/// As `memalign`; `sp` and `bp` are the stack pointer and frame pointer of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memalign(a: usize, n: usize, sp: u64, bp: u64) -> P {
    // SAFETY: the `memalign` behind ours gets the arguments as they came; `sp` and `bp` are those of the call, on a
    // stack that is in use.
    unsafe {
        let p = behind_or!(MEMALIGN, sys::__libc_memalign, (a => usize, n => usize) -> P);
        born(p, n, 5, a as u32, Call { sp, bp });
        p
    }
}

/// # Safety
/// As `valloc`; `sp` and `bp` are the stack pointer and frame pointer of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_valloc(n: usize, sp: u64, bp: u64) -> P {
    // SAFETY: the `valloc` behind ours gets the arguments as they came; `sp` and `bp` are those of the call, on a
    // stack that is in use.
    unsafe {
        let p = call!(VALLOC, (n => usize) -> P);
        born(p, n, 6, 4096, Call { sp, bp });
        p
    }
}

/// # Safety
/// As `pvalloc`; `sp` and `bp` are the stack pointer and frame pointer of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pvalloc(n: usize, sp: u64, bp: u64) -> P {
    // SAFETY: the `pvalloc` behind ours gets the arguments as they came; `sp` and `bp` are those of the call, on a
    // stack that is in use.
    unsafe {
        let p = call!(PVALLOC, (n => usize) -> P);
        born(p, n, 7, 4096, Call { sp, bp });
        p
    }
}
