//! OpenMP as LLVM's library does it, which is not instrumented: it tells tools of barriers, parallel regions and locks
//! (OpenMP 5.0, chapter 4, "OMPT interface"; constants and signatures are those of `omp-tools.h`).
//!
//! The library asks for `ompt_start_tool` when it starts; where nothing is recorded there is no tool.

use crate::arch::alias;
use crate::interpose::P;
use crate::{sections, sync};
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicU64;

alias! {
    "ompt_start_tool" => "tussle_ompt_start_tool";
}

/// Numbers of events.
const PARALLEL_BEGIN: c_int = 3;
const IMPLICIT_TASK: c_int = 7;
const MUTEX_RELEASED: c_int = 17;
const SYNC_REGION: c_int = 23;
const MUTEX_ACQUIRED: c_int = 27;

const BEGIN: c_int = 1;
const END: c_int = 2;

/// Kinds of locks whose functions [`crate::omp`] stands in front of: locks, nested locks, and tries of both.
const LOCKS: core::ops::RangeInclusive<c_int> = 1..=4;
/// Kinds of synchronisation at which a whole team waits: barriers, explicit and implied.
const BARRIERS: [c_int; 6] = [1, 2, 3, 4, 8, 9];

/// A word that the library keeps for the tool, one for each region and one for each task.
type Data = *mut u64;

type Lookup = unsafe extern "C" fn(*const c_char) -> *mut c_void;
type SetCallback = unsafe extern "C" fn(c_int, *const c_void) -> c_int;

#[repr(C)]
struct StartTool {
    initialize: unsafe extern "C" fn(Lookup, c_int, Data) -> c_int,
    finalize: unsafe extern "C" fn(Data),
    tool_data: AtomicU64,
}

static TOOL: StartTool = StartTool { initialize, finalize, tool_data: AtomicU64::new(0) };

/// # Safety
/// Behind an exported name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_ompt_start_tool(_version: c_uint, _runtime: *const c_char) -> P {
    if crate::arena::recording() { &raw const TOOL as P } else { null_mut() }
}

unsafe extern "C" fn initialize(lookup: Lookup, _device: c_int, _tool: Data) -> c_int {
    // SAFETY: the library's own function, looked up as it says; the callbacks have the signatures of their events.
    unsafe {
        let set = lookup(c"ompt_set_callback".as_ptr());
        if set.is_null() {
            return 0;
        }
        let set = core::mem::transmute::<*mut c_void, SetCallback>(set);
        set(PARALLEL_BEGIN, parallel_begin as *const c_void);
        set(IMPLICIT_TASK, implicit_task as *const c_void);
        set(SYNC_REGION, sync_region as *const c_void);
        set(MUTEX_ACQUIRED, mutex_acquired as *const c_void);
        set(MUTEX_RELEASED, mutex_released as *const c_void);
    }
    1
}

unsafe extern "C" fn finalize(_tool: Data) {}

/// A region begins: its threads start where its creator is.
///
/// # Safety
/// Called by the OpenMP library: `region` is null, or the tool's word of a region that has no other thread yet.
unsafe extern "C" fn parallel_begin(_: Data, _: P, region: Data, _threads: c_uint, _: c_int, _: P) {
    let start = sync::creation();
    if !region.is_null() && start != u64::from(crate::wire::NONE) {
        // SAFETY: the region's word is the tool's, and no thread of the region runs yet.
        unsafe { *region = start };
    }
}

/// A thread begins its part of a region. The library keeps teams: the same address is the same team, mostly.
///
/// # Safety
/// Called by the OpenMP library: `region` and `task` are null, or the tool's words; `task` is the calling thread's.
unsafe extern "C" fn implicit_task(
    end: c_int,
    region: Data,
    task: Data,
    threads: c_uint,
    _: c_uint,
    _: c_int,
) {
    if end != BEGIN || region.is_null() || task.is_null() || !crate::arena::recording() {
        return;
    }
    // SAFETY: both words are the tool's; that of the region was written before its threads began.
    unsafe {
        *task = 0;
        if *region == 0 {
            return;
        }
        sync::join(*region);
    }
    if sync::barrier_threads(region as u64) != u64::from(threads) {
        sync::barrier_init(region as u64, u64::from(threads));
    }
}

/// A team waits, or goes on. The end of a region's last barrier comes when the thread is needed again, without its
/// region; there is nothing to do then, for it begins the next one where its creator is.
///
/// # Safety
/// As [`implicit_task`].
unsafe extern "C" fn sync_region(kind: c_int, end: c_int, region: Data, task: Data, _: P) {
    if !BARRIERS.contains(&kind) || region.is_null() || task.is_null() || !crate::arena::recording() {
        return;
    }
    let team = region as u64;
    // SAFETY: the task's word is the tool's, and this thread's.
    unsafe {
        if *region == 0 || sync::barrier_threads(team) < 2 {
            return;
        }
        match end {
            BEGIN => *task = sync::barrier_arrive(team) + 1,
            END if *task != 0 => sync::barrier_leave(team, core::mem::take(&mut *task) - 1),
            _ => {}
        }
    }
}

/// A thread has a lock.
///
/// # Safety
/// None: `lock` is a number.
unsafe extern "C" fn mutex_acquired(kind: c_int, lock: u64, _: P) {
    if !LOCKS.contains(&kind) {
        sync::locked(lock, None);
    }
}

/// A thread gives a lock back.
///
/// # Safety
/// None: `lock` is a number.
unsafe extern "C" fn mutex_released(kind: c_int, lock: u64, _: P) {
    if !LOCKS.contains(&kind) {
        sections::releasing(lock);
        sync::unlocking(lock);
    }
}
