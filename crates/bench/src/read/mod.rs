//! Readers of foreign result formats: best effort, what they cannot read becomes a problem.
//!
//! A file may hold several things at once (a mail with two `vmstat` excerpts, a profile and a table). Every reader
//! looks
//! for its own kind; [`read`] puts together what they found.

mod benchstat_csv;
mod generic;
mod json;
mod mailer;
mod number;
mod results;
mod system;
mod tables;

pub use number::Printed;

/// Longest text that is read.
pub const BYTES_MAX: usize = 64 << 20;

/// Most rows kept of one text.
pub const ROWS_MAX: usize = 100_000;

/// Formats known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// mmtests' comparison table.
    Mmtests,
    /// The kernel test robot's table.
    Lkp,
    /// benchstat's table, old or new.
    Benchstat,
    /// Output of a will-it-scale test case.
    WillItScale,
    /// will-it-scale's `runtest.py` csv.
    WillItScaleCsv,
    /// The page fault test's log.
    Pft,
    /// UnixBench's report.
    Unixbench,
    /// Raw samples by `stats.json` lines.
    StatsJson,
    /// hyperfine's export.
    Hyperfine,
    /// criterion's `estimates.json` or `sample.json`.
    Criterion,
    /// google benchmark's export.
    GoogleBenchmark,
    /// nanobench's JSON template.
    Nanobench,
    /// pytest-benchmark's export.
    PytestBenchmark,
    /// JMH's export.
    Jmh,
    /// `go test -bench`.
    GoBench,
    /// vmstat.
    Vmstat,
    /// turbostat.
    Turbostat,
    /// `perf report --stdio`, flat.
    Profile,
    /// A table of comma-separated values that is nobody's format.
    Csv,
    /// JSON that is nobody's format.
    Json,
}

impl Format {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Format::Mmtests => "mmtests table",
            Format::Lkp => "kernel test robot table",
            Format::Benchstat => "benchstat table",
            Format::WillItScale => "will-it-scale output",
            Format::WillItScaleCsv => "will-it-scale csv",
            Format::Pft => "pft log",
            Format::Unixbench => "UnixBench report",
            Format::StatsJson => "raw samples of stats.json lines",
            Format::Hyperfine => "hyperfine JSON",
            Format::Criterion => "criterion JSON",
            Format::GoogleBenchmark => "google benchmark JSON",
            Format::Nanobench => "nanobench JSON",
            Format::PytestBenchmark => "pytest-benchmark JSON",
            Format::Jmh => "JMH JSON",
            Format::GoBench => "go test -bench output",
            Format::Vmstat => "vmstat",
            Format::Turbostat => "turbostat",
            Format::Profile => "perf report",
            Format::Csv => "comma-separated values",
            Format::Json => "JSON",
        }
    }
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Throughput.
    Higher,
    /// Times, deviations.
    Lower,
    /// The format does not say.
    Unknown,
}

/// How the change of a row is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// 100·(new − old)/old, for lower-is-better rows with the sign flipped (mmtests).
    PercentBetter,
    /// 100·(new − old)/old.
    Percent,
    /// new − old (lkp's rows that are percentages themselves).
    Difference,
    /// A p-value in percent (mmtests' `Significant`): nothing to recompute.
    PValue,
}

/// One row of a comparison table: a reference and one candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Format it came from.
    pub format: Format,
    /// `Hmean`, `Stddev`, ... where the format has it.
    pub statistic: Option<String>,
    /// `faults/cpu-21`, `will-it-scale.per_thread_ops`.
    pub name: String,
    /// Candidate column, from 1.
    pub column: usize,
    /// Which way is better.
    pub direction: Direction,
    /// Reference.
    pub old: Printed,
    /// Candidate.
    pub new: Printed,
    /// Deviation of the reference, %; absent where not printed.
    pub old_deviation_percent: Option<f64>,
    /// Deviation of the candidate, %.
    pub new_deviation_percent: Option<f64>,
    /// The change as printed.
    pub change: Option<Printed>,
    /// What that number is.
    pub change_kind: ChangeKind,
    /// Whether the row is starred; absent where the format has no stars.
    pub starred: Option<bool>,
}

/// One system report: figures by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// vmstat, turbostat or profile.
    pub format: Format,
    /// The line before it, when it looks like a caption.
    pub title: String,
    /// Lines that went into it.
    pub samples: usize,
    /// Mean of each column, or percentage of each symbol.
    pub figures: Vec<(String, f64)>,
}

/// Raw results: samples by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Format it came from.
    pub format: Format,
    /// Name.
    pub name: String,
    /// Unit, if the format says.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Samples; for criterion's estimates the mean alone.
    pub values: Vec<f64>,
}

/// Everything found in a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Table rows.
    pub rows: Vec<Row>,
    /// System reports in order.
    pub reports: Vec<Report>,
    /// Raw results.
    pub series: Vec<Series>,
}

