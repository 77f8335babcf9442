//! The runtime as files: written to the user's cache by content, once.

use crate::cache::{self, CacheError};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Folder with the runtime as `libtsan.so.2` (and `.0`, the name that older compilers ask for).
pub fn shared_folder() -> Result<PathBuf, CacheError> {
    let shared = tussle_rt::SHARED.bytes();
    let dir = cache_folder("rt", &shared)?;
    for name in ["libtsan.so.2", "libtsan.so.0"] {
        place(&dir, name, &shared)?;
    }
    Ok(dir)
}

/// The runtime as an object file for the linker.
pub fn object_file() -> Result<PathBuf, CacheError> {
    let object = tussle_rt::OBJECT.bytes();
    let dir = cache_folder("rt", &object)?;
    place(&dir, "tussle-rt.o", &object)
}

/// Folder with `tussle.h`.
pub fn include_folder() -> Result<PathBuf, CacheError> {
    let dir = cache_folder("include", tussle_rt::HEADER.as_bytes())?;
    place(&dir, "tussle.h", tussle_rt::HEADER.as_bytes())?;
    Ok(dir)
}

/// Folder in which `as` leads to `tussle` (the running binary): where gcc finds its assembler.
pub fn assembler_folder(tussle: &Path) -> Result<PathBuf, CacheError> {
    links_folder(tussle, "as", &["as"])
}

/// Folder in which all `names` lead to `tussle` (the running binary): the same one for the same binary and `kind`.
pub fn links_folder(tussle: &Path, kind: &str, names: &[&str]) -> Result<PathBuf, CacheError> {
    let dir = cache_folder(kind, tussle.as_os_str().as_encoded_bytes())?;
    let there = |name: &&str| std::fs::read_link(dir.join(name)).is_ok_and(|to| to == tussle);
    if names.iter().all(there) {
        return Ok(dir);
    }
    // Complete before they have their names, whoever else makes them at the same time.
    let own = tempfile::Builder::new().prefix("new-").tempdir_in(&dir).map_err(CacheError::at(&dir))?;
    for name in names {
        let (link, at) = (own.path().join(name), dir.join(name));
        std::os::unix::fs::symlink(tussle, &link).map_err(CacheError::at(&link))?;
        std::fs::rename(&link, &at).map_err(CacheError::at(&at))?;
    }
    Ok(dir)
}

/// `<kind>-<hash>` in the cache.
fn cache_folder(kind: &str, content: &[u8]) -> Result<PathBuf, CacheError> {
    cache::private(&format!("{kind}-{:08x}-{}", crc32fast::hash(content), content.len()))
}

/// Writes the file unless it is there with the same content; complete before it has its name.
fn place(dir: &Path, name: &str, content: &[u8]) -> Result<PathBuf, CacheError> {
    let at = dir.join(name);
    if std::fs::read(&at).is_ok_and(|old| old == content) {
        return Ok(at);
    }
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(CacheError::at(dir))?;
    file.write_all(content).map_err(CacheError::at(dir))?;
    file.persist(&at).map_err(|e| CacheError::at(&at)(e.error))?;
    Ok(at)
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSymbol};

    /// GNU ld with LTO refuses what only the loader has: it is no library of the command line.
    #[test]
    fn the_runtime_asks_nothing_of_the_loader() {
        const OF_LOADER: [&str; 5] =
            ["__libc_stack_end", "_dl_argv", "_rtld_global", "_r_debug", "__libc_enable_secure"];
        let bytes = tussle_rt::OBJECT.bytes();
        let file = object::File::parse(&*bytes).expect("an object file");
        let undefined = file.symbols().filter(|s| s.is_undefined() && !s.is_weak());
        let names: Vec<&str> = undefined.filter_map(|s| s.name().ok()).collect();
        assert!(names.contains(&"getauxval"), "{names:?}");
        assert_eq!(names.iter().filter(|n| OF_LOADER.contains(n)).count(), 0, "{names:?}");
    }
}
