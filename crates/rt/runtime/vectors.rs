//! Calls that read into, or write from, several places at once, and messages. The calling thread's CPU does the copy.

use crate::arch::{alias, stub};
use crate::arena::{self, recording};
use crate::channels::{reading, writing};
use crate::interpose::P;
use crate::libc_calls::{call, next_all};
use crate::record;
use crate::wire::*;
use core::ffi::{c_int, c_long};

next_all! {
    ALL:
    READV = "readv"; WRITEV = "writev"; PREADV = "preadv"; PWRITEV = "pwritev";
    PREADV2 = "preadv2"; PWRITEV2 = "pwritev2";
    RECVMSG = "recvmsg"; SENDMSG = "sendmsg"; RECVFROM = "recvfrom"; SENDTO = "sendto";
}

/// Looks up what may be called in handlers.
pub fn resolve() {
    for n in ALL {
        n.find();
    }
}

stub! {
    "readv" => "tussle_readv", "rcx";
    "writev" => "tussle_writev", "rcx";
    "preadv" => "tussle_preadv", "r8";
    "preadv64" => "tussle_preadv", "r8";
    "pwritev" => "tussle_pwritev", "r8";
    "pwritev64" => "tussle_pwritev", "r8";
    "preadv2" => "tussle_preadv2", "r9";
    "preadv64v2" => "tussle_preadv2", "r9";
    "pwritev2" => "tussle_pwritev2", "r9";
    "pwritev64v2" => "tussle_pwritev2", "r9";
    "recvmsg" => "tussle_recvmsg", "rcx";
    "sendmsg" => "tussle_sendmsg", "rcx";
}
alias! {
    "recvfrom" => "tussle_recvfrom";
    "sendto" => "tussle_sendto";
}

/// `struct iovec`.
#[repr(C)]
pub struct Place {
    base: u64,
    bytes: usize,
}

/// `struct msghdr` up to its places.
#[repr(C)]
pub struct Message {
    name: u64,
    name_bytes: u64,
    places: *const Place,
    count: usize,
}

/// Notes the first `bytes` of the places.
///
/// # Safety
/// The kernel has just read that many places; `bytes` is not positive if it has not.
pub unsafe fn note(places: *const Place, count: usize, bytes: isize, kind: u32, pc: u64) {
    if !recording() {
        return;
    }
    let mut left = bytes.max(0) as usize;
    let mut k = 0;
    while left > 0 && k < count {
        // SAFETY: the caller's promise; the addresses in it are only noted.
        let p = unsafe { &*places.add(k) };
        let n = p.bytes.min(left);
        record::range(p.base, n as u64, kind, pc);
        left -= n;
        k += 1;
    }
}

/// A stream throws away what it would give; of a datagram the result is its whole length.
const MSG_TRUNC: c_int = 0x20;

/// Bytes that a receiving call says it put into memory. Where it does not say so none, and the loss is counted.
pub fn stored(r: isize, flags: c_int) -> isize {
    if flags & MSG_TRUNC == 0 || r <= 0 {
        return r;
    }
    arena::lost(LOST_KERNEL, 1);
    0
}

/// Notes the first `bytes` of a message's places.
///
/// # Safety
/// The kernel has just read the message; `bytes` is not positive if it has not.
pub unsafe fn note_message(m: *const Message, bytes: isize, kind: u32, pc: u64) {
    if bytes > 0 {
        // SAFETY: the caller's promise.
        unsafe { note((*m).places, (*m).count, bytes, kind, pc) }
    }
}

/// Makes the call, which reads or writes from a channel's end if it has `flags`.
fn through(flags: Option<c_int>, fd: c_int, kind: u32, go: impl FnOnce() -> isize) -> isize {
    match flags {
        Some(flags) if kind == WRITE => reading(fd, flags, 0, go),
        Some(_) => {
            writing(fd);
            go()
        }
        None => go(),
    }
}

macro_rules! vector {
    ($($name:ident, $next:ident, $kind:expr, $waits:literal, ($($extra:ident: $t:ty),*);)+) => { $(
        /// # Safety
        /// As the function that this stands in front of.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, p: *const Place, n: c_int $(, $extra: $t)*, pc: u64) -> isize {
            // SAFETY: the arguments go on as they came; places that the kernel has read are read again.
            unsafe {
                let go = || call!($next, (fd => c_int, p => *const Place, n => c_int $(, $extra => $t)*) -> isize);
                let r = through($waits.then_some(0), fd, $kind, go);
                note(p, n.max(0) as usize, r, $kind, pc);
                r
            }
        }
    )+ };
}
vector! {
    tussle_readv, READV, WRITE, true, ();
    tussle_writev, WRITEV, READ, true, ();
    tussle_preadv, PREADV, WRITE, false, (offset: c_long);
    tussle_pwritev, PWRITEV, READ, false, (offset: c_long);
    tussle_preadv2, PREADV2, WRITE, false, (offset: c_long, flags: c_int);
    tussle_pwritev2, PWRITEV2, READ, false, (offset: c_long, flags: c_int);
}

macro_rules! message {
    ($($name:ident, $next:ident, $kind:expr;)+) => { $(
        /// # Safety
        /// As the function that this stands in front of.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, m: *const Message, flags: c_int, pc: u64) -> isize {
            // SAFETY: the arguments go on as they came; a message that the kernel has read is read again.
            unsafe {
                let go = || call!($next, (fd => c_int, m => *const Message, flags => c_int) -> isize);
                let r = through(Some(flags), fd, $kind, go);
                note_message(m, if $kind == WRITE { stored(r, flags) } else { r }, $kind, pc);
                r
            }
        }
    )+ };
}
message! {
    tussle_recvmsg, RECVMSG, WRITE;
    tussle_sendmsg, SENDMSG, READ;
}

macro_rules! datagram {
    ($($name:ident, $next:ident, $kind:expr;)+) => { $(
        /// Six arguments leave no register for the return address: the shadow stack's callers must do.
        ///
        /// # Safety
        /// As the function that this stands in front of.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, p: P, n: usize, flags: c_int, other: P, bytes: P) -> isize {
            // SAFETY: the arguments go on as they came; the address is only noted.
            unsafe {
                type N = usize;
                let go =
                    || call!($next, (fd => c_int, p => P, n => N, flags => c_int, other => P, bytes => P) -> isize);
                let r = through(Some(flags), fd, $kind, go);
                let moved = if $kind == WRITE { stored(r, flags) } else { r };
                record::range(p as u64, moved.clamp(0, n.min(isize::MAX as usize) as isize) as u64, $kind, 0);
                r
            }
        }
    )+ };
}
datagram! {
    tussle_recvfrom, RECVFROM, WRITE;
    tussle_sendto, SENDTO, READ;
}
