//! A folder with a program: how it is built, and which executables a build leaves.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How to build a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Build {
    /// `make`, because there is a makefile.
    Make,
    /// A shell command from the command line.
    Shell(String),
}

impl std::fmt::Display for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Build::Make => f.write_str("make -B"),
            Build::Shell(c) => f.write_str(c),
        }
    }
}

/// A folder and how to build it.
#[derive(Clone, Debug)]
pub struct Project {
    /// Where the sources are.
    pub dir: PathBuf,
    /// How to build them.
    pub build: Build,
}

/// Why a build gave no program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Nothing says how to build the folder.
    #[error("{dir} has no makefile; say how to build it with --build 'COMMAND'")]
    NoBuild {
        /// The folder.
        dir: PathBuf,
    },
    /// The build command failed.
    #[error("`{command}` failed ({status}) in a copy of the folder:\n{tail}")]
    Failed {
        /// What was run.
        command: String,
        /// How it ended.
        status: String,
        /// Last lines of its output.
        tail: String,
    },
    /// The build command could not be started.
    #[error("cannot run `{command}`: {source}")]
    NotStarted {
        /// What was to be run.
        command: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The build left no executable.
    #[error("`{command}` left no new executable; say what to run with --run 'COMMAND'")]
    NoExecutable {
        /// What was run.
        command: String,
    },
    /// The build left several.
    #[error(
        "`{command}` left {} executables ({}); say which to run with --run 'COMMAND'",
        found.len(),
        found.join(", ")
    )]
    ManyExecutables {
        /// What was run.
        command: String,
        /// Relative paths.
        found: Vec<String>,
    },
}

impl Project {
    /// Takes the command given, or finds a makefile.
    pub fn find(dir: &Path, build: Option<&str>) -> Result<Project, BuildError> {
        let has_makefile = ["GNUmakefile", "makefile", "Makefile"].iter().any(|n| dir.join(n).is_file());
        let build = match build {
            Some(c) => Build::Shell(c.to_string()),
            None if has_makefile => Build::Make,
            None => return Err(BuildError::NoBuild { dir: dir.to_path_buf() }),
        };
        Ok(Project { dir: dir.to_path_buf(), build })
    }

    /// Builds in `dir` (a scratch copy) with `env` added to the environment. stdout and stderr are kept for errors.
    pub fn build_in(&self, dir: &Path, env: &[(&str, OsString)]) -> Result<(), BuildError> {
        let mut command = match &self.build {
            // -B: objects left from an earlier build are not instrumented.
            Build::Make => {
                let mut c = Command::new("make");
                c.arg("-B");
                c
            }
            Build::Shell(text) => {
                let mut c = Command::new("sh");
                c.arg("-c").arg(text);
                c
            }
        };
        command.current_dir(dir).stdin(Stdio::null()).envs(env.iter().map(|(k, v)| (k, v)));
        let shown = self.build.to_string();
        let output =
            command.output().map_err(|source| BuildError::NotStarted { command: shown.clone(), source })?;
        if output.status.success() {
            return Ok(());
        }
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(20)..].join("\n");
        Err(BuildError::Failed { command: shown, status: output.status.to_string(), tail })
    }

    /// The one executable that a build left and that was not there before, relative to the folder.
    pub fn executable(&self, before: &Executables, after: &Executables) -> Result<PathBuf, BuildError> {
        let new: Vec<&PathBuf> =
            after.0.iter().filter(|(p, time)| before.0.get(*p) != Some(time)).map(|(p, _)| p).collect();
        match new.as_slice() {
            [one] => Ok((*one).clone()),
            [] => Err(BuildError::NoExecutable { command: self.build.to_string() }),
            many => Err(BuildError::ManyExecutables {
                command: self.build.to_string(),
                found: many.iter().map(|p| p.display().to_string()).collect(),
            }),
        }
    }
}

/// ELF executables of a folder with the time of their last change.
#[derive(Clone, Debug, Default)]
pub struct Executables(BTreeMap<PathBuf, Option<std::time::SystemTime>>);

impl Executables {
    /// Looks through `dir` and its folders (not through links), at most 16 deep.
    pub fn in_dir(dir: &Path) -> Executables {
        let mut found = Executables::default();
        found.collect(dir, Path::new(""), 16);
        found
    }

    fn collect(&mut self, dir: &Path, relative: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            let relative = relative.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth > 0 => self.collect(&entry.path(), &relative, depth - 1),
                Ok(kind) if kind.is_file() && is_program(&entry.path()) => {
                    let time = entry.metadata().ok().and_then(|m| m.modified().ok());
                    self.0.insert(relative, time);
                }
                _ => {}
            }
        }
    }
}

/// An executable ELF file that has an entry point: shared libraries are often marked executable too, but have none
/// that anybody starts them by.
fn is_program(path: &Path) -> bool {
    use std::io::Read;
    let runnable = fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o111 != 0);
    let mut head = [0u8; 20];
    let elf = runnable
        && fs::File::open(path).and_then(|mut f| f.read_exact(&mut head)).is_ok()
        && head.starts_with(b"\x7fELF")
        && matches!(head[16], 2 | 3);
    elf && !path.file_name().is_some_and(|n| n.to_string_lossy().contains(".so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_makefile_needs_a_command() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Project::find(dir.path(), None), Err(BuildError::NoBuild { .. })));
        let p = Project::find(dir.path(), Some("exit 3")).unwrap();
        let e = p.build_in(dir.path(), &[]).unwrap_err().to_string();
        assert!(e.contains("exit 3") && e.contains("3"), "{e}");
    }

    #[test]
    fn the_one_new_executable_is_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.c"), "int main(void){return 0;}\n").unwrap();
        fs::copy("/bin/true", dir.path().join("old")).unwrap();
        let p = Project::find(dir.path(), Some("cc -o new a.c && cc -c a.c && : >script && chmod +x script"))
            .unwrap();
        let before = Executables::in_dir(dir.path());
        p.build_in(dir.path(), &[]).unwrap();
        let after = Executables::in_dir(dir.path());
        assert_eq!(p.executable(&before, &after).unwrap(), Path::new("new"));
        assert!(matches!(p.executable(&after, &after), Err(BuildError::NoExecutable { .. })));
    }
}
