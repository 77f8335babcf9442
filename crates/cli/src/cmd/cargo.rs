//! `tussle cargo`: cargo with every crate of the program instrumented; what it runs is recorded.

use crate::global::Global;
use anyhow::Context;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tussle_host::evidence_file;
use tussle_host::project::{Wrapper, host_triple};
use tussle_host::record::object_file;

/// Build, run, test or bench a Rust program so that it is recorded, on stable Rust.
///
/// `tussle cargo build --release` builds, `tussle cargo run --release` records the program, `tussle cargo test` and
/// `bench` record each executable that they start, one evidence after the other: name one with --test, --bench or
/// --lib. Build scripts and procedural macros stay as they are. Output goes to target/tussle, so that other builds are
/// kept. Needs rustc 1.79 or newer.
#[derive(clap::Args)]
pub struct Args {
    /// Where to write the evidence; an older `tussle.data` becomes `tussle.data.old`.
    #[arg(short, long, default_value = evidence_file::DEFAULT_PATH)]
    output: PathBuf,
    /// cargo's subcommand and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "SUBCOMMAND")]
    args: Vec<OsString>,
}

/// Runs the verb; the exit status is cargo's.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let exe = std::env::current_exe().context("cannot find this binary")?;
    let wrapper = Wrapper::new(&exe).context("cannot make a folder of compiler names")?;
    let line = command_line(&args.args);
    let shown: Vec<_> = line.iter().map(|a| a.to_string_lossy()).collect();
    global.remark(format!("cargo {}", shown.join(" ")));
    let (recorder, folder) = (Recorder::new()?, Path::new(FOLDER));
    recorder.renew(folder)?;
    let mut command = Command::new("cargo");
    command.args(&line).envs(wrapper.environment());
    let output = std::path::absolute(&args.output).context("no current folder")?;
    command.env(runner_variable(), runner(&exe, &output)?);
    let status = command.status().context("cannot run cargo; install Rust")?;
    recorder.remember(folder);
    Ok(ExitCode::from(status.code().map_or(101, |c| c as u8)))
}

/// Where cargo builds, unless the user has named a folder.
const FOLDER: &str = "target/tussle";

/// The recorder that programs in [`FOLDER`] are linked with. cargo does not know of it: what another tussle has built
/// there is built again.
struct Recorder {
    object: String,
}

impl Recorder {
    fn new() -> anyhow::Result<Recorder> {
        Ok(Recorder { object: object_file()?.to_string_lossy().into_owned() })
    }

    fn mark(folder: &Path) -> PathBuf {
        folder.join(".recorder")
    }

    /// Empties the folder if it is of another one.
    fn renew(&self, folder: &Path) -> anyhow::Result<()> {
        let of = std::fs::read_to_string(Recorder::mark(folder)).ok();
        if folder.is_dir() && of.as_ref() != Some(&self.object) {
            std::fs::remove_dir_all(folder).with_context(|| format!("cannot renew {}", folder.display()))?;
        }
        Ok(())
    }

    /// Remembers it, where cargo has made the folder.
    fn remember(&self, folder: &Path) {
        if folder.is_dir() {
            // What cannot be remembered is built again.
            let _ = std::fs::write(Recorder::mark(folder), &self.object);
        }
    }
}

/// With the target and a folder of its own, unless the user has named them.
fn command_line(args: &[OsString]) -> Vec<OsString> {
    let Some((subcommand, rest)) = args.split_first() else { return Vec::new() };
    let own = rest.iter().take_while(|a| *a != "--");
    let named = |flag: &str| {
        own.clone()
            .any(|a| a.to_string_lossy() == flag || a.to_string_lossy().starts_with(&format!("{flag}=")))
    };
    let mut out = vec![subcommand.clone()];
    if !named("--target") {
        out.extend(["--target".into(), host_triple().into()]);
    }
    if !named("--target-dir") {
        out.extend(["--target-dir".into(), FOLDER.into()]);
    }
    out.extend(rest.iter().cloned());
    out
}

fn runner_variable() -> String {
    format!("CARGO_TARGET_{}_RUNNER", host_triple().to_uppercase().replace('-', "_"))
}

/// What cargo puts before each program that it starts. cargo splits it at blanks.
fn runner(exe: &std::path::Path, output: &std::path::Path) -> anyhow::Result<String> {
    let (exe, output) = (exe.to_string_lossy(), output.to_string_lossy());
    if exe.contains(' ') || output.contains(' ') {
        anyhow::bail!("cargo cannot start {exe} with {output}: a path with a blank; use -o with another one");
    }
    Ok(format!("{exe} record -o {output} --"))
}

#[cfg(test)]
mod tests {
    use super::{Recorder, command_line};
    use std::ffi::OsString;

    #[track_caller]
    fn check(line: &str, expect: &str) {
        let args: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let got: Vec<_> = command_line(&args).iter().map(|a| a.to_string_lossy().into_owned()).collect();
        assert_eq!(got.join(" "), expect);
    }

    #[test]
    fn what_another_recorder_was_linked_with_is_built_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("target");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("old"), "").unwrap();
        let recorder = Recorder::new().unwrap();
        recorder.renew(&folder).unwrap();
        assert!(!folder.exists());
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("new"), "").unwrap();
        recorder.remember(&folder);
        recorder.renew(&folder).unwrap();
        assert!(folder.join("new").exists());
    }

    #[test]
    fn target_and_folder_are_added_unless_named() {
        let ours = "--target x86_64-unknown-linux-gnu --target-dir target/tussle";
        check("run --release -- --target x", &format!("run {ours} --release -- --target x"));
        check("build --target=t --target-dir d", "build --target=t --target-dir d");
    }
}
