//! The file-backed memory of a recording: one shared mapping per process, populated in steps before use, so that a
//! full disk is an error code here and never a SIGBUS.

use crate::lockfree::{self, Bounds};
use crate::sys::*;
use crate::wire::*;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Where the mapping goes if the place is free: far from everything that Linux places by itself.
const PLACE: usize = 0x6f00_0000_0000;
/// Where a child's goes while its parent's is still there: far enough for both to grow.
const OTHER_PLACE: usize = 0x6e00_0000_0000;
const STEP_MIN: u64 = 1 << 18;
const STEP_MAX: u64 = 8 << 20;
const PAGE: u64 = 4096;
/// What is mapped at first: the rest follows in steps, so that limits on address space are the program's.
const MAPPED_MIN: u64 = 3 << 20;
/// Where address space is limited, this part of it may be the recorder's.
const SHARE_OF_LIMIT: u64 = 16;
/// Room for a forked child that cannot have a file of its own, bytes; less where the parent's cap is small.
const NESTED_MAX: u64 = 8 << 20;
const NESTED_MIN: u64 = 1 << 19;

/// Start of the mapping; 0 when nothing is recorded.
static BASE: AtomicU64 = AtomicU64::new(0);
/// Start of the file's mapping: differs from [`BASE`] in children that lie in their parent's file.
static FILE: AtomicU64 = AtomicU64::new(0);
/// Bytes of the file that this process has mapped. A parent and children in its file have each their own.
static MAPPED: AtomicU64 = AtomicU64::new(0);
/// 1 while this process is recorded.
pub static RECORDING: AtomicU32 = AtomicU32::new(0);
/// A page that the kernel wipes in forked children: tells a child whose fork we did not see.
static MARK: AtomicU64 = AtomicU64::new(0);

/// The header of this process's file; null when nothing is recorded.
pub fn header() -> *mut Header {
    BASE.load(Relaxed) as *mut Header
}

/// True while this process is recorded.
#[inline(always)]
pub fn recording() -> bool {
    RECORDING.load(Relaxed) != 0
}

/// Address of a reference.
#[inline(always)]
pub fn at<T>(r: u32) -> *mut T {
    (BASE.load(Relaxed) + r as u64 * UNIT) as *mut T
}

/// Reference of an address inside the mapping.
#[inline(always)]
pub fn reference(p: u64) -> u32 {
    ((p - BASE.load(Relaxed)) / UNIT) as u32
}

/// Counts a loss; how many there were before.
pub fn lost(what: usize, n: u64) -> u64 {
    let h = header();
    if h.is_null() {
        return 0;
    }
    // SAFETY: the header is mapped, and stays so; shared cells are used as atomics.
    unsafe { AtomicU64::from_ptr(&raw mut (*h).losses[what]).fetch_add(n, Relaxed) }
}

/// `bytes` of zeroed memory (a multiple of 64), or 0 when the cap or the disk is exhausted. Takes no lock.
pub fn alloc(bytes: u64) -> u64 {
    // SAFETY: the header is null or mapped.
    unsafe { alloc_in(header(), bytes) }
}

/// [`alloc`] in the arena with that header, which lies in this process's mapping.
///
/// # Safety
/// `h` is null or the header of an arena in this process's mapping.
unsafe fn alloc_in(h: *mut Header, bytes: u64) -> u64 {
    if h.is_null() {
        return 0;
    }
    let bytes = bytes.saturating_add(UNIT - 1) & !(UNIT - 1);
    // SAFETY: the header is mapped, and stays so; shared cells are used as atomics.
    let from = lockfree::take(&unsafe { bounds(h) }, bytes, |ready, end| unsafe { grow(h, ready, end) });
    let at = from.map_or(0, |from| h as u64 + from);
    // Another process may have backed it, for its own mapping.
    // SAFETY: the range was handed out just now.
    if at != 0 && unsafe { !map_up_to(at + bytes) } { 0 } else { at }
}

