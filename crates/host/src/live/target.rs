//! What `/proc` says about the watched processes.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tussle_debuginfo::{Bytes, CompanionRequest};
use tussle_live::kernel::KERNEL_PID;
use tussle_live::maps::Mapping;
use tussle_live::session::{Program, Target};
use tussle_naming::Images;

use super::kernel::Memory;
use crate::images::HostImages;

/// What a JIT compiler wrote is not read above this.
const JIT_BYTES_MAX: u64 = 256 << 20;

/// The processes of this machine. Files that were read stay open, so that they can be named after their process ended.
#[derive(Default)]
pub struct Procs {
    files: HashMap<String, (Bytes, u32)>,
    jit_sizes: HashMap<PathBuf, u64>,
    kernel: Memory,
}

impl Procs {
    /// The kernel's memory, and its file under its path.
    pub(super) fn with_kernel(memory: Memory, file: Option<(String, Bytes)>) -> Procs {
        let files = file.into_iter().map(|(path, bytes)| (path, (bytes, KERNEL_PID))).collect();
        Procs { files, kernel: memory, ..Procs::default() }
    }

    /// A file that a JIT compiler writes, as the process sees it, or as this machine does when the process is gone.
    fn grown(&mut self, pid: u32, path: &str) -> Option<Vec<u8>> {
        let seen = Some(inside(pid, path)).filter(|_| !is_gone(pid));
        let path = seen.unwrap_or_else(|| path.into());
        let size = fs::metadata(&path).ok()?.len();
        // Read again only when it has grown: there may be a sample in new code every millisecond.
        if size > JIT_BYTES_MAX || self.jit_sizes.insert(path.clone(), size) == Some(size) {
            return None;
        }
        fs::read(&path).ok()
    }
}

/// Path of a file of a process's folder in `/proc`.
fn proc(pid: u32, name: &str) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join(name)
}

/// The same of a thread that lives: where the main thread has ended, the process's own folder says nothing.
fn living(pid: u32, name: &str) -> PathBuf {
    proc(if state(pid) == Some('Z') { lives(pid).unwrap_or(pid) } else { pid }, name)
}

/// Some thread of the process that has not ended.
fn lives(pid: u32) -> Option<u32> {
    threads(pid).into_iter().find(|tid| state(*tid).is_some_and(|s| s != 'Z' && s != 'X'))
}

/// Nothing of the process runs any more.
pub(super) fn is_gone(pid: u32) -> bool {
    match state(pid) {
        None => true,
        Some('Z') => lives(pid).is_none(),
        Some(_) => false,
    }
}

/// A path as the process sees it, by the way of its root folder.
fn inside(pid: u32, path: &str) -> PathBuf {
    living(pid, "root").join(path.trim_start_matches('/'))
}

/// Threads of a process; empty when it is gone.
pub(super) fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(proc(pid, "task")).into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// Processes of a user by name or number, without this one.
pub(super) fn of_user(user: &str) -> Vec<u32> {
    use std::os::unix::fs::MetadataExt;
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let by_name = passwd.lines().find_map(|l| {
        let mut words = l.split(':');
        (words.next() == Some(user)).then(|| words.nth(1)?.parse::<u32>().ok())?
    });
    let Some(uid) = by_name.or_else(|| user.parse().ok()) else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut out: Vec<u32> = entries
        .filter(|e| e.metadata().is_ok_and(|m| m.uid() == uid))
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        // The kernel's own threads have no executable.
        .filter(|pid| *pid != std::process::id() && fs::read_link(proc(*pid, "exe")).is_ok())
        .collect();
    out.sort_unstable();
    out
}

