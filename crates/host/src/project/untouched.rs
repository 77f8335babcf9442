//! Whether a folder is as it was: tussle builds copies, but a build may know the folder's absolute path.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::scratch::FILES_MAX;

/// Inode, size, and time of the last change of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified_ns: i128,
}

/// Every file of a folder as it was at one time.
#[derive(Clone, Debug)]
pub struct Untouched {
    dir: PathBuf,
    /// What tussle itself writes there, absolute.
    ours: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Stamp>,
}

impl Untouched {
    /// Looks at every file below `dir`, as far as copies are made of it. Version control data are left out, and the
    /// files `ours`, which tussle writes, with what they are called when new ones take their names (`.old`).
    pub fn new(dir: &Path, ours: &[&Path]) -> Untouched {
        let old = |p: &PathBuf| PathBuf::from([p.as_os_str(), ".old".as_ref()].into_iter().collect::<OsString>());
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
        let ours: Vec<PathBuf> = ours.iter().filter_map(|p| in_real_folder(p)).collect();
        let ours = ours.iter().flat_map(|p| [p.clone(), old(p)]).collect();
        Untouched { dir, ours, files: BTreeMap::new() }.now()
    }

    fn now(&self) -> Untouched {
        let mut out = Untouched { files: BTreeMap::new(), ..self.clone() };
        out.collect(Path::new(""));
        out
    }

    /// The first file that is not as it was, with what happened.
    pub fn changed(&self) -> Option<String> {
        let now = self.now().files;
        let at = |p: &Path| self.dir.join(p).display().to_string();
        let new = now.keys().find(|p| !self.files.contains_key(*p)).map(|p| format!("{} appeared", at(p)));
        let differs = self.files.iter().find_map(|(path, stamp)| match now.get(path) {
            None => Some(format!("{} went away", at(path))),
            Some(n) if n != stamp => Some(format!("{} was written to", at(path))),
            _ => None,
        });
        differs.or(new)
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
            if m.is_dir() {
                self.collect(&path);
            } else {
                let modified_ns = i128::from(m.mtime()) * 1_000_000_000 + i128::from(m.mtime_nsec());
                self.files.insert(path, Stamp { inode: m.ino(), bytes: m.size(), modified_ns });
            }
        }
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
        assert!(before.changed().unwrap().contains("a.o was written to"));
        let before = Untouched::new(dir.path(), &[&ours]);
        std::fs::write(at("b"), "").unwrap();
        assert!(before.changed().unwrap().contains("b appeared"));
        std::fs::remove_file(at("d/a.o")).unwrap();
        assert!(before.changed().unwrap().contains("a.o went away"));
    }
}
