//! Evidence files on disk.
//!
//! A file appears under its name only when it is whole: it is written beside and renamed. The default name keeps one
//! older generation, so that `record` twice and `report tussle.data.old tussle.data` compares the two.

use crate::whole;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tussle_evidence::{Evidence, Problem, file};

/// Where evidence goes and comes from when nobody says.
pub const DEFAULT_PATH: &str = "tussle.data";

/// Why an evidence file could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The default file is not there.
    #[error("{0} does not exist: `tussle record -- COMMAND` writes it")]
    Absent(PathBuf),
    /// Where it shall go is no folder.
    #[error("{path}: there is no folder {folder}: make it, or choose another file with -o")]
    NoFolder {
        /// Which file.
        path: PathBuf,
        /// Its folder.
        folder: PathBuf,
    },
    /// The file system refused.
    #[error("{path}: cannot {what}: {why}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why not; said here, and so no cause of its own.
        why: std::io::Error,
    },
    /// The bytes are no evidence.
    #[error("{path}: {why}")]
    Format {
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: file::Error,
    },
}

/// Reads a file with everything that is wrong with it.
///
/// # Errors
/// The file cannot be read, or is not evidence; a damaged or cut one is no error.
pub fn read(path: &Path) -> Result<(Evidence, Vec<Problem>), Error> {
    let bytes = whole::read(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::Absent(path.into()),
        _ => io(path, "read", source),
    })?;
    file::read(&bytes).map_err(|why| Error::Format { path: path.into(), why })
}

/// Whether [`write`] has a folder to write into, before anything is run for it.
///
/// # Errors
/// The folder does not exist or cannot be written, or the name is a folder's.
pub fn check(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Err(io(path, "write", std::io::ErrorKind::IsADirectory.into()));
    }
    if path.metadata().is_ok_and(|m| !m.is_file()) {
        return Ok(());
    }
    let folder = folder_of(path);
    if !folder.is_dir() {
        return Err(Error::NoFolder { path: path.into(), folder: folder.into() });
    }
    let made = tempfile::Builder::new().prefix(".tussle.data.").tempfile_in(folder_of(path));
    made.map(drop).map_err(|e| io(path, "create a file beside it", e))
}

/// Paths below the folder that tussle was started in become relative, by the folder's real name and by the one that the
/// shell knows it by. For what is shown; what is written keeps whole paths.
pub fn seen_from_here(evidence: &mut Evidence) {
    let Ok(here) = std::env::current_dir() else { return };
    let logical = std::env::var_os("PWD").map(PathBuf::from).filter(|p| p.is_absolute());
    let same = |p: &PathBuf| *p != here && p.canonicalize().is_ok_and(|real| real == here);
    for folder in [Some(here.clone()), logical.filter(same)].into_iter().flatten() {
        tussle_evidence::seen_from(evidence, &folder.to_string_lossy());
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes atomically. At [`DEFAULT_PATH`] (the plain name, in any folder) an older file becomes `tussle.data.old`
/// first; any other name is simply replaced. What is no regular file (`/dev/null`, a pipe) is written, never replaced.
/// Only the owner can read the file: it says what ran, where and with which arguments.
///
/// # Errors
/// The file system refuses; the older file is then still there under its name or as `.old`.
pub fn write(path: &Path, evidence: &Evidence) -> Result<(), Error> {
    put(path, &|mut out| file::write(evidence, &mut out))
}

/// As [`write`], as JSON Lines.
///
/// # Errors
/// As those of [`write`].
pub fn write_jsonl(path: &Path, evidence: &Evidence) -> Result<(), Error> {
    put(path, &|mut out| file::write_jsonl(evidence, &mut out))
}

/// While it lives a file that becomes larger than the limit (`ulimit -f`) is an error of the write, not our end.
struct ErrorsNotSignals(libc::sighandler_t);

impl ErrorsNotSignals {
    fn new() -> ErrorsNotSignals {
        // SAFETY: sets one disposition.
        ErrorsNotSignals(unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) })
    }
}

