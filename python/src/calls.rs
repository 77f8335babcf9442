//! Verbs about several files.

use crate::Error;
use crate::evidence::Evidence;
use crate::long::{long, warn};
use crate::number::Whole;
use crate::table::Table;
use crate::types::Types;
use crate::view::View;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tussle_calls::predict::{self as predictions, Asked};
use tussle_calls::layouts::Paths;
use tussle_calls::source::Source;
use tussle_calls::{Answer, evidence as recorded, layouts};
use tussle_tables::bench as rows;

/// What was opened, or a path to open.
#[derive(FromPyObject)]
pub(crate) enum Build<'py> {
    Open(PyRef<'py, Types>),
    Path(PathBuf),
}

/// Options as the command line shows them.
pub(crate) const LINE: &str = "-c <BYTES>";
pub(crate) const PHASE: &str = "--phase <BYTES>";

/// [`Build`] without Python.
enum Ready {
    Open(Arc<Source>),
    Path(PathBuf),
}

impl Build<'_> {
    fn ready(self) -> Ready {
        match self {
            Build::Open(types) => Ready::Open(types.source.clone()),
            Build::Path(path) => Ready::Path(path),
        }
    }
}

impl Ready {
    fn name(&self) -> String {
        match self {
            Ready::Open(source) => source.name.clone(),
            Ready::Path(path) => path.display().to_string(),
        }
    }

    fn open(self) -> anyhow::Result<Arc<Source>> {
        match self {
            Ready::Open(source) => Ok(source),
            Ready::Path(path) => Ok(Arc::new(Source::open(&path, None)?)),
        }
    }
}

fn open_all(builds: Vec<Ready>) -> anyhow::Result<Vec<Arc<Source>>> {
    builds.into_iter().map(Ready::open).collect()
}

/// What changed between two builds. Status 1: fields of ``hot`` share a line that did not before.
///
/// ``line_bytes`` and ``phase`` are bytes; without ``phase`` all that are possible count.
#[pyfunction]
#[pyo3(
    signature = (old, new, names = Vec::new(), *, hot = Vec::new(), line_bytes = Whole::from(64), phase = None),
    text_signature = "(old, new, names = [], *, hot = [], line_bytes = 64, phase = None)"
)]
pub(crate) fn diff(
    py: Python<'_>,
    old: Build<'_>,
    new: Build<'_>,
    names: Vec<String>,
    hot: Vec<String>,
    line_bytes: Whole,
    phase: Option<Whole>,
) -> PyResult<View> {
    let (old, new) = (old.ready(), new.ready());
    let (line_bytes, phase) = (line_bytes.of_32_bits(LINE)?, phase.map(|p| p.parsed(PHASE)).transpose()?);
    let answer = long(py, move || {
        let options = layouts::diff_options(layouts::line_size(line_bytes)?, phase, hot)?;
        layouts::diffs(&*old.open()?, &*new.open()?, &names, &options)
    })?;
    Ok(View::new(answer))
}

/// Layouts against a rule file. Status 1: a rule is violated; 2: one cannot be checked.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, builds: Vec<Build<'_>>, rules: PathBuf) -> PyResult<View> {
    let builds: Vec<Ready> = builds.into_iter().map(Build::ready).collect();
    let answer = long(py, move || {
        let text =
            std::fs::read_to_string(&rules).map_err(|e| anyhow::anyhow!("{}: {e}", rules.display()))?;
        let set = layouts::rules(&text).map_err(|e| e.context(rules.display().to_string()))?;
        let builds = builds.into_iter().map(|b| (b.name(), b.open())).collect();
        Ok(layouts::check(&set, builds, Paths::FromHere)?.0)
    })?;
    Ok(View::new(answer))
}

/// Where a new field (``"u32 flags"``) fits into a type without moving any other, in every build.
///
/// ``line_bytes``: bytes.
#[pyfunction]
#[pyo3(
    signature = (builds, name, field, *, line_bytes = Whole::from(64)),
    text_signature = "(builds, name, field, *, line_bytes = 64)"
)]
pub(crate) fn place(
    py: Python<'_>,
    builds: Vec<Build<'_>>,
    name: String,
    field: String,
    line_bytes: Whole,
) -> PyResult<View> {
    let line_bytes = line_bytes.of_32_bits(LINE)?;
    let builds = builds.into_iter().map(Build::ready).collect();
    let answer = long(py, move || {
        let open = open_all(builds)?;
        let builds: Vec<&Source> = open.iter().map(|b| &**b).collect();
        layouts::places(&builds, &name, &field, layouts::line_size(line_bytes)?)
    })?;
    Ok(View::new(answer))
}

