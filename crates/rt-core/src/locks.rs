//! A thread's table of the locks that it took.

use crate::arena::{alloc, at, cap, header, lost, reference};
use crate::mem::take;
use crate::sections::{MEMORY_SHARE, section_bytes};
use crate::thread::Entered;
use crate::wire::*;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Locks per thread (log2).
const LOCKS_BITS_MAX: u32 = 12;
/// Slots in which a lock is looked for: three quarters of them are taken at most, so that runs are short.
const PROBES: usize = 64;

/// The thread's entry for a lock, taken alone or together with other readers; null where there is no room.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub(crate) unsafe fn known(t: *mut Live, addr: u64, shared: bool) -> *mut Lock {
    // SAFETY: the caller's promise.
    let lock = unsafe { cached(t, addr, shared) };
    if lock.is_null() {
        lost(LOST_LOCKS, 1);
    }
    lock
}

/// The same, and nobody is told that there is no room.
///
/// # Safety
/// As for [`known`].
#[inline(always)]
unsafe fn cached(t: *mut Live, addr: u64, shared: bool) -> *mut Lock {
    // SAFETY: the cache has 16 entries and the index four bits; an entry names a lock of the table that is in use:
    // `grow` clears it.
    unsafe {
        // What readers do differs from what writers do: each has a sample of its own.
        let addr = addr | if shared { LOCK_SHARED } else { 0 };
        let c = (&raw mut (*t).lock_cache[0]).add((addr >> 3 ^ addr >> 9) as usize & 15);
        if (*c).addr != addr {
            let l = lock_of(t, addr);
            if l.is_null() {
                return l;
            }
            (*c).addr = addr;
            (*c).at = l as u64;
        }
        (*c).at as *mut Lock
    }
}

/// The calling thread has taken a lock that is known by its word.
pub(crate) fn taken_by_word(entered: &Entered, addr: u64) {
    // SAFETY: the thread is inside the recorder; an entry of its table is its own.
    unsafe {
        if (*header()).operations == 0 {
            return;
        }
        let lock = cached(entered.live(), addr, false);
        if !lock.is_null() {
            (*lock).by_word = 1;
        }
    }
}

#[inline(always)]
fn hash(addr: u64) -> usize {
    (addr >> 3 ^ addr >> 12) as usize
}

/// The thread's entry of a lock, made if need be; null without room.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[cold]
pub(crate) unsafe fn lock_of(t: *mut Live, addr: u64) -> *mut Lock {
    // SAFETY: indices are masked to the table's size; only this thread takes places in it.
    unsafe {
        let info = (*t).info_at as *mut ThreadInfo;
        if (*info).locks == 0 || (*info).locks_count * 4 >= 3 << (*info).locks_bits {
            grow(t, info);
        }
        if (*info).locks == 0 {
            return core::ptr::null_mut();
        }
        // A full table would be searched from end to end for every lock that is not in it.
        let full = (*info).locks_count * 4 >= 3 << (*info).locks_bits;
        let mask = (1usize << (*info).locks_bits) - 1;
        let table = at::<Lock>((*info).locks);
        let mut i = hash(addr) & mask;
        for _ in 0..PROBES.min(mask + 1) {
            let l = table.add(i);
            if (*l).addr == addr {
                return l;
            }
            if (*l).addr == 0 {
                if full {
                    break;
                }
                (*l).addr = addr;
                (*info).locks_count += 1;
                return l;
            }
            i = (i + 1) & mask;
        }
        core::ptr::null_mut()
    }
}

/// Doubles the table; no section is open here.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `info` is its description.
unsafe fn grow(t: *mut Live, info: *mut ThreadInfo) {
    // SAFETY: the new table is this thread's alone until `locks` names it; no section is open, so that nothing points
    // into the old.
    unsafe {
        let old_bits = (*info).locks_bits;
        let bits = if (*info).locks == 0 { 3 } else { old_bits + 1 };
        let bytes = (size_of::<Lock>() as u64) << bits;
        if bits > LOCKS_BITS_MAX || section_bytes() + bytes > cap() / MEMORY_SHARE {
            return;
        }
        let new = if bytes <= 4096 { take(t, bytes) } else { alloc(bytes) };
        if new == 0 {
            return;
        }
        AtomicU64::from_ptr(&raw mut (*header()).section_bytes).fetch_add(bytes, Relaxed);
        if (*info).locks != 0 {
            let old = at::<Lock>((*info).locks);
            for k in 0..1usize << old_bits {
                let from = old.add(k);
                if (*from).addr != 0 {
                    let mut i = hash((*from).addr) & ((1 << bits) - 1);
                    while (*(new as *mut Lock).add(i)).addr != 0 {
                        i = (i + 1) & ((1 << bits) - 1);
                    }
                    core::ptr::copy_nonoverlapping(from, (new as *mut Lock).add(i), 1);
                }
            }
        }
        for c in &mut (*t).lock_cache {
            c.addr = 0;
        }
        // A reader must never see a size that does not fit the table: a small size over a big table is safe.
        (*info).locks = reference(new);
        (*info).locks_bits = bits;
    }
}

/// Drops the sections of those locks of which this says so.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder and ends: what is still open is not written down.
pub(crate) unsafe fn drop_of(t: *mut Live, none: impl Fn(u64) -> bool) {
    // SAFETY: the thread's own table, below its size; nobody else writes to it.
    unsafe {
        let info = (*t).info_at as *mut ThreadInfo;
        if (*info).locks == 0 {
            return;
        }
        for k in 0..1usize << (*info).locks_bits {
            let l = at::<Lock>((*info).locks).add(k);
            if (*l).addr > NO_LOCK && none((*l).addr & !LOCK_SHARED) {
                ((*l).count, (*l).sections, (*l).kept) = (0, 0, 0);
            }
        }
    }
}
