//! Why a build gave no program.

use super::Scratch;
use std::path::{Path, PathBuf};
use std::process::Output;
use tussle_render::shell;

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
    /// A program of the package asks for features that nobody named.
    #[error("`{command}` left no new executable: the program {program} has required-features; {how}")]
    Features {
        /// What was run.
        command: String,
        /// One of the programs.
        program: String,
        /// What to do.
        how: String,
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
    /// A source of the folder itself was changed while a copy was run.
    #[error(
        "{what} while `{command}` ran: the program, or somebody who works in the folder, has changed a source; hunt a \
         copy of the folder, which nobody else works in"
    )]
    TouchedByRun {
        /// What was run.
        command: String,
        /// The file, and what happened.
        what: String,
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

/// The end of what a failed build of a copy of `dir` wrote.
pub(super) fn of_build(command: String, output: &Output, copy: &Scratch, dir: &Path) -> BuildError {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    let tail = match lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n") {
        nothing if nothing.trim().is_empty() => "(it printed nothing)".into(),
        tail => tail,
    };
    let left_out = lacking(&text, copy, dir).iter().map(|l| format!("\n({l})")).collect();
    BuildError::Failed { command, status: output.status.to_string(), tail, left_out }
}

/// What the copy lacks and the build seems to want.
fn lacking(text: &str, copy: &Scratch, dir: &Path) -> Vec<String> {
    let mut out = Vec::new();
    if !copy.left_out().is_empty() {
        out.push(format!("left out of the copy as output of a build: {}", copy.left_out().join(", ")));
    }
    if text.contains("not a git repository") {
        out.push("version control data are not copied; give by --build what the build asks git for".into());
    }
    if let Some(beside) = beside(text, copy.path(), dir) {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        out.push(format!(
            "only {name} was copied, and the build asks for {beside} outside of it: hunt the folder that holds both, \
             with a --build that enters {name}, as in --build {}",
            shell::quoted(&format!("make -C {}", shell::word(&name)))
        ));
    }
    if text.contains("multiple definition of `main'") {
        out.push("these are several programs; say by --build how one of them is built".into());
    }
    out
}

/// The first path in what a build wrote that leads out of the copy to nothing, and out of the folder to something.
fn beside(text: &str, copy: &Path, dir: &Path) -> Option<String> {
    let ends = |c: char| c.is_whitespace() || "\"'`:;,()[]<>".contains(c);
    let outer = copy.parent().map(|p| format!("{}/", p.display())).unwrap_or_default();
    text.split(ends).find_map(|word| {
        let up = word.match_indices("../").map(|(at, _)| at).find(|at| !word[..*at].ends_with(['/', '.']));
        // cargo names paths without `..`.
        let absolute = || word.strip_prefix(&outer).map(|rest| format!("../{rest}"));
        let mut path = up.map(|at| word[at..].to_string()).or_else(absolute)?;
        // A part of the build that runs further down has more to go up.
        loop {
            let known = |at: &Path| at.join(&path).exists() && path.len() > "../".len();
            if known(dir) && !known(copy) && ends_outside(dir, &path) {
                return Some(path);
            }
            path = path.strip_prefix("../").filter(|p| p.starts_with("../"))?.to_string();
        }
    })
}

/// The path from `dir` ends outside of it, links followed.
fn ends_outside(dir: &Path, path: &str) -> bool {
    let ends = dir.join(path).canonicalize().ok().zip(dir.canonicalize().ok());
    ends.is_some_and(|(end, dir)| !end.starts_with(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_beside_the_folder_is_found_in_what_a_build_wrote() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("app");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(outer.path().join("common.mk"), "").unwrap();
        std::fs::create_dir_all(outer.path().join("core")).unwrap();
        let copy = Scratch::empty().unwrap();
        let found = |text: &str| beside(text, copy.path(), &dir);
        assert_eq!(found("Makefile:1: ../common.mk: No such file").as_deref(), Some("../common.mk"));
        assert_eq!(found("src/Makefile:1: ../../common.mk: No such file").as_deref(), Some("../common.mk"));
        assert_eq!(found("cc -I../core -c a.c").as_deref(), Some("../core"));
        let cargo = format!("failed to read `{}/core`", copy.path().parent().unwrap().display());
        assert_eq!(found(&cargo).as_deref(), Some("../core"));
        for nothing in ["a.c:1: error", "../nowhere.mk", "x/../common.mk", "..", "../"] {
            assert_eq!(found(nothing), None, "{nothing}");
        }
        let said = lacking("fatal: not a git repository", &copy, &dir);
        assert!(said.len() == 1 && said[0].contains("version control"), "{said:?}");
    }
}
