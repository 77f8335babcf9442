//! Records: header, kinds, and the ones that say what is mapped where.

use crate::bytes::Bytes;
use crate::error::Problem;

/// Kinds of records (`enum perf_event_type` and perf's own above 64).
#[allow(missing_docs)]
pub mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const KSYMBOL: u32 = 17;
    pub const HEADER_ATTR: u32 = 64;
    pub const TRACING_DATA: u32 = 66;
    pub const AUXTRACE: u32 = 71;
    pub const EVENT_UPDATE: u32 = 78;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// A compressed record unpacks to at most this much; perf compresses at most one ring buffer (512 MiB) at a time.
const UNPACKED_MAX: u64 = 1 << 30;

/// One record with its header taken off.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// See [`kind`].
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`: the low three bits tell kernel, user, hypervisor, guest.
    pub misc: u16,
    /// What follows the header.
    pub payload: &'a [u8],
    /// Offset of the header in its stream.
    pub offset: u64,
}

/// A file mapped into a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mmap {
    /// Process; `u32::MAX` for the kernel.
    pub pid: u32,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Offset in the file.
    pub file_offset: u64,
    /// Path or `[kernel.kallsyms]_text`.
    pub path: String,
    /// Build-id, if the record carries it.
    pub build_id: Option<Vec<u8>>,
    /// In kernel space.
    pub kernel: bool,
}

/// Calls `f` for every record of `data`, unpacking compressed ones. Stops at the first record that cannot be one.
pub fn walk(
    data: &[u8],
    swap: bool,
    base: u64,
    problems: &mut Vec<Problem>,
    f: &mut dyn FnMut(Record<'_>, &mut Vec<Problem>),
) {
    let mut unpacker = Unpacker::default();
    walk_plain(data, swap, base, problems, &mut |record, problems| {
        if !matches!(record.kind, kind::COMPRESSED | kind::COMPRESSED2) {
            return f(record, problems);
        }
        unpacker.push(record, swap, problems);
        let used = walk_plain(&unpacker.pending, swap, record.offset, problems, f);
        unpacker.pending.drain(..used);
    });
    if !unpacker.pending.is_empty() {
        let message = format!("{} bytes of a compressed record have no end", unpacker.pending.len());
        problems.push(Problem { offset: base + data.len() as u64, message });
    }
}

/// Walks whole records and returns the bytes used: what is left is the beginning of a record.
fn walk_plain(
    data: &[u8],
    swap: bool,
    base: u64,
    problems: &mut Vec<Problem>,
    f: &mut dyn FnMut(Record<'_>, &mut Vec<Problem>),
) -> usize {
    let mut at = 0usize;
    while let Some(header) = data.get(at..).and_then(|d| d.get(..8)) {
        let mut b = Bytes::new(header, swap);
        let (Some(kind), Some(misc), Some(size)) = (b.u32(), b.u16(), b.u16()) else { break };
        let size = usize::from(size);
        let offset = base + at as u64;
        if size < 8 {
            problems.push(Problem {
                offset,
                message: format!("a record of {size} bytes; the rest is unreadable"),
            });
            return data.len();
        }
        let Some(payload) = data.get(at + 8..at + size) else { break };
        let mut extra = 0;
        if matches!(kind, kind::AUXTRACE | kind::TRACING_DATA | kind::COMPRESSED2) {
            extra = trailing(kind, payload, swap, data.len() - at - size);
        }
        let payload = if kind == kind::COMPRESSED2 {
            let len = Bytes::new(payload, swap).u64().unwrap_or(0);
            payload.get(8..8usize.saturating_add(usize::try_from(len).unwrap_or(0))).unwrap_or_default()
        } else {
            payload
        };
        f(Record { kind, misc, payload, offset }, problems);
        at += size + extra;
    }
    at
}

/// Bytes that follow the record itself.
fn trailing(kind: u32, payload: &[u8], swap: bool, left: usize) -> usize {
    let mut b = Bytes::new(payload, swap);
    let size = match kind {
        kind::AUXTRACE => b.u64(),
        kind::TRACING_DATA => b.u32().map(|n| u64::from(n).div_ceil(8) * 8),
        _ => None,
    };
    usize::try_from(size.unwrap_or(0)).unwrap_or(usize::MAX).min(left)
}

/// One zstd stream cut into records: later records refer back to earlier ones.
#[derive(Default)]
struct Unpacker {
    packed: Vec<u8>,
    pending: Vec<u8>,
    dead: bool,
}

impl Unpacker {
    fn push(&mut self, record: Record<'_>, _swap: bool, problems: &mut Vec<Problem>) {
        if self.dead {
            return;
        }
        self.packed.extend_from_slice(record.payload);
        match unpack(&self.packed) {
            Ok(Some(bytes)) => {
                self.packed.clear();
                self.pending.extend_from_slice(&bytes);
            }
            Ok(None) => {}
            Err(message) => {
                self.dead = true;
                problems.push(Problem {
                    offset: record.offset,
                    message: format!("compressed record: {message}"),
                });
            }
        }
    }
}

/// Unpacks whole frames; `None` when the last frame has no end yet.
fn unpack(packed: &[u8]) -> Result<Option<Vec<u8>>, String> {
    use std::io::Read;
    let mut out = Vec::new();
    let mut input = packed;
    while !input.is_empty() {
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(&mut input).map_err(|e| e.to_string())?;
        let read = decoder.by_ref().take(UNPACKED_MAX - out.len() as u64).read_to_end(&mut out);
        if let Err(e) = read {
            return if e.kind() == std::io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(e.to_string()) };
        }
        if out.len() as u64 >= UNPACKED_MAX {
            return Err(format!("unpacks to more than {UNPACKED_MAX} bytes"));
        }
    }
    Ok(Some(out))
}

/// Reads MMAP and MMAP2.
pub fn mmap(record: &Record<'_>, swap: bool) -> Option<Mmap> {
    const MISC_KERNEL: u16 = 1;
    const MISC_BUILD_ID: u16 = 1 << 14;
    let mut b = Bytes::new(record.payload, swap);
    let pid = b.u32()?;
    b.skip(4)?;
    let mut m = Mmap { pid, start: b.u64()?, len: b.u64()?, file_offset: b.u64()?, ..Mmap::default() };
    m.kernel = record.misc & 7 == MISC_KERNEL;
    if record.kind == kind::MMAP2 {
        if record.misc & MISC_BUILD_ID != 0 {
            let size = usize::from(b.take(1)?[0]).min(20);
            b.skip(3)?;
            m.build_id = Some(b.take(20)?[..size].to_vec());
        } else {
            b.skip(24)?;
        }
        b.skip(8)?; // prot, flags
    }
    let n = b.rest().len();
    m.path = b.text(n)?;
    Some(m)
}

/// Reads COMM: process, thread, name.
pub fn comm(record: &Record<'_>, swap: bool) -> Option<(u32, u32, String)> {
    let mut b = Bytes::new(record.payload, swap);
    Some((b.u32()?, b.u32()?, b.text_rest()))
}

/// Reads FORK: process, its parent.
pub fn fork(record: &Record<'_>, swap: bool) -> Option<(u32, u32)> {
    let mut b = Bytes::new(record.payload, swap);
    Some((b.u32()?, b.u32()?))
}
