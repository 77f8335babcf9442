//! What this process was given and Rust's runtime changes before `main`: it opens `/dev/null` where a standard
//! descriptor was closed, and ignores SIGPIPE. The program gets what was given.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One bit per closed standard descriptor.
static CLOSED: AtomicU32 = AtomicU32::new(0);
/// SIGPIPE was ignored.
const PIPE_IGNORED: u32 = 1 << 8;

extern "C" fn look() {
    // SAFETY: system calls that change nothing; the kernel fills plain data.
    unsafe {
        let mut seen =
            (0..3).filter(|fd| libc::fcntl(*fd, libc::F_GETFD) < 0).fold(0, |all, fd| all | 1 << fd);
        let mut was: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut was) == 0
            && was.sa_sigaction == libc::SIG_IGN
        {
            seen |= PIPE_IGNORED;
        }
        CLOSED.store(seen, Relaxed);
    }
}

/// Called by the loader, before Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Gives `c` what this process was given. Descriptors that `c` redirects itself are in `redirected`, one bit each.
pub fn hand_on(c: &mut Command, redirected: u32) {
    let seen = CLOSED.load(Relaxed);
    // SAFETY: two system calls, which may be made between fork and exec.
    unsafe {
        c.pre_exec(move || {
            for fd in 0..3 {
                if seen & !redirected & 1 << fd != 0 {
                    libc::close(fd);
                }
            }
            if seen & PIPE_IGNORED != 0 {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            Ok(())
        });
    }
}
