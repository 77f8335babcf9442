//! `tussle record`.

use crate::global::Global;
use std::process::ExitCode;

/// Run a program and record who touches which field.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`record` is not in this build yet")
}
