//! A process in tussle's process group that does nothing but get signals. What it has got, too, was sent to the whole
//! group, and so to the program: it must not get it a second time from tussle. Neither the kernel nor the signal tells.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};

/// Its process id and tussle's end of the line to it; 0 and -1 without one.
static PROCESS: AtomicI32 = AtomicI32::new(0);
static LINE: AtomicI32 = AtomicI32::new(-1);
/// One handler talks to it at a time.
static BUSY: AtomicBool = AtomicBool::new(false);

/// The process; ends with this value, and with tussle.
pub struct Sentinel {
    process: libc::pid_t,
    _line: OwnedFd,
}

impl Sentinel {
    /// Starts it; `None` if the system has no process for it.
    pub fn start() -> Option<Sentinel> {
        let (ours, its) = UnixDatagram::pair().ok()?;
        // SAFETY: system calls on plain data. The new process has one thread and makes nothing but system calls.
        let process = unsafe {
            let (mut all, mut was) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut was);
            let tussle = libc::getpid();
            let process = libc::fork();
            if process == 0 {
                stand(tussle, its.as_raw_fd(), ours.as_raw_fd());
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &was, std::ptr::null_mut());
            process
        };
        if process < 0 {
            return None;
        }
        LINE.store(ours.as_raw_fd(), Ordering::Relaxed);
        PROCESS.store(process, Ordering::Relaxed);
        Some(Sentinel { process, _line: ours.into() })
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        PROCESS.store(0, Ordering::Relaxed);
        LINE.store(-1, Ordering::Relaxed);
        // SAFETY: system calls; the process is ours and was not waited for.
        unsafe {
            libc::kill(self.process, libc::SIGKILL);
            while libc::waitpid(self.process, std::ptr::null_mut(), 0) < 0
                && *libc::__errno_location() == libc::EINTR
            {}
        }
    }
}

/// What the new process does: all signals stay pending, and those that tussle names are taken, one for one.
///
/// # Safety
/// All signals are blocked; called in a process of its own.
unsafe fn stand(tussle: libc::pid_t, line: i32, other_end: i32) -> ! {
    // SAFETY: system calls on plain data.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, c"tussle-sentinel".as_ptr());
        libc::close(other_end);
        let mut message = [0u8; 2];
        // tussle may have ended before it was asked to be told.
        while libc::getppid() == tussle && libc::read(line, message.as_mut_ptr().cast(), 2) == 2 {
            let mut one = std::mem::zeroed();
            libc::sigemptyset(&mut one);
            libc::sigaddset(&mut one, message[0].into());
            libc::sigtimedwait(&one, std::ptr::null_mut(), &std::mem::zeroed());
            libc::write(line, message.as_ptr().cast(), 2);
        }
        libc::_exit(0)
    }
}

/// Whether it got the signal that tussle just got. Async-signal-safe; all signals are blocked.
pub fn got(signal: i32) -> bool {
    const LOOKS: u32 = 5;
    let process = PROCESS.load(Ordering::Relaxed);
    if process == 0 {
        return false;
    }
    while BUSY.swap(true, Ordering::Acquire) {
        std::thread::yield_now();
    }
    // The kernel signals the newest of a group first, so it has it already. A service manager that signals one process
    // after the other may take its time.
    let found = (0..LOOKS).any(|look| {
        if look > 0 {
            nap();
        }
        is_pending(process, signal)
    });
    if found {
        take(signal);
    }
    BUSY.store(false, Ordering::Release);
    found
}

/// Who continued tussle alone meant the program; this one may have been stopped with them. Async-signal-safe.
pub fn continue_too() {
    let process = PROCESS.load(Ordering::Relaxed);
    if process != 0 {
        // SAFETY: a system call.
        unsafe { libc::kill(process, libc::SIGCONT) };
        got(libc::SIGCONT);
    }
}

fn nap() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    // SAFETY: a system call on plain data.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

/// Lets it take a pending signal, and waits until it did; not for ever, as it may be stopped.
fn take(signal: i32) {
    const PATIENCE_MS: i32 = 2000;
    static ASKED: AtomicU8 = AtomicU8::new(0);
    let line = LINE.load(Ordering::Relaxed);
    let number = ASKED.fetch_add(1, Ordering::Relaxed);
    let mut message = [signal as u8, number];
    let mut answer = libc::pollfd { fd: line, events: libc::POLLIN, revents: 0 };
    // SAFETY: system calls on plain data.
    unsafe {
        libc::send(line, message.as_ptr().cast(), 2, libc::MSG_NOSIGNAL);
        // Answers with other numbers came too late.
        while libc::poll(&mut answer, 1, PATIENCE_MS) == 1
            && libc::recv(line, message.as_mut_ptr().cast(), 2, libc::MSG_DONTWAIT) == 2
            && message[1] != number
        {}
    }
}

/// By `ShdPnd` of `/proc/N/status`: the signals that the process as a whole has not taken.
fn is_pending(process: libc::pid_t, signal: i32) -> bool {
    let mut room = [0u8; 4096];
    let Some(text) = told_of(process, "status", &mut room) else { return false };
    const NAME: &[u8] = b"\nShdPnd:\t";
    let at = text.windows(NAME.len()).position(|w| w == NAME);
    let digits = at.and_then(|at| text.get(at + NAME.len()..at + NAME.len() + 16));
    let set = digits.and_then(|d| u64::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok());
    set.is_some_and(|set| set >> (signal - 1) & 1 == 1)
}

/// What `/proc/N/FILE` says of a process; `None` if it is gone. Async-signal-safe: no allocation.
pub fn told_of<'a>(process: libc::pid_t, file: &str, room: &'a mut [u8]) -> Option<&'a [u8]> {
    use std::io::Write;
    let mut path = [0u8; 40];
    write!(&mut path[..39], "/proc/{process}/{file}").ok()?;
    // SAFETY: the path ends with a zero; the kernel fills a buffer of ours; the descriptor is ours.
    let n = unsafe {
        let fd = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        let n = if fd < 0 { -1 } else { libc::read(fd, room.as_mut_ptr().cast(), room.len()) };
        if fd >= 0 {
            libc::close(fd);
        }
        n
    };
    room.get(..usize::try_from(n).ok()?)
}
