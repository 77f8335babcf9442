//! Reports on the whole system: vmstat, turbostat, flat profiles of perf.

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
        } else if words.contains(&"%c0") || (words.contains(&"Busy%") && words.contains(&"Bzy_MHz")) {
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
    let header: Vec<&str> = lines[at].split_whitespace().collect();
    let mut sums = vec![0.0; header.len()];
    let (mut samples, mut used, mut first_after_header) = (0usize, 1, true);
    for line in &lines[at + 1..] {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words == header || line.trim_start().starts_with("procs -") {
            first_after_header = true;
            used += 1;
            continue;
        }
        let numbers: Option<Vec<f64>> = words.iter().map(|w| number(w)).collect();
        let Some(numbers) = numbers.filter(|n| !n.is_empty()) else { break };
        used += 1;
        // turbostat: one line for the system, then one per CPU. The summary leaves pk, cor and CPU blank.
        if format == Format::Turbostat && !first_after_header {
            continue;
        }
        first_after_header = format == Format::Vmstat;
        if numbers.len() > header.len() || (format == Format::Vmstat && numbers.len() != header.len()) {
            problems.push(format!(
                "{} figures under {} headings: `{}`",
                numbers.len(),
                header.len(),
                line.trim()
            ));
            continue;
        }
        let missing = header.len() - numbers.len();
        for (sum, x) in sums[missing..].iter_mut().zip(&numbers) {
            *sum += x;
        }
        sums[..missing].iter_mut().for_each(|s| *s = f64::NAN);
        samples += 1;
    }
    if samples > 0 {
        let named = header.iter().zip(&sums).filter(|(_, s)| s.is_finite());
        let figures = named.map(|(name, sum)| (name.to_string(), sum / samples as f64)).collect();
        out.push(Report { format, title: title(lines, at), samples, figures });
    }
    used
}

/// `-` stands for "all" in turbostat's summary line.
fn number(word: &str) -> Option<f64> {
    if word == "-" {
        return Some(f64::NAN);
    }
    word.parse::<f64>().ok().filter(|x| x.is_finite())
}

/// The nearest line above that says something, without vmstat's own heading.
fn title(lines: &[&str], at: usize) -> String {
    let mut above = lines[..at].iter().rev().map(|l| l.trim());
    let said = above.find(|l| !l.starts_with("procs -"));
    said.unwrap_or_default().trim_start_matches('#').trim().trim_end_matches(':').chars().take(80).collect()
}

static PROFILE_ROW: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\s*(\d+(?:\.\d+)?)%\s+(?:\d+(?:\.\d+)?%\s+)?(\S+)\s+(?:\S+\s+)?\[([k.ugH])\]\s+(\S.*?)\s*$")
});

fn profile(lines: &[&str], at: usize, out: &mut Vec<Report>) -> usize {
    let mut figures: Vec<(String, f64)> = Vec::new();
    let mut used = 0;
    for line in &lines[at..] {
        let Some(row) = PROFILE_ROW.captures(line) else {
            // perf leaves blank and comment lines between rows of call chains; one blank line ends a pasted excerpt.
            break;
        };
        used += 1;
        if let (Ok(percent), true) = (row[1].parse::<f64>(), figures.len() < ROWS_MAX) {
            figures.push((format!("{} {}", &row[2], &row[4]), percent));
        }
    }
    out.push(Report { format: Format::Profile, title: title(lines, at), samples: figures.len(), figures });
    used
}
