//! What the program tells by `tussle.h`: regions that matter, types of allocations, operations.

use crate::arch::{alias, stub};
use crate::arena::recording;
use crate::thread::enter;
use crate::{asleep, heap, loaded};
use tussle_rt_core::{counting, heap as core_heap, marks};

/// Owner of the note that `tussle.h` leaves where a region is marked.
const OWNER: &[u8] = b"marks.tussle\0";
/// Its type.
const REGIONS: u32 = 1;

/// A recording begins: if the program or a library of it marks regions, only what happens in them is counted.
///
/// # Safety
/// Called once, before `main`, with one thread.
pub unsafe fn begin() {
    // SAFETY: segments of notes are mapped.
    let marks = |(from, bytes)| unsafe { has_note(from, bytes) };
    let marked = loaded::first(|o| o.notes().any(marks).then_some(())).is_some();
    counting::begin(marked, asleep::count);
}

/// Whether the note is among these.
///
/// # Safety
/// `[from, from + bytes)` can be read.
unsafe fn has_note(from: u64, bytes: u64) -> bool {
    const HEAD: u64 = 12;
    let up = |n: u32| (n as u64 + 3) & !3;
    let mut at = 0u64;
    // SAFETY: all is read below `bytes`.
    unsafe {
        while at + HEAD <= bytes {
            let [owner, content, kind] = ((from + at) as *const [u32; 3]).read_unaligned();
            let next = at + HEAD + up(owner) + up(content);
            if next > bytes {
                return false;
            }
            let name = (from + at + HEAD) as *const u8;
            let same = |k: usize| *name.add(k) == *OWNER.get_unchecked(k);
            if kind == REGIONS && owner as usize == OWNER.len() && (0..OWNER.len()).all(same) {
                return true;
            }
            at = next;
        }
    }
    false
}

alias! {
    "tussle_mark_region_begin" => "tussle_region_begins";
    "tussle_mark_region_end" => "tussle_region_ends";
    "tussle_mark_operation_begin" => "tussle_operation_begins";
    "tussle_mark_operation_end" => "tussle_operation_ends";
    "tussle_mark_part_end" => "tussle_part_ends";
}
stub! {
    "tussle_mark_type" => "tussle_typed", "rcx";
}

/// # Safety
/// Behind an exported name: `name` is null or zero-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_region_begins(name: *const u8) {
    if recording()
        && let Some(t) = enter()
    {
        // SAFETY: the caller's promise.
        unsafe { marks::region_begins(&t, name) };
        counting::region_begins(&t, asleep::count);
    }
}

/// # Safety
/// Behind an exported name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_region_ends(_name: *const u8) {
    if recording()
        && let Some(t) = enter()
    {
        counting::region_ends(&t, asleep::count);
    }
}

/// # Safety
/// Behind an exported name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_operation_begins(_name: *const u8) {
    if recording()
        && let Some(t) = enter()
    {
        marks::operation_begins(&t);
    }
}

/// # Safety
/// Behind an exported name: `name` is null or zero-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_operation_ends(name: *const u8) {
    if recording()
        && let Some(t) = enter()
    {
        // SAFETY: the caller's promise.
        unsafe { marks::operation_ends(&t, name) };
    }
}

/// # Safety
/// Behind an exported name: `name` is null or zero-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_typed(at: u64, bytes: u64, name: *const u8, pc: u64) {
    if at != 0
        && recording()
        && let Some(t) = enter()
    {
        // SAFETY: the caller's promise.
        let mark = unsafe { marks::mark(&t, name) };
        if mark != 0 {
            core_heap::typed(&t, at, bytes, mark, pc);
        }
    }
}

/// # Safety
/// Behind an exported name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_part_ends(at: u64) {
    if at != 0 {
        heap::dead(at | crate::wire::PART);
    }
}
