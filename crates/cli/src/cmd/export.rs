//! `tussle export`.

use crate::global::Global;
use anyhow::{Context, bail};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tussle_evidence::Evidence;
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
    /// A profile for profiler.firefox.com: threads with the fields they access, a track for every contended line, over
    /// virtual time. The page reads the file in the browser and sends it nowhere.
    #[arg(long, conflicts_with_all = ["jsonl", "parquet"])]
    firefox: bool,
    /// Into a dataset of Parquet files, by `tussle-fleet`; `tussle export --parquet --help` lists its options.
    #[arg(long, conflicts_with_all = ["jsonl", "output"])]
    parquet: bool,
    /// Leave out command, executables, folders and what quotes the source.
    #[arg(long)]
    redact: bool,
    /// Where to write; JSON goes to standard output without it.
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
    if args.firefox {
        return firefox(&evidence, args.output.as_deref());
    }
    match (&args.output, args.jsonl) {
        (Some(path), false) => evidence_file::write(path, &evidence)?,
        (Some(path), true) => evidence_file::write_jsonl(path, &evidence)?,
        (None, false) => bail!("name a file with -o, or ask for --jsonl or --firefox"),
        (None, true) => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            tussle_evidence::file::write_jsonl(&evidence, &mut out).context("standard output")?;
            out.flush().context("standard output")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn firefox(evidence: &Evidence, output: Option<&Path>) -> anyhow::Result<ExitCode> {
    let profile = tussle_report::profiler::profile(evidence)
        .context("this evidence has no times of accesses, so there is nothing to draw over time")?;
    let text = serde_json::to_string(&profile)? + "\n";
    match output {
        Some(path) => std::fs::write(path, text).with_context(|| path.display().to_string())?,
        None => std::io::stdout().write_all(text.as_bytes()).context("standard output")?,
    }
    Ok(ExitCode::SUCCESS)
}
