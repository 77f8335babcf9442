//! Verbs about what was recorded or measured: `report`, `advise`, `compare`.

use crate::source::{Source, Types};
use crate::Answer;
use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tussle_advise::Edit;
use tussle_advise::advice::Options as AdviseOptions;
use tussle_advise::builds::Build;
use tussle_bench::verdict::{Criterion, Outcome};
pub use tussle_bench::sample::Results;
pub use tussle_report::Options;
use tussle_bench::{family, sample, view};
use tussle_contention::analysis::{Bases, Question, Split};
use tussle_evidence::file::{OpenError, Parts};
use tussle_evidence::{ActorKind, Evidence, Problem};
use tussle_host::evidence_file;
use tussle_host::fix::{Foresight, is_ordered};
use tussle_host::project::Stamp;
use tussle_host::source_text::SourceText;
use tussle_host::whole;
use tussle_model::{LineSize, SourceLoc};
use tussle_render::{Node, View};
use tussle_report as report;

/// A file whose large tables are read a block at a time. It is read, not mapped: who shortens it does not end this
/// process.
///
/// # Errors
/// It cannot be read, or is no evidence: with the words of [`evidence_file::read`].
pub fn parts(path: &Path) -> anyhow::Result<Parts> {
    let format = |source| evidence_file::Error::Format { path: path.into(), source };
    if !whole::check(path).map_err(|e| unread(path, e))?.is_file() {
        let bytes = whole::read(path).map_err(|e| unread(path, e))?;
        return Ok(Parts::open(Arc::new(bytes)).map_err(format)?);
    }
    let file = File::open(path).map_err(|e| unread(path, e))?;
    let begun = file.metadata().map_err(|e| unread(path, e))?;
    let (stamp, name) = (Stamp::of(&begun), path.display().to_string());
    let read = move |at: u64, n: usize| {
        let mut bytes = vec![0; n];
        let whole = file.read_exact_at(&mut bytes, at);
        // Other contents than those whose places are known would be other rows.
        match Stamp::of(&file.metadata()?) == stamp {
            true => whole.map(|()| bytes),
            false => Err(std::io::Error::other(format!("{name}: changed since it was opened"))),
        }
    };
    match Parts::open_at(begun.len(), Box::new(read)) {
        Ok(parts) => Ok(parts),
        Err(OpenError::Format(source)) => Err(format(source).into()),
        Err(OpenError::Io(e)) => Err(unread(path, e).into()),
        Err(e) => Err(e.into()),
    }
}

/// The row of the run could be read. Where it could not, a reader puts empty words and zeros in its place.
pub fn knows_run(e: &Evidence) -> bool {
    !(e.run.tool_version.is_empty() && e.run.arch.is_empty() && e.run.cpus == 0)
}

/// The file is there; with the words of [`evidence_file::read`] where it is not.
///
/// # Errors
/// As said.
pub fn present(path: &Path) -> Result<(), evidence_file::Error> {
    path.metadata().map(drop).map_err(|e| unread(path, e))
}

fn unread(path: &Path, source: std::io::Error) -> evidence_file::Error {
    match source.kind() {
        std::io::ErrorKind::NotFound => evidence_file::Error::Absent(path.into()),
        _ => evidence_file::Error::Io { path: path.into(), what: "read", source },
    }
}

/// The question that a report answers. `phase`: what if every object began so many bytes into a line.
///
/// # Errors
/// An impossible line size or phase.
pub fn question(
    line: u32,
    phase: Option<u64>,
    window_vt: Option<u64>,
    even: bool,
) -> anyhow::Result<Question> {
    let line = crate::layouts::line_size(line)?;
    let bases = match phase {
        None => Bases::Observed,
        Some(p) if p < line.bytes() => Bases::Phase(p),
        Some(p) => return Err(crate::layouts::outside(p, line)),
    };
    let split = if even { Split::Even } else { Split::Observed };
    Ok(Question { line, bases, window_vt, split })
}

/// The report of an evidence, with lines of the sources below a folder. Status 1: a layout helps; 2: nothing was seen
/// that could be judged.
///
/// # Errors
/// Nothing recorded has one of the names, or there is no such folder.
pub fn reported(
    e: &Evidence,
    problems: &[Problem],
    options: &report::Options,
    sources: &Path,
) -> anyhow::Result<Answer> {
    for name in &options.names {
        if !report::is_known(e, name) {
            let known = report::known_names(e, 12).join(", ");
            bail!("nothing recorded has the name or type `{name}`; there is: {known}");
        }
    }
    with_lines(report::report(e, problems, options), e, sources)
}

/// Two evidences side by side, each with what could not be read of it.
///
/// # Errors
/// There is no such folder.
pub fn compared(
    (old, old_damage): (&Evidence, &[Problem]),
    (new, new_damage): (&Evidence, &[Problem]),
    options: &report::Options,
    sources: &Path,
) -> anyhow::Result<Answer> {
    with_lines(report::compare(old, new, [old_damage, new_damage], options), old, sources)
}

