//! The same sweep on a Ray cluster: each task of Ray is `tussle-fleet sweep PLAN --jobs A..B`. What a task that died
//! had written stays, and its retry goes on from there.

use super::Sums;
use super::plan::Plan;
use crate::args::Args;
use crate::dataset::Dataset;
use crate::query::{python, told};
use anyhow::{Context, bail};
use serde_json::json;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

const SCRIPT: &str = include_str!("../../../engine/sweep_ray.py");

/// Runs the jobs on the cluster at `--master`, or on one that is started here.
///
/// # Errors
/// Ray is not there, or a task failed more often than it is tried.
pub(crate) fn run(
    args: &Args,
    plan: &Plan,
    path: &Path,
    jobs: Range<u64>,
    dataset: &Dataset,
) -> anyhow::Result<ExitCode> {
    let batch = args.count("batch", super::BATCH_MAX)?;
    let (program, plan_path) = (std::env::current_exe()?, path.canonicalize()?);
    let to = dataset.root().canonicalize()?;
    let request = json!({
        "program": told(&program)?, "plan": told(&plan_path)?, "to": told(&to)?,
        "jobs": [jobs.start, jobs.end], "batch": batch, "address": args.text("master"),
        "cpus": args.threads()?, "quiet": args.has("quiet"),
    });
    let out = python(SCRIPT, &request)?;
    let said: serde_json::Value = serde_json::from_slice(&out).context("the answer of Ray")?;
    if let Some(what) = said["error"].as_str() {
        bail!("{what}");
    }
    let sums: Sums = serde_json::from_value(said["sums"].clone()).context("the sums of Ray's parts")?;
    if !args.has("quiet") {
        eprintln!("tussle: {}, without Ray's own", sums.words(jobs.end - jobs.start));
    }
    plan.as_it_began()?;
    let done = super::write::finished(dataset, &plan.key)?;
    let left = super::pending(plan, jobs, &done)?.len();
    if left > 0 {
        bail!("{left} points have no answer; run it again, it goes on from here");
    }
    Ok(ExitCode::from(u8::try_from(said["status"].as_u64().unwrap_or(2)).unwrap_or(2)))
}
