//! Runs of a record, read where they lie in the file.

use crate::pieces::{PIECE_BYTES_MAX, Piece, take_counts, take_piece};
use crate::raw::RawFile;
use crate::wire::*;
use std::slice::Iter;

/// Earlier runs of one record that are read at most: the runtime keeps fewer.
const PIECES_MAX: usize = 2100;
/// The first of a run's 24 counts that are of stores; before it are reads.
const STORES: usize = 8;

/// A run without its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    pub vt0: u64,
    pub vt1: u64,
    /// Accesses of all kinds.
    pub accesses: u64,
    /// Whether one of them was a store or a read-modify-write.
    pub stores: bool,
}

impl Outline {
    /// Of a run whose words are known.
    pub fn of(p: &Piece) -> Outline {
        let accesses = p.counts.iter().map(|&n| u64::from(n)).sum();
        Outline { vt0: p.vt0, vt1: p.vt1, accesses, stores: p.counts[STORES..].iter().any(|&n| n > 0) }
    }

    /// There was an access, at a time that can be.
    pub fn happened(&self) -> bool {
        self.accesses > 0 && RawFile::is_time(self.vt0) && RawFile::is_time(self.vt1)
    }
}

impl RawFile<'_> {
    /// Calls `each` with the runs of a record, earlier ones first; the current one may have counted nothing.
    pub(crate) fn runs(&self, r: &Record, mut each: impl FnMut(Piece)) {
        let mut bytes = Bytes::new(self, r.more);
        let mut end = 0;
        while let Some(p) = take_piece(end, || bytes.next()) {
            end = p.vt1;
            each(p);
        }
        self.current(r).into_iter().for_each(each);
    }

    /// The same without words, which takes half as long.
    pub(crate) fn outlines(&self, r: &Record, mut each: impl FnMut(Outline)) {
        let mut bytes = Bytes::new(self, r.more);
        let mut end = 0;
        loop {
            let (mut accesses, mut stores) = (0, false);
            let count = |k: usize, n: u32| {
                accesses += u64::from(n);
                stores |= k >= STORES && n > 0;
            };
            let Some((vt0, vt1)) = take_counts(end, || bytes.next(), count) else { break };
            end = vt1;
            each(Outline { vt0, vt1, accesses, stores });
        }
        self.current(r).iter().for_each(|p| each(Outline::of(p)));
    }

    /// The run that was not closed.
    fn current(&self, r: &Record) -> Option<Piece> {
        if r.vt0 == u64::MAX {
            return None;
        }
        let (words, rmw) = self.get::<More>(r.more, 0).map_or((0, 0), |m| (m.words, m.rmw));
        let mut p = Piece { vt0: r.vt0, vt1: r.vt0.saturating_add(u64::from(r.span)), counts: [0; 24] };
        let words = self.get::<[u32; 16]>(words, 0).unwrap_or_default();
        for k in 0..16 {
            p.counts[k] = words[k].saturating_add(u32::from(r.small[k]));
        }
        p.counts[16..].copy_from_slice(&self.get::<[u32; 8]>(rmw, 0).unwrap_or_default());
        Some(p)
    }
}

/// Bytes of a record's earlier runs, one block after the other.
struct Bytes<'f, 'a> {
    file: &'f RawFile<'a>,
    here: Iter<'f, u8>,
    /// The block after this one, and how many bytes it and those behind it may have.
    next: u32,
    left: usize,
}

impl<'f, 'a> Bytes<'f, 'a> {
    /// Of the record whose second part that is; none if it has no second part.
    fn new(file: &'f RawFile<'a>, more: u32) -> Bytes<'f, 'a> {
        let mut out = Bytes { file, here: [].iter(), next: 0, left: 0 };
        if let Some(m) = file.get::<More>(more, 0) {
            out.left = (m.bytes as usize).min(PIECES_MAX * PIECE_BYTES_MAX);
            out.next = m.next;
            out.take(more, std::mem::offset_of!(More, first), PIECE_BYTES_FIRST);
        }
        out
    }

    #[inline(always)]
    fn next(&mut self) -> Option<u8> {
        match self.here.next() {
            Some(b) => Some(*b),
            None => self.follow(),
        }
    }

    #[cold]
    fn follow(&mut self) -> Option<u8> {
        if self.left == 0 || self.next == 0 {
            return None;
        }
        let block = self.next;
        self.next = self.file.get::<u32>(block, 0)?;
        self.take(block, std::mem::offset_of!(PieceBlock, bytes), PIECE_BYTES);
        self.here.next().copied()
    }

    /// Goes on in the block at `reference`, whose bytes begin at `offset`.
    fn take(&mut self, reference: u32, offset: usize, room: usize) {
        let n = self.left.min(room);
        self.left -= n;
        self.here = self.file.slice(reference, offset, n).iter();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one record of runs in a second part and blocks, and these runs.
    fn file(pieces: &[Piece]) -> (Vec<u8>, Record) {
        let (mut bytes, mut end) = (Vec::new(), 0);
        for p in pieces {
            crate::pieces::put_piece(p, end, |b| bytes.push(b));
            end = p.vt1;
        }
        let unit = UNIT as usize;
        let mut out = vec![0u8; 2 * unit];
        out[unit + std::mem::offset_of!(More, bytes)..][..4]
            .copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        let (first, rest) = bytes.split_at(bytes.len().min(PIECE_BYTES_FIRST));
        out[unit + std::mem::offset_of!(More, first)..][..first.len()].copy_from_slice(first);
        let mut link = unit + std::mem::offset_of!(More, next);
        for block in rest.chunks(PIECE_BYTES) {
            let at = out.len();
            out[link..link + 4].copy_from_slice(&((at / unit) as u32).to_le_bytes());
            out.resize(at + unit, 0);
            out[at + std::mem::offset_of!(PieceBlock, bytes)..][..block.len()].copy_from_slice(block);
            link = at;
        }
        // SAFETY: plain numbers, for which zeros are values.
        let record = Record { vt0: u64::MAX, more: 1, ..unsafe { std::mem::zeroed() } };
        (out, record)
    }

    #[test]
    fn runs_and_outlines_say_the_same() {
        let piece = |k: u64| Piece {
            vt0: k * 1000,
            vt1: k * 1000 + 7 * (k % 50),
            counts: std::array::from_fn(|i| if (k + i as u64) % 5 == 0 { (k * 31 % 700) as u32 } else { 0 }),
        };
        for n in [0u64, 1, 2, 3, 40, 400] {
            let written: Vec<Piece> = (0..n).map(piece).collect();
            let (bytes, record) = file(&written);
            let raw = RawFile::for_tests(&bytes);
            let (mut runs, mut outlines) = (Vec::new(), Vec::new());
            raw.runs(&record, |p| runs.push(p));
            raw.outlines(&record, |o| outlines.push(o));
            assert_eq!(runs, written);
            assert_eq!(outlines, written.iter().map(Outline::of).collect::<Vec<_>>());
            // Cut off anywhere: what is left, and no more.
            let cut = RawFile::for_tests(&bytes[..bytes.len() / 2]);
            let mut left = 0;
            cut.outlines(&record, |_| left += 1);
            assert!(left <= written.len());
        }
    }
}
