//! OpenMP as gcc's library does it: the functions that compiled code calls. What happens inside of the library is not
//! instrumented, so its barriers, parallel regions and locks are told here.

use crate::arch::alias;
use crate::interpose::P;
use crate::libc_calls::Next;
use crate::{sections, sync, sys};
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicU64, Ordering::*};

crate::libc_calls::next! {
    BARRIER = "GOMP_barrier"; LOOP_END = "GOMP_loop_end"; SECTIONS_END = "GOMP_sections_end";
    PARALLEL = "GOMP_parallel"; THREADS = "omp_get_num_threads"; LEVEL = "omp_get_level";
    CRITICAL = "GOMP_critical_start"; CRITICAL_END = "GOMP_critical_end";
    NAMED = "GOMP_critical_name_start"; NAMED_END = "GOMP_critical_name_end";
    ORDERED = "GOMP_ordered_start"; ORDERED_END = "GOMP_ordered_end";
    SET = "omp_set_lock"; UNSET = "omp_unset_lock";
}

alias! {
    "GOMP_barrier" => "tussle_omp_barrier";
    "GOMP_loop_end" => "tussle_omp_loop_end";
    "GOMP_sections_end" => "tussle_omp_sections_end";
    "GOMP_parallel" => "tussle_omp_parallel";
    "GOMP_critical_start" => "tussle_omp_critical";
    "GOMP_critical_end" => "tussle_omp_critical_end";
    "GOMP_critical_name_start" => "tussle_omp_named";
    "GOMP_critical_name_end" => "tussle_omp_named_end";
    "GOMP_ordered_start" => "tussle_omp_ordered";
    "GOMP_ordered_end" => "tussle_omp_ordered_end";
    "omp_set_lock" => "tussle_omp_set";
    "omp_unset_lock" => "tussle_omp_unset";
}

/// The library's function, also where the library was loaded late and out of sight.
///
/// # Safety
/// Looking up is allowed.
unsafe fn behind(next: &'static Next) -> *mut c_void {
    let known = next.get();
    if !known.is_null() {
        return known;
    }
    // SAFETY: names end with zeros.
    unsafe {
        let library = sys::dlopen(c"libgomp.so.1".as_ptr(), sys::RTLD_LAZY | sys::RTLD_NOLOAD);
        if library.is_null() { library } else { next.find_in(library) }
    }
}

/// Calls a function behind ours. Without one there is nothing to do: nobody can have called for it.
macro_rules! omp {
    ($next:expr, ($($a:expr => $t:ty),*)) => {{
        let f = behind(&$next);
        if !f.is_null() {
            core::mem::transmute::<*mut c_void, unsafe extern "C" fn($($t),*)>(f)($($a),*)
        }
    }};
}

/// # Safety
/// Looking up is allowed.
unsafe fn number(next: &'static Next) -> c_int {
    // SAFETY: a function without arguments.
    unsafe {
        let f = behind(next);
        if f.is_null() { 0 } else { core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(f)() }
    }
}

/// Stands for the barrier of the one team, for the unnamed critical section, and for parts that are done in order.
static TEAM: AtomicU64 = AtomicU64::new(0);
static UNNAMED: AtomicU64 = AtomicU64::new(0);
static IN_ORDER: AtomicU64 = AtomicU64::new(0);

/// Waits with `wait` as a team. Of nested teams several may wait at once, and which one this is nobody tells.
///
/// # Safety
/// Called by a thread of a team.
unsafe fn team_waits(wait: impl FnOnce()) {
    let team = &raw const TEAM as u64;
    // SAFETY: the caller's promise.
    unsafe {
        let threads = number(&THREADS) as u64;
        if !crate::arena::recording() || threads < 2 || number(&LEVEL) != 1 {
            return wait();
        }
        if TEAM.swap(threads, AcqRel) != threads {
            sync::barrier_init(team, threads);
        }
        let generation = sync::barrier_arrive(team);
        wait();
        sync::barrier_leave(team, generation);
    }
}

macro_rules! waits {
    ($($name:ident($next:ident);)+) => { $(
        /// # Safety
        /// Behind an exported name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            // SAFETY: the library's function.
            unsafe { team_waits(|| omp!($next, ())) }
        }
    )+ };
}
waits! {
    tussle_omp_barrier(BARRIER);
    tussle_omp_loop_end(LOOP_END);
    tussle_omp_sections_end(SECTIONS_END);
}

/// A parallel region: who runs it begins where its creator was, and that one goes on after the last.
#[repr(C)]
struct Region {
    body: unsafe extern "C" fn(P),
    data: P,
    start: u64,
    end: AtomicU64,
}

/// # Safety
/// `r` is the [`Region`] of a creator that waits.
unsafe extern "C" fn region(r: P) {
    // SAFETY: the caller's promise.
    unsafe {
        let r = r.cast::<Region>();
        sync::join((*r).start);
        ((*r).body)((*r).data);
        (*r).end.fetch_max(sync::settle(), AcqRel);
    }
}

/// # Safety
/// Behind an exported name: the arguments are the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_omp_parallel(body: unsafe extern "C" fn(P), data: P, threads: c_uint, flags: c_uint) {
    // SAFETY: the library's function gets the program's arguments, or a region that outlives the call.
    unsafe {
        let start = sync::creation();
        if start == u64::from(crate::wire::NONE) {
            return omp!(PARALLEL, (body => unsafe extern "C" fn(P), data => P, threads => c_uint, flags => c_uint));
        }
        let r = Region { body, data, start, end: AtomicU64::new(0) };
        let it = &raw const r as P;
        omp!(PARALLEL, (region => unsafe extern "C" fn(P), it => P, threads => c_uint, flags => c_uint));
        sync::joined(r.end.load(Acquire));
    }
}

/// Locks without an argument: one in all of the program.
macro_rules! single {
    ($($take:ident($next:ident), $give:ident($end:ident), $key:ident;)+) => { $(
        /// # Safety
        /// Behind an exported name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $take() {
            // SAFETY: the library's function.
            unsafe { omp!($next, ()) };
            sync::locked(&raw const $key as u64, None);
        }
        /// # Safety
        /// Behind an exported name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $give() {
            released(&raw const $key as u64);
            // SAFETY: the library's function.
            unsafe { omp!($end, ()) };
        }
    )+ };
}
single! {
    tussle_omp_critical(CRITICAL), tussle_omp_critical_end(CRITICAL_END), UNNAMED;
    tussle_omp_ordered(ORDERED), tussle_omp_ordered_end(ORDERED_END), IN_ORDER;
}

fn released(lock: u64) {
    sections::releasing(lock);
    sync::unlocking(lock);
}

macro_rules! locks {
    ($($take:ident($next:ident), $give:ident($end:ident);)+) => { $(
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $take(lock: P) {
            // SAFETY: the library's function gets the program's argument.
            unsafe { omp!($next, (lock => P)) };
            sync::locked(lock as u64, None);
        }
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $give(lock: P) {
            released(lock as u64);
            // SAFETY: the library's function gets the program's argument.
            unsafe { omp!($end, (lock => P)) };
        }
    )+ };
}
locks! {
    tussle_omp_named(NAMED), tussle_omp_named_end(NAMED_END);
    tussle_omp_set(SET), tussle_omp_unset(UNSET);
}
