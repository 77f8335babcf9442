//! What was recorded: its tables, its report, advice.

use crate::Error;
use crate::long::long;
use crate::table::Table;
use crate::types::PathOrBytes;
use crate::view::View;
use anyhow::Context;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use tussle_calls::evidence::{self as calls, Options, Wanted};
use tussle_calls::source::Source;
use tussle_contention::analysis::Question;
use tussle_evidence::file::Parts;
use tussle_evidence::{Evidence as Tables, Problem};
use tussle_tables::{evidence as tables, report as rows};

/// What was recorded. It is read when something of it is asked for.
#[pyclass(frozen, module = "tussle")]
pub(crate) struct Evidence {
    name: String,
    from: Arc<From>,
}

pub(crate) struct From {
    source: Whence,
    read: OnceLock<(Arc<Tables>, Vec<Problem>)>,
    parts: OnceLock<Arc<Mutex<Parts>>>,
}

enum Whence {
    Path(PathBuf),
    Bytes(Arc<Vec<u8>>),
}

impl From {
    /// Everything that it holds.
    pub(crate) fn read(&self) -> anyhow::Result<&(Arc<Tables>, Vec<Problem>)> {
        if let Some(read) = self.read.get() {
            return Ok(read);
        }
        let (e, problems) = match &self.source {
            Whence::Path(path) => tussle_host::evidence_file::read(path)?,
            Whence::Bytes(bytes) => tussle_evidence::file::read(bytes)?,
        };
        Ok(self.read.get_or_init(|| (Arc::new(e), problems)))
    }

    /// The file, where other verbs would not look for it by themselves.
    pub(crate) fn file(&self) -> Option<String> {
        match &self.source {
            Whence::Path(path) if path != Path::new(tussle_host::evidence_file::DEFAULT_PATH) => {
                Some(path.display().to_string())
            }
            _ => None,
        }
    }

    /// Everything but the large tables, which are then read a block at a time.
    fn parts(&self) -> anyhow::Result<Arc<Mutex<Parts>>> {
        if let Some(parts) = self.parts.get() {
            return Ok(parts.clone());
        }
        let parts = match &self.source {
            Whence::Path(path) => calls::parts(path)?,
            Whence::Bytes(bytes) => Parts::open(bytes.clone())?,
        };
        Ok(self.parts.get_or_init(|| Arc::new(Mutex::new(parts))).clone())
    }
}

/// What ``tussle record``, ``record-kernel``, ``live`` or ``import`` wrote.
#[pyfunction]
pub(crate) fn evidence(path_or_bytes: PathOrBytes) -> PyResult<Evidence> {
    let name = match &path_or_bytes {
        PathOrBytes::Bytes(_) => "bytes".into(),
        PathOrBytes::Path(path) => path.display().to_string(),
    };
    if let PathOrBytes::Path(path) = &path_or_bytes {
        // Only whether it is there: reading waits.
        path.metadata()
            .map_err(|e| Error::new_err(format!("{name}: {e}: `tussle record -- COMMAND` writes one")))?;
    }
    let source = match path_or_bytes {
        PathOrBytes::Path(path) => Whence::Path(path),
        PathOrBytes::Bytes(bytes) => Whence::Bytes(Arc::new(bytes)),
    };
    Ok(Evidence { name, from: Arc::new(From { source, read: OnceLock::new(), parts: OnceLock::new() }) })
}

impl Evidence {
    pub(crate) fn from(&self) -> Arc<From> {
        self.from.clone()
    }
}

#[pymethods]
impl Evidence {
    /// What is damaged, with table and byte. Reads all of it.
    #[getter]
    fn problems(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let from = self.from();
        long(py, move || Ok(from.read()?.1.iter().map(ToString::to_string).collect()))
    }

