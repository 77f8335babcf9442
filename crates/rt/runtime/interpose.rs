//! Functions of libc, pthread and the C++ runtime that the recorder stands in front of. Each calls the one behind it
//! and returns exactly what that returned.

use crate::arena::{alloc, recording};
use crate::hooks::{alias, stub};
use crate::libc_calls::{call, next};
use crate::wire::*;
use crate::{heap, record, sync, sys, thread};
use core::arch::{asm, global_asm};
use core::ffi::{c_int, c_long, c_void};

type P = *mut c_void;

const EBUSY: c_int = 16;
const EAGAIN_OWNER_DIED: c_int = 130;

next! {
    MALLOC = "malloc"; CALLOC = "calloc"; REALLOC = "realloc"; FREE = "free"; ALIGNED_ALLOC = "aligned_alloc";
    POSIX_MEMALIGN = "posix_memalign"; MEMALIGN = "memalign"; VALLOC = "valloc"; PVALLOC = "pvalloc";
    REALLOCARRAY = "reallocarray"; NEW = "_Znwm"; NEW_ARRAY = "_Znam"; NEW_ALIGN = "_ZnwmSt11align_val_t";
    NEW_ARRAY_ALIGN = "_ZnamSt11align_val_t";
    MEMCPY = "memcpy"; MEMMOVE = "memmove"; MEMSET = "memset"; MEMCPY_CHK = "__memcpy_chk";
    MEMMOVE_CHK = "__memmove_chk"; MEMSET_CHK = "__memset_chk";
    MMAP = "mmap"; MUNMAP = "munmap"; READ_ = "read"; PREAD = "pread"; RECV = "recv"; WRITE_ = "write"; SEND = "send";
    FREAD = "fread"; FWRITE = "fwrite"; EXIT_ = "_exit";
    CREATE = "pthread_create"; JOIN = "pthread_join"; TRYJOIN = "pthread_tryjoin_np";
    TIMEDJOIN = "pthread_timedjoin_np"; CLOCKJOIN = "pthread_clockjoin_np"; SETNAME = "pthread_setname_np";
    M_LOCK = "pthread_mutex_lock"; M_TRYLOCK = "pthread_mutex_trylock"; M_TIMEDLOCK = "pthread_mutex_timedlock";
    M_CLOCKLOCK = "pthread_mutex_clocklock"; M_UNLOCK = "pthread_mutex_unlock"; M_DESTROY = "pthread_mutex_destroy";
    RW_RD = "pthread_rwlock_rdlock"; RW_WR = "pthread_rwlock_wrlock"; RW_TRYRD = "pthread_rwlock_tryrdlock";
    RW_TRYWR = "pthread_rwlock_trywrlock"; RW_TIMEDRD = "pthread_rwlock_timedrdlock";
    RW_TIMEDWR = "pthread_rwlock_timedwrlock"; RW_CLOCKRD = "pthread_rwlock_clockrdlock";
    RW_CLOCKWR = "pthread_rwlock_clockwrlock"; RW_UNLOCK = "pthread_rwlock_unlock";
    S_LOCK = "pthread_spin_lock"; S_TRYLOCK = "pthread_spin_trylock"; S_UNLOCK = "pthread_spin_unlock";
    B_INIT = "pthread_barrier_init"; B_WAIT = "pthread_barrier_wait"; B_DESTROY = "pthread_barrier_destroy";
    C_INIT = "pthread_cond_init" @ "GLIBC_2.3.2"; C_DESTROY = "pthread_cond_destroy" @ "GLIBC_2.3.2";
    C_WAIT = "pthread_cond_wait" @ "GLIBC_2.3.2"; C_TIMEDWAIT = "pthread_cond_timedwait" @ "GLIBC_2.3.2";
    C_SIGNAL = "pthread_cond_signal" @ "GLIBC_2.3.2"; C_BROADCAST = "pthread_cond_broadcast" @ "GLIBC_2.3.2";
    C_CLOCKWAIT = "pthread_cond_clockwait";
    SEM_WAIT = "sem_wait"; SEM_TRYWAIT = "sem_trywait"; SEM_TIMEDWAIT = "sem_timedwait";
    SEM_CLOCKWAIT = "sem_clockwait"; SEM_POST = "sem_post";
}

