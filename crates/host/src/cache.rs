//! The user's cache: what lies in it, how large it may become, and how it is emptied.
//!
//! `$XDG_CACHE_HOME/tussle` (else `~/.cache/tussle`) has one folder per thing, named by kind and content: `rt-` the
//! recorder's runtime, `as-`, `cc-` and `cargo-` names that lead to a tussle, `emulator-` and `guest-` what kernel
//! recordings made. All of it is made again when it is missing.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Above this the folders that were not used for longest go, bytes.
pub const BYTES_MAX: u64 = 2 << 30;
/// What was not used for so long goes.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// What was used within this may be in use.
const AGE_MIN: Duration = Duration::from_secs(3600);
/// The time of the last use is written down this often at most.
const MARK_EVERY: Duration = Duration::from_secs(600);

/// The cache cannot be written. Every verb that needs it says so in these words.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot write to the cache: {path}: {why}; XDG_CACHE_HOME=/tmp/cache, say, chooses another folder for it"
)]
pub struct CacheError {
    /// The folder or file that was tried.
    pub path: PathBuf,
    /// Why not; said here, and so no cause of its own.
    pub why: io::Error,
}

impl CacheError {
    /// What could not be made or written at `path`.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> CacheError + '_ {
        move |why| CacheError { path: path.to_path_buf(), why }
    }
}

/// One folder of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub path: PathBuf,
    /// All files in it.
    pub bytes: u64,
    /// How long it has not been used.
    pub age: Duration,
}

impl Entry {
    /// What it is, in words.
    pub fn what(&self) -> &'static str {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match name.split('-').next() {
            Some("rt") => "the recorder's runtime",
            Some("as" | "cc" | "cargo") => "compiler names that lead to a tussle",
            Some("include") => "tussle.h",
            Some("emulator" | "emulate") => "the emulator's plugin and init",
            Some("guest") => "a booted kernel",
            _ => "of another version",
        }
    }
}

/// The cache's folder; it need not exist.
pub fn folder() -> PathBuf {
    std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute())
        .or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache")))
        .unwrap_or_else(|| std::env::temp_dir().join(format!("tussle-{}", own_uid())))
        .join("tussle")
}

fn own_uid() -> u32 {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() }
}

/// A folder of the cache, made where it is not there: mode 0700 and ours.
///
/// # Errors
/// It cannot be made, or belongs to somebody else.
pub(crate) fn private(name: &str) -> Result<PathBuf, CacheError> {
    let base = folder();
    let at = base.join(name);
    if !at.is_dir() {
        trim(&base);
    }
    make_private(&at).map_err(CacheError::at(&at))?;
    mark(&at);
    Ok(at)
}

fn make_private(at: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(at)?;
    let m = std::fs::metadata(at)?;
    if m.uid() != own_uid() {
        return Err(io::Error::other("it belongs to another user"));
    }
    if m.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Everything in a cache folder, the longest unused first.
pub fn entries(folder: &Path) -> Vec<Entry> {
    let now = SystemTime::now();
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = found.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    let mut out: Vec<Entry> = folders
        .filter_map(|e| {
            let used = e.metadata().ok()?.modified().ok()?;
            let age = now.duration_since(used).unwrap_or_default();
            Some(Entry { bytes: bytes_of(&e.path(), 8), path: e.path(), age })
        })
        .collect();
    out.sort_unstable_by(|a, b| b.age.cmp(&a.age).then_with(|| a.path.cmp(&b.path)));
    out
}

fn bytes_of(dir: &Path, depth: usize) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let one = |e: std::fs::DirEntry| match e.metadata() {
        Ok(m) if m.is_dir() && depth > 0 => bytes_of(&e.path(), depth - 1),
        Ok(m) => m.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(one).sum()
}

/// Writes down that a folder is in use.
pub fn mark(folder: &Path) {
    let Ok(file) = std::fs::File::open(folder) else { return };
    let old = file.metadata().and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
    if old.is_some_and(|age| age > MARK_EVERY) {
        // Without it the folder only seems older than it is.
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Removes what was not used for a month, and the longest unused while all is above [`BYTES_MAX`]; never what was used
/// within the hour. Called where something new is put there.
pub fn trim(folder: &Path) {
    remove(trimmed(entries(folder)));
}

/// What goes when nobody asks.
fn trimmed(entries: Vec<Entry>) -> Vec<Entry> {
    let mut total: u64 = entries.iter().map(|e| e.bytes).sum();
    let goes = |e: &Entry| {
        let go = e.age >= AGE_MIN && (e.age > AGE_MAX || total > BYTES_MAX);
        total -= if go { e.bytes } else { 0 };
        go
    };
    let mut goes = goes;
    entries.into_iter().filter(|e| goes(e)).collect()
}

/// Removes these; returns those that could not be removed, with the reason.
pub fn remove(entries: Vec<Entry>) -> Vec<String> {
    let failed = |e: Entry| {
        let error = std::fs::remove_dir_all(&e.path).err()?;
        Some(format!("{}: {error}", e.path.display()))
    };
    entries.into_iter().filter_map(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, bytes: u64, hours: u64) -> Entry {
        Entry { path: name.into(), bytes, age: Duration::from_secs(hours * 3600) }
    }

    #[test]
    fn the_oldest_go_until_there_is_room_and_fresh_ones_stay() {
        let gone = |all: &[Entry]| {
            trimmed(all.to_vec()).into_iter().map(|e| e.path.display().to_string()).collect::<Vec<_>>()
        };
        let small = [entry("a", 1, 800), entry("b", 1, 20), entry("c", 1, 0)];
        assert_eq!(gone(&small), ["a"]);
        let large = [entry("a", BYTES_MAX, 30), entry("b", BYTES_MAX / 2, 20), entry("c", 2 * BYTES_MAX, 0)];
        assert_eq!(gone(&large), ["a", "b"]);
        let room = [entry("a", BYTES_MAX / 2 + 1, 30), entry("b", BYTES_MAX / 2, 20)];
        assert_eq!(gone(&room), ["a"]);
    }

    #[test]
    fn folders_are_counted_with_what_is_in_them_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("rt-1/deep")).unwrap();
        std::fs::write(dir.path().join("rt-1/deep/x"), vec![1; 10_000]).unwrap();
        let found = entries(dir.path());
        assert_eq!((found.len(), found[0].what()), (1, "the recorder's runtime"));
        assert!(found[0].bytes >= 10_000);
        trim(dir.path());
        assert_eq!(entries(dir.path()).len(), 1, "it is fresh");
        assert!(remove(found).is_empty() && entries(dir.path()).is_empty());
    }
}
