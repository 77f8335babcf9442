//! Kernel and hardware counters of a run and everything it starts, by `perf_event_open`.
//!
//! The child opens its own counters between fork and exec (they begin to count at exec and are inherited by its
//! children) and hands the descriptors to us over a socket. Where a counter cannot be had it is absent, never zero.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;

/// A counter: name, `perf_event_attr.type`, `.config` (linux/perf_event.h).
type Event = (&'static str, u32, u64);

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

/// What is counted.
const EVENTS: [Event; 5] = [
    ("cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("cache_misses", HARDWARE, 3),
    ("branch_misses", HARDWARE, 5),
    ("cpu_migrations", SOFTWARE, 4),
];

/// Bits of `perf_event_attr`.
const DISABLED: u64 = 1 << 0;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const ENABLE_ON_EXEC: u64 = 1 << 12;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `_RUNNING`: counters take turns when there are too few.
const TIMES: u64 = 3;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// `struct perf_event_attr`, first version.
#[repr(C)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

/// What a child could open.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Opened {
    No = 0,
    All = 1,
    UserOnly = 2,
}

fn open(event: &Event, flags: u64) -> Result<RawFd, i32> {
    let attr = Attr {
        kind: event.1,
        size: size_of::<Attr>() as u32,
        config: event.2,
        sample_period: 0,
        sample_type: 0,
        read_format: TIMES,
        flags: DISABLED | EXCLUDE_HV | flags,
        wakeup_events: 0,
        bp_type: 0,
        bp_addr: 0,
    };
    // SAFETY: a valid attribute of the stated size, for the calling thread on any CPU.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, 0, -1, -1, CLOSE_ON_EXEC) };
    if fd >= 0 { Ok(fd as RawFd) } else { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) }
}

/// Why hardware counters are absent here; `None` when cycles can be counted.
pub fn missing() -> Option<String> {
    let cycles = &EVENTS[0];
    let error = match open(cycles, 0).or_else(|_| open(cycles, EXCLUDE_KERNEL)) {
        Ok(fd) => {
            // SAFETY: a descriptor that we own and nobody else knows.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            return None;
        }
        Err(error) => error,
    };
    Some(match error {
        libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP => {
            "this machine has no PMU or does not show it (as many virtual machines)".into()
        }
        libc::EACCES | libc::EPERM => {
            let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            format!("not permitted here (kernel.perf_event_paranoid is {})", level.trim())
        }
        libc::ENOSYS => "the kernel has no perf events".into(),
        other => io::Error::from_raw_os_error(other).to_string(),
    })
}

/// The way from the child to us.
pub(super) struct Channel {
    ours: UnixStream,
    theirs: UnixStream,
}

impl Channel {
    pub(super) fn new() -> io::Result<Channel> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        Ok(Channel { ours, theirs })
    }

    /// The end for [`open_in_child`].
    pub(super) fn child_end(&self) -> RawFd {
        self.theirs.as_raw_fd()
    }

    /// After the child has called exec: the counters that it opened.
    pub(super) fn receive(self) -> Counters {
        let mut state = [0u8; EVENTS.len()];
        let fds = receive(self.ours.as_raw_fd(), &mut state).unwrap_or_default();
        let opened = EVENTS.iter().zip(state).filter(|(_, s)| *s != Opened::No as u8);
        let name = |(event, state): (&Event, u8)| {
            if state == Opened::UserOnly as u8 { format!("{}:u", event.0) } else { event.0.to_string() }
        };
        Counters(opened.map(name).zip(fds).collect())
    }
}

/// Open counters of one run.
#[derive(Default)]
pub(super) struct Counters(Vec<(String, OwnedFd)>);

impl Counters {
    /// Their values after the run, scaled where they took turns. Those that never ran are left out.
    pub(super) fn read(&self) -> Vec<(String, u64)> {
        self.0.iter().filter_map(|(name, fd)| Some((name.clone(), value(fd)?))).collect()
    }
}

