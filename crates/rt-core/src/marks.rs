//! What the program tells by `tussle.h`: names of types, operations, regions.

use crate::arena::{alloc, at, header, reference, text_of};
use crate::counting::counting;
use crate::thread::{Entered, now};
use crate::wire::*;
use crate::{lockfree, sections};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Names of one program; further ones are not known by name.
const NAMES_MAX: u32 = 4096;
/// Bytes of a name that count.
const NAME_BYTES_MAX: usize = 255;
/// Bytes of a [`Text`] before its text.
const TEXT_HEAD: u64 = 16;

const CACHE: usize = 64;
/// References of marks, by the address of the name: what the name is, is looked at again.
static CACHED: [AtomicU32; CACHE] = [const { AtomicU32::new(0) }; CACHE];

/// In a forked child, whose file has no marks yet.
pub fn reset_after_fork() {
    for c in &CACHED {
        c.store(0, Relaxed);
    }
}

/// The mark of a name; 0 without one, without memory, or where there are too many.
///
/// # Safety
/// `name` is null or zero-terminated.
pub unsafe fn mark(_: &Entered, name: *const u8) -> u32 {
    // SAFETY: marks stay in the mapping, and what identifies them is written before they are in the list.
    unsafe {
        if name.is_null() || *name == 0 {
            return 0;
        }
        let cached = &CACHED[(name as usize >> 2 ^ name as usize >> 8) % CACHE];
        let known = cached.load(Relaxed);
        if known != 0 && is(known, name) {
            return known;
        }
        let h = header();
        let head = AtomicU32::from_ptr(&raw mut (*h).marks);
        let mut r = head.load(Acquire);
        while r != 0 && !is(r, name) {
            r = (*at::<NameTold>(r)).next;
        }
        if r == 0 {
            r = add(h, head, name);
        }
        cached.store(r, Relaxed);
        r
    }
}

/// # Safety
/// As [`mark`]; `h` is the header, `head` its list of marks.
unsafe fn add(h: *mut Header, head: &AtomicU32, name: *const u8) -> u32 {
    // SAFETY: the mark is new and ours until it is in the list. Two threads may add the same name: readers add up.
    unsafe {
        if AtomicU32::from_ptr(&raw mut (*h).marks_count).fetch_add(1, Relaxed) >= NAMES_MAX {
            return 0;
        }
        let (text, m) = (text_of(name, NAME_BYTES_MAX), alloc(size_of::<NameTold>() as u64) as *mut NameTold);
        if m.is_null() || text == 0 {
            return 0;
        }
        (*m).name = text;
        let r = reference(m as u64);
        lockfree::prepend(head, r, AtomicU32::from_ptr(&raw mut (*m).next));
        r
    }
}

/// Whether that is the name of a mark.
///
/// # Safety
/// `name` is zero-terminated; `r` is a mark's reference.
unsafe fn is(r: u32, name: *const u8) -> bool {
    // SAFETY: the text has as many bytes as it says; the name is read up to its end only.
    unsafe {
        let text = at::<Text>((*at::<NameTold>(r)).name);
        let from = (text as u64 + TEXT_HEAD) as *const u8;
        let len = (*text).len as usize;
        for k in 0..len {
            if *name.add(k) != *from.add(k) {
                return false;
            }
        }
        len == NAME_BYTES_MAX || *name.add(len) == 0
    }
}

/// An operation begins: a sample of them is traced whole.
pub fn operation_begins(entered: &Entered) {
    // SAFETY: the state is the calling thread's.
    unsafe {
        let t = entered.live();
        (*t).tells_operations = 1;
        sections::close(t);
        if counting() && now(t) >= (*t).window_vt {
            sections::begin_window(t);
        }
    }
}

/// An operation of that name ends.
///
/// # Safety
/// `name` is null or zero-terminated.
pub unsafe fn operation_ends(entered: &Entered, name: *const u8) {
    // SAFETY: the state is the calling thread's; marks stay in the mapping.
    unsafe {
        sections::close(entered.live());
        let r = mark(entered, name);
        if r != 0 {
            AtomicU64::from_ptr(&raw mut (*at::<NameTold>(r)).count).fetch_add(1, Relaxed);
        }
    }
}

/// A region of that name begins.
///
/// # Safety
/// `name` is null or zero-terminated.
pub unsafe fn region_begins(_: &Entered, name: *const u8) {
    // SAFETY: the header is mapped; only the first region writes its name, of which the last byte stays 0.
    unsafe {
        let h = header();
        let before = AtomicU64::from_ptr(&raw mut (*h).regions_begun).fetch_add(1, Relaxed);
        if before != 0 || name.is_null() {
            return;
        }
        let to = (&raw mut (*h).region).cast::<u8>();
        let mut k = 0;
        while k < 63 && *name.add(k) != 0 {
            *to.add(k) = *name.add(k);
            k += 1;
        }
    }
}
