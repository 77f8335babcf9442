//! `tussle snapshot`.

use super::source::{Source, split_names};
use crate::global::Global;
use anyhow::{Context, bail};
use std::path::PathBuf;
use std::process::ExitCode;

/// Take layouts out of a binary into a small JSON file, accepted wherever a FILE is.
#[derive(clap::Args)]
pub struct Args {
    /// File to read.
    file: PathBuf,
    /// Types to take, separated by commas.
    #[arg(short = 'C', value_name = "NAME,..", required = true)]
    names: Vec<String>,
    /// File to write.
    #[arg(short = 'o', value_name = "OUT.json")]
    out: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let names = split_names(&args.names);
    if names.is_empty() {
        bail!("-C: name at least one type");
    }
    let source = Source::open(&args.file, &names, global)?;
    let roots = names.iter().map(|n| source.find(n)).collect::<Result<Vec<_>, _>>()?;
    let bytes = tussle_debuginfo::snapshot::write(&source.table, &roots)?;
    std::fs::write(&args.out, &bytes).with_context(|| format!("{}", args.out.display()))?;
    global.remark(format_args!("{}: {} types, {} bytes", args.out.display(), roots.len(), bytes.len()));
    Ok(ExitCode::SUCCESS)
}
