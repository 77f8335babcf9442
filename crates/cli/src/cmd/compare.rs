//! `tussle compare`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use tussle_bench::read::{self, Direction, Document, Format, Series};
use tussle_bench::sample::{self, Results};
use tussle_bench::sessions::{self, Session};
use tussle_bench::style::{lkp, mmtests};
use tussle_bench::{Criterion, Outcome, Paired, audit, audit_view};
use tussle_render::View;

use super::bench::{comparisons, question};
use crate::global::Global;

/// Compare two results, or audit a pasted table.
///
/// One file of `tussle bench` holds both arms; two files or folders (mmtests' logs,
/// criterion's results) are compared with each other.
/// With --read a
/// file of another tool is read and its arithmetic checked. Exit status 1 on a regression or a wrong percentage.
#[derive(clap::Args)]
pub struct Args {
    /// Results: JSON Lines of `tussle bench`, or anything that --read knows; csv:FILE and json:FILE for tables and JSON
    /// of anybody
    #[arg(value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// Read the output or the table of another tool and check it (- is stdin; csv:FILE, json:FILE)
    #[arg(long, value_name = "FILE", conflicts_with = "results")]
    read: Option<PathBuf>,
    /// The results are sessions of one benchmark: one answer out of all of them
    #[arg(long, conflicts_with_all = ["read", "style"])]
    join: bool,
    /// Relative difference that nobody minds, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    margin: f64,
    /// own, mmtests[:2022|:mid][:no-r][:significance|:ratio], lkp
    #[arg(long, default_value = "own")]
    style: String,
    /// Lower values of a foreign result are better, where its format does not say
    #[arg(long)]
    lower_is_better: bool,
    /// Of a result of `tussle bench` also the figures behind the answer
    #[arg(long, short)]
    verbose: bool,
}

/// Runs the verb.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<ExitCode> {
    let question = question(args.margin)?;
    if let Some(file) = &args.read {
        return audit_file(file, global);
    }
    if args.join {
        return join(args, question, global);
    }
    if args.style != "own" {
        print!("{}", in_style(args)?);
        return Ok(ExitCode::SUCCESS);
    }
    let (nodes, regressed) = match args.results.as_slice() {
        [both] => comparisons(&own(both)?, question, args.verbose, global)?,
        [old, new] => {
            let (old, new) = (series(old, args)?, series(new, args)?);
            let (mut nodes, regressed) = audit_view::compare_series(&old, &new, question);
            nodes
                .push(audit_view::footer("Welch's t on logarithms of unpaired samples, 95%; n in the table"));
            (nodes, regressed)
        }
        _ => bail!("give one result of `tussle bench`, or two results, or --read FILE"),
    };
    global.print(&View { kind: "compare", schema_version: 1, nodes })?;
    Ok(ExitCode::from(u8::from(regressed)))
}

