//! Runs: stretches of virtual time in which a thread used a line. A record has the current one, earlier ones are its
//! pieces.

use crate::arena::{at, fullness, header, lost, reference};
use crate::pieces::*;
use crate::stream::Stream;
use crate::wire::*;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Gap in virtual time that never separates two runs of one epoch.
const GAP: u64 = WINDOW_VT / 4;
/// Pieces per thread and line while memory is plentiful, and when it is not.
const PIECES_MANY: u32 = 2048;
const PIECES_FEW: u32 = 32;
/// A run that is longer is closed.
const SPAN_MAX: u32 = 1 << 31;

/// Makes `[from, to)` part of the record's run, closing the run first if the two differ.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
#[inline(always)]
pub unsafe fn run(t: *mut Live, r: *mut Record, from: u64, to: u64) {
    // SAFETY: the record's run is written by this thread alone; `far` decides what does not join it.
    unsafe {
        let end = (*r).vt0.wrapping_add((*r).span as u64);
        if (*r).epoch == (*t).epoch && from < end.wrapping_add(GAP) && (*r).span < SPAN_MAX {
            if from < (*r).vt0 {
                (*r).vt0 = from;
            }
            (*r).span = span((*r).vt0, to);
        } else {
            far(t, r, from, to);
        }
    }
}

#[inline(always)]
fn span(from: u64, to: u64) -> u32 {
    to.wrapping_sub(from).min(u32::MAX as u64) as u32
}

/// The cases of [`run`] that are not adjacent.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
#[cold]
unsafe fn far(t: *mut Live, r: *mut Record, from: u64, to: u64) {
    // SAFETY: `more` gives this record's second part, or null, and it stays where it is.
    unsafe {
        if (*r).vt0 == u64::MAX {
            (*r).vt0 = from;
        } else {
            let end = (*r).vt0 + (*r).span as u64;
            let gap = from.saturating_sub(end).min(u32::MAX as u64) as u32;
            let same = (*r).epoch == (*t).epoch && to.wrapping_sub((*r).vt0) < u32::MAX as u64;
            let m = more(t, r);
            // Without room for a piece the run absorbs the gap.
            if m.is_null() {
                lost(LOST_PIECES, 1);
            } else {
                let periodic = same && (*m).gap != 0 && gap / 2 <= (*m).gap && (*m).gap / 2 <= gap;
                (*m).gap = if same { gap } else { 0 };
                if !periodic && close(t, r, m) {
                    (*r).vt0 = from;
                }
            }
        }
        (*r).span = span((*r).vt0, to);
        (*r).epoch = (*t).epoch;
    }
}

/// The second part of a record, made if need be; null without memory.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
pub unsafe fn more(t: *mut Live, r: *mut Record) -> *mut More {
    // SAFETY: `take` gives zeroed room, which this record alone refers to.
    unsafe {
        if (*r).more == 0 {
            let m = crate::mem::take(t, size_of::<More>() as u64);
            if m == 0 {
                return core::ptr::null_mut();
            }
            (*r).more = reference(m);
        }
        at((*r).more)
    }
}

/// Turns the current run into a piece.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own, `m` its second part.
unsafe fn close(t: *mut Live, r: *mut Record, m: *mut More) -> bool {
    // SAFETY: `words` and `rmw` name 16 and 8 counts of this record where they are not 0.
    unsafe {
        let plenty = fullness() < 64;
        if (*m).pieces >= if plenty { PIECES_MANY } else { PIECES_FEW } {
            thin(r, m);
        }
        let mut p = Piece { vt0: (*r).vt0, vt1: (*r).vt0 + (*r).span as u64, counts: [0; 24] };
        let words = (*m).words != 0;
        for k in 0..16 {
            p.counts[k] = (*r).small[k] as u32;
            if words {
                p.counts[k] = p.counts[k].saturating_add(*at::<u32>((*m).words).add(k));
            }
        }
        if (*m).rmw != 0 {
            for k in 0..8 {
                p.counts[16 + k] = *at::<u32>((*m).rmw).add(k);
            }
        }
        let Some(bytes) = append(t, r, m, &p) else {
            lost(LOST_PIECES, 1);
            return false;
        };
        AtomicU64::from_ptr(&raw mut (*header()).piece_bytes).fetch_add(bytes, Relaxed);
        (*r).small = [0; 16];
        if words {
            at::<[u32; 16]>((*m).words).write([0; 16]);
        }
        if (*m).rmw != 0 {
            at::<[u32; 8]>((*m).rmw).write([0; 8]);
        }
        true
    }
}

