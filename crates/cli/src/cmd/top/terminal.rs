//! The terminal as a whole screen: raw keys in, frames out, and everything as it was at every exit.

use crate::cmd::ending;
use crate::pager;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use tussle_render::{Format, Style, View};

/// Alternate screen without cursor, and back.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Cursor up, or k.
    Up,
    /// Cursor down, or j.
    Down,
    /// Enter, or space.
    Open,
    /// Escape.
    Back,
    /// Any other one.
    Letter(char),
}

/// Keys in what a terminal sent.
pub fn keys(bytes: &[u8]) -> Vec<Key> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        out.push(match (first, tail) {
            (0x1b, [b'[' | b'O', code, after @ ..]) => {
                rest = after;
                match code {
                    b'A' => Key::Up,
                    b'B' => Key::Down,
                    _ => continue,
                }
            }
            (0x1b, _) => Key::Back,
            (b'\r' | b'\n' | b' ', _) => Key::Open,
            (b'k', _) => Key::Up,
            (b'j', _) => Key::Down,
            (3, _) => Key::Letter('q'),
            (c, _) => Key::Letter(char::from(*c)),
        });
    }
    out
}

/// The terminal while we have it.
pub struct Terminal {
    before: libc::termios,
    size: AtomicUsize,
}

impl Terminal {
    /// Takes the terminal.
    pub fn enter() -> io::Result<Terminal> {
        ending::heed();
        // SAFETY: termios is plain data that tcgetattr fills.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: writes one termios.
        if unsafe { libc::tcgetattr(libc::STDIN_FILENO, &raw mut before) } != 0 {
            return Err(io::Error::other("keys come from the standard input, which is no terminal"));
        }
        let mut raw = before;
        // SAFETY: changes our copy only.
        unsafe { libc::cfmakeraw(&raw mut raw) };
        // Keys are asked for, never waited for.
        (raw.c_cc[libc::VMIN], raw.c_cc[libc::VTIME]) = (0, 0);
        // SAFETY: reads one termios.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const raw) };
        let terminal = Terminal { before, size: AtomicUsize::new(0) };
        write(ENTER)?;
        Ok(terminal)
    }

    /// Keys since the last time.
    pub fn keys(&self) -> Vec<Key> {
        let mut bytes = [0; 64];
        let n = io::stdin().lock().read(&mut bytes).unwrap_or(0);
        keys(&bytes[..n])
    }

    /// The size differs from that of the last frame.
    pub fn resized(&self) -> bool {
        self.size.load(Ordering::Relaxed) != packed()
    }

    /// A signal asked us to end.
    pub fn asked_to_end(&self) -> bool {
        ending::asked()
    }

    /// One frame, cut to the screen.
    pub fn draw(&self, view: &View) -> io::Result<()> {
        let (columns, rows) = pager::screen().unwrap_or((80, 24));
        self.size.store(packed(), Ordering::Relaxed);
        let style =
            Style { colour: std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()), width: Some(columns) };
        let text = tussle_render::render(view, Format::Text, style);
        let mut frame = b"\x1b[H".to_vec();
        for line in text.lines().take(rows.saturating_sub(1)) {
            frame.extend_from_slice(line.as_bytes());
            frame.extend_from_slice(b"\x1b[0m\x1b[K\r\n");
        }
        frame.extend_from_slice(b"\x1b[J");
        write(&frame)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = write(LEAVE);
        // SAFETY: gives back what enter() found.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const self.before) };
    }
}

fn packed() -> usize {
    pager::screen().map_or(0, |(columns, rows)| columns << 16 | rows)
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_out_of_what_terminals_send() {
        assert_eq!(keys(b"\x1b[A\x1b[Bq"), [Key::Up, Key::Down, Key::Letter('q')]);
        assert_eq!(keys(b"\x1bOA\x1b[C\r"), [Key::Up, Key::Open]);
        assert_eq!(keys(b"\x1b"), [Key::Back]);
        assert_eq!(keys(&[3]), [Key::Letter('q')]);
    }
}
