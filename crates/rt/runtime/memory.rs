//! Functions of libc that read or write the program's memory on its behalf.

use crate::alloc;
use crate::arch::{alias, copy, fill, frame_stub_of_six, stub};
use crate::interpose::*;
use crate::libc_calls::{call, unrecorded};
use crate::channels::{reading, writing};
use crate::wire::*;
use crate::{heap, record, vectors};
use core::ffi::{c_int, c_long};
use tussle_rt_core::callers::Call;
use tussle_rt_core::processes::Memory;

// `memcpy`, `memmove` and `memset` themselves are in `arch/x86_64_names.s`.
stub! {
    "__tsan_memcpy" => "tussle_memcpy", "rcx";
    "__tsan_memmove" => "tussle_memmove", "rcx";
    "__tsan_memset" => "tussle_memset", "rcx";
    "__memcpy_chk" => "tussle_memcpy_chk", "r8";
    "__memmove_chk" => "tussle_memmove_chk", "r8";
    "__memset_chk" => "tussle_memset_chk", "r8";
    "read" => "tussle_read", "rcx";
    "pread" => "tussle_pread", "r8";
    "pread64" => "tussle_pread", "r8";
    "recv" => "tussle_recv", "r8";
    "write" => "tussle_write", "rcx";
    "send" => "tussle_send", "r8";
    "fread" => "tussle_fread", "r8";
    "fread_unlocked" => "tussle_fread_unlocked", "r8";
    "__read_chk" => "tussle_read_chk", "r8";
    "__pread_chk" => "tussle_pread_chk", "r9";
    "__pread64_chk" => "tussle_pread_chk", "r9";
    "__recv_chk" => "tussle_recv_chk", "r9";
    "__fread_chk" => "tussle_fread_chk", "r9";
    "fwrite" => "tussle_fwrite", "r8";
}
frame_stub_of_six! {
    "mmap" => "tussle_mmap";
    "mmap64" => "tussle_mmap";
}
alias! {
    "munmap" => "tussle_munmap";
    "shmat" => "tussle_shmat";
    "_exit" => "tussle__exit";
    "_Exit" => "tussle__exit";
}

#[inline(always)]
fn note(addr: u64, n: usize, kind: u32, pc: u64) {
    record::range(addr, n as u64, kind, pc)
}

/// Notes a copy that has been made: only then its length is known to be one.
fn copied(d: P, s: P, n: usize, pc: u64) {
    note(s as u64, n, READ, pc);
    note(d as u64, n, WRITE, pc);
}

/// # Safety
/// As `memcpy`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memcpy(d: P, s: P, n: usize, pc: u64) -> P {
    // SAFETY: the arguments go on as they came.
    unsafe {
        unrecorded!(MEMCPY, (d => P, s => P, n => usize) -> P);
        memcpy_recorded(d, s, n, pc)
    }
}

/// # Safety
/// As `memcpy`; `pc` is the return address of the call.
#[inline(never)]
unsafe extern "C" fn memcpy_recorded(d: P, s: P, n: usize, pc: u64) -> P {
    // SAFETY: the `memcpy` behind ours gets the arguments as they came; the recorder notes their addresses and
    // follows none.
    unsafe {
        if MEMCPY.known().is_null() {
            copy(d.cast(), s.cast(), n);
        } else {
            call!(MEMCPY, (d => P, s => P, n => usize) -> P);
        }
        copied(d, s, n, pc);
        d
    }
}

/// # Safety
/// As `memmove`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memmove(d: P, s: P, n: usize, pc: u64) -> P {
    // SAFETY: the arguments go on as they came.
    unsafe {
        unrecorded!(MEMMOVE, (d => P, s => P, n => usize) -> P);
        memmove_recorded(d, s, n, pc)
    }
}

/// # Safety
/// As `memmove`; `pc` is the return address of the call.
#[inline(never)]
unsafe extern "C" fn memmove_recorded(d: P, s: P, n: usize, pc: u64) -> P {
    // SAFETY: the `memmove` behind ours gets the arguments as they came; the recorder notes their addresses and
    // follows none.
    unsafe {
        if MEMMOVE.known().is_null() {
            let mut k = 0;
            let up = (d as usize) <= (s as usize);
            while k < n {
                let i = if up { k } else { n - 1 - k };
                (d as *mut u8).add(i).write_volatile((s as *const u8).add(i).read_volatile());
                k += 1;
            }
        } else {
            call!(MEMMOVE, (d => P, s => P, n => usize) -> P);
        }
        copied(d, s, n, pc);
        d
    }
}

/// # Safety
/// As `memset`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memset(d: P, c: c_int, n: usize, pc: u64) -> P {
    // SAFETY: the arguments go on as they came.
    unsafe {
        unrecorded!(MEMSET, (d => P, c => c_int, n => usize) -> P);
        memset_recorded(d, c, n, pc)
    }
}

