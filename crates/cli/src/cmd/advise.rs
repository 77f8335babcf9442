//! `tussle advise`.

use crate::global::Global;
use std::process::ExitCode;

/// Propose moves of fields, each with its bill.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, _global: &Global) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`advise` is not in this build yet")
}