/// Sessions of `tussle bench` with the same first two arms.
fn join(args: &Args, question: Criterion, global: &Global) -> anyhow::Result<ExitCode> {
    let session = |path: &PathBuf| {
        let paired = Paired::from_results(&own(path)?, 0, 1).with_context(|| path.display().to_string())?;
        Ok(Session { name: path.display().to_string(), paired })
    };
    let all: Vec<Session> = args.results.iter().map(session).collect::<anyhow::Result<_>>()?;
    let joined = sessions::join(&all, question)?;
    let nodes = all.first().map(|first| sessions::nodes(&joined, &first.paired)).unwrap_or_default();
    global.print(&View { kind: "sessions", schema_version: 1, nodes })?;
    Ok(ExitCode::from(u8::from(joined.outcome == Outcome::Regressed)))
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes)?;
        bytes
    } else {
        fs::read(path).with_context(|| format!("cannot read {}", path.display()))?
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn document(path: &Path) -> anyhow::Result<(Document, Vec<String>)> {
    let found = match forced(path) {
        Some((format, file)) => read::read_any(&text_of(file)?, format),
        None => read::read(&text_of(path)?),
    };
    found.with_context(|| path.display().to_string())
}

/// `csv:FILE` and `json:FILE`: whoever wrote it, unless there is a file of that very name.
fn forced(path: &Path) -> Option<(Format, &Path)> {
    let name = path.to_str().filter(|_| !path.exists())?;
    let kind = |prefix: &str, format| Some((format, Path::new(name.strip_prefix(prefix)?)));
    kind("csv:", Format::Csv).or_else(|| kind("json:", Format::Json))
}

fn audit_file(path: &Path, global: &Global) -> anyhow::Result<ExitCode> {
    let (document, problems) = document_of(path)?;
    let found = audit::audit(&document);
    let nodes = audit_view::nodes(&document, &found, &problems);
    global.print(&View { kind: "audit", schema_version: 1, nodes })?;
    Ok(ExitCode::from(u8::from(found.accuses())))
}

fn own(path: &Path) -> anyhow::Result<Results> {
    if let Some((_, file)) = forced(path) {
        bail!(
            "{}: a table is compared with another, or checked alone: --read {}",
            file.display(),
            path.display()
        );
    }
    let (results, problems) = sample::parse(&text_of(path)?).with_context(|| path.display().to_string())?;
    for problem in problems {
        eprintln!("tussle: {}: {problem}", path.display());
    }
    Ok(results)
}

/// [`document`], with the names that criterion keeps in a file of their own.
fn document_of(path: &Path) -> anyhow::Result<(Document, Vec<String>)> {
    let (mut document, problems) = document(path)?;
    if let ([only], Some(name)) = (document.series.as_mut_slice(), criterion_name(path))
        && only.format == read::Format::Criterion
    {
        only.name = name;
    }
    Ok((document, problems))
}

/// The benchmark that a `sample.json` or `estimates.json` of criterion belongs to.
fn criterion_name(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path.parent()?.join("benchmark.json")).ok()?;
    let about: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(about.get("full_id")?.as_str()?.to_string())
}

/// What a file of another tool says of one state: raw results, the last column of a table, a system report.
pub fn one_state(path: &Path) -> anyhow::Result<Vec<Series>> {
    if path.is_dir() {
        return raw(path);
    }
    Ok(document_of(path)?.0.results())
}

/// Raw results of a file or of the logs in a folder; directions where the format tells.
pub fn raw(path: &Path) -> anyhow::Result<Vec<Series>> {
    let mut out = Vec::new();
    if path.is_dir() {
        for file in logs(path)? {
            out.extend(document_of(&file)?.0.series);
        }
    } else if let Ok(results) = own_quietly(path) {
        out = own_series(&results);
    } else {
        out = document_of(path)?.0.series;
    }
    if out.is_empty() {
        bail!("{}: no raw results in it; for tables use --read", path.display());
    }
    Ok(out)
}

fn series(path: &Path, args: &Args) -> anyhow::Result<Vec<Series>> {
    let mut out = raw(path)?;
    for s in &mut out {
        if args.lower_is_better {
            s.direction = Direction::Lower;
        }
    }
    Ok(out)
}

fn own_quietly(path: &Path) -> anyhow::Result<Results> {
    Ok(sample::parse(&text_of(path)?)?.0)
}

/// Every arm of a file of ours as raw results.
fn own_series(results: &Results) -> Vec<Series> {
    let header = &results.header;
    let of = |(arm, name): (usize, &String)| {
        let runs = results.samples.iter().filter(|s| s.arm == arm && !s.warmup);
        let direction = if header.metric.higher_is_better() { Direction::Higher } else { Direction::Lower };
        Series {
            format: read::Format::StatsJson,
            name: name.clone(),
            unit: header.metric.name.clone(),
            direction,
            values: runs.filter_map(|s| s.value).collect(),
        }
    };
    header.arms.iter().enumerate().map(of).collect()
}

/// Files named `*.log` (mmtests) and the newest `sample.json` of every benchmark (criterion) below a folder, in natural
/// order of their numbers; at most five folders deep.
fn logs(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    let mut open = vec![(folder.to_path_buf(), 0)];
    while let Some((folder, depth)) = open.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() && depth < 5 {
                open.push((path, depth + 1));
            } else if path.extension().is_some_and(|e| e == "log") || is_sample(&path, depth) {
                out.push(path);
            }
        }
    }
    let number = |p: &PathBuf| {
        let name = p.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let digits: String = name.chars().rev().take_while(char::is_ascii_digit).collect();
        let number: u64 = digits.chars().rev().collect::<String>().parse().unwrap_or(0);
        (name.trim_end_matches(|c: char| c.is_ascii_digit()).to_string(), number, p.clone())
    };
    out.sort_unstable_by_key(number);
    Ok(out)
}

