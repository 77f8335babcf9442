//! Copies of a source folder: tussle never builds in, or writes to, the folder that it was pointed at. What a build
//! writes through a link that leaves the folder is not in our hands: `untouched` sees it.

use super::copying::writable_copy;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// More files than this are not copied: `hunt` was probably pointed at the wrong folder.
pub const FILES_MAX: usize = 200_000;

/// The folder in a copy where systems build that can build outside of their sources.
pub const BUILD_FOLDER: &str = ".tussle-build";

/// A folder that disappears with this value.
#[derive(Debug)]
pub struct Scratch {
    dir: tempfile::TempDir,
    left_out: Vec<String>,
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
    /// The compilation database is of no use here; the text says what to do.
    #[error("{0}")]
    Database(String),
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
        crate::interrupted::goes(dir.path());
        Ok(Scratch { dir, left_out: Vec::new() })
    }

    /// A copy of `from` without version control data and without what a build left there. Times are kept, so that
    /// `make` sees what is up to date; links are copied as links: those that lead into `from` lead into the copy, those
    /// that lead out of it to where they led, but for folders of builds, which are folders of the copy. Sockets and
    /// devices are left out.
    pub fn copy_of(from: &Path) -> Result<Scratch, ScratchError> {
        Scratch::copy(from, None)
    }

    /// [`Scratch::copy_of`] with this folder in it, whatever it looks like.
    pub fn copy_keeping(from: &Path, keep: &Path) -> Result<Scratch, ScratchError> {
        Scratch::copy(from, Some(keep))
    }

    fn copy(from: &Path, keep: Option<&Path>) -> Result<Scratch, ScratchError> {
        let mut scratch = Scratch::empty()?;
        scratch.left_out = scratch.fill(from, keep)?;
        Ok(scratch)
    }

    /// Copies into it; what was left out.
    fn fill(&self, from: &Path, keep: Option<&Path>) -> Result<Vec<String>, ScratchError> {
        let from = &from.canonicalize().map_err(io(from))?;
        let mut copy = Copy { from, to: self.path(), keep, files: 0, left_out: Vec::new() };
        copy.folder(Path::new(""))?;
        Ok(copy.left_out)
    }

    /// Empties the folder, which keeps its path, and copies `from` again.
    pub(crate) fn refill(&self, from: &Path, keep: Option<&Path>) -> Result<(), ScratchError> {
        for entry in fs::read_dir(self.path()).map_err(io(self.path()))? {
            let entry = entry.map_err(io(self.path()))?;
            let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
            let removed =
                if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
            removed.map_err(io(&entry.path()))?;
        }
        self.fill(from, keep).map(drop)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Folders that were not copied because a build made them, relative.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}

/// A copy under way.
struct Copy<'a> {
    from: &'a Path,
    to: &'a Path,
    keep: Option<&'a Path>,
    files: usize,
    left_out: Vec<String>,
}

