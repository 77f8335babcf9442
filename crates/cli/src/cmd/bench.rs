//! `tussle bench`.

use crate::global::Global;
use std::process::ExitCode;

/// Run commands in randomly ordered pairs and compare them.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`bench` is not in this build yet")
}
