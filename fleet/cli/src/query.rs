//! `tussle fleet`: one SQL file over a dataset, shown as any other view.

use crate::args::Args;
use crate::dataset::{Dataset, SCHEMA};
use crate::regressions;
use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use tussle_render::glossary::explained;
use tussle_render::{Cell, Column, Fact, Format, Node, Style, Tone, View, render, thousands};

/// What is common to all queries.
const VIEWS: &str = include_str!("../../sql/views.sql");
/// What runs them.
const ENGINE: &str = include_str!("../../engine/query.py");
/// Rows that are shown when nobody says.
const LIMIT: u64 = 20;
/// Spark counts rows in 32 bits.
const LIMIT_MAX: u64 = i32::MAX as u64;

/// A question: its name, what its rows are, its SQL.
struct Question {
    name: &'static str,
    rows: &'static str,
    sql: &'static str,
}

macro_rules! questions {
    ($($name:literal $rows:literal),+ $(,)?) => {
        &[$(Question { name: $name, rows: $rows, sql: include_str!(concat!("../../sql/", $name, ".sql")) }),+]
    };
}

const QUESTIONS: &[Question] = questions![
    "top" "fields that fight, over all hosts",
    "new" "fields that nobody saw fight before",
    "regressions" "fields that fight more than in the older build; hosts are the samples",
    "cpus" "fields that fight, by CPU model",
    "phases" "fields that fight, by where their object begins in its line",
    "builds" "builds, the newest first",
    "rules" "rules that are violated, by build",
    "sweep" "points of sweeps, by status",
    "predictions" "predictions of sweeps",
    "accesses" "recorded accesses, by day",
];

/// Rows of an engine.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Rows {
    /// Names of the columns.
    #[serde(default)]
    pub(crate) columns: Vec<String>,
    /// Rows.
    #[serde(default)]
    pub(crate) rows: Vec<Vec<Value>>,
    /// Files read, by kind.
    #[serde(default)]
    pub(crate) files: std::collections::BTreeMap<String, u64>,
    #[serde(default)]
    pub(crate) error: Option<String>,
}

impl Rows {
    /// A cell by the name of its column.
    pub(crate) fn cell(&self, row: usize, column: &str) -> &Value {
        let at = self.columns.iter().position(|c| c == column);
        at.and_then(|c| self.rows.get(row)?.get(c)).unwrap_or(&Value::Null)
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = args.words.first().map_or("top".into(), |w| w.to_string_lossy().into_owned());
    if let Some(other) = args.words.get(1) {
        bail!("one question at a time: `{name}` and `{}`", other.display());
    }
    if name == "schema" {
        args.only(&[])?;
        print!("{VIEWS}");
        return Ok(ExitCode::SUCCESS);
    }
    let known = || QUESTIONS.iter().map(|q| q.name).collect::<Vec<_>>().join(", ");
    let question = QUESTIONS.iter().find(|q| q.name == name);
    let question =
        question.with_context(|| format!("no question `{name}`; there are: {}, schema", known()))?;
    args.only(&["fleet", &format!("fleet {name}")])?;
    let format = format(args)?;
    let dataset = Dataset::open(args.path("dataset").context("--dataset FOLDER: which dataset?")?)?;
    let (view, status) = match question.name {
        "regressions" => regressions::view(args, &dataset)?,
        _ => {
            let rows = ask(args, &dataset, question.name, parameters(args)?)?;
            if rows.rows.is_empty() && question.name == "new" {
                known_builds(args, &dataset, &[args.text("since-build")], true)?;
            }
            (table(question.rows, &dataset, &rows, Vec::new()), 0)
        }
    };
    let view = if format == Format::Html { explained(&view) } else { view };
    let text = render(&view, format, Style::default());
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::from(status))
}

fn format(args: &Args) -> anyhow::Result<Format> {
    Ok(match args.text("format").as_deref() {
        None | Some("text") => Format::Text,
        Some("json") => Format::Json,
        Some("md") => Format::Markdown,
        Some("html") => Format::Html,
        Some(other) => bail!("--format {other}: text, json, md or html"),
    })
}

