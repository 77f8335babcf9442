//! Mutexes, rwlocks, spin locks, barriers, conditions and semaphores: their own bytes are accesses, and what they
//! order moves clocks.

use crate::arch::{alias, stub};
use crate::arena::recording;
use crate::interpose::*;
use crate::libc_calls::{Next, call, unrecorded};
use crate::wire::*;
use crate::{record, sections, sync, waits};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

const EBUSY: c_int = 16;
/// No error of pthreads.
const NOT_TRIED: c_int = -1;
/// EOWNERDEAD: the lock was taken, its last owner died.
const OWNER_DIED: c_int = 130;

stub! {
    "pthread_mutex_lock" => "tussle_mutex_lock", "rsi";
    "pthread_mutex_trylock" => "tussle_mutex_trylock", "rsi";
    "pthread_mutex_timedlock" => "tussle_mutex_timedlock", "rdx";
    "pthread_mutex_clocklock" => "tussle_mutex_clocklock", "rcx";
    "pthread_mutex_unlock" => "tussle_mutex_unlock", "rsi";
    "pthread_rwlock_rdlock" => "tussle_rw_rd", "rsi";
    "pthread_rwlock_wrlock" => "tussle_rw_wr", "rsi";
    "pthread_rwlock_tryrdlock" => "tussle_rw_tryrd", "rsi";
    "pthread_rwlock_trywrlock" => "tussle_rw_trywr", "rsi";
    "pthread_rwlock_timedrdlock" => "tussle_rw_timedrd", "rdx";
    "pthread_rwlock_timedwrlock" => "tussle_rw_timedwr", "rdx";
    "pthread_rwlock_clockrdlock" => "tussle_rw_clockrd", "rcx";
    "pthread_rwlock_clockwrlock" => "tussle_rw_clockwr", "rcx";
    "pthread_rwlock_unlock" => "tussle_rw_unlock", "rsi";
    "pthread_spin_lock" => "tussle_spin_lock", "rsi";
    "pthread_spin_trylock" => "tussle_spin_trylock", "rsi";
    "pthread_spin_unlock" => "tussle_spin_unlock", "rsi";
    "pthread_barrier_wait" => "tussle_barrier_wait", "rsi";
}
alias! {
    "pthread_mutex_destroy" => "tussle_mutex_destroy";
    "pthread_barrier_init" => "tussle_barrier_init";
    "pthread_barrier_destroy" => "tussle_barrier_destroy";
}

/// Records an access of the pthread library to one of its objects.
#[inline(always)]
pub fn seen(addr: P, n: u64, kind: u32, pc: u64) {
    if recording() {
        record::access(addr as u64, n, kind, pc)
    }
}

/// Records an access of a lock's function to the lock.
#[inline(always)]
pub fn lock_seen(addr: P, n: u64, kind: u32, pc: u64) {
    if recording() {
        record::of_lock(addr as u64, n, kind, pc)
    }
}

/// glibc's mutex: lock word at 0, owner at 8, users at 12.
///
/// # Safety
/// `m` is a mutex of the program.
pub unsafe fn mutex_seen(m: P, pc: u64) {
    // SAFETY: an address within the mutex, which is not looked at.
    unsafe {
        lock_seen(m, 4, RMW, pc);
        lock_seen(m.byte_add(8), 8, WRITE, pc);
    }
}

pub fn taken(r: c_int) -> bool {
    r == 0 || r == OWNER_DIED
}

/// Takes a lock without waiting, else waits with `wait` and advances the clock by what the lock was held meanwhile.
#[inline(always)]
pub fn lock(m: P, try_it: impl Fn() -> c_int, wait: impl Fn() -> c_int) -> c_int {
    if !recording() {
        return wait();
    }
    let r = try_it();
    if taken(r) {
        sync::locked(m as u64, None);
        return r;
    }
    let before = if r == EBUSY { sync::lock_contended(m as u64) } else { None };
    let r = wait();
    if taken(r) {
        sync::locked(m as u64, before);
    }
    r
}

