//! The folder of a recording: raw files, and what is needed to finish when tussle itself is ended before it could.

use super::RecordError;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const PREFIX: &str = "tussle-";
const NOTE: &str = "session.json";
const LOCK: &str = "lock";

/// What is known of a recording beside its raw files.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Note {
    /// Program and arguments, for people.
    pub command: Vec<String>,
    /// The executable.
    pub program: PathBuf,
    /// Only what it starts is recorded.
    pub children: bool,
    /// Programs that it may start.
    #[serde(default)]
    pub starts: Vec<PathBuf>,
    /// Lines that only one thread used are kept.
    pub keep_all: bool,
    /// When it started, seconds since 1970.
    pub started_unix_s: f64,
    /// For how long it ran, seconds; absent while it runs.
    pub duration_s: Option<f64>,
    /// Its process id, once it has one.
    pub pid: Option<u32>,
    /// Its status as `wait` gives it, once it has ended.
    pub wait_status: Option<i32>,
    /// Options that it was recorded with.
    #[serde(default)]
    pub flags: Vec<String>,
    /// What compiled it.
    #[serde(default)]
    pub compiler: Option<String>,
    /// Hash of its input.
    #[serde(default)]
    pub input_hash: Option<String>,
    /// What emulated it, and the machine that it was built for.
    #[serde(default)]
    pub emulated: Option<(String, String)>,
}

/// A session folder. It is removed when this is dropped, unless it is to be kept.
pub struct Session {
    path: PathBuf,
    kept: bool,
    /// Held while a tussle works on the folder.
    _lock: File,
}

/// A recording that was never finished.
pub struct Leftover {
    /// Its folder.
    pub path: PathBuf,
    /// What was recorded.
    pub command: Vec<String>,
}

fn io(at: &Path, e: std::io::Error) -> RecordError {
    RecordError::Io(format!("session folder {}", at.display()), e)
}

impl Session {
    /// A new folder in `place` that only this user can enter.
    pub(super) fn create(place: &Path) -> Result<Session, RecordError> {
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let made = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir_in(place);
        let path = made.map_err(|e| io(place, e))?.keep();
        crate::interrupted::goes(&path);
        let lock = locked(&path, true).map_err(|e| io(&path, e))?;
        Ok(Session { path, kept: false, _lock: lock })
    }

    /// The folder of a recording that was not finished, and what is known of it. It is kept until the caller says else.
    pub(super) fn open(path: &Path) -> Result<(Session, Note), RecordError> {
        let text = std::fs::read(path.join(NOTE)).map_err(|e| io(path, e))?;
        let note = serde_json::from_slice(&text).map_err(|e| io(path, e.into()))?;
        let lock = locked(path, false).map_err(|e| io(path, e))?;
        Ok((Session { path: path.into(), kept: true, _lock: lock }, note))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down what is known.
    pub(super) fn write(&self, note: &Note) -> Result<(), RecordError> {
        let text = serde_json::to_vec(note).map_err(|e| io(&self.path, e.into()))?;
        let new = self.path.join(format!("{NOTE}.new"));
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, self.path.join(NOTE)))
            .map_err(|e| io(&self.path, e))
    }

    /// The folder stays when this is dropped.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// The folder goes when this is dropped.
    pub fn finish(mut self) {
        self.kept = false;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        super::spawn::told();
        if !self.kept {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Opens the folder's lock and takes it; an error if another tussle has it.
fn locked(folder: &Path, create: bool) -> std::io::Result<File> {
    let lock = File::options().write(true).create(create).truncate(false).open(folder.join(LOCK))?;
    // SAFETY: a system call on a descriptor that is open.
    if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let why = "another tussle is at work in it";
        return Err(std::io::Error::new(std::io::ErrorKind::WouldBlock, why));
    }
    Ok(lock)
}

/// Recordings of this user that no tussle is at work on, in the places where session folders are made.
pub fn leftovers() -> Vec<Leftover> {
    let mut places = super::place::all();
    places.sort_unstable();
    places.dedup();
    places.iter().flat_map(|p| in_folder(p)).collect()
}

fn in_folder(place: &Path) -> Vec<Leftover> {
    // SAFETY: always succeeds.
    let user = unsafe { libc::geteuid() };
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let ours = entries.filter(|e| e.file_name().to_string_lossy().starts_with(PREFIX));
    let ours = ours.filter(|e| e.metadata().is_ok_and(|m| m.is_dir() && m.uid() == user));
    ours.filter_map(|e| {
        let (session, note) = Session::open(&e.path()).ok()?;
        Some(Leftover { path: session.path().into(), command: note.command })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_unless_it_is_kept_and_is_found_when_nobody_has_it() {
        let place = tempfile::tempdir().unwrap();
        let session = Session::create(place.path()).unwrap();
        let note = Note { command: vec!["program".into()], pid: Some(7), ..Note::default() };
        session.write(&note).unwrap();
        let path = session.path().to_path_buf();
        assert!(in_folder(place.path()).is_empty(), "it is being worked on");
        assert!(Session::open(&path).is_err());
        let mut session = session;
        session.keep();
        drop(session);
        let found = in_folder(place.path());
        assert_eq!((found.len(), &found[0].path, &found[0].command), (1, &path, &note.command));
        let (session, read) = Session::open(&path).unwrap();
        assert_eq!(read, note);
        session.finish();
        assert!(!path.exists());
    }
}
