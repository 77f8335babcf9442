//! Runs: stretches of virtual time in which a thread used a line. A record has the current one, earlier ones are its
//! pieces.

use crate::arena::{at, fullness, header, lost, reference};
use crate::wire::*;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Gap in virtual time that never separates two runs of one epoch.
const GAP: u64 = WINDOW_VT / 4;
/// Pieces per thread and line while memory is plentiful, and when it is not.
const PIECES_MANY: u16 = 2048;
const PIECES_FEW: u16 = 32;
/// Makes `[from, to)` part of the record's run, closing the run first if the two differ.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
#[inline(always)]
pub unsafe fn run(t: *mut Live, r: *mut Record, from: u64, to: u64) {
    // SAFETY: the thread's own structures, which only it writes; references are its own file's.
    unsafe {
        if (*r).epoch == (*t).epoch && from < (*r).vt1 + GAP && (*r).vt1.wrapping_sub((*r).vt0) < 1 << 31 {
            if from < (*r).vt0 {
                (*r).vt0 = from;
            }
            (*r).vt1 = to;
        } else {
            far(t, r, from, to);
        }
    }
}

/// The cases of [`run`] that are not adjacent.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
#[cold]
unsafe fn far(t: *mut Live, r: *mut Record, from: u64, to: u64) {
    // SAFETY: the thread's own structures, which only it writes; references are its own file's.
    unsafe {
        if (*r).vt0 == u64::MAX {
            (*r).vt0 = from;
        } else {
            let gap = from.saturating_sub((*r).vt1).min(u32::MAX as u64) as u32;
            let same = (*r).epoch == (*t).epoch;
            let periodic = same && (*r).gap != 0 && gap / 2 <= (*r).gap && (*r).gap / 2 <= gap;
            (*r).gap = if same { gap } else { 0 };
            // Without room for a piece the run absorbs the gap.
            if !periodic && close(t, r) {
                (*r).vt0 = from;
            }
        }
        (*r).vt1 = to;
        (*r).epoch = (*t).epoch;
    }
}

/// Turns the current run into a piece.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder; `r` is a record of its own.
unsafe fn close(t: *mut Live, r: *mut Record) -> bool {
    // SAFETY: the thread's own structures, which only it writes; references are its own file's.
    unsafe {
        let h = header();
        let plenty = fullness() < 64;
        if (*r).pieces_count >= if plenty { PIECES_MANY } else { PIECES_FEW } {
            thin(r);
        }
        let p = crate::mem::take(t, size_of::<Piece>() as u64);
        if p == 0 {
            lost(LOST_PIECES, 1);
            return false;
        }
        AtomicU64::from_ptr(&raw mut (*h).piece_bytes).fetch_add(size_of::<Piece>() as u64, Relaxed);
        let p = p as *mut Piece;
        (*p).vt0 = (*r).vt0;
        (*p).vt1 = (*r).vt1;
        (*p).epoch = (*r).epoch as u64;
        for k in 0..16 {
            (*p).words[k] = (*r).words[k];
            (*r).words[k] = 0;
        }
        if (*r).rmw != 0 {
            let m = at::<u32>((*r).rmw);
            for w in 0..8 {
                (*p).rmw[w] = *m.add(w);
                *m.add(w) = 0;
            }
        }
        (*p).next = (*r).pieces;
        (*r).pieces = reference(p as u64);
        (*r).pieces_count += 1;
        true
    }
}

/// Halves the pieces of a line: two pieces in one group of cells become the older one with the counts of both, so that
/// phases that alternate still alternate and those that coincide still coincide. The groups follow from the clock
/// alone, so that all threads thin alike.
///
/// # Safety
/// `r` is a record of the calling thread, which is inside the recorder.
#[cold]
unsafe fn thin(r: *mut Record) {
    // SAFETY: the thread's own structures, which only it writes; references are its own file's.
    unsafe {
        let mut shift = 17;
        let before = (*r).pieces_count;
        while (*r).pieces_count > before / 2 && shift < 60 {
            let mut link = &raw mut (*r).pieces;
            while *link != 0 {
                let newer = at::<Piece>(*link);
                let older = (*newer).next;
                if older != 0 && (*newer).vt0 >> shift == (*at::<Piece>(older)).vt0 >> shift {
                    fold(newer, at::<Piece>(older));
                    *link = older;
                    (*r).pieces_count -= 1;
                } else {
                    link = &raw mut (*newer).next;
                }
            }
            shift += 1;
        }
        lost(LOST_PIECES, (before - (*r).pieces_count) as u64);
    }
}

/// Adds the counts of `from` to `to`.
///
/// # Safety
/// Both are pieces of one line of the calling thread.
unsafe fn fold(from: *mut Piece, to: *mut Piece) {
    // SAFETY: the caller's promise.
    unsafe {
        for k in 0..16 {
            (*to).words[k] = (*to).words[k].saturating_add((*from).words[k]);
        }
        for k in 0..8 {
            (*to).rmw[k] = (*to).rmw[k].saturating_add((*from).rmw[k]);
        }
    }
}
