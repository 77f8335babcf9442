//! Booted guests, kept: the state of the devices, the guest's memory and the stream so far, in a folder of the cache.
//!
//! A guest stops at a marker that is always the same instruction, and goes on with the next one, restored or not: a
//! run from a snapshot gives the same evidence as one that boots (`tests/record_kernel.rs` of the command line
//! compares).

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::launch::Files;

/// All snapshots together; the one used least recently goes first. Guests have less than 2 GiB, so that one fits.
const TOTAL_BYTES_MAX: u64 = 2 << 30;
/// What is copied at once; blocks of zeros are left out.
const BLOCK_BYTES: usize = 1 << 16;
/// Folders are named so.
const PREFIX: &str = "guest-";
/// Behind the name while a snapshot is written or removed: `.part-<random>`.
const PART: &str = ".part-";
/// What was not written to for so long is no longer being written.
const PART_AGE_MAX: Duration = Duration::from_secs(3600);
/// Names of the files.
const FILES: [&str; 3] = ["memory", "state", "stream"];
/// The key and the checksums.
const ABOUT: &str = "about.json";

/// Where the snapshot of one boot is, or would be.
#[derive(Debug)]
pub(super) struct Snapshot {
    folder: PathBuf,
    key: String,
}

impl Snapshot {
    /// `label` is for people, `key` decides.
    pub(super) fn new(label: &str, key: String) -> Result<Snapshot, crate::cache::CacheError> {
        let plain: String = label.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        let name = format!("{PREFIX}{plain}-{:08x}", crc32fast::hash(key.as_bytes()));
        Ok(Snapshot { folder: crate::cache::private("")?.join(name), key })
    }

    /// Where.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Copies the snapshot into the files of an emulator; `false` when there is none.
    ///
    /// # Errors
    /// It is damaged, in words.
    pub(super) fn load(&self, into: &Files) -> Result<bool, String> {
        let Ok(about) = std::fs::read(self.folder.join(ABOUT)) else { return Ok(false) };
        let about: Value = serde_json::from_slice(&about).map_err(|e| format!("{ABOUT}: {e}"))?;
        if about.get("key").and_then(Value::as_str) != Some(&self.key) {
            return Err(format!("{ABOUT}: of something else"));
        }
        for (name, to) in FILES.into_iter().zip([&into.memory, &into.state, &into.stream]) {
            let io = |e: std::io::Error| format!("{name}: {e}");
            let from = File::open(self.folder.join(name)).map_err(io)?;
            let bytes = to.metadata().map_err(io)?.len();
            if name == "memory" && from.metadata().map_err(io)?.len() != bytes {
                return Err(format!("{name}: another size"));
            }
            let sum = copy(&from, to).map_err(io)?;
            if about.get(name).and_then(Value::as_u64) != Some(sum.into()) {
                return Err(format!("{name}: checksum"));
            }
        }
        // Used now: kept longer than others.
        if let Ok(file) = File::open(self.folder.join(ABOUT)) {
            let _ = file.set_modified(SystemTime::now());
        }
        Ok(true)
    }

    /// Keeps what an emulator that stands still has written; its size in bytes.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub(super) fn keep(&self, from: &Files) -> std::io::Result<u64> {
        let part = part(&self.folder)?;
        let create = |name: &str| {
            File::options().write(true).create_new(true).mode(0o600).open(part.path().join(name))
        };
        let mut about = json!({ "key": self.key });
        for (name, file) in FILES.into_iter().zip([&from.memory, &from.state, &from.stream]) {
            about[name] = copy(file, &create(name)?)?.into();
        }
        create(ABOUT)?.write_all(about.to_string().as_bytes())?;
        let bytes = size(part.path());
        clear(self.folder.parent().unwrap_or(Path::new("/")), TOTAL_BYTES_MAX.saturating_sub(bytes));
        // Somebody else may have been faster; his is as good. Without the last file it is the rest of a removal.
        if std::fs::rename(part.path(), &self.folder).is_err() && !self.folder.join(ABOUT).is_file() {
            self.remove();
            std::fs::rename(part.path(), &self.folder)?;
        }
        Ok(bytes)
    }

    /// Takes a snapshot that does not serve out of the cache.
    pub(super) fn remove(&self) {
        remove(&self.folder);
    }
}

