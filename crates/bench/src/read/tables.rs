//! Comparison tables: mmtests, the kernel test robot, benchstat. White space is not trusted: mailers wrap and
//! collapse it.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{ChangeKind, Direction, Format, Printed, ROWS_MAX, Row};

/// Patterns are constants: a test compiles each.
pub(super) fn pattern(text: &str) -> Regex {
    #[expect(clippy::unwrap_used, reason = "a constant pattern, compiled by a test")]
    Regex::new(text).unwrap()
}

static MMTESTS_HEAD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?mx)(?:^|\s)
        (Min|Max|[HAG]mean|[HAG]?[Ss]tddev|H?CoeffVar|B[HA]mean-\d+|[123](?:st|nd|rd)-qrtle|Max-\d+%?|Significant)
        [\x20\t]+([^\s()*]+)\s",
    )
});
static MMTESTS_CELL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\s*(-?[\d.]+(?:e[+-]?\d+)?|-?nan|-?inf)\s*([(*])\s*(-?[\d.]+|-?nan|-?inf)%\s*[)*]")
});

/// Rows of mmtests tables, also when everything stands on one line.
pub(super) fn mmtests(text: &str, problems: &mut Vec<String>) -> Vec<Row> {
    let mut rows = Vec::new();
    for head in MMTESTS_HEAD.captures_iter(text) {
        let (statistic, name) = (&head[1], &head[2]);
        let mut rest = &text[head.get(0).map_or(0, |m| m.end())..];
        let mut reference = None;
        let mut column = 0;
        while let Some(cell) = MMTESTS_CELL.captures(rest) {
            rest = &rest[cell[0].len()..];
            let value = Printed::parse(&cell[1]);
            if value.is_none() {
                problems.push(format!("{statistic} {name}: {} is no number", &cell[1]));
            }
            if column == 0 {
                reference = value;
            } else if let (Some(old), Some(new)) = (reference, value) {
                rows.push(mmtests_row(statistic, name, column, (old, new), &cell));
            }
            column += 1;
            if rows.len() >= ROWS_MAX {
                return rows;
            }
        }
    }
    rows
}

fn mmtests_row(
    statistic: &str,
    name: &str,
    column: usize,
    values: (Printed, Printed),
    cell: &Captures,
) -> Row {
    let direction = match statistic {
        "Hmean" | "Gmean" => Direction::Higher,
        s if s.starts_with("BHmean") => Direction::Higher,
        "Min" | "Max" => Direction::Unknown,
        s if s.ends_with("qrtle") || s.starts_with("Max-") => Direction::Unknown,
        _ => Direction::Lower,
    };
    let significance = statistic == "Significant";
    Row {
        format: Format::Mmtests,
        statistic: Some(statistic.into()),
        name: name.into(),
        column,
        direction,
        old: values.0,
        new: values.1,
        old_deviation_percent: None,
        new_deviation_percent: None,
        change: Printed::parse(&cell[3]),
        change_kind: if significance { ChangeKind::PValue } else { ChangeKind::PercentBetter },
        starred: matches!(statistic, "Hmean" | "Amean" | "Gmean").then(|| &cell[2] == "*"),
    }
}

static LKP_ROW: LazyLock<Regex> = LazyLock::new(|| {
    const NUMBER: &str = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?";
    pattern(&format!(
        r"(?mx)(?:^|\s)({NUMBER})(?:\s*±\s*(\d+)%)?
        ((?:\s+[+-]\d+(?:\.\d+)?(?:e[+-]\d+)?%?\s+{NUMBER}(?:\s*±\s*\d+%)?)+)
        \s+([A-Za-z][^\s]*\.[^\s]+)"
    ))
});
static LKP_CELL: LazyLock<Regex> = LazyLock::new(|| {
    const NUMBER: &str = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?";
    pattern(&format!(r"(?mx)\s+([+-]\d+(?:\.\d+)?(?:e[+-]\d+)?)(%?)\s+({NUMBER})(?:\s*±\s*(\d+)%)?"))
});

/// Rows of the kernel test robot's tables, also when a mailer wrapped them. With three and more commits every change is
/// against the first one's column.
pub(super) fn lkp(text: &str) -> Vec<Row> {
    let rows = LKP_ROW.captures_iter(text).flat_map(|row| {
        let cells: Vec<Captures> = LKP_CELL.captures_iter(row.get(3).map_or("", |m| m.as_str())).collect();
        let rows: Vec<Row> =
            cells.iter().enumerate().filter_map(|(i, cell)| lkp_row(&row, cell, i + 1)).collect();
        rows
    });
    rows.take(ROWS_MAX).collect()
}

