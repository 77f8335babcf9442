//! What is measured, and how it is found in a benchmark's output.

use serde::{Deserialize, Serialize};

/// What a number means: decides which direction is better and how it is set in relation to CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Time or another cost for fixed work: lower is better.
    Cost,
    /// Work per time: higher is better.
    Rate,
    /// Work done in one run: higher is better.
    Total,
}

/// Where the number comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extract {
    /// Wall time of the run.
    Wall,
    /// Own CPU seconds of the run.
    Cpu,
    /// First group of a regular expression in the output; the last match counts.
    Regex(String),
    /// A JSON pointer (`/results/0/mean`) into the output.
    Json(String),
    /// The only or last number in the output.
    LastNumber,
    /// A result of this name in any raw format that [`crate::read`] knows (the only one if the name is empty); the
    /// mean of its samples.
    Read(String),
}

/// A named metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// Name with unit for people: `wall time (s)`.
    pub name: String,
    /// What it means.
    pub kind: MetricKind,
    /// Where it comes from.
    pub from: Extract,
}

impl Metric {
    /// Wall time.
    pub fn wall() -> Metric {
        Metric { name: "wall time (s)".into(), kind: MetricKind::Cost, from: Extract::Wall }
    }

    /// Own CPU time.
    pub fn cpu() -> Metric {
        Metric { name: "CPU time (s)".into(), kind: MetricKind::Cost, from: Extract::Cpu }
    }

    /// First group of `pattern` in the output.
    pub fn regex(pattern: &str, kind: MetricKind) -> Metric {
        Metric { name: format!("/{pattern}/"), kind, from: Extract::Regex(pattern.into()) }
    }

    /// Whether a larger value is better.
    pub fn higher_is_better(&self) -> bool {
        self.kind != MetricKind::Cost
    }

    /// Whether the output of the benchmark is needed at all.
    pub fn needs_output(&self) -> bool {
        !matches!(self.from, Extract::Wall | Extract::Cpu)
    }
}

/// Metrics of known benchmarks, by name: what they print on their last line of results.
pub fn known(name: &str) -> Option<Metric> {
    let (pattern, kind) = match name {
        // will-it-scale's main.c: `average:82171`, operations per second.
        "will-it-scale" => (r"^average:(\d+)", MetricKind::Rate),
        // pft's last column, faults per second of wall time.
        "pft" => (r"^\s*\d+\s+\d+\s+\d+\s+\S+s\s+\S+s\s+\S+s\s+\S+\s+(\S+)\s*$", MetricKind::Rate),
        "unixbench" => (r"^System Benchmarks Index Score.*?([\d.]+)\s*$", MetricKind::Rate),
        _ => return None,
    };
    Some(Metric { name: name.into(), ..Metric::regex(pattern, kind) })
}

/// Why a metric cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// The regular expression does not parse.
    #[error("the pattern {pattern} is not a regular expression: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The parser's words.
        reason: String,
    },
    /// Not in the output.
    #[error("{0}")]
    Missing(String),
    /// A number that no benchmark can mean.
    #[error("the metric is {0}; it must be finite and positive")]
    Value(String),
}

/// Finds the metric of a run.
#[derive(Clone, Debug)]
pub struct Extractor {
    from: Extract,
    regex: Option<regex::Regex>,
}

