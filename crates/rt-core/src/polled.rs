//! What atomic operations on words tell the modules that know words (`waits`, `guards`, `latches`, `standing`), whoever
//! sees the operations: exported names inside of programs, or an emulator. `enter` enters the recorder, which most
//! operations do without.

use crate::takes;
use crate::thread::Entered;
use crate::waits::{self, How};
use crate::wire::Live;
use crate::{guards, latches, standing};

/// The calling thread saw `value`.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn looked(t: *mut Live, enter: impl FnOnce() -> Option<Entered>, addr: u64, value: u64) {
    // SAFETY: the caller's promise.
    let (news, begins, counts) = unsafe {
        (waits::look(t, addr, value), guards::may_begin(t, addr, value), latches::looks_first(t, addr, value))
    };
    if (news || begins || counts)
        && let Some(t) = enter()
    {
        if counts {
            latches::first(&t, addr, value);
        }
        if begins {
            guards::seen(&t, addr, value);
        }
        if news {
            waits::seen(&t, addr);
        }
    }
}

/// It tried in vain to bring the word from `wanted` to something else: it is `value`.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn in_vain(t: *mut Live, enter: impl Fn() -> Option<Entered>, addr: u64, wanted: u64, value: u64) {
    if wanted != value
        && waits::watched(addr)
        && let Some(t) = enter()
    {
        waits::in_vain(&t, addr, wanted)
    }
    // SAFETY: the caller's promise.
    unsafe { looked(t, enter, addr, value) }
}

/// It is about to store `to`.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn storing(t: *mut Live, addr: u64, to: u64) {
    // SAFETY: the caller's promise.
    unsafe { takes::taken_or_given(t, addr, None, to) }
}

/// It has stored to the word.
#[inline(always)]
pub fn stored(enter: impl FnOnce() -> Option<Entered>, addr: u64) {
    if waits::watched(addr)
        && let Some(t) = enter()
    {
        standing::let_go(&t, addr)
    }
}

/// A change of this word is to be told by [`changing`].
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn may_matter(t: *mut Live, addr: u64) -> bool {
    // SAFETY: the caller's promise.
    waits::watched(addr) || unsafe { guards::may_give(t, addr) || waits::may_tell(t, addr) }
}

/// It is about to change the word, if it is: from what, where one instruction does both, to what.
#[inline(always)]
pub fn changing(
    enter: impl FnOnce() -> Option<Entered>,
    addr: u64,
    (from, to): (Option<u64>, u64),
    how: How,
) {
    if from != Some(to)
        && let Some(t) = enter()
    {
        let gives = guards::changing(&t, addr, from.is_some(), to);
        if waits::watched(addr) {
            waits::changing(&t, addr, from, to)
        } else if !gives {
            waits::tell(&t, addr, (from, to), how)
        }
    }
}

/// One instruction found one value in so many bytes and left the other.
///
/// # Safety
/// `t` is the calling thread's.
#[inline(always)]
pub unsafe fn exchanged(
    t: *mut Live,
    enter: impl Fn() -> Option<Entered>,
    addr: u64,
    bytes: u64,
    (from, to): (u64, u64),
    how: How,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match from == to {
            // Who adds 0 works on; who looks whether something has changed would read.
            true if how == How::Counts => return,
            true => return looked(t, enter, addr, from),
            false => {}
        }
        takes::taken_or_given(t, addr, Some((from, how)), to);
        latches::counted(t, addr, from, to);
        if waits::watched(addr)
            && let Some(t) = enter()
        {
            waits::changed(&t, addr, (from, to), how);
        }
        if guards::stepping(t, addr, bytes, (from, to), how)
            && let Some(t) = enter()
        {
            guards::stepped(&t);
        }
    }
}
