//! `tussle cargo`: cargo with every crate of the program instrumented; what it runs is recorded.

use crate::global::Global;
use anyhow::Context;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use tussle_host::evidence_file;
use tussle_host::project::{Wrapper, host_triple};

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
    let mut command = Command::new("cargo");
    command.args(&line).envs(wrapper.environment());
    let output = std::path::absolute(&args.output).context("no current folder")?;
    command.env(runner_variable(), runner(&exe, &output)?);
    let status = command.status().context("cannot run cargo; install Rust")?;
    Ok(ExitCode::from(status.code().map_or(101, |c| c as u8)))
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
        out.extend(["--target-dir".into(), "target/tussle".into()]);
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
    use super::command_line;
    use std::ffi::OsString;

    #[track_caller]
    fn check(line: &str, expect: &str) {
        let args: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let got: Vec<_> = command_line(&args).iter().map(|a| a.to_string_lossy().into_owned()).collect();
        assert_eq!(got.join(" "), expect);
    }

    #[test]
    fn target_and_folder_are_added_unless_named() {
        let ours = "--target x86_64-unknown-linux-gnu --target-dir target/tussle";
        check("run --release -- --target x", &format!("run {ours} --release -- --target x"));
        check("build --target=t --target-dir d", "build --target=t --target-dir d");
    }
}
