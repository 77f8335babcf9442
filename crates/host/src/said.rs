//! What a program wrote to its standard output and error, kept in bounded memory so that two runs can be compared.

use std::fmt;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Bytes of a stream that are kept as they are; of the rest the number and a hash.
pub const KEPT_BYTES_MAX: usize = 4 << 20;

/// How long a stream may stay open after the program has ended, because something that it started holds it.
const LATE_MAX: Duration = Duration::from_secs(2);

/// Characters of a line shown.
const SHOWN_CHARS_MAX: usize = 60;

/// FNV-1a, 64 bits: Fowler, Noll, Vo (RFC 9923).
const HASH_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0100_0000_01b3;

/// One stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    kept: Vec<u8>,
    rest_bytes: u64,
    rest_hash: u64,
}

impl Default for Stream {
    fn default() -> Stream {
        Stream { kept: Vec::new(), rest_bytes: 0, rest_hash: HASH_BASIS }
    }
}

impl Stream {
    /// Takes what was written next.
    pub fn push(&mut self, bytes: &[u8]) {
        let (kept, rest) = bytes.split_at(bytes.len().min(KEPT_BYTES_MAX - self.kept.len()));
        self.kept.extend_from_slice(kept);
        self.rest_bytes += rest.len() as u64;
        let next = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(HASH_PRIME);
        self.rest_hash = rest.iter().fold(self.rest_hash, next);
    }

    /// Where `now` differs first.
    fn difference(&self, now: &Stream) -> Option<Difference> {
        if self == now {
            return None;
        }
        let mut both = (lines(&self.kept), lines(&now.kept));
        for line in 1.. {
            let (a, b) = (both.0.next(), both.1.next());
            if a != b {
                let order = self.reordered(now);
                return Some(Difference { line, was: a.map(shown), now: b.map(shown), order });
            }
            if a.is_none() {
                break;
            }
        }
        Some(Difference { line: 0, was: None, now: None, order: false })
    }

    /// The same lines in whatever order.
    fn reordered(&self, now: &Stream) -> bool {
        let sorted = |s: &Stream| {
            let mut all: Vec<&[u8]> = lines(&s.kept).collect();
            all.sort_unstable();
            all.concat()
        };
        let rest = |s: &Stream| (s.kept.len(), s.rest_bytes, s.rest_hash);
        rest(self) == rest(now) && sorted(self) == sorted(now)
    }
}

/// The first line that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// From 1; 0 where it lies behind what is kept.
    line: usize,
    was: Option<String>,
    now: Option<String>,
    order: bool,
}

impl Difference {
    /// The same lines, in another order.
    pub fn is_order(&self) -> bool {
        self.order
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.was, &self.now) {
            (Some(was), Some(now)) => write!(f, "line {} was {was}, is {now}", self.line),
            (Some(was), None) => write!(f, "line {} was {was}, is missing", self.line),
            (None, Some(now)) => write!(f, "line {} is {now}, there was none", self.line),
            (None, None) => write!(f, "behind the first {} MiB", KEPT_BYTES_MAX >> 20),
        }
    }
}

/// What one run wrote. A stream that was not seen to its end is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Standard output.
    pub out: Option<Stream>,
    /// Standard error.
    pub err: Option<Stream>,
}

impl Said {
    /// Where the standard output of `now` differs first, and where its standard error does. Absent: the same, or one
    /// of both was not seen.
    pub fn differences(&self, now: &Said) -> (Option<Difference>, Option<Difference>) {
        let of = |a: &Option<Stream>, b: &Option<Stream>| a.as_ref()?.difference(b.as_ref()?);
        (of(&self.out, &now.out), of(&self.err, &now.err))
    }

    /// Takes out what is another in every copy of a program: the folder in which it ran, and addresses of its memory
    /// in hexadecimal.
    pub fn without_place(mut self, folder: &Path) -> Said {
        for stream in [&mut self.out, &mut self.err].into_iter().flatten() {
            stream.kept = without(&stream.kept, folder.as_os_str().as_encoded_bytes());
        }
        self
    }
}

/// A stream that is being read.
pub struct Listener(Receiver<Stream>);

impl Listener {
    /// Reads a stream to its end in a thread; with `echo` what comes is passed on to standard error at once.
    pub fn start(mut from: impl Read + Send + 'static, echo: bool) -> Listener {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let (mut seen, mut buffer) = (Stream::default(), [0; 16 << 10]);
            loop {
                match from.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(n) => {
                        seen.push(&buffer[..n]);
                        if echo {
                            // Nobody is told where standard error is closed.
                            let _ = std::io::stderr().lock().write_all(&buffer[..n]);
                        }
                    }
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
            // Nobody waits any more if it took too long.
            let _ = sender.send(seen);
        });
        Listener(receiver)
    }

    /// What was read, once the program has ended; absent while something that it started can still write.
    pub fn end(self) -> Option<Stream> {
        self.0.recv_timeout(LATE_MAX).ok()
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|b| *b == b'\n')
}

fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut chars = text.trim_end_matches('\n').chars();
    let start: String = chars.by_ref().take(SHOWN_CHARS_MAX).collect();
    let more = if chars.next().is_some() { ".." } else { "" };
    format!("{:?}{more}", start)
}

/// The text with `.` for every `folder`, and `0x` alone for every address.
fn without(text: &[u8], folder: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|r| !r.is_empty()) {
        if !folder.is_empty() && rest.starts_with(folder) {
            out.push(b'.');
            at += folder.len();
        } else if is_address(rest) {
            out.extend_from_slice(b"0x");
            at += 2 + ADDRESS_DIGITS;
        } else {
            out.push(rest[0]);
            at += 1;
        }
    }
    out
}

/// Digits of an address where Linux on x86-64 puts position independent programs, and libraries, stacks and mappings.
const ADDRESS_DIGITS: usize = 12;

/// Begins with `0x` and twelve digits as such addresses have them.
fn is_address(text: &[u8]) -> bool {
    let begins = [&b"0x55"[..], b"0x56", b"0x7e", b"0x7f"].iter().any(|b| text.starts_with(b));
    let digits = || text[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
    begins && digits() == ADDRESS_DIGITS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(out: &str, err: &str) -> Said {
        let stream = |text: &str| {
            let mut s = Stream::default();
            s.push(text.as_bytes());
            Some(s)
        };
        Said { out: stream(out), err: stream(err) }
    }

    #[test]
    fn the_first_line_that_differs_is_shown() {
        let text = |a: &str, b: &str| said(a, "").differences(&said(b, "")).0.map(|d| d.to_string());
        assert_eq!(text("a\nb\n", "a\nb\n"), None);
        assert_eq!(text("a\nb\n", "a\nc\n").unwrap(), "line 2 was \"b\", is \"c\"");
        assert_eq!(text("a\nb\n", "a\n").unwrap(), "line 2 was \"b\", is missing");
        assert_eq!(text("", "a\n").unwrap(), "line 1 is \"a\", there was none");
        assert!(text(&"x".repeat(100), "y").unwrap().contains("..,"), "long lines are cut");
        let order = |a: &str, b: &str| said(a, "").differences(&said(b, "")).0.unwrap().is_order();
        assert!(order("a\nb\n", "b\na\n") && !order("a\nb\n", "b\nb\n") && !order("a\n", "a\na\n"));
        assert_eq!(said("", "a").differences(&said("", "b")).0, None);
        assert!(said("", "a").differences(&said("", "b")).1.is_some());
        assert_eq!(said("a", "").differences(&Said::default()), (None, None), "not seen is not different");
    }

    #[test]
    fn what_is_not_kept_differs_by_its_hash() {
        let long = |last: &[u8]| {
            let mut s = Stream::default();
            (0..5).for_each(|_| s.push(&vec![b'x'; 1 << 20]));
            s.push(last);
            s
        };
        assert_eq!(long(b"a").difference(&long(b"a")), None);
        assert_eq!(long(b"a").difference(&long(b"b")).unwrap().to_string(), "behind the first 4 MiB");
        assert_eq!(long(b"a").kept.len(), KEPT_BYTES_MAX);
        let (mut one, mut two) = (long(b""), long(b""));
        one.push(b"ab");
        two.push(b"a");
        two.push(b"b");
        assert_eq!(one, two, "in whatever pieces it comes");
    }

    #[test]
    fn folders_and_addresses_of_a_copy_do_not_count() {
        let a = said("/tmp/a/x at 0x7ffff7cd44a2, 0x5555555592a0\n", "").without_place(Path::new("/tmp/a"));
        let b = said("/tmp/b/x at 0x7fffffffe010, 0x5555555592c0\n", "").without_place(Path::new("/tmp/b"));
        assert_eq!(a, b);
        let sums = |n: &str| said(n, "").without_place(Path::new("/tmp/a"));
        assert_ne!(sums("0x7fffffffe01\n"), sums("0x7fffffffe02\n"), "a number, no address");
    }

    #[test]
    fn a_stream_that_somebody_holds_open_is_not_seen() {
        let (reader, writer) = std::io::pipe().unwrap();
        let listener = Listener::start(reader, false);
        (&writer).write_all(b"begun").unwrap();
        assert_eq!(listener.end(), None);
        let (reader, mut writer) = std::io::pipe().unwrap();
        let listener = Listener::start(reader, false);
        writer.write_all(b"all").unwrap();
        drop(writer);
        assert_eq!(listener.end().unwrap().kept, b"all");
    }
}
