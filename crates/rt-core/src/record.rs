//! The slow path of an access: filling and emptying the table of recently used lines.
//!
//! What a thread writes down depends on its own stream of accesses only, never on who came first; but for whom it meets
//! (`company`), which is told apart.

use crate::arena::{at, forked, lost, reference};
use crate::runs::{more, run};
use crate::thread::{Entered, now, pass};
use crate::wire::*;
use crate::{code, company, counting, sampling, sections, standing};
use core::sync::atomic::Ordering::Relaxed;

/// 2^32 by the golden ratio: multiples of it, cut to 32 bits, are spread evenly whatever step is taken through them.
pub(crate) const GOLDEN: u32 = 0x9e37_79b1;
/// Touch blocks per thread and line.
const TOUCH_BLOCKS: u32 = 6;

/// The commonest slow paths of a hook by far: a line not in the table, or bytes of it not seen yet; one whole access in
/// it, no section traced. False, with nothing done, if it is another case. `op` is size | kind << 8.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub unsafe fn refilled(t: *mut Live, addr: u64, pc: u64, op: u32) -> bool {
    // SAFETY: the index is below ENTRIES, the counter's below 16: that the access ends in its line is checked.
    unsafe {
        let (n, kind, line) = ((op & 0xff) as u64, op >> 8, addr & !(LINE - 1));
        let e = (&raw mut (*t).entries[0]).add(index(line));
        let off = addr - line;
        let special = (*t).traced != 0 || now(t) >= (*t).window_vt || counting::is_behind(t);
        if line == 0 || (*t).free.load(Relaxed) == 0 || special || off + n > LINE || forked() {
            return false;
        }
        let known = (*e).key == line;
        let counter = (&raw mut (*e).cnt[0]).add((off / 8) as usize + 8 * kind as usize);
        let seen = if kind == READ { (*e).rmask } else { (*e).wmask };
        if known && (bytes(off, n) & !seen == 0 || *counter >= 0x7fff) {
            return false;
        }
        let Some(entered) = Entered::enter(t) else { return false };
        if known {
            grow_masks(e, bytes(off, n), kind);
            *counter += 1;
            sample(t, at::<Record>((*e).rec & !RMW_FLAG), off, n, kind, pc);
        } else {
            refill(t, e, line, off, n, kind, pc);
        }
        drop(entered);
        true
    }
}

/// Puts `line` into the entry and counts an access of it.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `e` is an entry of it.
#[inline(always)]
unsafe fn refill(t: *mut Live, e: *mut Entry, line: u64, off: u64, n: u64, kind: u32, pc: u64) {
    // SAFETY: `fill` made the entry this line's; the counter's index is below 16, as the access ends in the line.
    unsafe {
        let i = index(line);
        if (*e).key != 0 {
            empty(t, e, i);
        }
        if !fill(t, e, i, line) {
            return;
        }
        let mask = bytes(off, n);
        let seen = if kind == READ { (*e).rmask } else { (*e).wmask };
        *(&raw mut (*e).cnt[0]).add((off / 8) as usize + 8 * kind as usize) += 1;
        if mask & !seen != 0 {
            grow_masks(e, mask, kind);
            sample(t, at::<Record>((*e).rec & !RMW_FLAG), off, n, kind, pc);
        }
    }
}

/// Records what a lock's function did to the lock's own words: no visit of a critical section.
pub fn of_lock(entered: &Entered, addr: u64, n: u64, kind: u32, pc: u64) {
    // SAFETY: `traced` is the thread's own word, and no handler that could change it runs meanwhile.
    unsafe {
        let t = entered.live();
        let traced = (*t).traced == 1;
        if traced {
            (*t).traced = 2;
        }
        note(entered, addr, n, kind, pc, false);
        if traced && (*t).traced == 2 {
            (*t).traced = 1;
        }
    }
}