/// Maps more of the file, at least up to an address.
///
/// # Safety
/// `end` is an address in the arena, mapped or not.
unsafe fn map_up_to(end: u64) -> bool {
    let file = FILE.load(Relaxed);
    let need = end - file;
    loop {
        let mapped = MAPPED.load(Acquire);
        if need <= mapped {
            return true;
        }
        let cap = FILE_CAP.load(Relaxed);
        let bigger = (mapped * 2).max((need + PAGE - 1) & !(PAGE - 1)).min(cap.max(mapped));
        if bigger < need {
            return false;
        }
        // In place; where two threads do it at once, one of them fails and looks again.
        // SAFETY: the mapping is ours, and what it grows over is free or the call fails.
        let r = unsafe { call(SYS_mremap, file as usize, mapped as usize, bigger as usize, 0, 0, 0) };
        if r >= 0 {
            MAPPED.fetch_max(bigger, AcqRel);
        // SAFETY: a page of the arena, mapped or not: the kernel says which.
        } else if MAPPED.load(Acquire) == mapped && unsafe { !populate(file + mapped, PAGE) } {
            return false;
        } else {
            yield_cpu();
        }
    }
}

/// # Safety
/// `h` is the header of this process's mapping.
unsafe fn bounds<'a>(h: *mut Header) -> Bounds<'a> {
    // SAFETY: the header stays mapped; all threads use these cells as atomics.
    unsafe {
        Bounds {
            used: AtomicU64::from_ptr(&raw mut (*h).used),
            ready: AtomicU64::from_ptr(&raw mut (*h).ready),
            cap: AtomicU64::from_ptr(&raw mut (*h).cap),
        }
    }
}

/// The most that this process may record, bytes.
pub fn cap() -> u64 {
    // SAFETY: the header is mapped, and stays so; shared cells are used as atomics.
    unsafe { bounds(header()) }.cap.load(Relaxed)
}

/// Share of the cap in use, in 256ths.
pub fn fullness() -> u64 {
    // SAFETY: the header is mapped, and stays so; shared cells are used as atomics.
    let b = unsafe { bounds(header()) };
    b.used.load(Relaxed) * 256 / b.cap.load(Relaxed).max(1)
}

/// Populates the mapping from `ready` at least up to `end`: up to where it did.
///
/// # Safety
/// `h` is the header of this process's mapping.
unsafe fn grow(h: *mut Header, ready: u64, end: u64) -> Option<u64> {
    // SAFETY: as the caller.
    let (base, cap) = (h as u64, unsafe { bounds(h) }.cap.load(Relaxed));
    let step = ready.clamp(STEP_MIN, STEP_MAX);
    let page_end = |n: u64| ((n + PAGE - 1) & !(PAGE - 1)).min(cap);
    // SAFETY: the range lies within the arena, and is mapped.
    let back = |to: u64| unsafe { map_up_to(base + to) && populate(base + ready, to - ready) };
    let up_to = |to: u64| (to >= end && back(to)).then_some(to);
    up_to(page_end(end + step - PAGE)).or_else(|| up_to(page_end(end)))
}

/// MADV_POPULATE_WRITE: backs the range or says why not, without a signal.
///
/// # Safety
/// `[from, from + len)` lies within the mapping.
pub(crate) unsafe fn populate(from: u64, len: u64) -> bool {
    const MADV_POPULATE_WRITE: usize = 23;
    const EINTR: isize = -4;
    loop {
        // SAFETY: populating memory of our own mapping changes no contents.
        let r = unsafe { call3(SYS_madvise, from as usize, len as usize, MADV_POPULATE_WRITE) };
        if r != EINTR {
            return r == 0;
        }
    }
}