/// Whether trying is unseen: a library in front of libc must see the program's call, and no other.
#[inline(always)]
fn are_systems(wanted: &Next, try_it: &Next) -> bool {
    wanted.is_systems() && try_it.is_systems()
}

/// Tries to take what the function `wanted` would wait for. Where that would be seen, and for the caller's own reasons
/// (`look`), it is only looked whether it is `free`.
///
/// # Safety
/// `l` is an object of the program of the kind that `try_it` takes.
#[inline(always)]
unsafe fn attempt(wanted: &Next, try_it: &Next, l: P, look: bool, free: unsafe fn(P) -> bool) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if !look && are_systems(wanted, try_it) {
            return call!(*try_it, (l => P) -> c_int);
        }
        if free(l) { NOT_TRIED } else { EBUSY }
    }
}

/// The 32-bit word at the start of an object of the program's.
///
/// # Safety
/// The object is there.
unsafe fn word(l: P) -> u32 {
    // SAFETY: the caller's promise; it is aligned to 4 at least.
    unsafe { AtomicU32::from_ptr(l.cast()) }.load(Relaxed)
}

/// glibc's mutex holds the number of its owner's thread, or 1 and 2.
///
/// # Safety
/// `m` is a mutex of the program.
unsafe fn mutex_is_free(m: P) -> bool {
    const OWNER: u32 = 0x3fff_ffff;
    // SAFETY: the caller's promise.
    unsafe { word(m) & OWNER == 0 }
}

/// glibc's rwlock: readers, and below them three bits of which the second is the writer's.
///
/// # Safety
/// `l` is a rwlock of the program.
unsafe fn rwlock_is_free(l: P) -> bool {
    // SAFETY: the caller's promise.
    unsafe { word(l) & !0b101 == 0 }
}

/// glibc's spin lock on x86-64 is 1 when it is free.
///
/// # Safety
/// `l` is a spin lock of the program.
unsafe fn spin_is_free(l: P) -> bool {
    // SAFETY: the caller's promise.
    unsafe { word(l) == 1 }
}

/// glibc's semaphore: the value is the low half of its first eight bytes.
///
/// # Safety
/// `s` is a semaphore of the program.
unsafe fn semaphore_is_free(s: P) -> bool {
    // SAFETY: the caller's promise.
    unsafe { word(s) != 0 }
}

/// Tries to take a mutex. Robust ones are only looked at: glibc's trylock of one that cannot be recovered leaves it
/// locked (its `__pthread_mutex_trylock` compares the old owner where it means the new one).
///
/// # Safety
/// `m` is a mutex of the program.
unsafe fn mutex_try(wanted: &Next, m: P) -> c_int {
    const KIND_AT: usize = 16;
    const ROBUST: c_int = 16;
    // SAFETY: the program's mutex, which the caller is about to use.
    unsafe {
        let robust = *m.byte_add(KIND_AT).cast::<c_int>() & ROBUST != 0;
        attempt(wanted, &M_TRYLOCK, m, robust, mutex_is_free)
    }
}

/// A mutex is taken by `wait`, which calls `wanted`, unless a try gets it.
///
/// # Safety
/// `m` is a mutex of the program; `pc` is the return address of its call.
pub unsafe fn mutex_wanted(wanted: &Next, m: P, pc: u64, wait: impl Fn() -> c_int) -> c_int {
    // SAFETY: the program's mutex, which it is about to take.
    unsafe {
        mutex_seen(m, pc);
        lock(m, || mutex_try(wanted, m), wait)
    }
}

/// A try of a mutex gave `result`, which is given back.
///
/// # Safety
/// As [`mutex_wanted`].
pub unsafe fn mutex_tried(m: P, result: c_int, pc: u64) -> c_int {
    // SAFETY: only the address is noted.
    unsafe {
        if taken(result) {
            mutex_seen(m, pc);
            sync::locked_by_try(m as u64);
        } else {
            lock_seen(m, 4, RMW, pc);
            sync::tried(m as u64);
        }
    }
    result
}

