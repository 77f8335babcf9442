//! `tussle export --parquet` of what other verbs printed with `--format json`: `check`, `predict` and `layout` become
//! rows, the document of any verb is kept as it is. A document says neither when it was made nor by which version.

use crate::args::Args;
use crate::batches::batch;
use crate::dataset::{Dataset, Partition, as_text, host_of, key, mode_of};
use crate::export::{changed, day_of_start};
use crate::sweep::{ANSWERS, AnswerRow, CHECKS, CheckRow, PREDICTIONS, PredictionRow, Shared, is_unjudged, read_answers};
use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tussle_tables::{Column, Field, fields};

/// What stands for the plan of a sweep.
const PLAN: &str = "exported";

/// One field of a printed layout.
#[derive(Debug, Serialize)]
struct LayoutRow {
    task: String,
    batch: String,
    subject: String,
    type_name: Option<String>,
    type_bytes: Option<u64>,
    align_bytes: Option<u64>,
    path: Option<String>,
    offset_bytes: Option<u64>,
    size_bytes: Option<u64>,
    field_type: Option<String>,
    bits: Option<u64>,
}

const LAYOUTS: &[Field] = fields![
    Text => task batch subject type_name; U64 => type_bytes align_bytes; Text => path;
    U64 => offset_bytes size_bytes; Text => field_type; U64 => bits
];

/// The document, if these bytes are one of a verb.
pub(crate) fn document(bytes: &[u8]) -> Option<Value> {
    let read: Value = serde_json::from_slice(bytes).ok()?;
    (read["kind"].is_string() && read["schema_version"].is_u64()).then_some(read)
}

/// Writes it; `answers` last, without which nothing of it counts.
///
/// # Errors
/// The dataset cannot be written.
pub(crate) fn export(
    args: &Args,
    dataset: &Dataset,
    path: &Path,
    bytes: &[u8],
    read: &Value,
) -> anyhow::Result<String> {
    not_redacted(args)?;
    let task = key(&[b"result", bytes]);
    let changed = changed(path)?;
    let p = Partition {
        day: day_of_start(changed),
        host: host_of(args),
        build: args.text("build").unwrap_or_else(|| "unknown".into()),
        mode: mode_of(path),
    };
    let there = dataset.file("answers", &p, &task);
    // What was printed again later, in the same words, is seen again.
    if there.exists() && told(&there)?.is_some_and(|t| changed.is_none_or(|c| c <= t)) {
        return Ok("already there".into());
    }
    let subject = as_text(path.file_name().unwrap_or_default().as_bytes());
    let about = About { task: &task, subject: &subject, read };
    let kind = read["kind"].as_str().unwrap_or_default();
    let mut rows = 0;
    let put = |kind: &str, fields: &'static [Field], column: Column| {
        dataset.append(kind, &p, &task, std::iter::once(batch(fields, column)))
    };
    let (checks, predictions, layouts) = (about.checks()?, about.predictions(), about.layouts());
    if !checks.is_empty() {
        rows += put("checks", CHECKS, Column::table(CHECKS, &checks)?)?;
    }
    if !predictions.is_empty() {
        rows += put("predictions", PREDICTIONS, Column::table(PREDICTIONS, &predictions)?)?;
    }
    if !layouts.is_empty() {
        rows += put("layouts", LAYOUTS, Column::table(LAYOUTS, &layouts)?)?;
    }
    let answer = AnswerRow {
        task: task.clone(),
        batch: Shared(task.as_str().into()),
        plan: Shared(PLAN.into()),
        plan_name: Shared(PLAN.into()),
        job: 0,
        answered_unix_s: changed,
        verb: Shared(kind.into()),
        parameters: json!({ "file": subject }).to_string(),
        tool_version: None,
        status: about.status(),
        error: about.unjudged(&checks),
        document: Some(String::from_utf8_lossy(bytes).into_owned()),
    };
    put("answers", ANSWERS, Column::table(ANSWERS, &[answer])?)?;
    Ok(format!("a result of {kind}, {rows} rows"))
}

