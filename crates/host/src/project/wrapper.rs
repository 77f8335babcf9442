//! A folder of compiler names that all lead to this binary, to stand first in `PATH`: makefiles that say `CC = gcc`
//! ignore the environment.
//!
//! The folder lies in tussle's cache, so that its path is the same for every build: build systems remember where they
//! found their compilers.

use super::System;
use crate::cache::CacheError;
use crate::cc::{Language, PLAIN_VARIABLE};
use crate::record::links_folder;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names under which this binary always behaves as a compiler.
pub const NAMES: [&str; 6] = ["cc", "gcc", "clang", "c++", "g++", "clang++"];

/// The name under which this binary stands between cargo and rustc.
pub const RUSTC_WRAPPER: &str = "tussle-rustc";

/// The name under which this binary is the cargo of a `--build`.
pub const CARGO: &str = "cargo";

/// The folder.
#[derive(Debug)]
pub struct Wrapper {
    dir: PathBuf,
    /// A folder in which `cargo` leads to this binary, too.
    cargo: PathBuf,
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
        let dir = links_folder(tussle, "cc", &all.collect::<Vec<_>>())?;
        Ok(Wrapper { dir, cargo: links_folder(tussle, "cargo", &[CARGO])? })
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// A `PATH` with the folder first.
    pub fn before(&self, path: Option<OsString>) -> OsString {
        before(&self.dir, path)
    }

    /// What a build needs in its environment to be instrumented, whatever its language.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("PATH", self.before(std::env::var_os("PATH"))),
            ("CC", "cc".into()),
            ("CXX", "c++".into()),
            ("RUSTC_WRAPPER", self.dir.join(RUSTC_WRAPPER).into()),
        ]
    }

    /// [`Wrapper::environment`] for a build by `system`. A command of the user's that calls cargo gets one that names
    /// the target, as `tussle cargo` does. A makefile's cargo stays as it is: who calls it knows where its output lies.
    pub fn environment_for(&self, system: &System) -> Vec<(&'static str, OsString)> {
        let mut environment = self.environment();
        if calls_cargo(system) {
            environment[0].1 = before(&self.cargo, Some(environment[0].1.clone()));
            environment.extend(target_in_copy());
        }
        environment
    }

    /// For a build by `system` without instrumentation, whose programs lie where the instrumented ones do.
    pub fn plain_environment_for(&self, system: &System) -> Vec<(&'static str, OsString)> {
        let mut environment = vec![(PLAIN_VARIABLE, "1".into())];
        if calls_cargo(system) {
            environment.push(("PATH", before(&self.cargo, std::env::var_os("PATH"))));
            environment.extend(target_in_copy());
        }
        environment
    }
}

/// A variable of folders with another one first.
fn before(folder: &Path, rest: Option<OsString>) -> OsString {
    let mut path = folder.as_os_str().to_os_string();
    if let Some(rest) = rest {
        path.push(":");
        path.push(rest);
    }
    path
}

/// cargo builds in the copy, although the user has one folder for all packages.
pub(crate) fn target_in_copy() -> Option<(&'static str, OsString)> {
    const VARIABLE: &str = "CARGO_TARGET_DIR";
    std::env::var_os(VARIABLE).map(|_| (VARIABLE, "target".into()))
}

fn calls_cargo(system: &System) -> bool {
    matches!(system, System::Shell(command) if names_cargo(command))
}

/// A shell command has the word `cargo`, and not as a verb of tussle.
fn names_cargo(command: &str) -> bool {
    let separates = |c: char| c.is_whitespace() || "();&|'\"`{}".contains(c);
    let words: Vec<&str> = command.split(separates).filter(|w| !w.is_empty()).collect();
    let verb = |at: usize| at > 0 && words[at - 1].rsplit('/').next() == Some("tussle");
    words.iter().enumerate().any(|(at, word)| *word == CARGO && !verb(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_calls_cargo_is_known() {
        for line in ["cargo build", "cd a && cargo b -r", "env A=1 cargo build", "sh -c 'cargo build'"] {
            assert!(names_cargo(line), "{line}");
        }
        for line in ["tussle cargo build", "/opt/tussle cargo build", "make", "ls ~/.cargo", "cargo-make x"] {
            assert!(!names_cargo(line), "{line}");
        }
    }

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
