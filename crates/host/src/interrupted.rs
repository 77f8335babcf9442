//! Long work that somebody ends (Ctrl-C, SIGTERM, SIGHUP): it tells how far it came, what it started ends with it, and
//! no temporary folder stays behind.

use crate::record::descends;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Signals by which work is ended.
const SIGNALS: [(i32, &str); 4] = [
    (libc::SIGINT, "SIGINT"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGHUP, "SIGHUP"),
    // Whoever read what we say has left.
    (libc::SIGPIPE, "SIGPIPE"),
];

/// How long what we started may take to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Attempts to remove a folder.
const REMOVALS_MAX: u32 = 10;

/// Where the handler writes the signal; -1 where nobody heeds.
static PIPE: AtomicI32 = AtomicI32::new(-1);
static ENDED: AtomicBool = AtomicBool::new(false);
/// Asked twice: what was started is not waited for, but no folder stays behind.
static HURRY: AtomicBool = AtomicBool::new(false);
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Shared while a process is being started; who ends us takes it for good.
static STARTS: RwLock<()> = RwLock::new(());

/// Starts a process, unless we are being ended: then this never returns. A loop that starts one program after another
/// would otherwise start one behind the back of who looks for those that are left.
///
/// # Errors
/// As [`Command::spawn`].
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let _starts = STARTS.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// [`Command::output`] by [`spawn`]; there is nothing on standard input.
///
/// # Errors
/// As [`Command::output`].
pub fn output(command: &mut Command) -> io::Result<Output> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    spawn(command)?.wait_with_output()
}

/// A temporary folder that goes with us.
pub fn goes(folder: &Path) {
    if let Ok(mut folders) = FOLDERS.lock() {
        folders.push(folder.to_path_buf());
    }
    if ENDED.load(Ordering::Relaxed) {
        // Too late for who ends us, perhaps.
        remove(folder);
        hold();
    }
}

/// What was just killed may still put files there.
fn remove(folder: &Path) {
    for _ in 0..REMOVALS_MAX {
        match fs::remove_dir_all(folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => std::thread::sleep(Duration::from_millis(20)),
            _ => return,
        }
    }
}

/// From now on one of these signals lets `tell` speak (it is given the signal's name), ends what was started and then
/// this process, by that signal. A second one waits for nothing that was started; a third one ends it at once. What is
/// ignored stays ignored.
///
/// # Errors
/// No pipe, or no thread.
pub fn heed(tell: impl FnOnce(&str) + Send + 'static) -> io::Result<()> {
    let (mut read, write) = io::pipe()?;
    let write: OwnedFd = write.into();
    std::thread::Builder::new().name("interrupted".into()).spawn(move || {
        let mut signal = [0u8];
        if read.read_exact(&mut signal).is_err() {
            return;
        }
        let signal = i32::from(signal[0]);
        // Who writes to a reader that has left keeps the others from writing.
        if signal != libc::SIGPIPE {
            tell(SIGNALS.iter().find(|(s, _)| *s == signal).map_or("a signal", |(_, name)| name));
        }
        // Kept until this process is gone.
        let _starts = STARTS.write();
        end_all();
        let folders = FOLDERS.lock().map(|f| f.clone()).unwrap_or_default();
        for folder in folders {
            remove(&folder);
        }
        // SAFETY: default action, then the signal: this process ends by it.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::kill(libc::getpid(), signal);
        }
    })?;
    PIPE.store(write.as_raw_fd(), Ordering::Relaxed);
    // For the rest of the process.
    std::mem::forget(write);
    for (signal, _) in SIGNALS {
        // SAFETY: plain data; the handler is async-signal-safe.
        unsafe {
            let mut new: libc::sigaction = std::mem::zeroed();
            let mut was: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = on_signal as *const () as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            if libc::sigaction(signal, std::ptr::null(), &mut was) == 0 && was.sa_sigaction != libc::SIG_IGN {
                libc::sigaction(signal, &new, std::ptr::null_mut());
            }
        }
    }
    Ok(())
}

/// Somebody's last words are ready for who ends us.
pub fn is_heeded() -> bool {
    PIPE.load(Ordering::Relaxed) >= 0
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the thread's own errno; the kernel passes a valid siginfo.
    unsafe {
        let errno = *libc::__errno_location();
        note(signal, info.as_ref());
        // The signal is the writing thread's own, which would go on meanwhile and make new folders.
        while signal == libc::SIGPIPE {
            libc::pause();
        }
        *libc::__errno_location() = errno;
    }
}

/// Somebody wants us to end; not what we started, which may signal its whole group. Async-signal-safe.
pub(crate) fn note(signal: i32, info: Option<&libc::siginfo_t>) {
    let pipe = PIPE.load(Ordering::Relaxed);
    if pipe < 0 || !SIGNALS.iter().any(|(s, _)| *s == signal) {
        return;
    }
    // SAFETY: signals of processes have their numbers; calls that may be made in a handler; the descriptor stays open.
    unsafe {
        if signal == libc::SIGPIPE {
            // Other threads find no reader either, and must not end us before all is put away.
            libc::signal(signal, libc::SIG_IGN);
        }
        let sender = info.filter(|i| i.si_code <= 0).map(|i| i.si_pid());
        let us = libc::getpid();
        if sender.is_some_and(|s| s != us && descends(s, us)) {
            return;
        }
        if ENDED.swap(true, Ordering::Relaxed) && HURRY.swap(true, Ordering::Relaxed) {
            libc::signal(signal, libc::SIG_DFL);
            libc::kill(us, signal);
            return;
        }
        // Of the first one; another finds nobody who reads.
        let byte = [signal as u8];
        libc::write(pipe, byte.as_ptr().cast(), 1);
    }
}

/// Where we are being ended, waits for it: what goes wrong now is of no interest.
pub fn hold() {
    while ENDED.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Asks all descendants to end, and kills those that do not; who was killed is gone soon.
fn end_all() {
    let begin = Instant::now();
    let mut asked: Vec<i32> = Vec::new();
    loop {
        let left = descendants();
        if left.is_empty() || begin.elapsed() >= 2 * PATIENCE {
            return;
        }
        let late = HURRY.load(Ordering::Relaxed) || begin.elapsed() >= PATIENCE;
        for pid in left {
            let signal = if late { libc::SIGKILL } else { libc::SIGTERM };
            if late || !asked.contains(&pid) {
                // SAFETY: a plain system call; the process was a descendant a moment ago.
                unsafe { libc::kill(pid, signal) };
                asked.push(pid);
            }
        }
        std::thread::sleep(Duration::from_millis(if late { 1 } else { 20 }));
    }
}

/// Processes that come of this one and have not ended.
fn descendants() -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name may contain anything; behind its last bracket come the state and the parent.
        let mut behind = stat.rsplit(')').next().unwrap_or("").split_whitespace();
        let (state, parent) = (behind.next(), behind.next().and_then(|p| p.parse().ok()));
        if let Some(parent) = parent.filter(|_| !matches!(state, Some("Z" | "X"))) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut out = vec![std::process::id() as i32];
    let mut at = 0;
    while let Some(pid) = out.get(at) {
        out.extend(children.remove(pid).unwrap_or_default());
        at += 1;
    }
    out.split_off(1)
}