/// Parameters of all questions; each takes those that it names.
pub(crate) fn parameters(args: &Args) -> anyhow::Result<Value> {
    let since = args.text("since");
    if let Some(day) = since.as_ref().filter(|d| !is_day(d)) {
        bail!("--since {day}: a day as 2026-11-22 (UTC) that the calendar has");
    }
    let build = args.text("since-build").unwrap_or_default();
    if since.is_some() && !build.is_empty() {
        bail!("--since and --since-build: one of them");
    }
    let words = args.words.first().map(|w| w.to_string_lossy().into_owned());
    if words.as_deref() == Some("new") && since.is_none() && build.is_empty() {
        bail!("since when? --since DAY or --since-build ID");
    }
    let limit = args.parsed::<u64>("limit")?.unwrap_or(LIMIT).min(LIMIT_MAX);
    Ok(json!({ "limit": limit, "since": since.unwrap_or_default(), "build": build }))
}

/// `2026-11-22`, as the folders are named: a day of the calendar.
fn is_day(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |i: usize, digits: usize| {
        let part = parts.get(i).filter(|p| p.len() == digits && p.bytes().all(|b| b.is_ascii_digit()))?;
        part.parse::<u32>().ok()
    };
    let (Some(year), Some(month), Some(day)) = (number(0, 4), number(1, 2), number(2, 2)) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    parts.len() == 3 && (1..=12).contains(&month) && (1..=days).contains(&day)
}

/// Nothing was found: was there anything to look at? `dated`: with a time.
///
/// # Errors
/// The dataset has no runs of one of these builds.
pub(crate) fn known_builds(
    args: &Args,
    dataset: &Dataset,
    named: &[Option<String>],
    dated: bool,
) -> anyhow::Result<()> {
    let everything = json!({ "limit": LIMIT_MAX, "since": "", "build": "" });
    let rows = ask(args, dataset, "builds", everything)?;
    let fits = |r: usize, name: &str| rows.cell(r, "build") == name && (!dated || rows.cell(r, "first_s").is_number());
    let there = |name: &str| (0..rows.rows.len()).any(|r| fits(r, name));
    let time = if dated { " with a known time" } else { "" };
    match named.iter().flatten().find(|name| !there(name)) {
        Some(name) => bail!("no run of build `{name}`{time}; `tussle fleet builds` lists them"),
        None => Ok(()),
    }
}

/// The rows of a question, by the engine that was asked for.
///
/// # Errors
/// The engine is not there, or says what is wrong with the dataset.
pub(crate) fn ask(args: &Args, dataset: &Dataset, name: &str, parameters: Value) -> anyhow::Result<Rows> {
    let engine = args.text("engine").unwrap_or_else(|| "duckdb".into());
    if !["duckdb", "spark"].contains(&engine.as_str()) {
        bail!("--engine {engine}: duckdb or spark");
    }
    if engine == "duckdb" && args.has("master") {
        bail!("--master: of --engine spark only");
    }
    let memory = args.count("memory-gb", 1 << 20)?.unwrap_or(3);
    let request = json!({
        "engine": engine, "dataset": told(dataset.root())?, "schema": SCHEMA, "views": VIEWS,
        "sql": QUESTIONS.iter().find(|q| q.name == name).map(|q| q.sql).unwrap_or_default(),
        "parameters": parameters, "threads": args.threads()?.unwrap_or(tussle_host::threads::cpus().into()),
        "memory_bytes": memory << 30, "master": args.text("master"),
    });
    let out = python(ENGINE, &request)?;
    let rows: Rows = serde_json::from_slice(&out).context("the answer of the engine")?;
    match rows.error {
        Some(what) => bail!("{what}"),
        None => Ok(rows),
    }
}

/// A path for a script of ours.
///
/// # Errors
/// It is not UTF-8, which JSON and the engines need.
pub(crate) fn told(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{}: not UTF-8: no engine can be told of it", path.display()))
}

