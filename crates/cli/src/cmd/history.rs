//! `tussle history`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use tussle_bench::history::{self, Entry};
use tussle_bench::sample;
use tussle_host::revisions;
use tussle_render::View;

use crate::global::Global;

/// Results per commit and the commits at which they changed.
///
/// Keeps JSON Lines in a file of the repository. Exit status 1 when the last change of a series made it worse.
#[derive(clap::Args)]
pub struct Args {
    /// The history
    #[arg(default_value = "tussle-history.jsonl")]
    file: PathBuf,
    /// Append a result of `tussle bench` first
    #[arg(long, value_name = "RESULT")]
    add: Option<PathBuf>,
    /// Arm of that result [default: the last]
    #[arg(long, value_name = "NAME", requires = "add")]
    arm: Option<String>,
    /// Commit that it was measured at [default: the arm's own under --checkout, else HEAD]
    #[arg(long, value_name = "REV", requires = "add")]
    commit: Option<String>,
    /// Name of the series [default: the name of the arm]
    #[arg(long, requires = "add")]
    name: Option<String>,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    if let Some(result) = &args.add {
        let line = sample::line(&entry(args, result)?);
        let file = OpenOptions::new().create(true).append(true).open(&args.file);
        file.and_then(|mut f| f.write_all(line.as_bytes()))
            .with_context(|| format!("cannot write {}", args.file.display()))?;
    }
    let text = fs::read_to_string(&args.file)
        .with_context(|| format!("cannot read {}; --add RESULT begins a history", args.file.display()))?;
    let (entries, problems) = history::parse(&text);
    if entries.is_empty() {
        bail!(
            "{}: no usable line in it{}",
            args.file.display(),
            problems.first().map_or(String::new(), |p| format!(" ({p})"))
        );
    }
    let all = history::analyse(&entries);
    global.print(&View { kind: "history", schema_version: 1, nodes: history::nodes(&all, &problems) })?;
    Ok(ExitCode::from(u8::from(history::regressed(&all))))
}

fn entry(args: &Args, result: &Path) -> anyhow::Result<Entry> {
    let text = fs::read_to_string(result).with_context(|| format!("cannot read {}", result.display()))?;
    let (results, _) = sample::parse(&text).with_context(|| result.display().to_string())?;
    let arms = &results.header.arms;
    let arm = match &args.arm {
        Some(name) => arms.iter().position(|a| a == name).with_context(|| {
            format!("{}: no arm is called {name}; it has {}", result.display(), arms.join(", "))
        })?,
        None => arms.len().checked_sub(1).context("the result has no arm")?,
    };
    let of_arm = results.samples.iter().filter(|s| s.arm == arm && !s.warmup);
    let values: Vec<f64> = of_arm.filter_map(|s| s.value).collect();
    if values.is_empty() {
        bail!("{}: {} has no sample with a value", result.display(), arms[arm]);
    }
    let own = results.header.commits.get(arm).filter(|c| *c != revisions::WORKING_TREE);
    let name = args.commit.as_ref().or(own).map_or("HEAD", String::as_str);
    let revision = revisions::one(Path::new("."), name)?;
    Ok(Entry {
        tussle_history: history::SCHEMA_VERSION,
        commit: revision.hash,
        subject: revision.subject,
        name: args.name.clone().unwrap_or_else(|| arms[arm].clone()),
        metric: results.header.metric.name.clone(),
        higher_is_better: results.header.metric.higher_is_better(),
        values,
    })
}
