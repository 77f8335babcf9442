//! Functions of libc, pthread and the C++ runtime that the recorder stands in front of. Each calls the one behind it
//! and returns exactly what that returned.

use crate::arch::{alias, forwarder, stub, thread_pointer};
use crate::arena::{alloc, recording};
use crate::libc_calls::{call, find_system, next_all};
use crate::thread::Birth;
use crate::wire::*;
use crate::{keys, sync, thread};
use tussle_rt_core::{detached, standing};
use core::ffi::{c_int, c_void};

/// Any pointer of C.
pub type P = *mut c_void;

next_all! {
    ALL:
    pub MALLOC = "malloc" @ "GLIBC_2.2.5"; pub CALLOC = "calloc" @ "GLIBC_2.2.5";
    pub REALLOC = "realloc" @ "GLIBC_2.2.5"; pub FREE = "free" @ "GLIBC_2.2.5";
    pub ALIGNED_ALLOC = "aligned_alloc" @ "GLIBC_2.16"; pub POSIX_MEMALIGN = "posix_memalign" @ "GLIBC_2.2.5";
    pub MEMALIGN = "memalign" @ "GLIBC_2.2.5"; pub VALLOC = "valloc" @ "GLIBC_2.2.5";
    pub PVALLOC = "pvalloc" @ "GLIBC_2.2.5"; pub REALLOCARRAY = "reallocarray" @ "GLIBC_2.26";
    pub MEMCPY = "memcpy"; pub MEMMOVE = "memmove"; pub MEMSET = "memset"; pub MEMCPY_CHK = "__memcpy_chk";
    pub MEMMOVE_CHK = "__memmove_chk"; pub MEMSET_CHK = "__memset_chk";
    pub MMAP = "mmap"; pub MUNMAP = "munmap";
    pub SHMAT = "shmat"; pub READ_ = "read"; pub PREAD = "pread"; pub RECV = "recv";
    pub WRITE_ = "write"; pub SEND = "send";
    pub READ_CHK = "__read_chk"; pub PREAD_CHK = "__pread_chk"; pub RECV_CHK = "__recv_chk";
    pub FREAD_CHK = "__fread_chk"; pub FREAD_UNLOCKED = "fread_unlocked";
    pub FREAD = "fread"; pub FWRITE = "fwrite"; pub EXIT_ = "_exit";
    pub CREATE = "pthread_create"; pub JOIN = "pthread_join"; pub DETACH = "pthread_detach";
    pub TRYJOIN = "pthread_tryjoin_np";
    pub TIMEDJOIN = "pthread_timedjoin_np"; pub CLOCKJOIN = "pthread_clockjoin_np"; pub SETNAME = "pthread_setname_np";
    pub M_LOCK = "pthread_mutex_lock"; pub M_TRYLOCK = "pthread_mutex_trylock";
    pub M_TIMEDLOCK = "pthread_mutex_timedlock";
    pub M_CLOCKLOCK = "pthread_mutex_clocklock"; pub M_UNLOCK = "pthread_mutex_unlock";
    pub M_DESTROY = "pthread_mutex_destroy";
    pub RW_RD = "pthread_rwlock_rdlock"; pub RW_WR = "pthread_rwlock_wrlock";
    pub RW_TRYRD = "pthread_rwlock_tryrdlock";
    pub RW_TRYWR = "pthread_rwlock_trywrlock"; pub RW_TIMEDRD = "pthread_rwlock_timedrdlock";
    pub RW_TIMEDWR = "pthread_rwlock_timedwrlock"; pub RW_CLOCKRD = "pthread_rwlock_clockrdlock";
    pub RW_CLOCKWR = "pthread_rwlock_clockwrlock"; pub RW_UNLOCK = "pthread_rwlock_unlock";
    pub S_LOCK = "pthread_spin_lock"; pub S_TRYLOCK = "pthread_spin_trylock"; pub S_UNLOCK = "pthread_spin_unlock";
    pub B_INIT = "pthread_barrier_init"; pub B_WAIT = "pthread_barrier_wait";
    pub B_DESTROY = "pthread_barrier_destroy";
    pub C_INIT = "pthread_cond_init" @ "GLIBC_2.3.2"; pub C_DESTROY = "pthread_cond_destroy" @ "GLIBC_2.3.2";
    pub C_WAIT = "pthread_cond_wait" @ "GLIBC_2.3.2"; pub C_TIMEDWAIT = "pthread_cond_timedwait" @ "GLIBC_2.3.2";
    pub C_SIGNAL = "pthread_cond_signal" @ "GLIBC_2.3.2"; pub C_BROADCAST = "pthread_cond_broadcast" @ "GLIBC_2.3.2";
    pub C_CLOCKWAIT = "pthread_cond_clockwait";
    pub SEM_WAIT = "sem_wait"; pub SEM_TRYWAIT = "sem_trywait"; pub SEM_TIMEDWAIT = "sem_timedwait";
    pub YIELD = "sched_yield"; pub SEM_CLOCKWAIT = "sem_clockwait"; pub SEM_POST = "sem_post";
}