/// Records an access. `counted`: the hook has already counted it if the table had line and bytes.
#[inline(always)]
pub fn note(entered: &Entered, addr: u64, n: u64, kind: u32, pc: u64, counted: bool) {
    counting::catch_up(entered);
    // SAFETY: `touch` gets ranges within one line each: the second begins where the first one's line ends.
    unsafe {
        let t = entered.live();
        let (line, off) = (addr & !(LINE - 1), addr & (LINE - 1));
        if off + n <= LINE {
            touch(t, line, off, n, kind, pc, counted);
        } else {
            touch(t, line, off, LINE - off, kind, pc, false);
            touch(t, line + LINE, 0, n - (LINE - off), kind, pc, false);
        }
    }
}

/// Records `[addr, addr + len)` word by word.
pub fn range(entered: &Entered, addr: u64, len: u64, kind: u32, pc: u64) {
    counting::catch_up(entered);
    // SAFETY: each piece ends at its line's end at the latest, as `touch` requires.
    unsafe {
        let t = entered.live();
        let (mut a, end) = (addr, addr.saturating_add(len));
        while a < end {
            let line = a & !(LINE - 1);
            // The last line of the address space has no next one.
            let n = line.saturating_add(LINE).min(end) - a;
            touch(t, line, a - line, n, kind, pc, false);
            a += n;
        }
    }
}

#[inline(always)]
pub(crate) fn index(line: u64) -> usize {
    (((line >> 9) ^ line) & 0x7fc0) as usize / 64
}

/// Read-modify-writes of an entry's words.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
unsafe fn rmw_of(t: *mut Live, i: usize) -> *mut u16 {
    // SAFETY: eight counters per entry, of ENTRIES entries; `i` is an entry's index.
    unsafe { (&raw mut (*t).rmw).cast::<u16>().add(i * 8) }
}

#[inline(always)]
pub(crate) fn bytes(off: u64, n: u64) -> u64 {
    (u64::MAX >> (64 - n)) << off
}

/// One access within one line.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(never)]
unsafe fn touch(t: *mut Live, line: u64, off: u64, n: u64, kind: u32, pc: u64, counted: bool) {
    // SAFETY: line, offset and length go on as they came; `traced` is the thread's own word.
    unsafe {
        if line == 0 {
            // An empty entry has this key; the access is about to fault.
        } else if (*t).traced != 0 {
            touch_traced(t, line, off, n, kind, pc);
        } else {
            touch_now(t, line, off, n, kind, pc, counted);
            sections::window(t);
        }
    }
}

