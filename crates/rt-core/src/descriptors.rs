//! What is behind a descriptor: which channel, seen from its one end or the other.

use crate::processes::{mix, names};
use crate::sys::*;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// What a descriptor carries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// What is written comes out in one other place: the channel's key.
    Channel(u64),
    /// Signals (bit 0 for signal 1).
    Signals(u64),
    /// Anything else.
    Other,
}

const FORMAT: u64 = 0o170000;
const FIFO: u64 = 0o010000;
const SOCKET: u64 = 0o140000;

/// Of `struct stat`: device, inode, type and rights.
pub(crate) fn about(fd: i32) -> Option<(u64, u64, u64)> {
    // Device and inode come first, the number of links, then the mode.
    const MODE: usize = 3;
    let mut stat = [0u64; 32];
    // SAFETY: the kernel writes 144 bytes.
    let r = unsafe { call3(SYS_fstat, fd as usize, stat.as_mut_ptr() as usize, 0) };
    (r == 0).then_some((stat[0], stat[1], stat[MODE]))
}

/// What is behind a descriptor that is written, or read.
pub(crate) fn kind(fd: i32, sends: bool) -> Kind {
    let Some((device, inode, mode)) = about(fd) else { return Kind::Other };
    match mode & FORMAT {
        FIFO => Kind::Channel(names(mix(mix(device) ^ inode))),
        // Event counters have no type of file, and all of them one inode.
        0 => without_inode(fd, device),
        SOCKET => pair(inode, sends).map_or(Kind::Other, |end| Kind::Channel(names(mix(mix(device) ^ end)))),
        _ => Kind::Other,
    }
}

/// Pairs of sockets that are known at the same time.
const PAIRS: usize = 256;
/// One end's inode, and the other's; where two ends have one place the later one stays.
static ENDS: [[AtomicU64; 2]; PAIRS] = [const { [const { AtomicU64::new(0) }; 2] }; PAIRS];

/// Two sockets were made that are connected with each other.
pub fn paired(fds: [i32; 2]) {
    let [Some((_, a, _)), Some((_, b, _))] = fds.map(about) else { return };
    for (one, other) in [(a, b), (b, a)] {
        let end = &ENDS[one as usize % PAIRS];
        end[0].store(0, Release);
        end[1].store(other, Release);
        end[0].store(one, Release);
    }
}

/// Where what is sent by, or comes to, this socket comes out: the inode of the reader's end.
fn pair(inode: u64, sends: bool) -> Option<u64> {
    let end = &ENDS[inode as usize % PAIRS];
    let other = end[1].load(Acquire);
    (end[0].load(Acquire) == inode).then_some(if sends { other } else { inode })
}

/// Descriptors below this are remembered.
const COUNTERS: usize = 1024;
/// Keys of the event counters that are behind descriptors; 0 where it is not known. To ask takes six times as long as
/// to read one.
static COUNTER: [AtomicU64; COUNTERS] = [const { AtomicU64::new(0) }; COUNTERS];

/// The descriptor was made just now: what was behind its number is gone.
pub fn made(fd: i32) {
    COUNTER.get(fd as usize).into_iter().for_each(|c| c.store(0, Relaxed));
}

/// Event counters, descriptors of signals, and others that share one inode.
fn without_inode(fd: i32, device: u64) -> Kind {
    let known = COUNTER.get(fd as usize);
    if let Some(key) = known.map(|c| c.load(Relaxed)).filter(|key| *key != 0) {
        return Kind::Channel(key);
    }
    let kind = asked(fd, device);
    if let (Kind::Channel(key), Some(known)) = (kind, known) {
        known.store(key, Relaxed);
    }
    kind
}

/// The kernel tells in words what each is.
fn asked(fd: i32, device: u64) -> Kind {
    let mut text = [0u8; 256];
    let n = words(fd, &mut text);
    let text = text.get(..n).unwrap_or(&[]);
    if let Some(mask) = after(text, b"sigmask:").map(|t| number(t, 16)) {
        return Kind::Signals(mask);
    }
    if after(text, b"eventfd-count:").is_none() {
        return Kind::Other;
    }
    // Before Linux 5.2 there is no number but the descriptor's.
    let id = after(text, b"eventfd-id:").map_or(fd as u64, |t| number(t, 10));
    Kind::Channel(names(mix(mix(device) ^ id)))
}

/// What `/proc/self/fdinfo/FD` says: bytes read.
fn words(fd: i32, text: &mut [u8; 256]) -> usize {
    let mut path = *b"/proc/self/fdinfo/\0\0\0\0\0\0\0\0\0\0\0\0";
    let (mut rest, count) = (fd.max(0) as u32, fd.max(0).checked_ilog10().unwrap_or(0) as usize + 1);
    for digit in path.iter_mut().skip(18).take(count).rev() {
        (*digit, rest) = (b'0' + (rest % 10) as u8, rest / 10);
    }
    // SAFETY: the path ends with a zero; the descriptor is ours; the kernel writes at most as much as there is room.
    unsafe {
        // O_RDONLY | O_CLOEXEC
        let info = call3(SYS_open, path.as_ptr() as usize, 0o2000000, 0);
        if info < 0 {
            return 0;
        }
        let n = call3(SYS_read, info as usize, text.as_mut_ptr() as usize, text.len());
        call3(SYS_close, info as usize, 0, 0);
        n.max(0) as usize
    }
}

/// The text behind a word.
fn after<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(word.len()).position(|w| w == word)?;
    text.get(at + word.len()..)
}

fn number(text: &[u8], base: u64) -> u64 {
    let digit = |b: &u8| (*b as char).to_digit(base as u32);
    let start = text.iter().position(|b| digit(b).is_some()).unwrap_or(text.len());
    let digits = text.iter().skip(start).map_while(digit);
    digits.fold(0, |n, d| n.wrapping_mul(base).wrapping_add(d.into()))
}
