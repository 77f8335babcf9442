//! What a run of a program leaves in the folder in which it was built: the next run is to find what the first one did.

use super::stamp::Stamp;
use super::{Scratch, ScratchError};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Data that a build made is copied up to so many bytes; a program that changes more of it is built anew for each run.
const SAVED_BYTES_MAX: u64 = 1 << 30;

/// Files and folders, which have no stamp.
type Stamps = BTreeMap<PathBuf, Option<Stamp>>;

/// Everything in a folder as it was at one time.
#[derive(Debug, Default)]
pub(super) struct Traces {
    stamps: Stamps,
    /// Copies of data that the build made, by the same paths.
    saved: Option<Scratch>,
}

impl Traces {
    /// Looks at everything below `dir`, and copies what the build made there and a program may change: no code, and
    /// nothing that `is_source` knows.
    pub(super) fn of(dir: &Path, is_source: &dyn Fn(&Path) -> bool) -> Result<Traces, ScratchError> {
        let saved = Scratch::empty()?;
        let stamps = stamps(dir);
        let mut room = SAVED_BYTES_MAX;
        for (path, stamp) in &stamps {
            let Some(Stamp { bytes, .. }) = *stamp else { continue };
            if bytes > room || is_source(path) || is_code(&dir.join(path)) {
                continue;
            }
            // What cannot be copied cannot be restored, and is told then.
            let to = saved.path().join(path);
            let folder = to.parent().map_or(Ok(()), fs::create_dir_all);
            if folder.and_then(|()| fs::copy(dir.join(path), &to)).is_ok() {
                room -= bytes;
            }
        }
        Ok(Traces { stamps, saved: Some(saved) })
    }

    /// Removes what is new, and gives back what is other than it was: by `write`, where that knows the file. `false`:
    /// something cannot be given back.
    pub(super) fn undo(&mut self, dir: &Path, write: &dyn Fn(&Path) -> io::Result<bool>) -> bool {
        let now = stamps(dir);
        // What lies in a folder comes behind it.
        let new = now.iter().rev().filter(|(path, _)| !self.stamps.contains_key(*path));
        let removed: io::Result<()> =
            new.map(|(path, stamp)| remove(&dir.join(path), stamp.is_none())).collect();
        let saved = self.saved.as_ref().map(Scratch::path);
        let mut whole = removed.is_ok();
        for (path, stamp) in self.stamps.iter_mut().filter(|(path, stamp)| now.get(*path) != Some(*stamp)) {
            whole &= restore(&dir.join(path), stamp, || match (write(path)?, saved) {
                (true, _) => Ok(true),
                (false, Some(saved)) if saved.join(path).is_file() => {
                    fs::copy(saved.join(path), dir.join(path)).map(|_| true)
                }
                _ => Ok(false),
            });
        }
        whole
    }
}

/// Gives a file its text and its time back.
fn restore(path: &Path, stamp: &mut Option<Stamp>, write: impl Fn() -> io::Result<bool>) -> bool {
    let Some(stamp) = stamp else { return false };
    let timed = || File::options().append(true).open(path)?.set_modified(stamp.modified);
    if !write().unwrap_or(false) || timed().is_err() {
        return false;
    }
    // One that was removed is another file now.
    stamp.inode = fs::symlink_metadata(path).map_or(stamp.inode, |m| m.ino());
    true
}

fn stamps(dir: &Path) -> Stamps {
    let (mut out, mut todo) = (Stamps::new(), vec![PathBuf::new()]);
    while let Some(relative) = todo.pop() {
        for entry in fs::read_dir(dir.join(&relative)).into_iter().flatten().flatten() {
            let path = relative.join(entry.file_name());
            let Ok(m) = entry.metadata() else { continue };
            if m.is_dir() {
                todo.push(path.clone());
            }
            out.insert(path, (!m.is_dir()).then(|| Stamp::of(&m)));
        }
    }
    out
}

/// An ELF file or an archive, or no file that can be read.
fn is_code(path: &Path) -> bool {
    let mut magic = [0u8; 4];
    let regular = fs::symlink_metadata(path).is_ok_and(|m| m.is_file());
    let read = regular.then(|| File::open(path).and_then(|mut f| f.read(&mut magic)));
    read.is_none_or(|r| r.is_err()) || magic == *b"\x7fELF" || magic == *b"!<ar"
}

fn remove(path: &Path, is_folder: bool) -> io::Result<()> {
    if is_folder { fs::remove_dir(path) } else { fs::remove_file(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_given_back_as_the_first_run_found_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |n: &str| dir.path().join(n);
        fs::create_dir(at("d")).unwrap();
        ["d/made", "d/gone", "source"].iter().for_each(|n| fs::write(at(n), "old").unwrap());
        fs::write(at("code"), b"\x7fELF").unwrap();
        let mut traces = Traces::of(dir.path(), &|p| p == Path::new("source")).unwrap();
        let before = stamps(dir.path());
        fs::create_dir_all(at("d/new/deep")).unwrap();
        fs::write(at("d/new/deep/b"), "").unwrap();
        ["d/made", "source"].iter().for_each(|n| fs::write(at(n), "another").unwrap());
        fs::remove_file(at("d/gone")).unwrap();
        let write = |p: &Path| match p == Path::new("source") {
            true => fs::write(at("source"), "old").map(|()| true),
            false => Ok(false),
        };
        assert!(traces.undo(dir.path(), &write));
        let contents = ["d/made", "d/gone", "source"].map(|n| fs::read_to_string(at(n)).unwrap());
        assert_eq!(contents, ["old"; 3]);
        let times = |all: Stamps| -> Vec<_> {
            all.into_iter().map(|(p, s)| (p, s.map(|s| (s.bytes, s.modified)))).collect()
        };
        assert_eq!(times(before), times(stamps(dir.path())));
        assert!(traces.undo(dir.path(), &write), "and again");
        fs::write(at("code"), b"\x7fELF2").unwrap();
        assert!(!traces.undo(dir.path(), &write), "code is not copied");
    }
}
