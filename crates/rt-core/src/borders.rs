//! Where the life of an object begins or ends, so do the runs of its lines.

use crate::arena::at;
use crate::record::{empty, index, sweep};
use crate::wire::*;

/// Empties entries of `[addr, addr + len)`, so that the life of an object ends what was counted for it.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
pub unsafe fn sweep_range(t: *mut Live, addr: u64, len: u64) {
    // SAFETY: `index` is below ENTRIES, and an entry with that key is in use.
    unsafe {
        if len > 64 * LINE {
            return sweep(t);
        }
        let mut line = addr & !(LINE - 1);
        while line < addr + len {
            let i = index(line);
            let e = (&raw mut (*t).entries[0]).add(i);
            if (*e).key & !HIDDEN == line {
                empty(t, e, i);
            }
            line += LINE;
        }
    }
}

/// Bytes of a range whose lines are looked at one by one.
const PARTED_MAX: u64 = 1 << 28;

/// `[addr, addr + len)` changes hands: what comes belongs to no run of what was.
///
/// # Safety
/// `t` is the calling thread's, which is inside the recorder.
#[cold]
pub unsafe fn part(t: *mut Live, addr: u64, len: u64) {
    // SAFETY: a leaf has 64 references, one per line of its page; records are this thread's own.
    unsafe {
        sweep_range(t, addr, len);
        if len > PARTED_MAX {
            (*t).epoch = (*t).epoch.wrapping_add(1);
            return;
        }
        let (mut line, end) = (addr & !(LINE - 1), addr.saturating_add(len));
        while line < end {
            let leaf = crate::mem::known_leaf(t, line >> 12);
            if leaf == 0 {
                line = (line | 4095).saturating_add(1);
                continue;
            }
            let slot = *(leaf as *mut u32).add((line >> 6 & 63) as usize);
            if slot != 0 {
                (*at::<Record>(slot)).epoch = (*t).epoch.wrapping_sub(1);
            }
            line = line.saturating_add(LINE);
        }
    }
}
