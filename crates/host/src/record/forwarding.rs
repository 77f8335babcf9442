//! Signals for the program that reach tussle in its place: passed on, once.

use super::sentinel::{self, Sentinel};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The program that signals are passed on to.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// The program has a process group of its own, which signals of the terminal do not reach.
static APART: AtomicBool = AtomicBool::new(false);

/// Signals that are passed on: all that would end or concern the program if it stood in tussle's place. Not those that
/// tussle's own instructions and files raise, nor those that stop and those of children.
fn forwarded() -> impl Iterator<Item = i32> {
    use libc::*;
    let named = [
        SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH, SIGALRM, SIGVTALRM, SIGPROF,
        SIGIO, SIGPWR, SIGSTKFLT, SIGXCPU,
    ];
    named.into_iter().chain(SIGRTMIN()..=SIGRTMAX())
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the thread's own errno; the kernel passes a valid siginfo.
    unsafe {
        let errno = *libc::__errno_location();
        forward(signal, info.as_ref());
        *libc::__errno_location() = errno;
    }
}

/// Passes a signal on unless it reached the program by itself: all of the process group got it, or the terminal's.
fn forward(signal: i32, info: Option<&libc::siginfo_t>) {
    // Asked first and always: the answer is used up.
    let reached = sentinel::got(signal);
    if super::counting::toggled_by(signal) {
        return;
    }
    let child = CHILD.load(Ordering::Relaxed);
    // SAFETY: signals of processes have their numbers.
    let sender = info.filter(|i| i.si_code <= 0).map(|i| unsafe { i.si_pid() });
    let apart = APART.load(Ordering::Relaxed);
    let meant = sender.is_some_and(|s| !reached && !descends(s, child));
    if child > 0 && (apart || meant) {
        // SAFETY: kill is async-signal-safe.
        unsafe { libc::kill(child, signal) };
        if signal == libc::SIGCONT {
            sentinel::continue_too();
        }
    }
    crate::interrupted::note(signal, info);
}

/// Whether `process` is `ancestor`, or comes of it: what the program sends to its own process group reaches tussle,
/// too, and must not come back to it a second time. Async-signal-safe.
pub(crate) fn descends(mut process: libc::pid_t, ancestor: libc::pid_t) -> bool {
    const GENERATIONS_MAX: usize = 64;
    for _ in 0..GENERATIONS_MAX {
        if process == ancestor {
            return true;
        }
        match parent(process) {
            Some(p) if p > 1 => process = p,
            _ => return false,
        }
    }
    false
}

/// The parent of a process by `/proc/N/stat`; `None` if it is gone. Async-signal-safe.
fn parent(process: libc::pid_t) -> Option<libc::pid_t> {
    let mut room = [0u8; 512];
    let text = sentinel::told_of(process, "stat", &mut room)?;
    // The name may contain anything; behind its last bracket come the state and the parent.
    let behind = text.get(text.iter().rposition(|b| *b == b')')? + 1..)?;
    std::str::from_utf8(behind).ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// Signal handling while the program runs; restores what was before.
pub struct Forwarding {
    old: Vec<(i32, libc::sigaction)>,
    _sentinel: Option<Sentinel>,
}

impl Forwarding {
    /// From now on; `apart`: the program has a process group of its own, where tussle's signals do not come.
    pub fn start(apart: bool) -> Forwarding {
        APART.store(apart, Ordering::Relaxed);
        let sentinel = if apart { None } else { Sentinel::start() };
        let mut old = Vec::new();
        for s in forwarded() {
            // SAFETY: plain data; the handler is async-signal-safe.
            unsafe {
                let mut new: libc::sigaction = std::mem::zeroed();
                let mut was: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = on_signal as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigfillset(&mut new.sa_mask);
                // A signal that is ignored (nohup) stays ignored, here and in the program.
                if libc::sigaction(s, std::ptr::null(), &mut was) == 0
                    && was.sa_sigaction != libc::SIG_IGN
                    && libc::sigaction(s, &new, std::ptr::null_mut()) == 0
                {
                    old.push((s, was));
                }
            }
        }
        Forwarding { old, _sentinel: sentinel }
    }

    /// To this program.
    pub fn to(&self, process: u32) {
        CHILD.store(process as i32, Ordering::Relaxed);
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        CHILD.store(0, Ordering::Relaxed);
        for (s, was) in &self.old {
            // SAFETY: restores an action that sigaction returned.
            unsafe { libc::sigaction(*s, was, std::ptr::null_mut()) };
        }
    }
}
