//! `tussle export --parquet`: evidence, results of `tussle bench` and what verbs print as JSON, into a dataset.

use crate::args::Args;
use crate::batches::{batch, keyed};
use crate::dataset::{Dataset, Partition, SCHEMA, host_of, key, mode_of};
use crate::results;
use anyhow::{Context, bail};
use serde::Serialize;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tussle_calls::evidence::{bench_results, knows_run, question};
use tussle_evidence::{Evidence, Problem, file};
use tussle_host::day::day_of;
use tussle_tables::bench::{BENCH, bench_rows};
use tussle_tables::evidence::{Table, tables};
use tussle_tables::report::{LINES, line_rows};
use tussle_tables::{Column, Field, fields};

/// The row of a run.
#[derive(Debug, Default, Serialize)]
struct RunRow {
    run: String,
    schema: i64,
    tool_version: Option<String>,
    source: Option<String>,
    unit: Option<String>,
    command: Option<String>,
    exe: Option<String>,
    started_unix_s: Option<f64>,
    duration_s: Option<f64>,
    arch: Option<String>,
    cpu_model: Option<String>,
    cpus: Option<i64>,
    line_bytes: Option<i64>,
    kernel: Option<String>,
    complete: Option<bool>,
    accesses: Option<i64>,
    losses: Option<i64>,
    problems: Option<i64>,
    lines_known: Option<bool>,
}

const RUN: &[Field] = fields![
    Text => run; I64 => schema; Text => tool_version source unit command exe; F64 => started_unix_s duration_s;
    Text => arch cpu_model; I64 => cpus line_bytes; Text => kernel; Bool => complete; I64 => accesses losses problems;
    Bool => lines_known
];

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.only(&["export"])?;
    let to = args.path("to").context("--to FOLDER: where is the dataset?")?;
    let dataset = Dataset::open_or_create(to)?;
    let default = [PathBuf::from(tussle_host::evidence_file::DEFAULT_PATH)];
    let sources = if args.words.is_empty() { &default[..] } else { &args.words };
    let mut status = ExitCode::SUCCESS;
    for path in sources {
        match one(args, &dataset, path).with_context(|| path.display().to_string()) {
            Ok(done) if args.has("quiet") => drop(done),
            Ok(done) => eprintln!("tussle: {}: {done}", path.display()),
            // The others are exported all the same.
            Err(e) => {
                eprintln!("tussle: {}", tussle_calls::in_full(&e));
                status = ExitCode::from(2);
            }
        }
    }
    Ok(status)
}

fn one(args: &Args, dataset: &Dataset, path: &Path) -> anyhow::Result<String> {
    // Read, not mapped: a file that somebody shortens meanwhile would end this process.
    let bytes = tussle_host::whole::read(path)?;
    if bytes.starts_with(b"{\"tussle_bench\"") {
        return bench(args, dataset, path, &bytes);
    }
    match results::document(&bytes) {
        Some(read) => results::export(args, dataset, path, &bytes, &read),
        None => evidence(args, dataset, path, bytes),
    }
}

/// Tables first, the row of the run last: without it nothing of the run counts.
fn evidence(args: &Args, dataset: &Dataset, path: &Path, bytes: Vec<u8>) -> anyhow::Result<String> {
    let key = key(&[b"evidence", &bytes]);
    let (mut e, problems) = file::read(&bytes)?;
    // Judging who fights takes memory of its own.
    drop(bytes);
    if args.has("redact") {
        tussle_evidence::redact(&mut e);
    }
    let p = partition(args, &e, path);
    own_build(args, &p, path);
    let raw_tables = || tables().filter(|t| t.name != "run" && !args.has("no-raw"));
    // Raw tables may follow an export that left them out, and that may have been cut off.
    let there = |t: &Table| !has_rows(t, &e) || dataset.file(t.name, &p, &key).exists();
    if dataset.file("runs", &p, &key).exists() && raw_tables().all(there) {
        return Ok("already there".into());
    }
    let found = match knows_run(&e) {
        true => line_rows(&e, &problems, &question(e.run.line_bytes, None, None, false)?, false),
        false => Err("what ran is unknown, and so what was counted".into()),
    };
    // Of a damaged file some lines are there; what others it had is unknown.
    let known = Some(found.is_ok()).filter(|known| problems.is_empty() || !known);
    let row = RunRow { lines_known: known, ..run_row(args, &e, &key, &problems) };
    let version = Some(e.run.tool_version.as_str()).filter(|v| !v.is_empty());
    let keys = [("run", Some(key.as_str())), ("tool_version", version)];
    let column = Column::table(LINES, &found.unwrap_or_default())?;
    let lines =
        dataset.append("lines", &p, &key, std::iter::once(keyed(&batch(LINES, column)?, &keys, None)))?;
    let mut rows = 0;
    let e = Arc::new(e);
    for table in raw_tables() {
        rows += raw(dataset, &p, &key, table, &e)?;
    }
    let column = Column::table(RUN, &[row])?;
    dataset.append("runs", &p, &key, std::iter::once(batch(RUN, column)))?;
    Ok(format!("{lines} fights, {rows} raw rows{}", damaged(&problems)))
}

/// What is said of a file that cannot be read as a whole.
fn damaged(problems: &[impl Display]) -> String {
    match problems {
        [] => String::new(),
        [first, ..] => format!("; damaged in {} places: {first}", problems.len()),
    }
}