/// Resolves everything: looking up is not allowed later in signal handlers and forked children.
///
/// # Safety
/// Called once, where looking up is allowed.
pub unsafe fn resolve() {
    // SAFETY: libc's functions.
    unsafe {
        find_system();
        for n in ALL.iter().chain(FORWARDED) {
            n.find();
        }
        crate::c11::resolve();
        crate::caller::resolve();
        crate::channels::resolve();
        crate::children::resolve();
        crate::contexts::resolve();
        crate::exec::resolve();
        keys::resolve();
        crate::once::resolve();
        crate::sandbox::resolve();
        crate::vectors::resolve();
        // What is missing here (an older libc) must not be the error that the program asks for.
        crate::sys::dlerror();
    }
}

stub! {
    "pthread_create" => "tussle_pthread_create", "r8";
}
alias! {
    "pthread_join" => "tussle_pthread_join";
    "pthread_detach" => "tussle_pthread_detach";
    "pthread_tryjoin_np" => "tussle_pthread_tryjoin";
    "pthread_timedjoin_np" => "tussle_pthread_timedjoin";
    "pthread_clockjoin_np" => "tussle_pthread_clockjoin";
    "pthread_setname_np" => "tussle_pthread_setname";
}

unsafe extern "C" {
    fn pthread_attr_init(a: P) -> c_int;
    fn pthread_attr_destroy(a: P) -> c_int;
    fn pthread_attr_getstacksize(a: P, n: *mut usize) -> c_int;
    fn pthread_attr_getdetachstate(a: P, state: *mut c_int) -> c_int;
}

/// What a new thread needs to know.
#[repr(C, align(64))]
struct Start {
    routine: P,
    arg: P,
    creator: u32,
    /// 1 if nobody joins it.
    detached: u32,
    vt: u64,
    pc: u64,
    stack_bytes: u64,
}

/// # Safety
/// As `pthread_create`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_create(th: *mut u64, attr: P, f: P, arg: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_create` behind ours gets the arguments as they came, and is of the thread that they name.
    unsafe {
        let recorded = started(attr, f, arg, pc);
        let (f, arg) = recorded.unwrap_or((f, arg));
        created(recorded.is_some(), call!(CREATE, (th => *mut u64, attr => P, f => P, arg => P) -> c_int))
    }
}

/// Whether the thread of which the recorder was told by [`started`] was created.
pub fn created(told: bool, r: c_int) -> c_int {
    if told && r != 0 {
        standing::unborn(-1);
    }
    r
}

/// A thread is about to be created: the routine, and its argument, that tell the recorder of it; `None` if nothing is
/// recorded.
///
/// # Safety
/// `attr` is null or initialised attributes; `pc` is the return address of the call.
pub unsafe fn started(attr: P, f: P, arg: P, pc: u64) -> Option<(P, P)> {
    // SAFETY: the start is new and ours until the thread has it.
    unsafe {
        thread::init();
        if !recording() {
            return None;
        }
        let vt = sync::creation();
        let s = alloc(size_of::<Start>() as u64) as *mut Start;
        if s.is_null() || vt == NONE as u64 {
            return None;
        }
        (*s).routine = f;
        (*s).arg = arg;
        (*s).creator = thread::index();
        (*s).vt = vt;
        (*s).pc = pc;
        (*s).stack_bytes = stack_bytes(attr);
        (*s).detached = is_detached(attr) as u32;
        standing::unborn(1);
        Some((trampoline as *const () as P, s as P))
    }
}

/// # Safety
/// `attr` is null or initialised attributes.
unsafe fn stack_bytes(attr: P) -> u64 {
    // SAFETY: libc's functions; 128 bytes are more than its attributes have.
    unsafe {
        let mut n = 0usize;
        if !attr.is_null() {
            pthread_attr_getstacksize(attr, &mut n);
        } else {
            let mut a = [0u64; 16];
            if pthread_attr_init(a.as_mut_ptr().cast()) == 0 {
                pthread_attr_getstacksize(a.as_mut_ptr().cast(), &mut n);
                pthread_attr_destroy(a.as_mut_ptr().cast());
            }
        }
        n as u64
    }
}

/// # Safety
/// `attr` is null or initialised attributes.
unsafe fn is_detached(attr: P) -> bool {
    const DETACHED: c_int = 1;
    let mut state = 0;
    // SAFETY: the caller's promise.
    !attr.is_null() && unsafe { pthread_attr_getdetachstate(attr, &mut state) } == 0 && state == DETACHED
}

