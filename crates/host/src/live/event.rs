//! perf events of this machine: opening them, and the rings that they write to (`perf_event_open(2)`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bits of [`Attr::flags`].
pub(super) mod flag {
    pub const DISABLED: u64 = 1 << 0;
    pub const INHERIT: u64 = 1 << 1;
    pub const EXCLUDE_USER: u64 = 1 << 4;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HV: u64 = 1 << 6;
    pub const MMAP: u64 = 1 << 8;
    pub const COMM: u64 = 1 << 9;
    pub const FREQUENCY: u64 = 1 << 10;
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    pub const TASK: u64 = 1 << 13;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    pub const MMAP2: u64 = 1 << 23;
    pub const COMM_EXEC: u64 = 1 << 24;
    pub const USE_CLOCKID: u64 = 1 << 25;
}

/// Whatever runs on a CPU.
pub(super) const ANY_THREAD: u32 = u32::MAX;

pub(super) const SOFTWARE: u32 = 1;
pub(super) const BREAKPOINT: u32 = 5;
/// `PERF_COUNT_SW_CPU_CLOCK`.
pub(super) const CPU_CLOCK: u64 = 0;

/// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `_RUNNING`.
pub(super) const TIMES: u64 = 3;

const CLOSE_ON_EXEC: libc::c_ulong = 8;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_REFRESH: libc::c_ulong = 0x2402;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;

/// `struct perf_event_attr`, version 5. Other events than breakpoints have `config1` in `bp_addr` and `config2` in
/// `bp_len`; where [`flag::FREQUENCY`] is set, `sample_period` is samples per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub(super) struct Attr {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub sample_period: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub flags: u64,
    pub wakeup_events: u32,
    pub bp_type: u32,
    pub bp_addr: u64,
    pub bp_len: u64,
    pub branch_sample_type: u64,
    pub sample_regs_user: u64,
    pub sample_stack_user: u32,
    pub clockid: i32,
    pub sample_regs_intr: u64,
    pub aux_watermark: u32,
    pub sample_max_stack: u16,
    pub reserved: u16,
}

/// An open event.
pub(super) struct Event {
    fd: OwnedFd,
}

impl Event {
    /// Opens an event on a thread; `cpu` -1 is all of them.
    pub fn open(attr: &Attr, tid: u32, cpu: i32) -> io::Result<Event> {
        Event::in_group(attr, tid, cpu, None)
    }

    /// The same behind the leader of a group: they count together or not at all.
    pub fn in_group(attr: &Attr, tid: u32, cpu: i32, leader: Option<&Event>) -> io::Result<Event> {
        let group = leader.map_or(-1, |l| l.fd.as_raw_fd());
        let attr = Attr { size: size_of::<Attr>() as u32, ..*attr };
        // SAFETY: a valid attribute of the stated size.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attr,
                tid as libc::pid_t,
                cpu as libc::c_int,
                group as libc::c_int,
                CLOSE_ON_EXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else knows.
        Ok(Event { fd: unsafe { OwnedFd::from_raw_fd(fd as i32) } })
    }

    fn control(&self, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
        // SAFETY: none of the requests used here takes a pointer.
        match unsafe { libc::ioctl(self.fd.as_raw_fd(), request as libc::Ioctl, argument) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Counts and samples from now on.
    pub fn enable(&self) -> io::Result<()> {
        self.control(IOC_ENABLE, 0)
    }

    /// No longer.
    pub fn disable(&self) -> io::Result<()> {
        self.control(IOC_DISABLE, 0)
    }

    /// Enables it until it has overflowed once.
    pub fn once(&self) -> io::Result<()> {
        self.control(IOC_REFRESH, 1)
    }

    /// Times that it has overflowed, and the nanoseconds of its thread's time in which it was armed; its attribute has
    /// [`TIMES`].
    pub fn count(&self) -> io::Result<(u64, u64)> {
        let mut words = [0u64; 3];
        // SAFETY: reads into 24 bytes of our own.
        let n = unsafe { libc::read(self.fd.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words)) };
        match n {
            24 => Ok((words[0], words[2])),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Writes to the ring of another event on the same CPU, or of the same thread.
    pub fn write_to(&self, other: &Event) -> io::Result<()> {
        self.control(IOC_SET_OUTPUT, other.fd.as_raw_fd() as libc::c_ulong)
    }
}

/// The ring of an event.
pub(super) struct Ring {
    start: *mut u8,
    page: usize,
    data: usize,
}

/// Offsets of `data_head` and `data_tail` in `struct perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

impl Ring {
    /// Maps the ring of an event, with a power of two of pages.
    pub fn new(event: &Event, pages: usize) -> io::Result<Ring> {
        // SAFETY: asks for a constant of the system.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let data = pages * page;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping wherever the kernel likes.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), page + data, access, libc::MAP_SHARED, event.fd.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { start: start.cast(), page, data })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both words lie inside the first page, are aligned, and the kernel accesses them atomically.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast()) }
    }

    /// Appends everything that the kernel has written since, and frees its room.
    pub fn drain(&self, out: &mut Vec<u8>) {
        let head = self.word(HEAD).load(Ordering::Acquire);
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        let size = (head.wrapping_sub(tail) as usize).min(self.data);
        let at = tail as usize % self.data;
        let first = size.min(self.data - at);
        for (from, length) in [(at, first), (0, size - first)] {
            // SAFETY: inside of the mapping; the kernel does not write between tail and head.
            let part = unsafe { std::slice::from_raw_parts(self.start.add(self.page + from), length) };
            out.extend_from_slice(part);
        }
        fence(Ordering::Release);
        self.word(TAIL).store(head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nothing refers to any more.
        unsafe { libc::munmap(self.start.cast(), self.page + self.data) };
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock of all our events.
pub(super) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, nanoseconds.
pub(super) fn thread_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