/// A mutex is about to be given back.
///
/// # Safety
/// As [`mutex_wanted`].
pub unsafe fn mutex_given_back(m: P, pc: u64) {
    sections::releasing(m as u64);
    // SAFETY: only the address is noted.
    unsafe { mutex_seen(m, pc) };
    sync::unlocking(m as u64);
    sync::left(m as u64, pc);
}

/// # Safety
/// As `pthread_mutex_lock`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mutex_lock(m: P, pc: u64) -> c_int {
    // SAFETY: the arguments go on as they came.
    unsafe {
        unrecorded!(M_LOCK, (m => P) -> c_int);
        mutex_lock_recorded(m, pc)
    }
}

/// # Safety
/// As `pthread_mutex_lock`; `pc` is the return address of the call.
#[inline(never)]
unsafe extern "C" fn mutex_lock_recorded(m: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_mutex_lock` behind ours gets the arguments as they came; the recorder notes the address
    // of the lock or condition.
    unsafe {
        mutex_wanted(&M_LOCK, m, pc, || call!(M_LOCK, (m => P) -> c_int))
    }
}

/// # Safety
/// As `pthread_mutex_trylock`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mutex_trylock(m: P, pc: u64) -> c_int {
    // SAFETY: the arguments go on as they came.
    unsafe {
        unrecorded!(M_TRYLOCK, (m => P) -> c_int);
        mutex_trylock_recorded(m, pc)
    }
}

/// # Safety
/// As `pthread_mutex_trylock`; `pc` is the return address of the call.
#[inline(never)]
unsafe extern "C" fn mutex_trylock_recorded(m: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_mutex_trylock` behind ours gets the arguments as they came; the recorder notes the
    // address of the lock or condition.
    unsafe {
        mutex_tried(m, call!(M_TRYLOCK, (m => P) -> c_int), pc)
    }
}

/// # Safety
/// As `pthread_mutex_timedlock`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mutex_timedlock(m: P, t: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_mutex_timedlock` behind ours gets the arguments as they came; the recorder notes the
    // address of the lock or condition.
    unsafe {
        mutex_wanted(&M_TIMEDLOCK, m, pc, || call!(M_TIMEDLOCK, (m => P, t => P) -> c_int))
    }
}

/// # Safety
/// As `pthread_mutex_clocklock`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mutex_clocklock(m: P, c: c_int, t: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_mutex_clocklock` behind ours gets the arguments as they came; the recorder notes the
    // address of the lock or condition.
    unsafe {
        mutex_wanted(&M_CLOCKLOCK, m, pc, || call!(M_CLOCKLOCK, (m => P, c => c_int, t => P) -> c_int))
    }
}

/// # Safety
/// As `pthread_mutex_unlock`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mutex_unlock(m: P, pc: u64) -> c_int {
    // SAFETY: the arguments go on as they came.
    unsafe {
        unrecorded!(M_UNLOCK, (m => P) -> c_int);
        mutex_unlock_recorded(m, pc)
    }
}

