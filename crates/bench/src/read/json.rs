//! hyperfine, nanobench, criterion, google benchmark, pytest-benchmark and JMH JSON.

use serde_json::Value;

use super::{Direction, Format, ROWS_MAX, Series};

/// Raw results in a JSON text.
pub(super) fn read(text: &str, problems: &mut Vec<String>) -> Vec<Series> {
    let document: Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(e) => {
            problems.push(format!("not JSON: {e}"));
            return Vec::new();
        }
    };
    let mut series = any(&document, problems);
    // A name without a sample is no result.
    series.retain(|s| {
        let any = !s.values.is_empty();
        if !any {
            let name = if s.name.is_empty() { "a result without a name" } else { &s.name };
            problems.push(format!("{name}: no samples in it"));
        }
        any
    });
    series
}

fn any(document: &Value, problems: &mut Vec<String>) -> Vec<Series> {
    let list = |key: &str| document.get(key).and_then(Value::as_array);
    let has = |all: &[Value], key: &str| all.iter().any(|x| x.get(key).is_some());
    match (document.as_array(), list("results"), list("benchmarks")) {
        (Some(all), _, _) if has(all, "primaryMetric") => jmh(all, problems),
        (_, Some(results), _) if has(results, "measurements") => nanobench(results, problems),
        (_, Some(results), _) => hyperfine(results, problems),
        (_, _, Some(benchmarks)) if has(benchmarks, "stats") => pytest(benchmarks, problems),
        (_, _, Some(benchmarks)) => google(benchmarks, problems),
        _ => criterion(document),
    }
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_string()
}

/// nanobench's JSON template: `elapsed` of a measurement is seconds per iteration.
fn nanobench(results: &[Value], problems: &mut Vec<String>) -> Vec<Series> {
    let one = |r: &Value| {
        let measurements = r.get("measurements").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let seconds = measurements.iter().take(ROWS_MAX).filter_map(|m| m.get("elapsed")?.as_f64()).collect();
        let name = text(r, "name");
        let values = usable(seconds, &name, problems);
        Series { format: Format::Nanobench, name, unit: "s".into(), direction: Direction::Lower, values }
    };
    results.iter().take(ROWS_MAX).map(one).collect()
}

/// pytest-benchmark: seconds of every round, where `--benchmark-save-data` kept them; else the mean.
fn pytest(benchmarks: &[Value], problems: &mut Vec<String>) -> Vec<Series> {
    let one = |b: &Value| {
        let stats = b.get("stats").unwrap_or(&Value::Null);
        let mut seconds = numbers(stats.get("data"));
        if seconds.is_empty() {
            seconds.extend(stats.get("mean").and_then(Value::as_f64));
        }
        let name = text(b, "fullname");
        let name = if name.is_empty() { text(b, "name") } else { name };
        let values = usable(seconds, &name, problems);
        Series {
            format: Format::PytestBenchmark,
            name,
            unit: "s".into(),
            direction: Direction::Lower,
            values,
        }
    };
    benchmarks.iter().take(ROWS_MAX).map(one).collect()
}

/// JMH: iterations of all forks; throughput is a rate, every other mode a time.
fn jmh(all: &[Value], problems: &mut Vec<String>) -> Vec<Series> {
    let one = |b: &Value| {
        let metric = b.get("primaryMetric").unwrap_or(&Value::Null);
        let forks = metric.get("rawData").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut scores: Vec<f64> = forks.iter().take(ROWS_MAX).flat_map(|f| numbers(Some(f))).collect();
        if scores.is_empty() {
            scores.extend(metric.get("score").and_then(Value::as_f64));
        }
        let params = b.get("params").and_then(Value::as_object).into_iter().flatten();
        let params = params.map(|(k, v)| format!(" {k}={}", v.as_str().unwrap_or_default()));
        let name = params.fold(text(b, "benchmark"), |name, p| name + &p);
        let direction = if text(b, "mode") == "thrpt" { Direction::Higher } else { Direction::Lower };
        let values = usable(scores, &name, problems);
        Series { format: Format::Jmh, name, unit: text(metric, "scoreUnit"), direction, values }
    };
    all.iter().take(ROWS_MAX).map(one).collect()
}

/// No sample of anything is as large, in any unit.
const SAMPLE_MAX: f64 = 1e30;