/// # Safety
/// As `memset`; `pc` is the return address of the call.
#[inline(never)]
unsafe extern "C" fn memset_recorded(d: P, c: c_int, n: usize, pc: u64) -> P {
    // SAFETY: the `memset` behind ours gets the arguments as they came; the recorder notes their addresses and
    // follows none.
    unsafe {
        if MEMSET.known().is_null() {
            fill(d.cast(), c as u8, n);
        } else {
            call!(MEMSET, (d => P, c => c_int, n => usize) -> P);
        }
        note(d as u64, n, WRITE, pc);
        d
    }
}

/// # Safety
/// As `__memcpy_chk`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memcpy_chk(d: P, s: P, n: usize, room: usize, pc: u64) -> P {
    // SAFETY: the `__memcpy_chk` behind ours gets the arguments as they came; the recorder notes their addresses and
    // follows none.
    unsafe {
        call!(MEMCPY_CHK, (d => P, s => P, n => usize, room => usize) -> P);
        copied(d, s, n, pc);
        d
    }
}

/// # Safety
/// As `__memmove_chk`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memmove_chk(d: P, s: P, n: usize, room: usize, pc: u64) -> P {
    // SAFETY: the `__memmove_chk` behind ours gets the arguments as they came; the recorder notes their addresses
    // and follows none.
    unsafe {
        call!(MEMMOVE_CHK, (d => P, s => P, n => usize, room => usize) -> P);
        copied(d, s, n, pc);
        d
    }
}

/// # Safety
/// As `__memset_chk`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_memset_chk(d: P, c: c_int, n: usize, room: usize, pc: u64) -> P {
    // SAFETY: the `__memset_chk` behind ours gets the arguments as they came; the recorder notes their addresses and
    // follows none.
    unsafe {
        call!(MEMSET_CHK, (d => P, c => c_int, n => usize, room => usize) -> P);
        note(d as u64, n, WRITE, pc);
        d
    }
}

/// # Safety
/// As `mmap`; `by` is the call, whose stack is in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mmap(
    a: P,
    n: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    off: c_long,
    by: Call,
) -> P {
    // SAFETY: the `mmap` behind ours gets the arguments as they came; the recorder notes their addresses and follows
    // none.
    unsafe {
        let p =
            call!(MMAP, (a => P, n => usize, prot => c_int, flags => c_int, fd => c_int, off => c_long) -> P);
        if p as isize != -1 && prot & WRITABLE != 0 {
            alloc::born(p, n, BY_MMAP, PAGE, by);
        }
        if p as isize != -1 && flags & SHARED != 0 {
            let anonymous = flags & ANONYMOUS != 0;
            let memory = if anonymous { Memory::Anonymous } else { Memory::File(fd, off as u64) };
            heap::shared(p as u64, n as u64, &memory);
        }
        p
    }
}

/// Set in `MAP_SHARED` and in `MAP_SHARED_VALIDATE`.
const SHARED: c_int = 1;
const ANONYMOUS: c_int = 0x20;
/// `PROT_WRITE`.
const WRITABLE: c_int = 2;
/// Position of `mmap` in the list of allocators, and what it aligns to.
const BY_MMAP: u16 = 15;
const PAGE: u32 = 4096;

/// # Safety
/// As `shmat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_shmat(id: c_int, at: P, flags: c_int) -> P {
    // SAFETY: the `shmat` behind ours gets the arguments as they came; the recorder notes their addresses and
    // follows none.
    unsafe {
        let p = call!(SHMAT, (id => c_int, at => P, flags => c_int) -> P);
        if p as isize != -1 {
            heap::shared(p as u64, segment_bytes(id), &Memory::Segment(id as u32));
        }
        p
    }
}

/// Size of a System V segment, bytes; 0 if it cannot be told.
fn segment_bytes(id: c_int) -> u64 {
    const SYS_SHMCTL: usize = 31;
    const IPC_STAT: usize = 2;
    // `struct shmid64_ds` of x86-64: 48 bytes of permissions, then the size; 112 bytes in all.
    let mut about = [0u64; 32];
    // SAFETY: the kernel writes 112 bytes.
    let r = unsafe { crate::sys::call3(SYS_SHMCTL, id as usize, IPC_STAT, about.as_mut_ptr() as usize) };
    if r == 0 { about[6] } else { 0 }
}

/// # Safety
/// As `munmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_munmap(a: P, n: usize) -> c_int {
    // SAFETY: the `munmap` behind ours gets the arguments as they came; the recorder notes their addresses and
    // follows none.
    unsafe {
        heap::unmapped(a as u64);
        call!(MUNMAP, (a => P, n => usize) -> c_int)
    }
}

/// # Safety
/// As `read`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_read(fd: c_int, p: P, n: usize, pc: u64) -> isize {
    // SAFETY: the `read` behind ours gets the arguments as they came; the recorder notes their addresses and follows
    // none.
    unsafe {
        let r = reading(fd, 0, p as u64, || call!(READ_, (fd => c_int, p => P, n => usize) -> isize));
        note(p as u64, r.max(0) as usize, WRITE, pc);
        r
    }
}

/// # Safety
/// As `pread`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pread(fd: c_int, p: P, n: usize, off: c_long, pc: u64) -> isize {
    // SAFETY: the `pread` behind ours gets the arguments as they came; the recorder notes their addresses and
    // follows none.
    unsafe {
        let r = call!(PREAD, (fd => c_int, p => P, n => usize, off => c_long) -> isize);
        note(p as u64, r.max(0) as usize, WRITE, pc);
        r
    }
}

