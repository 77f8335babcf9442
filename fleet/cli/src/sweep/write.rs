//! Answers into the dataset, a batch at a time. The file with the answers is written last: without it nothing of a
//! batch counts, with it all of it is there.

use super::plan::{Plan, Seen, unchanged};
use super::task::{AnswerRow, Answered, CheckRow, PredictionRow, Shared};
use crate::batches::batch;
use crate::dataset::{Dataset, FOR_ALL, Partition, SCHEMA, SCHEMA_KEY, host_name, key};
use anyhow::Context;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::FileMetaData;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tussle_host::day::today;
use tussle_tables::{Column, Field, fields};

/// Answers of a batch at most, and the longest that an answer waits.
const BATCH_MAX: usize = 2_000;
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Columns of [`AnswerRow`].
pub(crate) const ANSWERS: &[Field] = fields![
    Text => task batch plan plan_name; I64 => job; F64 => answered_unix_s; Text => verb parameters tool_version;
    I64 => status; Text => error document
];
/// Columns of [`CheckRow`].
pub(crate) const CHECKS: &[Field] =
    fields![Text => task batch subject rules tool_version type_name rule status message];
/// Columns of [`PredictionRow`].
pub(crate) const PREDICTIONS: &[Field] = fields![
    Text => task batch subject tool_version machine; I64 => cpus seed draws; Text => before after;
    F64 => low median high; Text => verdict
];

/// Collects answers and writes them.
pub(crate) struct Writer<'a> {
    dataset: &'a Dataset,
    partition: Partition,
    most: usize,
    since: Instant,
    answers: Vec<AnswerRow>,
    checks: Vec<CheckRow>,
    predictions: Vec<PredictionRow>,
    files: Vec<Arc<Seen>>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(dataset: &'a Dataset, plan: &Plan, most: Option<u64>) -> Writer<'a> {
        Writer {
            dataset,
            partition: Partition { day: today(), host: host_name(), build: plan.key.to_string(), mode: FOR_ALL },
            most: most.and_then(|n| usize::try_from(n).ok()).unwrap_or(BATCH_MAX),
            since: Instant::now(),
            answers: Vec::new(),
            checks: Vec::new(),
            predictions: Vec::new(),
            files: Vec::new(),
        }
    }

    /// # Errors
    /// The dataset cannot be written, or a file was changed meanwhile: nothing of the batch is written then.
    pub(crate) fn add(&mut self, answered: Answered) -> anyhow::Result<()> {
        self.answers.push(answered.row);
        self.checks.extend(answered.checks);
        self.predictions.extend(answered.predictions);
        self.files.extend(answered.files);
        match self.answers.len() >= self.most || self.since.elapsed() > WAIT_MAX {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes what is there.
    ///
    /// # Errors
    /// As [`Writer::add`].
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        self.since = Instant::now();
        if self.answers.is_empty() {
            return Ok(());
        }
        // Each file once: most points of a batch share theirs.
        unchanged(std::mem::take(&mut self.files))?;
        self.answers.sort_by_key(|a| a.job);
        // Points may ask the same: a batch is of jobs, too.
        let jobs: Vec<[u8; 8]> = self.answers.iter().map(|a| a.job.to_le_bytes()).collect();
        let parts = self.answers.iter().zip(&jobs).flat_map(|(a, job)| [a.task.as_bytes(), job]);
        let name = Shared(key(&parts.collect::<Vec<&[u8]>>()).into());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|t| t.as_secs_f64());
        for a in &mut self.answers {
            a.batch.clone_from(&name);
            a.answered_unix_s = now;
        }
        self.checks.iter_mut().for_each(|c| c.batch.clone_from(&name));
        self.predictions.iter_mut().for_each(|p| p.batch.clone_from(&name));
        if !self.checks.is_empty() {
            self.append("checks", &name.0, CHECKS, Column::table(CHECKS, &self.checks)?)?;
        }
        if !self.predictions.is_empty() {
            self.append("predictions", &name.0, PREDICTIONS, Column::table(PREDICTIONS, &self.predictions)?)?;
        }
        self.append("answers", &name.0, ANSWERS, Column::table(ANSWERS, &self.answers)?)?;
        self.answers.clear();
        self.checks.clear();
        self.predictions.clear();
        Ok(())
    }

    fn append(&self, kind: &str, name: &str, fields: &'static [Field], column: Column) -> anyhow::Result<()> {
        let rows = std::iter::once(batch(fields, column));
        self.dataset.append(kind, &self.partition, name, rows).map(drop)
    }
}