/// An evidence, or a result of `tussle bench`.
#[derive(FromPyObject)]
pub(crate) enum Compared<'py> {
    Evidence(PyRef<'py, Evidence>),
    Path(PathBuf),
}

/// Two evidences side by side, or the arms of one result of ``tussle bench`` (a path).
///
/// ``margin_percent``: a slowdown up to it is no regression.
#[pyfunction]
#[pyo3(signature = (one, other = None, *, margin_percent = 1.0))]
pub(crate) fn compare(
    py: Python<'_>,
    one: Compared<'_>,
    other: Option<Compared<'_>>,
    margin_percent: f64,
) -> PyResult<View> {
    let answer: Answer = match (one, other) {
        (Compared::Path(path), None) => {
            let results = bench_results(py, path)?;
            long(py, move || recorded::benched(&results, margin_percent))?
        }
        (Compared::Evidence(a), Some(Compared::Evidence(b))) => {
            let (a, b) = (a.from(), b.from());
            let question = recorded::question(64, None, None, false).map_err(crate::long::error)?;
            let options = recorded::Options { names: Vec::new(), question, file: a.file() };
            long(py, move || {
                let (a, b) = (a.read()?, b.read()?);
                recorded::compared((&a.e, &a.problems), (&b.e, &b.problems), &options, Path::new("."))
            })?
        }
        _ => return Err(Error::new_err("give two evidences, or the path of one result of `tussle bench`")),
    };
    Ok(View::new(answer))
}

/// The samples of a result of ``tussle bench``: arm, pair, metric, value, ...
///
/// ``wall_s``, ``user_s``, ``system_s`` and ``foreign_s`` (CPU that others had meanwhile) are seconds.
/// Lines that cannot be read are a ``UserWarning``.
#[pyfunction]
pub(crate) fn bench(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
    let results = bench_results(py, path)?;
    let found = long(py, move || Ok(rows::bench_rows(&results)))?;
    Ok(Table::of_rows("bench", rows::BENCH, found))
}

/// What can be read of a result; lines that cannot are a warning, as a run that was killed leaves half a line.
fn bench_results(py: Python<'_>, path: PathBuf) -> PyResult<recorded::Results> {
    let name = path.display().to_string();
    let (results, problems) = long(py, move || recorded::bench_results(&path))?;
    if let [first, ..] = problems.as_slice() {
        let text = format!("{name}: {} lines could not be read: {first}", problems.len());
        warn(py, &text)?;
    }
    Ok(results)
}

/// A scenario by name, or recorded operations.
#[derive(FromPyObject)]
pub(crate) enum Subject<'py> {
    Evidence(PyRef<'py, Evidence>),
    Scenario(String),
}

/// What a layout or a lock costs on a machine that you do not own: a scenario by name, or recorded operations.
///
/// ``cpus``: the last is the answer, all make the curve. ``draws``: until it is decided by default. Effects are
/// relative changes of operations per second: 0.1 is 10% more.
#[pyfunction]
#[pyo3(
    signature = (subject, *, machine = None, cpus = Vec::new(), before = None, after = None, set = BTreeMap::new(),
    draws = None, seed = Whole::from(1)),
    text_signature = "(subject, *, machine = None, cpus = [], before = None, after = None, set = {}, draws = None, \
        seed = 1)"
)]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn predict(
    py: Python<'_>,
    subject: Subject<'_>,
    machine: Option<String>,
    cpus: Vec<Whole>,
    before: Option<String>,
    after: Option<String>,
    set: BTreeMap<String, f64>,
    draws: Option<Whole>,
    seed: Whole,
) -> PyResult<View> {
    let cpus = cpus.iter().map(|n| n.of_32_bits("--cpus <N,..>"));
    let cpus = cpus.collect::<PyResult<Vec<u32>>>()?;
    let draws = draws.map(|n| n.of_32_bits("--draws <N>")).transpose()?;
    let seed = seed.parsed("--seed <N>")?;
    let asked = Asked { machine, cpus, before, after, set: set.into_iter().collect(), draws, seed };
    let threads = tussle_host::threads::cpus();
    let answer = match subject {
        Subject::Scenario(name) => {
            long(py, move || Ok(predictions::answer(&predictions::scenario(&name, &asked, threads)?)))
        }
        Subject::Evidence(e) => {
            let from = e.from();
            long(py, move || {
                Ok(predictions::answer(&predictions::recorded(&from.read()?.e, &asked, threads)?))
            })
        }
    }?;
    Ok(View::new(answer))
}
