//! Revisions of a git repository, checked out into folders of their own and built once each.
//!
//! The repository itself is only read (`git archive`): no worktree, index or branch of the user changes.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// Snapshots of one build that are read from a revision.
const SNAPSHOTS_MAX: usize = 16;

/// One commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Full hash.
    pub hash: String,
    /// First line of its message.
    pub subject: String,
}

impl Revision {
    /// The first twelve digits.
    pub fn short(&self) -> &str {
        self.hash.get(..12).unwrap_or(&self.hash)
    }
}

/// Why a revision cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RevisionError {
    /// git said no.
    #[error("git {what}: {said}")]
    Git {
        /// What it was asked.
        what: String,
        /// Its words.
        said: String,
    },
    /// There is none.
    #[error("there is no git in PATH: install it")]
    NoGit,
    /// `bad` does not come after `good`.
    #[error("there is no commit after {good} on the way to {bad}")]
    NoCommits {
        /// Reference.
        good: String,
        /// Candidate.
        bad: String,
    },
    /// The build failed.
    #[error("{revision} does not build ({status}): {said}")]
    Build {
        /// Which.
        revision: String,
        /// Its exit status.
        status: String,
        /// The last lines it wrote.
        said: String,
    },
    /// Files or processes.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> RevisionError {
    |source| RevisionError::Io { what: what.into(), source }
}

fn cannot_start_git(e: io::Error) -> RevisionError {
    if e.kind() == io::ErrorKind::NotFound { RevisionError::NoGit } else { io_error("git")(e) }
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(2)..].join(" / ").chars().take(300).collect()
}

fn git(repository: &Path, arguments: &[&str]) -> Result<String, RevisionError> {
    git_bytes(repository, arguments).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn git_bytes(repository: &Path, arguments: &[&str]) -> Result<Vec<u8>, RevisionError> {
    let run = Command::new("git").arg("-C").arg(repository).args(arguments).stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } = run.map_err(cannot_start_git)?;
    if !status.success() {
        return Err(RevisionError::Git { what: arguments.join(" "), said: last_line(&stderr) });
    }
    Ok(stdout)
}

/// Name and "hash" of the working tree as it is, committed or not.
pub const WORKING_TREE: &str = "working-tree";

/// The top folder of the repository that a folder lies in.
///
/// # Errors
/// When it lies in none.
pub fn top(folder: &Path) -> Result<PathBuf, RevisionError> {
    Ok(PathBuf::from(git(folder, &["rev-parse", "--show-toplevel"])?.trim_end_matches('\n')))
}

