//! `tussle compare`.

use crate::global::Global;
use std::process::ExitCode;

/// Compare two results, or audit a pasted table.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`compare` is not in this build yet")
}
