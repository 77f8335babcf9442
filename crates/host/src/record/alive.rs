//! Whether a recorded process still runs. Its id is of its own namespace.

use std::path::Path;

/// True if a process with that id in that namespace runs; 0 stands for tussle's own.
pub(super) fn alive(pid: u32, namespace: u32) -> bool {
    let own = namespace_of(Path::new("/proc/self"));
    if namespace == 0 || own == Some(namespace) {
        return runs(Path::new(&format!("/proc/{pid}")));
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let inside = entries.map(|e| e.path()).filter(|p| namespace_of(p) == Some(namespace));
    inside.into_iter().any(|p| inner_pid(&p) == Some(pid) && runs(&p))
}

/// All processes that have this session's folder in their environment, also those that have not written anything yet:
/// what a server left in the background belongs to no group of ours.
pub(super) fn of(session: &Path) -> Vec<i32> {
    use std::os::unix::ffi::OsStrExt;
    let folder = session.as_os_str().as_bytes();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    let environ = |pid: &i32| std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let own = |pid: &i32| environ(pid).windows(folder.len().max(1)).any(|w| w == folder);
    ids.filter(|p| *p != std::process::id() as i32).filter(own).collect()
}

/// Asks all of them to end.
pub(super) fn end_those_of(session: &Path) {
    of(session).into_iter().for_each(|pid| crate::service::signal_one(pid, libc::SIGTERM));
}

/// A process that only waits for its parent to ask for its status writes nothing more; its first thread may have ended
/// before the others.
fn runs(process: &Path) -> bool {
    let Ok(stat) = std::fs::read_to_string(process.join("stat")) else { return false };
    let ended = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']));
    !ended || std::fs::read_dir(process.join("task")).is_ok_and(|t| t.count() > 1)
}

/// Inode of a process's namespace of ids, from the link `pid:[INODE]`.
fn namespace_of(process: &Path) -> Option<u32> {
    let link = std::fs::read_link(process.join("ns/pid")).ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// A process's id in its innermost namespace: the last of the line `NSpid`.
fn inner_pid(process: &Path) -> Option<u32> {
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    status.lines().find_map(|l| l.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_in_its_own_namespace_only() {
        let own = namespace_of(Path::new("/proc/self")).unwrap();
        assert_eq!(inner_pid(Path::new("/proc/self")), Some(std::process::id()));
        assert!(alive(std::process::id(), own) && alive(std::process::id(), 0));
        assert!(!alive(std::process::id(), 1), "no namespace has this inode");
    }
}
