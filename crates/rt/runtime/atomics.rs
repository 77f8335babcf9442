//! The atomic operations that the compiler hands to the runtime.

use crate::{record, waits};
use crate::wire::*;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use tussle_rt_core::arch::cas128;
use tussle_rt_core::company::Orders;
use tussle_rt_core::waits::How;
use tussle_rt_core::wide::load as load128;

/// Memory orders of the C ABI.
const RELAXED: u32 = 0;
const RELEASE: u32 = 3;
const ACQUIRE_RELEASE: u32 = 4;

/// Notes an atomic access; cheap where nothing is recorded.
#[inline(always)]
fn note(addr: u64, n: u64, kind: u32, pc: u64) {
    if crate::arena::recording() {
        record::access(addr, n, kind, pc)
    }
}

/// Who gives a lock back by an exchange may have taken it in code that is not instrumented (`Mutex` of Rust's library),
/// and is behind who had it before by now.
fn back(mo: u32) -> u32 {
    if mo & 7 == RELEASE { ACQUIRE_RELEASE } else { mo }
}

fn orders(mo: u32) -> Orders {
    Orders { before: mo & 7 >= RELEASE, after: ![RELAXED, RELEASE].contains(&(mo & 7)) }
}

/// The same, of one that may order what came before.
#[inline(always)]
fn note_ordered(addr: u64, n: u64, (kind, mo): (u32, u32), pc: u64) {
    note(addr, n, kind, pc);
    waits::releases(addr, orders(mo));
}

/// What a comparing exchange will do, as things are: nothing, or leave `to`.
fn exchange(now: u64, wanted: u64, to: u64) -> (Option<u64>, u64) {
    (Some(now), if now == wanted { to } else { now })
}

