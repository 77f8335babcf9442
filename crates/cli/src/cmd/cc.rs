//! `tussle cc` and `tussle c++`: the compiler wrapper.

use std::ffi::OsString;
use std::process::ExitCode;

pub use tussle_host::cc::Language;
use tussle_host::project::wrapper::{RUSTC_WRAPPER, language_of};

/// Compile so that the program can be recorded.
///
/// `#include "tussle.h"` finds the marks of docs/marks.md; `--print-include` prints their folder for other compilers.
#[derive(clap::Args)]
pub struct Args {
    /// Arguments of the compiler, unchanged.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// How this binary was called, if as a compiler: by a compiler's name, or as `tussle cc` (before any of its own
/// options are read, so that all of them are the compiler's).
fn called() -> Option<(Language, Option<String>, Vec<OsString>)> {
    let mut all = std::env::args_os();
    let name = std::path::PathBuf::from(all.next()?);
    let name = name.file_name()?.to_str()?.to_string();
    let rest: Vec<OsString> = all.collect();
    if let Some(language) = language_of(&name) {
        return Some((language, Some(name), rest));
    }
    let (verb, rest) = rest.split_first()?;
    match verb.to_str()? {
        "cc" if !is_help(rest) => Some((Language::C, None, rest.to_vec())),
        "c++" if !is_help(rest) => Some((Language::Cxx, None, rest.to_vec())),
        _ => None,
    }
}

/// `tussle cc --help` is about the wrapper.
fn is_help(rest: &[OsString]) -> bool {
    matches!(rest, [only] if only == "--help" || only == "-h")
}

/// The language if this binary was called by a compiler's name (`cc`, `g++`, ...) or by a verb of that name.
pub fn language_of_argv0() -> Option<Language> {
    called().map(|c| c.0)
}

/// This binary, which gcc can start in the place of its assembler.
fn own() -> Option<std::path::PathBuf> {
    std::env::current_exe().and_then(std::fs::canonicalize).ok()
}

/// Runs as the assembler if this binary was started as `as`, as `tussle cc` makes gcc do.
pub fn run_as_assembler() -> Option<ExitCode> {
    let mut all = std::env::args_os();
    let name = std::path::PathBuf::from(all.next()?);
    if name.file_name().is_none_or(|n| n != "as") {
        return None;
    }
    let args: Vec<OsString> = all.collect();
    Some(match tussle_host::cc::assemble(&args) {
        Ok(status) => ExitCode::from(status),
        Err(e) => {
            eprintln!("tussle cc: {e}");
            ExitCode::from(2)
        }
    })
}

/// Runs between cargo and rustc if this binary was started by the name that `RUSTC_WRAPPER` is given.
pub fn run_as_rustc() -> Option<ExitCode> {
    let mut all = std::env::args_os();
    let name = std::path::PathBuf::from(all.next()?);
    if name.file_name().is_none_or(|n| n != RUSTC_WRAPPER) {
        return None;
    }
    let args: Vec<OsString> = all.collect();
    Some(match tussle_host::rustc::run(&args) {
        Ok(status) => ExitCode::from(status),
        Err(e) => {
            eprintln!("tussle: {e}");
            ExitCode::from(2)
        }
    })
}

/// Runs as the compiler that the first arguments name.
pub fn run_as_compiler(language: Language) -> ExitCode {
    let (_, name, args) = called().unwrap_or((language, None, Vec::new()));
    if let Some(done) = print_include(&args) {
        return done;
    }
    let own = own();
    let mut say = |m: String| eprintln!("tussle cc: {m}");
    match tussle_host::cc::run(language, name.as_deref(), own.as_deref(), &args, &mut say) {
        Ok(status) => ExitCode::from(status),
        Err(e) => {
            eprintln!("tussle cc: {e}");
            ExitCode::from(2)
        }
    }
}

/// `tussle cc --print-include`.
fn print_include(args: &[OsString]) -> Option<ExitCode> {
    if !matches!(args, [only] if only == tussle_host::cc::PRINT_INCLUDE) {
        return None;
    }
    Some(match tussle_host::record::include_folder() {
        Ok(folder) => {
            println!("{}", folder.display());
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("tussle cc: {e}");
            ExitCode::from(2)
        }
    })
}

/// Runs the verb.
pub fn run(args: &Args, language: Language) -> anyhow::Result<ExitCode> {
    let own = own();
    let mut say = |m: String| eprintln!("tussle cc: {m}");
    let status = tussle_host::cc::run(language, None, own.as_deref(), &args.args, &mut say)?;
    Ok(ExitCode::from(status))
}