/// The same while a critical section is traced: all keys are hidden, so that no hook has counted anything.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[cold]
unsafe fn touch_traced(t: *mut Live, line: u64, off: u64, n: u64, kind: u32, pc: u64) {
    // SAFETY: the entry's index is below ENTRIES; its key is hidden again before anybody but this thread can look.
    unsafe {
        let e = (&raw mut (*t).entries[0]).add(index(line));
        (*e).key &= !HIDDEN;
        touch_now(t, line, off, n, kind, pc, false);
        if (*e).key != 0 {
            (*e).key |= HIDDEN;
        }
        if (*t).traced == 1 {
            sections::visit(t, line + off, n, kind);
        }
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
unsafe fn touch_now(t: *mut Live, line: u64, off: u64, n: u64, kind: u32, pc: u64, counted: bool) {
    // SAFETY: the entry's index is below ENTRIES; `fill` gives it a record before anything is counted.
    unsafe {
        let i = index(line);
        let e = (&raw mut (*t).entries[0]).add(i);
        let mut counted = counted;
        let mut sample_it = false;
        if (*e).key != line {
            if (*e).key != 0 {
                empty(t, e, i);
            }
            if !fill(t, e, i, line) {
                return;
            }
            counted = false;
        }
        let mask = bytes(off, n);
        let new = mask & !if kind == READ { (*e).rmask } else { (*e).wmask };
        let flag_missing = kind == RMW && (*e).rec & RMW_FLAG == 0;
        if new != 0 || flag_missing {
            counted = false;
            sample_it = true;
            grow_masks(e, mask, kind);
        }
        if kind == RMW {
            (*e).rec |= RMW_FLAG;
        }
        if count(t, e, i, off, n, kind, counted) || sample_it {
            sample(t, at::<Record>((*e).rec & !RMW_FLAG), off, n, kind, pc);
        }
    }
}

/// # Safety
/// `e` is an entry of the calling thread, which is inside the recorder.
unsafe fn grow_masks(e: *mut Entry, mask: u64, kind: u32) {
    // SAFETY: an entry whose key is set has a record, whose reference only `fill` of this thread writes.
    unsafe {
        // What is read and stored at once counts as stored: a neighbour in the word may be what is only read.
        match kind {
            READ => (*e).rmask |= mask,
            _ => (*e).wmask |= mask,
        }
        let r = at::<Record>((*e).rec & !RMW_FLAG);
        (*r).rmask |= (*e).rmask;
        (*r).wmask |= (*e).wmask;
    }
}

/// Counts every word of the access; empties counters that are full. True if one was.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `e` is an entry of it.
#[inline(always)]
unsafe fn count(t: *mut Live, e: *mut Entry, i: usize, off: u64, n: u64, kind: u32, counted: bool) -> bool {
    // SAFETY: words are below 8, as the access ends within its line: the counters of one kind.
    unsafe {
        let first = (off / 8) as usize;
        // A scalar counts once, in the word where it starts; 16 bytes and ranges count per word.
        let last = if n <= 8 { first } else { ((off + n - 1) / 8) as usize };
        let mut full = false;
        for w in first..=last {
            let c = match kind {
                RMW => rmw_of(t, i).add(w),
                _ => (&raw mut (*e).cnt[0]).add(w + 8 * kind as usize),
            };
            if !counted {
                *c += 1;
            }
            let limit = if kind == RMW { COUNT_SPAN } else { 0x8000 };
            if *c >= limit {
                harvest(t, e, c, w, kind);
                full = true;
            }
        }
        full
    }
}

/// Moves one full counter into the record, so that hot words do not hide their neighbours from sampling.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `e` is an entry of it, `c` is a counter of the entry.
unsafe fn harvest(t: *mut Live, e: *mut Entry, c: *mut u16, w: usize, kind: u32) {
    // SAFETY: an entry in use has a record; `words` has 16 counts, of which reads and writes of word `w` are two.
    unsafe {
        let r = at::<Record>((*e).rec & !RMW_FLAG);
        let n = if kind == RMW { *c } else { *c - COUNT_START } as u32;
        let from = first_vt(t, e);
        pass(t, n as u64);
        run(t, r, from, now(t));
        let line = (*e).key & !HIDDEN;
        standing::counted(t, line, kind == WRITE);
        match kind {
            RMW => add_rmw(t, r, w, n),
            _ => {
                let words = words(t, r);
                if words.is_null() {
                    lost(LOST_NO_MEMORY, n as u64 - 1);
                } else {
                    let p = words.add(w + 8 * kind as usize);
                    *p = (*p).saturating_add(n);
                }
            }
        }
        // Dither: two places that take turns at one word must both be seen.
        (*t).dither = (*t).dither.wrapping_mul(GOLDEN).wrapping_add(0x7f4a_7c15);
        let d = ((*t).dither >> 27) as u16;
        // The dither is a head start that was not counted: take it off the record instead of carrying it.
        *c = if kind == RMW { 0 } else { COUNT_START };
        if d & 1 == 1 && kind != RMW {
            skew(r, c, w, kind, d);
        }
        (*e).vt0 = now(t) as u32;
        (*t).processor = crate::arch::processor();
        company::after(t, (line, r), n as u64, true);
        if now(t) >= (*t).sweep_vt {
            stale(t);
        }
    }
}

/// Starts a counter late by `d`, borrowing those counts from the record.
///
/// # Safety
/// `r` is a record of the calling thread, `c` is a counter of its entry, which is inside the recorder.
unsafe fn skew(r: *mut Record, c: *mut u16, w: usize, kind: u32, d: u16) {
    // SAFETY: `words` names 16 counts where it is not 0; `w` is below 8 and `kind` is a read or a write.
    unsafe {
        if (*r).more == 0 || (*at::<More>((*r).more)).words == 0 {
            return;
        }
        let p = at::<u32>((*at::<More>((*r).more)).words).add(w + 8 * kind as usize);
        if *p > d as u32 {
            *p -= d as u32;
            *c += d;
        }
    }
}

/// The clock when the entry began to count.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `e` is an entry of it.
#[inline(always)]
unsafe fn first_vt(t: *mut Live, e: *mut Entry) -> u64 {
    // SAFETY: the entry's clock is this thread's, and less than 2^32 old: `stale` sees to that.
    unsafe {
        let clock = now(t);
        clock - ((clock as u32).wrapping_sub((*e).vt0)) as u64
    }
}

/// Takes a free entry for `line`.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `e` is an entry of it.
#[inline(always)]
unsafe fn fill(t: *mut Live, e: *mut Entry, i: usize, line: u64) -> bool {
    // SAFETY: the entry is free, so nobody counts into it before its key is written, which comes last.
    unsafe {
        standing::begins(t);
        let r = record_of(t, line);
        ((*t).fills, (*t).latest) = ((*t).fills + 1, line);
        if r == 0 {
            lost(LOST_NO_MEMORY, 1);
            return false;
        }
        let rec = r as *mut Record;
        // Wanted when the entry is emptied, and mostly far away.
        crate::arch::prefetch_to_write(at::<u8>((*rec).more));
        crate::arch::prefetch_to_write(at::<u8>((*rec).last));
        // Of about one visit in 16 all bytes that are touched are sampled, once each: as if none had been seen yet.
        let anew = ((*t).fills as u32).wrapping_mul(GOLDEN) >> 28 == 0;
        ((*e).rmask, (*e).wmask) = if anew { (0, 0) } else { ((*rec).rmask, (*rec).wmask) };
        (*e).vt0 = now(t) as u32;
        (*e).rec = reference(r);
        for c in &mut (*e).cnt {
            *c = COUNT_START;
        }
        *(&raw mut (*t).used[0]).add(i / 64) |= 1 << (i % 64);
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
        (*e).key = line;
        company::comes(t, line);
        true
    }
}

/// The record of a line, made if need be; 0 without memory.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
unsafe fn record_of(t: *mut Live, line: u64) -> u64 {
    // SAFETY: a leaf has 64 references, one per line of its page; the cache's index is below PAGES_AT_HAND.
    unsafe {
        let page = line >> 12;
        let cache = (&raw mut (*t).page_cache[0]).add(page as usize & (PAGES_AT_HAND - 1));
        if (*cache).page != page + 1 {
            let leaf = crate::mem::leaf(t, page);
            if leaf == 0 {
                return 0;
            }
            (*cache).page = page + 1;
            (*cache).leaf = leaf;
        }
        let slot = ((*cache).leaf as *mut u32).add((line >> 6 & 63) as usize);
        if *slot == 0 {
            let r = crate::mem::take(t, size_of::<Record>() as u64);
            if r == 0 {
                return 0;
            }
            (*(r as *mut Record)).epoch = (*t).epoch;
            (*(r as *mut Record)).vt0 = u64::MAX;
            *slot = reference(r);
            return r;
        }
        // Walks go upwards more often than not: have the record of the line after next at hand.
        let ahead = *slot.add(if line >> 6 & 63 < 62 { 2 } else { 0 });
        crate::arch::prefetch_to_write(at::<u8>(ahead));
        at::<Record>(*slot) as u64
    }
}

/// Writes an entry's counts to its record and frees it. How many there were.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `e` is an entry of it.
#[inline(always)]
pub(crate) unsafe fn empty(t: *mut Live, e: *mut Entry, i: usize) -> u32 {
    // SAFETY: the entry is in use and has a record; its key goes first, so that no hook counts into it any more.
    unsafe {
        let (from, line) = (first_vt(t, e), (*e).key & !HIDDEN);
        (*e).key = 0;
        *(&raw mut (*t).used[0]).add(i / 64) &= !(1 << (i % 64));
        let r = at::<Record>((*e).rec & !RMW_FLAG);
        let mut n = 0u32;
        for c in &(*e).cnt {
            n += (*c - COUNT_START) as u32;
        }
        if (*e).rec & RMW_FLAG != 0 {
            for w in 0..8 {
                n += *rmw_of(t, i).add(w) as u32;
            }
        }
        if n == 0 {
            return 0;
        }
        pass(t, n as u64);
        run(t, r, from, now(t));
        add(t, r, &(*e).cnt);
        if (*e).rec & RMW_FLAG != 0 {
            for w in 0..8 {
                let c = rmw_of(t, i).add(w);
                if *c != 0 {
                    add_rmw(t, r, w, *c as u32);
                    *c = 0;
                }
            }
        }
        if n >= company::VISIT_MIN {
            company::after(t, (line, r), n as u64, false);
        }
        if now(t) >= (*t).sweep_vt {
            stale(t);
        }
        n
    }
}

/// Adds an entry's counts to its record: small ones stay in it.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
#[inline(always)]
unsafe fn add(t: *mut Live, r: *mut Record, counts: &[u16; 16]) {
    let mut sums = [0u16; 16];
    let mut all = 0;
    // SAFETY: the caller's promise.
    unsafe {
        for k in 0..16 {
            sums[k] = counts[k] - COUNT_START + (*r).small[k] as u16;
            all |= sums[k];
        }
        if all > u8::MAX as u16 {
            return add_many(t, r, &sums);
        }
        for k in 0..16 {
            (*r).small[k] = sums[k] as u8;
        }
    }
}

/// Adds `sums` to what the record has beside its small counts, which they contain.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
#[cold]
unsafe fn add_many(t: *mut Live, r: *mut Record, sums: &[u16; 16]) {
    // SAFETY: `words` gives 16 counts of this record, or null.
    unsafe {
        let words = words(t, r);
        if words.is_null() {
            return (0..16).for_each(|k| (*r).small[k] = sums[k].min(u8::MAX as u16) as u8);
        }
        (*r).small = [0; 16];
        for k in 0..16 {
            // A run is closed long before a count could overflow, see `run`.
            *words.add(k) = (*words.add(k)).wrapping_add(sums[k] as u32);
        }
    }
}

/// The record's counts beside its small ones, made if need be; null without memory.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
unsafe fn words(t: *mut Live, r: *mut Record) -> *mut u32 {
    // SAFETY: `take` gives zeroed room for 16 counts, which this record alone refers to.
    unsafe {
        let m = more(t, r);
        if !m.is_null() && (*m).words == 0 {
            let p = crate::mem::take(t, size_of::<[u32; 16]>() as u64);
            (*m).words = if p == 0 { 0 } else { reference(p) };
        }
        if m.is_null() || (*m).words == 0 {
            lost(LOST_NO_MEMORY, 1);
            return core::ptr::null_mut();
        }
        at((*m).words)
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
unsafe fn add_rmw(t: *mut Live, r: *mut Record, w: usize, n: u32) {
    // SAFETY: `take` gives zeroed room for eight counts, of which `w` is one.
    unsafe {
        let m = more(t, r);
        if !m.is_null() && (*m).rmw == 0 {
            let p = crate::mem::take(t, 64);
            (*m).rmw = if p == 0 { 0 } else { reference(p) };
        }
        if m.is_null() || (*m).rmw == 0 {
            lost(LOST_NO_MEMORY, n as u64);
            return;
        }
        let p = at::<u32>((*m).rmw).add(w);
        *p = (*p).saturating_add(n);
    }
}

/// Notes which code touched which bytes.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
#[inline(always)]
unsafe fn sample(t: *mut Live, r: *mut Record, off: u64, n: u64, kind: u32, pc: u64) {
    // SAFETY: `find` gives a slot of this record, or null.
    unsafe {
        let id = code::id(t, pc);
        let size = match n {
            1 | 2 | 4 | 8 | 16 => n.trailing_zeros(),
            _ => slot::RANGE,
        };
        let byte = if size == slot::RANGE { 0 } else { (off & 7) as u32 };
        let key = slot::key(id, byte, size, kind);
        let word = (off / 8) as u32;
        let s = find(t, r, key);
        if s.is_null() {
            return;
        }
        *s = slot::add(*s, word);
        if size == slot::RANGE {
            for w in word + 1..=((off + n - 1) / 8) as u32 {
                *s |= 1 << (32 + w);
            }
        }
    }
}

/// The slot with that key, taken if it is new.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
#[inline(always)]
unsafe fn find(t: *mut Live, r: *mut Record, key: u64) -> *mut u64 {
    // SAFETY: slots stay where they are while the file is mapped: the cache's pointers never dangle.
    unsafe {
        let first = &raw mut (*r).touch0;
        if *first & slot::KEY == key || *first == 0 {
            *first |= key;
            return first;
        }
        // The words of a line are touched by the same code mostly, one after the other.
        let what = (reference(r as u64) as u64) << 32 | key;
        let known =
            (&raw mut (*t).touch_cache[0]).add((what ^ what >> 24 ^ what >> 32) as usize % TOUCHES_AT_HAND);
        if (*known).what == what {
            return (*known).slot as *mut u64;
        }
        let slot = find_more(t, r, key);
        if !slot.is_null() {
            (*known).what = what;
            (*known).slot = slot as u64;
        }
        slot
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
unsafe fn find_more(t: *mut Live, r: *mut Record, key: u64) -> *mut u64 {
    // SAFETY: blocks form a list of at most TOUCH_BLOCKS, which only this thread lengthens; each has seven slots.
    unsafe {
        let m = more(t, r);
        if m.is_null() {
            lost(LOST_TOUCHES, 1);
            return core::ptr::null_mut();
        }
        let mut link = &raw mut (*m).touches;
        let mut blocks = 0;
        while *link != 0 {
            let b = at::<Touches>(*link);
            for k in 0..7 {
                let s = (&raw mut (*b).slots[0]).add(k);
                if *s & slot::KEY == key || *s == 0 {
                    *s |= key;
                    return s;
                }
            }
            blocks += 1;
            link = &raw mut (*b).next;
        }
        if blocks >= TOUCH_BLOCKS {
            lost(LOST_TOUCHES, 1);
            return core::ptr::null_mut();
        }
        let b = crate::mem::take(t, size_of::<Touches>() as u64);
        if b == 0 {
            lost(LOST_TOUCHES, 1);
            return core::ptr::null_mut();
        }
        *link = reference(b);
        let s = &raw mut (*(b as *mut Touches)).slots[0];
        *s = key;
        s
    }
}

/// Flushes entries that have not been refreshed for a whole window: their counts belong to an earlier time.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[cold]
unsafe fn stale(t: *mut Live) {
    // SAFETY: indices come from bits of `used`, which has one per entry; `empty` clears the bit that was taken.
    unsafe {
        let clock = now(t);
        (*t).sweep_vt = u64::MAX;
        for g in 0..ENTRIES / 64 {
            let mut bits = (*t).used[g];
            while bits != 0 {
                let i = g * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let e = (&raw mut (*t).entries[0]).add(i);
                if (clock as u32).wrapping_sub((*e).vt0) as u64 > WINDOW_VT {
                    empty(t, e, i);
                }
            }
        }
        (*t).sweep_vt = now(t) + WINDOW_VT;
    }
}

/// Empties the whole table: what came before a synchronisation stays before it.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub unsafe fn sweep(t: *mut Live) {
    // SAFETY: indices come from bits of `used`, which has one per entry; `empty` clears the bit that was taken.
    unsafe {
        sampling::settle(t);
        (*t).sweep_vt = u64::MAX;
        for g in 0..ENTRIES / 64 {
            let mut bits = (*t).used[g];
            while bits != 0 {
                let i = g * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                empty(t, (&raw mut (*t).entries[0]).add(i), i);
            }
        }
        (*t).sweep_vt = now(t) + WINDOW_VT;
    }
}
