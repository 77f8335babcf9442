//! What was recorded: its tables, its report, advice.

use crate::Error;
use crate::long::{long, warn};
use crate::number::Whole;
use crate::table::Table;
use crate::types::PathOrBytes;
use crate::view::View;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use tussle_calls::evidence::{self as calls, Options, Wanted};
use tussle_contention::analysis::Question;
use tussle_evidence::file::{Extent, Parts};
use tussle_evidence::{Evidence as Tables, Problem};
use tussle_tables::evidence::{self as tables, Table as Known};
use tussle_tables::report as rows;

/// What was recorded. It is read when something of it is asked for.
#[pyclass(frozen, module = "tussle")]
pub(crate) struct Evidence {
    name: String,
    from: Arc<From>,
}

pub(crate) struct From {
    source: Whence,
    read: Mutex<Option<Arc<Read>>>,
    parts: OnceLock<Arc<Mutex<Parts>>>,
}

/// Everything that an evidence holds, with paths as seen from one folder.
pub(crate) struct Read {
    pub(crate) e: Tables,
    pub(crate) problems: Vec<Problem>,
    here: Option<PathBuf>,
}

enum Whence {
    Path(PathBuf),
    Bytes(Arc<Vec<u8>>),
}

impl From {
    /// Everything that it holds, with paths as the command line shows them.
    pub(crate) fn read(&self) -> anyhow::Result<Arc<Read>> {
        let here = std::env::current_dir().ok();
        let mut known = self.read.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(read) = known.as_ref().filter(|r| r.here == here) {
            return Ok(read.clone());
        }
        let (mut e, problems) = match &self.source {
            Whence::Path(path) => tussle_host::evidence_file::read(path)?,
            Whence::Bytes(bytes) => tussle_evidence::file::read(bytes)?,
        };
        tussle_host::evidence_file::seen_from_here(&mut e);
        let read = Arc::new(Read { e, problems, here });
        *known = Some(read.clone());
        Ok(read)
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
        calls::present(path).map_err(|e| crate::long::error(e.into()))?;
    }
    let source = match path_or_bytes {
        PathOrBytes::Path(path) => Whence::Path(path),
        PathOrBytes::Bytes(bytes) => Whence::Bytes(Arc::new(bytes)),
    };
    Ok(Evidence { name, from: Arc::new(From { source, read: Mutex::new(None), parts: OnceLock::new() }) })
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
        long(py, move || Ok(from.read()?.problems.iter().map(ToString::to_string).collect()))
    }

    /// Tables that the file has and that can be read, at least in part.
    #[getter]
    fn table_names(&self, py: Python<'_>) -> PyResult<Vec<&'static str>> {
        let from = self.from();
        long(py, move || {
            let parts = from.parts()?;
            let known = |t: &&'static Known| extent(t, &parts) != Extent::None && t.streamed(parts.clone()).is_some();
            Ok(tables::tables().filter(known).map(|t| t.name).collect())
        })
    }

    /// A table of docs/evidence.md. Row numbers are ids, from 0. Raises ``Error`` when the file does not have it, or
    /// when nothing of it can be read; a table of which a part is lost is a ``UserWarning``.
    ///
    /// Large tables are read a block at a time, as rows are taken; they are never in memory as a whole.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let known =
            tables::table(name).ok_or_else(|| Error::new_err(format!("evidence has no table `{name}`")))?;
        let from = self.from();
        let (parts, extent, lost) = long(py, move || {
            let parts = from.parts()?;
            let extent = extent(known, &parts);
            let lost = lost(known, &parts);
            Ok((parts, extent, lost))
        })?;
        if extent == Extent::None || known.streamed(parts.clone()).is_none() {
            let text = format!(
                "{}: no table `{name}`: unknown, not empty; its source does not write it, or it is damaged",
                self.name
            );
            return Err(Error::new_err(text));
        }
        if extent == Extent::Part {
            let text = format!("{}: table {name} is damaged: rows are missing; `problems` says where", self.name);
            warn(py, &text)?;
        }
        if let Some(other) = lost {
            let text = format!("{}: rows of {name} refer to rows of {other} that cannot be read: unknown", self.name);
            warn(py, &text)?;
        }
        Ok(Table::new(known.name, known.fields, Arc::new(move || known.streamed(parts.clone()))))
    }

    /// The report, for a notebook.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let view = report(py, self, Vec::new(), Whole::from(64), None, None, "observed", PathBuf::from("."))?;
        Ok(crate::view::framed(&view.html()))
    }

    fn __repr__(&self) -> String {
        format!("<tussle.Evidence {}>", self.name)
    }
}

/// Tables whose rows are of an object and a thread.
const OF_BOTH: [&str; 5] = ["accesses", "touches", "operations", "transfers", "samples"];

/// How much of a table can be read.
fn extent(table: &Known, parts: &Mutex<Parts>) -> Extent {
    let parts = parts.lock().unwrap_or_else(|e| e.into_inner());
    match table.name {
        // What stands for a row that cannot be read is no row.
        "run" if !calls::knows_run(parts.rest()) => Extent::None,
        name => parts.extent(name),
    }
}

/// The table without which these rows say little, where it is lost, at least in part.
fn lost(table: &Known, parts: &Mutex<Parts>) -> Option<&'static str> {
    let parts = parts.lock().unwrap_or_else(|e| e.into_inner());
    let needs: &[&str] = if OF_BOTH.contains(&table.name) { &["objects", "actors"] } else { &[] };
    needs.iter().copied().find(|other| parts.extent(other) != Extent::Whole)
}