/// Resolves what may be called where looking up is not allowed (signal handlers, forked children).
pub unsafe fn resolve() {
    for n in [&MALLOC, &CALLOC, &REALLOC, &FREE, &MEMCPY, &MEMMOVE, &MEMSET, &M_LOCK, &M_TRYLOCK, &M_UNLOCK, &SEM_POST] {
        n.find();
    }
    for n in [&SEM_WAIT, &SEM_TRYWAIT, &READ_, &WRITE_, &EXIT_, &C_WAIT, &C_SIGNAL, &C_BROADCAST, &CREATE, &JOIN] {
        n.find();
    }
}

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

// ---- memory and I/O ----

stub! {
    "memcpy" => "tussle_memcpy", "rcx";
    "memmove" => "tussle_memmove", "rcx";
    "memset" => "tussle_memset", "rcx";
    "__tsan_memcpy" => "tussle_memcpy", "rcx";
    "__tsan_memmove" => "tussle_memmove", "rcx";
    "__tsan_memset" => "tussle_memset", "rcx";
    "__memcpy_chk" => "tussle_memcpy_chk", "r8";
    "__memmove_chk" => "tussle_memmove_chk", "r8";
    "__memset_chk" => "tussle_memset_chk", "r8";
    "mmap" => "tussle_mmap", "rax";
    "mmap64" => "tussle_mmap", "rax";
    "read" => "tussle_read", "rcx";
    "pread" => "tussle_pread", "r8";
    "pread64" => "tussle_pread", "r8";
    "recv" => "tussle_recv", "r8";
    "write" => "tussle_write", "rcx";
    "send" => "tussle_send", "r8";
    "fread" => "tussle_fread", "r8";
    "fwrite" => "tussle_fwrite", "r8";
}
alias! {
    "munmap" => "tussle_munmap";
    "_exit" => "tussle__exit";
    "_Exit" => "tussle__exit";
}