/// # Safety
/// As `pthread_mutex_unlock`; `pc` is the return address of the call.
#[inline(never)]
unsafe extern "C" fn mutex_unlock_recorded(m: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_mutex_unlock` behind ours gets the arguments as they came; the recorder notes the address
    // of the lock or condition.
    unsafe {
        mutex_given_back(m, pc);
        call!(M_UNLOCK, (m => P) -> c_int)
    }
}

/// # Safety
/// As `pthread_mutex_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_mutex_destroy(m: P) -> c_int {
    sync::forget(m as u64);
    // SAFETY: the `pthread_mutex_destroy` behind ours gets the arguments as they came; the recorder notes the
    // address of the lock or condition.
    unsafe { call!(M_DESTROY, (m => P) -> c_int) }
}

macro_rules! rwlocks {
    ($($name:ident($next:ident, $shared:literal $(, $a:ident: $t:ty)*);)+) => { $(
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(l: P $(, $a: $t)*, pc: u64) -> c_int {
            // SAFETY: libc's functions get the program's arguments.
            unsafe {
                lock_seen(l, 4, RMW, pc);
                let r = call!($next, (l => P $(, $a => $t)*) -> c_int);
                if taken(r) {
                    sections::taken(l as u64, $shared);
                }
                r
            }
        }
    )+ };
}
rwlocks! {
    tussle_rw_rd(RW_RD, true);
    tussle_rw_tryrd(RW_TRYRD, true);
    tussle_rw_timedrd(RW_TIMEDRD, true, t: P);
    tussle_rw_clockrd(RW_CLOCKRD, true, c: c_int, t: P);
}

macro_rules! tries {
    ($($name:ident($next:ident);)+) => { $(
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(l: P, pc: u64) -> c_int {
            // SAFETY: libc's functions get the program's arguments.
            unsafe {
                lock_seen(l, 4, RMW, pc);
                let r = call!($next, (l => P) -> c_int);
                if taken(r) {
                    sync::locked_by_try(l as u64);
                } else {
                    sync::tried(l as u64);
                }
                r
            }
        }
    )+ };
}
tries! {
    tussle_rw_trywr(RW_TRYWR);
    tussle_spin_trylock(S_TRYLOCK);
}

macro_rules! wrlocks {
    ($($name:ident($next:ident, $try:ident, $free:ident $(, $a:ident: $t:ty)*);)+) => { $(
        /// # Safety
        /// Behind an exported name: the arguments are the program's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(l: P $(, $a: $t)*, pc: u64) -> c_int {
            // SAFETY: libc's functions get the program's arguments.
            unsafe {
                lock_seen(l, 4, RMW, pc);
                let try_it = || attempt(&$next, &$try, l, false, $free);
                lock(l, try_it, || call!($next, (l => P $(, $a => $t)*) -> c_int))
            }
        }
    )+ };
}
wrlocks! {
    tussle_rw_wr(RW_WR, RW_TRYWR, rwlock_is_free);
    tussle_rw_timedwr(RW_TIMEDWR, RW_TRYWR, rwlock_is_free, t: P);
    tussle_rw_clockwr(RW_CLOCKWR, RW_TRYWR, rwlock_is_free, c: c_int, t: P);
    tussle_spin_lock(S_LOCK, S_TRYLOCK, spin_is_free);
}

/// # Safety
/// As `pthread_rwlock_unlock`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_rw_unlock(l: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_rwlock_unlock` behind ours gets the arguments as they came; the recorder notes the
    // address of the lock or condition.
    unsafe {
        sections::releasing(l as u64);
        lock_seen(l, 4, RMW, pc);
        call!(RW_UNLOCK, (l => P) -> c_int)
    }
}

/// # Safety
/// As `pthread_spin_unlock`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_spin_unlock(l: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_spin_unlock` behind ours gets the arguments as they came; the recorder notes the address
    // of the lock or condition.
    unsafe {
        sections::releasing(l as u64);
        lock_seen(l, 4, WRITE, pc);
        sync::unlocking(l as u64);
        call!(S_UNLOCK, (l => P) -> c_int)
    }
}

/// # Safety
/// As `pthread_barrier_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_barrier_init(b: P, attr: P, count: u32) -> c_int {
    sync::barrier_init(b as u64, count as u64);
    // SAFETY: the `pthread_barrier_init` behind ours gets the arguments as they came; the recorder notes the address
    // of the lock or condition.
    unsafe { call!(B_INIT, (b => P, attr => P, count => u32) -> c_int) }
}

/// # Safety
/// As `pthread_barrier_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_barrier_destroy(b: P) -> c_int {
    // SAFETY: the `pthread_barrier_destroy` behind ours gets the arguments as they came; the recorder notes the
    // address of the lock or condition.
    unsafe {
        let r = call!(B_DESTROY, (b => P) -> c_int);
        sync::forget(b as u64);
        r
    }
}

