//! `tussle cc` and `tussle c++`: the compiler wrapper.

use std::process::ExitCode;

/// Source language of a compiler call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cxx,
}

/// Compile so that the program can be recorded.
#[derive(clap::Args)]
pub struct Args {
    /// Arguments of the compiler, unchanged.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<std::ffi::OsString>,
}

/// The language if this binary was called by a compiler's name (`cc`, `g++`, ...).
pub fn language_of_argv0() -> Option<Language> {
    None
}

/// Runs as the compiler that argv\[0\] names.
pub fn run_as_compiler(_language: Language) -> ExitCode {
    ExitCode::from(2)
}

/// Runs the verb.
pub fn run(args: &Args, _language: Language) -> anyhow::Result<ExitCode> {
    anyhow::bail!("the compiler wrapper is not in this build yet ({} arguments)", args.args.len())
}
