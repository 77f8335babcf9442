//! Results that no reader knows: any table of comma-separated values, any JSON. Which way is better nobody says.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Direction, Format, ROWS_MAX, Series};

/// Deepest nesting of JSON that is looked into.
const DEPTH_MAX: usize = 12;

/// Samples by name, in order of first appearance.
#[derive(Default)]
struct Samples {
    order: Vec<String>,
    values: BTreeMap<String, Vec<f64>>,
    count: usize,
    /// Values that are no finite numbers, and those beyond the most that are kept.
    left_out: usize,
}

impl Samples {
    fn add(&mut self, name: &str, value: f64) {
        if !value.is_finite() || self.count >= ROWS_MAX {
            self.left_out += 1;
            return;
        }
        self.count += 1;
        if !self.values.contains_key(name) {
            self.order.push(name.to_string());
        }
        self.values.entry(name.to_string()).or_default().push(value);
    }

    fn series(mut self, format: Format, problems: &mut Vec<String>) -> Vec<Series> {
        if self.left_out > 0 {
            let n = self.left_out;
            problems.push(format!("{n} values left out: no finite numbers, or more than {ROWS_MAX}"));
        }
        let take = |name: String| {
            let values = self.values.remove(&name).unwrap_or_default();
            Series { format, name, unit: String::new(), direction: Direction::Unknown, values }
        };
        self.order.into_iter().map(take).collect()
    }
}

/// Cells of a line: separated by commas, `"` around those that hold one.
pub(super) fn cells(line: &str) -> Vec<String> {
    cells_by(line, ',')
}

fn cells_by(line: &str, separator: char) -> Vec<String> {
    let mut out = vec![String::new()];
    let (mut quoted, mut chars) = (false, line.trim_end_matches('\r').chars().peekable());
    while let Some(c) = chars.next() {
        let last = out.len() - 1;
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                out[last].push('"');
            }
            '"' => quoted = !quoted,
            c if c == separator && !quoted => out.push(String::new()),
            c => out[last].push(c),
        }
    }
    out.iter().map(|c| c.trim().to_string()).collect()
}

/// A table with a line of headings. A row is one sample of every column that holds numbers; what its other columns say
/// is part of the name.
pub fn csv(text: &str, problems: &mut Vec<String>) -> Vec<Series> {
    let mut lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
    let first = lines.next().unwrap_or_default();
    let lines: Vec<&str> = lines.take(ROWS_MAX).collect();
    let separator = separator(first, lines.first().copied().unwrap_or_default());
    let headings = cells_by(first, separator);
    let rows: Vec<Vec<String>> = lines.iter().map(|l| cells_by(l, separator)).collect();
    // Who separates by semicolons writes decimals with a comma.
    let number = |cell: &String| match separator {
        ';' => cell.replacen(',', ".", 1).parse::<f64>().ok(),
        _ => cell.parse::<f64>().ok(),
    };
    let numeric: Vec<bool> = (0..headings.len())
        .map(|i| rows.iter().any(|r| r.get(i).is_some_and(|c| number(c).is_some())))
        .collect();
    let mut out = Samples::default();
    for row in &rows {
        if row.len() != headings.len() {
            problems.push(format!(
                "{} cells under {} headings: {}",
                row.len(),
                headings.len(),
                row.join(",")
            ));
            continue;
        }
        let (values, about): (Vec<_>, Vec<_>) = row.iter().enumerate().partition(|(i, _)| numeric[*i]);
        let about: Vec<&str> = about.into_iter().map(|(_, c)| c.as_str()).collect();
        for (i, cell) in values {
            match number(cell) {
                Some(value) => out.add(&name(&about, &headings[i]), value),
                None if cell.is_empty() => {}
                None => problems.push(format!("{}: {cell} is no number", headings[i])),
            }
        }
    }
    out.series(Format::Csv, problems)
}

/// What separates cells, by the line of headings and the first row: a semicolon or a tab is in both by no chance, a
/// comma may be.
fn separator(headings: &str, row: &str) -> char {
    [';', '\t'].into_iter().find(|c| headings.contains(*c) && row.contains(*c)).unwrap_or(',')
}

