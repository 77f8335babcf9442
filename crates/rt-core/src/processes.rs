//! Synchronisation between processes: which memory is shared, the table of its locks and polled words, which all
//! processes of a recording map, and the clocks of processes that ended or began another program.

use crate::descriptors::about;
use crate::sync::Slot;
use crate::sys::*;
use crate::thread::round;
use crate::wire::*;
use crate::{arena, lockfree};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::*};

/// Shared mappings that are known at the same time.
const MAPPINGS: usize = 128;
/// Locks and words in memory that processes share.
const SLOTS: usize = 2048;
const PROBES: usize = 8;
pub(crate) const WATCHED: usize = 4096;
const PAGE: usize = 4096;

/// A shared mapping of this process; forked children have it, too.
struct Mapping {
    /// 0 if it is gone.
    start: AtomicU64,
    end: AtomicU64,
    /// What names the memory, of which the first mapped byte has this number.
    identity: AtomicU64,
}

static TABLE: [Mapping; MAPPINGS] =
    [const { Mapping { start: AtomicU64::new(0), end: AtomicU64::new(0), identity: AtomicU64::new(0) } };
        MAPPINGS];
/// Cells of the table that were ever taken.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Anonymous mappings made so far.
static ANONYMOUS: AtomicU32 = AtomicU32::new(0);

/// Set in keys of shared memory, and in no address of a program.
const SHARED: u64 = 1 << 63;

/// What the processes of a recording have in common: a file of its session folder.
#[repr(C)]
struct Common {
    slots: [Slot; SLOTS],
    watched: [AtomicU8; WATCHED],
}

/// Where it is mapped; 0 if it is not.
static COMMON: AtomicU64 = AtomicU64::new(0);

/// What memory is mapped.
pub enum Memory {
    /// An open file, from this byte on.
    File(i32, u64),
    /// A System V segment.
    Segment(u32),
    /// Pages without a file: only children get them.
    Anonymous,
}

/// `[start, start + bytes)` is memory that other processes may map, too.
pub fn mapped(start: u64, bytes: u64, memory: &Memory) {
    let Some(identity) = identity(start, memory) else { return };
    if !open_common() {
        return;
    }
    let same = |m: &&Mapping| m.start.load(Relaxed) == start;
    let taken = COUNT.load(Acquire) as usize;
    let old = TABLE.iter().take(taken).find(same);
    let free = || TABLE.iter().take(taken).find(|m| m.start.load(Relaxed) == 0);
    let new = || {
        TABLE
            .get(COUNT.fetch_update(AcqRel, Relaxed, |n| (n < MAPPINGS as u32).then_some(n + 1)).ok()?
                as usize)
    };
    let Some(m) = old.or_else(free).or_else(new) else { return };
    m.start.store(0, Release);
    m.end.store(start.saturating_add(bytes), Relaxed);
    m.identity.store(identity, Relaxed);
    m.start.store(start, Release);
}

/// The mapping that began there is about to be taken away.
pub fn unmapped(start: u64) {
    let of = |m: &&Mapping| m.start.load(Relaxed) == start;
    if let Some(m) = TABLE.iter().take(COUNT.load(Acquire) as usize).find(of) {
        m.start.store(0, Release);
    }
}

/// Mixes the bits of a number (the finaliser of SplitMix64, Steele et al. 2014).
pub(crate) fn mix(n: u64) -> u64 {
    let x = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn identity(start: u64, memory: &Memory) -> Option<u64> {
    match *memory {
        Memory::File(fd, offset) => {
            about(fd).map(|(device, inode, _)| mix(mix(device) ^ inode).wrapping_add(offset))
        }
        Memory::Segment(id) => Some(mix(mix(u64::from(id)) ^ 1 << 40)),
        Memory::Anonymous => {
            let n = u64::from(ANONYMOUS.fetch_add(1, Relaxed)) << 32 | u64::from(arena::session_pid_seq().0);
            Some(mix(mix(n) ^ start))
        }
    }
}

/// What names a byte of shared memory in all processes; `None` for other memory.
#[inline(always)]
fn key(addr: u64) -> Option<u64> {
    match COUNT.load(Relaxed) {
        0 => None,
        n => key_among(addr, n as usize),
    }
}

#[cold]
fn key_among(addr: u64, n: usize) -> Option<u64> {
    TABLE.iter().take(n).find_map(|m| {
        let start = m.start.load(Acquire);
        let within = start != 0 && start <= addr && addr < m.end.load(Relaxed);
        within.then(|| m.identity.load(Relaxed).wrapping_add(addr - start) | SHARED)
    })
}

fn common() -> Option<&'static Common> {
    let at = COMMON.load(Acquire) as *const Common;
    // SAFETY: null or a mapping that is never taken away, of atomics.
    unsafe { at.as_ref() }
}

/// What names the file, or its like, behind a descriptor.
pub(crate) fn inode(fd: i32) -> Option<u64> {
    about(fd).map(|(device, inode, _)| names(mix(mix(device) ^ inode)))
}

/// The key that a number is in all processes.
pub(crate) fn names(number: u64) -> u64 {
    number | SHARED
}

/// A key, and no address of the program.
pub(crate) fn is_key(addr: u64) -> bool {
    addr & SHARED != 0
}

