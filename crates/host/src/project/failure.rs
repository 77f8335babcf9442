//! Why a build gave no program.

use super::Scratch;
use std::path::PathBuf;
use std::process::Output;

/// Lines of a failed build that are shown.
const TAIL_LINES: usize = 20;

/// Why a build gave no program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Nothing says how to build the folder.
    #[error(
        "{dir} has none of Cargo.toml, meson.build, CMakeLists.txt, configure, a makefile, build.ninja, \
         compile_commands.json or a single source file; say how to build it with --build 'COMMAND'"
    )]
    NoBuild {
        /// The folder.
        dir: PathBuf,
    },
    /// The build command failed.
    #[error("`{command}` failed ({status}) in a copy of the folder:\n{tail}{left_out}")]
    Failed {
        /// What was run.
        command: String,
        /// How it ended.
        status: String,
        /// Last lines of its output.
        tail: String,
        /// What the copy lacks, in words; may be empty.
        left_out: String,
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
    #[error(
        "`{command}` left no new executable; {}",
        if command.starts_with("cargo build") {
            "of a library `tussle cargo test` records the tests, `tussle cargo bench` the benches"
        } else {
            "say what to run with --run 'COMMAND', or, where it was built already, a --build that builds all anew \
             (make -B)"
        }
    )]
    NoExecutable {
        /// What was run.
        command: String,
    },
    /// The build left several.
    #[error(
        "`{command}` left {} executables; say which to run, one of\n{}",
        found.len(),
        found.iter().map(|f| format!("  --run ./{f}")).collect::<Vec<_>>().join("\n")
    )]
    ManyExecutables {
        /// What was run.
        command: String,
        /// Relative paths.
        found: Vec<String>,
    },
    /// The program that is to be run was not built.
    #[error("the build left no {asked}; it left {}", listed(found))]
    NoSuchProgram {
        /// As asked for.
        asked: String,
        /// Relative paths.
        found: Vec<String>,
    },
    /// The folder itself was changed while a copy was built.
    #[error(
        "{what} while `{command}` built a copy: the build names an absolute path of the folder, or somebody works in \
         it; nothing more is built"
    )]
    Touched {
        /// What was run.
        command: String,
        /// The file, and what happened.
        what: String,
    },
}

fn listed(found: &[String]) -> String {
    if found.is_empty() { "no program".into() } else { found.join(", ") }
}

/// The end of what a failed build wrote.
pub(super) fn of_build(command: String, output: &Output, copy: &Scratch) -> BuildError {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    let tail = match lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n") {
        nothing if nothing.trim().is_empty() => "(it printed nothing)".into(),
        tail => tail,
    };
    let left_out = match copy.left_out() {
        [] => String::new(),
        some => format!("\n(left out of the copy as output of a build: {})", some.join(", ")),
    };
    BuildError::Failed { command, status: output.status.to_string(), tail, left_out }
}
