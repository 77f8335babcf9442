//! A folder of compiler names that all lead to this binary, to stand first in `PATH`: Makefiles that say `CC = gcc`
//! ignore the environment.

use std::ffi::OsString;
use std::path::Path;

/// Names under which this binary behaves as a compiler.
pub const NAMES: [&str; 6] = ["cc", "gcc", "clang", "c++", "g++", "clang++"];

/// The folder.
#[derive(Debug)]
pub struct Wrapper {
    dir: tempfile::TempDir,
}

impl Wrapper {
    /// Makes links to `tussle` (the running binary).
    pub fn new(tussle: &Path) -> std::io::Result<Wrapper> {
        let dir = tempfile::Builder::new().prefix("tussle-cc-").tempdir()?;
        for name in NAMES {
            std::os::unix::fs::symlink(tussle, dir.path().join(name))?;
        }
        Ok(Wrapper { dir })
    }

    /// `PATH` with the folder first.
    pub fn path_variable(&self) -> OsString {
        let mut path = self.dir.path().as_os_str().to_os_string();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        path
    }
}
