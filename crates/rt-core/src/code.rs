//! Code addresses and their callers, numbered per thread.

use crate::arena::{alloc, at, fullness, lost, reference, snapshot_maps};
use crate::mem::take;
use crate::wire::*;

const CODES_MAX: u32 = 60_000;

/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
unsafe fn top(t: *mut Live) -> *mut Frame {
    // SAFETY: the position is masked to the number of frames.
    unsafe { (&raw mut (*t).frames[0]).add(((*t).depth as usize / size_of::<Frame>()) & (FRAMES - 1)) }
}

/// Frames of a context that are kept while another one runs.
const ASIDE: usize = 16;
/// `Live::depth` of a shadow stack without frames; 0 where nothing is recorded.
const EMPTY: u32 = size_of::<Frame>() as u32;

/// The innermost frames of a context that another one takes the place of.
pub struct Aside {
    frames: [(u64, u64); ASIDE],
    count: usize,
}

impl Aside {
    /// No frames.
    pub fn nothing() -> Aside {
        Aside { frames: [(0, 0); ASIDE], count: 0 }
    }

    /// Takes all frames off the shadow stack: the next context has callers of its own.
    ///
    /// # Safety
    /// `t` is the calling thread's, or the state of threads that are not recorded.
    pub unsafe fn put(t: *mut Live) -> Aside {
        let mut aside = Aside::nothing();
        // SAFETY: the thread's own shadow stack; positions are masked. States that are not recorded stay as they are.
        unsafe {
            while (*t).depth > EMPTY && aside.count < ASIDE {
                let f = top(t);
                *aside.frames.get_unchecked_mut(aside.count) = ((*f).pc, (*f).sp);
                aside.count += 1;
                (*t).depth -= EMPTY;
            }
            (*t).depth = (*t).depth.min(EMPTY);
        }
        aside
    }

    /// Makes them the shadow stack again, whatever it holds.
    ///
    /// # Safety
    /// As [`Aside::put`]; the thread may be another one.
    pub unsafe fn take_back(&self, t: *mut Live) {
        // SAFETY: as above; as many frames as were put aside.
        unsafe {
            if (*t).depth == 0 {
                return;
            }
            (*t).depth = EMPTY;
            for k in (0..self.count).rev() {
                let &(pc, sp) = self.frames.get_unchecked(k);
                (*t).depth += EMPTY;
                let f = top(t);
                (*f).pc = pc;
                (*f).sp = sp;
            }
        }
    }
}