fn usable(values: Vec<f64>, name: &str, problems: &mut Vec<String>) -> Vec<f64> {
    // Sums and squares of samples must stay finite, too.
    let fine = |x: &f64| (f64::MIN_POSITIVE..SAMPLE_MAX).contains(x);
    let (good, bad): (Vec<f64>, Vec<f64>) = values.into_iter().partition(fine);
    if !bad.is_empty() {
        problems.push(format!("{name}: {} values that are not finite and positive left out", bad.len()));
    }
    good
}

/// Samples of a list; what is no number (JMH writes "NaN") is not finite, so that [`usable`] tells.
fn numbers(value: Option<&Value>) -> Vec<f64> {
    let items = value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    items.iter().take(ROWS_MAX).map(|x| x.as_f64().unwrap_or(f64::NAN)).collect()
}

fn hyperfine(results: &[Value], problems: &mut Vec<String>) -> Vec<Series> {
    let mut out = Vec::new();
    for result in results.iter().take(ROWS_MAX) {
        let name = result.get("command").and_then(Value::as_str).unwrap_or("unnamed").to_string();
        let mut values = numbers(result.get("times"));
        // A list of no runs is none, whatever mean stands beside it.
        if result.get("times").is_none() {
            values.extend(result.get("mean").and_then(Value::as_f64));
        }
        let codes = result.get("exit_codes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let failed = codes.iter().filter(|c| c.as_i64() != Some(0)).count();
        if failed > 0 {
            let all = codes.len();
            problems
                .push(format!("{name}: {failed} of its {all} runs failed; their times count all the same"));
        }
        let values = usable(values, &name, problems);
        let unit = "s".into();
        out.push(Series { format: Format::Hyperfine, name, unit, direction: Direction::Lower, values });
    }
    out
}

/// Aggregates (mean, median, stddev) are left out when single repetitions are there; else the mean counts.
fn google(benchmarks: &[Value], problems: &mut Vec<String>) -> Vec<Series> {
    let aggregate = |b: &&Value| text(b, "run_type") == "aggregate";
    let kept = benchmarks.iter().take(ROWS_MAX);
    let mut out: Vec<Series> = Vec::new();
    let singles: Vec<&Value> = kept.clone().filter(|b| !aggregate(b)).collect();
    let means = kept.filter(|b| aggregate(b) && text(b, "aggregate_name") == "mean").collect();
    for b in if singles.is_empty() { means } else { singles } {
        let mut name = text(b, "run_name");
        if name.is_empty() {
            name = text(b, "name");
        }
        if b.get("error_occurred") == Some(&Value::Bool(true)) {
            problems.push(format!("{name}: it failed: {}", text(b, "error_message")));
            continue;
        }
        let Some(time) = b.get("real_time").and_then(Value::as_f64) else {
            problems.push(format!("{name}: no real_time"));
            continue;
        };
        let unit = text(b, "time_unit");
        match out.iter_mut().find(|s| s.name == name) {
            Some(known) if known.unit == unit => known.values.push(time),
            Some(known) => problems.push(format!("{name}: mixed units, {} and {unit}", known.unit)),
            None => out.push(Series {
                format: Format::GoogleBenchmark,
                name,
                unit,
                direction: Direction::Lower,
                values: vec![time],
            }),
        }
    }
    for s in &mut out {
        let (name, values) = (s.name.clone(), std::mem::take(&mut s.values));
        s.values = usable(values, &name, problems);
    }
    out
}

/// `sample.json` (iterations and times in ns) or `estimates.json` (the mean alone).
fn criterion(document: &Value) -> Vec<Series> {
    let (iterations, times) = (numbers(document.get("iters")), numbers(document.get("times")));
    let mut values: Vec<f64> = times.iter().zip(&iterations).map(|(t, n)| t / n).collect();
    if values.is_empty() {
        values.extend(document.pointer("/mean/point_estimate").and_then(Value::as_f64));
    }
    values.retain(|x| (f64::MIN_POSITIVE..SAMPLE_MAX).contains(x));
    if values.is_empty() {
        return Vec::new();
    }
    vec![Series {
        format: Format::Criterion,
        name: "criterion".into(),
        unit: "ns".into(),
        direction: Direction::Lower,
        values,
    }]
}
