//! Between cargo and rustc: the crates of the target are compiled with thread instrumentation on stable toolchains.
//!
//! cargo starts this binary as `RUSTC_WRAPPER` with rustc and its arguments. A crate is instrumented when it is
//! compiled with `--target` and by cargo itself: build scripts and procedural macros are compiled without, and what a
//! build script compiles to learn the compiler's features must find the compiler that it is. `-Zsanitizer` is unstable,
//! so that `RUSTC_BOOTSTRAP` is set, for these crates alone. No sanitizer's runtime is linked (`-Zexternal-clangrt`),
//! but ours.

use crate::cc::{CcError, PLAIN_VARIABLE};
use crate::record::object_file;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The oldest rustc that has all that is needed: `-Zexternal-clangrt` came with it.
pub const OLDEST_MINOR: u32 = 79;

/// From this one on a crate with a sanitizer and a library without are an error unless the flag says else.
const MISMATCH_MINOR: u32 = 90;

/// What rustc is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// A crate of the program.
    Target {
        /// An executable comes out: the runtime is linked.
        program: bool,
    },
    /// Build scripts, procedural macros, probes, questions.
    Plain,
}

/// Becomes rustc. `args` are rustc's path and its arguments, as cargo gives them.
///
/// # Errors
/// rustc cannot be started, is too old, or the runtime cannot be written.
pub fn run(args: &[OsString]) -> Result<u8, CcError> {
    let Some((rustc, args)) = args.split_first() else {
        let missing =
            std::io::Error::other("no rustc on the command line; cargo starts this by RUSTC_WRAPPER");
        return Err(CcError::Io("tussle-rustc".into(), missing));
    };
    let mut command = Command::new(rustc);
    command.args(args);
    match task(args, &|name| std::env::var_os(name).is_some()) {
        Task::Plain => command.env(PLAIN_VARIABLE, "1"),
        Task::Target { program } => {
            let minor = minor(rustc)?;
            command.args(flags(minor)).env("RUSTC_BOOTSTRAP", "1").env_remove(PLAIN_VARIABLE);
            if program {
                let mut object = OsString::from("-Clink-arg=");
                object.push(object_file()?);
                command.arg(object).arg("-Clink-arg=-Wl,--export-dynamic-symbol=__tsan_*");
            }
            &mut command
        }
    };
    Err(CcError::Io(rustc.to_string_lossy().into_owned(), command.exec()))
}

/// What makes a crate recordable. Debug information in full and in the program, whatever the profile says.
fn flags(minor: u32) -> Vec<&'static str> {
    let mut out = vec!["-Zsanitizer=thread", "-Zexternal-clangrt", "-Cdebuginfo=2", "-Cstrip=none"];
    out.extend(["-Csplit-debuginfo=off", "-Cforce-frame-pointers=yes"]);
    if minor >= MISMATCH_MINOR {
        out.push("-Cunsafe-allow-abi-mismatch=sanitizer");
        // Where a struct is defined: for patches.
        out.push("-Zdebug-info-type-line-numbers=yes");
    }
    out
}

/// Reads a command line of rustc; `has` tells which variables are set.
fn task(args: &[OsString], has: &dyn Fn(&str) -> bool) -> Task {
    let text: Vec<_> = args.iter().map(|a| a.to_string_lossy()).collect();
    let for_target = text.iter().any(|a| a == "--target" || a.starts_with("--target="));
    let question =
        text.iter().any(|a| a.starts_with("--print") || a == "-vV" || a == "-" || a == "--version");
    // Build scripts have these from cargo; rustc, when cargo starts it, has not.
    let probe = has("NUM_JOBS") && has("OPT_LEVEL") && !has("CARGO_CRATE_NAME");
    if !for_target || question || probe {
        return Task::Plain;
    }
    let mut kinds = text.windows(2).filter(|w| w[0] == "--crate-type").map(|w| w[1].to_string()).peekable();
    let library = kinds.peek().is_some() && kinds.all(|k| k != "bin");
    Task::Target { program: text.iter().any(|a| a == "--test") || !library }
}

/// `95` of `rustc 1.95.0 (..)`.
fn minor(rustc: &OsStr) -> Result<u32, CcError> {
    let io = |e| CcError::Io(rustc.to_string_lossy().into_owned(), e);
    let out = Command::new(rustc).arg("-V").output().map_err(io)?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let minor = text.split('.').nth(1).and_then(|m| m.parse().ok());
    let minor = minor.ok_or_else(|| io(std::io::Error::other(format!("says it is `{}`", text.trim()))))?;
    if minor < OLDEST_MINOR {
        let why = format!("{}: recording needs rustc 1.{OLDEST_MINOR} or newer", text.trim());
        return Err(io(std::io::Error::other(why)));
    }
    Ok(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, variables: &[&str], expect: Task) {
        let args: Vec<OsString> = line.split(' ').map(Into::into).collect();
        assert_eq!(task(&args, &|n| variables.contains(&n)), expect, "{line}");
    }

    /// A profile may say `split-debuginfo`, `strip` and `debug = false`.
    #[test]
    fn debug_information_stays_in_the_program() {
        let flags = flags(MISMATCH_MINOR);
        for flag in ["-Csplit-debuginfo=off", "-Cdebuginfo=2", "-Cstrip=none"] {
            assert!(flags.contains(&flag), "{flag}");
        }
    }

    #[test]
    fn only_crates_of_the_program_are_instrumented() {
        let (library, program) = (Task::Target { program: false }, Task::Target { program: true });
        check("--crate-name a --crate-type lib --target t a.rs", &["CARGO_CRATE_NAME"], library);
        check("--crate-name a --crate-type bin --target t a.rs", &["CARGO_CRATE_NAME"], program);
        check("--crate-name a --test --target t a.rs", &["CARGO_CRATE_NAME"], program);
        check("--crate-name a --crate-type cdylib --target=t a.rs", &[], library);
        check("a.rs --target t -o a", &[], program);
        check(
            "--crate-name build_script_build --crate-type bin build.rs",
            &["CARGO_CRATE_NAME"],
            Task::Plain,
        );
        check("- --crate-name ___ --print=file-names --target t", &[], Task::Plain);
        check("--crate-name probe --target t probe.rs", &["NUM_JOBS", "OPT_LEVEL", "OUT_DIR"], Task::Plain);
    }
}