fn name(about: &[&str], what: &str) -> String {
    let mut words = about.to_vec();
    words.push(what);
    words.retain(|w| !w.is_empty());
    words.join(" ")
}

/// Every number of a JSON text under the path to it. Elements of a list are samples of one name; texts beside a number
/// tell elements apart.
pub fn json(text: &str, problems: &mut Vec<String>) -> Vec<Series> {
    let mut out = Samples::default();
    // Results are often written one object per line.
    let all: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    match all {
        Ok(all) => all.iter().for_each(|v| walk(v, "", &mut out, 0)),
        Err(e) => problems.push(format!("not JSON: {e}")),
    }
    out.series(Format::Json, problems)
}

fn walk(value: &Value, path: &str, out: &mut Samples, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Number(n) => n.as_f64().into_iter().for_each(|x| out.add(path, x)),
        Value::Array(all) => all.iter().for_each(|v| walk(v, path, out, depth + 1)),
        Value::Object(fields) => {
            let texts: Vec<&str> =
                fields.values().filter_map(Value::as_str).filter(|t| t.len() < 80).collect();
            let here = name(&[path], &texts.join(" "));
            for (key, inner) in fields {
                let to = if here.is_empty() { key.clone() } else { format!("{here}.{key}") };
                walk(inner, &to, out, depth + 1);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(series: Vec<Series>) -> Vec<(String, Vec<f64>)> {
        series.into_iter().map(|s| (s.name, s.values)).collect()
    }

    #[test]
    fn columns_of_numbers_are_samples() {
        let mut problems = Vec::new();
        let text =
            "bench,threads,time ms,note\nsort,a,1.5,\"x, y\"\nsort,a,1.7,\"x, y\"\nhash,b,oops,z\nhash,b\n";
        let got = seen(csv(text, &mut problems));
        assert_eq!(got, [("sort a x, y time ms".to_string(), vec![1.5, 1.7])]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert_eq!(seen(csv("ns\n3\n4\n", &mut problems)), [("ns".to_string(), vec![3.0, 4.0])]);
    }

    #[test]
    fn semicolons_and_tabs_separate_too() {
        let mut problems = Vec::new();
        let of = |name: &str, values: &[f64]| (name.to_string(), values.to_vec());
        let semicolons = seen(csv("name;time, s\na;1,5\na;2\n", &mut problems));
        assert_eq!(semicolons, [of("a time, s", &[1.5, 2.0])]);
        assert_eq!(
            seen(csv("a\tb\n1\t2\n3\t4\n", &mut problems)),
            [of("a", &[1.0, 3.0]), of("b", &[2.0, 4.0])]
        );
        let unit = seen(csv("name,t [s; wall]\na,1.5\n", &mut problems));
        assert_eq!(unit, [of("a t [s; wall]", &[1.5])], "a semicolon in a heading separates nothing");
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(seen(csv("t\n1\nnan\ninf\n", &mut problems)), [of("t", &[1.0])]);
        assert!(problems[0].starts_with("2 values left out"), "{problems:?}");
    }

    #[test]
    fn numbers_have_the_path_to_them() {
        let mut problems = Vec::new();
        let text =
            r#"{"runs": [{"case": "a", "ns": 1}, {"case": "a", "ns": 2}, {"case": "b", "ns": [3, 4]}]}"#;
        let got = seen(json(text, &mut problems));
        let of = |name: &str, values: &[f64]| (name.to_string(), values.to_vec());
        assert_eq!(got, [of("runs a.ns", &[1.0, 2.0]), of("runs b.ns", &[3.0, 4.0])]);
        let lines = "{\"t\": 1}\n{\"t\": 2}\n";
        assert_eq!(seen(json(lines, &mut problems)), [of("t", &[1.0, 2.0])]);
        assert!(problems.is_empty() && seen(json("{", &mut problems)).is_empty() && problems.len() == 1);
    }
}
