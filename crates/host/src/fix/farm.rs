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
    grown(dir, |dir, root| Farm { dir, root, files, real, left_out, whole: false })
}

/// The same with every folder a folder of its own, but for hidden ones: `../include` leads to the tree's own from
/// wherever a compiler stands or a source lies.
pub(super) fn folders(dir: &Path, files: &[PathBuf]) -> Result<Scratch, FixError> {
    grown(dir, |dir, root| Farm { dir, root, files, real: &[], left_out: &[], whole: true })
}

/// Fills a folder as [`folders`] does, without what is in `left_out`.
pub(crate) fn into(dir: &Path, root: &Path, files: &[PathBuf], left_out: &[&str]) -> io::Result<()> {
    let (dir, root) = (dir.canonicalize()?, root.into());
    Farm { dir, root, files, real: &[], left_out, whole: true }.fill(Path::new(""))
}

fn grown<'a>(dir: &Path, farm: impl Fn(PathBuf, PathBuf) -> Farm<'a>) -> Result<Scratch, FixError> {
    let scratch = Scratch::empty()?;
    let io = |source| FixError::Io { path: dir.into(), source };
    let farm = farm(dir.canonicalize().map_err(io)?, scratch.path().into());
    farm.fill(Path::new("")).map_err(io)?;
    Ok(scratch)
}

struct Farm<'a> {
    dir: PathBuf,
    root: PathBuf,
    files: &'a [PathBuf],
    real: &'a [&'a str],
    left_out: &'a [&'a str],
    /// All folders are real.
    whole: bool,
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
        let hidden = path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
        (self.whole && !hidden)
            || self.files.iter().any(|f| f.starts_with(path))
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

    #[test]
    fn what_lies_beside_a_folder_is_of_the_tree() {
        let from = tempfile::tempdir().unwrap();
        for path in ["build", "include", ".git"] {
            std::fs::create_dir(from.path().join(path)).unwrap();
        }
        std::fs::write(from.path().join("include/x.h"), "1").unwrap();
        let tree = folders(from.path(), &["include/x.h".into()]).unwrap();
        std::fs::write(tree.path().join("include/x.h"), "changed").unwrap();
        let beside = tree.path().join("build/../include/x.h");
        assert_eq!(std::fs::read_to_string(beside).unwrap(), "changed");
        assert!(tree.path().join(".git").is_symlink());
    }
}