/// # Safety
/// As `recv`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_recv(fd: c_int, p: P, n: usize, flags: c_int, pc: u64) -> isize {
    // SAFETY: the `recv` behind ours gets the arguments as they came; the recorder notes their addresses and follows
    // none.
    unsafe {
        let go = || call!(RECV, (fd => c_int, p => P, n => usize, flags => c_int) -> isize);
        let r = reading(fd, flags, 0, go);
        note(p as u64, (vectors::stored(r, flags).max(0) as usize).min(n), WRITE, pc);
        r
    }
}

/// # Safety
/// As `write`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_write(fd: c_int, p: P, n: usize, pc: u64) -> isize {
    // SAFETY: the `write` behind ours gets the arguments as they came; the recorder notes their addresses and
    // follows none.
    unsafe {
        writing(fd);
        let r = call!(WRITE_, (fd => c_int, p => P, n => usize) -> isize);
        note(p as u64, r.max(0) as usize, READ, pc);
        r
    }
}

/// # Safety
/// As `send`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_send(fd: c_int, p: P, n: usize, flags: c_int, pc: u64) -> isize {
    // SAFETY: the `send` behind ours gets the arguments as they came; the recorder notes their addresses and follows
    // none.
    unsafe {
        writing(fd);
        let r = call!(SEND, (fd => c_int, p => P, n => usize, flags => c_int) -> isize);
        note(p as u64, r.max(0) as usize, READ, pc);
        r
    }
}

/// # Safety
/// As `fread`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_fread(p: P, size: usize, n: usize, f: P, pc: u64) -> usize {
    // SAFETY: the `fread` behind ours gets the arguments as they came; the recorder notes their addresses and
    // follows none.
    unsafe {
        let r = call!(FREAD, (p => P, size => usize, n => usize, f => P) -> usize);
        note(p as u64, r * size, WRITE, pc);
        r
    }
}

macro_rules! checked {
    ($($name:ident, $next:ident, ($($a:ident: $t:ty),+), ($to:ident, $most:ident, $moved:expr, $waits:expr);)+) => { $(
        /// What `_FORTIFY_SOURCE` makes of the call.
        ///
        /// # Safety
        /// As the function that this stands in front of; `pc` is the return address of the call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($a: $t),+, pc: u64) -> isize {
            // SAFETY: the function behind gets the arguments as they came; the address is only noted.
            unsafe {
                let go = || call!($next, ($($a => $t),+) -> isize);
                let r = match $waits {
                    Some((fd, flags)) => reading(fd, flags, $to as u64, go),
                    None => go(),
                };
                note($to as u64, (($moved)(r).max(0) as usize).min($most), WRITE, pc);
                r
            }
        }
    )+ };
}
checked! {
    tussle_read_chk, READ_CHK, (fd: c_int, p: P, n: usize, room: usize), (p, n, |r| r, Some((fd, 0)));
    tussle_pread_chk, PREAD_CHK, (fd: c_int, p: P, n: usize, off: c_long, room: usize), (p, n, |r| r, None);
    tussle_recv_chk, RECV_CHK, (fd: c_int, p: P, n: usize, room: usize, flags: c_int),
        (p, n, |r| vectors::stored(r, flags), Some((fd, flags)));
}

/// What `_FORTIFY_SOURCE` makes of `fread`.
///
/// # Safety
/// As `fread` with the room behind `p`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_fread_chk(p: P, room: usize, size: usize, n: usize, f: P, pc: u64) -> usize {
    // SAFETY: the function behind gets the arguments as they came; the address is only noted.
    unsafe {
        let r = call!(FREAD_CHK, (p => P, room => usize, size => usize, n => usize, f => P) -> usize);
        note(p as u64, r * size, WRITE, pc);
        r
    }
}

/// # Safety
/// As `fread_unlocked`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_fread_unlocked(p: P, size: usize, n: usize, f: P, pc: u64) -> usize {
    // SAFETY: the function behind gets the arguments as they came; the address is only noted.
    unsafe {
        let r = call!(FREAD_UNLOCKED, (p => P, size => usize, n => usize, f => P) -> usize);
        note(p as u64, r * size, WRITE, pc);
        r
    }
}

/// # Safety
/// As `fwrite`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_fwrite(p: P, size: usize, n: usize, f: P, pc: u64) -> usize {
    // SAFETY: the `fwrite` behind ours gets the arguments as they came; the recorder notes their addresses and
    // follows none.
    unsafe {
        let r = call!(FWRITE, (p => P, size => usize, n => usize, f => P) -> usize);
        note(p as u64, r * size, READ, pc);
        r
    }
}

/// # Safety
/// As `_exit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle__exit(status: c_int) {
    // SAFETY: the `_exit` behind ours gets the arguments as they came; the recorder notes their addresses and
    // follows none.
    unsafe {
        crate::arena::mark_end(END_UNDERSCORE_EXIT, status as u32);
        call!(EXIT_, (status => c_int) -> ())
    }
}