/// Processes of a control group and of the groups in it, without this one; `None` when there is no such group. The
/// path is absolute, or begins at the root of a mounted hierarchy as in `/proc/PID/cgroup`.
pub(super) fn of_cgroup(group: &Path) -> Option<Vec<u32>> {
    let inside = group.strip_prefix("/").unwrap_or(group);
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(root).into_iter().flatten().flatten().map(|e| e.path());
    let mut places =
        [group.to_path_buf(), root.join(inside)].into_iter().chain(hierarchies.map(|h| h.join(inside)));
    let top = places.find(|p| p.join("cgroup.procs").is_file())?;
    let (mut out, mut open) = (Vec::new(), vec![top]);
    while let Some(folder) = open.pop() {
        let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        out.extend(
            text.lines().filter_map(|l| l.parse::<u32>().ok()).filter(|pid| *pid != std::process::id()),
        );
        let inner = fs::read_dir(&folder).into_iter().flatten().flatten();
        open.extend(inner.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    // 0: of a namespace that cannot be seen from here.
    out.retain(|pid| *pid != 0);
    out.sort_unstable();
    out.dedup();
    Some(out)
}

/// Letter of the process's state (`T` when stopped).
pub(super) fn state(pid: u32) -> Option<char> {
    let text = fs::read_to_string(proc(pid, "stat")).ok()?;
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether the process's executable is for 32-bit machines.
pub(super) fn is_32_bit(pid: u32) -> bool {
    use std::io::Read;
    let mut head = [0; 5];
    let read = fs::File::open(living(pid, "exe")).and_then(|mut f| f.read_exact(&mut head));
    read.is_ok() && head == *b"\x7fELF\x01"
}

fn map(path: &Path) -> Option<Bytes> {
    let file = fs::File::open(path).ok().filter(|f| f.metadata().is_ok_and(|m| m.is_file()))?;
    // SAFETY: private and only read, as in `images`.
    let map = unsafe { memmap2::Mmap::map(&file) }.ok()?;
    Some(Arc::new(map))
}

/// Number of the process in its own namespace, by which its files in `/tmp` are called.
fn own_number(pid: u32) -> u32 {
    let status = fs::read_to_string(proc(pid, "status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("NSpid:"));
    line.and_then(|l| l.split_whitespace().last()?.parse().ok()).unwrap_or(pid)
}

impl Target for Procs {
    fn maps(&mut self, pid: u32) -> Option<String> {
        let bytes = fs::read(living(pid, "maps")).ok().filter(|b| !b.is_empty())?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn program(&mut self, pid: u32) -> Option<Program> {
        let exe = fs::read_link(living(pid, "exe")).ok()?.to_string_lossy().into_owned();
        let line = fs::read(living(pid, "cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&line);
        let command = text.trim_end_matches('\0').split('\0').map(str::to_string).collect();
        Some(Program { exe: exe.trim_end_matches(" (deleted)").to_string(), command })
    }

    fn thread_name(&mut self, pid: u32, tid: u32) -> Option<String> {
        let text = fs::read_to_string(proc(pid, "task").join(tid.to_string()).join("comm")).ok()?;
        Some(text.trim_end().to_string())
    }

    fn file(&mut self, pid: u32, m: &Mapping) -> Option<Bytes> {
        let exact = living(pid, "map_files").join(format!("{:x}-{:x}", m.start, m.end));
        let bytes = map(&exact).or_else(|| map(&inside(pid, &m.path))).or_else(|| map(Path::new(&m.path)))?;
        self.files.insert(m.path.clone(), (bytes.clone(), pid));
        Some(bytes)
    }

    fn memory(&mut self, pid: u32, address: u64, buffer: &mut [u8]) -> usize {
        if pid == KERNEL_PID {
            return self.kernel.read(address, buffer);
        }
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
        // SAFETY: writes into our own buffer only; the other process's memory is read by the kernel.
        let n = unsafe {
            libc::process_vm_readv(pid as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0)
        };
        if n < 0 && state(pid) == Some('Z') {
            return lives(pid).map_or(0, |tid| self.memory(tid, address, buffer));
        }
        usize::try_from(n).unwrap_or(0)
    }

    fn jit_names(&mut self, pid: u32) -> Option<String> {
        let bytes = self.grown(pid, &format!("/tmp/perf-{}.map", own_number(pid)))?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn jit_dump(&mut self, pid: u32, path: &str) -> Option<Vec<u8>> {
        self.grown(pid, path)
    }

    fn now_ns(&mut self) -> u64 {
        super::event::now_ns()
    }
}

/// Modules as the watched processes had them, everything else from this machine.
pub struct LiveImages<'p> {
    /// Files that were read while sampling.
    pub procs: &'p Procs,
    /// For the rest.
    pub host: HostImages,
}

impl Images for LiveImages<'_> {
    fn module(&mut self, path: &str, build_id: Option<&str>) -> Result<Bytes, String> {
        match self.procs.files.get(path) {
            Some((bytes, _)) => Ok(bytes.clone()),
            None => self.host.module(path, build_id),
        }
    }

    fn companion(&mut self, path: &str, request: &CompanionRequest) -> Option<Bytes> {
        let own = self.host.companion(path, request);
        let CompanionRequest::BuildId(id) = request else { return own };
        let pid = self.procs.files.get(path)?.1;
        own.or_else(|| {
            let hex: String = id.iter().map(|b| format!("{b:02x}")).collect();
            let (head, tail) = hex.split_at_checked(2)?;
            map(&inside(pid, &format!("/usr/lib/debug/.build-id/{head}/{tail}.debug")))
        })
    }

    fn source(&mut self, path: &str) -> Option<Arc<str>> {
        self.host.source(path)
    }
}