fn has_rows(table: &Table, e: &Evidence) -> bool {
    table.rows(e, 0, 1).is_some_and(|rows| !rows.is_ok_and(|r| r.is_empty()))
}

/// One table, in batches; an absent one is no file.
fn raw(
    dataset: &Dataset,
    p: &Partition,
    key: &str,
    table: &'static Table,
    e: &Arc<Evidence>,
) -> anyhow::Result<u64> {
    let Some(mut next) = table.batches(e.clone()) else { return Ok(0) };
    let mut row = 0;
    let mut one = move || -> anyhow::Result<Option<_>> {
        let Some(column) = next().map_err(anyhow::Error::msg)? else { return Ok(None) };
        let made = keyed(&batch(table.fields, column)?, &[("run", Some(key))], Some(row))?;
        row += made.num_rows() as u64;
        Ok(Some(made))
    };
    let Some(first) = one()? else { return Ok(0) };
    let rest = std::iter::from_fn(|| one().transpose());
    dataset.append(table.name, p, key, std::iter::once(Ok(first)).chain(rest))
}

fn partition(args: &Args, e: &Evidence, path: &Path) -> Partition {
    Partition {
        day: day_of_start(e.run.started_unix_s),
        host: host_of(args),
        build: build_of(e).or_else(|| args.text("build")).unwrap_or_else(|| "unknown".into()),
        mode: mode_of(path),
    }
}

/// `--build` says what the evidence does not: where it says it, its own word counts, and that is said.
fn own_build(args: &Args, p: &Partition, path: &Path) {
    if let Some(named) = args.text("build").filter(|b| *b != p.build && !args.has("quiet")) {
        eprintln!("tussle: {}: of build {}, by its own build-id; --build {named} is not used", path.display(), p.build);
    }
}

/// The day of a start in seconds since 1970; what cannot be one is unknown.
pub(crate) fn day_of_start(started: Option<f64>) -> String {
    started.filter(|s| *s > 0.0 && *s < 1e11).map_or("unknown".into(), |s| day_of(s as u64))
}

/// The build-id of what ran.
fn build_of(e: &Evidence) -> Option<String> {
    let process = e.processes.iter().find_map(|p| p.build_id.clone());
    process.or_else(|| e.modules.iter().find_map(|m| m.build_id.clone()))
}

fn run_row(args: &Args, e: &Evidence, key: &str, problems: &[Problem]) -> RunRow {
    let r = &e.run;
    let known = knows_run(e);
    let text = |t: &str| Some(t.to_string()).filter(|t| !t.is_empty());
    let kept: u64 = e.accesses.iter().map(|a| a.reads.saturating_add(a.writes).saturating_add(a.rmws)).sum();
    // None counted and none there is unknown; none of those that were counted is none.
    let all = r.accesses.or(Some(kept).filter(|n| *n > 0 && problems.is_empty()));
    RunRow {
        run: key.into(),
        schema: SCHEMA.into(),
        tool_version: text(&r.tool_version),
        source: word(&r.source).filter(|_| known),
        unit: word(&r.unit).filter(|_| known),
        command: text(&r.command.join(" ")),
        exe: e.processes.first().map(|p| p.exe.clone()),
        started_unix_s: r.started_unix_s,
        duration_s: r.duration_s,
        arch: text(&r.arch),
        cpu_model: text(&r.cpu_model),
        cpus: Some(r.cpus.into()).filter(|n| *n > 0),
        line_bytes: Some(r.line_bytes.into()).filter(|_| known),
        kernel: args.text("kernel"),
        complete: Some(r.complete).filter(|_| known),
        accesses: all.and_then(|n| i64::try_from(n).ok()),
        losses: Some(e.losses.len() as i64),
        problems: i64::try_from(problems.len()).ok(),
        lines_known: None,
    }
}

/// As the file has it.
fn word(value: &impl Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_string)
}

/// When a file was written last, seconds since 1970.
///
/// # Errors
/// The file is gone.
pub(crate) fn changed(path: &Path) -> anyhow::Result<Option<f64>> {
    let modified = path.metadata()?.modified().ok();
    Ok(modified.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok()).map(|s| s.as_secs_f64()))
}

/// Runs of `tussle bench`, of the day on which the first of them began. Its file does not say which version ran it.
fn bench(args: &Args, dataset: &Dataset, path: &Path, bytes: &[u8]) -> anyhow::Result<String> {
    results::not_redacted(args)?;
    let key = key(&[b"bench", bytes]);
    let (results, problems) = bench_results(path)?;
    let p = Partition {
        day: day_of_start(results.samples.first().map(|s| s.started_s)),
        host: host_of(args),
        build: args.text("build").unwrap_or_else(|| "unknown".into()),
        mode: mode_of(path),
    };
    if dataset.file("bench", &p, &key).exists() {
        return Ok("already there".into());
    }
    let rows = bench_rows(&results);
    if rows.is_empty() {
        bail!("a result without a run");
    }
    let keys = [("run", Some(key.as_str())), ("tool_version", None)];
    let column = Column::table(BENCH, &rows)?;
    let n = dataset.append("bench", &p, &key, std::iter::once(keyed(&batch(BENCH, column)?, &keys, None)))?;
    Ok(format!("{n} runs of a benchmark{}", damaged(&problems)))
}
