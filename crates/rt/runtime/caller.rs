//! Which of the program's code asked for memory.

use crate::arch::{current, operators};
use crate::libc_calls::next;
use crate::loaded;
use crate::wire::*;
use core::ffi::{c_int, c_void};
use tussle_rt_core::callers::{Asker, Call, Known, asker};
use tussle_rt_core::unwind;

next! {
    FIND_OBJECT = "_dl_find_object";
}

/// C++'s allocation functions in the order of [`operators`], as positions in [`ALLOCATORS`].
const POSITIONS: [u16; 8] = [9, 10, 11, 12, 13, 14, 16, 16];

/// Looks up what must not be looked up inside malloc.
///
/// # Safety
/// Called once, where looking up is allowed.
pub unsafe fn resolve() {
    FIND_OBJECT.find();
}

/// The instrumented code behind a call of an allocation function. The shadow stack may hold frames that a longjmp or an
/// exception left: they lie below the stack pointer.
///
/// # Safety
/// `call` is of the calling thread.
pub unsafe fn of(call: Call) -> Asker {
    // SAFETY: the shadow stack is the calling thread's; its indices are masked.
    unsafe {
        let t = current();
        let mut depth = (*t).depth as usize / size_of::<Frame>();
        let frame = loop {
            if depth <= 1 {
                break u64::MAX;
            }
            let sp = (*(&raw const (*t).frames[0]).add(depth & (FRAMES - 1))).sp;
            if sp >= call.sp {
                break sp;
            }
            depth -= 1;
        };
        asker(call, frame, look)
    }
}

fn look(pc: u64) -> Known {
    // SAFETY: libc describes objects that stay loaded while their code runs.
    unsafe {
        let rule = unwind::rule(table(pc), pc);
        let start = rule.map_or(0, |r| r.start);
        let found = operators().iter().position(|&o| start != 0 && o == start);
        Known { rule, allocator: found.and_then(|i| POSITIONS.get(i)).map_or(0, |&p| p) }
    }
}

/// glibc's `struct dl_find_object`.
#[repr(C)]
struct Found {
    flags: u64,
    map_start: *mut c_void,
    map_end: *mut c_void,
    link_map: *mut c_void,
    eh_frame: *const u8,
    reserved: [u64; 7],
}

/// The `.eh_frame_hdr` of the module at `pc`; null if there is none.
///
/// # Safety
/// `pc` is in code that runs.
unsafe fn table(pc: u64) -> *const u8 {
    // SAFETY: libc describes objects that stay loaded while their code runs.
    unsafe {
        let f = FIND_OBJECT.known();
        if f.is_null() {
            return walk(pc);
        }
        let f: unsafe extern "C" fn(u64, *mut Found) -> c_int = core::mem::transmute(f);
        let mut found: Found = core::mem::zeroed();
        if f(pc, &mut found) == 0 { found.eh_frame } else { core::ptr::null() }
    }
}

/// Before glibc 2.35.
fn walk(pc: u64) -> *const u8 {
    loaded::first(|o| o.has(pc).then(|| o.unwinding())).unwrap_or(core::ptr::null())
}