/// # Errors
/// `--redact` was given, which only evidence can be.
pub(crate) fn not_redacted(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(!args.has("redact"), "--redact: a result cannot be redacted; redact the evidence it is of");
    Ok(())
}

/// When the document in a file of answers was printed.
fn told(path: &Path) -> anyhow::Result<Option<f64>> {
    let mut when = None;
    read_answers(path, &mut |_, _, at| when = at).with_context(|| path.display().to_string())?;
    Ok(when)
}

struct About<'a> {
    task: &'a str,
    subject: &'a str,
    read: &'a Value,
}

impl About<'_> {
    fn is(&self, kind: &str) -> bool {
        self.read["kind"] == kind
    }

    /// As the command line exited, where the document tells: what is violated may be known, waived or a warning, which
    /// is no failure.
    fn status(&self) -> Option<i64> {
        if !self.is("check") {
            return None;
        }
        let fatal = self.read["findings"].as_array()?.iter().any(|f| f["level"] == "error");
        let errors = self.read["errors"].as_u64()?;
        Some(if errors > 0 { 2 } else { i64::from(fatal) })
    }

    /// The first of what could not be judged, where that is how it ended.
    fn unjudged(&self, checks: &[CheckRow]) -> Option<String> {
        let first = checks.iter().find(|c| is_unjudged(&c.status)).filter(|_| self.status() == Some(2));
        first.and_then(|c| c.message.clone())
    }

    /// One row per rule and build, as those of sweeps.
    fn checks(&self) -> anyhow::Result<Vec<CheckRow>> {
        if !self.is("check") {
            return Ok(Vec::new());
        }
        let outcomes = self.read["outcomes"].as_array();
        let outcomes = outcomes.context("a check of an older tussle, without `outcomes`: check again")?;
        let text = |of: &Value, name: &str| of[name].as_str().map(str::to_string);
        let row = |o: &Value| CheckRow {
            task: self.task.into(),
            batch: Shared(self.task.into()),
            subject: text(o, "build").unwrap_or_default(),
            rules: self.subject.into(),
            tool_version: None,
            type_name: text(o, "type"),
            rule: text(o, "rule").unwrap_or_default(),
            status: text(o, "status").unwrap_or_default().into(),
            message: text(o, "message"),
        };
        Ok(outcomes.iter().map(row).collect())
    }

    fn predictions(&self) -> Vec<PredictionRow> {
        let text = |name: &str| self.read[name].as_str().unwrap_or_default().to_string();
        let effect = |name: &str| self.read["effect"][name].as_f64();
        let row = PredictionRow {
            task: self.task.into(),
            batch: Shared(self.task.into()),
            subject: text("scenario"),
            tool_version: None,
            machine: text("machine"),
            cpus: self.read["cpus"].as_i64(),
            seed: None,
            draws: self.read["draws"].as_i64(),
            before: text("before"),
            after: text("after"),
            low: effect("low"),
            median: effect("median"),
            high: effect("high"),
            verdict: text("verdict"),
        };
        if self.is("predict") { vec![row] } else { Vec::new() }
    }

    fn layouts(&self) -> Vec<LayoutRow> {
        let types = self.read["types"].as_array().filter(|_| self.is("layout"));
        let mut rows = Vec::new();
        for ty in types.into_iter().flatten() {
            for field in ty["fields"].as_array().into_iter().flatten() {
                let text = |of: &Value, name: &str| of[name].as_str().map(str::to_string);
                rows.push(LayoutRow {
                    task: self.task.into(),
                    batch: self.task.into(),
                    subject: self.subject.into(),
                    type_name: text(ty, "name"),
                    type_bytes: ty["size_bytes"].as_u64(),
                    align_bytes: ty["align_bytes"].as_u64(),
                    path: text(field, "path"),
                    offset_bytes: field["offset_bytes"].as_u64(),
                    size_bytes: field["size_bytes"].as_u64(),
                    field_type: text(field, "type"),
                    bits: field["bits"].as_u64(),
                });
            }
        }
        rows
    }
}
