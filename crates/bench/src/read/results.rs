//! Raw results as text: will-it-scale, pft, UnixBench, lkp's `stats.json` lines.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::tables::pattern;
use super::{Direction, Format, ROWS_MAX, Series};

/// All raw results in a text.
pub(super) fn read(text: &str, problems: &mut Vec<String>) -> Vec<Series> {
    let mut out = will_it_scale(text);
    out.extend(will_it_scale_csv(text, problems));
    out.extend(pft(text));
    out.extend(unixbench(text));
    out.extend(stats_json(text));
    out.extend(go_bench(text));
    out
}

/// Collects samples under (name, unit), in order of first appearance.
#[derive(Default)]
struct Collector {
    order: Vec<(String, &'static str)>,
    values: BTreeMap<String, Vec<f64>>,
    rows: usize,
}

impl Collector {
    fn add(&mut self, name: String, unit: &'static str, value: f64) {
        if !value.is_finite() || self.rows >= ROWS_MAX {
            return;
        }
        self.rows += 1;
        if !self.values.contains_key(&name) {
            self.order.push((name.clone(), unit));
        }
        self.values.entry(name).or_default().push(value);
    }

    fn series(mut self, format: Format) -> Vec<Series> {
        let take = |(name, unit): (String, &str)| {
            let values = self.values.remove(&name).unwrap_or_default();
            Series { format, name, unit: unit.into(), direction: Direction::Higher, values }
        };
        self.order.into_iter().map(take).collect()
    }
}

/// `testcase:NAME`, `measurement`, `min:N max:N total:N` per second, `average:N`. The samples are the totals after
/// `measurement`; without any, the averages.
fn will_it_scale(text: &str) -> Vec<Series> {
    let (mut samples, mut averages) = (Collector::default(), Collector::default());
    let (mut case, mut measuring) = (String::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("testcase:") {
            (case, measuring) = (name.trim().to_string(), false);
        } else if line == "measurement" {
            measuring = true;
        } else if line == "warmup" {
            measuring = false;
        } else if case.is_empty() {
            continue;
        } else if let Some(total) = line.split_once("total:").and_then(|(_, t)| t.trim().parse().ok()) {
            if measuring {
                samples.add(case.clone(), "operations/s", total);
            }
        } else if let Some(average) = line.strip_prefix("average:").and_then(|t| t.trim().parse().ok()) {
            averages.add(case.clone(), "operations/s", average);
            measuring = false;
        }
    }
    let chosen = if samples.rows > 0 { samples } else { averages };
    chosen.series(Format::WillItScale)
}

/// `tasks,processes,processes_idle,threads,threads_idle,linear` and rows of it.
fn will_it_scale_csv(text: &str, problems: &mut Vec<String>) -> Vec<Series> {
    let mut out = Collector::default();
    let mut header: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("tasks,") {
            header = line.split(',').collect();
            continue;
        }
        let cells: Vec<&str> = line.split(',').collect();
        if header.is_empty() || cells.len() < 2 {
            header.clear();
            continue;
        }
        if cells.len() != header.len() {
            problems.push(format!(
                "will-it-scale csv: {} cells in `{line}`, {} in its header",
                cells.len(),
                header.len()
            ));
            continue;
        }
        for (name, cell) in
            header.iter().zip(&cells).skip(1).filter(|(n, _)| **n == "processes" || **n == "threads")
        {
            match cell.parse::<f64>() {
                Ok(value) if value > 0.0 => out.add(format!("{name}-{}", cells[0]), "operations/s", value),
                Ok(_) => {}
                Err(_) => problems.push(format!("will-it-scale csv: {cell} is no number")),
            }
        }
    }
    out.series(Format::WillItScaleCsv)
}

static PFT_ROW: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?m)^\s*\d+\s+(\d+)\s+\d+\s+[\d.]+s\s+[\d.]+s\s+[\d.]+s\s+([\d.]+)\s+([\d.]+)\s*$")
});

/// ` Gb  Thr CLine   User     System     Wall    flt/cpu/s fault/wsec` and rows of it.
fn pft(text: &str) -> Vec<Series> {
    let (mut per_cpu, mut per_s) = (Collector::default(), Collector::default());
    for row in PFT_ROW.captures_iter(text) {
        if let (Ok(cpu), Ok(wall)) = (row[2].parse(), row[3].parse()) {
            per_cpu.add(format!("faults/cpu-{}", &row[1]), "faults/CPU s", cpu);
            per_s.add(format!("faults/sec-{}", &row[1]), "faults/s", wall);
        }
    }
    let mut out = per_cpu.series(Format::Pft);
    out.extend(per_s.series(Format::Pft));
    out
}

static UNIXBENCH_RAW: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^\s*(\S.*?\S)\s{2,}([\d.]+)\s+(\S+)\s+\([\d.]+ s, (\d+) samples?\)\s*$"));
static UNIXBENCH_INDEX: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^\s*(\S.*?\S)\s{2,}([\d.]+)\s{2,}([\d.]+)\s{2,}([\d.]+)\s*$"));
static UNIXBENCH_SCORE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^\s*(System Benchmarks Index Score.*?)\s{2,}([\d.]+)\s*$"));

fn unixbench(text: &str) -> Vec<Series> {
    let mut out = Collector::default();
    for row in UNIXBENCH_RAW.captures_iter(text) {
        out.add(format!("{} ({})", &row[1], &row[3]), "", row[2].parse().unwrap_or(f64::NAN));
    }
    if text.contains("System Benchmarks") {
        for row in UNIXBENCH_INDEX.captures_iter(text) {
            out.add(format!("{} (index)", &row[1]), "index", row[4].parse().unwrap_or(f64::NAN));
        }
        for row in UNIXBENCH_SCORE.captures_iter(text) {
            out.add(row[1].to_string(), "index", row[2].parse().unwrap_or(f64::NAN));
        }
    }
    out.series(Format::Unixbench)
}

static STATS_JSON: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?m)^\s*\d+/stats\.json:\s+"([^"]+)":\s*([-\d.e+]+)"#));

/// `0/stats.json:  "will-it-scale.per_thread_ops": 105228,` as in mails of the kernel test robot.
fn stats_json(text: &str) -> Vec<Series> {
    let mut out = Collector::default();
    for row in STATS_JSON.captures_iter(text) {
        out.add(row[1].to_string(), "", row[2].parse().unwrap_or(f64::NAN));
    }
    out.series(Format::StatsJson)
}

static GO_BENCH: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^\s*Benchmark(\S+)\s+\d+((?:\s+[\d.e+]+\s+[^\s\d]\S*)+)\s*$"));

/// `BenchmarkSort-2  596  20130 ns/op  8192 B/op  1 allocs/op`, one line per run of `go test -bench`.
fn go_bench(text: &str) -> Vec<Series> {
    let mut out: Vec<Series> = Vec::new();
    for row in GO_BENCH.captures_iter(text).take(ROWS_MAX) {
        let words: Vec<&str> = row[2].split_whitespace().collect();
        for pair in words.chunks_exact(2) {
            let (Ok(value), unit) = (pair[0].parse::<f64>(), pair[1]) else { continue };
            let name = format!("{} {unit}", &row[1]);
            match out.iter_mut().find(|s| s.name == name) {
                Some(known) => known.values.push(value),
                None => out.push(Series {
                    format: Format::GoBench,
                    name,
                    unit: unit.into(),
                    direction: if unit.ends_with("/s") { Direction::Higher } else { Direction::Lower },
                    values: vec![value],
                }),
            }
        }
    }
    out
}
