//! Per-thread allocation from the arena, and the table of pages of a thread.

use crate::arena::{alloc, at, fullness, reference};
use crate::wire::*;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

const SLAB_MIN: u64 = 4096;
const SLAB_MAX: u64 = 64 << 10;

/// `bytes` (a multiple of 64) of zeroed memory from the thread's slab; 0 when memory is exhausted.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub unsafe fn take(t: *mut Live, bytes: u64) -> u64 {
    // SAFETY: nobody else hands out of this thread's slab, and what lies between `slab` and `slab_end` was never
    // handed out.
    unsafe {
        let p = (*t).slab;
        if p + bytes <= (*t).slab_end {
            (*t).slab = p + bytes;
            return p;
        }
        refill(t, bytes)
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[cold]
unsafe fn refill(t: *mut Live, bytes: u64) -> u64 {
    // SAFETY: `alloc` gave the range to this thread; it joins the slab only where it begins at the slab's end.
    unsafe {
        let info = (*t).info_at as *mut ThreadInfo;
        // Slabs grow with what the thread already has: short threads stay small.
        let size =
            ((*info).pages_count as u64 * 1024).next_power_of_two().clamp(SLAB_MIN, SLAB_MAX).max(bytes);
        let p = alloc(size);
        if p == 0 {
            return 0;
        }
        // Contiguous slabs join, so that no remainder is wasted.
        if p != (*t).slab_end {
            (*t).slab = p;
        }
        (*t).slab_end = p + size;
        let q = (*t).slab;
        (*t).slab = q + bytes;
        q
    }
}

/// Where a page is looked for first: Knuth's multiplicative hashing. Neighbours must not lie side by side, or a search
/// that meets another mapping's pages walks over all of them.
#[inline(always)]
pub(crate) fn hash(page: u64, bits: u32) -> usize {
    (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

/// Address of the 64 record references of a page.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[cold]
pub unsafe fn leaf(t: *mut Live, page: u64) -> u64 {
    // SAFETY: the table is this thread's, and has a free slot; leaf before key.
    unsafe {
        let info = (*t).info_at as *mut ThreadInfo;
        if (*info).pages == 0 || (*info).pages_count * 4 >= 3 << (*info).pages_bits {
            grow(t, info);
        }
        if (*info).pages == 0 || (*info).pages_count + 1 >= 1 << (*info).pages_bits {
            return 0;
        }
        let s = place(info, page);
        if (*s).page != 0 {
            return at::<u32>((*s).leaf) as u64;
        }
        // The last eighth of the memory is for what is already known.
        if fullness() > 224 {
            return 0;
        }
        let l = take(t, 256);
        if l == 0 {
            return 0;
        }
        (*s).leaf = reference(l);
        (*s).page = page + 1;
        (*info).pages_count += 1;
        l
    }
}

/// As [`leaf`]; 0 if the thread has none of that page.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub unsafe fn known_leaf(t: *mut Live, page: u64) -> u64 {
    // SAFETY: the table is this thread's, and has a free slot.
    unsafe {
        let info = (*t).info_at as *mut ThreadInfo;
        if (*info).pages == 0 {
            return 0;
        }
        let s = place(info, page);
        if (*s).page == 0 { 0 } else { at::<u32>((*s).leaf) as u64 }
    }
}

/// Reference of the record of a line that another thread has; 0 if it is not found at once.
///
/// # Safety
/// `t` is a thread's state.
pub unsafe fn record_of_other(t: *mut Live, line: u64) -> u32 {
    const STEPS_MAX: usize = 8;
    let page = line >> 12;
    // SAFETY: states, tables and records stay in the mapping. A table that is growing is read at its old size, which is
    // no more than the new one's; what is not found in it, or where nothing lies yet, is 0.
    unsafe {
        let info = (*t).info_at as *mut ThreadInfo;
        // In this order: the number of bits first, the table that has at least as many slots then.
        let read = |p: *mut u32| AtomicU32::from_ptr(p).load(Acquire);
        let (bits, pages) = (read(&raw mut (*info).pages_bits), read(&raw mut (*info).pages));
        if pages == 0 || bits == 0 {
            return 0;
        }
        let (table, first) = (at::<PageSlot>(pages), hash(page, bits));
        let mut slots = (0..STEPS_MAX).map(|k| table.add((first + k) & ((1 << bits) - 1)));
        let wanted = |s: &*mut PageSlot| AtomicU64::from_ptr(&raw mut (**s).page).load(Acquire) == page + 1;
        let Some(slot) = slots.find(wanted) else { return 0 };
        let leaf = read(&raw mut (*slot).leaf);
        if leaf == 0 { 0 } else { read(at::<u32>(leaf).add((line >> 6 & 63) as usize)) }
    }
}

/// The slot of a page, or the free one that it would take.
///
/// # Safety
/// `info` is the calling thread's, and has a table.
unsafe fn place(info: *mut ThreadInfo, page: u64) -> *mut PageSlot {
    // SAFETY: indices are masked to the table's size; a free slot is always found, as an eighth stays free.
    unsafe {
        let bits = (*info).pages_bits;
        let table = at::<PageSlot>((*info).pages);
        let mut i = hash(page, bits);
        loop {
            let s = table.add(i);
            if (*s).page == page + 1 || (*s).page == 0 {
                return s;
            }
            i = (i + 1) & ((1 << bits) - 1);
        }
    }
}

/// Doubles the table; the old one stays as waste (as much as the new one at most).
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `info` is its description.
unsafe fn grow(t: *mut Live, info: *mut ThreadInfo) {
    // SAFETY: the new table has room for twice as many pages and is this thread's alone until `pages` names it.
    unsafe {
        let old_bits = (*info).pages_bits;
        let bits = if (*info).pages == 0 { 5 } else { old_bits + 1 };
        let bytes = (size_of::<PageSlot>() as u64) << bits;
        let new = if bytes <= 4096 { take(t, bytes) } else { alloc(bytes) };
        if new == 0 {
            return;
        }
        if (*info).pages != 0 {
            let table = at::<PageSlot>((*info).pages);
            for k in 0..1usize << old_bits {
                let s = table.add(k);
                if (*s).page != 0 {
                    let mut i = hash((*s).page - 1, bits);
                    while (*(new as *mut PageSlot).add(i)).page != 0 {
                        i = (i + 1) & ((1 << bits) - 1);
                    }
                    let to = (new as *mut PageSlot).add(i);
                    (*to).leaf = (*s).leaf;
                    (*to).page = (*s).page;
                }
            }
        }
        // The reader must never see a size that does not fit the table: a small size over a big table is safe.
        (*info).pages = reference(new);
        (*info).pages_bits = bits;
    }
}
