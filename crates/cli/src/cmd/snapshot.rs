//! `tussle snapshot`.

use super::golden;
use super::source::{Source, split_names};
use crate::global::Global;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tussle_render::plural;

/// Take layouts out of a binary into a small JSON file, accepted wherever a FILE is.
#[derive(clap::Args)]
pub struct Args {
    /// File to read; with --update also a folder of builds.
    file: PathBuf,
    /// Types to take, separated by commas.
    #[arg(short = 'C', value_name = "NAME,..", required_unless_present = "update")]
    names: Vec<String>,
    /// File to write.
    #[arg(short = 'o', value_name = "OUT.json", required_unless_present = "update")]
    out: Option<PathBuf>,
    /// Renew all snapshots of a folder: each keeps its types.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "out"])]
    update: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.update {
        for g in golden::of(folder, &args.file)? {
            take(&g.build, &g.names, &g.snapshot, global)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let names = split_names(&args.names);
    if names.is_empty() {
        bail!("-C: name at least one type");
    }
    let out = args.out.as_deref().context("-o: name the file to write")?;
    take(&args.file, &names, out, global)?;
    Ok(ExitCode::SUCCESS)
}

fn take(file: &Path, names: &[String], out: &Path, global: &Global) -> anyhow::Result<()> {
    let source = Source::open(file, names, global)?;
    let roots = names.iter().map(|n| source.find_all(n)).collect::<Result<Vec<_>, _>>()?.concat();
    let bytes = tussle_debuginfo::snapshot::write(&source.table, &roots)?;
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    std::fs::write(out, &bytes).with_context(|| format!("{}", out.display()))?;
    global.remark(format_args!(
        "{}: {}, {}",
        out.display(),
        plural(roots.len(), "type", "types"),
        plural(bytes.len(), "byte", "bytes")
    ));
    Ok(())
}
