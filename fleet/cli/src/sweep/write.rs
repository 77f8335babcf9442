//! Answers into the dataset, a batch at a time. The file with the answers is written last: without it nothing of a
//! batch counts, with it all of it is there.

use super::plan::Plan;
use super::task::{AnswerRow, Answered, CheckRow, PredictionRow};
use crate::batches::batch;
use crate::dataset::{Dataset, Partition, host_name, key};
use anyhow::Context;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tussle_host::day::today;
use tussle_tables::{Column, Field, fields};

/// Answers of a batch at most, and the longest that an answer waits.
const BATCH_MAX: usize = 2_000;
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Columns of [`AnswerRow`].
pub(crate) const ANSWERS: &[Field] = fields![
    Text => task batch plan; I64 => job; Text => verb parameters tool_version; I64 => status; Text => error document
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
}

impl<'a> Writer<'a> {
    pub(crate) fn new(dataset: &'a Dataset, plan: &Plan, most: Option<usize>) -> Writer<'a> {
        Writer {
            dataset,
            partition: Partition { day: today(), host: host_name(), build: plan.name.clone() },
            most: most.unwrap_or(BATCH_MAX).max(1),
            since: Instant::now(),
            answers: Vec::new(),
            checks: Vec::new(),
            predictions: Vec::new(),
        }
    }

    /// # Errors
    /// The dataset cannot be written.
    pub(crate) fn add(&mut self, answered: Answered) -> anyhow::Result<()> {
        self.answers.push(answered.row);
        self.checks.extend(answered.checks);
        self.predictions.extend(answered.predictions);
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
        self.answers.sort_by_key(|a| a.job);
        let tasks: Vec<&[u8]> = self.answers.iter().map(|a| a.task.as_bytes()).collect();
        let name = key(&tasks);
        self.answers.iter_mut().for_each(|a| a.batch.clone_from(&name));
        self.checks.iter_mut().for_each(|c| c.batch.clone_from(&name));
        self.predictions.iter_mut().for_each(|p| p.batch.clone_from(&name));
        if !self.checks.is_empty() {
            self.append("checks", &name, CHECKS, Column::table(CHECKS, &self.checks)?)?;
        }
        if !self.predictions.is_empty() {
            self.append("predictions", &name, PREDICTIONS, Column::table(PREDICTIONS, &self.predictions)?)?;
        }
        self.append("answers", &name, ANSWERS, Column::table(ANSWERS, &self.answers)?)?;
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

/// Tasks of a plan whose answers are in the dataset.
///
/// # Errors
/// A file of the plan's answers cannot be read: what it holds is not known, so nothing is done.
pub(crate) fn finished(dataset: &Dataset, plan: &str) -> anyhow::Result<HashSet<String>> {
    let mut done = HashSet::new();
    let mut files = Vec::new();
    parquet_files(&dataset.kind("answers"), plan, &mut files)?;
    for path in files {
        read_tasks(&path, &mut done).with_context(|| {
            format!("{}: damaged; move it away, its points are then done again", path.display())
        })?;
    }
    Ok(done)
}

/// Whole files below `folder` in the folders of this build.
fn parquet_files(folder: &Path, build: &str, out: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let other = name.strip_prefix("build=").is_some_and(|b| b != build);
        if path.is_dir() && !other && !name.starts_with('.') {
            parquet_files(&path, build, out)?;
        } else if name.ends_with(".parquet") && !name.starts_with('.') {
            out.push(path);
        }
    }
    Ok(())
}

fn read_tasks(path: &Path, out: &mut HashSet<String>) -> anyhow::Result<()> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), ["task"]);
    for batch in builder.with_projection(mask).build()? {
        let batch = batch?;
        let tasks = batch.column_by_name("task").context("no column `task`")?;
        let tasks = tasks.as_string_opt::<i64>().context("`task` is no text")?;
        out.extend((0..tasks.len()).filter(|&i| tasks.is_valid(i)).map(|i| tasks.value(i).to_string()));
    }
    Ok(())
}
