//! Reports on the whole system: vmstat, turbostat, flat profiles of perf.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::tables::pattern;
use super::{Format, ROWS_MAX, Report};

/// All reports in a text, in order.
pub(super) fn read(text: &str, problems: &mut Vec<String>) -> Vec<Report> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        let words: Vec<&str> = lines[at].split_whitespace().collect();
        let used = if words.starts_with(&["r", "b", "swpd"]) {
            columns(Format::Vmstat, &lines, at, &mut out, problems)
        } else if words.contains(&"%c0") || (words.contains(&"Avg_MHz") && words.contains(&"Bzy_MHz")) {
            columns(Format::Turbostat, &lines, at, &mut out, problems)
        } else if PROFILE_ROW.is_match(lines[at]) {
            profile(&lines, at, &mut out)
        } else {
            1
        };
        at += used.max(1);
    }
    out
}

/// A header line and the rows of numbers below it; returns the lines used. A header that repeats (both tools print it
/// again after a screenful) continues the report.
fn columns(
    format: Format,
    lines: &[&str],
    at: usize,
    out: &mut Vec<Report>,
    problems: &mut Vec<String>,
) -> usize {
    let raw: Vec<&str> = lines[at].split_whitespace().collect();
    let header = Header::new(format, &raw);
    let mut sums = vec![0.0; header.names.len()];
    let (mut samples, mut used, mut first_after_header) = (0usize, 1, true);
    for line in &lines[at + 1..] {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words == raw || is_vmstat_heading(line) {
            first_after_header = true;
            used += 1;
            continue;
        }
        let Some(numbers) = header.numbers(&words) else { break };
        used += 1;
        if header.one_per_cpu && !first_after_header {
            continue;
        }
        first_after_header = false;
        let missing = header.names.len().checked_sub(numbers.len());
        let Some(missing) = missing.filter(|&m| m == 0 || format == Format::Turbostat) else {
            problems.push(format!(
                "{} figures under {} headings: `{}`",
                numbers.len(),
                header.names.len(),
                line.trim()
            ));
            continue;
        };
        for (sum, x) in sums[missing..].iter_mut().zip(&numbers) {
            *sum += x;
        }
        sums[..missing].iter_mut().for_each(|s| *s = f64::NAN);
        samples += 1;
    }
    if samples > 0 {
        let named = header.names.iter().zip(&sums).filter(|(_, s)| s.is_finite());
        let figures = named.map(|(name, sum)| (name.to_string(), sum / samples as f64)).collect();
        out.push(Report { format, title: title(lines, at), samples, figures });
    }
    used
}

/// What stands above the columns.
struct Header<'a> {
    names: Vec<&'a str>,
    /// `vmstat -t` ends its heading with the time zone and its rows with date and time.
    timestamps: bool,
    /// turbostat prints one line for the system, then one per CPU, unless it has no column of CPUs. Its summary leaves
    /// package, core and CPU blank, or prints `-`.
    one_per_cpu: bool,
}

impl<'a> Header<'a> {
    fn new(format: Format, raw: &[&'a str]) -> Header<'a> {
        let zone = |word: &&&str| word.bytes().any(|b| !b.is_ascii_lowercase());
        let timestamps = format == Format::Vmstat && raw.last().as_ref().is_some_and(zone);
        let names = raw[..raw.len() - usize::from(timestamps)].to_vec();
        let one_per_cpu = format == Format::Turbostat && names.contains(&"CPU");
        Header { names, timestamps, one_per_cpu }
    }

    /// The figures of a row; `None` when it is none.
    fn numbers(&self, words: &[&str]) -> Option<Vec<f64>> {
        let words = if self.timestamps { words.get(..self.names.len())? } else { words };
        let numbers: Option<Vec<f64>> = words.iter().map(|w| number(w)).collect();
        numbers.filter(|n| !n.is_empty())
    }
}

/// The line of groups above vmstat's columns: `procs -----------memory----------`, `--procs-- ---` with -w.
fn is_vmstat_heading(line: &str) -> bool {
    line.trim_start().trim_start_matches('-').starts_with("procs-")
        || line.trim_start().starts_with("procs -")
}

/// `-` stands for "all" in turbostat's summary line.
fn number(word: &str) -> Option<f64> {
    if word == "-" {
        return Some(f64::NAN);
    }
    word.parse::<f64>().ok().filter(|x| x.is_finite())
}

/// Lines above a report that may hold its title.
const TITLE_LINES: usize = 8;

/// The nearest line above that says something, without the headings of the tools themselves.
fn title(lines: &[&str], at: usize) -> String {
    let heading = |l: &str| {
        l.chars().all(|c| matches!(c, '.' | ' ' | '=' | '-' | '`'))
            || ["Overhead", "Children", "Event count", "Total Lost"].iter().any(|w| l.starts_with(w))
    };
    let above = lines[at.saturating_sub(TITLE_LINES)..at].iter().rev();
    let mut said = above
        .filter(|l| !is_vmstat_heading(l))
        .map(|l| l.trim().trim_start_matches('#').trim().trim_end_matches(':'))
        .filter(|l| !heading(l));
    said.next().unwrap_or_default().chars().take(80).collect()
}

static PROFILE_ROW: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\s*(\d+(?:\.\d+)?)%\s+(?:(\d+(?:\.\d+)?)%\s+)?(?:(\S+)\s+(?:\S.*?\s+)?)?\[([k.ugH])\]\s+(\S.*?)\s*$",
    )
});

/// A line of a call graph or between rows: blank, branches, or indented further than any row is.
fn is_call_graph(line: &str) -> bool {
    let text = line.trim_start();
    text.is_empty() || text.starts_with(['|', '-']) || line.len() - text.len() >= 10
}

/// Rows of a profile, with call graphs between them skipped. With both columns of `--children` the second counts: its
/// own samples.
fn profile(lines: &[&str], at: usize, out: &mut Vec<Report>) -> usize {
    let mut figures: Vec<(String, f64)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let (mut used, mut rows) = (0, 0);
    for (i, line) in lines[at..].iter().enumerate() {
        let Some(row) = PROFILE_ROW.captures(line) else {
            if is_call_graph(line) {
                continue;
            }
            break;
        };
        used = i + 1;
        let own = row.get(2).map_or(&row[1], |m| m.as_str());
        let Some(percent) = own.parse::<f64>().ok().filter(|_| rows < ROWS_MAX) else { continue };
        rows += 1;
        let name = row.get(3).map_or(String::new(), |m| format!("{} ", m.as_str())) + &row[5];
        let place = *places.entry(name.clone()).or_insert(figures.len());
        match figures.get_mut(place) {
            // The same name in two objects.
            Some(figure) => figure.1 += percent,
            None => figures.push((name, percent)),
        }
    }
    out.push(Report { format: Format::Profile, title: title(lines, at), samples: rows, figures });
    used
}
