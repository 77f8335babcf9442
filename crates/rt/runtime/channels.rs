//! What goes through the kernel from one thread or process to another: event counters, System V semaphores and queues,
//! POSIX queues, signals. Reading and writing as such are in `memory` and `vectors`.

use crate::arch::{alias, stub};
use crate::arena::recording;
use crate::events::channels::{self, Channel, To};
use crate::interpose::P;
use crate::libc_calls::{call, next_all};
use crate::sys::peek;
use crate::wire::*;
use crate::record;
use core::ffi::{c_int, c_long};

next_all! {
    ALL:
    EVENTFD_READ = "eventfd_read"; EVENTFD_WRITE = "eventfd_write"; SOCKETPAIR = "socketpair";
    EVENTFD = "eventfd"; SIGNALFD = "signalfd"; TIMERFD = "timerfd_create"; EPOLL = "epoll_create1";
    SEMOP = "semop"; SEMTIMEDOP = "semtimedop"; MSGSND = "msgsnd"; MSGRCV = "msgrcv";
    MQ_SEND = "mq_send"; MQ_TIMEDSEND = "mq_timedsend"; MQ_RECEIVE = "mq_receive"; MQ_TIMEDRECEIVE = "mq_timedreceive";
    PTHREAD_KILL = "pthread_kill"; PTHREAD_SIGQUEUE = "pthread_sigqueue"; TGKILL = "tgkill"; KILL = "kill";
    SIGQUEUE = "sigqueue"; SIGWAIT = "sigwait"; SIGWAITINFO = "sigwaitinfo"; SIGTIMEDWAIT = "sigtimedwait";
}

/// Looks up what may be called in handlers.
pub fn resolve() {
    for n in ALL {
        n.find();
    }
}

stub! {
    "eventfd_read" => "tussle_eventfd_read", "rdx";
    "msgsnd" => "tussle_msgsnd", "r8";
    "msgrcv" => "tussle_msgrcv", "r9";
    "mq_send" => "tussle_mq_send", "r8";
    "mq_timedsend" => "tussle_mq_timedsend", "r9";
    "mq_receive" => "tussle_mq_receive", "r8";
    "mq_timedreceive" => "tussle_mq_timedreceive", "r9";
}
alias! {
    "eventfd_write" => "tussle_eventfd_write";
    "socketpair" => "tussle_socketpair";
    "eventfd" => "tussle_eventfd";
    "signalfd" => "tussle_signalfd";
    "timerfd_create" => "tussle_timerfd_create";
    "epoll_create1" => "tussle_epoll_create1";
    "semop" => "tussle_semop";
    "semtimedop" => "tussle_semtimedop";
    "pthread_kill" => "tussle_pthread_kill";
    "pthread_sigqueue" => "tussle_pthread_sigqueue";
    "tgkill" => "tussle_tgkill";
    "kill" => "tussle_kill";
    "sigqueue" => "tussle_sigqueue";
    "sigwait" => "tussle_sigwait";
    "sigwaitinfo" => "tussle_sigwaitinfo";
    "sigtimedwait" => "tussle_sigtimedwait";
}

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// `MSG_DONTWAIT`.
const AT_ONCE: c_int = 0x40;

/// Reads by `read`, which says how many bytes came to `p` (0 for several places).
pub fn reading(fd: c_int, flags: c_int, p: u64, read: impl FnOnce() -> isize) -> isize {
    /// `struct signalfd_siginfo`, whose first word is the signal.
    const SIGNAL_BYTES: isize = 128;
    let at = if flags & AT_ONCE == 0 { channels::waits_at(fd) } else { 0 };
    let r = read();
    if r >= 0 {
        channels::goes_on(at);
    }
    if r > 0 {
        // SAFETY: the kernel has just written there.
        let signal = || if r >= SIGNAL_BYTES && p != 0 { unsafe { (p as *const u32).read_unaligned() } } else { 0 };
        channels::reads(fd, signal);
    }
    r
}

/// Before something is written to a descriptor.
pub fn writing(fd: c_int) {
    channels::sends(Channel::Descriptor(fd));
}

