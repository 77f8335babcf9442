//! Reading raw files. A process may have died at any instruction, so nothing in a file is trusted: references are
//! bounds-checked, lists and tables are walked for at most as many steps as the file has room for.

use crate::wire::*;

/// Lives of one address that are looked at; the runtime keeps fewer.
pub(crate) const LIVES: usize = 1024;

/// A raw file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// The process died before it had set up its file, or this is not one.
    #[error(
        "{name}: no recording in it (the process ended while it was starting up, or there was no room for its file)"
    )]
    NotReady {
        /// File name.
        name: String,
    },
    /// Written by another version of tussle.
    #[error(
        "{name}: raw format {found}, this tussle reads {VERSION}: rebuild the program with this tussle's `cc`"
    )]
    Version {
        /// File name.
        name: String,
        /// Version found.
        found: u32,
    },
}

/// One process's file.
pub struct RawFile<'a> {
    /// For messages.
    pub name: String,
    bytes: &'a [u8],
}

/// Marks structures of the wire format that any bytes form a valid value of.
///
/// # Safety
/// Only for `repr(C)` structures of integers without padding that matters.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($t:ty)*) => { $( unsafe impl Plain for $t {} )* };
}
plain!(u32 u64 [u32; 4] [u32; 8] [u32; 16] [u32; 64] [[u16; 8]; ENTRIES]);

macro_rules! plain_structs {
    ($($t:ident)*) => { $(
        impl Clone for $t { fn clone(&self) -> Self { *self } }
        impl Copy for $t {}
        unsafe impl Plain for $t {}
    )* };
}
plain_structs!(
    Header Nested ThreadInfo Entry PageSlot Record More Company
    PieceBlock Touches CodeRow HeapSlot Site Lock Section Visit
    NameTold Stretch
);

/// An entry of a live thread's table and its read-modify-writes per word.
pub type LiveEntry = (Entry, [u16; 8]);

/// What one thread did under one lock.
pub struct TracedLock {
    /// The lock, and how many sections it had.
    pub lock: Lock,
    /// A sample of them.
    pub sections: Vec<(Section, Vec<Visit>)>,
}

/// Addresses of a process lie below: 57 bits with five levels of page tables, of which the kernel has half. What lies
/// above is damage.
const ADDRESS_MAX: u64 = 1 << 56;

/// Clocks stay below: they count accesses, a billion per second for two years.
const VT_MAX: u64 = 1 << 56;

/// Sections of one lock and thread that are read at most; the runtime keeps fewer.
const SECTIONS_MAX: usize = 64;
/// Stretches that are read at most: a day of one each 10 ms.
const STRETCHES_MAX: usize = 8_640_000;
/// Names that the program told that are read at most; the runtime keeps fewer.
const MARKS_MAX: usize = 8192;
/// Recordings inside of one file that are read at most.
const NESTED_FILES_MAX: usize = 4096;