/// The command line has lines of 64 and 128 bytes.
fn question(line_bytes: &Whole, phase: &Option<Whole>, window: &Option<Whole>, split: &str) -> PyResult<Question> {
    let line = line_bytes.as_it_is().filter(|n| [64, 128].contains(n));
    let line = line.ok_or_else(|| line_bytes.wrong("--line <BYTES>", "64 or 128"))?;
    let phase = phase.as_ref().map(|p| p.parsed("--phase <BYTES>")).transpose()?;
    let window = window.as_ref().map(|w| w.parsed("--window <ACCESSES>")).transpose()?;
    let even = match split {
        "observed" => false,
        "even" => true,
        other => {
            let text = format!("invalid value '{other}' for '--split <SPLIT>'\n  [possible values: observed, even]");
            return Err(Error::new_err(text));
        }
    };
    calls::question(line as u32, phase, window, even).map_err(crate::long::error)
}

/// One row per fight over lines, the costliest first: fields, class, E, transfers, reads, writes, threads, code.
///
/// ``e`` and ``transfers`` are in the evidence's own unit (column ``unit``); never add rows of different units.
/// ``line_bytes`` (64 or 128) and ``phase`` are bytes. ``phase``: what if every object began so many bytes into a line?
/// ``window``: accesses, instead of the recorder's. What is damaged is a ``UserWarning``.
#[pyfunction]
#[pyo3(
    signature = (evidence, *, line_bytes = Whole::from(64), phase = None, window = None, split = "observed"),
    text_signature = "(evidence, *, line_bytes = 64, phase = None, window = None, split = 'observed')"
)]
pub(crate) fn contention(
    py: Python<'_>,
    evidence: &Evidence,
    line_bytes: Whole,
    phase: Option<Whole>,
    window: Option<Whole>,
    split: &str,
) -> PyResult<Table> {
    let question = question(&line_bytes, &phase, &window, split)?;
    let from = evidence.from();
    let (found, read) = long(py, move || {
        let read = from.read()?;
        let rows = rows::line_rows(&read.e, &read.problems, &question, true).map_err(anyhow::Error::msg)?;
        Ok((rows, read))
    })?;
    damaged(py, &evidence.name, &read)?;
    Ok(Table::of_rows("contention", rows::LINES, found))
}

/// What the command line says on its error stream of a file that is damaged.
fn damaged(py: Python<'_>, name: &str, read: &Read) -> PyResult<()> {
    match read.problems.as_slice() {
        [] => Ok(()),
        [first, ..] => warn(py, &format!("{name}: damaged in {} places: {first}", read.problems.len())),
    }
}

/// What ``tussle report`` prints. Status 1: a layout helps; 2: nothing was seen that could be judged.
///
/// ``line_bytes`` (64 or 128) and ``phase`` are bytes, ``window`` is accesses. ``sources``: the folder whose files are
/// shown beside the places of code, unless they changed since.
#[pyfunction]
#[pyo3(
    signature = (evidence, names = Vec::new(), *, line_bytes = Whole::from(64), phase = None, window = None,
    split = "observed", sources = PathBuf::from(".")),
    text_signature = "(evidence, names = [], *, line_bytes = 64, phase = None, window = None, split = 'observed', \
        sources = '.')"
)]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn report(
    py: Python<'_>,
    evidence: &Evidence,
    names: Vec<String>,
    line_bytes: Whole,
    phase: Option<Whole>,
    window: Option<Whole>,
    split: &str,
    sources: PathBuf,
) -> PyResult<View> {
    let question = question(&line_bytes, &phase, &window, split)?;
    let from = evidence.from();
    let answer = long(py, move || {
        let read = from.read()?;
        calls::reported(&read.e, &read.problems, &Options { names, question, file: from.file() }, &sources)
    })?;
    Ok(View::new(answer))
}

/// Moves of fields of one struct, each with its bill; they must hold in all ``builds``.
///
/// ``moves``: fields moved together at most, 1 to 3. ``frozen``: members that stay. ``line_bytes``: bytes. What ``fix``
/// would refuse by the sources below the current folder is left out. What is damaged is a ``UserWarning``.
#[pyfunction]
#[pyo3(
    signature = (evidence, name, *, line_bytes = None, moves = Whole::from(1), frozen = Vec::new(),
    builds = Vec::new()),
    text_signature = "(evidence, name, *, line_bytes = None, moves = 1, frozen = [], builds = [])"
)]
pub(crate) fn advise(
    py: Python<'_>,
    evidence: &Evidence,
    name: String,
    line_bytes: Option<Whole>,
    moves: Whole,
    frozen: Vec<String>,
    builds: Vec<PathBuf>,
) -> PyResult<View> {
    let from = evidence.from();
    let line = line_bytes.map(|n| n.of_32_bits("--cacheline <BYTES>")).transpose()?.map(u64::from);
    let moves = moves.within("--moves <MOVES>", 1, 3)?;
    let (answer, read) = long(py, move || {
        let read = from.read()?;
        let wanted = Wanted { name: &name, line, moves, frozen };
        Ok((calls::advised(&read.e, &wanted, &builds, true)?, read))
    })?;
    damaged(py, &evidence.name, &read)?;
    Ok(View::new(answer))
}
