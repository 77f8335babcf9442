//! `tussle snapshot`.

use crate::global::Global;
use std::process::ExitCode;

/// Take layouts out of a binary into a small JSON file.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`snapshot` is not in this build yet")
}
