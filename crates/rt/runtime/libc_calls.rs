//! The functions behind ours.

use crate::{loaded, sys};
use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

/// A lazily resolved function.
pub struct Next {
    name: &'static [u8],
    version: &'static [u8],
    at: AtomicPtr<c_void>,
}

impl Next {
    pub const fn new(name: &'static [u8]) -> Next {
        Next { name, version: b"\0", at: AtomicPtr::new(core::ptr::null_mut()) }
    }
    pub const fn versioned(name: &'static [u8], version: &'static [u8]) -> Next {
        Next { name, version, at: AtomicPtr::new(core::ptr::null_mut()) }
    }
    /// Address of the function; null if there is none.
    #[inline(always)]
    pub fn get(&self) -> *mut c_void {
        let p = self.at.load(Relaxed);
        if p.is_null() { self.find() } else { p }
    }
    /// Address of the function in a library that is loaded; null if there is none.
    ///
    /// # Safety
    /// `library` is a handle of the loader's.
    #[cold]
    pub unsafe fn find_in(&self, library: *mut c_void) -> *mut c_void {
        // SAFETY: names end with zeros; the caller's promise.
        let p = unsafe { sys::dlsym(library, self.name.as_ptr().cast()) };
        self.at.store(p, Relaxed);
        p
    }
    /// Address if it was resolved before.
    #[inline(always)]
    pub fn known(&self) -> *mut c_void {
        self.at.load(Relaxed)
    }
    #[cold]
    pub fn find(&self) -> *mut c_void {
        // SAFETY: names end with zeros.
        let p = unsafe {
            let v = match self.version {
                b"\0" => core::ptr::null_mut(),
                v => sys::dlvsym(sys::RTLD_NEXT, self.name.as_ptr().cast(), v.as_ptr().cast()),
            };
            nearer(sys::next(self.name), v)
        };
        self.at.store(p, Relaxed);
        p
    }
    /// True if it is libc's own: no library that was preloaded or linked to stands in front. Known after
    /// [`find_system`].
    #[inline(always)]
    pub fn is_systems(&self) -> bool {
        let from = SYSTEM_FROM.load(Relaxed);
        (self.at.load(Relaxed) as u64).wrapping_sub(from) < SYSTEM_TO.load(Relaxed).wrapping_sub(from)
    }
}

/// Which of two functions of one name a program that is linked to the versioned one gets. A library that knows no
/// versions has only the `plain` one; one that hides its name from all but those linked to that version only the other.
fn nearer(plain: *mut c_void, versioned: *mut c_void) -> *mut c_void {
    if versioned.is_null() || plain.is_null() || plain == versioned {
        return if versioned.is_null() { plain } else { versioned };
    }
    loaded::first(|o| [versioned, plain].into_iter().find(|&p| o.has(p as u64))).unwrap_or(versioned)
}

/// Where libc lies (before glibc 2.34 its library of threads).
static SYSTEM_FROM: AtomicU64 = AtomicU64::new(0);
static SYSTEM_TO: AtomicU64 = AtomicU64::new(0);

/// Finds libc, by a function that nobody has a reason to stand in front of.
///
/// # Safety
/// Called where looking up is allowed.
pub unsafe fn find_system() {
    // SAFETY: the name ends with a zero.
    let known = unsafe { sys::next(b"pthread_attr_getstacksize\0") } as u64;
    if let Some((from, to)) = loaded::first(|o| o.has(known).then(|| o.range())) {
        SYSTEM_FROM.store(from, Relaxed);
        SYSTEM_TO.store(to, Relaxed);
    }
}

/// Declares `static $name: Next` and a typed caller `$call`.
macro_rules! next {
    ($($vis:vis $id:ident = $sym:literal $(@ $ver:literal)?;)*) => {
        $( #[allow(non_upper_case_globals)] $vis static $id: crate::libc_calls::Next =
            crate::libc_calls::next!(@make $sym $(, $ver)?); )*
    };
    (@make $sym:literal) => { crate::libc_calls::Next::new(concat!($sym, "\0").as_bytes()) };
    (@make $sym:literal, $ver:literal) => {
        crate::libc_calls::Next::versioned(concat!($sym, "\0").as_bytes(), concat!($ver, "\0").as_bytes())
    };
}
pub(crate) use next;

/// As [`next`], with a list of them all.
macro_rules! next_all {
    ($all:ident: $($vis:vis $id:ident = $sym:literal $(@ $ver:literal)?;)*) => {
        crate::libc_calls::next! { $( $vis $id = $sym $(@ $ver)?; )* }
        static $all: &[&crate::libc_calls::Next] = &[$(&$id),*];
    };
}
pub(crate) use next_all;

/// Calls a [`Next`] with C arguments: `call!(NEXT, (a: T, b: U) -> R)`.
macro_rules! call {
    ($next:expr, ($($a:expr => $t:ty),*) -> $r:ty) => {{
        let f: unsafe extern "C" fn($($t),*) -> $r = core::mem::transmute($next.get());
        f($($a),*)
    }};
}
pub(crate) use call;

/// Ends the function with a call of a [`Next`] while nothing is recorded: a jump, if it is the first thing done.
macro_rules! unrecorded {
    ($next:expr, ($($a:expr => $t:ty),*) -> $r:ty) => {
        let behind = $next.known();
        if !crate::arena::recording() && !behind.is_null() {
            let f: unsafe extern "C" fn($($t),*) -> $r = core::mem::transmute(behind);
            return f($($a),*);
        }
    };
}
pub(crate) use unrecorded;
