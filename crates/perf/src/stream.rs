//! The walk over the records of a data section, read in pieces and unpacked where it is compressed.

use crate::bytes::Bytes;
use crate::error::Skipped;
use crate::input::{Input, fill};
use crate::record::{Record, kind};
use crate::unpack::Unpacker;

/// Bytes read at once. A record has at most 64 KiB; a piece that stays in the second-level cache is fastest.
const PIECE: usize = 512 << 10;

/// What receives records.
pub type OnRecord<'f> = &'f mut dyn FnMut(Record<'_>, &mut Vec<Skipped>);

/// Calls `f` for every record between `start` and `end` of `input`, unpacking compressed ones. Stops at the first
/// record that cannot be one.
pub fn walk(
    input: &dyn Input,
    (start, end): (u64, u64),
    swap: bool,
    problems: &mut Vec<Skipped>,
    f: OnRecord<'_>,
) {
    let mut unpacked = Unpacked::default();
    let mut buffer = vec![0u8; PIECE];
    let (mut at, mut kept) = (start, 0usize);
    while at.saturating_add(kept as u64) < end {
        let from = at + kept as u64;
        let room = usize::try_from(end - from).unwrap_or(PIECE).min(PIECE - kept);
        let n = match fill(input, from, &mut buffer[kept..kept + room]) {
            Ok(n) => n,
            Err(e) => {
                problems.push(Skipped { offset: from, message: format!("cannot be read: {e}") });
                break;
            }
        };
        if n == 0 {
            break;
        }
        let have = kept + n;
        let used = pieces(&buffer[..have], swap, at, problems, &mut |record, problems| {
            if matches!(record.kind, kind::COMPRESSED | kind::COMPRESSED2) {
                unpacked.push(&record, swap, problems, f);
            } else {
                f(record, problems);
            }
        });
        let Some(used) = used else { return unpacked.finish(swap, at, problems, f) };
        at += used;
        // What is left is the beginning of a record.
        let used = usize::try_from(used).unwrap_or(usize::MAX).min(have);
        buffer.copy_within(used..have, 0);
        kept = have - used;
    }
    unpacked.finish(swap, at, problems, f);
    if at < end && kept > 0 {
        problems.push(Skipped { offset: at, message: "the last record is cut off".into() });
    }
}

/// Calls `f` for the whole records of a piece. Returns the bytes used, more than there are when trailing data of the
/// last record goes on behind the piece; `None` when something cannot be a record.
fn pieces(data: &[u8], swap: bool, base: u64, problems: &mut Vec<Skipped>, f: OnRecord<'_>) -> Option<u64> {
    let mut at = 0usize;
    while let Some(header) = data.get(at..).and_then(|d| d.get(..8)) {
        let mut b = Bytes::new(header, swap);
        let (Some(kind), Some(misc), Some(size)) = (b.u32(), b.u16(), b.u16()) else { break };
        let size = usize::from(size);
        let offset = base + at as u64;
        if size < 8 {
            let message = format!("a record of {size} bytes; the rest is unreadable");
            problems.push(Skipped { offset, message });
            return None;
        }
        let Some(payload) = data.get(at + 8..at + size) else { break };
        let extra = match kind {
            kind::AUXTRACE | kind::TRACING_DATA => trailing(kind, payload, swap),
            _ => 0,
        };
        f(Record { kind, misc, payload, offset }, problems);
        at += size;
        if extra > 0 {
            match usize::try_from(extra).ok().and_then(|e| at.checked_add(e)) {
                Some(next) if next <= data.len() => at = next,
                _ => return Some((at as u64).saturating_add(extra)),
            }
        }
    }
    Some(at as u64)
}

/// Bytes that follow the record itself.
fn trailing(kind: u32, payload: &[u8], swap: bool) -> u64 {
    let mut b = Bytes::new(payload, swap);
    let size = match kind {
        kind::AUXTRACE => b.u64(),
        _ => b.u32().map(|n| u64::from(n).div_ceil(8) * 8),
    };
    // A size that no file has would only make the walk's position wrap.
    size.unwrap_or(0).min(1 << 48)
}

/// The unpacked stream: records in it may be cut by the ends of compressed records.
#[derive(Default)]
struct Unpacked {
    unpacker: Unpacker,
    pending: Vec<u8>,
    /// Bytes of trailing data still to be passed over.
    skip: u64,
    dead: bool,
}

impl Unpacked {
    fn push(&mut self, record: &Record<'_>, swap: bool, problems: &mut Vec<Skipped>, f: OnRecord<'_>) {
        if self.dead {
            return;
        }
        let packed = match record.kind {
            // The size in front leaves the padding out.
            kind::COMPRESSED2 => {
                let size = Bytes::new(record.payload, swap).u64().and_then(|n| usize::try_from(n).ok());
                let body = record.payload.get(8..).unwrap_or_default();
                &body[..size.unwrap_or(0).min(body.len())]
            }
            _ => record.payload,
        };
        let (mut unpacker, offset) = (std::mem::take(&mut self.unpacker), record.offset);
        let result = unpacker.push(packed, &mut |bytes| self.records(bytes, swap, offset, problems, f));
        self.unpacker = unpacker;
        if let Err(message) = result {
            self.dead = true;
            problems.push(Skipped { offset, message: format!("compressed record: {message}") });
        }
    }

    /// Whole records of what was unpacked up to now. False when nothing more is wanted.
    fn records(
        &mut self,
        bytes: &[u8],
        swap: bool,
        offset: u64,
        problems: &mut Vec<Skipped>,
        f: OnRecord<'_>,
    ) -> bool {
        let passed = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
        self.skip -= passed as u64;
        self.pending.extend_from_slice(&bytes[passed..]);
        // Compressed records inside of compressed ones do not occur: they are passed over.
        let Some(used) = pieces(&self.pending, swap, offset, problems, f) else {
            self.dead = true;
            return false;
        };
        let inside = usize::try_from(used).unwrap_or(usize::MAX).min(self.pending.len());
        self.skip += used - inside as u64;
        self.pending.drain(..inside);
        true
    }

    fn finish(&mut self, swap: bool, offset: u64, problems: &mut Vec<Skipped>, f: OnRecord<'_>) {
        if !self.dead {
            let mut unpacker = std::mem::take(&mut self.unpacker);
            let result = unpacker.finish(&mut |bytes| self.records(bytes, swap, offset, problems, f));
            if let Err(message) = result {
                problems.push(Skipped { offset, message: format!("compressed record: {message}") });
            }
        }
        if !self.pending.is_empty() && !self.dead {
            let message = format!("{} bytes of a compressed record have no end", self.pending.len());
            problems.push(Skipped { offset, message });
        }
    }
}