impl Document {
    /// Formats found, each once.
    pub fn formats(&self) -> Vec<Format> {
        let mut all: Vec<Format> = self.rows.iter().map(|r| r.format).collect();
        all.extend(self.reports.iter().map(|r| r.format));
        all.extend(self.series.iter().map(|s| s.format));
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Statistics of a table that are levels, and not spreads or tests.
const LEVELS: [&str; 5] = ["mean", "Min", "Max", "qrtle", "/"];

impl Document {
    /// Everything as results of one state: raw results, the last column of tables, figures of system reports. A table's
    /// spreads are no results.
    pub fn results(self) -> Vec<Series> {
        let mut out = self.series;
        let last = self.rows.iter().map(|r| r.column).max().unwrap_or(0);
        let level = |r: &&Row| {
            let of = |s: &String| LEVELS.iter().any(|l| s.contains(l));
            r.column == last && r.change_kind != ChangeKind::PValue && r.statistic.as_ref().is_none_or(of)
        };
        let words = |a: &str, b: &str| if a.is_empty() { b.to_string() } else { format!("{a} {b}") };
        let row = |r: &Row| Series {
            format: r.format,
            name: words(r.statistic.as_deref().unwrap_or_default(), &r.name),
            unit: String::new(),
            direction: r.direction,
            values: vec![r.new.value],
        };
        out.extend(self.rows.iter().filter(level).map(row));
        for report in self.reports {
            out.extend(report.figures.into_iter().map(|(figure, value)| Series {
                format: report.format,
                name: words(&report.title, &figure),
                unit: String::new(),
                direction: Direction::Unknown,
                values: vec![value],
            }));
        }
        out
    }
}

/// Why nothing was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing known was found.
    #[error(
        "no known format in it{0}; known are mmtests, lkp/0day and benchstat tables, will-it-scale, pft, UnixBench, \
         go test -bench, vmstat, turbostat, perf report text, and hyperfine, nanobench, criterion, \
         google benchmark, pytest-benchmark and JMH JSON; csv:FILE and json:FILE read any such file"
    )]
    Unknown(String),
    /// Nothing at all.
    #[error("the file is empty")]
    Empty,
    /// Longer than [`BYTES_MAX`].
    #[error("the file has {0} bytes; at most {BYTES_MAX} are read")]
    TooLong(usize),
}

/// Reads everything known in a text, and says what looked known but could not be read.
pub fn read(text: &str) -> Result<(Document, Vec<String>), ReadError> {
    if text.trim().is_empty() {
        return Err(ReadError::Empty);
    }
    if text.len() > BYTES_MAX {
        return Err(ReadError::TooLong(text.len()));
    }
    let mut problems = Vec::new();
    let mut document = Document::default();
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with(['{', '[']) {
        document.series = json::read(text, &mut problems);
    } else {
        let text = unquote(text);
        document.rows = tables::mmtests(&text, &mut problems);
        document.rows.extend(tables::lkp(&text));
        document.rows.extend(tables::benchstat(&text, &mut problems));
        document.rows.extend(benchstat_csv::read(&text, &mut problems));
        document.series = results::read(&text, &mut problems);
        document.reports = system::read(&text, &mut problems);
    }
    found(document, problems)
}

/// Reads a text as comma-separated values or as JSON, whoever wrote it.
///
/// # Errors
/// As [`read`]; a text without a number in it.
pub fn read_any(text: &str, format: Format) -> Result<(Document, Vec<String>), ReadError> {
    if text.trim().is_empty() {
        return Err(ReadError::Empty);
    }
    if text.len() > BYTES_MAX {
        return Err(ReadError::TooLong(text.len()));
    }
    let text = text.trim_start_matches('\u{feff}');
    let mut problems = Vec::new();
    let series = match format {
        Format::Csv => generic::csv(text, &mut problems),
        _ => generic::json(text, &mut problems),
    };
    found(Document { series, ..Document::default() }, problems)
}

fn found(document: Document, problems: Vec<String>) -> Result<(Document, Vec<String>), ReadError> {
    if document == Document::default() {
        let why = if problems.is_empty() { String::new() } else { format!(" ({})", problems.join("; ")) };
        return Err(ReadError::Unknown(why));
    }
    Ok((document, problems))
}

/// Without the marks that mailers put before quoted lines, and without their encodings.
fn unquote(text: &str) -> String {
    let text = if text.contains("=C2=B1") { mailer::quoted_printable(text) } else { text.to_string() };
    let strip = |line: &str| -> String {
        let mut rest = line;
        while let Some(r) = rest.trim_start().strip_prefix('>') {
            rest = r;
        }
        // A sign of two bytes that somebody read as two characters.
        rest.replace('\u{a0}', " ").replace("\u{c2}\u{b1}", "\u{b1}")
    };
    text.lines().map(|l| strip(l) + "\n").collect()
}

#[cfg(test)]
mod tests;