/// A new folder next to this one, removed with what is in it unless renamed.
fn part(folder: &Path) -> std::io::Result<TempDir> {
    let mut prefix = folder.file_name().unwrap_or_default().to_os_string();
    prefix.push(PART);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).permissions(Permissions::from_mode(0o700));
    builder.tempdir_in(folder.parent().unwrap_or(Path::new("/")))
}

/// Away in one step, then removed: whoever looks meanwhile finds all of it or nothing.
fn remove(folder: &Path) {
    let _ = match part(folder) {
        // Over the empty folder.
        Ok(part) if std::fs::rename(folder, part.path()).is_ok() => part.close(),
        _ => std::fs::remove_dir_all(folder),
    };
}

/// Copies a file from its start, blocks of zeros as holes; the checksum covers the others and where they lie.
fn copy(from: &File, to: &File) -> std::io::Result<u32> {
    let end = from.metadata()?.len();
    let mut sum = crc32fast::Hasher::new();
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    while at < end {
        let Some(data) = next_data(from, at) else { break };
        at = data - data % BLOCK_BYTES as u64;
        let n = block.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        from.read_exact_at(&mut block[..n], at)?;
        if block[..n].iter().any(|b| *b != 0) {
            sum.update(&at.to_le_bytes());
            sum.update(&block[..n]);
            to.write_all_at(&block[..n], at)?;
        }
        at += n as u64;
    }
    to.set_len(end)?;
    sum.update(&end.to_le_bytes());
    Ok(sum.finalize())
}

/// The next byte that is no hole; the same place where the file system knows none.
fn next_data(file: &File, at: u64) -> Option<u64> {
    let place = i64::try_from(at).ok()?;
    // SAFETY: no memory is involved.
    let found = unsafe { libc::lseek(file.as_raw_fd(), place, libc::SEEK_DATA) };
    match u64::try_from(found) {
        Ok(found) => Some(found),
        Err(_) if std::io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) => None,
        Err(_) => Some(at),
    }
}

/// Bytes on disk.
fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.metadata().ok()).map(|m| m.blocks() * 512).sum()
}