impl Drop for ErrorsNotSignals {
    fn drop(&mut self) {
        // SAFETY: the disposition that was there.
        unsafe { libc::signal(libc::SIGXFSZ, self.0) };
    }
}

fn put(path: &Path, form: &dyn Fn(&mut dyn Write) -> std::io::Result<()>) -> Result<(), Error> {
    let _errors = ErrorsNotSignals::new();
    if path.metadata().is_ok_and(|m| !m.is_file()) {
        let mut out = BufWriter::new(device(path).map_err(|e| io(path, "write", e))?);
        return form(&mut out).and_then(|()| out.flush()).map_err(|e| io(path, "write", e));
    }
    let folder = folder_of(path);
    let temporary = tempfile::Builder::new()
        .prefix(".tussle.data.")
        .tempfile_in(folder)
        .map_err(|e| io(path, "create a file beside it", e))?;
    let mut out = BufWriter::with_capacity(1 << 16, temporary.as_file());
    form(&mut out).map_err(|e| io(path, "write", e))?;
    out.flush().map_err(|e| io(path, "write", e))?;
    drop(out);
    if path.file_name() == Some(DEFAULT_PATH.as_ref()) && path.exists() {
        std::fs::rename(path, old(path)).map_err(|e| io(path, "move the older one away", e))?;
    }
    temporary.persist(path).map_err(|e| io(path, "rename the new one to", e.error))?;
    Ok(())
}

/// So long a pipe's reader may take to come.
const READER_MAX: Duration = Duration::from_secs(5);

/// A device, or a pipe that somebody reads: without a reader an ordinary open would wait for ever.
fn device(path: &Path) -> std::io::Result<File> {
    let begin = Instant::now();
    let file = loop {
        match File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) && begin.elapsed() < READER_MAX => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) => {
                return Err(std::io::Error::other("nobody reads from this pipe"));
            }
            opened => break opened?,
        }
    };
    // From here on a slow reader is waited for.
    // SAFETY: two system calls on our own descriptor.
    let blocks = unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        flags >= 0 && libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) == 0
    };
    if blocks { Ok(file) } else { Err(std::io::Error::last_os_error()) }
}

/// `tussle.data` to `tussle.data.old`.
fn old(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().into();
    name.push(".old");
    name.into()
}

fn io(path: &Path, what: &'static str, why: std::io::Error) -> Error {
    Error::Io { path: path.into(), what, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::sample::Sample;

    #[test]
    fn an_older_default_file_is_kept_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DEFAULT_PATH);
        let with_command = |name: &str| {
            let mut s = Sample::two_counters();
            s.tables().run.command = vec![name.into()];
            s.evidence()
        };
        for name in ["first", "second", "third"] {
            write(&path, &with_command(name)).unwrap();
        }
        let command = |p: &Path| read(p).unwrap().0.run.command.remove(0);
        assert_eq!(command(&path), "third");
        assert_eq!(command(&old(&path)), "second");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn only_the_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for write in [write, write_jsonl] {
            write(&path, &Sample::two_counters().evidence()).unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(read(&path).unwrap().1, []);
        }
    }

    /// As root, renaming a file over `/dev/null` would take it from everybody.
    #[test]
    fn a_pipe_is_written_not_replaced() {
        if !tussle_testkit::need("mkfifo") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reader = std::thread::spawn({
            let path = path.clone();
            move || std::fs::read(path).unwrap()
        });
        write(&path, &tussle_evidence::sample::Sample::two_counters().evidence()).unwrap();
        assert!(!reader.join().unwrap().is_empty());
        assert!(!path.metadata().unwrap().is_file());
        let nobody = write(&path, &tussle_evidence::sample::Sample::two_counters().evidence());
        assert!(nobody.unwrap_err().to_string().contains("nobody reads"), "and it does not wait for ever");
    }

    #[test]
    fn absent_and_foreign_files_say_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert!(read(&path).unwrap_err().to_string().contains("tussle record"));
        std::fs::write(&path, b"\x7fELF").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("not an evidence file"));
    }
}
