//! The program and the libraries that are loaded, in the order in which the loader looks for names.

use core::ffi::{c_char, c_int, c_void};

/// `dl_phdr_info`, as far as it is looked at.
#[repr(C)]
pub struct Object {
    base: u64,
    name: *const c_char,
    headers: *const Segment,
    count: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    memory_bytes: u64,
    align: u64,
}

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

unsafe extern "C" {
    fn dl_iterate_phdr(
        f: unsafe extern "C" fn(*const Object, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

impl Object {
    fn segments(&self, kind: u32) -> impl Iterator<Item = (u64, u64)> {
        // SAFETY: the loader describes objects that stay loaded meanwhile.
        let all = (0..self.count as usize).map(|i| unsafe { &*self.headers.add(i) });
        all.filter(move |s| s.kind == kind).map(|s| (self.base.wrapping_add(s.address), s.memory_bytes))
    }

    /// Whether an address lies in one of its segments.
    pub fn has(&self, address: u64) -> bool {
        self.segments(PT_LOAD).any(|(at, bytes)| address.wrapping_sub(at) < bytes)
    }

    /// Addresses from its first to behind its last.
    pub fn range(&self) -> (u64, u64) {
        self.segments(PT_LOAD).fold((u64::MAX, 0), |(lo, hi), (at, n)| (lo.min(at), hi.max(at + n)))
    }

    /// Where its notes lie, and how many bytes: they are mapped.
    pub fn notes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.segments(PT_NOTE)
    }

    /// Its search table of unwinding (`.eh_frame_hdr`); null without one.
    pub fn unwinding(&self) -> *const u8 {
        self.segments(PT_GNU_EH_FRAME).last().map_or(core::ptr::null(), |(at, _)| at as *const u8)
    }
}

/// What `find` finds in the first object that it finds something in.
pub fn first<R, F: FnMut(&Object) -> Option<R>>(find: F) -> Option<R> {
    unsafe extern "C" fn visit<R, F: FnMut(&Object) -> Option<R>>(
        object: *const Object,
        _bytes: usize,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes on what it was given, and describes an object.
        unsafe {
            let (find, found) = &mut *search.cast::<(F, Option<R>)>();
            *found = find(&*object);
            found.is_some() as c_int
        }
    }
    let mut search = (find, None);
    // SAFETY: the search lives until the call returns.
    unsafe { dl_iterate_phdr(visit::<R, F>, (&raw mut search).cast()) };
    search.1
}