macro_rules! atomics {
    ($ty:ty, $atomic:ty, $bytes:literal, $load:ident, $store:ident, $xchg:ident, $add:ident, $sub:ident, $and:ident,
     $or:ident, $xor:ident, $nand:ident, $strong:ident, $val:ident) => {
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $load(a: *mut $ty, mo: u32, pc: u64) -> $ty {
            // SAFETY: the program's own atomic: its address is valid, or the program itself would fault here.
            unsafe {
                note(a as u64, $bytes, READ, pc);
                let seen = <$atomic>::from_ptr(a).load(SeqCst);
                waits::looked(a as u64, seen as u64);
                waits::acquires(a as u64, orders(mo));
                seen
            }
        }
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $store(a: *mut $ty, v: $ty, mo: u32, pc: u64) {
            // SAFETY: the program's own atomic: its address is valid, or the program itself would fault here.
            unsafe {
                waits::changing(a as u64, How::Sets, || (None, v as u64));
                waits::storing(a as u64, v as u64);
                note_ordered(a as u64, $bytes, (WRITE, mo), pc);
                // Memory orders of the C ABI: 3 is release, 5 sequentially consistent (a locked exchange).
                let a = <$atomic>::from_ptr(a);
                if mo & 7 == 5 {
                    a.store(v, SeqCst)
                } else {
                    a.store(v, core::sync::atomic::Ordering::Release)
                }
                waits::stored(a.as_ptr() as u64);
            }
        }
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $xchg(a: *mut $ty, v: $ty, mo: u32, pc: u64) -> $ty {
            // SAFETY: the program's own atomic: its address is valid, or the program itself would fault here.
            unsafe {
                // Whatever was there: who takes a lock must not only release, and who releases stores.
                let from = || (mo & 7 != RELEASE).then(|| <$atomic>::from_ptr(a).load(Relaxed) as u64);
                waits::changing(a as u64, How::Sets, || (from(), v as u64));
                note_ordered(a as u64, $bytes, (RMW, back(mo)), pc);
                let old = <$atomic>::from_ptr(a).swap(v, SeqCst);
                waits::exchanged(a as u64, $bytes, old as u64, v as u64, How::Sets);
                waits::acquires(a as u64, orders(mo));
                old
            }
        }
        atomics!(@fetch $ty, $atomic, $bytes, $add, fetch_add, How::Counts, |a, b| a.wrapping_add(b));
        atomics!(@fetch $ty, $atomic, $bytes, $sub, fetch_sub, How::Counts, |a, b| a.wrapping_sub(b));
        atomics!(@fetch $ty, $atomic, $bytes, $and, fetch_and, How::Sets, |a, b| a & b);
        atomics!(@fetch $ty, $atomic, $bytes, $or, fetch_or, How::Sets, |a, b| a | b);
        atomics!(@fetch $ty, $atomic, $bytes, $xor, fetch_xor, How::Sets, |a, b| a ^ b);
        atomics!(@fetch $ty, $atomic, $bytes, $nand, fetch_nand, How::Sets, |a, b| !(a & b));
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $strong(a: *mut $ty, c: *mut $ty, v: $ty, mo: u32, _fmo: u32, pc: u64) -> u32 {
            // SAFETY: the program's own atomic: its address is valid, or the program itself would fault here.
            unsafe {
                let now = || <$atomic>::from_ptr(a).load(Relaxed) as u64;
                waits::changing(a as u64, How::Compares, || exchange(now(), *c as u64, v as u64));
                note_ordered(a as u64, $bytes, (RMW, mo), pc);
                match <$atomic>::from_ptr(a).compare_exchange(*c, v, SeqCst, SeqCst) {
                    Ok(old) => {
                        waits::exchanged(a as u64, $bytes, old as u64, v as u64, How::Compares);
                        waits::acquires(a as u64, orders(mo));
                        1
                    }
                    Err(now) => {
                        waits::in_vain(a as u64, *c as u64, now as u64);
                        waits::acquires(a as u64, orders(mo));
                        *c = now;
                        0
                    }
                }
            }
        }
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $val(a: *mut $ty, c: $ty, v: $ty, mo: u32, _fmo: u32, pc: u64) -> $ty {
            // SAFETY: the program's own atomic: its address is valid, or the program itself would fault here.
            unsafe {
                let now = || <$atomic>::from_ptr(a).load(Relaxed) as u64;
                waits::changing(a as u64, How::Compares, || exchange(now(), c as u64, v as u64));
                note_ordered(a as u64, $bytes, (RMW, mo), pc);
                match <$atomic>::from_ptr(a).compare_exchange(c, v, SeqCst, SeqCst) {
                    Ok(old) => {
                        waits::exchanged(a as u64, $bytes, old as u64, v as u64, How::Compares);
                        waits::acquires(a as u64, orders(mo));
                        old
                    }
                    Err(old) => {
                        waits::in_vain(a as u64, c as u64, old as u64);
                        waits::acquires(a as u64, orders(mo));
                        old
                    }
                }
            }
        }
    };
    (@fetch $ty:ty, $atomic:ty, $bytes:literal, $name:ident, $op:ident, $how:expr,
     $to:expr) => {
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(a: *mut $ty, v: $ty, mo: u32, pc: u64) -> $ty {
            // SAFETY: the program's own atomic: its address is valid, or the program itself would fault here.
            unsafe {
                let to: fn($ty, $ty) -> $ty = $to;
                let change = || {
                    let now = <$atomic>::from_ptr(a).load(Relaxed);
                    (Some(now as u64), to(now, v) as u64)
                };
                waits::changing(a as u64, $how, change);
                note_ordered(a as u64, $bytes, (RMW, mo), pc);
                let old = <$atomic>::from_ptr(a).$op(v, SeqCst);
                waits::exchanged(a as u64, $bytes, old as u64, to(old, v) as u64, $how);
                waits::acquires(a as u64, orders(mo));
                old
            }
        }
    };
}

