//! Heap objects: which bytes belonged to which allocation, when.

use crate::arena::{alloc, at, header, lost, reference};
use crate::lockfree;
use crate::sys::Spin;
use crate::thread::{Entered, now};
use crate::wire::*;
use crate::{borders, code, company};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Lives of one address that are kept apart though one thread and site had several of them in a row, and though it
/// had them in turn with others.
const ALIKE: u16 = 6;
const IN_TURN: u16 = 48;
/// Lives of one address that are kept; the reader follows a few more.
const LIVES_MAX: u16 = 1000;

static LOCKS: [Spin; HEAP_SHARDS] = [const { Spin::new() }; HEAP_SHARDS];
static COUNTS: [AtomicU64; HEAP_SHARDS] = [const { AtomicU64::new(0) }; HEAP_SHARDS];
const CACHE: usize = 256;
static CACHED: [AtomicU64; CACHE] = [const { AtomicU64::new(0) }; CACHE];

/// In a forked child, whose file has no objects yet: nobody holds a lock.
pub fn reset_after_fork() {
    for (l, c) in LOCKS.iter().zip(&COUNTS) {
        l.reset();
        c.store(0, Relaxed);
    }
    for c in &CACHED {
        c.store(0, Relaxed);
    }
}

fn shard(base: u64) -> usize {
    (base >> 12) as usize % HEAP_SHARDS
}

fn hash(base: u64, bits: u32) -> usize {
    // 16-byte granules of a page side by side, then the pages of the shard.
    let h = (base >> 4 & 255) | (base >> 18) << 8;
    ((h ^ h >> bits) & ((1 << bits) - 1)) as usize
}

/// Notes an allocation.
pub fn born(entered: &Entered, base: u64, size: u64, allocator: u16, align: u32, pc: u64) {
    described(entered, base, size, (allocator, align), 0, pc)
}

/// [`born`] where the allocator, beside which its alignment stands, was given a description of the type.
pub fn described(
    entered: &Entered,
    base: u64,
    size: u64,
    (allocator, align): (u16, u32),
    descriptor: u64,
    pc: u64,
) {
    // SAFETY: site and code are this thread's; the slot belongs to its shard, whose lock `held` keeps until it is
    // filled.
    unsafe {
        let t = entered.live();
        let code = code::id(t, pc);
        let info = (*t).info_at as *mut ThreadInfo;
        let site = site_of(info, code);
        let s = shard(base);
        let held = LOCKS[s].lock(entered);
        let slot = slot_of(s, base, true);
        if slot.is_null() {
            lost(LOST_OBJECTS, 1);
        } else {
            take(t, slot, size, code, (*info).index);
            (*slot).allocator = allocator;
            (*slot).align = align;
            (*slot).descriptor = descriptor;
            (*slot).site = site;
        }
        drop(held);
        if site != 0 {
            counted(site, true);
            if is_looked_at(&*at::<Site>(site)) {
                company::gets(t, base & !PART, size);
            }
        }
    }
}

/// Fills a slot for a new life of its address.
///
/// # Safety
/// `t` is the calling thread's; the caller holds the lock of the slot's shard.
unsafe fn take(t: *mut Live, slot: *mut HeapSlot, size: u64, code: u32, thread: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*slot).generations > 0 {
            if again(slot, |s| s.size == size && s.code == code && s.thread == thread) {
                (*slot).vt1 = u64::MAX;
                lost(LOST_GENERATIONS, 1);
                return;
            }
            // What this thread did to these bytes so far was another life's.
            borders::part(t, (*slot).base & !PART, size.max((*slot).size));
            if (*slot).generations < LIVES_MAX {
                keep_old(t, slot);
            } else {
                lost(LOST_GENERATIONS, 1);
            }
        }
        (*slot).size = size;
        (*slot).code = code;
        (*slot).thread = thread;
        (*slot).vt0 = now(t);
        (*slot).vt1 = u64::MAX;
        (*slot).generations = (*slot).generations.saturating_add(1);
    }
}

/// Of an address that had many lives: makes an earlier one that is like the new one the slot's, so that both count as
/// one. A thread's lives count together with its own only. False if there is none.
///
/// # Safety
/// The caller holds the lock of the slot's shard.
unsafe fn again(slot: *mut HeapSlot, alike: impl Fn(&HeapSlot) -> bool) -> bool {
    // SAFETY: older lives stay in the mapping, and are the lock holder's.
    unsafe {
        if (*slot).generations < ALIKE || alike(&*slot) {
            return (*slot).generations >= ALIKE;
        }
        if (*slot).generations < IN_TURN {
            return false;
        }
        let mut link = (*slot).older;
        for _ in 0..IN_TURN {
            if link == 0 {
                return false;
            }
            let old = at::<HeapSlot>(link);
            if alike(&*old) {
                swap(slot, old);
                return true;
            }
            link = (*old).older;
        }
        false
    }
}