/// The answer that a job had last: when, and of which task.
pub(crate) type Last = (f64, String);

/// Jobs of a plan whose answers are in the dataset. A job whose files changed and were changed back has older answers
/// of the same task, which do not count: the newest one says how it is.
///
/// # Errors
/// A file of the plan's answers cannot be read: what it holds is not known, so nothing is done.
pub(crate) fn finished(dataset: &Dataset, plan: &str) -> anyhow::Result<HashMap<u64, Last>> {
    let mut last = HashMap::<u64, Last>::new();
    let mut files = Vec::new();
    parquet_files(&dataset.kind("answers"), plan, &mut files)?;
    for path in files {
        let mut one = |task: &str, job: Option<i64>, at: Option<f64>| {
            let Some(job) = job.and_then(|j| u64::try_from(j).ok()) else { return };
            let at = at.unwrap_or(0.0);
            if last.get(&job).is_none_or(|l| l.0 <= at) {
                last.insert(job, (at, task.into()));
            }
        };
        read_answers(&path, &mut one).map_err(|e| match e.is::<OtherSchema>() {
            true => e.context(path.display().to_string()),
            false => e.context(format!("{}: damaged; move it away, its points are then done again", path.display())),
        })?;
    }
    Ok(last)
}

/// Whole files below `folder` in the folders of this build.
fn parquet_files(folder: &Path, build: &str, out: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Once the plan's name came before its hash.
        let other = name.strip_prefix("build=").is_some_and(|b| b.rsplit('-').next() != Some(build));
        if path.is_dir() && !other && !name.starts_with('.') {
            parquet_files(&path, build, out)?;
        } else if name.ends_with(".parquet") && !name.starts_with('.') {
            out.push(path);
        }
    }
    Ok(())
}

/// A file of another schema than this version's.
#[derive(Debug)]
struct OtherSchema(String);

impl std::fmt::Display for OtherSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let said = &self.0;
        write!(f, "of schema {said}; this tussle-fleet reads schema {SCHEMA}: update it, or name another folder")
    }
}

impl std::error::Error for OtherSchema {}

/// The schema that a file says it has: every file of ours says one.
fn same_schema(file: &FileMetaData) -> Result<(), OtherSchema> {
    let said = file.key_value_metadata().into_iter().flatten().find(|kv| kv.key == SCHEMA_KEY);
    match said.and_then(|kv| kv.value.as_deref()) {
        Some(schema) if schema == SCHEMA.to_string() => Ok(()),
        said => Err(OtherSchema(said.unwrap_or("unknown").into())),
    }
}

/// Task, job and time of every answer in a file.
///
/// # Errors
/// It cannot be read, is of another schema, or is none of ours.
pub(crate) fn read_answers(
    path: &Path,
    one: &mut dyn FnMut(&str, Option<i64>, Option<f64>),
) -> anyhow::Result<()> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    same_schema(builder.metadata().file_metadata())?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), ["task", "job", "answered_unix_s"]);
    for batch in builder.with_projection(mask).build()? {
        let batch = batch?;
        let tasks = batch.column_by_name("task").context("no column `task`")?;
        let tasks = tasks.as_string_opt::<i64>().context("`task` is no text")?;
        let jobs = batch.column_by_name("job").context("no column `job`")?;
        let jobs = jobs.as_primitive_opt::<Int64Type>().context("`job` is no whole number")?;
        // Older ones lack it.
        let times = batch.column_by_name("answered_unix_s").and_then(|t| t.as_primitive_opt::<Float64Type>());
        for i in (0..tasks.len()).filter(|&i| tasks.is_valid(i)) {
            let time = times.filter(|t| t.is_valid(i)).map(|t| t.value(i));
            one(tasks.value(i), jobs.is_valid(i).then(|| jobs.value(i)), time);
        }
    }
    Ok(())
}
