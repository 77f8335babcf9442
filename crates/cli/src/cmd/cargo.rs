//! `tussle cargo`: cargo with every crate of the program instrumented; what it runs is recorded.

use crate::global::Global;
use anyhow::Context;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use tussle_host::cc::PLAIN_VARIABLE;
use tussle_host::evidence_file;
use tussle_host::project::wrapper::CARGO;
use tussle_host::project::{Wrapper, host_triple};
use tussle_host::record::object_file;

/// Build, run, test or bench a Rust program so that it is recorded, on stable Rust.
///
/// `tussle cargo build --release` builds, `tussle cargo run --release` records the program, `tussle cargo test` and
/// `bench` record each executable that they start, one evidence after the other: name one with --test, --bench or
/// --lib. Build scripts and procedural macros stay as they are. Output goes to `tussle` in cargo's own folder (target),
/// so that other builds are kept. Needs rustc 1.79 or newer.
#[derive(clap::Args)]
pub struct Args {
    /// Where to write the evidence; an older `tussle.data` becomes `tussle.data.old`.
    #[arg(short, long, default_value = evidence_file::DEFAULT_PATH)]
    output: PathBuf,
    /// cargo's subcommand and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "SUBCOMMAND")]
    args: Vec<OsString>,
}

/// Runs the verb; the exit status is cargo's, 127 where there is none and 126 where it cannot be started.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let output = std::path::absolute(&args.output).context("no current folder")?;
    let exe = own()?;
    let runner = runner(&exe, &output)?;
    run_cargo(&exe, &args.args, Some(&runner), &mut |line| global.remark(line))
}

/// Runs as cargo if this binary was started by its name, as the shell command of a `--build` does.
pub fn run_by_name() -> Option<ExitCode> {
    let mut all = std::env::args_os();
    let name = PathBuf::from(all.next()?);
    if name.file_name().is_none_or(|n| n != CARGO) {
        return None;
    }
    let args: Vec<OsString> = all.collect();
    let builds = args.get(before_subcommand(&args)).is_some_and(|s| BUILDING.iter().any(|b| s == b));
    let done = match builds {
        true => own().and_then(|exe| run_cargo(&exe, &args, None, &mut |_| {})),
        false => real_cargo().and_then(|(cargo, path)| {
            let why = Command::new(&cargo).args(&args).env("PATH", path).exec();
            Err(why).with_context(|| format!("cannot run {}", cargo.display()))
        }),
    };
    Some(done.unwrap_or_else(|e| {
        eprintln!("tussle: {e:#}");
        ExitCode::from(2)
    }))
}

/// Subcommands whose programs are recorded later. What `cargo run` starts during a build is a tool of the build.
const BUILDING: [&str; 6] = ["build", "b", "test", "t", "bench", "rustc"];

fn own() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this binary")
}

/// The cargo that is not this binary, and `PATH` without the folders in which it is.
fn real_cargo() -> anyhow::Result<(PathBuf, OsString)> {
    let own = own()?.canonicalize().context("cannot find this binary")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let ours = |folder: &PathBuf| folder.join(CARGO).canonicalize().is_ok_and(|c| c == own);
    let folders: Vec<PathBuf> = std::env::split_paths(&path).filter(|f| !ours(f)).collect();
    let cargo = folders.iter().map(|f| f.join(CARGO)).find(|c| c.is_file());
    let path = std::env::join_paths(folders).context("PATH cannot be read")?;
    Ok((cargo.unwrap_or_else(|| CARGO.into()), path))
}

/// cargo for the target, in a folder of its own, with what it starts given to `runner`.
fn run_cargo(
    exe: &Path,
    args: &[OsString],
    runner: Option<&str>,
    say: &mut dyn FnMut(String),
) -> anyhow::Result<ExitCode> {
    let (cargo, path) = real_cargo()?;
    let wrapper = Wrapper::new(exe)?;
    let named = folder_named(args);
    let folder = named.clone().unwrap_or_else(|| folder_of_cargo(&cargo, args, say));
    let line = command_line(args, &folder);
    say(shown(&line));
    let mut command = Command::new(cargo);
    command.args(&line).env("PATH", &path);
    if std::env::var_os(PLAIN_VARIABLE).is_some() {
        return Err(command.exec()).context("cannot run cargo");
    }
    let (recorder, folder) = (Recorder::new()?, folder.as_path());
    match named {
        Some(_) => recorder.only_its_own(folder)?,
        None => recorder.renew(folder)?,
    }
    // Cargo that a build script starts is its own affair.
    command.envs(wrapper.environment()).env("PATH", wrapper.before(Some(path)));
    command.envs(runner.map(|r| (runner_variable(), r)));
    let status = match command.status() {
        Ok(status) => status,
        Err(e) => {
            eprintln!("tussle: cannot run cargo; install Rust: {e}");
            return Ok(ExitCode::from(if e.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }));
        }
    };
    recorder.remember(folder);
    Ok(ExitCode::from(status.code().map_or(101, |c| c as u8)))
}

/// What runs next.
fn shown(line: &[OsString]) -> String {
    let words: Vec<_> = line.iter().map(|a| a.to_string_lossy()).collect();
    format!("cargo {}", words.join(" "))
}