/// # Safety
/// As `pthread_barrier_wait`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_barrier_wait(b: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_barrier_wait` behind ours gets the arguments as they came; the recorder notes the address
    // of the lock or condition.
    unsafe {
        seen(b, 4, RMW, pc);
        let generation = sync::barrier_arrive(b as u64);
        let r = call!(B_WAIT, (b => P) -> c_int);
        sync::barrier_leave(b as u64, generation);
        r
    }
}

stub! {
    "pthread_cond_wait" => "tussle_cond_wait", "rdx";
    "pthread_cond_timedwait" => "tussle_cond_timedwait", "rcx";
    "pthread_cond_clockwait" => "tussle_cond_clockwait", "r8";
    "pthread_cond_signal" => "tussle_cond_signal", "rsi";
    "pthread_cond_broadcast" => "tussle_cond_broadcast", "rsi";
    "sem_wait" => "tussle_sem_wait", "rsi";
    "sem_trywait" => "tussle_sem_trywait", "rsi";
    "sem_timedwait" => "tussle_sem_timedwait", "rdx";
    "sem_clockwait" => "tussle_sem_clockwait", "rcx";
    "sem_post" => "tussle_sem_post", "rsi";
}
alias! {
    "sched_yield" => "tussle_sched_yield";
    "pthread_cond_init" => "tussle_cond_init";
    "pthread_cond_destroy" => "tussle_cond_destroy";
}

/// # Safety
/// Behind an exported name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sched_yield() -> c_int {
    waits::yielding();
    // SAFETY: libc's function.
    unsafe { call!(YIELD, () -> c_int) }
}

/// # Safety
/// As `pthread_cond_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_init(c: P, attr: P) -> c_int {
    sync::forget(c as u64);
    // SAFETY: the `pthread_cond_init` behind ours gets the arguments as they came; the recorder notes the address of
    // the lock or condition.
    unsafe { call!(C_INIT, (c => P, attr => P) -> c_int) }
}

/// # Safety
/// As `pthread_cond_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_destroy(c: P) -> c_int {
    // SAFETY: the `pthread_cond_destroy` behind ours gets the arguments as they came; the recorder notes the address
    // of the lock or condition.
    unsafe { call!(C_DESTROY, (c => P) -> c_int) }
}

/// Waiting releases the mutex and takes it again.
///
/// # Safety
/// Condition and mutex are the program's.
#[inline(always)]
pub unsafe fn cond_wait(c: P, m: P, pc: u64, wait: impl Fn() -> c_int) -> c_int {
    // SAFETY: an address within the mutex, which is not looked at.
    unsafe {
        seen(c, 8, RMW, pc);
        sections::releasing(m as u64);
        sync::waiting_with(m as u64);
        mutex_seen(m, pc);
        sync::unlocking(m as u64);
        let seq = sync::cond_wait_begin(c as u64);
        let r = wait();
        sync::cond_wait_end(c as u64, seq, r == 0);
        sync::locked(m as u64, None);
        mutex_seen(m, pc);
        r
    }
}

/// # Safety
/// As `pthread_cond_wait`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_wait(c: P, m: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_cond_wait` behind ours gets the arguments as they came; the recorder notes the address of
    // the lock or condition.
    unsafe { cond_wait(c, m, pc, || call!(C_WAIT, (c => P, m => P) -> c_int)) }
}

/// # Safety
/// As `pthread_cond_timedwait`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_timedwait(c: P, m: P, t: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_cond_timedwait` behind ours gets the arguments as they came; the recorder notes the
    // address of the lock or condition.
    unsafe { cond_wait(c, m, pc, || call!(C_TIMEDWAIT, (c => P, m => P, t => P) -> c_int)) }
}

/// # Safety
/// As `pthread_cond_clockwait`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_clockwait(c: P, m: P, k: c_int, t: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_cond_clockwait` behind ours gets the arguments as they came; the recorder notes the
    // address of the lock or condition.
    unsafe { cond_wait(c, m, pc, || call!(C_CLOCKWAIT, (c => P, m => P, k => c_int, t => P) -> c_int)) }
}

