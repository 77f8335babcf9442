//! `tussle diff`.

use crate::global::Global;
use std::process::ExitCode;

/// What changed between two builds, and its cause.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`diff` is not in this build yet")
}