/// criterion keeps the newest samples in `NAME/new` and older ones beside them; a folder given itself counts whatever
/// its name.
fn is_sample(path: &Path, depth: usize) -> bool {
    let folder = path.parent().and_then(Path::file_name);
    path.file_name().is_some_and(|n| n == "sample.json") && (depth == 0 || folder.is_some_and(|f| f == "new"))
}

/// Names and raw results of both sides: two files or folders, or the two arms of one result of `tussle bench`.
fn sides(args: &Args) -> anyhow::Result<([String; 2], Vec<Series>, Vec<Series>)> {
    match args.results.as_slice() {
        [old, new] => Ok(([file_name(old), file_name(new)], series(old, args)?, series(new, args)?)),
        [both] => {
            let results = own(both)?;
            let [old, new] = results.header.arms.as_slice() else {
                let n = results.header.arms.len();
                bail!("{}: --style {} shows two arms; this result has {n}", both.display(), args.style);
            };
            // Both sides measure the same thing, under a name without blanks as these tables have it.
            let name = results.header.metric.name.replace(' ', "-");
            let mut arms = own_series(&results).into_iter().map(|s| vec![Series { name: name.clone(), ..s }]);
            let (a, b) = (arms.next().unwrap_or_default(), arms.next().unwrap_or_default());
            Ok(([old.clone(), new.clone()], a, b))
        }
        _ => bail!("--style {} needs two results, or one of `tussle bench` with two arms", args.style),
    }
}

fn in_style(args: &Args) -> anyhow::Result<String> {
    let (names, old, new) = sides(args)?;
    let both =
        || old.iter().filter_map(|a| Some((a, new.iter().find(|b| b.name == a.name && b.unit == a.unit)?)));
    if args.style == "lkp" {
        let metrics: Vec<lkp::Metric> = both()
            .map(|(a, b)| lkp::Metric { name: a.name.clone(), old: a.values.clone(), new: b.values.clone() })
            .collect();
        return lkp::table([&names[0], &names[1]], &metrics).context("a result has no finite values");
    }
    let style = args.style.strip_prefix("mmtests").and_then(mmtests::Style::parse);
    let style = style
        .with_context(|| format!("--style {}: known are own, mmtests:2022, mmtests:mid, lkp", args.style))?;
    let mut operations: Vec<mmtests::Operation> = both()
        .map(|(a, b)| mmtests::Operation {
            name: a.name.clone(),
            old: a.values.clone(),
            new: b.values.clone(),
        })
        .collect();
    // mmtests prints all rows of one unit together: faults/cpu-1, faults/cpu-3, .., faults/sec-1, ..
    let stem = |o: &mmtests::Operation| o.name.trim_end_matches(|c: char| c.is_ascii_digit()).to_string();
    operations.sort_by_key(stem);
    if operations.is_empty() {
        bail!("the two results have no name in common");
    }
    let higher_is_better = old.iter().all(|s| s.direction != Direction::Lower);
    let titles = [title(&names[0]), title(&names[1])];
    let comparison = mmtests::Comparison { titles, higher_is_better, operations };
    mmtests::table(&comparison, style).context("an operation has fewer than two positive values a side")
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned())
}

/// `5.18.0-rc1-mm-pcpdrain-v2r1` as kernel and name; without a version the first dash separates them.
fn title(name: &str) -> [String; 2] {
    let version_end = name.starts_with(|c: char| c.is_ascii_digit()).then(|| {
        let after = name.find('-').unwrap_or(name.len());
        let rest = &name[after..];
        let rc =
            rest.strip_prefix("-rc").map_or(0, |r| 3 + r.chars().take_while(char::is_ascii_digit).count());
        after + rc
    });
    let at = version_end.or_else(|| name.find('-')).unwrap_or(name.len());
    [name[..at].to_string(), name[at..].trim_start_matches('-').to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runs_split_as_mmtests_splits_them() {
        let check = |name: &str, expect: [&str; 2]| assert_eq!(title(name), expect.map(str::to_string));
        check("base-vanilla", ["base", "vanilla"]);
        check("5.18.0-rc1-mm-pcpdrain-v2r1", ["5.18.0-rc1", "mm-pcpdrain-v2r1"]);
        check("5.18.0-vanilla", ["5.18.0", "vanilla"]);
        check("base", ["base", ""]);
    }
}
