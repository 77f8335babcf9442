//! An access that the table already knows, for callers that have no hooks in assembly: an emulator's callbacks.

use crate::record::{bytes, index};
use crate::wire::*;

/// Counts an access of a line and bytes that the thread's table holds. False if it does not, or if anything else is
/// unusual: nothing has been done then, and [`crate::record::note`] is to be told.
///
/// # Safety
/// `t` is the calling thread's state, or one of zeroes.
#[inline(always)]
pub unsafe fn counted(t: *mut Live, addr: u64, n: u64, kind: u32) -> bool {
    let off = addr & (LINE - 1);
    let line = addr - off;
    if kind > WRITE || n > 8 || off + n > LINE || line == 0 {
        return false;
    }
    // SAFETY: the entry is the calling thread's; indices are masked.
    unsafe {
        let e = (&raw mut (*t).entries[0]).add(index(line));
        let seen = if kind == READ { (*e).rmask } else { (*e).wmask };
        let counter = (&raw mut (*e).cnt[0]).add((off / 8) as usize + 8 * kind as usize);
        if (*e).key != line || bytes(off, n) & !seen != 0 || *counter >= 0x7fff {
            return false;
        }
        *counter += 1;
        true
    }
}
