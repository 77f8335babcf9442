//! `tussle export --parquet` of what other verbs printed with `--format json`: `check`, `predict` and `layout` become
//! rows, the document of any verb is kept as it is. A document says neither when it was made nor by which version.

use crate::args::Args;
use crate::batches::batch;
use crate::dataset::{Dataset, Partition, host_name, key};
use crate::export::day_of_file;
use crate::sweep::{ANSWERS, AnswerRow, CHECKS, CheckRow, PREDICTIONS, PredictionRow};
use serde::Serialize;
use serde_json::{Value, json};
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
    anyhow::ensure!(!args.has("redact"), "--redact: a result cannot be redacted; redact the evidence it is of");
    let task = key(&[b"result", bytes]);
    let p = Partition {
        day: day_of_file(path)?,
        host: args.text("host").unwrap_or_else(host_name),
        build: args.text("build").unwrap_or_else(|| "unknown".into()),
    };
    let subject = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let about = About { task: &task, subject: &subject, read };
    let kind = read["kind"].as_str().unwrap_or_default();
    let mut rows = 0;
    let put = |kind: &str, fields: &'static [Field], column: Column| {
        dataset.append(kind, &p, &task, std::iter::once(batch(fields, column)))
    };
    let (checks, predictions, layouts) = (about.checks(), about.predictions(), about.layouts());
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
        batch: task.clone(),
        plan: PLAN.into(),
        job: 0,
        verb: kind.into(),
        parameters: json!({ "file": subject }).to_string(),
        tool_version: None,
        status: about.status(),
        error: None,
        document: Some(String::from_utf8_lossy(bytes).into_owned()),
    };
    put("answers", ANSWERS, Column::table(ANSWERS, &[answer])?)?;
    Ok(format!("a result of {kind}, {rows} rows"))
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

    /// One row per rule and build; the words are those of sweeps.
    fn checks(&self) -> Vec<CheckRow> {
        let words = |status: &str| match status {
            "pass" => "holds",
            "fail" => "violated",
            "excluded" => "not applicable",
            "error" => "error",
            _ => "unknown",
        };
        let matrix = self.read["matrix"].as_array().filter(|_| self.is("check"));
        let mut rows = Vec::new();
        for line in matrix.into_iter().flatten().filter_map(Value::as_object) {
            let rule = line.get("rule").and_then(Value::as_str).unwrap_or_default();
            for (build, status) in line.iter().filter(|(k, _)| *k != "rule") {
                rows.push(CheckRow {
                    task: self.task.into(),
                    batch: self.task.into(),
                    subject: build.clone(),
                    rules: self.subject.into(),
                    tool_version: None,
                    type_name: None,
                    rule: rule.into(),
                    status: words(status.as_str().unwrap_or_default()),
                    message: None,
                });
            }
        }
        rows
    }

    fn predictions(&self) -> Vec<PredictionRow> {
        let text = |name: &str| self.read[name].as_str().unwrap_or_default().to_string();
        let effect = |name: &str| self.read["effect"][name].as_f64();
        let row = PredictionRow {
            task: self.task.into(),
            batch: self.task.into(),
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
