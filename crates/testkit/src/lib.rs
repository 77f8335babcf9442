//! What tests ask of the machine, and what they say when it is not there. A development dependency only.
//!
//! A test that needs a tool begins with `if !need("gcc") { return }`. The answer comes from a probe that does what the
//! test is about to do: a compiler links a program with the flags of the test, `perf` records. A test that is skipped
//! says so on the terminal, with its name and the reason, past the capture of `cargo test`. docs/testing.md lists the
//! variables.

mod probe;
mod random;
mod replay;

pub use random::Random;
pub use replay::replay;

use std::ffi::OsString;
use std::io::Write;
use std::panic::Location;

/// Set (and neither empty nor `0`): a tool that [`need`] does not find fails the test.
pub const STRICT: &str = "TUSSLE_STRICT";
/// Kinds of slow tests to run, between commas; `all` for every one.
pub const SLOW: &str = "TUSSLE_SLOW";

/// True when the machine can do `what`: a program (`git`: it answers `--version`), a compiler with flags
/// (`clang -fsanitize=thread`: it links a program with them; with `-c` it compiles one), or a name known to the probes
/// (`perf record`, `two CPUs`, `user namespaces`). Otherwise the test is reported as skipped, or fails under
/// `TUSSLE_STRICT`, unless `what` is a property of the machine that nobody can install.
///
/// # Panics
/// Under `TUSSLE_STRICT`, when a tool is missing.
#[track_caller]
pub fn need(what: &str) -> bool {
    let Err(why) = probe::ask(what) else { return true };
    assert!(!strict() || probe::is_machine(what), "{STRICT} is set, and {what} is missing: {why}");
    say(&format!("{what}: {why}"));
    false
}

/// As [`need`], for what even the continuous integration does not install: never a failure.
#[track_caller]
pub fn wish(what: &str) -> bool {
    let Err(why) = probe::ask(what) else { return true };
    say(&format!("{what}: {why}"));
    false
}

/// Says that the rest of this test is skipped, and why.
#[track_caller]
pub fn skip(why: &str) {
    say(why);
}

/// The value of a variable with which somebody asks for a test (`TUSSLE_TEST_VMLINUX`); without it the test is skipped.
#[track_caller]
pub fn given(variable: &str) -> Option<OsString> {
    let value = std::env::var_os(variable).filter(|v| !v.is_empty());
    if value.is_none() {
        say(&format!("{variable} is not set"));
    }
    value
}

/// True when slow tests of this kind were asked for: `TUSSLE_SLOW=recorder,suite`.
#[track_caller]
pub fn slow(kind: &str) -> bool {
    let asked =
        std::env::var(SLOW).unwrap_or_default().split(',').any(|k| k.trim() == kind || k.trim() == "all");
    if !asked {
        say(&format!("slow: {SLOW}={kind} runs it"));
    }
    asked
}

fn strict() -> bool {
    std::env::var(STRICT).is_ok_and(|v| !v.is_empty() && v != "0")
}

/// One line on the standard error: the handle, unlike `eprintln!`, is not captured by the test harness.
#[track_caller]
fn say(why: &str) {
    let at = Location::caller();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let line = format!("skipped: {test} ({}:{}): {why}\n", at.file(), at.line());
    // A closed terminal is no reason to fail.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}