/// # Safety
/// As `eventfd_read`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_eventfd_read(fd: c_int, p: P, pc: u64) -> c_int {
    // SAFETY: the arguments go on as they came.
    unsafe {
        let mut r = -1;
        reading(fd, 0, 0, || {
            r = call!(EVENTFD_READ, (fd => c_int, p => P) -> c_int);
            if r == 0 { 8 } else { -1 }
        });
        if r == 0 {
            record::range(p as u64, 8, WRITE, pc);
        }
        r
    }
}

/// # Safety
/// As `eventfd_write`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_eventfd_write(fd: c_int, n: u64) -> c_int {
    writing(fd);
    // SAFETY: the arguments go on as they came.
    unsafe { call!(EVENTFD_WRITE, (fd => c_int, n => u64) -> c_int) }
}

/// # Safety
/// As `socketpair`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut [c_int; 2]) -> c_int {
    // SAFETY: the arguments go on as they came; the kernel wrote what is read.
    unsafe {
        type C = c_int;
        let r = call!(SOCKETPAIR, (domain => C, kind => C, protocol => C, fds => *mut [C; 2]) -> C);
        if r == 0 {
            channels::paired(fds.read_unaligned());
        }
        r
    }
}

/// # Safety
/// As `eventfd`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_eventfd(first: u32, flags: c_int) -> c_int {
    // SAFETY: the arguments go on as they came.
    made(unsafe { call!(EVENTFD, (first => u32, flags => c_int) -> c_int) })
}

/// # Safety
/// As `signalfd`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_signalfd(fd: c_int, mask: P, flags: c_int) -> c_int {
    // SAFETY: the arguments go on as they came.
    made(unsafe { call!(SIGNALFD, (fd => c_int, mask => P, flags => c_int) -> c_int) })
}

/// # Safety
/// As `timerfd_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_timerfd_create(clock: c_int, flags: c_int) -> c_int {
    // SAFETY: the arguments go on as they came.
    made(unsafe { call!(TIMERFD, (clock => c_int, flags => c_int) -> c_int) })
}

/// # Safety
/// As `epoll_create1`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_epoll_create1(flags: c_int) -> c_int {
    // SAFETY: the arguments go on as they came.
    made(unsafe { call!(EPOLL, (flags => c_int) -> c_int) })
}

/// Nothing is known of a descriptor that was just made.
fn made(fd: c_int) -> c_int {
    channels::made(fd);
    fd
}

/// `struct sembuf`.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Operation {
    number: u16,
    by: i16,
    flags: i16,
}

/// `IPC_NOWAIT`, and an error that says that something would have to be waited for.
const NOWAIT: c_int = 0o4000;
const EAGAIN: c_int = 11;
const ENOMSG: c_int = 42;
/// Operations of one call that are looked at.
const OPERATIONS: usize = 16;

/// A call that may wait: made so that it fails instead, and if it does, made `for_good`.
///
/// # Safety
/// None: `errno` is the calling thread's.
unsafe fn try_first<R: Into<i64> + Copy>(
    channel: Channel,
    would_wait: c_int,
    tries: impl FnOnce() -> R,
    for_good: impl FnOnce() -> R,
) -> R {
    // SAFETY: libc's function.
    let errno = unsafe { __errno_location() };
    // SAFETY: the word is there.
    let before = unsafe { *errno };
    let r = tries();
    // SAFETY: as before.
    if r.into() >= 0 || unsafe { *errno } != would_wait {
        return r;
    }
    // SAFETY: as before.
    unsafe { *errno = before };
    let at = channels::waits(channel);
    let r = for_good();
    if r.into() >= 0 {
        channels::goes_on(at);
    }
    r
}

