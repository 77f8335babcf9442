//! Whether a folder is as it was: tussle builds copies, but a build, or a program that runs, may know the folder's
//! absolute path.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::scratch::FILES_MAX;
use super::stamp::Stamp;

/// Folders of the system: no build writes there.
const SYSTEM: [&str; 9] = ["/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys", "/dev"];

/// Every file of a folder as it was at one time.
#[derive(Clone, Debug)]
pub struct Untouched {
    dir: PathBuf,
    /// What tussle itself writes there, absolute.
    ours: Vec<PathBuf>,
    /// Device and inode of what it prints to: somebody's log may lie there.
    printed: Vec<(u64, u64)>,
    files: BTreeMap<PathBuf, Stamp>,
    /// What runs of the program have written.
    by_runs: BTreeSet<PathBuf>,
}

/// A file that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Absolute.
    pub path: PathBuf,
    /// It was there before; else it is new.
    known: bool,
    what: &'static str,
}

impl Change {
    /// A source that was there before: patches are made of what it was.
    pub fn is_of_source(&self) -> bool {
        self.known && (crate::fix::is_source(&self.path) || self.path.extension().is_some_and(|e| e == "rs"))
    }
}

impl std::fmt::Display for Change {
    /// `/p/log.txt was written to`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.path.display(), self.what)
    }
}

impl Untouched {
    /// Looks at every file below `dir`, and at what links lead to that leave it: copies have the same links. Version
    /// control data are left out, what cargo made (others may be building; copies are never built there), and the files
    /// `ours`, which tussle writes, with what they are called when new ones take their names (`.old`).
    pub fn new(dir: &Path, ours: &[&Path]) -> Untouched {
        let old =
            |p: &PathBuf| PathBuf::from([p.as_os_str(), ".old".as_ref()].into_iter().collect::<OsString>());
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
        let ours: Vec<PathBuf> = ours.iter().filter_map(|p| in_real_folder(p)).collect();
        let ours = ours.iter().flat_map(|p| [p.clone(), old(p)]).collect();
        let open = |n: &str| std::fs::metadata(format!("/proc/self/fd/{n}")).ok();
        let printed = ["1", "2"].iter().filter_map(|n| open(n)).map(|m| (m.dev(), m.ino())).collect();
        Untouched { dir, ours, printed, files: BTreeMap::new(), by_runs: BTreeSet::new() }.now()
    }

    fn now(&self) -> Untouched {
        let mut out = Untouched { files: BTreeMap::new(), ..self.clone() };
        out.collect(Path::new(""));
        out
    }

    /// The first file that is not as it was; what runs have written does not count.
    pub fn changed(&self) -> Option<Change> {
        self.changes().into_iter().next()
    }

    /// What a run has changed that none has before. It is the program's own affair from now on.
    pub fn changed_by_run(&mut self) -> Vec<Change> {
        let changes = self.changes();
        self.by_runs.extend(changes.iter().map(|c| c.path.clone()));
        changes
    }

    /// What is not as it was, new files last.
    fn changes(&self) -> Vec<Change> {
        let now = self.now().files;
        let change = |p: &Path, known, what| Change { path: self.dir.join(p), known, what };
        let differs = self.files.iter().filter_map(|(path, stamp)| match now.get(path) {
            None => Some(change(path, true, "went away")),
            Some(n) if n != stamp => Some(change(path, true, "was written to")),
            _ => None,
        });
        let new = now.keys().filter(|p| !self.files.contains_key(*p)).map(|p| change(p, false, "appeared"));
        differs.chain(new).filter(|c| !self.by_runs.contains(&c.path)).collect()
    }

    fn collect(&mut self, relative: &Path) {
        let Ok(entries) = std::fs::read_dir(self.dir.join(relative)) else { return };
        for entry in entries.flatten() {
            let path = relative.join(entry.file_name());
            let foreign = matches!(&*entry.file_name().to_string_lossy(), ".git" | ".hg" | ".svn");
            if foreign || self.ours.contains(&self.dir.join(&path)) || self.files.len() > FILES_MAX {
                continue;
            }
            let Ok(m) = entry.metadata() else { continue };
            if self.printed.contains(&(m.dev(), m.ino())) {
                continue;
            }
            if m.is_dir() {
                if !self.dir.join(&path).join(".rustc_info.json").exists() {
                    self.collect(&path);
                }
                continue;
            }
            let outside = m.is_symlink().then(|| self.outside(&path)).flatten();
            // First, so that links in circles end.
            self.files.insert(path, Stamp::of(&m));
            if let Some((end, led)) = outside {
                match led.is_dir() {
                    true => self.collect(&end),
                    false => _ = self.files.insert(end, Stamp::of(&led)),
                }
            }
        }
    }

