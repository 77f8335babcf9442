//! A folder of links: a source tree in which some files can be changed without copying the others.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::FixError;
use crate::project::{Scratch, writable_copy};

/// A tree like `dir` in which the folders on the way to `files`, and those of `real`, are folders of their own full of
/// links, and `files` are copies. Paths in `left_out` are not there. Only programs that write nothing beside their
/// sources may run in it.
pub(super) fn tree(
    dir: &Path,
    files: &[PathBuf],
    real: &[&str],
    left_out: &[&str],
) -> Result<Scratch, FixError> {
    let scratch = Scratch::empty()?;
    let dir = dir.canonicalize().map_err(|source| FixError::Io { path: dir.into(), source })?;
    let farm = Farm { dir: &dir, root: scratch.path(), files, real, left_out };
    farm.fill(Path::new("")).map_err(|source| FixError::Io { path: dir.clone(), source })?;
    Ok(scratch)
}

struct Farm<'a> {
    dir: &'a Path,
    root: &'a Path,
    files: &'a [PathBuf],
    real: &'a [&'a str],
    left_out: &'a [&'a str],
}

impl Farm<'_> {
    fn fill(&self, relative: &Path) -> io::Result<()> {
        for entry in std::fs::read_dir(self.dir.join(relative))? {
            let entry = entry?;
            let path = relative.join(entry.file_name());
            if self.left_out.iter().any(|l| path == Path::new(l)) {
                continue;
            }
            let (from, to) = (entry.path(), self.root.join(&path));
            if self.files.contains(&path) {
                // Through links, too: the copy is what gets changed.
                writable_copy(&from, &to)?;
            } else if entry.file_type()?.is_dir() && self.is_real(&path) {
                std::fs::create_dir(&to)?;
                self.fill(&path)?;
            } else {
                symlink(&from, &to)?;
            }
        }
        Ok(())
    }

    fn is_real(&self, path: &Path) -> bool {
        self.files.iter().any(|f| f.starts_with(path))
            || self.real.iter().any(|r| Path::new(r).starts_with(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_real_and_the_rest_are_links() {
        let from = tempfile::tempdir().unwrap();
        for (path, text) in [("a/b/x.h", "1"), ("a/y.h", "2"), ("c/z.h", "3"), (".config", "4")] {
            let path = from.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = tree(from.path(), &["a/b/x.h".into()], &[], &[".config"]).unwrap();
        let at = |p: &str| tree.path().join(p);
        std::fs::write(at("a/b/x.h"), "changed").unwrap();
        assert_eq!(std::fs::read_to_string(from.path().join("a/b/x.h")).unwrap(), "1");
        assert!(at("c").is_symlink() && at("a/y.h").is_symlink() && !at("a").is_symlink());
        assert!(!at(".config").exists());
        assert_eq!(std::fs::read_to_string(at("c/z.h")).unwrap(), "3");
    }
}
