//! `tussle place`.

use crate::global::Global;
use std::process::ExitCode;

/// Where a new field fits without moving any other.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`place` is not in this build yet")
}
