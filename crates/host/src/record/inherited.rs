//! What this process was given and cannot keep for itself. Rust's runtime opens `/dev/null` where a standard descriptor
//! was closed, and ignores SIGPIPE; who ignores SIGCHLD cannot wait for a child. Its map of the environment has neither
//! order nor names that come twice. The program gets what was given.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One bit per closed standard descriptor, and from [`IGNORED`] on per signal of [`OWN`] that was ignored.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// Signals that this process does not ignore, although it may have been told to.
const OWN: [i32; 2] = [libc::SIGPIPE, libc::SIGCHLD];
/// The first bit of those that were ignored.
const IGNORED: u32 = 8;

extern "C" fn look() {
    // SAFETY: system calls before anything else runs; the kernel fills plain data.
    unsafe {
        let mut seen =
            (0..3).filter(|fd| libc::fcntl(*fd, libc::F_GETFD) < 0).fold(0, |all, fd| all | 1 << fd);
        for (i, signal) in OWN.into_iter().enumerate() {
            let mut was: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut was) == 0 && was.sa_sigaction == libc::SIG_IGN {
                seen |= 1 << (IGNORED + i as u32);
            }
            libc::signal(signal, libc::SIG_DFL);
        }
        GIVEN.store(seen, Relaxed);
    }
}

/// Called by the loader, before Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Gives `c` what this process was given. Descriptors that `c` redirects itself are in `redirected`, one bit each.
pub fn hand_on(c: &mut Command, redirected: u32) {
    let seen = GIVEN.load(Relaxed);
    // SAFETY: two system calls, which may be made between fork and exec.
    unsafe {
        c.pre_exec(move || {
            for fd in 0..3 {
                if seen & !redirected & 1 << fd != 0 {
                    libc::close(fd);
                }
            }
            for (i, signal) in OWN.into_iter().enumerate() {
                let ignored = seen & 1 << (IGNORED + i as u32) != 0;
                libc::signal(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
            }
            Ok(())
        });
    }
}

/// `c` runs in the environment of this process as it was given, in its order and with what is no variable, but for
/// these: they replace what has their names, or come last.
pub fn environment(c: &mut Command, ours: &[(OsString, OsString)]) {
    let mut entries = given();
    for (name, value) in ours {
        let start = [name.as_bytes(), b"="].concat();
        let at = entries.iter().position(|e| e.starts_with(&start)).unwrap_or(entries.len());
        entries.retain(|e| !e.starts_with(&start));
        entries.insert(at, [&start, value.as_bytes()].concat());
    }
    let entries: Vec<CString> = entries.into_iter().filter_map(|e| CString::new(e).ok()).collect();
    let pointers = entries.iter().map(|e| e.as_ptr() as usize).chain([0]).collect::<Vec<_>>();
    // SAFETY: between fork and exec there is one thread; the entries live as long as the command.
    unsafe {
        c.pre_exec(move || {
            let _alive = &entries;
            environ = pointers.as_ptr().cast();
            Ok(())
        });
    }
}

unsafe extern "C" {
    static mut environ: *const *const libc::c_char;
}

/// The entries of this process's environment, in their order.
fn given() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    // SAFETY: nobody changes the environment of this process; it ends with a null.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            out.push(std::ffi::CStr::from_ptr(*at).to_bytes().to_vec());
            at = at.add(1);
        }
    }
    out
}
