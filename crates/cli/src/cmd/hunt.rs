//! `tussle hunt`.

use crate::global::Global;
use std::process::ExitCode;

/// Find, explain, fix and prove false sharing in a program.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`hunt` is not in this build yet")
}
