//! Starting the program so that it does not notice: same terminal, same signals, addresses not randomised.

use super::RecordOptions;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

/// How the program ended.
pub struct End {
    /// Its process id.
    pub pid: u32,
    status: ExitStatus,
}

impl End {
    /// As a shell shows it.
    pub fn status(&self) -> u8 {
        match (self.status.code(), self.status.signal()) {
            (Some(c), _) => c as u8,
            (None, Some(s)) => 128u8.wrapping_add(s as u8),
            (None, None) => 125,
        }
    }

    /// For people: `exited 3`, `killed by signal 11`.
    pub fn text(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(0), _) => "exited".into(),
            (Some(c), _) => format!("exited {c}"),
            (None, Some(s)) => format!("killed by signal {s}"),
            (None, None) => "ended".into(),
        }
    }
}

/// The program that signals are passed on to.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// Signals that are passed on.
const FORWARDED: [i32; 8] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
    libc::SIGWINCH,
];

extern "C" fn forward(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let child = CHILD.load(Ordering::Relaxed);
    // SAFETY: the kernel passes a valid siginfo. Signals of the terminal reach the program by themselves.
    let from_user = unsafe { !info.is_null() && (*info).si_code <= 0 };
    if child > 0 && from_user {
        // SAFETY: kill is async-signal-safe.
        unsafe { libc::kill(child, signal) };
    }
}

/// Signal handling while the program runs; restores what was before.
struct Forwarding(Vec<(i32, libc::sigaction)>);

impl Forwarding {
    fn start() -> Forwarding {
        let mut old = Vec::new();
        for s in FORWARDED {
            // SAFETY: plain data; the handler only calls kill.
            unsafe {
                let mut new: libc::sigaction = std::mem::zeroed();
                let mut was: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = forward as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                // A signal that is ignored (nohup) stays ignored, here and in the program.
                if libc::sigaction(s, std::ptr::null(), &mut was) == 0
                    && was.sa_sigaction != libc::SIG_IGN
                    && libc::sigaction(s, &new, std::ptr::null_mut()) == 0
                {
                    old.push((s, was));
                }
            }
        }
        Forwarding(old)
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        CHILD.store(0, Ordering::Relaxed);
        for (s, was) in &self.0 {
            // SAFETY: restores an action that sigaction returned.
            unsafe { libc::sigaction(*s, was, std::ptr::null_mut()) };
        }
    }
}

/// Runs the program to its end.
pub fn run(program: &Path, o: &RecordOptions, env: &[(OsString, OsString)]) -> std::io::Result<End> {
    let mut c = Command::new(program);
    if let Some((name, args)) = o.command.split_first() {
        c.arg0(name).args(args);
    }
    if let Some(f) = &o.folder {
        c.current_dir(f);
    }
    if o.discard_stdout {
        c.stdout(std::process::Stdio::null());
    }
    c.envs(env.iter().map(|(k, v)| (k, v)));
    // SAFETY: personality is a system call without memory effects.
    unsafe {
        c.pre_exec(|| {
            let now = libc::personality(0xffff_ffff);
            if now >= 0 {
                libc::personality(now as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            }
            Ok(())
        });
    }
    let forwarding = Forwarding::start();
    let mut child = c.spawn()?;
    CHILD.store(child.id() as i32, Ordering::Relaxed);
    let status = child.wait()?;
    drop(forwarding);
    Ok(End { pid: child.id(), status })
}