/// True in a child that was forked behind our back (`_Fork`, raw `clone`).
#[inline(always)]
pub fn forked() -> bool {
    let m = MARK.load(Relaxed) as *const u64;
    // SAFETY: the header is mapped, and stays so; shared cells are used as atomics.
    !m.is_null() && unsafe { m.read_volatile() } == 0
}

/// # Safety
/// No other thread sets the mark.
unsafe fn set_mark() {
    const MADV_WIPEONFORK: usize = 18;
    // SAFETY: a page of our own, which nobody else writes.
    unsafe {
        let mut m = MARK.load(Relaxed) as usize;
        if m == 0 {
            let r = call(SYS_mmap, 0, PAGE as usize, 3, 0x22, usize::MAX, 0);
            if r < 0 {
                return;
            }
            m = r as usize;
            if call3(SYS_madvise, m, PAGE as usize, MADV_WIPEONFORK) != 0 {
                return;
            }
            MARK.store(m as u64, Relaxed);
        }
        (m as *mut u64).write_volatile(1);
    }
}

/// What a process's recording begins with.
pub struct Settings {
    /// Session folder, zero-terminated; null or empty means that nothing is recorded.
    pub dir: *const u8,
    /// Cap on the mapping, bytes.
    pub mem_max: u64,
    /// Whether critical sections are sampled.
    pub operations: bool,
    /// Address of the function that starts threads.
    pub thread_start: u64,
}

/// Opens this process's file in the session folder and maps it, or else takes room in the parent's file, which a child
/// that changed its root, user or limits still has. Leaves recording off if neither is possible.
///
/// # Safety
/// `settings.dir` is null or zero-terminated; no other thread of the process records.
pub unsafe fn open(settings: &Settings, parent_pid: u32, parent_seq: u32, fork_vt: u64) -> bool {
    // SAFETY: the caller's promise; the header was mapped just now, and nobody else knows of it.
    unsafe {
        let dir = settings.dir;
        if dir.is_null() || *dir == 0 {
            return false;
        }
        session(settings);
        let pid = getpid();
        let (seq, own) = open_file(settings, pid);
        if !own && (parent_pid == 0 || !nest()) {
            lost(LOST_CHILDREN, (parent_pid != 0) as u64);
            return false;
        }
        let h = header();
        (*h).version = VERSION;
        (*h).pid = pid;
        (*h).ppid = call3(SYS_getppid, 0, 0, 0) as u32;
        (*h).seq = seq;
        (*h).parent_pid = parent_pid;
        (*h).parent_seq = parent_seq;
        (*h).forked = (parent_pid != 0) as u32;
        (*h).fork_vt = fork_vt;
        (*h).base = BASE.load(Relaxed);
        (*h).used = PAGE;
        (*h).window_vt = WINDOW_VT;
        (*h).operations = settings.operations as u32;
        (*h).thread_start = settings.thread_start;
        set_mark();
        describe();
        AtomicU64::from_ptr(&raw mut (*h).magic).store(MAGIC, Release);
        RECORDING.store(1, Release);
        true
    }
}

/// Makes and maps a file; its sequence number, and whether that worked.
///
/// # Safety
/// As [`open`].
unsafe fn open_file(settings: &Settings, pid: u32) -> (u32, bool) {
    const EEXIST: isize = 17;
    const SEQUENCE_MAX: u32 = 10_000;
    let mut name = [0u8; 4200];
    let mut seq = 0;
    // SAFETY: paths are zero-terminated; the descriptor is ours.
    unsafe {
        loop {
            if seq > SEQUENCE_MAX || !file_name(&mut name, settings.dir, pid, seq) {
                return (0, false);
            }
            // O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW
            let flags = 0o2 | 0o100 | 0o200 | 0o2000000 | 0o400000;
            let fd = call3(SYS_open, name.as_ptr() as usize, flags, 0o600);
            if fd >= 0 {
                let mapped = map(fd as usize, settings.mem_max);
                call3(SYS_close, fd as usize, 0, 0);
                if !mapped {
                    call3(SYS_unlink, name.as_ptr() as usize, 0, 0);
                }
                return (seq, mapped);
            }
            if fd != -EEXIST {
                return (0, false);
            }
            seq += 1;
        }
    }
}