    /// What a link leads to that leaves the folder, if builds might write there and it was not looked at yet.
    fn outside(&self, link: &Path) -> Option<(PathBuf, Metadata)> {
        let end = self.dir.join(link).canonicalize().ok()?;
        let known = self.files.range(end.clone()..).next().is_some_and(|(f, _)| f.starts_with(&end));
        let system = SYSTEM.iter().any(|s| end.starts_with(s));
        // One to a folder around this one leads to everything.
        let around = self.dir.starts_with(&end) || end.starts_with(&self.dir);
        if known || system || around {
            return None;
        }
        let metadata = end.metadata().ok()?;
        Some((end, metadata))
    }
}

/// A file that need not exist, by the real path of its folder.
fn in_real_folder(file: &Path) -> Option<PathBuf> {
    let folder = file.parent().filter(|p| *p != Path::new("")).unwrap_or(Path::new("."));
    Some(folder.canonicalize().ok()?.join(file.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_removing_and_adding_are_seen_and_our_own_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |n: &str| dir.path().join(n);
        std::fs::create_dir(at("d")).unwrap();
        std::fs::write(at("d/a.o"), "1").unwrap();
        let ours = at("d/mine.data");
        let before = Untouched::new(dir.path(), &[&ours]);
        ["d/mine.data", "d/mine.data.old"].iter().for_each(|n| std::fs::write(at(n), "1").unwrap());
        assert_eq!(before.changed(), None);
        std::fs::write(at("d/a.o"), "12").unwrap();
        assert!(before.changed().unwrap().to_string().contains("a.o was written to"));
        let before = Untouched::new(dir.path(), &[&ours]);
        std::fs::write(at("b"), "").unwrap();
        assert!(before.changed().unwrap().to_string().contains("b appeared"));
        std::fs::remove_file(at("d/a.o")).unwrap();
        assert!(before.changed().unwrap().to_string().contains("a.o went away"));
    }

    #[test]
    fn what_a_run_has_written_is_told_once_and_is_no_builds_doing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |n: &str| dir.path().join(n);
        std::fs::write(at("log"), "1").unwrap();
        let mut seen = Untouched::new(dir.path(), &[]);
        ["log", "out"].iter().for_each(|n| std::fs::write(at(n), "12").unwrap());
        let changes = seen.changed_by_run();
        assert_eq!(changes.iter().map(|c| c.known).collect::<Vec<_>>(), [true, false]);
        assert!(changes[0].to_string().ends_with("log was written to"), "{changes:?}");
        std::fs::write(at("log"), "123").unwrap();
        assert_eq!((seen.changed(), seen.changed_by_run()), (None, Vec::new()));
        std::fs::write(at("a.o"), "").unwrap();
        assert!(seen.changed().unwrap().to_string().ends_with("a.o appeared"));
    }

    #[test]
    fn what_links_lead_to_is_looked_at_and_cargos_folder_is_not() {
        let outer = tempfile::tempdir().unwrap();
        let at = |n: &str| outer.path().join(n);
        ["p/target", "out/deep"].iter().for_each(|d| std::fs::create_dir_all(at(d)).unwrap());
        ["p/target/.rustc_info.json", "out/deep/a.o", "lone"]
            .iter()
            .for_each(|f| std::fs::write(at(f), "1").unwrap());
        let circle = (".", "out/circle");
        for (to, link) in
            [("../out", "p/bin"), ("..", "p/up"), ("bin", "p/again"), ("../lone", "p/one"), circle]
        {
            std::os::unix::fs::symlink(to, at(link)).unwrap();
        }
        let before = Untouched::new(&at("p"), &[]);
        std::fs::write(at("p/target/b"), "").unwrap();
        std::fs::write(at("beside"), "").unwrap();
        assert_eq!(before.changed(), None);
        for file in ["out/deep/a.o", "lone"] {
            let before = Untouched::new(&at("p"), &[]);
            std::fs::write(at(file), "12").unwrap();
            let changed = before.changed().unwrap().to_string();
            assert!(changed.contains(file) && changed.contains("written to"), "{changed}");
        }
    }
}