fn with_lines(mut found: report::Report, e: &Evidence, sources: &Path) -> anyhow::Result<Answer> {
    let text = SourceText::below(sources, e.run.started_unix_s);
    let mut text = text.with_context(|| format!("--sources {}", sources.display()))?;
    let here = std::env::current_dir().unwrap_or_default();
    report::excerpt::attach(&mut found.view, &mut |file, line| text.seen_from(&here, file, line));
    Ok(Answer::new(found.view, found.outcome.status(false)))
}

/// What advice is asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted<'a> {
    /// The struct to change.
    pub name: &'a str,
    /// Line size in bytes; that of the recorded machine by default.
    pub line: Option<u64>,
    /// Moves per proposal at most, 1 to 3.
    pub moves: u8,
    /// Members whose offset must stay.
    pub frozen: Vec<String>,
}

/// Moves of fields, each with its bill; they must hold in all `builds`. `here`: what `fix` would refuse by the sources
/// below the current folder is left out, as the command line does.
///
/// # Errors
/// The evidence has no such struct, or a build has none.
pub fn advised(e: &Evidence, wanted: &Wanted<'_>, builds: &[PathBuf], here: bool) -> anyhow::Result<Answer> {
    if !(1..=3).contains(&wanted.moves) {
        bail!("invalid value '{}' for '--moves <MOVES>': {0} is not in 1..=3", wanted.moves);
    }
    let (name, line, moves) = (wanted.name, wanted.line, wanted.moves.into());
    let actors = e.actors.iter().any(|a| a.kind != ActorKind::Unknown);
    if e.samples.is_some() && !(e.run.sees.writes && actors) {
        let signs = tussle_advise::signs::signs(e, name, line.unwrap_or(e.run.line_bytes.into()))?;
        return Ok(Answer::clean(report::signs::view(&signs)));
    }
    let types = builds.iter().map(|b| build(b, name)).collect::<anyhow::Result<Vec<_>>>()?;
    let builds = types.iter().map(|(file, t)| Build { name: file, table: &t.table }).collect();
    let foresight = Foresight::here(&e.types, name).filter(|_| here);
    let refuses = |edits: &[Edit]| foresight.as_ref().and_then(|f| f.refuses(edits));
    let ordered = |name: &str, decl: Option<&SourceLoc>| here && is_ordered(Path::new("."), name, decl);
    let frozen = wanted.frozen.clone();
    let options = AdviseOptions { line, moves, frozen, builds, refuses: Some(&refuses), ordered: Some(&ordered) };
    let found = tussle_advise::advise(e, name, &options)?;
    let bytes = line.and_then(|l| u32::try_from(l).ok()).unwrap_or(e.run.line_bytes);
    let line = LineSize::new(bytes).unwrap_or(LineSize::L64);
    Ok(Answer::clean(report::advice::drawn(e, &found, line)))
}

/// The struct in another build, and what that is called.
fn build(path: &Path, name: &str) -> anyhow::Result<(String, Arc<Types>)> {
    let source = Source::open(path, None)?;
    let types = source.types(&[name.to_string()])?;
    ensure!(types.table.find(name).is_some(), "{}: no struct {name} in it", source.name);
    Ok((source.name, types))
}

/// Results of `tussle bench`, with what could not be read.
///
/// # Errors
/// The file cannot be read, or is no result.
pub fn bench_results(path: &Path) -> anyhow::Result<(sample::Results, Vec<String>)> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (results, problems) =
        sample::parse(&String::from_utf8_lossy(&bytes)).with_context(|| path.display().to_string())?;
    Ok((results, problems.iter().map(ToString::to_string).collect()))
}

/// Every arm of a result against the first. Status 1: one regressed by more than the margin.
///
/// # Errors
/// Fewer than two arms or pairs.
pub fn benched(results: &sample::Results, margin_percent: f64) -> anyhow::Result<Answer> {
    if !(0.0..100.0).contains(&margin_percent) {
        bail!("--margin is a percentage from 0 to 100, not {margin_percent}");
    }
    let question = Criterion { margin: margin_percent / 100.0, ..Criterion::default() };
    let all = family::judge(results, question)?;
    let regressed = all.iter().any(|j| j.verdict.outcome == Outcome::Regressed);
    let several = all.len() > 1;
    let section = |j: &family::Judged| {
        let name = &j.paired.names[1];
        let title = if several { name.clone() } else { String::new() };
        Node::Section { key: name.clone(), title, nodes: view::nodes(&j.paired, &j.verdict, question) }
    };
    let list = Node::List { key: "comparisons".into(), items: all.iter().map(section).collect() };
    let nodes = view::overview(&all).into_iter().chain([list]).collect();
    let picture = Some(Node::Plot(view::samples_plot(results)));
    Ok(Answer { picture, ..Answer::new(View { kind: "compare", schema_version: 1, nodes }, regressed.into()) })
}
