//! `tussle export`.

use crate::global::Global;
use anyhow::{Context, bail};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tussle_host::evidence_file;

/// Write evidence for other programs, or without what says whose machine it was.
#[derive(clap::Args)]
pub struct Args {
    /// Evidence to read.
    #[arg(value_name = "EVIDENCE", default_value = evidence_file::DEFAULT_PATH)]
    evidence: PathBuf,
    /// JSON Lines: one array per row under a header per table (docs/evidence.md).
    #[arg(long)]
    jsonl: bool,
    /// Into a dataset of Parquet files, by `tussle-fleet`; `tussle export --parquet --help` lists its options.
    #[arg(long, conflicts_with_all = ["jsonl", "output"])]
    parquet: bool,
    /// Leave out command, executables, folders and what quotes the source.
    #[arg(long)]
    redact: bool,
    /// Where to write; JSON Lines go to standard output without it.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    if args.parquet {
        bail!("--parquet: name it after `export`, with nothing but -q before");
    }
    let (mut evidence, problems) = evidence_file::read(&args.evidence)?;
    for p in &problems {
        global.remark(p);
    }
    if args.redact {
        tussle_evidence::redact(&mut evidence);
    }
    match (&args.output, args.jsonl) {
        (Some(path), false) => evidence_file::write(path, &evidence)?,
        (Some(path), true) => evidence_file::write_jsonl(path, &evidence)?,
        (None, false) => bail!("name a file with -o, or ask for --jsonl"),
        (None, true) => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            tussle_evidence::file::write_jsonl(&evidence, &mut out).context("standard output")?;
            out.flush().context("standard output")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