/// Takes room in the file of the process that this one was forked from, or of the process that has that one's.
///
/// # Safety
/// As [`open`], in a forked child.
unsafe fn nest() -> bool {
    // SAFETY: the file's header is mapped; the room was handed out just now.
    unsafe {
        let file = FILE.load(Relaxed) as *mut Header;
        if file.is_null() {
            return false;
        }
        let cap = bounds(file).cap.load(Relaxed);
        let bytes = (cap / SHARE_OF_LIMIT).min(NESTED_MAX) & !(PAGE - 1);
        let at = if bytes < NESTED_MIN { 0 } else { alloc_in(file, UNIT + bytes) };
        if at == 0 {
            return false;
        }
        let n = at as *mut Nested;
        (*n).bytes = bytes;
        let h = (at + UNIT) as *mut Header;
        (*h).cap = bytes;
        (*h).ready = bytes;
        let reference = ((at - file as u64) / UNIT) as u32;
        let head = AtomicU32::from_ptr(&raw mut (*file).nested);
        lockfree::prepend(head, reference, AtomicU32::from_ptr(&raw mut (*n).next));
        BASE.store(h as u64, Relaxed);
        true
    }
}

/// Maps the start of the file at [`PLACE`], and gives the file the largest size that limits allow.
///
/// # Safety
/// `fd` is the recording's file; no other thread of the process records.
unsafe fn map(fd: usize, mem_max: u64) -> bool {
    // SAFETY: system calls on the caller's descriptor.
    unsafe {
        let limit = file_size_limit().min(address_space_limit() / SHARE_OF_LIMIT);
        let mut cap = mem_max.clamp(1 << 20, 1 << 36).min(limit) & !(PAGE - 1);
        while cap >= NESTED_MIN {
            if call3(SYS_ftruncate, fd, cap as usize, 0) == 0 && map_start(fd, cap) {
                return true;
            }
            cap /= 2;
        }
        false
    }
}

/// Maps the file's start, and lets go of what was mapped before.
///
/// # Safety
/// As [`map`].
unsafe fn map_start(fd: usize, cap: u64) -> bool {
    let old = (FILE.load(Relaxed), MAPPED.load(Relaxed));
    let first = MAPPED_MIN.min(cap);
    // SAFETY: system calls on mappings of the recorder's own.
    unsafe {
        // MAP_SHARED | MAP_FIXED_NOREPLACE; a child's file takes the place beside its parent's.
        let place = if old.0 == PLACE as u64 { OTHER_PLACE } else { PLACE };
        let p = call(SYS_mmap, place, first as usize, 3, 0x1 | 0x100000, fd, 0);
        let (p, mapped) = if p >= 0 {
            (p, first)
        } else {
            // Anywhere: there may be no room to grow, so all of it.
            (call(SYS_mmap, 0, cap as usize, 3, 0x1, fd, 0), cap)
        };
        if p < 0 || !map_ready(p as u64, cap, mapped) {
            return false;
        }
        if old.0 != 0 {
            call3(SYS_munmap, old.0 as usize, old.1 as usize, 0);
        }
        true
    }
}

/// # Safety
/// `p` is a new mapping of `mapped` bytes.
unsafe fn map_ready(p: u64, cap: u64, mapped: u64) -> bool {
    const MADV_DONTDUMP: usize = 16;
    // SAFETY: the caller's promise; the header is within the first step.
    unsafe {
        call3(SYS_madvise, p as usize, mapped as usize, MADV_DONTDUMP);
        let first = STEP_MIN.min(cap);
        if !populate(p, first) {
            call3(SYS_munmap, p as usize, mapped as usize, 0);
            return false;
        }
        BASE.store(p, Relaxed);
        FILE.store(p, Relaxed);
        MAPPED.store(mapped, Relaxed);
        FILE_CAP.store(cap, Relaxed);
        let h = p as *mut Header;
        (*h).cap = cap;
        (*h).ready = first;
        true
    }
}

