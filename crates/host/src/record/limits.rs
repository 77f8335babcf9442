//! Limits on this process: what the program was given stays the program's; tussle takes what it may for itself.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

/// A raw file of a small program needs as much.
const FILE_MIN_BYTES: u64 = 1 << 20;

/// Reading the recording of a small program needs as much.
const ADDRESSES_MIN_BYTES: u64 = 128 << 20;

/// The limit on addresses that this process was started with, before it was raised for the first of several recordings.
static GIVEN: OnceLock<libc::rlimit> = OnceLock::new();

fn given() -> libc::rlimit {
    *GIVEN.get_or_init(|| get(libc::RLIMIT_AS))
}

/// Raises the limit on addresses for this process as far as it may.
///
/// # Errors
/// A sentence for people, where nothing can be recorded under the limits.
pub(super) fn raise() -> Result<(), String> {
    let file = get(libc::RLIMIT_FSIZE).rlim_cur;
    if file < FILE_MIN_BYTES {
        return Err(format!("files may have {file} bytes here (`ulimit -f`): a recording does not fit"));
    }
    let given = given();
    let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let most = libc::rlimit { rlim_cur: given.rlim_max, ..given };
    if given.rlim_cur != libc::RLIM_INFINITY && set(unlimited).is_err() && set(most).is_err() {
        return Err("the limit on addresses (`ulimit -v`) cannot be raised".into());
    }
    let now = get(libc::RLIMIT_AS).rlim_cur;
    if now < ADDRESSES_MIN_BYTES {
        return Err(format!(
            "{} MiB of addresses (`ulimit -v`) do not suffice to read a recording: allow tussle {} MiB",
            now >> 20,
            ADDRESSES_MIN_BYTES >> 20
        ));
    }
    Ok(())
}

/// The program gets the limits that this process was given.
pub(super) fn hand_on(c: &mut Command) {
    let given = given();
    // SAFETY: one system call, which may be made between fork and exec.
    unsafe { c.pre_exec(move || set(given)) };
}

/// What names a limit.
#[cfg(target_env = "gnu")]
type Which = libc::__rlimit_resource_t;
/// What names a limit.
#[cfg(not(target_env = "gnu"))]
type Which = libc::c_int;

fn get(which: Which) -> libc::rlimit {
    let mut out = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel fills plain data or leaves it as it is.
    unsafe { libc::getrlimit(which, &mut out) };
    out
}

/// Sets the limit on addresses.
fn set(to: libc::rlimit) -> io::Result<()> {
    // SAFETY: a system call that reads plain data.
    match unsafe { libc::setrlimit(libc::RLIMIT_AS, &to) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