fn lkp_row(row: &Captures, cell: &Captures, column: usize) -> Option<Row> {
    let percent = &cell[2] == "%";
    Some(Row {
        format: Format::Lkp,
        statistic: None,
        name: row[4].into(),
        column,
        direction: Direction::Unknown,
        old: Printed::parse(&row[1])?,
        new: Printed::parse(&cell[3])?,
        old_deviation_percent: row.get(2).and_then(|m| m.as_str().parse().ok()),
        new_deviation_percent: cell.get(4).and_then(|m| m.as_str().parse().ok()),
        change: Printed::parse(&cell[1]),
        change_kind: if percent { ChangeKind::Percent } else { ChangeKind::Difference },
        starred: None,
    })
}

static BENCHSTAT_CELL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)^\s+([\d.]+)\s*([^\s\d±~+\-(]*)
        (?:\s*±\s*(\d+|∞)\s*%?\s*[¹²³⁴⁵⁶⁷⁸⁹]*)?
        (?:\s+([+-][\d.]+%|~)(?:\s+\(p=([\d.]+)\s+n=([\d+]+)\))?)?(?:\s|$)",
    )
});
static BENCHSTAT_OLD_HEAD: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^\s*name(?:\s+\\\s+\S+)?\s+old\s+(\S+)\s+new\s+\S+"));

/// Rows of benchstat's tables: `name 1.20ms ± 3% 1.10ms ± 1% -8.33% (p=0.000 n=10+10)` under a line that says what is
/// measured (`old time/op  new time/op`, or `│ sec/op │ sec/op vs base │`).
pub(super) fn benchstat(text: &str, problems: &mut Vec<String>) -> Vec<Row> {
    let (mut rows, mut measure) = (Vec::new(), String::new());
    for line in text.lines() {
        if let Some(head) = BENCHSTAT_OLD_HEAD.captures(line) {
            measure = head[1].to_string();
        } else if line.contains('│') {
            let cell = line.split('│').nth(1).unwrap_or_default().trim();
            // The line of file names comes first, the line of units is the last one above the rows.
            measure = cell.split_whitespace().next().unwrap_or_default().to_string();
        } else if rows.len() < ROWS_MAX {
            benchstat_row(line, &measure, &mut rows, problems);
        }
    }
    rows
}

/// A value with its unit resolved.
struct BenchstatCell {
    number: Printed,
    base: String,
    deviation: Option<f64>,
}

fn benchstat_row(line: &str, measure: &str, rows: &mut Vec<Row>, problems: &mut Vec<String>) {
    let trimmed = line.trim_start();
    let Some(end) = trimmed.find(char::is_whitespace) else { return };
    let (name, mut rest) = (&trimmed[..end], &trimmed[end..]);
    // Other tables have ± too; benchstat's rows have it in their first cell, except for the line of means.
    if name != "geomean" && !(line.contains('±') && (line.contains("(p=") || !measure.is_empty())) {
        return;
    }
    let (mut first, mut column): (Option<BenchstatCell>, usize) = (None, 0);
    while let Some(c) = BENCHSTAT_CELL.captures(rest) {
        rest = &rest[c[0].trim_end().len()..];
        let Some(mut number) = Printed::parse(&c[1]) else { return };
        let (factor, base) = scale(&c[2]);
        number.value *= factor;
        number.unit *= factor;
        let cell = BenchstatCell { number, base, deviation: c.get(3).and_then(|m| m.as_str().parse().ok()) };
        let Some(old) = &first else {
            first = Some(cell);
            continue;
        };
        let Some(change) = c.get(4) else { return };
        column += 1;
        if old.base != cell.base {
            problems.push(format!("{name}: mixed units, {} and {}", old.base, cell.base));
            return;
        }
        let rate = measure.ends_with("/s") || measure == "speed" || old.base == "B/s";
        rows.push(Row {
            format: Format::Benchstat,
            statistic: (!measure.is_empty()).then(|| measure.to_string()),
            name: name.into(),
            column,
            direction: if rate { Direction::Higher } else { Direction::Lower },
            old: old.number,
            new: cell.number,
            old_deviation_percent: old.deviation,
            new_deviation_percent: cell.deviation,
            change: Printed::parse(change.as_str().trim_end_matches('%')),
            change_kind: ChangeKind::Percent,
            starred: c.get(5).map(|_| change.as_str() != "~"),
        });
    }
}

/// `ms` as (1e-3, "s"); new benchstat prints the prefix alone.
fn scale(unit: &str) -> (f64, String) {
    let prefixes = [("n", 1e-9), ("µ", 1e-6), ("μ", 1e-6), ("m", 1e-3), ("k", 1e3), ("M", 1e6), ("G", 1e9)];
    let binary = [("Ki", 1024.0), ("Mi", 1_048_576.0), ("Gi", 1_073_741_824.0)];
    for (prefix, factor) in binary.into_iter().chain(prefixes) {
        if let Some(base) = unit.strip_prefix(prefix) {
            return (factor, base.to_string());
        }
    }
    (1.0, unit.to_string())
}