/// What a script of ours says to a request. Python is that of `TUSSLE_PYTHON`, else `python3`; isolated, so that no
/// module of the current folder or of `PYTHONPATH` is imported in place of one that was installed.
///
/// # Errors
/// There is no Python, or the script failed.
pub(crate) fn python(script: &str, request: &Value) -> anyhow::Result<Vec<u8>> {
    let python = std::env::var_os("TUSSLE_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(&python);
    // For what the script starts, too.
    command.args(["-I", "-c", script]).env_remove("PYTHONPATH");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| {
        format!("{}: queries run in Python (TUSSLE_PYTHON names another one)", python.to_string_lossy())
    })?;
    if let Some(mut to) = child.stdin.take() {
        // A script that died early says why by its status.
        let _ = to.write_all(&serde_json::to_vec(request)?);
    }
    let out = child.wait_with_output()?;
    if !out.status.success() {
        bail!("the engine ended with {}", out.status);
    }
    Ok(out.stdout)
}

/// Rows as a view.
pub(crate) fn table(about: &str, dataset: &Dataset, rows: &Rows, facts: Vec<Fact>) -> View {
    let fact = |key: &str, label: &str, cell: Cell| Fact { key: key.into(), label: label.into(), cell };
    let mut all = vec![
        fact("rows_are", "rows", Cell::text(about)),
        fact("dataset", "dataset", Cell::text(dataset.root().display().to_string())),
        fact("files", "files read", Cell::count(rows.files.values().sum())),
    ];
    all.extend(facts);
    let number = |c: usize| rows.rows.iter().any(|r| r.get(c).is_some_and(Value::is_number));
    let column = |(c, name): (usize, &String)| {
        let title = name.trim_end_matches("_ppm").replace('_', " ");
        if number(c) { Column::number(name, &title) } else { Column::text(name, &title) }
    };
    let columns = rows.columns.iter().enumerate().map(column).collect();
    let cells =
        rows.rows.iter().map(|r| r.iter().zip(&rows.columns).map(|(v, c)| cell(v, c)).collect()).collect();
    let nodes = vec![Node::Facts(all), Node::Table { key: "rows".into(), columns, rows: cells }];
    View { kind: "fleet", schema_version: 1, nodes }
}

/// How a value reads.
fn cell(value: &Value, column: &str) -> Cell {
    // Sums and rates, which are whole numbers only by chance.
    let sum = column == "transfers" || column.ends_with("per_million");
    let text = match (value, value.as_u64(), value.as_f64()) {
        // Every answer that failed says why.
        (Value::Null, ..) if column == "first_error" => "none".into(),
        (Value::Null, ..) => return Cell::unknown(),
        (Value::String(s), ..) if column == "fields" => return Cell::text(s).tone(Tone::Name),
        (Value::String(s), ..) => s.clone(),
        (_, _, Some(ppm)) if column.ends_with("_ppm") => format!("{:.2}%", ppm / 1e4),
        (_, _, Some(x)) if sum => rounded(x),
        (_, Some(n), _) => thousands(n),
        (_, _, Some(x)) => format!("{x:.4}"),
        (other, ..) => other.to_string(),
    };
    Cell::value(value.clone(), text)
}

/// To a tenth, or to whole ones where that is small against it; what is not zero is not shown as zero.
fn rounded(x: f64) -> String {
    match x {
        x if x >= 1e3 => thousands(x.round() as u64),
        x if x > 0.0 && x < 0.05 => "<0.1".into(),
        x => format!("{x:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_day, rounded};

    #[test]
    fn sums_are_rounded_when_they_are_shown() {
        let shown = [0.0, 0.04, 0.06, 999.94, 1_234_567.5].map(rounded);
        assert_eq!(shown, ["0.0", "<0.1", "0.1", "999.9", "1,234,568"]);
    }

    #[test]
    fn days() {
        for day in ["2026-11-22", "2024-02-29", "2000-02-29", "2026-12-31"] {
            assert!(is_day(day), "{day}");
        }
        for none in ["2025-02-30", "2025-02-29", "1900-02-29", "2026-04-31"] {
            assert!(!is_day(none), "{none}");
        }
        for wrong in ["", "2026-13-01", "2026-11-00", "yyyy-mm-dd", "2026-11-2", "26-11-2222", "2026-11-22-1"] {
            assert!(!is_day(wrong), "{wrong}");
        }
    }
}