/// # Safety
/// The arguments are those of `semop`; `go` calls it, or its like, with other operations.
unsafe fn operate(id: c_int, given: *const Operation, n: usize, go: impl Fn(*const Operation) -> c_int) -> c_int {
    let mut all = [Operation { number: 0, by: 0, flags: 0 }; OPERATIONS];
    if !recording() || n > OPERATIONS {
        return go(given);
    }
    for (k, o) in all.iter_mut().enumerate().take(n) {
        // SAFETY: three numbers.
        let Some(there) = (unsafe { peek(given.wrapping_add(k) as u64) }) else { return go(given) };
        *o = there;
    }
    let of = |o: &Operation| if o.by == 0 { Channel::Zero(id, o.number) } else { Channel::Semaphore(id, o.number) };
    for o in all.iter().take(n).filter(|o| o.by != 0) {
        // Who takes what is left lets those go on who wait for nothing to be left.
        channels::sends(if o.by > 0 { of(o) } else { Channel::Zero(id, o.number) });
    }
    let waits = |o: &&Operation| o.by <= 0 && c_int::from(o.flags) & NOWAIT == 0;
    let r = match all.iter().take(n).find(waits).copied() {
        Some(first) if SEMOP.is_systems() => {
            all.iter_mut().take(n).for_each(|o| o.flags |= NOWAIT as i16);
            // SAFETY: it has no precondition.
            unsafe { try_first(of(&first), EAGAIN, || go(all.as_ptr()), || go(given)) }
        }
        _ => go(given),
    };
    if r == 0 {
        all.iter().take(n).filter(|o| o.by <= 0).for_each(|o| channels::receives(of(o)));
    }
    r
}

/// # Safety
/// As `semop`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_semop(id: c_int, given: P, n: usize) -> c_int {
    type O = *const Operation;
    // SAFETY: the arguments go on as they came.
    unsafe { operate(id, given.cast(), n, |o| call!(SEMOP, (id => c_int, o => O, n => usize) -> c_int)) }
}

/// # Safety
/// As `semtimedop`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_semtimedop(id: c_int, given: P, n: usize, t: P) -> c_int {
    type O = *const Operation;
    let go = |o: O| {
        // SAFETY: the arguments go on as they came.
        unsafe { call!(SEMTIMEDOP, (id => c_int, o => O, n => usize, t => P) -> c_int) }
    };
    // SAFETY: as the caller.
    unsafe { operate(id, given.cast(), n, go) }
}

/// # Safety
/// As `msgsnd`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_msgsnd(id: c_int, p: P, n: usize, flags: c_int, pc: u64) -> c_int {
    // SAFETY: the arguments go on as they came.
    unsafe {
        if recording() && let Some(kind) = peek::<i64>(p as u64) {
            channels::sends_message(id, kind);
        }
        let r = call!(MSGSND, (id => c_int, p => P, n => usize, flags => c_int) -> c_int);
        if r == 0 {
            record::range(p as u64, n.saturating_add(8) as u64, READ, pc);
        }
        r
    }
}

/// # Safety
/// As `msgrcv`; `pc` is the return address of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_msgrcv(id: c_int, p: P, n: usize, kind: c_long, flags: c_int, pc: u64) -> isize {
    /// `MSG_EXCEPT`: any other type.
    const EXCEPT: c_int = 0o20000;
    // SAFETY: the arguments go on as they came; the kernel wrote what is noted.
    unsafe {
        let go = |flags: c_int| {
            type L = c_long;
            call!(MSGRCV, (id => c_int, p => P, n => usize, kind => L, flags => c_int) -> isize) as i64
        };
        let one = if flags & EXCEPT == 0 { kind.max(0) } else { 0 };
        let channel = Channel::Messages(id, one);
        let r = match recording() && flags & NOWAIT == 0 && MSGRCV.is_systems() {
            true => try_first(channel, ENOMSG, || go(flags | NOWAIT), || go(flags)),
            false => go(flags),
        };
        if r >= 0 {
            channels::receives(channel);
            record::range(p as u64, r as u64 + 8, WRITE, pc);
        }
        r as isize
    }
}

macro_rules! queues {
    ($($sends:ident, $next_send:ident, $receives:ident, $next_receive:ident, ($($t:ident: $of:ty)?);)+) => { $(
        /// # Safety
        /// As the function that this stands in front of; `pc` is the return address of the call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $sends(q: c_int, p: P, n: usize, first: u32, $($t: $of,)? pc: u64) -> c_int {
            // SAFETY: the arguments go on as they came.
            unsafe {
                channels::sends(Channel::Queue(q));
                let r = call!($next_send, (q => c_int, p => P, n => usize, first => u32 $(, $t => $of)?) -> c_int);
                if r == 0 {
                    record::range(p as u64, n as u64, READ, pc);
                }
                r
            }
        }
        /// # Safety
        /// As the function that this stands in front of; `pc` is the return address of the call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $receives(q: c_int, p: P, n: usize, first: P, $($t: $of,)? pc: u64) -> isize {
            // SAFETY: the arguments go on as they came; the kernel wrote what is noted.
            unsafe {
                let at = channels::waits_at_queue(q);
                let r = call!($next_receive, (q => c_int, p => P, n => usize, first => P $(, $t => $of)?) -> isize);
                if r >= 0 {
                    channels::goes_on(at);
                    channels::receives(Channel::Queue(q));
                    record::range(p as u64, r as u64, WRITE, pc);
                }
                r
            }
        }
    )+ };
}
queues! {
    tussle_mq_send, MQ_SEND, tussle_mq_receive, MQ_RECEIVE, ();
    tussle_mq_timedsend, MQ_TIMEDSEND, tussle_mq_timedreceive, MQ_TIMEDRECEIVE, (t: P);
}