impl<'a> RawFile<'a> {
    /// Checks the header of a file.
    pub fn new(name: String, bytes: &'a [u8]) -> Result<RawFile<'a>, RawError> {
        let f = RawFile { name, bytes };
        match f.at::<Header>(0) {
            Some(h) if h.magic == MAGIC && h.version == VERSION => Ok(f),
            Some(h) if h.magic == MAGIC => Err(RawError::Version { name: f.name, found: h.version }),
            _ => Err(RawError::NotReady { name: f.name }),
        }
    }

    /// Any bytes, whatever their header says.
    #[cfg(test)]
    pub(crate) fn for_tests(bytes: &'a [u8]) -> RawFile<'a> {
        RawFile { name: String::new(), bytes }
    }

    /// Recordings of forked children that lie in this file.
    pub fn nested(&self) -> Vec<RawFile<'a>> {
        let list: Vec<(u32, Nested)> = {
            let mut at = self.header().nested;
            let mut out = Vec::new();
            while let Some(n) = self.get::<Nested>(at, 0).filter(|_| out.len() < NESTED_FILES_MAX) {
                out.push((at, n));
                at = n.next;
            }
            out
        };
        let bytes_of = |(at, n): &(u32, Nested)| {
            let from = usize::try_from((u64::from(*at) + 1) * UNIT).ok()?;
            self.bytes.get(from..from.checked_add(usize::try_from(n.bytes).ok()?)?)
        };
        let children = list.iter().filter_map(bytes_of);
        children.filter_map(|b| RawFile::new(format!("{} (child)", self.name), b).ok()).collect()
    }

    /// Bytes of the file.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The header.
    pub fn header(&self) -> Header {
        // `new` has read it; an all-zero header would mean an empty file and ends every walk.
        // SAFETY: the header is made of numbers, for which zero is a value.
        self.at(0).unwrap_or_else(|| Header { ..unsafe { std::mem::zeroed() } })
    }

    fn at<T: Plain>(&self, offset: u64) -> Option<T> {
        let from = usize::try_from(offset).ok()?;
        let bytes = self.bytes.get(from..from.checked_add(size_of::<T>())?)?;
        // SAFETY: in bounds, and every bit pattern is a value of a `Plain` type.
        Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
    }

    pub(crate) fn get<T: Plain>(&self, reference: u32, index: u64) -> Option<T> {
        if reference == 0 {
            return None;
        }
        self.at((u64::from(reference) * UNIT).checked_add(index.checked_mul(size_of::<T>() as u64)?)?)
    }

    /// `len` bytes of the structure at `reference`, from `offset` on; none if the file ends before.
    pub(crate) fn slice(&self, reference: u32, offset: usize, len: usize) -> &[u8] {
        let from = (u64::from(reference) * UNIT) as usize + offset;
        self.bytes.get(from..from + len).unwrap_or(&[])
    }

    /// Upper bound for the length of any list in this file.
    fn steps(&self) -> usize {
        self.bytes.len() / UNIT as usize
    }

    /// Threads in order of their index.
    pub fn threads(&self) -> Vec<ThreadInfo> {
        let mut out: Vec<ThreadInfo> =
            self.list(self.header().threads, self.steps(), |t: &ThreadInfo| t.next);
        out.retain(|t| t.tp.max(t.stack_lo).max(t.stack_hi) <= ADDRESS_MAX);
        out.iter_mut().for_each(|t| (t.vt0, t.vt1) = (t.vt0.min(VT_MAX), t.vt1.min(VT_MAX)));
        out.sort_by_key(|t| t.index);
        out
    }

    /// A list's items, at most `max`: a damaged one can be a circle.
    fn list<T: Plain>(&self, first: u32, max: usize, next: impl Fn(&T) -> u32) -> Vec<T> {
        let mut out = Vec::new();
        let mut at = first;
        while let Some(item) = self.get::<T>(at, 0) {
            at = next(&item);
            out.push(item);
            if out.len() >= max {
                break;
            }
        }
        out
    }

    /// Calls `each` with the address of every line that a thread touched and the reference of its record.
    pub fn lines(&self, t: &ThreadInfo, mut each: impl FnMut(u64, u32)) {
        let slots = 1u64 << t.pages_bits.min(30);
        for k in 0..slots {
            let Some(s) = self.get::<PageSlot>(t.pages, k) else { return };
            if s.page == 0 || s.page > ADDRESS_MAX >> 12 {
                continue;
            }
            let Some(leaf) = self.get::<[u32; 64]>(s.leaf, 0) else { continue };
            for (i, &r) in leaf.iter().enumerate() {
                if r != 0 {
                    each(((s.page - 1) << 12) + i as u64 * LINE, r);
                }
            }
        }
    }

    /// A record.
    pub fn record(&self, reference: u32) -> Option<Record> {
        self.get(reference, 0)
    }

    /// A time that a clock can have shown.
    pub(crate) fn is_time(vt: u64) -> bool {
        vt <= VT_MAX
    }

    /// Touch slots of a record.
    pub fn touches(&self, r: &Record) -> Vec<u64> {
        let mut out = vec![r.touch0];
        let first = self.get::<More>(r.more, 0).map_or(0, |m| m.touches);
        for b in self.list(first, 64, |b: &Touches| b.next) {
            out.extend(b.slots);
        }
        out.retain(|&s| s != 0);
        out
    }

    /// Whether others used a record's line at the same time, if that was looked at.
    pub fn company(&self, r: &Record) -> Option<Company> {
        let m = self.get::<More>(r.more, 0).filter(|m| m.company != 0)?;
        self.get(m.company, 0)
    }

    /// Codes of a thread, position 0 holding id 1.
    pub fn codes(&self, t: &ThreadInfo) -> Vec<CodeRow> {
        let mut out = Vec::new();
        let mut at = t.chunks;
        while at != 0 && out.len() < t.codes_count as usize {
            let Some(next) = self.get::<u32>(at, 0) else { break };
            // Rows follow 64 bytes of list header.
            for k in 0..CODES_PER_CHUNK as u64 {
                let row = self.at::<CodeRow>(u64::from(at) * UNIT + UNIT + k * size_of::<CodeRow>() as u64);
                if let Some(row) = row.filter(|_| out.len() < t.codes_count as usize) {
                    out.push(row);
                }
            }
            at = next;
        }
        out
    }

    /// What the table of a thread that was still alive holds: entries and their read-modify-writes, and the clock.
    pub fn live(&self, t: &ThreadInfo) -> Option<(u64, Vec<LiveEntry>)> {
        if t.live == 0 {
            return None;
        }
        let start = u64::from(t.live) * UNIT;
        let vt = self.at::<u64>(start + std::mem::offset_of!(Live, vt) as u64)?;
        let rmw = self.at::<[[u16; 8]; ENTRIES]>(start + std::mem::offset_of!(Live, rmw) as u64)?;
        let entries = (0..ENTRIES as u64)
            .filter_map(|k| Some((self.get::<Entry>(t.live, k)?, rmw[k as usize])))
            .map(|(e, rmw)| (Entry { key: e.key & !HIDDEN, ..e }, rmw))
            .filter(|(e, _)| e.key != 0)
            .collect();
        Some((vt.min(VT_MAX), entries))
    }

    /// Locks that a thread held, each with its traced sections and their visits.
    pub fn locks(&self, t: &ThreadInfo) -> Vec<TracedLock> {
        let slots = if t.locks == 0 { 0 } else { 1u64 << t.locks_bits.min(20) };
        let all = (0..slots)
            .map_while(|k| self.get::<Lock>(t.locks, k))
            .map(|l| Lock { addr: l.addr & !LOCK_SHARED, ..l })
            .filter(|l| l.addr != 0 && l.addr <= ADDRESS_MAX);
        all.map(|l| TracedLock { lock: l, sections: self.sections(&l) }).collect()
    }

    fn sections(&self, l: &Lock) -> Vec<(Section, Vec<Visit>)> {
        let mut at = l.sections;
        let mut out = Vec::new();
        while out.len() < SECTIONS_MAX {
            let Some(s) = self.get::<Section>(at, 0) else { break };
            at = s.next;
            let s = Section { vt0: s.vt0.min(VT_MAX), vt1: s.vt1.min(VT_MAX), ..s };
            out.push((s, self.visits(&s)));
        }
        out
    }

    fn visits(&self, s: &Section) -> Vec<Visit> {
        let count = (s.visits as usize).min(VISITS);
        let mut out = Vec::with_capacity(count);
        let mut at = s.blocks;
        while out.len() < count {
            let Some(next) = self.get::<u32>(at, 0) else { break };
            let from = u64::from(at) * UNIT + std::mem::offset_of!(VisitBlock, visits) as u64;
            let left = (count - out.len()).min(VISITS_PER_BLOCK) as u64;
            out.extend((0..left).filter_map(|k| self.at::<Visit>(from + k * size_of::<Visit>() as u64)));
            at = next;
        }
        out
    }

    /// Every life of every heap object.
    pub fn heap(&self) -> Vec<HeapSlot> {
        let h = self.header();
        let mut out = Vec::new();
        for s in 0..HEAP_SHARDS {
            for k in 0..1u64 << h.heap_bits[s].min(30) {
                let Some(slot) = self.get::<HeapSlot>(h.heap[s], k) else { break };
                if slot.base == 0 {
                    continue;
                }
                let mut at = slot.older;
                out.push(slot);
                for _ in 0..LIVES {
                    let Some(old) = self.get::<HeapSlot>(at, 0) else { break };
                    at = old.older;
                    out.push(old);
                }
            }
        }
        out.retain(|s| (s.base & !PART).max(s.size) <= ADDRESS_MAX && s.vt0 <= VT_MAX);
        out
    }

    /// Objects of a site that were alive at most at the same time.
    pub fn live_max(&self, site: u32) -> u64 {
        self.get::<Site>(site, 0).map_or(0, |s| s.live_max)
    }

    /// Accesses of a thread that were passed over because counting was off.
    pub fn skipped(&self, t: &ThreadInfo) -> u64 {
        if t.live == 0 {
            return t.skipped;
        }
        let field = |at: usize| u64::from(t.live) * UNIT + at as u64;
        let number = |at: usize| self.at::<u32>(field(at)).unwrap_or(0);
        let now = number(std::mem::offset_of!(Live, skip_from))
            .saturating_sub(number(std::mem::offset_of!(Live, skip)));
        self.at::<u64>(field(std::mem::offset_of!(Live, skipped))).unwrap_or(0).saturating_add(now.into())
    }

    /// Where stretches begin in which accesses were counted because that was asked, in ascending order.
    pub fn stretches(&self) -> Vec<u64> {
        let mut out = Vec::new();
        let mut at = self.header().stretches;
        while let Some(s) = self.get::<Stretch>(at, 0).filter(|_| out.len() < STRETCHES_MAX) {
            out.push(s.vt0.min(VT_MAX));
            at = s.next;
        }
        out.sort_unstable();
        out
    }

    /// A name that the program told, and how often.
    pub fn mark(&self, reference: u32) -> Option<(String, u64)> {
        let m = self.get::<NameTold>(reference, 0)?;
        Some((String::from_utf8_lossy(&self.text(m.name)).into_owned(), m.count))
    }

    /// All of them, newest first.
    pub fn marks(&self) -> Vec<(String, u64)> {
        let mut out = Vec::new();
        let mut at = self.header().marks;
        while let Some((name, count)) = self.mark(at).filter(|_| out.len() < MARKS_MAX) {
            out.push((name, count));
            at = self.get::<NameTold>(at, 0).map_or(0, |m| m.next);
        }
        out
    }

    /// A text, of all its blocks.
    pub fn text(&self, reference: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let mut at = reference;
        while let Some([_, len, more, _]) = self.get::<[u32; 4]>(at, 0) {
            let from = (u64::from(at) * UNIT) as usize + 16;
            let bytes = self.bytes.get(from..from.saturating_add(len as usize)).unwrap_or(&[]);
            // A damaged list may be a circle.
            if bytes.is_empty() || out.len() + bytes.len() > self.bytes.len() {
                break;
            }
            out.extend_from_slice(bytes);
            at = more;
        }
        out
    }

    /// Snapshots of the memory map, oldest first.
    pub fn maps(&self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut at = self.header().maps;
        while at != 0 && out.len() < 1000 {
            out.push(self.text(at));
            at = self.get::<u32>(at, 0).unwrap_or(0);
        }
        out.reverse();
        out
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn other_versions_are_refused_by_name() {
        let mut bytes = vec![0u8; 8192];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        assert!(RawFile::new("1.0.raw".into(), &bytes).is_ok());
        bytes[8..12].copy_from_slice(&(VERSION - 1).to_le_bytes());
        let refused = RawFile::new("1.0.raw".into(), &bytes).err().unwrap().to_string();
        assert!(refused.contains(&format!("raw format {}", VERSION - 1)), "{refused}");
        assert!(refused.contains(&format!("reads {VERSION}")), "{refused}");
    }

    #[test]
    fn earlier_runs_come_back_from_their_bytes() {
        use crate::pieces::{PIECE_BYTES_MAX, Piece, put_piece, take_piece};
        let mut seed = 1u64;
        let mut random = |bits: u32| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            seed >> (64 - bits)
        };
        let (mut bytes, mut written, mut end) = (Vec::new(), Vec::new(), 0);
        for k in 0..2000u64 {
            // Clocks go back at times: runs of different epochs may overlap.
            let vt0 = if k % 7 == 0 { random(40) } else { end + random(20) };
            let counts =
                std::array::from_fn(
                    |i| if (k >> (i % 8)) & 1 == 0 { 0 } else { random(1 + i as u32) as u32 },
                );
            let p = Piece { vt0, vt1: vt0 + random(30), counts };
            let before = bytes.len();
            put_piece(&p, end, |b| bytes.push(b));
            assert!(bytes.len() - before <= PIECE_BYTES_MAX);
            end = p.vt1;
            written.push(p);
        }
        let (mut rest, mut end, mut read) = (bytes.iter(), 0, Vec::new());
        while let Some(p) = take_piece(end, || rest.next().copied()) {
            end = p.vt1;
            read.push(p);
        }
        assert_eq!(read, written);
        assert_eq!(take_piece(0, || Some(0xff)), None, "a number without an end");
    }
}
