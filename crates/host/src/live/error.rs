//! Why a program cannot be watched, and what to change.

use std::io;

/// Why nothing can be sampled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// No such process.
    #[error(
        "process {0} does not exist, or has ended (in a container it has the number that `ps` shows there)"
    )]
    NoProcess(u32),
    /// Nobody to look at.
    #[error("user {0} has no processes")]
    NoneOfUser(String),
    /// No such group.
    #[error("{0}: no control group (a folder with cgroup.procs, or a path as in /proc/PID/cgroup)")]
    NoCgroup(String),
    /// Nobody in it.
    #[error("{0}: no process of this control group can be watched")]
    NoneOfCgroup(String),
    /// 32-bit code.
    #[error("process {0} runs 32-bit code: only 64-bit x86 is decoded")]
    Bits32(u32),
    /// Of another user.
    #[error(
        "process {0} belongs to another user or may not be looked at: run tussle as root or as its user, or with \
         CAP_PERFMON and CAP_SYS_PTRACE (`sudo setcap cap_perfmon,cap_sys_ptrace=ep $(command -v tussle)`)"
    )]
    Foreign(u32),
    /// Refused by `kernel.perf_event_paranoid`.
    #[error(
        "the kernel refuses perf events: kernel.perf_event_paranoid is {level}. Change it \
         (`sudo sysctl kernel.perf_event_paranoid=2`), or run tussle as root or with CAP_PERFMON"
    )]
    Paranoid {
        /// Its value.
        level: String,
    },
    /// Refused otherwise.
    #[error(
        "perf_event_open is refused here, most likely by the container's seccomp filter: run tussle outside of the \
         container with the number that the process has there, or start the container with \
         `--security-opt seccomp=unconfined --cap-add PERFMON` (docs/live.md has a recipe for kubectl)"
    )]
    Seccomp,
    /// No perf in this kernel.
    #[error("this kernel has no perf events (CONFIG_PERF_EVENTS)")]
    NoPerf,
    /// `/proc/kallsyms` shows no addresses.
    #[error(
        "the kernel hides its addresses (kernel.kptr_restrict, or no CAP_SYSLOG): run tussle as root, or \
         `sudo sysctl kernel.kptr_restrict=1` with CAP_SYSLOG"
    )]
    Symbols,
    /// Whole CPUs.
    #[error(
        "the kernel refuses to have its own code sampled: run tussle as root (CAP_PERFMON for samples, CAP_SYS_ADMIN \
         for debug registers)"
    )]
    Kernel,
    /// `--vmlinux` does not fit.
    #[error("--vmlinux {0}: {1}")]
    Vmlinux(String, String),
    /// Descriptors.
    #[error(
        "{threads} threads on {cpus} CPUs need {needed} file descriptors, {limit} are allowed: raise it \
         (`ulimit -n {needed}`), or name fewer processes"
    )]
    Descriptors {
        /// Of the processes.
        threads: usize,
        /// Of the machine.
        cpus: usize,
        /// One per thread and CPU, and some.
        needed: usize,
        /// `RLIMIT_NOFILE`.
        limit: usize,
    },
    /// Memory for the rings.
    #[error(
        "no memory for perf's rings ({0}): raise kernel.perf_event_mlock_kb \
         (`sudo sysctl kernel.perf_event_mlock_kb=2048`), or run as root"
    )]
    Rings(io::Error),
    /// The command cannot be started.
    #[error("cannot run {0}: {1}")]
    Spawn(String, io::Error),
    /// `--clock pmu` where it cannot be had.
    #[error(
        "--clock pmu: {0}. Without the option the software clock is used, which every machine has (`--clock software`)"
    )]
    NoPmu(String),
    /// Anything else.
    #[error("perf_event_open: {0}")]
    Perf(io::Error),
}

/// What a failed `perf_event_open` on a process means.
pub(super) fn refused(error: io::Error, pid: u32) -> LiveError {
    match error.raw_os_error() {
        Some(libc::ESRCH) => LiveError::NoProcess(pid),
        Some(libc::ENOSYS | libc::ENOENT | libc::EOPNOTSUPP) => LiveError::NoPerf,
        Some(libc::EMFILE | libc::ENFILE) => {
            LiveError::Descriptors { threads: 0, cpus: 0, needed: 1 << 16, limit: 0 }
        }
        Some(libc::EACCES) => match paranoid() {
            // Our own threads may be watched: it is this process that is refused.
            Some(level) if level.parse::<i32>().is_ok_and(|l| l > 2) => LiveError::Paranoid { level },
            _ => LiveError::Foreign(pid),
        },
        Some(libc::EPERM) => LiveError::Seccomp,
        _ => LiveError::Perf(error),
    }
}

/// What a failed `perf_event_open` on a whole CPU means.
pub(super) fn of_kernel(error: io::Error) -> LiveError {
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::ENOENT | libc::EOPNOTSUPP) => LiveError::NoPerf,
        Some(libc::EACCES | libc::EPERM) => LiveError::Kernel,
        _ => LiveError::Perf(error),
    }
}

pub(super) fn paranoid() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    Some(text.trim().to_string())
}