/// A file as it was committed at a revision; `None` when the revision has no such file.
///
/// # Errors
/// When git does not know the revision, or the file lies in no repository.
pub fn file_at(revision: &str, path: &Path) -> Result<Option<Vec<u8>>, RevisionError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let commit = one(folder, revision)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let object = format!("{}:./{name}", commit.hash);
    match git(folder, &["cat-file", "-e", &object]) {
        Ok(_) => git_bytes(folder, &["show", &object]).map(Some),
        Err(RevisionError::Git { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// JSON files of a build's name (`server.json` for `build/server` and `server.o`) at a revision, by their paths from
/// the top of the repository that the build lies in: snapshots of it, perhaps.
///
/// # Errors
/// When git does not know the revision, or the build lies in no repository.
pub fn snapshots_at(revision: &str, build: &Path) -> Result<Vec<(String, Vec<u8>)>, RevisionError> {
    let folder = build.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let commit = one(folder, revision)?;
    let names = [build.file_name(), build.file_stem()].into_iter().flatten();
    let names: Vec<String> = names.map(|n| format!("{}.json", n.to_string_lossy())).collect();
    let tree = git(folder, &["ls-tree", "-r", "-z", "--name-only", "--full-tree", &commit.hash])?;
    let of_name = |path: &&str| names.iter().any(|n| path.rsplit('/').next() == Some(n));
    let show = |path: &str| {
        let bytes = git_bytes(folder, &["show", &format!("{}:{path}", commit.hash)])?;
        Ok((path.to_string(), bytes))
    };
    tree.split('\0').filter(of_name).take(SNAPSHOTS_MAX).map(show).collect()
}

/// [`one`], or the working tree for `.`.
///
/// # Errors
/// When git does not know it.
pub fn named(repository: &Path, name: &str) -> Result<Revision, RevisionError> {
    if name == "." {
        let head = one(repository, "HEAD")?;
        let subject = format!("on {}: {}", head.short(), head.subject);
        return Ok(Revision { hash: WORKING_TREE.into(), subject });
    }
    one(repository, name)
}

/// One revision by any name git knows.
///
/// # Errors
/// When git does not know it.
pub fn one(repository: &Path, name: &str) -> Result<Revision, RevisionError> {
    let commit = format!("{name}^{{commit}}");
    let hash = git(repository, &["rev-parse", "--verify", "--end-of-options", &commit])?.trim().to_string();
    let subject = git(repository, &["log", "-1", "--format=%s", &hash])?.trim().to_string();
    Ok(Revision { hash, subject })
}

/// `good` and every commit after it on the first-parent way to `bad`, oldest first.
///
/// # Errors
/// When git does not know one of them, or there is nothing between.
pub fn range(repository: &Path, good: &str, bad: &str) -> Result<Vec<Revision>, RevisionError> {
    let (first, last) = (one(repository, good)?, one(repository, bad)?);
    let span = format!("{}..{}", first.hash, last.hash);
    let text = git(repository, &["log", "--reverse", "--first-parent", "--format=%H %s", &span])?;
    let mut out = vec![first];
    out.extend(text.lines().filter_map(|line| {
        let (hash, subject) = line.split_once(' ').unwrap_or((line, ""));
        (!hash.is_empty()).then(|| Revision { hash: hash.into(), subject: subject.into() })
    }));
    if out.len() < 2 {
        return Err(RevisionError::NoCommits { good: good.into(), bad: bad.into() });
    }
    Ok(out)
}

/// What a merge brought in: where its branch left the main line, and every commit from there to the branch's end,
/// oldest first. `None` for a commit that is no merge, or whose branch is one commit.
///
/// # Errors
/// When git does not know the commit.
pub fn merged(repository: &Path, hash: &str) -> Result<Option<Vec<Revision>>, RevisionError> {
    let parents = git(repository, &["log", "-1", "--format=%P", hash])?;
    let [main, branch, ..] = parents.split_whitespace().collect::<Vec<_>>()[..] else { return Ok(None) };
    let base = git(repository, &["merge-base", main, branch])?;
    let commits = range(repository, base.trim(), branch)?;
    Ok((commits.len() > 2).then_some(commits))
}

/// Built revisions of one repository, each in its own folder below the cache.
#[derive(Clone, Debug)]
pub struct Builds {
    /// The repository.
    pub repository: PathBuf,
    /// Folder that holds one folder per revision.
    pub cache: PathBuf,
    /// Build command for `sh -c`, typed by the user; empty builds nothing.
    pub build: String,
}

/// A revision that is ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    /// Its folder.
    pub folder: PathBuf,
    /// How long checking out and building took; absent when it was in the cache.
    pub seconds: Option<f64>,
}

impl Builds {
    /// Checks out and builds a revision unless it is in the cache.
    ///
    /// # Errors
    /// When git, the disk or the build fails. A failed build is tried again next time.
    pub fn ensure(&self, revision: &Revision) -> Result<Built, RevisionError> {
        let folder = self.cache.join(&revision.hash);
        let mark = self.cache.join(format!("{}.built", revision.hash));
        // The mark holds the command, so that another --build does not meet old binaries.
        let fixed = revision.hash != WORKING_TREE;
        if fixed && fs::read_to_string(&mark).is_ok_and(|command| command == self.build) && folder.is_dir() {
            return Ok(Built { folder, seconds: None });
        }
        let started = Instant::now();
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(io_error(folder.display().to_string()))?;
        }
        fs::create_dir_all(&folder).map_err(io_error(folder.display().to_string()))?;
        if fixed {
            self.check_out(revision, &folder)?
        } else {
            self.copy_working_tree(&folder)?
        }
        if !self.build.trim().is_empty() {
            self.run_build(revision, &folder)?;
        }
        fs::write(&mark, &self.build).map_err(io_error(mark.display().to_string()))?;
        Ok(Built { folder, seconds: Some(started.elapsed().as_secs_f64()) })
    }

    /// Files that git knows or would add, as they are now.
    fn copy_working_tree(&self, folder: &Path) -> Result<(), RevisionError> {
        let files = git_bytes(
            &self.repository,
            &["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        )?;
        for name in files.split(|b| *b == 0).filter(|name| !name.is_empty()) {
            let name = Path::new(OsStr::from_bytes(name));
            let (from, to) = (self.repository.join(name), folder.join(name));
            // A deleted file is still in the index; a submodule is a folder.
            let Ok(about) = from.symlink_metadata() else { continue };
            let failed = |e| io_error(from.display().to_string())(e);
            to.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
            if about.is_symlink() {
                fs::read_link(&from).and_then(|target| symlink(target, &to)).map_err(failed)?;
            } else if about.is_file() {
                fs::copy(&from, &to).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn check_out(&self, revision: &Revision, folder: &Path) -> Result<(), RevisionError> {
        let mut archive = Command::new("git")
            .arg("-C")
            .arg(&self.repository)
            .args(["archive", "--format=tar", &revision.hash])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(io_error("git archive"))?;
        let pipe = archive.stdout.take().map_or_else(Stdio::null, Stdio::from);
        let tar = Command::new("tar").arg("-x").arg("-C").arg(folder).stdin(pipe).output();
        let archived = archive.wait().map_err(io_error("git archive"))?;
        let tar = tar.map_err(io_error("tar"))?;
        if !archived.success() || !tar.status.success() {
            let what = format!("archive {}", revision.short());
            return Err(RevisionError::Git { what, said: last_line(&tar.stderr) });
        }
        Ok(())
    }

    fn run_build(&self, revision: &Revision, folder: &Path) -> Result<(), RevisionError> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(&self.build).current_dir(folder).stdin(Stdio::null());
        let output = shell.output().map_err(io_error("sh"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
        Err(RevisionError::Build {
            revision: revision.short().to_string(),
            status: output.status.to_string(),
            said: last_line(said),
        })
    }
}

/// ELF executables below a folder, at most three levels deep: what a build made.
pub fn executables(folder: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let (mut out, mut open) = (Vec::new(), vec![(folder.to_path_buf(), 0)]);
    while let Some((at, depth)) = open.pop() {
        let Ok(entries) = fs::read_dir(&at) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() && depth < 3 {
                open.push((path, depth + 1));
            } else if about.is_file() && about.permissions().mode() & 0o111 != 0 && is_elf(&path) {
                out.push(path);
            }
        }
    }
    out.sort_unstable();
    out
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    fs::File::open(path).and_then(|mut f| io::Read::read_exact(&mut f, &mut magic)).is_ok()
        && &magic == b"\x7fELF"
}