fn value(fd: &OwnedFd) -> Option<u64> {
    let mut words = [0u64; 3];
    let bytes = size_of_val(&words);
    // SAFETY: reads at most the size of the buffer into it.
    let got = unsafe { libc::read(fd.as_raw_fd(), words.as_mut_ptr().cast(), bytes) };
    let [count, enabled, running] = words;
    if got != bytes as isize || running == 0 {
        return None;
    }
    let share = u128::from(count) * u128::from(enabled.max(running)) / u128::from(running);
    u64::try_from(share).ok()
}

/// In the child, between fork and exec: system calls only, no allocation.
pub(super) fn open_in_child(socket: RawFd) {
    let mut state = [Opened::No as u8; EVENTS.len()];
    let mut fds = [-1; EVENTS.len()];
    let mut n = 0;
    let common = INHERIT | ENABLE_ON_EXEC;
    for (event, state) in EVENTS.iter().zip(&mut state) {
        let (fd, how) = match open(event, common) {
            Ok(fd) => (fd, Opened::All),
            // What the kernel does for a software event is all there is to count.
            Err(_) if event.1 == SOFTWARE => continue,
            Err(_) => match open(event, common | EXCLUDE_KERNEL) {
                Ok(fd) => (fd, Opened::UserOnly),
                Err(_) => continue,
            },
        };
        *state = how as u8;
        fds[n] = fd;
        n += 1;
    }
    send(socket, &mut state, &fds[..n]);
}

/// Room for the control message of all descriptors, aligned for its header.
type Control = [u64; 12];

fn message(bytes: &mut libc::iovec, control: &mut Control, length: usize) -> libc::msghdr {
    // SAFETY: msghdr is plain data; zero is "no address, no flags".
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = length as _;
    message
}

fn send(socket: RawFd, state: &mut [u8], fds: &[RawFd]) {
    let mut control: Control = [0; 12];
    let mut bytes = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
    let payload = size_of_val(fds) as libc::c_uint;
    // SAFETY: computes a size.
    let space = if fds.is_empty() { 0 } else { unsafe { libc::CMSG_SPACE(payload) as usize } };
    let message = message(&mut bytes, &mut control, space.min(size_of::<Control>()));
    // SAFETY: the control buffer has room for all descriptors: 16 bytes of header and 4 for each of at most five.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if !header.is_null() {
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(payload) as _;
            ptr::copy_nonoverlapping(fds.as_ptr().cast(), libc::CMSG_DATA(header), payload as usize);
        }
        libc::sendmsg(socket, &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    }
}

fn receive(socket: RawFd, state: &mut [u8]) -> Option<Vec<OwnedFd>> {
    let mut control: Control = [0; 12];
    let mut bytes = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
    let mut message = message(&mut bytes, &mut control, size_of::<Control>());
    let mut out = Vec::new();
    // SAFETY: the buffers are valid; the kernel says how much of them it filled, and every descriptor is ours alone.
    unsafe {
        if libc::recvmsg(socket, &raw mut message, libc::MSG_CMSG_CLOEXEC) < 0 {
            return None;
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
            let length = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            for i in 0..length / size_of::<RawFd>() {
                let fd = libc::CMSG_DATA(header).cast::<RawFd>().add(i).read_unaligned();
                out.push(OwnedFd::from_raw_fd(fd));
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_pass_the_socket_in_order() {
        let channel = Channel::new().unwrap();
        open_in_child(channel.child_end());
        let counters = channel.receive();
        let names: Vec<&str> = counters.0.iter().map(|c| c.0.trim_end_matches(":u")).collect();
        let known: Vec<&str> = EVENTS.iter().map(|e| e.0).filter(|e| names.contains(e)).collect();
        assert_eq!(names, known);
        // Nothing was executed: they were never enabled, and that is unknown, not zero.
        assert_eq!(counters.read(), Vec::new());
        assert_eq!(missing().is_none(), names.contains(&"cycles"));
    }

    #[test]
    fn a_child_that_says_nothing_has_no_counters() {
        assert!(Channel::new().unwrap().receive().0.is_empty());
    }
}