/// # Safety
/// `p` is a [`Start`] that nobody else uses.
unsafe extern "C" fn trampoline(p: P) -> P {
    // SAFETY: the caller's promise; the routine and its argument are the program's.
    unsafe {
        let s = p as *mut Start;
        let (routine, arg) = ((*s).routine, (*s).arg);
        // glibc's thread descriptor (about 2.3 kB) ends the stack's mapping. Before it lie the thread's variables, and
        // before those our frame: the program's are below.
        let mapped = (thread_pointer() + 0x900 + 4095) & !4095;
        let frame = &raw const s as u64;
        thread::register(Birth {
            creator: (*s).creator,
            start: routine as u64,
            create_pc: (*s).pc,
            vt: (*s).vt,
            stack: (mapped - (*s).stack_bytes, frame),
            pointer: 0,
        });
        standing::unborn(-1);
        if (*s).detached != 0 {
            before_detach(thread_pointer());
        }
        keys::watch();
        let f: unsafe extern "C" fn(P) -> P = core::mem::transmute(routine);
        let result = f(arg);
        keys::returned();
        result
    }
}

/// Where every recorded thread starts.
pub fn thread_start() -> u64 {
    trampoline as *const () as u64
}

/// A thread was joined, if the call worked.
pub fn after_join(th: u64, r: c_int) -> c_int {
    if r == 0 && recording() {
        // SAFETY: libc's functions get the program's arguments.
        sync::joined(unsafe { thread::vt_of(th) });
    }
    r
}

/// # Safety
/// As `pthread_join`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_join(th: u64, out: *mut P) -> c_int {
    // SAFETY: the `pthread_join` behind ours gets the arguments as they came, and is of the thread that they name.
    unsafe {
        sync::joining();
        after_join(th, call!(JOIN, (th => u64, out => *mut P) -> c_int))
    }
}

/// A thread is joined by nobody.
pub fn before_detach(th: u64) {
    if recording() {
        let entered = thread::enter();
        // SAFETY: the header is mapped while something is recorded.
        entered.iter().for_each(|t| unsafe { detached::detached(t, th) });
    }
}

/// # Safety
/// As `pthread_detach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_detach(th: u64) -> c_int {
    before_detach(th);
    // SAFETY: the `pthread_detach` behind ours gets the argument as it came, and is of the thread that it names.
    unsafe { call!(DETACH, (th => u64) -> c_int) }
}

/// # Safety
/// As `pthread_tryjoin_np`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_tryjoin(th: u64, out: *mut P) -> c_int {
    // SAFETY: the `pthread_tryjoin_np` behind ours gets the arguments as they came, and is of the thread that they
    // name.
    unsafe { after_join(th, call!(TRYJOIN, (th => u64, out => *mut P) -> c_int)) }
}

/// # Safety
/// As `pthread_timedjoin_np`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_timedjoin(th: u64, out: *mut P, t: P) -> c_int {
    // SAFETY: the `pthread_timedjoin_np` behind ours gets the arguments as they came, and is of the thread that they
    // name.
    unsafe { after_join(th, call!(TIMEDJOIN, (th => u64, out => *mut P, t => P) -> c_int)) }
}

/// # Safety
/// As `pthread_clockjoin_np`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_clockjoin(th: u64, out: *mut P, c: c_int, t: P) -> c_int {
    // SAFETY: the `pthread_clockjoin_np` behind ours gets the arguments as they came, and is of the thread that they
    // name.
    unsafe { after_join(th, call!(CLOCKJOIN, (th => u64, out => *mut P, c => c_int, t => P) -> c_int)) }
}

/// # Safety
/// As `pthread_setname_np`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_setname(th: u64, name: P) -> c_int {
    // SAFETY: the `pthread_setname_np` behind ours gets the arguments as they came, and is of the thread that they
    // name.
    unsafe {
        let r = call!(SETNAME, (th => u64, name => P) -> c_int);
        if r == 0 {
            thread::renamed();
        }
        r
    }
}

/// A program linked against libtsan asks for these without a version and would get the oldest from libc.
macro_rules! forward {
    ($($name:literal $find:ident $next:ident;)+) => {
        next_all! { FORWARDED: $( $next = $name; )+ }
        $(
            /// # Safety
            /// Behind an exported name: the arguments are the program's.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $find() -> P {
                $next.get()
            }
            forwarder!($name, $find);
        )+
    };
}
forward! {
    "fmemopen" tussle_find_fmemopen FMEMOPEN;
    "glob" tussle_find_glob GLOB;
    "glob64" tussle_find_glob64 GLOB64;
    "realpath" tussle_find_realpath REALPATH;
    "regexec" tussle_find_regexec REGEXEC;
    "sched_getaffinity" tussle_find_sched_getaffinity SCHED_GETAFFINITY;
    "pthread_attr_getaffinity_np" tussle_find_attr_getaffinity ATTR_GETAFFINITY;
}