/// Exchanges two lives of an address, not their places in its list.
///
/// # Safety
/// The caller holds the lock of the slot's shard.
unsafe fn swap(a: *mut HeapSlot, b: *mut HeapSlot) {
    // SAFETY: the caller's promise; the two are different.
    unsafe {
        let (older, generations) = (((*a).older, (*b).older), ((*a).generations, (*b).generations));
        for k in 0..size_of::<HeapSlot>() / 8 {
            let (x, y) = ((a as *mut u64).add(k), (b as *mut u64).add(k));
            (*x, *y) = (*y, *x);
        }
        (((*a).older, (*b).older), ((*a).generations, (*b).generations)) = (older, generations);
    }
}

/// # Safety
/// `t` is the calling thread's; the caller holds the lock of the slot's shard.
unsafe fn keep_old(t: *mut Live, slot: *mut HeapSlot) {
    // SAFETY: the caller's promise; a new slot is ours until it is linked.
    unsafe {
        let old = crate::mem::take(t, size_of::<HeapSlot>() as u64) as *mut HeapSlot;
        if old.is_null() {
            lost(LOST_GENERATIONS, 1);
            return;
        }
        for k in 0..size_of::<HeapSlot>() / 8 {
            *(old as *mut u64).add(k) = *(slot as *const u64).add(k);
        }
        if (*old).vt1 == u64::MAX {
            (*old).vt1 = now(t);
        }
        (*slot).older = reference(old as u64);
    }
}

/// The program told the type of the object that begins there (`bytes` is 0), or of a part of one that an allocator of
/// its own hands out. `mark` is the name's.
pub fn typed(entered: &Entered, base: u64, bytes: u64, mark: u32, pc: u64) {
    let descriptor = TOLD | u64::from(mark);
    if bytes != 0 {
        return described(entered, base | PART, bytes, (ALLOCATOR_TOLD, 1), descriptor, pc);
    }
    // SAFETY: the slot belongs to its shard, whose lock is held.
    unsafe {
        let s = shard(base);
        let held = LOCKS[s].lock(entered);
        let slot = slot_of(s, base, false);
        if !slot.is_null() && (*slot).vt1 == u64::MAX {
            (*slot).descriptor = descriptor;
        }
        drop(held);
    }
}

/// Notes that an object is about to be freed: before it is, because its address may be reused at once.
/// `base` has the bit [`PART`] where the program tells of a part's end.
pub fn dead(entered: &Entered, base: u64) {
    // SAFETY: the slot belongs to its shard, whose lock is held while it is read and written; what is swept is this
    // thread's.
    unsafe {
        let t = entered.live();
        let s = shard(base);
        let held = LOCKS[s].lock(entered);
        let slot = slot_of(s, base, false);
        let (mut size, mut site) = (0, 0);
        if !slot.is_null() && (*slot).vt1 == u64::MAX {
            size = (*slot).size;
            site = (*slot).site;
            let own = (*slot).thread == (*((*t).info_at as *mut ThreadInfo)).index;
            if !own && site != 0 {
                AtomicU32::from_ptr(&raw mut (*at::<Site>(site)).passed).fetch_add(1, Relaxed);
            }
            company::frees(t, base & !PART, size);
            // Lives of one thread that count as one need no border between them.
            if (*slot).generations < ALIKE || !own {
                borders::part(t, base & !PART, size);
            } else {
                borders::sweep_range(t, base & !PART, size);
            }
            (*slot).vt1 = now(t);
        }
        drop(held);
        if size != 0 && site != 0 {
            counted(site, false);
        }
    }
}

/// An object that [`dead`] was told of lives on: its reallocation failed.
pub fn revived(entered: &Entered, base: u64) {
    // SAFETY: the slot belongs to its shard, whose lock is held.
    unsafe {
        let s = shard(base);
        let held = LOCKS[s].lock(entered);
        let slot = slot_of(s, base, false);
        if !slot.is_null() {
            (*slot).vt1 = u64::MAX;
        }
        drop(held);
    }
}

/// Whether the newest object of a site is one whose way is looked at: the first ones, then one in many, and more of
/// what others free, which was handed on.
fn is_looked_at(site: &Site) -> bool {
    const FIRST: u64 = 64;
    const ENOUGH: u32 = 1024;
    const SELDOM: u32 = 8;
    let is_passed = site.passed != 0 && (site.passed < ENOUGH || site.passed.is_multiple_of(SELDOM));
    is_passed || site.total < FIRST || site.total.is_multiple_of(FIRST)
}

