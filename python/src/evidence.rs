//! What was recorded: its tables, its report, advice.

use crate::Error;
use crate::long::long;
use crate::table::Table;
use crate::types::PathOrBytes;
use crate::view::View;
use anyhow::Context;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tussle_calls::evidence::{self as calls, Wanted};
use tussle_calls::source::Source;
use tussle_contention::analysis::Question;
use tussle_evidence::{Evidence as Tables, Problem};
use tussle_tables::{evidence as tables, report as rows};

/// An evidence file. It is read when something of it is asked for.
#[pyclass(frozen, module = "tussle")]
pub(crate) struct Evidence {
    name: String,
    from: Arc<From>,
}

pub(crate) struct From {
    source: PathOrBytes,
    read: OnceLock<(Arc<Tables>, Vec<Problem>)>,
}

impl From {
    /// Everything that it holds.
    pub(crate) fn read(&self) -> anyhow::Result<&(Arc<Tables>, Vec<Problem>)> {
        if let Some(read) = self.read.get() {
            return Ok(read);
        }
        let (e, problems) = match &self.source {
            PathOrBytes::Path(path) => tussle_host::evidence_file::read(path)?,
            PathOrBytes::Bytes(bytes) => tussle_evidence::file::read(bytes)?,
        };
        Ok(self.read.get_or_init(|| (Arc::new(e), problems)))
    }
}

/// Opens what `record`, `record-kernel`, `live` or `import` wrote.
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
    Ok(Evidence { name, from: Arc::new(From { source: path_or_bytes, read: OnceLock::new() }) })
}

impl Evidence {
    pub(crate) fn from(&self) -> Arc<From> {
        self.from.clone()
    }

    fn tables(&self, py: Python<'_>) -> PyResult<Arc<Tables>> {
        let from = self.from();
        long(py, move || Ok(from.read()?.0.clone()))
    }
}

#[pymethods]
impl Evidence {
    #[getter]
    fn problems(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let from = self.from();
        long(py, move || Ok(from.read()?.1.iter().map(ToString::to_string).collect()))
    }

    #[getter]
    fn table_names(&self, py: Python<'_>) -> PyResult<Vec<&'static str>> {
        let e = self.tables(py)?;
        Ok(tables::tables().filter(|t| t.rows(&e, 0, 0).is_some()).map(|t| t.name).collect())
    }

    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let e = self.tables(py)?;
        let known =
            tables::table(name).ok_or_else(|| Error::new_err(format!("evidence has no table `{name}`")))?;
        if known.rows(&e, 0, 0).is_none() {
            let text =
                format!("{}: no table `{name}`: unknown, not empty; its source does not write it", self.name);
            return Err(Error::new_err(text));
        }
        Ok(Table::new(known.name, known.fields, Arc::new(move || known.batches(e.clone()))))
    }

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

/// One row per fight, by field name.
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

/// What `tussle report` prints.
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
        calls::reported(e, problems, &names, question)
    })?;
    Ok(View::new(answer))
}

/// What `tussle advise` prints.
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
