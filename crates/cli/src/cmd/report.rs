//! `tussle report`.

use crate::global::Global;
use std::process::ExitCode;

/// Show contended lines by field.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`report` is not in this build yet")
}