impl Extractor {
    /// Checks the metric's pattern.
    pub fn new(metric: &Metric) -> Result<Extractor, MetricError> {
        let pattern = match &metric.from {
            Extract::Regex(pattern) => Some(pattern.as_str()),
            Extract::LastNumber => Some(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"),
            _ => None,
        };
        let compile = |pattern: &str| {
            let built = regex::RegexBuilder::new(pattern).multi_line(true).size_limit(1 << 20).build();
            built.map_err(|e| MetricError::Pattern { pattern: pattern.into(), reason: e.to_string() })
        };
        Ok(Extractor { from: metric.from.clone(), regex: pattern.map(compile).transpose()? })
    }

    /// The metric of a run with this wall and CPU time and output.
    pub fn value(&self, wall_s: f64, cpu_s: Option<f64>, output: &str) -> Result<f64, MetricError> {
        let missing = |what: String| MetricError::Missing(what);
        let found = match &self.from {
            Extract::Wall => wall_s,
            Extract::Cpu => cpu_s.ok_or_else(|| missing("the CPU time is unknown".into()))?,
            Extract::Json(pointer) => json_number(output, pointer)?,
            Extract::Read(name) => read_result(output, name)?,
            Extract::Regex(_) | Extract::LastNumber if output.trim().is_empty() => {
                return Err(missing("it printed nothing".into()));
            }
            Extract::Regex(pattern) => {
                self.last_match(output).ok_or_else(|| missing(format!("nothing matches /{pattern}/")))?
            }
            Extract::LastNumber => {
                self.last_match(output).ok_or_else(|| missing("it printed no number".into()))?
            }
        };
        if found.is_finite() && found > 0.0 { Ok(found) } else { Err(MetricError::Value(found.to_string())) }
    }

    fn last_match(&self, output: &str) -> Option<f64> {
        let captures = self.regex.as_ref()?.captures_iter(output).last()?;
        let text = captures.get(1).or_else(|| captures.get(0))?.as_str();
        text.trim().replace(',', "").parse().ok()
    }
}

fn read_result(output: &str, name: &str) -> Result<f64, MetricError> {
    let missing = |what: String| MetricError::Missing(what);
    let (document, _) = crate::read::read(output).map_err(|e| missing(e.to_string()))?;
    let names: Vec<&str> = document.series.iter().map(|s| s.name.as_str()).collect();
    let found = match document.series.as_slice() {
        [only] if name.is_empty() => Some(only),
        all => all.iter().find(|s| s.name == name),
    };
    let found = found.ok_or_else(|| match names.len() {
        0 => missing("there are no raw results in it".into()),
        _ if name.is_empty() => {
            missing(format!("several results: choose by read:NAME from {}", names.join(", ")))
        }
        _ => missing(format!("no result is called {name}; there are {}", names.join(", "))),
    })?;
    tussle_stats::mean(&found.values).ok_or_else(|| MetricError::Value(format!("{:?}", found.values)))
}

fn json_number(output: &str, pointer: &str) -> Result<f64, MetricError> {
    let start = output.find(['{', '[']).unwrap_or(0);
    let mut documents = serde_json::Deserializer::from_str(&output[start..]).into_iter::<serde_json::Value>();
    let document = match documents.next() {
        Some(Ok(value)) => value,
        Some(Err(e)) => return Err(MetricError::Missing(format!("its output is not JSON: {e}"))),
        None => return Err(MetricError::Missing("it printed nothing".into())),
    };
    let at = document.pointer(pointer).and_then(serde_json::Value::as_f64);
    at.ok_or_else(|| MetricError::Missing(format!("no number at {pointer}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: Extract, output: &str, expect: Result<f64, &str>) {
        let metric = Metric { name: "m".into(), kind: MetricKind::Rate, from };
        let got = Extractor::new(&metric).unwrap().value(1.5, Some(0.5), output).map_err(|e| e.to_string());
        assert_eq!(got, expect.map_err(str::to_string));
    }

    #[test]
    fn numbers_are_found_or_their_absence_is_explained() {
        check(Extract::Wall, "", Ok(1.5));
        check(Extract::Cpu, "", Ok(0.5));
        check(Extract::Regex(r"average:(\d+)".into()), "average:82171\n", Ok(82171.0));
        check(Extract::Regex(r"ops: ([\d,]+)".into()), "ops: 1\nops: 1,234\n", Ok(1234.0));
        check(Extract::Regex("x=(.*)".into()), "", Err("it printed nothing"));
        check(Extract::Regex("x=(.*)".into()), "y=1", Err("nothing matches /x=(.*)/"));
        check(Extract::Json("/a/0".into()), "noise {\"a\":[2.5]}", Ok(2.5));
        check(Extract::Json("/b".into()), "{\"a\":1}", Err("no number at /b"));
        check(Extract::LastNumber, "took 3 s, 1.5e3 ops", Ok(1500.0));
        let go = "BenchmarkA-2 100 20 ns/op 8 B/op\nBenchmarkA-2 100 5 ns/op 8 B/op\n";
        check(Extract::Read("A-2 ns/op".into()), go, Ok(12.5));
        check(
            Extract::Read(String::new()),
            go,
            Err("several results: choose by read:NAME from A-2 ns/op, A-2 B/op"),
        );
        check(Extract::Read("x".into()), go, Err("no result is called x; there are A-2 ns/op, A-2 B/op"));
        check(Extract::Read(String::new()), "testcase:a\naverage:7\n", Ok(7.0));
        check(Extract::Read(String::new()), "", Err("the file is empty"));
        check(Extract::LastNumber, "nan", Err("it printed no number"));
        check(
            Extract::Json("/a".into()),
            "{\"a\":-1}",
            Err("the metric is -1; it must be finite and positive"),
        );
    }

    #[test]
    fn a_bad_pattern_is_an_error() {
        let error = Extractor::new(&Metric::regex("(", MetricKind::Rate)).unwrap_err();
        assert!(error.to_string().starts_with("the pattern ( is not a regular expression"));
    }
}