/// # Safety
/// As `pthread_cond_signal`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_signal(c: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_cond_signal` behind ours gets the arguments as they came; the recorder notes the address
    // of the lock or condition.
    unsafe {
        seen(c, 8, RMW, pc);
        sync::cond_wake(c as u64, false);
        call!(C_SIGNAL, (c => P) -> c_int)
    }
}

/// # Safety
/// As `pthread_cond_broadcast`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_cond_broadcast(c: P, pc: u64) -> c_int {
    // SAFETY: the `pthread_cond_broadcast` behind ours gets the arguments as they came; the recorder notes the
    // address of the lock or condition.
    unsafe {
        seen(c, 8, RMW, pc);
        sync::cond_wake(c as u64, true);
        call!(C_BROADCAST, (c => P) -> c_int)
    }
}

/// Takes a semaphore if it is free, else waits; errno is left by whichever ran last, as the caller expects.
///
/// # Safety
/// `s` is a semaphore of the program.
#[inline(always)]
unsafe fn sem_wait(wanted: &Next, s: P, pc: u64, wait: impl Fn() -> c_int) -> c_int {
    // SAFETY: libc's functions get the program's arguments.
    unsafe {
        seen(s, 8, RMW, pc);
        if !recording() {
            return wait();
        }
        let errno = *__errno_location();
        let at_once = match are_systems(wanted, &SEM_TRYWAIT) {
            true => (call!(SEM_TRYWAIT, (s => P) -> c_int) == 0).then_some(0),
            false => semaphore_is_free(s).then(&wait),
        };
        if let Some(r) = at_once {
            if r == 0 {
                sync::sem_taken(s as u64, semaphore_is_free(s));
            }
            return r;
        }
        *__errno_location() = errno;
        let before = sync::sem_wait_begin(s as u64);
        let r = wait();
        if r == 0 {
            sync::sem_wait_end(s as u64, before, semaphore_is_free(s));
        }
        r
    }
}

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// # Safety
/// As `sem_wait`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sem_wait(s: P, pc: u64) -> c_int {
    // SAFETY: the `sem_wait` behind ours gets the arguments as they came; the recorder notes the address of the lock
    // or condition.
    unsafe { sem_wait(&SEM_WAIT, s, pc, || call!(SEM_WAIT, (s => P) -> c_int)) }
}

/// # Safety
/// As `sem_trywait`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sem_trywait(s: P, pc: u64) -> c_int {
    // SAFETY: the `sem_trywait` behind ours gets the arguments as they came; the recorder notes the address of the
    // lock or condition.
    unsafe {
        seen(s, 8, RMW, pc);
        let r = call!(SEM_TRYWAIT, (s => P) -> c_int);
        if r == 0 {
            sync::sem_taken(s as u64, semaphore_is_free(s));
        }
        r
    }
}

/// # Safety
/// As `sem_timedwait`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sem_timedwait(s: P, t: P, pc: u64) -> c_int {
    // SAFETY: the `sem_timedwait` behind ours gets the arguments as they came; the recorder notes the address of the
    // lock or condition.
    unsafe { sem_wait(&SEM_TIMEDWAIT, s, pc, || call!(SEM_TIMEDWAIT, (s => P, t => P) -> c_int)) }
}

/// # Safety
/// As `sem_clockwait`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sem_clockwait(s: P, c: c_int, t: P, pc: u64) -> c_int {
    // SAFETY: the `sem_clockwait` behind ours gets the arguments as they came; the recorder notes the address of the
    // lock or condition.
    unsafe { sem_wait(&SEM_CLOCKWAIT, s, pc, || call!(SEM_CLOCKWAIT, (s => P, c => c_int, t => P) -> c_int)) }
}

/// # Safety
/// As `sem_post`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sem_post(s: P, pc: u64) -> c_int {
    // SAFETY: the `sem_post` behind ours gets the arguments as they came; the recorder notes the address of the lock
    // or condition.
    unsafe {
        seen(s, 8, RMW, pc);
        sync::sem_post(s as u64);
        call!(SEM_POST, (s => P) -> c_int)
    }
}