impl Copy<'_> {
    fn folder(&mut self, relative: &Path) -> Result<(), ScratchError> {
        let at = self.from.join(relative);
        let configured = relative == Path::new("") && at.join("CMakeCache.txt").is_file();
        for entry in fs::read_dir(&at).map_err(io(&at))? {
            let entry = entry.map_err(io(&at))?;
            self.files += 1;
            if self.files > FILES_MAX {
                return Err(ScratchError::TooLarge { path: self.from.to_path_buf() });
            }
            let path = relative.join(entry.file_name());
            let kind = entry.file_type().map_err(io(&entry.path()))?;
            if kind.is_symlink() {
                self.link(&path)?;
            } else if kind.is_dir() {
                self.enter(&path)?;
            } else if kind.is_file()
                // A work tree's or submodule's `.git` names the user's repository.
                && entry.file_name() != ".git"
                && !(configured && made_by_cmake(&at, &path))
                && !is_object(&entry.path())
            {
                self.file(&path, &entry)?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, path: &Path) -> Result<(), ScratchError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if matches!(&*name, ".git" | ".hg" | ".svn" | BUILD_FOLDER) {
            return Ok(());
        }
        if self.keep != Some(path) && is_build_output(&self.from.join(path)) {
            self.left_out.push(path.display().to_string());
            return Ok(());
        }
        let target = self.to.join(path);
        fs::create_dir(&target).map_err(io(&target))?;
        self.folder(path)
    }

    fn link(&self, path: &Path) -> Result<(), ScratchError> {
        let (source, target) = (self.from.join(path), self.to.join(path));
        let link = fs::read_link(&source).map_err(io(&source))?;
        let led = self.led(path, link);
        if !led.starts_with(self.to) && is_for_builds(&source) {
            return fs::create_dir(&target).map_err(io(&target));
        }
        std::os::unix::fs::symlink(led, &target).map_err(io(&target))
    }

    /// Where the copy of the link at `path` leads. A build that writes through it must not reach the user's folder, and
    /// what lies beside the folder does not lie beside its copy.
    fn led(&self, path: &Path, link: PathBuf) -> PathBuf {
        if link.is_relative() && !goes_up_out(path, &link) {
            return link;
        }
        let folder = path.parent().map_or(self.from.to_path_buf(), |p| self.from.join(p));
        let end = folder.join(&link);
        // What is not there yet may be made by the build: not in the user's folder.
        let made = || resolved(&end).filter(|e| e.starts_with(self.from));
        let end = fs::canonicalize(&end).ok().or_else(made).unwrap_or(link);
        end.strip_prefix(self.from).map_or(end.clone(), |inside| self.to.join(inside))
    }

    fn file(&self, path: &Path, entry: &fs::DirEntry) -> Result<(), ScratchError> {
        let target = self.to.join(path);
        writable_copy(&entry.path(), &target).map_err(io(&entry.path()))?;
        let modified = entry.metadata().and_then(|m| m.modified());
        if let (Ok(time), Ok(file)) = (modified, fs::File::options().append(true).open(&target)) {
            let _ = file.set_modified(time);
        }
        Ok(())
    }
}

/// A path without links, as far as it exists: a build may still make what a link names.
fn resolved(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().find_map(|a| Some((fs::canonicalize(a).ok()?, a)));
    let (end, a) = there?;
    Some(path.strip_prefix(a).map_or(end.clone(), |rest| end.join(rest)))
}