/// Some memory is shared with other processes.
#[inline(always)]
pub(crate) fn are_common() -> bool {
    COMMON.load(Relaxed) != 0
}

/// The slot of a key that all processes have.
pub(crate) fn slot_of(key: u64) -> Option<&'static Slot> {
    let all = &common()?.slots;
    let h = mix(key) as usize;
    let get = |k: usize| &all[(h.wrapping_add(k)) % SLOTS];
    lockfree::claim(PROBES, |k| &get(k).addr, key).map(get)
}

/// The slot of a lock or word in shared memory; `None` for other memory, or where all slots are taken.
#[inline(always)]
pub(crate) fn slot(addr: u64) -> Option<&'static Slot> {
    slot_of(key(addr)?)
}

/// Whether a word of shared memory is watched, by its hash; `None` for other memory.
#[inline(always)]
pub(crate) fn watched(addr: u64) -> Option<&'static AtomicU8> {
    let key = key(addr)?;
    common()?.watched.get(mix(key) as usize % WATCHED)
}

/// Maps what processes have in common; the first one makes it.
fn open_common() -> bool {
    if COMMON.load(Acquire) != 0 {
        return true;
    }
    let bytes = size_of::<Common>().next_multiple_of(PAGE);
    let mut path = [0u8; 4200];
    // SAFETY: the path ends with a zero; the descriptor is ours.
    unsafe {
        if !arena::session_file(&mut path, b"/locks\0") {
            return false;
        }
        // O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW
        let fd = call3(SYS_open, path.as_ptr() as usize, 0o2 | 0o100 | 0o2000000 | 0o400000, 0o600);
        if fd < 0 {
            return false;
        }
        let sized = call3(SYS_ftruncate, fd as usize, bytes, 0) == 0;
        let at = if sized { call(SYS_mmap, 0, bytes, 3, 0x1, fd as usize, 0) } else { -1 };
        call3(SYS_close, fd as usize, 0, 0);
        // A full disk is no SIGBUS.
        if at <= 0 || !arena::populate(at as u64, bytes as u64) {
            return false;
        }
        match COMMON.compare_exchange(0, at as u64, AcqRel, Acquire) {
            Ok(_) => {}
            // Another thread was faster.
            Err(_) => drop(call3(SYS_munmap, at as usize, bytes, 0)),
        }
    }
    true
}

/// The latest clock in the files of a process, those of programs that it was before it executed another one, too;
/// `None` if it is not recorded.
pub fn latest_of(pid: u32) -> Option<u64> {
    const SEQUENCE_MAX: u32 = 100;
    let mut latest = None;
    for seq in 0..SEQUENCE_MAX {
        let mut path = [0u8; 4200];
        // SAFETY: the path ends with a zero; the descriptor is ours.
        unsafe {
            if !arena::recording_file(&mut path, pid, seq) {
                break;
            }
            // O_RDONLY | O_CLOEXEC | O_NOFOLLOW
            let fd = call3(SYS_open, path.as_ptr() as usize, 0o2000000 | 0o400000, 0);
            if fd < 0 {
                break;
            }
            latest = latest.max(clock_in(fd as usize));
            call3(SYS_close, fd as usize, 0, 0);
        }
    }
    latest
}

/// The clock at which this program begins: after what the process did before as another program, else after what its
/// parent had done.
pub fn clock_of_the_start(settings: &arena::Settings) -> u64 {
    arena::session(settings);
    // SAFETY: a system call without pointers.
    let parent = || unsafe { call3(SYS_getppid, 0, 0, 0) };
    let before = latest_of(getpid()).or_else(|| latest_of(u32::try_from(parent()).ok()?));
    before.map_or(0, round)
}

/// Reads a value of the file of another process, which may be writing it.
///
/// # Safety
/// Any bytes are a value of `T`.
unsafe fn read<T: Copy>(fd: usize, offset: u64) -> Option<T> {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    let bytes = size_of::<T>();
    // SAFETY: the kernel writes so many bytes at most, and the value counts if all came.
    unsafe {
        let n = call(SYS_pread64, fd, value.as_mut_ptr() as usize, bytes, offset as usize, 0, 0);
        (n == bytes as isize).then(|| value.assume_init())
    }
}

/// The latest clock of a recording's threads.
fn clock_in(fd: usize) -> Option<u64> {
    const THREADS_MAX: usize = 4096;
    let at = |r: u32, field: usize| u64::from(r) * UNIT + field as u64;
    // SAFETY: numbers.
    unsafe {
        if read::<u64>(fd, offset_of!(Header, magic) as u64)? != MAGIC {
            return None;
        }
        let mut latest = read::<u64>(fd, offset_of!(Header, fork_vt) as u64)?;
        let mut thread = read::<u32>(fd, offset_of!(Header, threads) as u64)?;
        for _ in 0..THREADS_MAX {
            if thread == 0 {
                break;
            }
            let vt = match read::<u32>(fd, at(thread, offset_of!(ThreadInfo, live)))? {
                0 => read::<u64>(fd, at(thread, offset_of!(ThreadInfo, vt1)))?,
                live => read::<u64>(fd, at(live, offset_of!(Live, vt)))?,
            };
            latest = latest.max(vt);
            thread = read::<u32>(fd, at(thread, offset_of!(ThreadInfo, next)))?;
        }
        Some(latest)
    }
}
