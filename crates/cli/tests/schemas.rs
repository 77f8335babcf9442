//! The JSON of the benchmark verbs keeps to the schemas in `docs/schema`.

#![allow(clippy::unwrap_used)]

mod schema;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn check(folder: &Path, schema: &str, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tussle"));
    let run = command.current_dir(folder).args(arguments).args(["--format", "json"]).output().unwrap();
    let out = String::from_utf8_lossy(&run.stdout).into_owned();
    let talk = String::from_utf8_lossy(&run.stderr);
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{talk}"));
    schema::keeps_to(schema, &document);
    document
}

fn data(name: &str) -> String {
    format!("{}/../bench/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn bench_and_compare() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let number = ["--metric", "last-number", "--warmup", "0"];
    let arms = ["bench", "-q", "a=echo 10$(($$ % 10))", "b=echo 10$(($$ % 10))", "c=echo 20$(($$ % 10))"];
    check(at, "bench", &[&arms[..], &number, &["--pairs", "9"]].concat());
    check(at, "compare", &["compare", "tussle-bench.jsonl", "--margin", "5"]);
    fs::rename(at.join("tussle-bench.jsonl"), at.join("first.jsonl")).unwrap();
    check(at, "bench", &[&arms[..], &number, &["--pairs", "9"]].concat());
    check(at, "sessions", &["compare", "--join", "first.jsonl", "tussle-bench.jsonl"]);
    check(at, "bench", &[&arms[..4], &number, &["--pairs", "3", "--aa"]].concat());
    check(at, "bench", &[&arms[..4], &number, &["--until", "decided", "--pairs-max", "12"]].concat());
    let alone = check(at, "bench", &[&arms[..3], &number, &["--pairs", "6", "--aa"]].concat());
    assert!(alone["noise"]["pairs"] == 6 && alone.get("comparisons").is_none(), "{alone}");
    let scaling = ["workload", "-q", "sem_ops", "--tasks", "1,2", "--pairs", "2", "--seconds", "0.2"];
    let curve = check(at, "scaling", &[&scaling[..], &["--mode", "both"]].concat());
    assert_eq!(curve["points"].as_array().unwrap().len(), 4);
}

#[test]
fn foreign_results() {
    let here = Path::new(".");
    let go = data("real/go_bench.txt");
    check(here, "compare_results", &["compare", &go, &go]);
    let folder = data("tables");
    let mut read = 0;
    for entry in fs::read_dir(&folder).unwrap().chain(fs::read_dir(data("real")).unwrap()) {
        let path = entry.unwrap().path().display().to_string();
        let found = check(here, "audit", &["compare", "--read", &path]);
        assert_eq!(
            (&found["changes_wrong"], &found["coefficients_contradicted"]),
            (&0.into(), &0.into()),
            "{path}"
        );
        read += 1;
    }
    assert!(read >= 25, "{read}");
}

#[test]
fn a_history_with_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let line = |i: usize| {
        let level = if i < 8 { 100.0 } else { 90.0 };
        let values = [level, level + 0.1 * i as f64];
        format!(
            r#"{{"tussle_history":1,"commit":"{i:040}","subject":"change {i}","name":"n","metric":"ops/s",
            "higher_is_better":true,"values":{values:?}}}"#
        )
        .replace('\n', " ")
    };
    let text: String = (0..16).map(|i| line(i) + "\n").collect();
    fs::write(folder.path().join("tussle-history.jsonl"), text + "nonsense\n").unwrap();
    let history = check(folder.path(), "history", &["history"]);
    assert_eq!(history["series"][0]["changes"][0]["subject"], "change 8");
}
