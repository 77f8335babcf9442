//! A folder with a program: what builds it, a copy of its sources, the build in there, and the programs that came out.
//!
//! The folder itself is only read. Every build happens in a [`Scratch`] copy; systems that can build outside of their
//! sources do so in its folder [`BUILD_FOLDER`].

mod blame;
mod copying;
mod database;
mod described;
mod failure;
mod scratch;
mod stamp;
mod system;
mod targets;
mod traces;
mod untouched;
mod workshop;
mod workspace;
pub mod wrapper;

pub use blame::{Named, compilers_named, remedy};
pub(crate) use copying::writable_copy;
pub use failure::BuildError;
pub use scratch::{BUILD_FOLDER, Scratch, ScratchError};
pub use stamp::Stamp;
pub use system::{Package, System, host_triple};
pub use targets::Programs;
pub use untouched::{Change, Untouched};
pub use workshop::{Workshop, WorkshopError};
pub use wrapper::Wrapper;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder and how to build it.
#[derive(Clone, Debug)]
pub struct Project {
    /// Where the sources are: of a member of a cargo workspace the workspace.
    pub dir: PathBuf,
    /// What builds them.
    pub system: System,
    /// Other systems that the folder would have.
    pub others: Vec<System>,
}

impl Project {
    /// Takes the command given, or what the folder is made for. `path` may be a single source file.
    ///
    /// # Errors
    /// Nothing says how to build the folder.
    pub fn find(path: &Path, build: Option<&str>) -> Result<Project, BuildError> {
        let dir = if path.is_file() { path.parent().unwrap_or(Path::new(".")) } else { path };
        let mut found = match build {
            Some(c) => vec![System::Shell(c.to_string())],
            None if path.is_file() => System::of_file(path).into_iter().collect(),
            None => System::all_of(dir),
        };
        if found.is_empty() {
            return Err(BuildError::NoBuild { dir: path.to_path_buf() });
        }
        let project = Project { dir: dir.to_path_buf(), system: found.remove(0), others: found };
        Ok(project.in_workspace())
    }

    /// A package of a cargo workspace is built where its workspace is, which holds its lock file and what it inherits.
    fn in_workspace(mut self) -> Project {
        let System::Cargo(package) = self.system else { return self };
        let above = workspace::root_above(&self.dir);
        let member = above.as_ref().and_then(|root| Some(self.dir.strip_prefix(root).ok()?.to_path_buf()));
        if let Some((root, member)) = above.zip(member) {
            (self.dir, self.system) = (root, System::Member(member, package));
        }
        self
    }

    /// The one program that a build left.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn only(&self, programs: &Programs) -> Result<PathBuf, BuildError> {
        programs.only(&self.system).map_err(|e| match e {
            BuildError::NoExecutable { command } => self.lacking_features(command),
            other => other,
        })
    }

    /// Why a command of ours left no executable.
    fn lacking_features(&self, command: String) -> BuildError {
        let (package, manifest, which) = match &self.system {
            System::Cargo(_) => (self.dir.clone(), String::new(), String::new()),
            System::Member(at, _) => {
                let manifest = tussle_render::shell::word(&at.join("Cargo.toml").to_string_lossy());
                let which = format!("hunt {} and ", self.dir.display());
                (self.dir.join(at), format!(" --manifest-path {manifest}"), which)
            }
            _ => return BuildError::NoExecutable { command },
        };
        let Some((program, features)) = workspace::required_features(&package) else {
            return BuildError::NoExecutable { command };
        };
        let build = format!("cargo build --release{manifest} --features {features}");
        let how = format!("{which}name them, as in --build {}", tussle_render::shell::quoted(&build));
        BuildError::Features { command, program, how }
    }

    /// A copy of `from` (the folder, or a patched copy of it), ready to be built.
    ///
    /// # Errors
    /// It cannot be copied.
    pub fn copy(&self, from: &Path) -> Result<Scratch, ScratchError> {
        match &self.system {
            System::Database(file) => {
                let copy = Scratch::copy_keeping(from, database_folder(file))?;
                database::prepare(&self.dir, from, copy.path(), file)?;
                Ok(copy)
            }
            _ => Scratch::copy_of(from),
        }
    }

    /// Makes a copy of `from` anew where it lies: what was built in it may know its path.
    ///
    /// # Errors
    /// It cannot be copied.
    pub(crate) fn copy_again(&self, from: &Path, copy: &Scratch) -> Result<(), ScratchError> {
        match &self.system {
            System::Database(file) => {
                copy.refill(from, Some(database_folder(file)))?;
                database::prepare(&self.dir, from, copy.path(), file)
            }
            _ => copy.refill(from, None),
        }
    }

    /// Builds in `copy` with `env` added to the environment. stdout and stderr are kept for errors.
    ///
    /// # Errors
    /// The build cannot be started or fails.
    pub fn build_in(&self, copy: &Scratch, env: &[(&str, OsString)]) -> Result<(), BuildError> {
        self.run_in(copy, &self.system.command(), env)
    }

    /// Runs a build command in `copy`.
    pub(crate) fn run_in(
        &self,
        copy: &Scratch,
        command: &str,
        env: &[(&str, OsString)],
    ) -> Result<(), BuildError> {
        let io = |source| BuildError::NotStarted { command: command.into(), source };
        self.system.prepare(copy.path()).map_err(io)?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).current_dir(copy.path());
        let output = crate::interrupted::output(shell.envs(env.iter().map(|(k, v)| (k, v)))).map_err(io)?;
        if output.status.success() {
            return Ok(());
        }
        Err(failure::of_build(command.into(), &output, copy, &self.dir))
    }
}

/// The folder of a compilation database, which is needed whatever else lies in it.
fn database_folder(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_folder_without_a_build_needs_a_command() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Project::find(dir.path(), None), Err(BuildError::NoBuild { .. })));
        let p = Project::find(dir.path(), Some("exit 3")).unwrap();
        let e = p.build_in(&p.copy(dir.path()).unwrap(), &[]).unwrap_err().to_string();
        assert!(e.contains("exit 3") && e.contains("3"), "{e}");
    }

    #[test]
    fn the_one_new_executable_is_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.c"), "int main(void){return 0;}\n").unwrap();
        fs::copy("/bin/true", dir.path().join("old")).unwrap();
        let build = "cc -o new a.c && cc -c a.c && : >script && chmod +x script";
        let p = Project::find(dir.path(), Some(build)).unwrap();
        let copy = p.copy(dir.path()).unwrap();
        let before = Programs::before(copy.path());
        p.build_in(&copy, &[]).unwrap();
        let programs = Programs::after(&p.system, copy.path(), &before);
        assert_eq!(programs.only(&p.system).unwrap(), Path::new("new"));
        let none = Programs::after(&p.system, copy.path(), &Programs::before(copy.path()));
        assert!(matches!(none.only(&p.system), Err(BuildError::NoExecutable { .. })));
    }
}
