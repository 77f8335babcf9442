//! `tussle check`.

use crate::global::Global;
use std::process::ExitCode;

/// Check layouts against rules.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`check` is not in this build yet")
}