/// Removes snapshots, those used least recently first, until the rest has at most so many bytes; and what writers that
/// were killed have left, known by its age: a writer may be in another container, where its process is not seen.
fn clear(cache: &Path, bytes_max: u64) {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(cache).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if !name.starts_with(PREFIX) {
            continue;
        }
        if name.contains(PART) {
            let age = path.metadata().and_then(|m| m.modified()).ok().and_then(|m| m.elapsed().ok());
            if age.is_some_and(|age| age > PART_AGE_MAX) {
                let _ = std::fs::remove_dir_all(&path);
            }
            continue;
        }
        let used = path.join(ABOUT).metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        all.push((used, size(&path), path));
    }
    all.sort_unstable();
    let mut total: u64 = all.iter().map(|a| a.1).sum();
    for (_, bytes, path) in all {
        if total <= bytes_max {
            break;
        }
        remove(&path);
        total -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(cache: &Path, key: &str) -> Snapshot {
        Snapshot { folder: cache.join(format!("{PREFIX}x-{key}")), key: key.into() }
    }

    fn files(memory: &[(u64, &[u8])], rest: &[u8]) -> Files {
        let files = Files::empty(1 << 20);
        memory.iter().for_each(|(at, bytes)| files.memory.write_all_at(bytes, *at).unwrap());
        files.state.write_all_at(rest, 0).unwrap();
        files.stream.write_all_at(rest, 0).unwrap();
        files
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn what_was_kept_comes_back() {
        let cache = tempfile::tempdir().unwrap();
        let kept = files(&[(3, b"first"), (700_000, b"second")], b"state");
        let snapshot = snapshot(cache.path(), "key");
        assert_eq!(snapshot.load(&Files::empty(1 << 20)), Ok(false));
        snapshot.keep(&kept).unwrap();
        snapshot.keep(&kept).unwrap();
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1);
        let into = Files::empty(1 << 20);
        assert_eq!(snapshot.load(&into), Ok(true));
        assert!(content(&kept.memory) == content(&into.memory));
        assert_eq!(content(&into.stream), b"state");
        assert!(into.memory.metadata().unwrap().blocks() * 512 <= 2 * BLOCK_BYTES as u64);
    }

    #[test]
    fn damage_is_seen() {
        let cache = tempfile::tempdir().unwrap();
        let snapshot = snapshot(cache.path(), "key");
        snapshot.keep(&files(&[(0, b"first")], b"state")).unwrap();
        let load = || snapshot.load(&Files::empty(1 << 20)).unwrap_err();
        let other = Snapshot { key: "other".into(), folder: snapshot.folder.clone() };
        assert_eq!(other.load(&Files::empty(1 << 20)).unwrap_err(), "about.json: of something else");
        assert_eq!(snapshot.load(&Files::empty(2 << 20)).unwrap_err(), "memory: another size");
        let state = File::options().write(true).open(snapshot.folder.join("state")).unwrap();
        state.write_all_at(b"S", 0).unwrap();
        assert_eq!(load(), "state: checksum");
        std::fs::remove_file(snapshot.folder.join("state")).unwrap();
        assert!(load().starts_with("state: No such file"));
        std::fs::write(snapshot.folder.join(ABOUT), "{").unwrap();
        assert!(load().starts_with("about.json: EOF"));
        snapshot.remove();
        assert_eq!(snapshot.load(&Files::empty(1 << 20)), Ok(false));
    }

    #[test]
    fn the_one_used_least_recently_goes_first() {
        let cache = tempfile::tempdir().unwrap();
        let kept = files(&[(0, b"first")], b"state");
        let all: Vec<Snapshot> = ["a", "b", "c"].map(|k| snapshot(cache.path(), k)).into();
        let mut bytes = 0;
        for s in &all {
            bytes = s.keep(&kept).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(all[0].load(&Files::empty(1 << 20)), Ok(true));
        clear(cache.path(), 2 * bytes);
        assert!(all[0].folder().exists() && !all[1].folder().exists() && all[2].folder().exists());
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_others_write_stays_until_it_is_old() {
        let cache = tempfile::tempdir().unwrap();
        let process = std::process::id();
        let others = ["4294967295".into(), process.to_string(), "old".into()]
            .map(|suffix| cache.path().join(format!("{PREFIX}x-key{PART}{suffix}")));
        for folder in &others {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("memory"), "half").unwrap();
        }
        let old = SystemTime::now() - PART_AGE_MAX - Duration::from_secs(1);
        File::open(&others[2]).unwrap().set_modified(old).unwrap();
        snapshot(cache.path(), "key").keep(&files(&[(0, b"first")], b"state")).unwrap();
        assert_eq!(others.map(|f| f.join("memory").exists()), [true, true, false]);
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_removal_that_was_cut_short_does_not_block() {
        let cache = tempfile::tempdir().unwrap();
        let snapshot = snapshot(cache.path(), "key");
        std::fs::create_dir(snapshot.folder()).unwrap();
        std::fs::write(snapshot.folder().join("memory"), "rest").unwrap();
        assert_eq!(snapshot.load(&Files::empty(1 << 20)), Ok(false));
        snapshot.keep(&files(&[(0, b"first")], b"state")).unwrap();
        assert_eq!(snapshot.load(&Files::empty(1 << 20)), Ok(true));
        snapshot.remove();
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 0);
    }
}