/// Before a signal is sent; 0 only asks whether that may be done.
fn signals(to: To, signal: c_int) {
    if signal > 0 {
        channels::signals(to, signal as u32);
    }
}

/// # Safety
/// As `pthread_kill`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_kill(thread: u64, signal: c_int) -> c_int {
    signals(To::Pointer(thread), signal);
    // SAFETY: the arguments go on as they came.
    unsafe { call!(PTHREAD_KILL, (thread => u64, signal => c_int) -> c_int) }
}

/// # Safety
/// As `pthread_sigqueue`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_pthread_sigqueue(thread: u64, signal: c_int, value: u64) -> c_int {
    signals(To::Pointer(thread), signal);
    // SAFETY: the arguments go on as they came.
    unsafe { call!(PTHREAD_SIGQUEUE, (thread => u64, signal => c_int, value => u64) -> c_int) }
}

/// # Safety
/// As `tgkill`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_tgkill(process: c_int, thread: c_int, signal: c_int) -> c_int {
    signals(To::Thread(thread as u32), signal);
    // SAFETY: the arguments go on as they came.
    unsafe { call!(TGKILL, (process => c_int, thread => c_int, signal => c_int) -> c_int) }
}

/// Before a process is sent a signal; groups are left out.
fn signals_process(process: c_int, signal: c_int) {
    if process > 0 {
        signals(To::Process(process as u32), signal);
    }
}

/// # Safety
/// As `kill`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_kill(process: c_int, signal: c_int) -> c_int {
    signals_process(process, signal);
    // SAFETY: the arguments go on as they came.
    unsafe { call!(KILL, (process => c_int, signal => c_int) -> c_int) }
}

/// # Safety
/// As `sigqueue`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sigqueue(process: c_int, signal: c_int, value: u64) -> c_int {
    signals_process(process, signal);
    // SAFETY: the arguments go on as they came.
    unsafe { call!(SIGQUEUE, (process => c_int, signal => c_int, value => u64) -> c_int) }
}

/// Waits for one of several signals by `wait`, which says which came: not positive if none did.
fn for_signals(set: u64, wait: impl FnOnce() -> c_int) {
    // SAFETY: a number.
    let mask = if recording() { unsafe { peek::<u64>(set) } } else { None };
    let at = mask.map_or(0, channels::waits_for_signals);
    let signal = wait();
    if signal > 0 {
        channels::goes_on(at);
        channels::receives_signal(signal as u32);
    }
}

/// # Safety
/// As `sigwait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sigwait(set: u64, signal: *mut c_int) -> c_int {
    let mut r = 0;
    // SAFETY: the arguments go on as they came; libc has written the signal.
    for_signals(set, || unsafe {
        r = call!(SIGWAIT, (set => u64, signal => *mut c_int) -> c_int);
        if r == 0 { *signal } else { 0 }
    });
    r
}

/// # Safety
/// As `sigwaitinfo`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sigwaitinfo(set: u64, info: P) -> c_int {
    let mut r = 0;
    // SAFETY: the arguments go on as they came.
    for_signals(set, || unsafe {
        r = call!(SIGWAITINFO, (set => u64, info => P) -> c_int);
        r
    });
    r
}

/// # Safety
/// As `sigtimedwait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_sigtimedwait(set: u64, info: P, t: P) -> c_int {
    let mut r = 0;
    // SAFETY: the arguments go on as they came.
    for_signals(set, || unsafe {
        r = call!(SIGTIMEDWAIT, (set => u64, info => P, t => P) -> c_int);
        r
    });
    r
}
