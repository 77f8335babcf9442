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
pub fn take_piece(before: u64, byte: impl FnMut() -> Option<u8>) -> Option<Piece> {
    let mut counts = [0; 24];
    let put = |k, n| counts.get_mut(k).into_iter().for_each(|count| *count = n);
    let (vt0, vt1) = take_counts(before, byte, put)?;
    Some(Piece { vt0, vt1, counts })
}

/// The same, but hands `each` of those counts that were written with its place; returns begin and end.
#[inline(always)]
pub fn take_counts(
    before: u64,
    mut byte: impl FnMut() -> Option<u8>,
    mut each: impl FnMut(usize, u32),
) -> Option<(u64, u64)> {
    let from = take_number(&mut byte)?;
    let from = (from >> 1) as i64 ^ -((from & 1) as i64);
    let vt0 = before.wrapping_add(from as u64);
    let vt1 = vt0.wrapping_add(take_number(&mut byte)?);
    let mut left = take_number(&mut byte)? & 0xff_ffff;
    while left != 0 {
        each(left.trailing_zeros() as usize, take_number(&mut byte)? as u32);
        left &= left - 1;
    }
    Some((vt0, vt1))
}

#[inline(always)]
fn take_number(byte: &mut impl FnMut() -> Option<u8>) -> Option<u64> {
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
