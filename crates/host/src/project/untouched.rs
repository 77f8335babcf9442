//! Whether a folder is as it was: tussle builds copies, but a build may know the folder's absolute path.

use std::collections::BTreeMap;
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
    files: BTreeMap<PathBuf, Stamp>,
}

impl Untouched {
    /// Looks at every file below `dir`, as far as copies are made of it. Version control data are left out, and what
    /// tussle itself writes where it is the current folder.
    pub fn new(dir: &Path) -> Untouched {
        let mut files = BTreeMap::new();
        collect(dir, Path::new(""), &mut files);
        Untouched { dir: dir.to_path_buf(), files }
    }

    /// The first file that is not as it was, with what happened.
    pub fn changed(&self) -> Option<String> {
        let now = Untouched::new(&self.dir).files;
        let at = |p: &Path| self.dir.join(p).display().to_string();
        let new = now.keys().find(|p| !self.files.contains_key(*p)).map(|p| format!("{} appeared", at(p)));
        let differs = self.files.iter().find_map(|(path, stamp)| match now.get(path) {
            None => Some(format!("{} went away", at(path))),
            Some(n) if n != stamp => Some(format!("{} was written to", at(path))),
            _ => None,
        });
        differs.or(new)
    }
}

fn collect(dir: &Path, relative: &Path, files: &mut BTreeMap<PathBuf, Stamp>) {
    let Ok(entries) = std::fs::read_dir(dir.join(relative)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let text = name.to_string_lossy();
        let ours = relative == Path::new("") && (text.starts_with("tussle.data") || text == "tussle.patch");
        if ours || matches!(&*text, ".git" | ".hg" | ".svn") || files.len() > FILES_MAX {
            continue;
        }
        let Ok(m) = entry.metadata() else { continue };
        let path = relative.join(&name);
        if m.is_dir() {
            collect(dir, &path, files);
        } else {
            let modified_ns = i128::from(m.mtime()) * 1_000_000_000 + i128::from(m.mtime_nsec());
            files.insert(path, Stamp { inode: m.ino(), bytes: m.size(), modified_ns });
        }
    }
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
        let before = Untouched::new(dir.path());
        std::fs::write(at("tussle.data.old"), "1").unwrap();
        assert_eq!(before.changed(), None);
        std::fs::write(at("d/a.o"), "12").unwrap();
        assert!(before.changed().unwrap().contains("a.o was written to"));
        let before = Untouched::new(dir.path());
        std::fs::write(at("b"), "").unwrap();
        assert!(before.changed().unwrap().contains("b appeared"));
        std::fs::remove_file(at("d/a.o")).unwrap();
        assert!(before.changed().unwrap().contains("a.o went away"));
    }
}
