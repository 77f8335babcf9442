//! The runtime as files: written to the user's cache by content, once.

use super::RecordError;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Folder with the runtime as `libtsan.so.2` (and `.0`, the name that older compilers ask for).
pub fn shared_folder() -> Result<PathBuf, RecordError> {
    let shared = tussle_rt::SHARED.bytes();
    let dir = cache_folder("rt", &shared)?;
    for name in ["libtsan.so.2", "libtsan.so.0"] {
        place(&dir, name, &shared)?;
    }
    Ok(dir)
}

/// The runtime as an object file for the linker.
pub fn object_file() -> Result<PathBuf, RecordError> {
    let object = tussle_rt::OBJECT.bytes();
    let dir = cache_folder("rt", &object)?;
    place(&dir, "tussle-rt.o", &object)
}

/// Folder with `tussle.h`.
pub fn include_folder() -> Result<PathBuf, RecordError> {
    let dir = cache_folder("include", tussle_rt::HEADER.as_bytes())?;
    place(&dir, "tussle.h", tussle_rt::HEADER.as_bytes())?;
    Ok(dir)
}

/// Folder in which `as` leads to `tussle` (the running binary): where gcc finds its assembler.
pub fn assembler_folder(tussle: &Path) -> Result<PathBuf, RecordError> {
    links_folder(tussle, "as", &["as"])
}

/// Folder in which all `names` lead to `tussle` (the running binary): the same one for the same binary and `kind`.
pub fn links_folder(tussle: &Path, kind: &str, names: &[&str]) -> Result<PathBuf, RecordError> {
    let dir = cache_folder(kind, tussle.as_os_str().as_encoded_bytes())?;
    let there = |name: &&str| std::fs::read_link(dir.join(name)).is_ok_and(|to| to == tussle);
    if names.iter().all(there) {
        return Ok(dir);
    }
    // Complete before they have their names, whoever else makes them at the same time.
    let own = tempfile::Builder::new().prefix("new-").tempdir_in(&dir).map_err(failed(&dir))?;
    for name in names {
        let (link, at) = (own.path().join(name), dir.join(name));
        std::os::unix::fs::symlink(tussle, &link).map_err(failed(&link))?;
        std::fs::rename(&link, &at).map_err(failed(&at))?;
    }
    Ok(dir)
}

fn failed(at: &Path) -> impl Fn(std::io::Error) -> RecordError + '_ {
    move |e| RecordError::Io(at.display().to_string(), e)
}

/// `$XDG_CACHE_HOME/tussle/<kind>-<hash>`, mode 0700 and ours.
fn cache_folder(kind: &str, content: &[u8]) -> Result<PathBuf, RecordError> {
    let base = crate::cache::folder();
    let dir = base.join(format!("{kind}-{:08x}-{}", crc32fast::hash(content), content.len()));
    if !dir.is_dir() {
        crate::cache::trim(&base);
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed(&dir))?;
    let m = std::fs::metadata(&dir).map_err(failed(&dir))?;
    if m.uid() != own_uid() {
        return Err(RecordError::Io(
            dir.display().to_string(),
            std::io::Error::other("belongs to another user"),
        ));
    }
    if m.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).map_err(failed(&dir))?;
    }
    crate::cache::mark(&dir);
    Ok(dir)
}

fn own_uid() -> u32 {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() }
}

/// Writes the file unless it is there with the same content; complete before it has its name.
fn place(dir: &Path, name: &str, content: &[u8]) -> Result<PathBuf, RecordError> {
    let at = dir.join(name);
    if std::fs::read(&at).is_ok_and(|old| old == content) {
        return Ok(at);
    }
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(failed(dir))?;
    file.write_all(content).map_err(failed(dir))?;
    file.persist(&at).map_err(|e| RecordError::Io(at.display().to_string(), e.error))?;
    Ok(at)
}