    /// Tables that the file has.
    #[getter]
    fn table_names(&self, py: Python<'_>) -> PyResult<Vec<&'static str>> {
        let from = self.from();
        long(py, move || {
            let parts = from.parts()?;
            Ok(tables::tables().filter(|t| t.streamed(parts.clone()).is_some()).map(|t| t.name).collect())
        })
    }

    /// A table of docs/evidence.md. Row numbers are ids, from 0. Raises ``Error`` when the file does not have it.
    ///
    /// Large tables are read a block at a time, as rows are taken; they are never in memory as a whole.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let known =
            tables::table(name).ok_or_else(|| Error::new_err(format!("evidence has no table `{name}`")))?;
        let from = self.from();
        let parts = long(py, move || from.parts())?;
        if known.streamed(parts.clone()).is_none() {
            let text =
                format!("{}: no table `{name}`: unknown, not empty; its source does not write it", self.name);
            return Err(Error::new_err(text));
        }
        Ok(Table::new(known.name, known.fields, Arc::new(move || known.streamed(parts.clone()))))
    }

    /// The report, for a notebook.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let view = report(py, self, Vec::new(), 64, None, None, "observed")?;
        Ok(crate::view::framed(&view.html()))
    }

    fn __repr__(&self) -> String {
        format!("<tussle.Evidence {}>", self.name)
    }
}

fn question(line_bytes: u32, phase: Option<u64>, window: Option<u64>, split: &str) -> PyResult<Question> {
    let even = match split {
        "observed" => false,
        "even" => true,
        other => return Err(Error::new_err(format!("split is `observed` or `even`, not `{other}`"))),
    };
    calls::question(line_bytes, phase, window, even).map_err(crate::long::error)
}

/// One row per fight over lines, the costliest first: fields, class, E, transfers, reads, writes, threads, code.
///
/// ``e`` and ``transfers`` are in the evidence's own unit (column ``unit``); never add rows of different units.
/// ``phase``: what if every object began so many bytes into a line? ``window``: accesses, instead of the recorder's.
#[pyfunction]
#[pyo3(signature = (evidence, *, line_bytes = 64, phase = None, window = None, split = "observed"))]
pub(crate) fn contention(
    py: Python<'_>,
    evidence: &Evidence,
    line_bytes: u32,
    phase: Option<u64>,
    window: Option<u64>,
    split: &str,
) -> PyResult<Table> {
    let question = question(line_bytes, phase, window, split)?;
    let from = evidence.from();
    let found = long(py, move || {
        let rows = rows::line_rows(&from.read()?.0, &question, true);
        rows.context("samples of a PMU alone do not tell who fights; `report` shows the lines")
    })?;
    Ok(Table::of_rows("contention", rows::LINES, found))
}

/// What ``tussle report`` prints. Status 1: a layout helps; 2: nothing was seen that could be judged.
///
/// ``line_bytes`` and ``phase`` are bytes, ``window`` is accesses.
#[pyfunction]
#[pyo3(signature = (evidence, names = Vec::new(), *, line_bytes = 64, phase = None, window = None, split = "observed"))]
pub(crate) fn report(
    py: Python<'_>,
    evidence: &Evidence,
    names: Vec<String>,
    line_bytes: u32,
    phase: Option<u64>,
    window: Option<u64>,
    split: &str,
) -> PyResult<View> {
    let question = question(line_bytes, phase, window, split)?;
    let from = evidence.from();
    let answer = long(py, move || {
        let (e, problems) = from.read()?;
        calls::reported(e, problems, &Options { names, question, file: from.file() })
    })?;
    Ok(View::new(answer))
}

/// Moves of fields of one struct, each with its bill; they must hold in all ``builds``.
///
/// ``moves``: fields moved together at most, 1 to 3. ``frozen``: members that stay. ``line_bytes``: bytes.
#[pyfunction]
#[pyo3(signature = (evidence, name, *, line_bytes = None, moves = 1, frozen = Vec::new(), builds = Vec::new()))]
pub(crate) fn advise(
    py: Python<'_>,
    evidence: &Evidence,
    name: String,
    line_bytes: Option<u64>,
    moves: u8,
    frozen: Vec<String>,
    builds: Vec<PathBuf>,
) -> PyResult<View> {
    let from = evidence.from();
    let answer = long(py, move || {
        let open = builds.iter().map(|b| Source::open(b, None)).collect::<anyhow::Result<Vec<_>>>()?;
        let builds: Vec<&Source> = open.iter().collect();
        calls::advised(&from.read()?.0, &Wanted { name: &name, line: line_bytes, moves, frozen }, &builds)
    })?;
    Ok(View::new(answer))
}