/// Counts an object of a site up or down.
///
/// # Safety
/// `site` is a reference of a [`Site`].
unsafe fn counted(site: u32, up: bool) {
    // SAFETY: the site stays in the mapping; its counts are used as atomics only.
    unsafe {
        let s = at::<Site>(site);
        let live = AtomicU64::from_ptr(&raw mut (*s).live);
        if up {
            let now = live.fetch_add(1, Relaxed) + 1;
            AtomicU64::from_ptr(&raw mut (*s).live_max).fetch_max(now, Relaxed);
            AtomicU64::from_ptr(&raw mut (*s).total).fetch_add(1, Relaxed);
        } else {
            live.fetch_sub(1, Relaxed);
        }
    }
}

/// The site of a thread's code id: kept in a direct-mapped cache in front of a list.
///
/// # Safety
/// `info` is the calling thread's.
unsafe fn site_of(info: *mut ThreadInfo, code: u32) -> u32 {
    if code == 0 {
        return 0;
    }
    // SAFETY: the list's nodes stay for ever, and what identifies them is written before they are in it.
    unsafe {
        let h = header();
        let slot = &CACHED[((*info).index as usize * 31 + code as usize) % CACHE];
        let c = slot.load(Relaxed) as u32;
        if c != 0 {
            let s = at::<Site>(c);
            if (*s).thread == (*info).index && (*s).code == code {
                return c;
            }
        }
        // Only the thread itself adds sites of its own: what is not in the list now will not get in meanwhile.
        let head = AtomicU32::from_ptr(&raw mut (*h).sites);
        let mut r = head.load(Acquire);
        let mut steps = 0;
        while r != 0 && !((*at::<Site>(r)).thread == (*info).index && (*at::<Site>(r)).code == code) {
            r = (*at::<Site>(r)).next;
            steps += 1;
            if steps > 4096 {
                return 0;
            }
        }
        if r == 0 {
            let s = alloc(64) as *mut Site;
            if s.is_null() {
                return 0;
            }
            (*s).thread = (*info).index;
            (*s).code = code;
            r = reference(s as u64);
            lockfree::prepend(head, r, AtomicU32::from_ptr(&raw mut (*s).next));
            AtomicU32::from_ptr(&raw mut (*h).sites_count).fetch_add(1, Relaxed);
        }
        slot.store(r as u64, Relaxed);
        r
    }
}

/// The slot of `base` in shard `s` (locked); null if there is none or no room.
///
/// # Safety
/// The caller holds the lock of shard `s`.
unsafe fn slot_of(s: usize, base: u64, make: bool) -> *mut HeapSlot {
    // SAFETY: the shard's table is the lock holder's; indices are masked.
    unsafe {
        let h = header();
        let mut bits = (*h).heap_bits[s] as u32;
        if make && ((*h).heap[s] == 0 || COUNTS[s].load(Relaxed) * 4 >= 3 << bits) {
            grow(s);
            bits = (*h).heap_bits[s] as u32;
        }
        if (*h).heap[s] == 0 {
            return core::ptr::null_mut();
        }
        let table = at::<HeapSlot>((*h).heap[s]);
        let mut i = hash(base, bits);
        for _ in 0..1usize << bits {
            let p = table.add(i);
            if (*p).base == base {
                return p;
            }
            if (*p).base == 0 {
                if !make || COUNTS[s].load(Relaxed) * 8 >= 7 << bits {
                    return core::ptr::null_mut();
                }
                COUNTS[s].fetch_add(1, Relaxed);
                (*p).base = base;
                return p;
            }
            i = (i + 1) & ((1 << bits) - 1);
        }
        core::ptr::null_mut()
    }
}

/// # Safety
/// The caller holds the lock of shard `s`.
unsafe fn grow(s: usize) {
    // SAFETY: the shard's table is the lock holder's; the new one is twice as large.
    unsafe {
        let h = header();
        let old_bits = (*h).heap_bits[s] as u32;
        let bits = if (*h).heap[s] == 0 { 4 } else { old_bits + 1 };
        let new = alloc((size_of::<HeapSlot>() as u64) << bits) as *mut HeapSlot;
        if new.is_null() {
            return;
        }
        if (*h).heap[s] != 0 {
            let old = at::<HeapSlot>((*h).heap[s]);
            for k in 0..1usize << old_bits {
                let from = old.add(k);
                if (*from).base == 0 {
                    continue;
                }
                let mut i = hash((*from).base, bits);
                while (*new.add(i)).base != 0 {
                    i = (i + 1) & ((1 << bits) - 1);
                }
                for w in 0..size_of::<HeapSlot>() / 8 {
                    *(new.add(i) as *mut u64).add(w) = *(from as *const u64).add(w);
                }
            }
        }
        (*h).heap[s] = reference(new as u64);
        (*h).heap_bits[s] = bits as u8;
    }
}
