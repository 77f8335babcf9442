//! Critical sections: which words a thread visits, in which order, while it holds a lock.
//!
//! What happens under no lock is traced in windows of some hundred accesses, which are sections of no lock.
//!
//! A sample of the sections of every (thread, lock) is traced, chosen by their number alone. While one is traced, the
//! keys of the thread's table are hidden: every access takes the slow path, which notes the visit and then records as
//! always. No other access pays for it, and the counts are the same with and without.

use crate::arena::{at, cap, header, lost, reference};
use crate::counting::counting;
use crate::mem::take;
use crate::thread::{Entered, now};
use crate::wire::*;
use crate::{company, locks, sampling};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Sections kept of one lock: the first number while the thread has few, then fewer per lock.
const KEPT: [(u32, u32); 3] = [(512, 32), (1024, 8), (4096, 2)];
/// Accesses of a section that are traced: the slow path must not become the rule in a section that never ends.
const ACCESSES_MAX: u64 = 4096;
/// Windows kept of one thread.
const WINDOWS: u32 = 16;
/// A window stands for this many accesses (log2) at least.
const WINDOW_SHIFT: u32 = 12;
/// Accesses of a window.
const WINDOW_ACCESSES: u64 = 1024;
/// Behind a lock's address: what its readers give away there. Readers come behind writers, not behind each other.
const READERS: u64 = 2;
/// Share of the memory cap that all of this may take.
pub(crate) const MEMORY_SHARE: u64 = 16;

/// The calling thread has taken `addr`, perhaps together with other readers.
pub fn taken(entered: &Entered, addr: u64, shared: bool) {
    // SAFETY: `Entered` hands out the calling thread's state only.
    unsafe { begin(entered.live(), addr, shared) }
}

/// The calling thread is about to release `addr`.
pub fn releasing(entered: &Entered, addr: u64) {
    // SAFETY: `Entered` hands out the calling thread's state only.
    unsafe { end(entered.live(), addr) }
}

/// The calling thread is about to release `addr`, which it was not seen to take: one section more, of the kind of those
/// that were seen. What was held to happen under no lock since is left out.
pub fn missed(entered: &Entered, addr: u64, shared: bool) {
    // SAFETY: `Entered` hands out the calling thread's state only.
    unsafe { unseen(entered.live(), addr, shared, 1) }
}

/// The same of so many sections.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub(crate) unsafe fn unseen(t: *mut Live, addr: u64, shared: bool, sections: u64) {
    // SAFETY: the caller's promise; the lock is one of the thread's own.
    unsafe {
        if (*header()).operations == 0 || (*t).held_count != 0 {
            return;
        }
        forget(t);
        if counting() && sampling::within(t) {
            let l = locks::known(t, addr, shared);
            if !l.is_null() {
                // The next one that is seen is traced instead.
                let passed = (*l).next.wrapping_sub((*l).count) < sections;
                (*l).count += sections;
                (*l).next = if passed { (*l).count } else { (*l).next };
            }
        }
    }
}

/// The same, however often it was taken: what looks like two kinds of locks at once is taken twice.
pub fn given_up(entered: &Entered, addr: u64) {
    // SAFETY: `held_count` is at most HELD, and `held` is asked below it.
    unsafe {
        let t = entered.live();
        for k in 0..(*t).held_count as usize {
            if (*held(t, k)).addr == addr {
                (*held(t, k)).times = 1;
            }
        }
        end(t, addr);
    }
}

/// Memory of locks, sections and visits so far, bytes.
pub(crate) fn section_bytes() -> u64 {
    // SAFETY: a recording thread has a mapped header; all use this cell as an atomic.
    unsafe { AtomicU64::from_ptr(&raw mut (*header()).section_bytes) }.load(Relaxed)
}

/// The place of the `k`th lock that is held.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub unsafe fn held(t: *mut Live, k: usize) -> *mut Held {
    // SAFETY: `k` is below HELD: `begin` starts anew before there are more.
    unsafe { (&raw mut (*t).held[0]).add(k) }
}