#[inline(always)]
unsafe fn note(addr: u64, n: usize, kind: u32, pc: u64) {
    unsafe { record::range(addr, n as u64, kind, pc) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memcpy(d: P, s: P, n: usize, pc: u64) -> P {
    unsafe {
        if recording() {
            note(s as u64, n, READ, pc);
            note(d as u64, n, WRITE, pc);
        }
        if MEMCPY.known().is_null() {
            asm!("rep movsb", inout("rcx") n => _, inout("rdi") d => _, inout("rsi") s => _, options(nostack));
            return d;
        }
        call!(MEMCPY, (d => P, s => P, n => usize) -> P)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memmove(d: P, s: P, n: usize, pc: u64) -> P {
    unsafe {
        if recording() {
            note(s as u64, n, READ, pc);
            note(d as u64, n, WRITE, pc);
        }
        if MEMMOVE.known().is_null() {
            let mut k = 0;
            let up = (d as usize) <= (s as usize);
            while k < n {
                let i = if up { k } else { n - 1 - k };
                (d as *mut u8).add(i).write_volatile((s as *const u8).add(i).read_volatile());
                k += 1;
            }
            return d;
        }
        call!(MEMMOVE, (d => P, s => P, n => usize) -> P)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memset(d: P, c: c_int, n: usize, pc: u64) -> P {
    unsafe {
        if recording() {
            note(d as u64, n, WRITE, pc);
        }
        if MEMSET.known().is_null() {
            asm!("rep stosb", inout("rcx") n => _, inout("rdi") d => _, in("al") c as u8, options(nostack));
            return d;
        }
        call!(MEMSET, (d => P, c => c_int, n => usize) -> P)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memcpy_chk(d: P, s: P, n: usize, room: usize, pc: u64) -> P {
    unsafe {
        note(s as u64, n, READ, pc);
        note(d as u64, n.min(room), WRITE, pc);
        call!(MEMCPY_CHK, (d => P, s => P, n => usize, room => usize) -> P)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memmove_chk(d: P, s: P, n: usize, room: usize, pc: u64) -> P {
    unsafe {
        note(s as u64, n, READ, pc);
        note(d as u64, n.min(room), WRITE, pc);
        call!(MEMMOVE_CHK, (d => P, s => P, n => usize, room => usize) -> P)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memset_chk(d: P, c: c_int, n: usize, room: usize, pc: u64) -> P {
    unsafe {
        note(d as u64, n.min(room), WRITE, pc);
        call!(MEMSET_CHK, (d => P, c => c_int, n => usize, room => usize) -> P)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mmap(a: P, n: usize, prot: c_int, flags: c_int, fd: c_int, off: c_long) -> P {
    // Six arguments leave no register for the return address: the shadow stack's callers must do.
    unsafe {
        let p = call!(MMAP, (a => P, n => usize, prot => c_int, flags => c_int, fd => c_int, off => c_long) -> P);
        const WRITABLE: c_int = 2;
        if p as isize != -1 && prot & WRITABLE != 0 {
            heap::born(p as u64, n as u64, 15, 4096, 0);
        }
        p
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_munmap(a: P, n: usize) -> c_int {
    unsafe {
        heap::dead(a as u64);
        call!(MUNMAP, (a => P, n => usize) -> c_int)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_read(fd: c_int, p: P, n: usize, pc: u64) -> isize {
    unsafe {
        let r = call!(READ_, (fd => c_int, p => P, n => usize) -> isize);
        note(p as u64, r.max(0) as usize, WRITE, pc);
        r
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pread(fd: c_int, p: P, n: usize, off: c_long, pc: u64) -> isize {
    unsafe {
        let r = call!(PREAD, (fd => c_int, p => P, n => usize, off => c_long) -> isize);
        note(p as u64, r.max(0) as usize, WRITE, pc);
        r
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_recv(fd: c_int, p: P, n: usize, flags: c_int, pc: u64) -> isize {
    unsafe {
        let r = call!(RECV, (fd => c_int, p => P, n => usize, flags => c_int) -> isize);
        note(p as u64, (r.max(0) as usize).min(n), WRITE, pc);
        r
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_write(fd: c_int, p: P, n: usize, pc: u64) -> isize {
    unsafe {
        let r = call!(WRITE_, (fd => c_int, p => P, n => usize) -> isize);
        note(p as u64, r.max(0) as usize, READ, pc);
        r
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_send(fd: c_int, p: P, n: usize, flags: c_int, pc: u64) -> isize {
    unsafe {
        let r = call!(SEND, (fd => c_int, p => P, n => usize, flags => c_int) -> isize);
        note(p as u64, r.max(0) as usize, READ, pc);
        r
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_fread(p: P, size: usize, n: usize, f: P, pc: u64) -> usize {
    unsafe {
        let r = call!(FREAD, (p => P, size => usize, n => usize, f => P) -> usize);
        note(p as u64, r * size, WRITE, pc);
        r
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_fwrite(p: P, size: usize, n: usize, f: P, pc: u64) -> usize {
    unsafe {
        let r = call!(FWRITE, (p => P, size => usize, n => usize, f => P) -> usize);
        note(p as u64, r * size, READ, pc);
        r
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle__exit(status: c_int) {
    unsafe {
        crate::arena::mark_end(END_UNDERSCORE_EXIT, status as u32);
        call!(EXIT_, (status => c_int) -> ())
    }
}

// ---- threads ----

stub! {
    "pthread_create" => "tussle_pthread_create", "r8";
}
alias! {
    "pthread_join" => "tussle_pthread_join";
    "pthread_tryjoin_np" => "tussle_pthread_tryjoin";
    "pthread_timedjoin_np" => "tussle_pthread_timedjoin";
    "pthread_clockjoin_np" => "tussle_pthread_clockjoin";
    "pthread_setname_np" => "tussle_pthread_setname";
}

unsafe extern "C" {
    fn pthread_key_create(key: *mut u32, d: Option<unsafe extern "C" fn(P)>) -> c_int;
    fn pthread_setspecific(key: u32, v: P) -> c_int;
    fn pthread_attr_init(a: P) -> c_int;
    fn pthread_attr_destroy(a: P) -> c_int;
    fn pthread_attr_getstacksize(a: P, n: *mut usize) -> c_int;
}

/// What a new thread needs to know.
#[repr(C, align(64))]
struct Start {
    routine: P,
    arg: P,
    creator: u32,
    pad: u32,
    vt: u64,
    pc: u64,
    stack_bytes: u64,
}

/// pthread key whose destructor ends the recording of a thread, plus 1; 0 until made.
static KEY: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
static KEY_LOCK: sys::Spin = sys::Spin::new();

unsafe fn key() -> Option<u32> {
    use core::sync::atomic::Ordering::*;
    if KEY.load(Acquire) == 0 {
        KEY_LOCK.lock();
        let mut k = 0;
        if KEY.load(Acquire) == 0 && unsafe { pthread_key_create(&mut k, Some(ending)) } == 0 {
            KEY.store(k + 1, Release);
        }
        KEY_LOCK.unlock();
    }
    KEY.load(Acquire).checked_sub(1)
}

/// Runs among the thread's own destructors; puts itself behind them twice.
unsafe extern "C" fn ending(left: P) {
    unsafe {
        let left = left as usize;
        match key() {
            Some(k) if left > 1 => {
                pthread_setspecific(k, (left - 1) as P);
            }
            _ => thread::end(),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_create(th: *mut u64, attr: P, f: P, arg: P, pc: u64) -> c_int {
    unsafe {
        thread::init();
        if recording() {
            let vt = sync::creation();
            let s = alloc(size_of::<Start>() as u64) as *mut Start;
            if !s.is_null() && vt != NONE as u64 {
                let t = thread::current();
                (*s).routine = f;
                (*s).arg = arg;
                (*s).creator = match (*t).info_at as *mut ThreadInfo {
                    i if i.is_null() => NONE,
                    i => (*i).index,
                };
                (*s).vt = vt;
                (*s).pc = pc;
                (*s).stack_bytes = stack_bytes(attr);
                let start = trampoline as *const () as P;
                return call!(CREATE, (th => *mut u64, attr => P, start => P, s as P => P) -> c_int);
            }
        }
        call!(CREATE, (th => *mut u64, attr => P, f => P, arg => P) -> c_int)
    }
}

unsafe fn stack_bytes(attr: P) -> u64 {
    unsafe {
        let mut n = 0usize;
        if !attr.is_null() {
            pthread_attr_getstacksize(attr, &mut n);
        } else {
            let mut a = [0u64; 16];
            if pthread_attr_init(a.as_mut_ptr().cast()) == 0 {
                pthread_attr_getstacksize(a.as_mut_ptr().cast(), &mut n);
                pthread_attr_destroy(a.as_mut_ptr().cast());
            }
        }
        n as u64
    }
}

unsafe extern "C" fn trampoline(p: P) -> P {
    unsafe {
        let s = p as *mut Start;
        let (routine, arg) = ((*s).routine, (*s).arg);
        let tp: u64;
        asm!("mov {0}, qword ptr fs:[0]", out(reg) tp, options(nostack, preserves_flags, readonly));
        // glibc's thread descriptor (about 2.3 kB) ends the stack's mapping.
        let hi = (tp + 0x900 + 4095) & !4095;
        thread::register((*s).creator, routine as u64, (*s).pc, (*s).vt, hi - (*s).stack_bytes, hi);
        if let Some(k) = key() {
            pthread_setspecific(k, 3 as P);
        }
        let f: unsafe extern "C" fn(P) -> P = core::mem::transmute(routine);
        f(arg)
    }
}

/// Where every recorded thread starts.
pub fn thread_start() -> u64 {
    trampoline as *const () as u64
}

unsafe fn after_join(th: u64, r: c_int) -> c_int {
    if r == 0 && recording() {
        unsafe { sync::joined(thread::vt_of(th)) };
    }
    r
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_join(th: u64, out: *mut P) -> c_int {
    unsafe { after_join(th, call!(JOIN, (th => u64, out => *mut P) -> c_int)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_tryjoin(th: u64, out: *mut P) -> c_int {
    unsafe { after_join(th, call!(TRYJOIN, (th => u64, out => *mut P) -> c_int)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_timedjoin(th: u64, out: *mut P, t: P) -> c_int {
    unsafe { after_join(th, call!(TIMEDJOIN, (th => u64, out => *mut P, t => P) -> c_int)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_clockjoin(th: u64, out: *mut P, c: c_int, t: P) -> c_int {
    unsafe { after_join(th, call!(CLOCKJOIN, (th => u64, out => *mut P, c => c_int, t => P) -> c_int)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_setname(th: u64, name: P) -> c_int {
    unsafe {
        let r = call!(SETNAME, (th => u64, name => P) -> c_int);
        if r == 0 {
            thread::renamed();
        }
        r
    }
}

// ---- locks ----

stub! {
    "pthread_mutex_lock" => "tussle_mutex_lock", "rsi";
    "pthread_mutex_trylock" => "tussle_mutex_trylock", "rsi";
    "pthread_mutex_timedlock" => "tussle_mutex_timedlock", "rdx";
    "pthread_mutex_clocklock" => "tussle_mutex_clocklock", "rcx";
    "pthread_mutex_unlock" => "tussle_mutex_unlock", "rsi";
    "pthread_rwlock_rdlock" => "tussle_rw_rd", "rsi";
    "pthread_rwlock_wrlock" => "tussle_rw_wr", "rsi";
    "pthread_rwlock_tryrdlock" => "tussle_rw_tryrd", "rsi";
    "pthread_rwlock_trywrlock" => "tussle_rw_trywr", "rsi";
    "pthread_rwlock_timedrdlock" => "tussle_rw_timedrd", "rdx";
    "pthread_rwlock_timedwrlock" => "tussle_rw_timedwr", "rdx";
    "pthread_rwlock_clockrdlock" => "tussle_rw_clockrd", "rcx";
    "pthread_rwlock_clockwrlock" => "tussle_rw_clockwr", "rcx";
    "pthread_rwlock_unlock" => "tussle_rw_unlock", "rsi";
    "pthread_spin_lock" => "tussle_spin_lock", "rsi";
    "pthread_spin_trylock" => "tussle_spin_trylock", "rsi";
    "pthread_spin_unlock" => "tussle_spin_unlock", "rsi";
    "pthread_barrier_wait" => "tussle_barrier_wait", "rsi";
}
alias! {
    "pthread_mutex_destroy" => "tussle_mutex_destroy";
    "pthread_barrier_init" => "tussle_barrier_init";
    "pthread_barrier_destroy" => "tussle_barrier_destroy";
}

/// Records an access of the pthread library to one of its objects.
#[inline(always)]
unsafe fn seen(addr: P, n: u64, kind: u32, pc: u64) {
    if recording() {
        unsafe { record::access(addr as u64, n, kind, pc) }
    }
}

/// glibc's mutex: lock word at 0, owner at 8, users at 12.
unsafe fn mutex_seen(m: P, pc: u64) {
    unsafe {
        seen(m, 4, RMW, pc);
        seen(m.byte_add(8), 8, WRITE, pc);
    }
}

fn taken(r: c_int) -> bool {
    r == 0 || r == EAGAIN_OWNER_DIED
}

/// Takes a lock without waiting, else waits with `wait` and advances the clock by what the lock was held meanwhile.
#[inline(always)]
unsafe fn lock(m: P, try_it: impl Fn() -> c_int, wait: impl Fn() -> c_int) -> c_int {
    unsafe {
        if !recording() {
            return wait();
        }
        let r = try_it();
        if taken(r) {
            sync::locked(m as u64, None);
            return r;
        }
        let before = if r == EBUSY { sync::lock_contended(m as u64) } else { None };
        let r = wait();
        if taken(r) {
            sync::locked(m as u64, before);
        }
        r
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mutex_lock(m: P, pc: u64) -> c_int {
    unsafe {
        mutex_seen(m, pc);
        lock(m, || call!(M_TRYLOCK, (m => P) -> c_int), || call!(M_LOCK, (m => P) -> c_int))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mutex_trylock(m: P, pc: u64) -> c_int {
    unsafe {
        let r = call!(M_TRYLOCK, (m => P) -> c_int);
        if taken(r) {
            mutex_seen(m, pc);
            sync::locked(m as u64, None);
        } else {
            seen(m, 4, RMW, pc);
        }
        r
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mutex_timedlock(m: P, t: P, pc: u64) -> c_int {
    unsafe {
        mutex_seen(m, pc);
        lock(m, || call!(M_TRYLOCK, (m => P) -> c_int), || call!(M_TIMEDLOCK, (m => P, t => P) -> c_int))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mutex_clocklock(m: P, c: c_int, t: P, pc: u64) -> c_int {
    unsafe {
        mutex_seen(m, pc);
        let wait = || call!(M_CLOCKLOCK, (m => P, c => c_int, t => P) -> c_int);
        lock(m, || call!(M_TRYLOCK, (m => P) -> c_int), wait)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mutex_unlock(m: P, pc: u64) -> c_int {
    unsafe {
        mutex_seen(m, pc);
        sync::unlocking(m as u64);
        call!(M_UNLOCK, (m => P) -> c_int)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mutex_destroy(m: P) -> c_int {
    sync::forget(m as u64);
    unsafe { call!(M_DESTROY, (m => P) -> c_int) }
}

macro_rules! rwlocks {
    ($($name:ident($next:ident $(, $a:ident: $t:ty)*);)+) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(l: P $(, $a: $t)*, pc: u64) -> c_int {
            unsafe {
                seen(l, 4, RMW, pc);
                call!($next, (l => P $(, $a => $t)*) -> c_int)
            }
        }
    )+ };
}
rwlocks! {
    tussle_rw_rd(RW_RD);
    tussle_rw_tryrd(RW_TRYRD);
    tussle_rw_trywr(RW_TRYWR);
    tussle_rw_timedrd(RW_TIMEDRD, t: P);
    tussle_rw_clockrd(RW_CLOCKRD, c: c_int, t: P);
    tussle_spin_trylock(S_TRYLOCK);
}

macro_rules! wrlocks {
    ($($name:ident($next:ident, $try:ident $(, $a:ident: $t:ty)*);)+) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(l: P $(, $a: $t)*, pc: u64) -> c_int {
            unsafe {
                seen(l, 4, RMW, pc);
                lock(l, || call!($try, (l => P) -> c_int), || call!($next, (l => P $(, $a => $t)*) -> c_int))
            }
        }
    )+ };
}
wrlocks! {
    tussle_rw_wr(RW_WR, RW_TRYWR);
    tussle_rw_timedwr(RW_TIMEDWR, RW_TRYWR, t: P);
    tussle_rw_clockwr(RW_CLOCKWR, RW_TRYWR, c: c_int, t: P);
    tussle_spin_lock(S_LOCK, S_TRYLOCK);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_rw_unlock(l: P, pc: u64) -> c_int {
    unsafe {
        seen(l, 4, RMW, pc);
        call!(RW_UNLOCK, (l => P) -> c_int)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_spin_unlock(l: P, pc: u64) -> c_int {
    unsafe {
        seen(l, 4, WRITE, pc);
        sync::unlocking(l as u64);
        call!(S_UNLOCK, (l => P) -> c_int)
    }
}

// ---- barriers, conditions, semaphores ----

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_barrier_init(b: P, attr: P, count: u32) -> c_int {
    sync::barrier_init(b as u64, count as u64);
    unsafe { call!(B_INIT, (b => P, attr => P, count => u32) -> c_int) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_barrier_destroy(b: P) -> c_int {
    unsafe {
        let r = call!(B_DESTROY, (b => P) -> c_int);
        sync::forget(b as u64);
        r
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_barrier_wait(b: P, pc: u64) -> c_int {
    unsafe {
        seen(b, 4, RMW, pc);
        let generation = sync::barrier_arrive(b as u64);
        let r = call!(B_WAIT, (b => P) -> c_int);
        sync::barrier_leave(b as u64, generation);
        r
    }
}

stub! {
    "pthread_cond_wait" => "tussle_cond_wait", "rdx";
    "pthread_cond_timedwait" => "tussle_cond_timedwait", "rcx";
    "pthread_cond_clockwait" => "tussle_cond_clockwait", "r8";
    "pthread_cond_signal" => "tussle_cond_signal", "rsi";
    "pthread_cond_broadcast" => "tussle_cond_broadcast", "rsi";
    "sem_wait" => "tussle_sem_wait", "rsi";
    "sem_trywait" => "tussle_sem_trywait", "rsi";
    "sem_timedwait" => "tussle_sem_timedwait", "rdx";
    "sem_clockwait" => "tussle_sem_clockwait", "rcx";
    "sem_post" => "tussle_sem_post", "rsi";
}
alias! {
    "pthread_cond_init" => "tussle_cond_init";
    "pthread_cond_destroy" => "tussle_cond_destroy";
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_init(c: P, attr: P) -> c_int {
    sync::forget(c as u64);
    unsafe { call!(C_INIT, (c => P, attr => P) -> c_int) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_destroy(c: P) -> c_int {
    unsafe { call!(C_DESTROY, (c => P) -> c_int) }
}

/// Waiting releases the mutex and takes it again.
#[inline(always)]
unsafe fn cond_wait(c: P, m: P, pc: u64, wait: impl Fn() -> c_int) -> c_int {
    unsafe {
        seen(c, 8, RMW, pc);
        mutex_seen(m, pc);
        sync::unlocking(m as u64);
        let seq = sync::cond_wait_begin(c as u64);
        let r = wait();
        sync::cond_wait_end(c as u64, seq, r == 0);
        sync::locked(m as u64, None);
        mutex_seen(m, pc);
        r
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_wait(c: P, m: P, pc: u64) -> c_int {
    unsafe { cond_wait(c, m, pc, || call!(C_WAIT, (c => P, m => P) -> c_int)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_timedwait(c: P, m: P, t: P, pc: u64) -> c_int {
    unsafe { cond_wait(c, m, pc, || call!(C_TIMEDWAIT, (c => P, m => P, t => P) -> c_int)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_clockwait(c: P, m: P, k: c_int, t: P, pc: u64) -> c_int {
    unsafe { cond_wait(c, m, pc, || call!(C_CLOCKWAIT, (c => P, m => P, k => c_int, t => P) -> c_int)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_signal(c: P, pc: u64) -> c_int {
    unsafe {
        seen(c, 8, RMW, pc);
        sync::cond_wake(c as u64, false);
        call!(C_SIGNAL, (c => P) -> c_int)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_broadcast(c: P, pc: u64) -> c_int {
    unsafe {
        seen(c, 8, RMW, pc);
        sync::cond_wake(c as u64, true);
        call!(C_BROADCAST, (c => P) -> c_int)
    }
}

/// Takes a semaphore if it is free, else waits; errno is left by whichever ran last, as the caller expects.
#[inline(always)]
unsafe fn sem_wait(s: P, pc: u64, wait: impl Fn() -> c_int) -> c_int {
    unsafe {
        seen(s, 8, RMW, pc);
        if !recording() {
            return wait();
        }
        let errno = *__errno_location();
        if call!(SEM_TRYWAIT, (s => P) -> c_int) == 0 {
            return 0;
        }
        *__errno_location() = errno;
        sync::sem_wait_begin(s as u64);
        let r = wait();
        if r == 0 {
            sync::sem_wait_end(s as u64);
        }
        r
    }
}

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sem_wait(s: P, pc: u64) -> c_int {
    unsafe { sem_wait(s, pc, || call!(SEM_WAIT, (s => P) -> c_int)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sem_trywait(s: P, pc: u64) -> c_int {
    unsafe {
        seen(s, 8, RMW, pc);
        call!(SEM_TRYWAIT, (s => P) -> c_int)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sem_timedwait(s: P, t: P, pc: u64) -> c_int {
    unsafe { sem_wait(s, pc, || call!(SEM_TIMEDWAIT, (s => P, t => P) -> c_int)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sem_clockwait(s: P, c: c_int, t: P, pc: u64) -> c_int {
    unsafe { sem_wait(s, pc, || call!(SEM_CLOCKWAIT, (s => P, c => c_int, t => P) -> c_int)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sem_post(s: P, pc: u64) -> c_int {
    unsafe {
        seen(s, 8, RMW, pc);
        sync::sem_post(s as u64);
        call!(SEM_POST, (s => P) -> c_int)
    }
}

// ---- functions with several versions in glibc ----

/// A program linked against libtsan asks for these without a version and would get the oldest from libc.
macro_rules! forward {
    ($($name:literal $find:ident $next:ident;)+) => {
        next! { $( $next = $name; )+ }
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $find() -> P {
                $next.get()
            }
            global_asm!(
                concat!(".weak ", $name, "\n.type ", $name, ",@function\n.hidden ", stringify!($find)),
                concat!(".p2align 4\n", $name, ":"),
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                concat!("call ", stringify!($find)),
                "mov r11, rax",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "jmp r11",
            );
        )+
    };
}
forward! {
    "fmemopen" tussle_find_fmemopen FMEMOPEN;
    "glob" tussle_find_glob GLOB;
    "glob64" tussle_find_glob64 GLOB64;
    "posix_spawn" tussle_find_posix_spawn POSIX_SPAWN;
    "posix_spawnp" tussle_find_posix_spawnp POSIX_SPAWNP;
    "realpath" tussle_find_realpath REALPATH;
    "regexec" tussle_find_regexec REGEXEC;
    "sched_getaffinity" tussle_find_sched_getaffinity SCHED_GETAFFINITY;
    "pthread_attr_getaffinity_np" tussle_find_attr_getaffinity ATTR_GETAFFINITY;
}