/// The value of an option before `--`.
fn value(args: &[OsString], option: &str) -> Option<OsString> {
    let mut own = args.iter().take_while(|a| *a != "--");
    while let Some(word) = own.next() {
        if word == option {
            return own.next().cloned();
        }
        let joined = word.to_str().and_then(|w| w.strip_prefix(option)?.strip_prefix('='));
        if let Some(value) = joined {
            return Some(value.into());
        }
    }
    None
}

/// The folder of `--target-dir`.
fn folder_named(args: &[OsString]) -> Option<PathBuf> {
    value(args, "--target-dir").map(PathBuf::from)
}

/// Where cargo builds when the command line names no folder: in cargo's own, which variables, its configuration and
/// the workspace decide. It is asked for it; that runs nothing of the package.
fn folder_of_cargo(cargo: &Path, args: &[OsString], say: &mut dyn FnMut(String)) -> PathBuf {
    let own = &args[..before_subcommand(args)];
    let mut line: Vec<OsString> =
        own.iter().take_while(|a| a.to_string_lossy().starts_with('+')).cloned().collect();
    line.extend(["metadata", "--format-version", "1", "--no-deps"].map(OsString::from));
    if let Some(manifest) = value(args, "--manifest-path") {
        line.extend(["--manifest-path".into(), manifest]);
    }
    say(shown(&line));
    let told = Command::new(cargo).args(&line).stderr(Stdio::null()).output().ok();
    let told = told.and_then(|o| serde_json::from_slice::<serde_json::Value>(&o.stdout).ok());
    let target = told.and_then(|v| Some(PathBuf::from(v["target_directory"].as_str()?)));
    let target = target.unwrap_or_else(|| "target".into());
    let here = std::env::current_dir().unwrap_or_default();
    target.strip_prefix(here).unwrap_or(&target).join("tussle")
}

/// The recorder that programs in a folder are linked with. cargo does not know of it: what another tussle has built
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

    /// A folder that the user has named is not emptied.
    fn only_its_own(&self, folder: &Path) -> anyhow::Result<()> {
        let of = std::fs::read_to_string(Recorder::mark(folder)).ok();
        if of.is_some_and(|of| of != self.object) {
            anyhow::bail!(
                "{} was built by another tussle: remove it, or name another folder",
                folder.display()
            );
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

/// How many words stand before the subcommand: a toolchain (`+nightly`) and options of cargo itself.
fn before_subcommand(args: &[OsString]) -> usize {
    let mut at = 0;
    while let Some(word) = args.get(at).map(|a| a.to_string_lossy()) {
        at += match &*word {
            "-Z" | "--config" | "-C" | "--color" => 2,
            w if w.starts_with(['+', '-']) => 1,
            _ => break,
        };
    }
    at.min(args.len())
}

/// With the target and a folder of its own, unless the user has named them.
fn command_line(args: &[OsString], folder: &Path) -> Vec<OsString> {
    let (before, own) = args.split_at(before_subcommand(args));
    let Some((subcommand, rest)) = own.split_first() else { return args.to_vec() };
    let own = rest.iter().take_while(|a| *a != "--");
    let named = |flag: &str| {
        own.clone()
            .any(|a| a.to_string_lossy() == flag || a.to_string_lossy().starts_with(&format!("{flag}=")))
    };
    let mut out = [before, std::slice::from_ref(subcommand)].concat();
    if !named("--target") {
        out.extend(["--target".into(), host_triple().into()]);
    }
    if !named("--target-dir") {
        out.extend(["--target-dir".into(), folder.into()]);
    }
    let tests = *subcommand == "test" || *subcommand == "t";
    if tests && !SELECTING.iter().any(|s| named(s)) {
        out.push("--tests".into());
    }
    out.extend(rest.iter().cloned());
    out
}

/// Options that choose what `cargo test` runs. Without one it also compiles the examples in documentation, by rustdoc
/// and without the recorder that the library then asks for.
const SELECTING: [&str; 11] = [
    "--lib",
    "--bins",
    "--bin",
    "--examples",
    "--example",
    "--tests",
    "--test",
    "--benches",
    "--bench",
    "--all-targets",
    "--doc",
];

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
    use std::path::Path;

    #[track_caller]
    fn check(line: &str, expect: &str) {
        let args: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let line = command_line(&args, Path::new("target/tussle"));
        let got: Vec<_> = line.iter().map(|a| a.to_string_lossy().into_owned()).collect();
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
        assert!(folder.join("new").exists() && recorder.only_its_own(&folder).is_ok());
        std::fs::write(Recorder::mark(&folder), "another").unwrap();
        assert!(recorder.only_its_own(&folder).is_err() && folder.join("new").exists());
    }

    #[test]
    fn target_and_folder_are_added_unless_named() {
        let ours = "--target x86_64-unknown-linux-gnu --target-dir target/tussle";
        check("run --release -- --target x", &format!("run {ours} --release -- --target x"));
        check("build --target=t --target-dir d", "build --target=t --target-dir d");
        check("+nightly --config a=b -q test x", &format!("+nightly --config a=b -q test {ours} --tests x"));
        check("test --test=x", &format!("test {ours} --test=x"));
        check("bench", &format!("bench {ours}"));
        check("--version", "--version");
    }
}