/// Size of the file, which the header's `cap` may fall below.
static FILE_CAP: AtomicU64 = AtomicU64::new(0);

/// Takes the mapping out of the program's locked memory; what it grows by is not locked then either.
pub fn unlock() {
    let (file, mapped) = (FILE.load(Relaxed) as usize, MAPPED.load(Acquire) as usize);
    if file != 0 {
        // SAFETY: unlocking a mapping of the recorder's own changes no contents.
        unsafe { call3(SYS_munlock, file, mapped, 0) };
    }
}

/// Before the program gives up system calls: takes a last piece of memory and makes no call from now on.
pub fn before_sandbox() {
    const LAST: u64 = 4 << 20;
    if recording() {
        let h = header();
        // SAFETY: the header stays mapped.
        let b = unsafe { bounds(h) };
        let ready = b.ready.load(Acquire);
        // SAFETY: as in `alloc`.
        if let Some(to) = unsafe { grow(h, ready, (ready + LAST).min(b.cap.load(Relaxed))) } {
            b.ready.fetch_max(to, AcqRel);
        }
    }
    silence(true);
}

/// The sandbox came, or the program could not enter it.
pub fn after_sandbox(entered: bool) {
    if entered {
        lost(LOST_SANDBOX, 1);
    } else {
        silence(false);
    }
}

/// Forgets locks and state of the parent.
pub fn reset_after_fork() {
    RECORDING.store(0, Relaxed);
}

/// The session folder, zero-terminated; null until a recording began.
static DIR: AtomicU64 = AtomicU64::new(0);

/// Keeps which folder the session has.
pub(crate) fn session(settings: &Settings) {
    DIR.store(settings.dir as u64, Relaxed);
}

/// Path of a file of the session folder; `name` has a slash before it and a zero behind.
pub(crate) fn session_file(out: &mut [u8; 4200], name: &[u8]) -> bool {
    let dir = DIR.load(Relaxed) as *const u8;
    // SAFETY: the folder's name is zero-terminated and stays where it is.
    let ended = |n: &usize| unsafe { *dir.add(*n) == 0 };
    if dir.is_null() {
        return false;
    }
    let Some(len) = (0..4096).find(ended) else { return false };
    // SAFETY: as many bytes as were looked at.
    let text = unsafe { core::slice::from_raw_parts(dir, len) };
    for (to, from) in out.iter_mut().zip(text.iter().chain(name)) {
        *to = *from;
    }
    true
}

/// Path of a recording of the session.
pub(crate) fn recording_file(out: &mut [u8; 4200], pid: u32, seq: u32) -> bool {
    let dir = DIR.load(Relaxed) as *const u8;
    // SAFETY: the folder's name is zero-terminated.
    !dir.is_null() && unsafe { file_name(out, dir, pid, seq) }
}

/// `dir/pid.seq.raw`, zero-terminated.
///
/// # Safety
/// `dir` is zero-terminated.
unsafe fn file_name(out: &mut [u8; 4200], dir: *const u8, pid: u32, seq: u32) -> bool {
    let mut n = 0;
    // SAFETY: `dir` ends with a zero; 4,096 bytes of it, two numbers and a suffix fit.
    unsafe {
        while *dir.add(n) != 0 {
            if n >= 4096 {
                return false;
            }
            *out.get_unchecked_mut(n) = *dir.add(n);
            n += 1;
        }
        *out.get_unchecked_mut(n) = b'/';
        n = decimal(out, n + 1, pid);
        *out.get_unchecked_mut(n) = b'.';
        n = decimal(out, n + 1, seq);
        for &c in b".raw\0" {
            *out.get_unchecked_mut(n) = c;
            n += 1;
        }
    }
    true
}