/// Number of `pc` under the callers that the shadow stack has now; 0 if there is no room.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[inline(always)]
pub unsafe fn id(t: *mut Live, pc: u64) -> u32 {
    // SAFETY: the cache has 32 entries, and the index five bits; only this thread reads or writes them.
    unsafe {
        let c = (&raw mut (*t).code_cache[0]).add((pc >> 1 ^ pc >> 6) as usize & 31);
        if (*c).pc == pc && (*c).depth == (*t).depth && (*c).top == (*top(t)).caller() {
            return (*c).code;
        }
        let code = lookup(t, pc);
        (*c).pc = pc;
        (*c).depth = (*t).depth;
        (*c).top = (*top(t)).caller();
        (*c).code = code;
        code
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
unsafe fn lookup(t: *mut Live, pc: u64) -> u32 {
    // SAFETY: frame positions are masked to their number, and the chain is written below CHAIN only.
    unsafe {
        let mut row = CodeRow { pc, count: 0, chain: [0; CHAIN] };
        let frames = ((*t).depth as usize / size_of::<Frame>()).saturating_sub(1).min(FRAMES - 1);
        let mut h = pc.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut k = 0;
        while k < CHAIN && k < frames {
            let i = ((*t).depth as usize / size_of::<Frame>() - k) & (FRAMES - 1);
            let pc = (*(&raw mut (*t).frames[0]).add(i)).caller();
            *row.chain.get_unchecked_mut(k) = pc;
            h = (h ^ pc).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            h ^= h >> 29;
            k += 1;
        }
        row.count = k as u64;
        find(t, &row, h)
    }
}

/// Callers that tell one place in the code from another: an operation of a library's lock, its wrapper, who used it.
const CALLERS: usize = 3;

/// A number for the place where `pc` was reached; no address.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub unsafe fn whereabouts(t: *mut Live, pc: u64) -> u64 {
    const NO_ADDRESS: u64 = 1 << 63;
    let mut h = pc.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // SAFETY: positions are masked to the number of frames.
    unsafe {
        let depth = (*t).depth as usize / size_of::<Frame>();
        for k in 0..depth.saturating_sub(1).min(CALLERS) {
            let caller = (*(&raw mut (*t).frames[0]).add((depth - k) & (FRAMES - 1))).caller();
            h = (h ^ h >> 29 ^ caller).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
    (h >> 3) << 2 | NO_ADDRESS
}

/// # Safety
/// `info` is the calling thread's, `id` a slot of its table that is taken.
#[inline(always)]
unsafe fn row_of(info: *mut ThreadInfo, id: u32) -> *mut CodeRow {
    // Ids are dense; chunks form a list, so remember positions in the hash table instead of walking: slots hold
    // (reference of the row's chunk, position).
    // SAFETY: the caller's promise; the position is masked.
    unsafe {
        let slot = at::<u32>((*info).codes).add(id as usize * 2);
        let chunk = at::<CodeChunk>(*slot);
        (&raw mut (*chunk).rows[0]).add((*slot.add(1) as usize - 1) & (CODES_PER_CHUNK - 1))
    }
}

/// The hash table has pairs (chunk reference, id); id 0 is a free slot.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
unsafe fn find(t: *mut Live, row: &CodeRow, h: u64) -> u32 {
    // SAFETY: the table has `1 << codes_bits` pairs, indices are masked to that, and only this thread changes table
    // and number.
    unsafe {
        let info = (*t).info_at as *mut ThreadInfo;
        if (*info).codes == 0 || (*info).codes_count * 4 >= 3 << (*info).codes_bits {
            grow(t, info);
        }
        if (*info).codes == 0 {
            return 0;
        }
        let mask = (1usize << (*info).codes_bits) - 1;
        let table = at::<u32>((*info).codes);
        let mut i = h as usize & mask;
        let mut steps = 0;
        while *table.add(i * 2 + 1) != 0 {
            if equal(row_of(info, i as u32), row) {
                return *table.add(i * 2 + 1);
            }
            i = (i + 1) & mask;
            steps += 1;
            if steps > mask {
                return 0;
            }
        }
        let (chunk, id) = append(t, info, row);
        if id != 0 {
            *table.add(i * 2) = chunk;
            *table.add(i * 2 + 1) = id;
        }
        id
    }
}

/// # Safety
/// `a` is a row of the calling thread's codes.
unsafe fn equal(a: *const CodeRow, b: &CodeRow) -> bool {
    // SAFETY: the caller's promise; counts are masked to the chain's length.
    unsafe {
        if (*a).pc != b.pc || (*a).count != b.count {
            return false;
        }
        (0..b.count as usize & 15).all(|k| (*(&raw const (*a).chain[0]).add(k)) == *b.chain.get_unchecked(k))
    }
}

/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `info` is its description.
unsafe fn append(t: *mut Live, info: *mut ThreadInfo, row: &CodeRow) -> (u32, u32) {
    // SAFETY: `last_chunk` is of the last chunk made, zeroed by `take`; the row's position is below CODES_PER_CHUNK.
    unsafe {
        let n = (*info).codes_count;
        if n >= CODES_MAX {
            lost(LOST_CODES, 1);
            return (0, 0);
        }
        if (n as usize).is_multiple_of(CODES_PER_CHUNK) {
            let c = take(t, size_of::<CodeChunk>() as u64);
            if c == 0 {
                lost(LOST_CODES, 1);
                return (0, 0);
            }
            let r = reference(c);
            if (*info).last_chunk == 0 {
                (*info).chunks = r;
            } else {
                (*at::<CodeChunk>((*info).last_chunk)).next = r;
            }
            (*info).last_chunk = r;
        }
        let to = (&raw mut (*at::<CodeChunk>((*info).last_chunk)).rows[0]).add(n as usize % CODES_PER_CHUNK);
        (*to).pc = row.pc;
        (*to).count = row.count;
        for k in 0..CHAIN {
            *(&raw mut (*to).chain[0]).add(k) = *row.chain.get_unchecked(k);
        }
        (*info).codes_count = n + 1;
        known_module(row.pc);
        for k in 0..row.count as usize & 15 {
            known_module(*row.chain.get_unchecked(k));
        }
        ((*info).last_chunk, n + 1)
    }
}

/// New code outside of everything that the last snapshot of the memory map knew means a library was loaded.
///
/// # Safety
/// The header is mapped.
unsafe fn known_module(pc: u64) {
    use core::sync::atomic::Ordering::Relaxed;
    const REGION: u64 = 256 << 10;
    let region = pc / REGION + 1;
    for s in &SEEN {
        let v = s.load(Relaxed);
        if v == region {
            return;
        }
        if v == 0 {
            // Maps of many mappings are long: they must not fill the recording.
            const QUARTER: u64 = 64;
            if fullness() > QUARTER {
                return;
            }
            s.store(region, Relaxed);
            // SAFETY: the caller's promise.
            unsafe { snapshot_maps() };
            return;
        }
    }
}

/// Regions of code that were looked up in a snapshot of the memory map.
static SEEN: [core::sync::atomic::AtomicU64; 256] = [const { core::sync::atomic::AtomicU64::new(0) }; 256];

/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `info` is its description.
unsafe fn grow(t: *mut Live, info: *mut ThreadInfo) {
    // SAFETY: the new table is twice as large and this thread's alone; slots of the old one are read below its own
    // size.
    unsafe {
        let old_bits = (*info).codes_bits;
        let bits = if (*info).codes == 0 { 6 } else { old_bits + 1 };
        let bytes = 8u64 << bits;
        let new = if bytes <= 4096 { take(t, bytes) } else { alloc(bytes) };
        if new == 0 {
            return;
        }
        if (*info).codes != 0 {
            let old = at::<u32>((*info).codes);
            for k in 0..1usize << old_bits {
                if *old.add(k * 2 + 1) != 0 {
                    place(new as *mut u32, bits, *old.add(k * 2), *old.add(k * 2 + 1));
                }
            }
        }
        (*info).codes = reference(new);
        (*info).codes_bits = bits;
    }
}

/// # Safety
/// `table` has room for `1 << bits` pairs, and `chunk` holds the row of `id`.
unsafe fn place(table: *mut u32, bits: u32, chunk: u32, id: u32) {
    // SAFETY: the caller's promise; indices are masked.
    unsafe {
        let row = (&raw mut (*at::<CodeChunk>(chunk)).rows[0]).add((id as usize - 1) & (CODES_PER_CHUNK - 1));
        let mut h = (*row).pc.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for k in 0..(*row).count as usize & 15 {
            h = (h ^ *(&raw mut (*row).chain[0]).add(k)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            h ^= h >> 29;
        }
        let mask = (1usize << bits) - 1;
        let mut i = h as usize & mask;
        while *table.add(i * 2 + 1) != 0 {
            i = (i + 1) & mask;
        }
        *table.add(i * 2) = chunk;
        *table.add(i * 2 + 1) = id;
    }
}
