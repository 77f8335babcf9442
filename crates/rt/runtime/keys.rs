//! The recorder's thread-specific value, whose destructor ends the recording of a thread behind all others. There are
//! 1,024 keys in a process: the program gets the recorder's, too, if it asks for them all.

use crate::arch::alias;
use crate::interpose::P;
use crate::libc_calls::{call, next_all};
use crate::thread;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::*};

next_all! {
    ALL:
    CREATE = "pthread_key_create"; TSS_CREATE = "tss_create";
}

/// Resolves the functions behind.
///
/// # Safety
/// Called where looking up is allowed.
pub unsafe fn resolve() {
    for n in ALL {
        n.find();
    }
}

alias! {
    "pthread_key_create" => "tussle_key_create";
    "tss_create" => "tussle_tss_create";
}

unsafe extern "C" {
    fn pthread_key_delete(key: u32) -> c_int;
    fn pthread_setspecific(key: u32, v: P) -> c_int;
}

type Destructor = Option<unsafe extern "C" fn(P)>;

/// The recorder's key plus 1; 0 until made, and once it was given up.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Values of the first keys lie in glibc's description of a thread; others are allocated.
const FIRST_KEYS: usize = 32;

/// Makes the key, before there are threads: the last of the first ones, so that the program's have the numbers that
/// they have without the recorder.
///
/// # Safety
/// Called once, after [`resolve`].
pub unsafe fn make() {
    let mut before: Option<u32> = None;
    let mut spare = [0; FIRST_KEYS];
    let mut spares = spare.iter_mut();
    // SAFETY: libc's functions, numbers of ours.
    unsafe {
        while before.is_none_or(|k| (k as usize) < FIRST_KEYS - 1) {
            let mut k = 0;
            if call!(CREATE, (&mut k => *mut u32, Some(ending) => Destructor) -> c_int) != 0 {
                break;
            }
            if let (Some(k), Some(place)) = (before.replace(k), spares.next()) {
                *place = k + 1;
            }
        }
        for k in spare.iter().filter_map(|k| k.checked_sub(1)) {
            pthread_key_delete(k);
        }
    }
    KEY.store(before.map_or(0, |k| k + 1), Release);
}

fn key() -> Option<u32> {
    KEY.load(Acquire).checked_sub(1)
}

/// From now on the end of the calling thread is noticed. It runs its destructors in up to four rounds: the recorder's
/// does its work in the third.
///
/// # Safety
/// The calling thread begins.
pub unsafe fn watch() {
    if let Some(k) = key() {
        // SAFETY: libc's function, our key.
        unsafe { pthread_setspecific(k, 3 as P) };
    }
}

/// The calling thread's routine has returned. Its end was only noticed here if there is no key any more.
///
/// # Safety
/// The calling thread is not inside the recorder.
pub unsafe fn returned() {
    if key().is_none() {
        // SAFETY: the caller's promise; what destructors do is counted as lost.
        unsafe { thread::end() };
    }
}

/// Runs among the thread's own destructors; puts itself behind them twice.
///
/// # Safety
/// Called by libc as a key's destructor.
unsafe extern "C" fn ending(left: P) {
    // SAFETY: the thread runs its last destructors, outside of the recorder.
    unsafe {
        let left = left as usize;
        match key() {
            Some(k) if left > 1 => {
                pthread_setspecific(k, (left - 1) as P);
            }
            _ => thread::end(),
        }
    }
}

/// Gives the recorder's key up. The recording of threads that end by `pthread_exit` or are cancelled has no end from
/// then on: it is as that of threads that still run.
///
/// # Safety
/// Called by the program's code.
unsafe fn give_up() -> bool {
    match KEY.swap(0, AcqRel).checked_sub(1) {
        // SAFETY: our key.
        Some(k) => unsafe { pthread_key_delete(k) == 0 },
        None => false,
    }
}

/// Tries again with the recorder's key where none is left, which `create` says by `full`.
///
/// # Safety
/// As [`give_up`].
unsafe fn or_with_ours(create: impl Fn() -> c_int, full: c_int) -> c_int {
    match create() {
        // SAFETY: the caller's promise.
        r if r == full && unsafe { give_up() } => create(),
        r => r,
    }
}

/// # Safety
/// As `pthread_key_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_key_create(key: *mut u32, destructor: Destructor) -> c_int {
    const EAGAIN: c_int = 11;
    // SAFETY: the function behind gets the arguments as they came.
    unsafe {
        let create = || call!(CREATE, (key => *mut u32, destructor => Destructor) -> c_int);
        or_with_ours(create, EAGAIN)
    }
}

/// # Safety
/// As `tss_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_tss_create(key: *mut u32, destructor: Destructor) -> c_int {
    const ERROR: c_int = 2;
    // SAFETY: the function behind gets the arguments as they came.
    unsafe {
        let create = || call!(TSS_CREATE, (key => *mut u32, destructor => Destructor) -> c_int);
        or_with_ours(create, ERROR)
    }
}
