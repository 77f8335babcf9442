//! `tussle fix`.

use crate::global::Global;
use std::process::ExitCode;

/// Turn a move into a verified source patch.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`fix` is not in this build yet")
}
