//! Whether the process has mapped memory that the kernel or a device writes. Libraries set such rings up with system
//! calls of their own, which nobody sees; the mappings stay to be seen.

use crate::foreign::writer;
use crate::sys::*;

/// True if `/proc/self/maps` names such a mapping now; false also where it cannot be read.
pub fn mapped() -> bool {
    const AT_FDCWD: usize = -100isize as usize;
    const O_CLOEXEC: usize = 0o2000000;
    // SAFETY: the path ends with a zero; the descriptor is ours, and closed again.
    unsafe {
        let fd = call(SYS_openat, AT_FDCWD, c"/proc/self/maps".as_ptr() as usize, O_CLOEXEC, 0, 0, 0);
        if fd < 0 {
            return false;
        }
        let found = any_line(|to| call3(SYS_read, fd as usize, to.as_mut_ptr() as usize, to.len()));
        call3(SYS_close, fd as usize, 0, 0);
        found
    }
}

/// Whether a line of what `read` gives piece by piece names a writer. Of a line longer than the buffer only the end is
/// looked at: no name that matters is so long.
fn any_line(mut read: impl FnMut(&mut [u8]) -> isize) -> bool {
    let mut text = [0u8; 2048];
    let mut held = 0;
    loop {
        let Some(room) = text.get_mut(held..).filter(|r| !r.is_empty()) else {
            held = 0;
            continue;
        };
        let n = read(room);
        if n <= 0 {
            return false;
        }
        let end = (held + n as usize).min(text.len());
        let mut from = 0;
        while let Some(k) = text.get(from..end).and_then(|t| t.iter().position(|b| *b == b'\n')) {
            if text.get(from..from + k).and_then(writer).is_some() {
                return true;
            }
            from += k + 1;
        }
        if from < end {
            // A copy within bounds: `from` and `end` are positions of the text.
            text.copy_within(from..end, 0);
        }
        held = end - from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "00400000-00401000 r-xp 00000000 08:01 17   /usr/bin/program\n\
        7f0000000000-7f0000001000 rw-s 00000000 00:0e 2057    anon_inode:[io_uring]\n\
        7ffff0000000-7ffff0001000 rw-p 00000000 00:00 0       [stack]\n";

    fn found(text: &str, step: usize) -> bool {
        let mut rest = text.as_bytes();
        any_line(|to| {
            let n = rest.len().min(step).min(to.len());
            to[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            n as isize
        })
    }

    #[test]
    fn rings_are_found_however_the_text_is_cut() {
        let others = MAPS.replace("anon_inode:[io_uring]", "/dev/shm/anon_inode:[io_uring]");
        for step in [1, 7, 100, 4096] {
            assert!(found(MAPS, step), "{step}");
            assert!(!found(&others, step), "{step}");
            let long = MAPS.replace("/usr/bin/program", &"x".repeat(5000));
            assert!(found(&long, step), "{step}");
        }
    }

    #[test]
    fn devices_are_writers_and_memory_is_none() {
        let line = |name: &str| format!("7f00-7f01 rw-s 0 00:0e 20 {name}");
        for name in
            ["/dev/infiniband/uverbs0", "/[aio] (deleted)", "socket:[4711]", "anon_inode:[perf_event]"]
        {
            assert!(writer(line(name).as_bytes()).is_some(), "{name}");
        }
        for name in ["/dev/zero (deleted)", "/dev/shm/x", "", "[heap]", "/home/dev/x", "anon_inode:[other]"] {
            assert!(writer(line(name).as_bytes()).is_none(), "{name}");
        }
    }
}