/// A lock was taken: the section is that of the lock held longest, others inside of it are visits like any.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub unsafe fn begin(t: *mut Live, addr: u64, shared: bool) {
    // SAFETY: `held_count` is below HELD after `forget`, so the new lock has a place; the header's `operations` never
    // changes.
    unsafe {
        if (*header()).operations == 0 {
            return;
        }
        let n = (*t).held_count as usize;
        for k in (0..n).rev() {
            if (*held(t, k)).addr == addr {
                (*held(t, k)).times += 1;
                return;
            }
        }
        company::takes(t, addr);
        if !shared {
            company::takes(t, addr + READERS);
        }
        if n >= HELD {
            // More locks than anybody holds, or released by somebody else: begin anew.
            forget(t);
        }
        let h = held(t, (*t).held_count as usize);
        (*h).addr = addr;
        (*h).times = 1;
        (*h).shared = shared as u32;
        (*t).held_count += 1;
        if (*t).held_count == 1 {
            close(t);
            if counting() && sampling::within(t) {
                start(t, h);
            }
        } else if (*t).traced != 0 {
            put(t, addr, 0, if shared { TAKEN_SHARED } else { TAKEN });
        }
    }
}

/// A lock is about to be released. If others taken inside of it are still held, the oldest of them goes on.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
unsafe fn end(t: *mut Live, addr: u64) {
    // SAFETY: all positions are below `held_count`; those behind the released one move down by one.
    unsafe {
        let n = (*t).held_count as usize;
        let Some(k) = (0..n).rev().find(|&k| (*held(t, k)).addr == addr) else { return };
        (*held(t, k)).times -= 1;
        if (*held(t, k)).times > 0 {
            return;
        }
        company::gives(t, if (*held(t, k)).shared != 0 { addr + READERS } else { addr });
        for j in k + 1..n {
            (*held(t, j - 1)).addr = (*held(t, j)).addr;
            (*held(t, j - 1)).times = (*held(t, j)).times;
            (*held(t, j - 1)).shared = (*held(t, j)).shared;
        }
        (*t).held_count -= 1;
        if k == 0 {
            stop(t);
            if n > 1 && counting() && sampling::within(t) {
                start(t, held(t, 0));
            }
        } else if (*t).traced != 0 {
            put(t, addr, 0, RELEASED);
        }
    }
}

/// Drops what is known about locks held, and the open section.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub unsafe fn forget(t: *mut Live) {
    // SAFETY: words of the thread's own; `show` brings all keys back before they are looked at again.
    unsafe {
        show(t);
        (*t).open = 0;
        (*t).held_count = 0;
    }
}

