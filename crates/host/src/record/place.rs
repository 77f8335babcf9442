//! Where raw files go: memory if there is room for them and it is not taken from the program's share, else a disk.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const SHM: &str = "/dev/shm";
/// More than this is not asked for at first, bytes.
const ENOUGH: u64 = 256 << 20;
/// A memory cgroup must have this many times as much left: pages of a tmpfs are charged to it and cannot be written
/// back, and the program would be killed for them.
const CGROUP_TIMES: u64 = 8;

/// Every place where session folders may be.
pub(super) fn all() -> Vec<PathBuf> {
    vec![SHM.into(), std::env::temp_dir(), "/var/tmp".into()]
}

/// The place for a session, and why it is not memory if it is not.
pub(super) fn choose(mem_max_bytes: u64) -> (PathBuf, Option<String>) {
    let need = mem_max_bytes.min(ENOUGH);
    let left = cgroup_left(&read);
    let why = if room(Path::new(SHM)) < need {
        format!("{SHM} has room for less than {} MiB", need >> 20)
    } else if left.is_some_and(|l| l < need.saturating_mul(CGROUP_TIMES)) {
        format!("this memory cgroup has {} MiB left", left.unwrap_or(0) >> 20)
    } else {
        return (SHM.into(), None);
    };
    let writable: Vec<PathBuf> =
        [std::env::temp_dir(), "/var/tmp".into()].into_iter().filter(|p| is_writable(p)).collect();
    if writable.is_empty() && is_writable(Path::new(SHM)) {
        let note = format!(
            "raw files go to {SHM}, although {why}: no other folder can be written. What does not fit is counted as \
             lost; a writable /tmp or TMPDIR helps"
        );
        return (SHM.into(), Some(note));
    }
    let disk = writable.into_iter().find(|p| !in_memory(p) && room(p) >= need);
    let place = disk.unwrap_or_else(std::env::temp_dir);
    let note = format!("raw files go to {}, because {why}", place.display());
    (place, Some(note))
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Bytes that the memory cgroups of this process leave it; `None` without a limit. Versions 1 and 2.
fn cgroup_left(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let mut left: Option<u64> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, limit, used) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            c if c.split(',').any(|c| c == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        // In a container the path may be the host's: the root is then the group itself.
        for group in Path::new(path).ancestors() {
            let at = Path::new(root).join(group.strip_prefix("/").unwrap_or(group));
            let number = |name: &str| read(&at.join(name)).and_then(|t| t.trim().parse::<u64>().ok());
            if let (Some(max), Some(now)) = (number(limit), number(used)) {
                let here = max.saturating_sub(now);
                left = Some(left.map_or(here, |l| l.min(here)));
            }
        }
    }
    left
}

/// Bytes free at a path; 0 if unknown.
pub(crate) fn room(at: &Path) -> u64 {
    let Ok(c) = std::ffi::CString::new(at.as_os_str().as_bytes()) else { return 0 };
    // SAFETY: statvfs fills plain data or fails.
    unsafe {
        let mut s: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(c.as_ptr(), &mut s) == 0 { s.f_bavail.saturating_mul(s.f_frsize) } else { 0 }
    }
}

/// Files can be made in a folder: it lies in no file system that is mounted for reading alone.
fn is_writable(at: &Path) -> bool {
    let Ok(c) = std::ffi::CString::new(at.as_os_str().as_bytes()) else { return false };
    // SAFETY: access reads a path that ends.
    unsafe { libc::access(c.as_ptr(), libc::W_OK) == 0 }
}

/// Whether a folder lies in a tmpfs or ramfs.
fn in_memory(at: &Path) -> bool {
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    let Ok(c) = std::ffi::CString::new(at.as_os_str().as_bytes()) else { return false };
    // SAFETY: statfs fills plain data or fails.
    unsafe {
        let mut s: libc::statfs = std::mem::zeroed();
        libc::statfs(c.as_ptr(), &mut s) == 0
            && [libc::TMPFS_MAGIC as u64, RAMFS_MAGIC].contains(&(s.f_type as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(files: &[(&str, &str)]) -> Option<u64> {
        cgroup_left(&|p| files.iter().find(|f| Path::new(f.0) == p).map(|f| f.1.to_string()))
    }

    #[test]
    fn the_tightest_of_nested_groups_counts() {
        let files = [
            ("/proc/self/cgroup", "0::/app/one\n"),
            ("/sys/fs/cgroup/app/one/memory.max", "max\n"),
            ("/sys/fs/cgroup/app/one/memory.current", "5\n"),
            ("/sys/fs/cgroup/app/memory.max", "1000\n"),
            ("/sys/fs/cgroup/app/memory.current", "400\n"),
        ];
        assert_eq!(left(&files), Some(600));
        let version1 = [
            ("/proc/self/cgroup", "4:cpu:/x\n3:memory,other:/docker/abc\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "900"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000"),
        ];
        assert_eq!(left(&version1), Some(0));
        assert_eq!(left(&[("/proc/self/cgroup", "0::/\n")]), None);
        assert_eq!(left(&[]), None);
    }
}
