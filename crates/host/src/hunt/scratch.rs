//! Copies of a source folder: tussle never builds in, or writes to, the folder that it was pointed at.

use std::fs;
use std::path::{Path, PathBuf};

/// More files than this are not copied: `hunt` was probably pointed at the wrong folder.
pub const FILES_MAX: usize = 200_000;

/// A folder that disappears with this value.
#[derive(Debug)]
pub struct Scratch {
    dir: tempfile::TempDir,
}

/// Why a folder could not be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScratchError {
    /// Something could not be read or written.
    #[error("cannot copy {path}: {source}")]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Too many files.
    #[error("{path} holds more than {FILES_MAX} files; name the folder of the program itself")]
    TooLarge {
        /// The folder.
        path: PathBuf,
    },
}

impl Scratch {
    /// An empty private folder.
    pub fn empty() -> Result<Scratch, ScratchError> {
        let dir = tempfile::Builder::new()
            .prefix("tussle-")
            .tempdir()
            .map_err(|source| ScratchError::Io { path: std::env::temp_dir(), source })?;
        Ok(Scratch { dir })
    }

    /// A copy of `from` without version control data. Times are kept, so that `make` sees what is up to date; links
    /// are copied as links; sockets and devices are left out.
    pub fn copy_of(from: &Path) -> Result<Scratch, ScratchError> {
        let scratch = Scratch::empty()?;
        let mut files = 0;
        copy(from, scratch.path(), &mut files)?;
        Ok(scratch)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn copy(from: &Path, to: &Path, files: &mut usize) -> Result<(), ScratchError> {
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ScratchError::Io { path, source }
    };
    for entry in fs::read_dir(from).map_err(io(from))? {
        let entry = entry.map_err(io(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        *files += 1;
        if *files > FILES_MAX {
            return Err(ScratchError::TooLarge { path: from.to_path_buf() });
        }
        let kind = entry.file_type().map_err(io(&source))?;
        if kind.is_symlink() {
            let link = fs::read_link(&source).map_err(io(&source))?;
            std::os::unix::fs::symlink(link, &target).map_err(io(&target))?;
        } else if kind.is_dir() {
            if matches!(entry.file_name().to_str(), Some(".git" | ".hg" | ".svn")) {
                continue;
            }
            fs::create_dir(&target).map_err(io(&target))?;
            copy(&source, &target, files)?;
        } else if kind.is_file() {
            fs::copy(&source, &target).map_err(io(&source))?;
            let modified = entry.metadata().and_then(|m| m.modified());
            if let (Ok(time), Ok(file)) = (modified, fs::File::options().append(true).open(&target)) {
                let _ = file.set_modified(time);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_leaves_version_control_behind_and_keeps_times() {
        let from = tempfile::tempdir().unwrap();
        fs::create_dir_all(from.path().join("a/.git")).unwrap();
        fs::write(from.path().join("a/x.c"), "int x;\n").unwrap();
        fs::write(from.path().join("a/.git/config"), "no").unwrap();
        std::os::unix::fs::symlink("x.c", from.path().join("a/y.c")).unwrap();
        let copy = Scratch::copy_of(from.path()).unwrap();
        assert_eq!(fs::read_to_string(copy.path().join("a/y.c")).unwrap(), "int x;\n");
        assert!(!copy.path().join("a/.git").exists());
        let time = |p: &Path| fs::metadata(p).unwrap().modified().unwrap();
        assert_eq!(time(&from.path().join("a/x.c")), time(&copy.path().join("a/x.c")));
        let path = copy.path().to_path_buf();
        drop(copy);
        assert!(!path.exists());
    }
}