/// Drops shortcuts before the thread's memory is given to another one.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub unsafe fn reset(t: *mut Live) {
    // SAFETY: words of the thread's own, before anybody else gets this state.
    unsafe {
        close(t);
        forget(t);
        for c in &mut (*t).lock_cache {
            c.addr = 0;
        }
        (*t).sections_kept = 0;
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `h` is one of its held locks.
#[inline(always)]
unsafe fn start(t: *mut Live, h: *mut Held) {
    // SAFETY: the caller's promise.
    unsafe {
        let l = locks::known(t, (*h).addr, (*h).shared != 0);
        if l.is_null() {
            return;
        }
        let n = (*l).count;
        (*l).count = n + 1;
        if n == (*l).next {
            (*t).section_shared = (*h).shared;
            trace(t, l, n);
        }
    }
}

/// Mixes a number's bits: which section of its stretch is traced must not follow the program's own rhythm.
fn mix(n: u64, shift: u32) -> u64 {
    let x = (n ^ (shift as u64) << 56).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 32
}

/// The section of a stretch that is traced.
fn pick(stratum: u64, shift: u32) -> u64 {
    (stratum << shift) + (mix(stratum, shift) & ((1 << shift) - 1))
}

/// Begins to trace section `n` of a lock, unless there are enough: then every other one is dropped, and from now on
/// the stretch for which one section stands is twice as long.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `l` is one of its locks.
#[cold]
#[allow(clippy::while_immutable_condition)] // `halve` changes the lock.
unsafe fn trace(t: *mut Live, l: *mut Lock, n: u64) {
    // SAFETY: `l` lies in the table that is in use, which does not move while a section is open.
    unsafe {
        let h = header();
        let own = (*l).kept & !1;
        let mut room = KEPT.iter().find(|k| (*t).sections_kept < k.0).map_or(own, |k| k.1);
        if section_bytes() > cap() / MEMORY_SHARE && (*t).free_sections == 0 {
            room = room.min(own);
        }
        if (*h).operations == 0 || room == 0 {
            (*l).next = u64::MAX;
            return;
        }
        let mut halved = false;
        while (*l).kept >= room && (*l).shift < 40 {
            halve(t, l);
            halved = true;
        }
        if halved {
            let here = pick(n >> (*l).shift, (*l).shift);
            if here > n {
                (*l).next = here;
                return;
            }
        }
        (*l).next = pick((n >> (*l).shift) + 1, (*l).shift);
        open(t, l, n >> (*l).shift, 1);
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder and has nothing open; `l` is one of its locks.
unsafe fn open(t: *mut Live, l: *mut Lock, stratum: u64, what: u32) {
    // SAFETY: the thread's own structures, which only it writes; references are its own file's.
    unsafe {
        (*t).section_lock = l as u64;
        (*t).section_number = stratum;
        (*t).section_vt0 = exact(t);
        (*t).section_accesses = 0;
        (*t).section_gap = 0;
        (*t).visits_count = 0;
        (*t).open = what;
        hide(t);
    }
}

/// Begins a window of accesses under no lock, if its time has come.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder and traces nothing.
#[inline(always)]
pub unsafe fn window(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe {
        if now(t) >= (*t).window_vt && (*t).tells_operations == 0 {
            begin_window(t);
        }
    }
}

/// A stretch of the thread's accesses has one window, and stretches become longer as with the sections of a lock.
///
/// # Safety
/// As [`window`].
#[cold]
#[allow(clippy::while_immutable_condition)] // `halve` changes the lock.
pub(crate) unsafe fn begin_window(t: *mut Live) {
    // SAFETY: the thread's own structures, which only it writes; references are its own file's.
    unsafe {
        if (*t).held_count != 0 || (*t).open != 0 {
            return;
        }
        let full = section_bytes() > cap() / MEMORY_SHARE / 2 && (*t).free_sections == 0;
        let none = (*header()).operations == 0 || full;
        let l = if none { core::ptr::null_mut() } else { locks::lock_of(t, NO_LOCK) };
        if l.is_null() {
            (*t).window_vt = u64::MAX;
            return;
        }
        while (*l).kept >= WINDOWS && (*l).shift < 40 {
            halve(t, l);
        }
        let stratum = now(t) >> WINDOW_SHIFT >> (*l).shift;
        (*t).window_vt = ((stratum + 1) << (*l).shift) << WINDOW_SHIFT;
        // One was kept of this stretch, now that it is longer.
        if (*l).sections != 0 && (*at::<Section>((*l).sections)).stratum == stratum {
            return;
        }
        (*l).count += 1;
        (*t).section_shared = 0;
        open(t, l, stratum, WINDOW);
    }
}

/// Ends an open window: a lock is taken, or an operation ends.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub(crate) unsafe fn close(t: *mut Live) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*t).open == WINDOW {
            stop(t);
        }
    }
}