/// # Safety
/// Ten bytes fit at `at`.
unsafe fn decimal(out: &mut [u8; 4200], mut at: usize, n: u32) -> usize {
    let mut div = 1_000_000_000u32;
    while div > 1 && n / div == 0 {
        div /= 10;
    }
    while div > 0 {
        // SAFETY: a number of 32 bits has ten digits at most.
        unsafe { *out.get_unchecked_mut(at) = b'0' + (n / div % 10) as u8 };
        at += 1;
        div /= 10;
    }
    at
}

/// Executable, command line and memory map.
///
/// # Safety
/// The header is mapped, and nobody else writes it.
unsafe fn describe() {
    // SAFETY: the caller's promise.
    unsafe {
        let h = header();
        (*h).exe = read_text(b"/proc/self/exe\0", true);
        (*h).cmdline = read_text(b"/proc/self/cmdline\0", false);
        (*h).pid_namespace = pid_namespace();
        snapshot_maps();
    }
}

/// Says which program runs, where the process's own executable is an emulator of it, and which mappings were there
/// before the program: the emulator's own.
///
/// # Safety
/// Both are null or zero-terminated; no other thread of the process records yet.
pub unsafe fn runs(path: *const u8, maps: *const u8) {
    let h = header();
    if h.is_null() {
        return;
    }
    // SAFETY: the caller's promise; the header is mapped.
    unsafe {
        (*h).emulator = text_of(maps, TEXT_BLOCK_MAX as usize);
        match text_of(path, TEXT_BLOCK_MAX as usize) {
            0 => {}
            text => (*h).exe = text,
        }
    }
}

/// A text of these bytes, `max` at most; 0 without any, or without memory.
///
/// # Safety
/// `from` is null or zero-terminated.
pub(crate) unsafe fn text_of(from: *const u8, max: usize) -> u32 {
    let mut n = 0;
    // SAFETY: the caller's promise; the block is new and has room for the text.
    unsafe {
        while !from.is_null() && *from.add(n) != 0 && n < max {
            n += 1;
        }
        let block = if n == 0 { 0 } else { alloc(TEXT_HEAD + n as u64) };
        if block == 0 {
            return 0;
        }
        for k in 0..n {
            *((block + TEXT_HEAD) as *mut u8).add(k) = *from.add(k);
        }
        (*(block as *mut Text)).len = n as u32;
        reference(block)
    }
}

/// The namespace of this process's id, by the inode in the link `pid:[INODE]`; 0 if it cannot be read.
fn pid_namespace() -> u32 {
    let mut text = [0u8; 32];
    let path = c"/proc/self/ns/pid".as_ptr() as usize;
    // SAFETY: the path ends with a zero; the kernel writes as many bytes as there are at most.
    let n = unsafe { call3(SYS_readlink, path, text.as_mut_ptr() as usize, text.len()) };
    let digits = text.iter().take(n.max(0) as usize).filter(|b| b.is_ascii_digit());
    digits.fold(0, |n: u32, b| n.wrapping_mul(10).wrapping_add((b - b'0') as u32))
}

/// Writes down which modules are mapped now.
///
/// # Safety
/// The header is mapped.
pub unsafe fn snapshot_maps() {
    // SAFETY: the text is new and ours until it is in the list.
    unsafe {
        let h = header();
        let t = read_text(b"/proc/self/maps\0", false);
        if t != 0 {
            lockfree::prepend(
                AtomicU32::from_ptr(&raw mut (*h).maps),
                t,
                AtomicU32::from_ptr(&raw mut (*at::<Text>(t)).next),
            );
        }
    }
}

/// Bytes of a [`Text`] block before its text.
const TEXT_HEAD: u64 = 16;
const TEXT_BLOCK_MIN: u64 = 4096;
const TEXT_BLOCK_MAX: u64 = 64 << 10;
/// A text ends here: a memory map with the 65,530 mappings that Linux allows by default has half of it.
const TEXT_MAX: u64 = 16 << 20;

