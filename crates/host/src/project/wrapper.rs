//! A folder of compiler names that all lead to this binary, to stand first in `PATH`: makefiles that say `CC = gcc`
//! ignore the environment.
//!
//! The folder lies in tussle's cache, so that its path is the same for every build: build systems remember where they
//! found their compilers.

use crate::cache::CacheError;
use crate::cc::Language;
use crate::record::links_folder;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names under which this binary always behaves as a compiler.
pub const NAMES: [&str; 6] = ["cc", "gcc", "clang", "c++", "g++", "clang++"];

/// The name under which this binary stands between cargo and rustc.
pub const RUSTC_WRAPPER: &str = "tussle-rustc";

/// The folder.
#[derive(Debug)]
pub struct Wrapper {
    dir: PathBuf,
}

/// Language of a compiler by its name: `gcc-12`, `x86_64-linux-gnu-g++`, `clang++-14`, too.
pub fn language_of(name: &str) -> Option<Language> {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let bare = if bare.len() < name.len() { bare.strip_suffix('-')? } else { bare };
    let last = bare.rsplit('-').next().unwrap_or(bare);
    // `x86_64-linux-gnu-gcc`: what stands before must look like a machine.
    if last != bare && !bare.contains("-linux") {
        return None;
    }
    match last {
        "cc" | "gcc" | "clang" => Some(Language::C),
        "c++" | "g++" | "clang++" => Some(Language::Cxx),
        _ => None,
    }
}

/// Every name under which `PATH` has a compiler, and those that everybody uses.
fn names() -> BTreeSet<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let there = folders.iter().filter_map(|d| std::fs::read_dir(d).ok()).flatten().flatten();
    let there = there.map(|e| e.file_name().to_string_lossy().into_owned());
    there.filter(|n| language_of(n).is_some()).chain(NAMES.map(String::from)).collect()
}

impl Wrapper {
    /// Makes links to `tussle` (the running binary).
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn new(tussle: &Path) -> Result<Wrapper, CacheError> {
        let names = names();
        let all = names.iter().map(String::as_str).chain([RUSTC_WRAPPER]);
        Ok(Wrapper { dir: links_folder(tussle, "cc", &all.collect::<Vec<_>>())? })
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// `PATH` with the folder first.
    pub fn path_variable(&self) -> OsString {
        let mut path = self.dir.as_os_str().to_os_string();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        path
    }

    /// What a build needs in its environment to be instrumented, whatever its language.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("PATH", self.path_variable()),
            ("CC", "cc".into()),
            ("CXX", "c++".into()),
            ("RUSTC_WRAPPER", self.dir.join(RUSTC_WRAPPER).into()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_known_by_their_names() {
        let check = |name: &str, expect: Option<Language>| assert_eq!(language_of(name), expect, "{name}");
        check("gcc", Some(Language::C));
        check("gcc-12", Some(Language::C));
        check("clang++-14", Some(Language::Cxx));
        check("x86_64-linux-gnu-g++-12", Some(Language::Cxx));
        check("clang-format", None);
        check("clang-cpp", None);
        check("c99-gcc", None);
        check("icc", None);
        check("gcc12", None);
        check("12", None);
    }
}