/// The clock with what the table's entries have counted and not yet given to it.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub(crate) unsafe fn exact(t: *mut Live) -> u64 {
    // SAFETY: `each_used` gives entries in use; there are eight read-modify-write counters beside each.
    unsafe {
        let mut n = 0u64;
        each_used(t, |t, e, i| {
            for c in &(*e).cnt {
                n += (*c - COUNT_START) as u64;
            }
            if (*e).rec & RMW_FLAG != 0 {
                for c in &*(&raw const (*t).rmw).cast::<[u16; 8]>().add(i) {
                    n += *c as u64;
                }
            }
        });
        now(t) + n
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
unsafe fn each_used(t: *mut Live, mut f: impl FnMut(*mut Live, *mut Entry, usize)) {
    // SAFETY: bits of `used` are one per entry, so that indices are below ENTRIES.
    unsafe {
        for g in 0..ENTRIES / 64 {
            let mut bits = *(&raw const (*t).used[0]).add(g);
            while bits != 0 {
                let i = g * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                f(t, (&raw mut (*t).entries[0]).add(i), i);
            }
        }
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
unsafe fn hide(t: *mut Live) {
    // SAFETY: keys of entries in use; no hook of this thread runs before all have the bit.
    unsafe {
        (*t).traced = 1;
        each_used(t, |_, e, _| (*e).key |= HIDDEN);
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub(crate) unsafe fn show(t: *mut Live) {
    // SAFETY: keys of entries in use lose the bit that `hide` gave them.
    unsafe {
        if (*t).traced != 0 {
            (*t).traced = 0;
            each_used(t, |_, e, _| (*e).key &= !HIDDEN);
        }
    }
}

/// Notes an access of a traced section.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub unsafe fn visit(t: *mut Live, addr: u64, n: u64, kind: u32) {
    // SAFETY: the last visit is read below `visits_count`, and only if there is one.
    unsafe {
        let words = if n <= 8 { 1 } else { ((addr & 7) + n).div_ceil(8) };
        (*t).section_accesses += words;
        let count = (*t).visits_count as usize;
        if count > 0 {
            let last = (*(&raw const (*t).visits[0]).add(count - 1)).what;
            let last_kind = (last >> 56) as u32;
            let place = last << 8 >> 8 == (addr & 0xffff_ffff_ffff | n << 48);
            // Reading what one has just written is no news; writing what one has read is. Under no lock others may have
            // written in between.
            let again = if (*t).open == WINDOW { kind != RMW } else { last_kind <= RMW };
            let news = last_kind != kind && (kind != READ || (*t).open == WINDOW);
            if place && again && !news {
                (*t).section_gap += words as u32;
                return enough(t);
            }
        }
        put(t, addr, n, kind);
        (*t).section_gap = words as u32 - 1;
        if (*t).open == WINDOW {
            enough(t);
        }
    }
}

/// Ends a window that is long enough, and the tracing of a section that never ends.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
unsafe fn enough(t: *mut Live) {
    // SAFETY: the thread's own structures, which only it writes; references are its own file's.
    unsafe {
        let (count, accesses) = ((*t).visits_count as usize, (*t).section_accesses);
        match (*t).open {
            WINDOW if count >= VISITS || accesses >= WINDOW_ACCESSES => stop(t),
            WINDOW => {}
            _ if accesses >= ACCESSES_MAX => show(t),
            _ => {}
        }
    }
}

/// Adds a visit; ends the tracing when it has seen enough.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
unsafe fn put(t: *mut Live, addr: u64, n: u64, kind: u32) {
    // SAFETY: `append` is called below VISITS only.
    unsafe {
        let count = (*t).visits_count as usize;
        if count >= VISITS || (*t).section_accesses >= ACCESSES_MAX {
            show(t);
            return;
        }
        append(t, addr, n, kind);
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder; there is room for a visit.
unsafe fn append(t: *mut Live, addr: u64, n: u64, kind: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        let count = (*t).visits_count as usize;
        let v = (&raw mut (*t).visits[0]).add(count);
        (*v).what = addr & 0xffff_ffff_ffff | n << 48 | (kind as u64) << 56;
        (*v).gap = (*t).section_gap as u64;
        (*t).section_gap = 0;
        (*t).visits_count = count as u32 + 1;
    }
}

/// Ends the open section and writes it down.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
unsafe fn stop(t: *mut Live) {
    // SAFETY: the section's lock does not move while it is open; a new unit is this thread's until the lock's list
    // has it.
    unsafe {
        if (*t).open == 0 {
            return;
        }
        let l = (*t).section_lock as *mut Lock;
        let cut = (*t).traced == 0;
        if (*t).section_gap > 0 && ((*t).visits_count as usize) < VISITS {
            // Accesses after the last visit belong to the section as well.
            append(t, (*l).addr, 0, RELEASED);
        }
        show(t);
        (*t).open = 0;
        if cut {
            lost(LOST_SECTIONS, 1);
        }
        let s = new_unit(t, true) as *mut Section;
        if s.is_null() {
            lost(LOST_SECTIONS, 1);
            return;
        }
        let blocks = write_visits(t);
        if blocks == 0 && (*t).visits_count > 0 {
            lost(LOST_SECTIONS, 1);
            (*s).next = (*t).free_sections;
            (*t).free_sections = reference(s as u64);
            return;
        }
        (*s).blocks = blocks;
        (*s).visits = (*t).visits_count;
        (*s).cut = cut as u32;
        (*s).shared = (*t).section_shared;
        (*s).stratum = (*t).section_number;
        (*s).vt0 = (*t).section_vt0;
        (*s).vt1 = if cut { exact(t) } else { (*t).section_vt0 + (*t).section_accesses };
        (*s).next = (*l).sections;
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
        (*l).sections = reference(s as u64);
        (*l).kept += 1;
        (*t).sections_kept += 1;
    }
}

/// Copies the visits to blocks; the reference of the first, 0 without visits or memory.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
unsafe fn write_visits(t: *mut Live) -> u32 {
    // SAFETY: visits are read below `visits_count`; blocks are new or given back, and have VISITS_PER_BLOCK places.
    unsafe {
        let mut first = 0u32;
        let n = (*t).visits_count as usize;
        // From the last block to the first, so that each knows the next.
        for k in (0..n.div_ceil(VISITS_PER_BLOCK)).rev() {
            let b = new_unit(t, false) as *mut VisitBlock;
            if b.is_null() {
                give_blocks(t, first);
                return 0;
            }
            for j in 0..VISITS_PER_BLOCK {
                let from = k * VISITS_PER_BLOCK + j;
                let v = (&raw mut (*b).visits[0]).add(j);
                if from < n {
                    *v = core::ptr::read((&raw const (*t).visits[0]).add(from));
                }
            }
            (*b).next = first;
            first = reference(b as u64);
        }
        first
    }
}

/// 64 bytes for a section or a block, used before or new.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
unsafe fn new_unit(t: *mut Live, section: bool) -> u64 {
    // SAFETY: units on the free list are this thread's, and their first word is the next one's reference.
    unsafe {
        let free = if section { &raw mut (*t).free_sections } else { &raw mut (*t).free_blocks };
        if *free != 0 {
            let p = at::<u32>(*free);
            *free = *p;
            return p as u64;
        }
        if section_bytes() > cap() / MEMORY_SHARE {
            return 0;
        }
        AtomicU64::from_ptr(&raw mut (*header()).section_bytes).fetch_add(UNIT, Relaxed);
        take(t, UNIT)
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
unsafe fn give_blocks(t: *mut Live, first: u32) {
    // SAFETY: blocks of a section that is not in any list any more; the first word of each is the next one's
    // reference.
    unsafe {
        let mut b = first;
        while b != 0 {
            let block = at::<VisitBlock>(b);
            let next = (*block).next;
            (*block).next = (*t).free_blocks;
            (*t).free_blocks = b;
            b = next;
        }
    }
}

/// Two stretches become one, with one of their two sections.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `l` is one of its locks.
unsafe fn halve(t: *mut Live, l: *mut Lock) {
    // SAFETY: the list is this lock's, and only this thread changes it; a section leaves it before its blocks are
    // given back.
    unsafe {
        (*l).shift += 1;
        let mut link = &raw mut (*l).sections;
        while *link != 0 {
            let r = *link;
            let s = at::<Section>(r);
            let pair = (*s).stratum >> 1;
            if (*s).stratum & 1 == mix(pair, (*l).shift) >> 63 {
                (*s).stratum = pair;
                link = &raw mut (*s).next;
                continue;
            }
            *link = (*s).next;
            (*l).kept -= 1;
            (*t).sections_kept -= 1;
            give_blocks(t, (*s).blocks);
            (*s).blocks = 0;
            (*s).visits = 0;
            (*s).next = (*t).free_sections;
            (*t).free_sections = r;
        }
    }
}