atomics!(
    u8,
    AtomicU8,
    1,
    tussle_a8_load,
    tussle_a8_store,
    tussle_a8_exchange,
    tussle_a8_fetch_add,
    tussle_a8_fetch_sub,
    tussle_a8_fetch_and,
    tussle_a8_fetch_or,
    tussle_a8_fetch_xor,
    tussle_a8_fetch_nand,
    tussle_a8_cas,
    tussle_a8_cas_val
);
atomics!(
    u16,
    AtomicU16,
    2,
    tussle_a16_load,
    tussle_a16_store,
    tussle_a16_exchange,
    tussle_a16_fetch_add,
    tussle_a16_fetch_sub,
    tussle_a16_fetch_and,
    tussle_a16_fetch_or,
    tussle_a16_fetch_xor,
    tussle_a16_fetch_nand,
    tussle_a16_cas,
    tussle_a16_cas_val
);
atomics!(
    u32,
    AtomicU32,
    4,
    tussle_a32_load,
    tussle_a32_store,
    tussle_a32_exchange,
    tussle_a32_fetch_add,
    tussle_a32_fetch_sub,
    tussle_a32_fetch_and,
    tussle_a32_fetch_or,
    tussle_a32_fetch_xor,
    tussle_a32_fetch_nand,
    tussle_a32_cas,
    tussle_a32_cas_val
);
atomics!(
    u64,
    AtomicU64,
    8,
    tussle_a64_load,
    tussle_a64_store,
    tussle_a64_exchange,
    tussle_a64_fetch_add,
    tussle_a64_fetch_sub,
    tussle_a64_fetch_and,
    tussle_a64_fetch_or,
    tussle_a64_fetch_xor,
    tussle_a64_fetch_nand,
    tussle_a64_cas,
    tussle_a64_cas_val
);

/// Read, change, write, until nobody came between.
///
/// # Safety
/// `a` is valid and aligned to 16 bytes.
unsafe fn update128(a: *mut u128, kind: u32, pc: u64, f: impl Fn(u128) -> u128) -> u128 {
    // SAFETY: the caller's promise.
    unsafe {
        note(a as u64, 16, kind, pc);
        let mut old = load128(a);
        loop {
            let seen = cas128(a, old, f(old));
            if seen == old {
                return old;
            }
            old = seen;
        }
    }
}

/// # Safety
/// Behind an exported name: the arguments are the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_a128_load(a: *mut u128, _mo: u32, pc: u64) -> u128 {
    // SAFETY: the program's own atomic: its address is valid, or the program itself would fault here.
    unsafe {
        note(a as u64, 16, READ, pc);
        load128(a)
    }
}

/// # Safety
/// Behind an exported name: the arguments are the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_a128_store(a: *mut u128, v: u128, _mo: u32, pc: u64) {
    // SAFETY: the program's own atomic: its address is valid, or the program itself would fault here.
    unsafe { update128(a, WRITE, pc, |_| v) };
}

macro_rules! fetch128 {
    ($($name:ident = |$old:ident, $v:ident| $e:expr;)*) => { $(
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(a: *mut u128, $v: u128, _mo: u32, pc: u64) -> u128 {
            // SAFETY: the program's own atomic: its address is valid, or the program itself would fault here.
            unsafe { update128(a, RMW, pc, |$old| $e) }
        }
    )* };
}
fetch128! {
    tussle_a128_exchange = |_old, v| v;
    tussle_a128_fetch_add = |old, v| old.wrapping_add(v);
    tussle_a128_fetch_sub = |old, v| old.wrapping_sub(v);
    tussle_a128_fetch_and = |old, v| old & v;
    tussle_a128_fetch_or = |old, v| old | v;
    tussle_a128_fetch_xor = |old, v| old ^ v;
    tussle_a128_fetch_nand = |old, v| !(old & v);
}

/// # Safety
/// Behind an exported name: the arguments are the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_a128_cas(a: *mut u128, c: *mut u128, v: u128, _mo: u32, _fmo: u32) -> u32 {
    // SAFETY: the program's own atomic: its address is valid, or the program itself would fault here.
    unsafe {
        note(a as u64, 16, RMW, 0);
        let want = *c;
        let seen = cas128(a, want, v);
        if seen != want {
            *c = seen;
        }
        (seen == want) as u32
    }
}

/// # Safety
/// Behind an exported name: the arguments are the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_a128_cas_val(a: *mut u128, c: u128, v: u128, _mo: u32) -> u128 {
    // SAFETY: the program's own atomic: its address is valid, or the program itself would fault here.
    unsafe {
        note(a as u64, 16, RMW, 0);
        cas128(a, c, v)
    }
}

/// `atomic_thread_fence`.
#[unsafe(no_mangle)]
pub extern "C" fn tussle_fence(mo: u32) {
    if mo & 7 != RELAXED {
        waits::fences();
        core::sync::atomic::fence(SeqCst);
    }
}