/// A relative link at `path` goes up out of the folder that the path is relative to, by its words alone.
fn goes_up_out(path: &Path, link: &Path) -> bool {
    let mut depth = path.components().count() as isize - 1;
    link.components().any(|part| {
        depth += match part {
            Component::ParentDir => -1,
            Component::Normal(_) => 1,
            _ => 0,
        };
        depth < 0
    })
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> ScratchError + use<> {
    let path = path.to_path_buf();
    move |source| ScratchError::Io { path: path.clone(), source }
}

/// A folder that a build system made: it carries that system's mark. Caches of cmake and meson hold absolute paths, by
/// which a build of the copy would write to the original.
pub(super) fn is_build_output(dir: &Path) -> bool {
    let has = |n: &str| dir.join(n).exists();
    has("CMakeCache.txt") || has("meson-private") || has(".rustc_info.json") || is_cmake_files(dir)
}

/// A folder that a build made, or that waits for one: empty, or with objects at its top.
fn is_for_builds(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    let all: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    let made = |p: &PathBuf| p.extension().is_some_and(|e| e == "o" || e == "lo" || e == "d") && p.is_file();
    all.is_empty() || is_build_output(dir) || all.iter().any(made)
}

fn is_cmake_files(dir: &Path) -> bool {
    dir.file_name().is_some_and(|n| n == "CMakeFiles")
}

/// At the top of a folder in which cmake was run.
fn made_by_cmake(dir: &Path, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    matches!(&*name, "CMakeCache.txt" | "cmake_install.cmake" | "CTestTestfile.cmake")
        || (matches!(&*name, "Makefile" | "build.ninja") && super::system::is_generated(dir, &name))
}

/// An object file beside its source.
fn is_object(path: &Path) -> bool {
    const SOURCES: [&str; 7] = ["c", "cc", "cpp", "cxx", "C", "S", "s"];
    path.extension().is_some_and(|e| e == "o" || e == "lo")
        && SOURCES.iter().any(|e| path.with_extension(e).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for f in files {
            let at = dir.path().join(f);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, "int x;\n").unwrap();
        }
        dir
    }

    #[test]
    fn a_copy_leaves_version_control_behind_and_keeps_times() {
        let from = folder(&["a/x.c", "a/.git/config", "sub/.git"]);
        let read_only = std::os::unix::fs::PermissionsExt::from_mode(0o444);
        fs::set_permissions(from.path().join("a/x.c"), read_only).unwrap();
        std::os::unix::fs::symlink("x.c", from.path().join("a/y.c")).unwrap();
        let copy = Scratch::copy_of(from.path()).unwrap();
        assert_eq!(fs::read_to_string(copy.path().join("a/y.c")).unwrap(), "int x;\n");
        assert!(!copy.path().join("a/.git").exists() && !copy.path().join("sub/.git").exists());
        let mode =
            |p: &Path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(p).unwrap().permissions());
        assert_eq!(mode(&copy.path().join("a/x.c")) & 0o777, 0o644, "it may be patched");
        let time = |p: &Path| fs::metadata(p).unwrap().modified().unwrap();
        assert_eq!(time(&from.path().join("a/x.c")), time(&copy.path().join("a/x.c")));
        let path = copy.path().to_path_buf();
        drop(copy);
        assert!(!path.exists());
    }

    #[test]
    fn a_copy_has_no_output_of_builds() {
        let from =
            folder(&["build/CMakeCache.txt", "build/x.h", "target/.rustc_info.json", "x.c", "x.o", "blob.o"]);
        let copy = Scratch::copy_of(from.path()).unwrap();
        let there = |n: &str| copy.path().join(n).exists();
        assert!(there("x.c") && there("blob.o") && !there("x.o") && !there("build") && !there("target"));
        let mut left_out = copy.left_out().to_vec();
        left_out.sort_unstable();
        assert_eq!(left_out, ["build", "target"]);
        let copy = Scratch::copy_keeping(from.path(), Path::new("build")).unwrap();
        assert!(copy.path().join("build/x.h").exists());
    }

    #[test]
    fn links_with_absolute_paths_lead_into_the_copy() {
        let from = folder(&["out/x.c"]);
        std::os::unix::fs::symlink(from.path().join("out"), from.path().join("link")).unwrap();
        let copy = Scratch::copy_of(from.path()).unwrap();
        assert_eq!(fs::read_link(copy.path().join("link")).unwrap(), copy.path().join("out"));
    }

    #[test]
    fn links_that_go_up_lead_into_the_copy_or_to_where_they_led() {
        let outer = folder(&["app/src/x.c", "common/api.h"]);
        let app = outer.path().join("app");
        let name = app.file_name().unwrap().to_string_lossy().into_owned();
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, app.join(at)).unwrap();
        link("../common", "common");
        link(&format!("../../{name}/src/x.c"), "src/again.c");
        link("../src/x.c", "src/down.c");
        link("../nowhere", "dangling");
        let copy = Scratch::copy_of(&app).unwrap();
        let led = |at: &str| fs::read_link(copy.path().join(at)).unwrap();
        assert_eq!(led("common"), outer.path().canonicalize().unwrap().join("common"));
        assert_eq!(led("src/again.c"), copy.path().join("src/x.c"));
        assert_eq!(led("src/down.c"), Path::new("../src/x.c"));
        assert_eq!(led("dangling"), Path::new("../nowhere"));
    }

    #[test]
    fn a_link_to_a_folder_of_builds_is_a_folder_of_the_copy() {
        let outer = folder(&["app/x.c", "made/x.o", "cmake/CMakeCache.txt", "lib/api.h"]);
        fs::create_dir(outer.path().join("empty")).unwrap();
        let app = outer.path().join("app");
        for n in ["made", "cmake", "empty", "lib"] {
            std::os::unix::fs::symlink(format!("../{n}"), app.join(n)).unwrap();
        }
        let copy = Scratch::copy_of(&app).unwrap();
        for (n, own) in [("made", true), ("cmake", true), ("empty", true), ("lib", false)] {
            let at = copy.path().join(n);
            assert_eq!(fs::symlink_metadata(&at).unwrap().is_dir(), own, "{n}");
            assert!(!own || fs::read_dir(&at).unwrap().next().is_none(), "{n}");
        }
    }
}
