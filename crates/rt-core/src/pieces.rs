// Earlier runs of a record as bytes, shared by the runtime (no_std) and the reader by `include!`.
//
//   start − end of the run before (zigzag) · length · which of 24 counts are not 0 (bits) · those counts
//
// all as variable-length integers, low bits first: 10 to 20 bytes for most runs, where a structure has 112.

/// Bytes of a run at most.
pub const PIECE_BYTES_MAX: usize = 10 + 10 + 4 + 24 * 5;

/// A stretch of virtual time in which a thread used a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Begin and end, virtual time.
    pub vt0: u64,
    pub vt1: u64,
    /// Reads of eight words, writes, read-modify-writes.
    pub counts: [u32; 24],
}

/// Hands the run's bytes to `out`. `before` is the end of the run before it, 0 for the first.
#[inline(always)]
pub fn put_piece(p: &Piece, before: u64, mut out: impl FnMut(u8)) {
    let from = p.vt0.wrapping_sub(before) as i64;
    let mut which = 0u64;
    for (k, n) in p.counts.iter().enumerate() {
        which |= ((*n != 0) as u64) << k;
    }
    put_number(((from << 1) ^ (from >> 63)) as u64, &mut out);
    put_number(p.vt1.wrapping_sub(p.vt0), &mut out);
    put_number(which, &mut out);
    for n in &p.counts {
        if *n != 0 {
            put_number(*n as u64, &mut out);
        }
    }
}

#[inline(always)]
fn put_number(mut n: u64, out: &mut impl FnMut(u8)) {
    while n >= 0x80 {
        out(n as u8 | 0x80);
        n >>= 7;
    }
    out(n as u8);
}

/// Reads a run back; `None` where the bytes end or are none of a run.
#[inline(always)]
pub fn take_piece(before: u64, mut byte: impl FnMut() -> Option<u8>) -> Option<Piece> {
    let from = take_number(&mut byte)?;
    let from = (from >> 1) as i64 ^ -((from & 1) as i64);
    let vt0 = before.wrapping_add(from as u64);
    let mut p = Piece { vt0, vt1: vt0.wrapping_add(take_number(&mut byte)?), counts: [0; 24] };
    let which = take_number(&mut byte)?;
    for (k, n) in p.counts.iter_mut().enumerate() {
        if which >> k & 1 != 0 {
            *n = take_number(&mut byte)? as u32;
        }
    }
    Some(p)
}

/// Reads a number; `None` where the bytes end or are none of a number.
#[inline(always)]
pub fn take_number(byte: &mut impl FnMut() -> Option<u8>) -> Option<u64> {
    let mut n = 0;
    let mut shift = 0;
    while shift < 64 {
        let b = byte()?;
        n |= ((b & 0x7f) as u64) << shift;
        if b < 0x80 {
            return Some(n);
        }
        shift += 7;
    }
    None
}
