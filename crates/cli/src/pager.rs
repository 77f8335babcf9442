//! Long text on a terminal, a screen at a time.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Command, Stdio};

/// Pager when the environment names none: leaves at the end of one screen, keeps colours and the text on the screen.
const PAGER: &str = "less -FRX";

/// Columns and rows of the terminal on stdout.
pub fn screen() -> Option<(usize, usize)> {
    // SAFETY: winsize is plain data and ioctl fills it or fails.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the request takes a pointer to a winsize, and this one outlives the call.
    let got = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    (got == 0 && size.ws_col > 0).then_some((usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// The terminal has no more than lines, or nobody says which one it is.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|t| t.is_empty() || t == "dumb")
}

/// Text on stdout.
pub fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Text through the pager if it is longer than the screen, and at once where there is no pager, or a terminal on which
/// less would ask before it begins.
pub fn show(text: &str) -> io::Result<()> {
    let rows = screen().filter(|_| !is_dumb()).map_or(usize::MAX, |(_, rows)| rows);
    let Some(command) = named().filter(|_| text.lines().count() >= rows) else { return write(text) };
    let pager = Command::new("/bin/sh").arg("-c").arg(&command).stdin(Stdio::piped()).spawn();
    let Ok(mut pager) = pager else { return write(text) };
    // A reader that leaves early closes the pipe, which is no error; SIGPIPE must not end us before it is gone.
    // SAFETY: sets a signal disposition; no other thread runs here.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    if let Some(mut pipe) = pager.stdin.take() {
        let _ = pipe.write_all(text.as_bytes());
    }
    match pager.wait()?.code() {
        // What a shell says of a command that is not there.
        Some(126 | 127) => write(text),
        _ => Ok(()),
    }
}

/// The pager's command for the shell: `TUSSLE_PAGER`, `PAGER`, or less; an empty one or `cat` means none.
fn named() -> Option<OsString> {
    let set = ["TUSSLE_PAGER", "PAGER"].iter().find_map(std::env::var_os);
    let command = set.unwrap_or_else(|| PAGER.into());
    (!command.is_empty() && command != "cat").then_some(command)
}
