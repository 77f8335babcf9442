//! `tussle layout`.

use crate::global::Global;
use std::process::ExitCode;

/// Print types with offsets, holes and cache lines.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`layout` is not in this build yet")
}