/// The text of a file (or target of a link) in a list of new blocks; 0 if that fails. What had no room is a loss.
///
/// # Safety
/// The header is mapped; `path` is zero-terminated.
unsafe fn read_text(path: &[u8], link: bool) -> u32 {
    let path = path.as_ptr() as usize;
    // SAFETY: the path ends with a zero, the descriptor is ours, the kernel writes into blocks of our own.
    unsafe {
        if link {
            let read = |to, room| call3(SYS_readlink, path, to, room);
            return text_block(TEXT_BLOCK_MIN, false, read).map_or(0, |(block, _)| block);
        }
        let fd = call3(SYS_open, path, 0o2000000, 0);
        if fd < 0 {
            return 0;
        }
        let first = text_blocks(|to, room| call3(SYS_read, fd as usize, to, room));
        call3(SYS_close, fd as usize, 0, 0);
        first
    }
}

/// # Safety
/// As [`text_block`].
unsafe fn text_blocks(read: impl Fn(usize, usize) -> isize + Copy) -> u32 {
    let (mut first, mut last, mut total, mut bytes) = (0, 0, 0, TEXT_BLOCK_MIN);
    while total < TEXT_MAX {
        // SAFETY: the caller's promise; the last block is ours until the text is in a list.
        let Some((block, ended)) = (unsafe { text_block(bytes, true, read) }) else { break };
        if first == 0 {
            first = block;
        } else {
            // SAFETY: as above.
            unsafe { (*at::<Text>(last)).more = block };
        }
        if ended {
            return first;
        }
        (last, total) = (block, total + bytes);
        bytes = (bytes * 2).min(TEXT_BLOCK_MAX);
    }
    lost(LOST_NO_MEMORY, 1);
    first
}

/// A new block with what `read` puts to an address, at most so many bytes, and whether the text ended; once or, if
/// `again`, until the block is full. `None` without memory.
///
/// # Safety
/// The header is mapped; `read` writes where it is told only.
unsafe fn text_block(bytes: u64, again: bool, read: impl Fn(usize, usize) -> isize) -> Option<(u32, bool)> {
    let block = alloc(bytes);
    if block == 0 {
        return None;
    }
    let mut len = TEXT_HEAD;
    let ended = loop {
        let n = read((block + len) as usize, (bytes - len) as usize);
        len += n.max(0) as u64;
        if n <= 0 || !again || len == bytes {
            break n <= 0;
        }
    };
    // SAFETY: the block is new and has room for it.
    unsafe { (*(block as *mut Text)).len = (len - TEXT_HEAD) as u32 };
    Some((reference(block), ended))
}

/// What names this process's file: pid, and number among the files of that pid.
pub fn session_pid_seq() -> (u32, u32) {
    let h = header();
    // SAFETY: the header is mapped, and stays so; shared cells are used as atomics.
    if h.is_null() { (0, 0) } else { unsafe { ((*h).pid, (*h).seq) } }
}

/// Notes how the process ends, one of `END_*`. A child that borrows its parent's memory (`vfork`) ends by itself.
pub fn mark_end(how: u32, status: u32) {
    let h = header();
    if !h.is_null() && recording() {
        // SAFETY: the header is mapped, and stays so; shared cells are used as atomics.
        unsafe {
            // Negative where the program has given up system calls.
            let id = getpid();
            if id as i32 > 0 && id != (*h).pid {
                return;
            }
            if lost(LOST_KERNEL, 0) == 0 && crate::rings::mapped() {
                lost(LOST_KERNEL, 1);
            }
            AtomicU32::from_ptr(&raw mut (*h).end_status).store(status, Relaxed);
            AtomicU32::from_ptr(&raw mut (*h).end).store(how, Release);
        }
    }
}