/// Writes a piece behind the others: how many bytes it took, `None` without memory.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own, `m` its second part.
unsafe fn append(t: *mut Live, r: *mut Record, m: *mut More, p: &Piece) -> Option<u64> {
    // SAFETY: the stream begins at this record's own last block, and lengthens it with blocks of this thread's.
    unsafe {
        let mut s = Stream::at_end(m, (*r).last);
        let mut room = true;
        put_piece(p, (*m).vt1, |b| room = room && s.put(t, b));
        if !room {
            return None;
        }
        let before = (*m).bytes;
        (*r).last = s.block();
        (*m).bytes = s.bytes();
        (*m).vt1 = p.vt1;
        (*m).pieces += 1;
        Some((s.bytes() - before) as u64)
    }
}

/// Halves the pieces of a line: pieces in one group of cells become the oldest one with the counts of all, so that
/// phases that alternate still alternate and those that coincide still coincide. The groups follow from the clock
/// alone, so that all threads thin alike. What is written never overtakes what is read: the bytes of a piece that goes
/// are more than those by which its neighbours grow.
///
/// # Safety
/// `r` is a record of the calling thread, which is inside the recorder, `m` its second part.
#[cold]
unsafe fn thin(r: *mut Record, m: *mut More) {
    // SAFETY: both streams walk this record's blocks; what is written stays behind what is read, as said above.
    unsafe {
        let before = (*m).pieces;
        let shift = shift_for(m, before / 2);
        let (mut from, mut to) = (Stream::at_start(m), Stream::at_start(m));
        let (mut read, mut written, mut left) = (0, 0, 0);
        let mut group: Option<Piece> = None;
        for _ in 0..before {
            let Some(p) = take_piece(read, || from.get()) else { break };
            read = p.vt1;
            match &mut group {
                Some(g) if g.vt0 >> shift == p.vt0 >> shift => fold(&p, g),
                _ => {
                    if let Some(g) = group.replace(p) {
                        put_piece(&g, written, |b| to.put_over(b));
                        (written, left) = (g.vt1, left + 1);
                    }
                }
            }
        }
        if let Some(g) = group {
            put_piece(&g, written, |b| to.put_over(b));
            (written, left) = (g.vt1, left + 1);
        }
        ((*r).last, (*m).bytes, (*m).vt1, (*m).pieces) = (to.block(), to.bytes(), written, left);
        lost(LOST_PIECES, (before - left) as u64);
    }
}

/// Virtual time, as a power of two, in which at most one piece is to be left so that there are `pieces_max`.
///
/// # Safety
/// As [`thin`].
unsafe fn shift_for(m: *mut More, pieces_max: u32) -> u32 {
    const SHIFT_MIN: u32 = 17;
    const SHIFT_MAX: u32 = 59;
    // Neighbours by the highest bit in which their starts differ: a group ends there if it is no longer than that.
    let mut borders = [0u16; 64];
    // SAFETY: the caller's promise.
    unsafe {
        let mut s = Stream::at_start(m);
        let (mut end, mut last) = (0, None);
        for _ in 0..(*m).pieces {
            let Some(p) = take_piece(end, || s.get()) else { break };
            if let Some(last) = last {
                let bits: u64 = p.vt0 ^ last;
                borders[(64 - bits.leading_zeros()) as usize & 63] += 1;
            }
            (end, last) = (p.vt1, Some(p.vt0));
        }
    }
    let mut groups = 1;
    let mut shift = 63;
    // From the top: a smaller shift adds the borders of its own bit.
    while shift > SHIFT_MIN {
        groups += borders[shift as usize & 63] as u32;
        if shift <= SHIFT_MAX && groups > pieces_max {
            break;
        }
        shift -= 1;
    }
    shift
}

/// Adds the counts of `from` to `to`.
fn fold(from: &Piece, to: &mut Piece) {
    for (t, f) in to.counts.iter_mut().zip(&from.counts) {
        *t = t.saturating_add(*f);
    }
}
