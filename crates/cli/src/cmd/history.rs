//! `tussle history`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use tussle_bench::history::{self, Entry};
use tussle_bench::read::{Direction, Series};
use tussle_bench::sample::{self, Results};
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
    /// Append a result first: of `tussle bench`, or anything that `tussle compare` reads (of tables the last column)
    #[arg(long, value_name = "RESULT")]
    add: Option<PathBuf>,
    /// Arm of that result, or benchmark of a foreign one [default: the last arm, all benchmarks]
    #[arg(long, value_name = "NAME", requires = "add")]
    arm: Option<String>,
    /// Commit that it was measured at [default: the arm's own under --checkout, else HEAD]
    #[arg(long, value_name = "REV", requires = "add")]
    commit: Option<String>,
    /// Name of the series [default: the name of the arm or of the benchmark]
    #[arg(long, requires = "add")]
    name: Option<String>,
    /// Lower values of a foreign result are better, where its format does not say
    #[arg(long, requires = "add", conflicts_with = "higher_is_better")]
    lower_is_better: bool,
    /// Higher values are better, where its format does not say
    #[arg(long, requires = "add")]
    higher_is_better: bool,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    if let Some(result) = &args.add {
        let lines: String = entries(args, result)?.iter().map(sample::line).collect();
        let file = OpenOptions::new().create(true).append(true).open(&args.file);
        file.and_then(|mut f| f.write_all(lines.as_bytes()))
            .with_context(|| format!("cannot write {}", args.file.display()))?;
    }
    let text = tussle_host::whole::read_to_string(&args.file)
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

fn entries(args: &Args, result: &Path) -> anyhow::Result<Vec<Entry>> {
    let ours = fs::read_to_string(result).ok().and_then(|text| sample::parse(&text).ok());
    match ours {
        Some((results, _)) => Ok(vec![of_bench(args, result, &results)?]),
        None => of_others(args, result),
    }
}

/// Every benchmark of a foreign result, or the one that `--arm` names.
fn of_others(args: &Args, result: &Path) -> anyhow::Result<Vec<Entry>> {
    let mut all = super::compare::one_state(result)?;
    if let Some(arm) = &args.arm {
        let names: Vec<String> = all.iter().map(|s| s.name.clone()).collect();
        all.retain(|s| s.name == *arm);
        if all.is_empty() {
            bail!("{}: no benchmark is called {arm}; it has {}", result.display(), names.join(", "));
        }
    }
    if args.name.is_some() && all.len() > 1 {
        bail!("--name: {} has {} benchmarks; --arm takes one", result.display(), all.len());
    }
    let positive = |s: &Series| s.values.iter().any(|v| v.is_finite() && *v > 0.0);
    if all.iter().any(positive) {
        // Ratios of nothing are none: a report's figures that are 0 have no history.
        all.retain(positive);
    }
    let revision = revisions::one(Path::new("."), args.commit.as_deref().unwrap_or("HEAD"))?;
    let entry = |s: Series| {
        let higher_is_better = match s.direction {
            Direction::Higher => true,
            Direction::Lower => false,
            Direction::Unknown if args.higher_is_better || args.lower_is_better => args.higher_is_better,
            Direction::Unknown => {
                bail!("{}: which way is better? --lower-is-better or --higher-is-better", s.name)
            }
        };
        let values: Vec<f64> = s.values.into_iter().filter(|v| v.is_finite() && *v > 0.0).collect();
        if values.is_empty() {
            bail!("{}: {} has no value above 0", result.display(), s.name);
        }
        Ok(Entry {
            tussle_history: history::SCHEMA_VERSION,
            commit: revision.hash.clone(),
            subject: revision.subject.clone(),
            name: args.name.clone().unwrap_or(s.name),
            metric: if s.unit.is_empty() { s.format.name().into() } else { s.unit },
            higher_is_better,
            values,
        })
    };
    all.into_iter().map(entry).collect()
}

fn of_bench(args: &Args, result: &Path, results: &Results) -> anyhow::Result<Entry> {
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
