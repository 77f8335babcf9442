//! Filters on system calls (seccomp) that were set before the program began, by a container's or a service's manager or
//! by the program that executed this one. Most let all calls of the recorder pass. What a filter does is found out by a
//! child that makes them all: it may be killed in the program's place.

use crate::sys::*;

/// True if the recorder can make its system calls without being killed for it.
pub fn calls_are_safe() -> bool {
    !filtered() || survived()
}

/// Whether the line `Seccomp:` of this process's status names a mode. Unknown is yes. Opening and reading are what the
/// loader of shared libraries has just done.
fn filtered() -> bool {
    const AT_FDCWD: usize = -100isize as usize;
    const O_CLOEXEC: usize = 0o2000000;
    const NONE: &[u8] = b"\nSeccomp:\t0\n";
    let mut text = [0u8; 4096];
    // SAFETY: the path ends with a zero, the kernel writes into a buffer of ours, the descriptor is ours.
    let n = unsafe {
        let fd = call(SYS_openat, AT_FDCWD, c"/proc/self/status".as_ptr() as usize, O_CLOEXEC, 0, 0, 0);
        if fd < 0 {
            return true;
        }
        let n = call3(SYS_read, fd as usize, text.as_mut_ptr() as usize, text.len());
        call3(SYS_close, fd as usize, 0, 0);
        n
    };
    let text = text.get(..n.max(0) as usize).unwrap_or(&[]);
    !text.windows(NONE.len()).any(|w| w == NONE)
}

/// Has a child make every system call of the recorder; whether it lived. The child sends no signal at its end, and only
/// who waits for it by its number and kind is told of it.
fn survived() -> bool {
    const WCLONE: usize = 0x8000_0000;
    const EINTR: isize = -4;
    let mut status = 0u32;
    // SAFETY: a copy of the process, which ends without returning from here.
    unsafe {
        let child = call(SYS_clone, 0, 0, 0, 0, 0, 0);
        if child < 0 {
            return false;
        }
        if child == 0 {
            try_all();
            call3(SYS_exit_group, 0, 0, 0);
            die();
        }
        loop {
            let r = call(SYS_wait4, child as usize, &raw mut status as usize, WCLONE, 0, 0, 0);
            if r != EINTR {
                return r == child && status == 0;
            }
        }
    }
}

/// Every system call of the recorder, with arguments that it refuses or that change nothing: filters judge by number.
fn try_all() {
    const BAD: usize = -1isize as usize;
    const RLIMIT_CORE: usize = 4;
    let none = [0u64; 2];
    // A child that is killed leaves no file.
    // SAFETY: the kernel reads two numbers of ours.
    unsafe { call(SYS_prlimit64, 0, RLIMIT_CORE, &raw const none as usize, 0, 0, 0) };
    const ALL: [usize; 27] = [
        SYS_open,
        SYS_close,
        SYS_read,
        SYS_rt_sigprocmask,
        SYS_rt_tgsigqueueinfo,
        SYS_futex,
        SYS_mmap,
        SYS_munmap,
        SYS_unlink,
        SYS_mremap,
        SYS_pread64,
        SYS_sched_yield,
        SYS_madvise,
        SYS_getpid,
        SYS_ftruncate,
        SYS_readlink,
        SYS_getppid,
        SYS_gettid,
        SYS_prlimit64,
        SYS_munlock,
        SYS_openat,
        SYS_wait4,
        SYS_getrusage,
        SYS_fstat,
        SYS_poll,
        SYS_fcntl,
        SYS_rt_sigpending,
    ];
    for n in ALL {
        // SAFETY: no address is valid, no descriptor is open, no process has the number.
        unsafe { call(n, BAD, BAD, BAD, BAD, BAD, BAD) };
    }
}
