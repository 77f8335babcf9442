//! The JSON of `predict` and `calibrate` keeps to the schemas in `docs/schema`, in every shape that they have.

#![allow(clippy::unwrap_used)]

mod schema;

use serde_json::Value;
use std::process::{Command, Output};
use tussle_testkit::{need, skip};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tussle"));
    command.args(arguments).args(["--format", "json"]).output().unwrap()
}

/// Output of a run that must succeed, held against a schema.
fn check(schema: &str, arguments: &[&str]) -> Value {
    held(schema, arguments, &run(arguments))
}

fn held(schema: &str, arguments: &[&str], run: &Output) -> Value {
    let out = String::from_utf8_lossy(&run.stdout).into_owned();
    let talk = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(0), "{arguments:?}: {talk}");
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{talk}"));
    schema::keeps_to(schema, &document);
    document
}

fn data(name: &str) -> String {
    format!("{}/../scenarios/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn scenarios() {
    for (id, run) in ["mmap_lock", "i_mmap", "vma_lock", "pcp_lists"].map(|name| (name, "run_us=1000")) {
        let answer = check("predict", &["predict", id, "--cpus", "2,4", "--draws", "2", "--set", run]);
        assert_eq!(
            (&answer["scenario"], answer["curve"]["points"].as_array().unwrap().len()),
            (&id.into(), 2)
        );
        let verdict = answer["verdict"].as_str().unwrap();
        let small = |end: &str| answer["effect"][end].as_f64().unwrap().abs() < 0.01;
        let names = verdict != "undecided" || (small("low") && small("high"));
        assert!(names || answer.get("measure").is_some(), "{answer}");
    }
    let four = ["predict", "anon_vma", "--cpus", "2", "--draws", "1", "--set", "run_us=2000"];
    assert_eq!(check("predict", &four)["machine"], "4s-westmere-ex-80");
    let machines = check("machines", &["predict", "--list-machines"]);
    let guess = |m: &Value| m["source"].as_str().unwrap().starts_with("unsourced");
    assert!(machines["machines"].as_array().unwrap().iter().any(guess));
}

#[test]
fn recorded_operations() {
    let ask = |file: &str, more: &[&str]| {
        let file = data(file);
        let base = ["predict", file.as_str(), "--machine", "2s-icelake-sp-96", "--draws", "5"];
        check("predict", &[&base[..], more].concat())
    };
    // One operation takes 36 ns: too short for any verdict.
    let split = ask("two-locks.evidence", &["--after", "ideal"]);
    assert_eq!((&split["verdict"], &split["doubt"]), (&"undecided".into(), &"short".into()));
    assert_eq!(split["after"], "ideal");
    let moved = ask("two-locks.evidence", &["-C", "counters", "--move", "align:b=64", "--cpus", "2,96"]);
    assert_eq!((&moved["verdict"], &moved["effect"]["positive_share"]), (&"undecided".into(), &1.0.into()));
    assert_eq!(moved["assumptions"]["locks"]["rows"][0]["type"], "pthread_mutex_t");
    let back = ask("two-locks.evidence", &["--before", "ideal", "--after", "recorded"]);
    assert!(back["effect"]["high"].as_f64().unwrap() < 0.0, "{back}");
    let shared = ask("one-lock.evidence", &["--cpus", "16"]);
    assert_eq!(shared["verdict"], "undecided");
}

#[test]
fn recorded_operations_are_replayed_on_this_machine() {
    if !tussle_testkit::need("cc") || !tussle_testkit::need("two CPUs") {
        return;
    }
    let file = data("two-locks.evidence");
    let answer = check("replay", &["predict", &file, "-C", "counters", "--move", "align:b=64", "--check"]);
    let of = |key: &str| answer["effect"][key].as_f64().unwrap();
    assert!(of("low") < of("median") && of("median") < of("high"), "{answer}");
    assert_eq!(answer["variants"]["rows"].as_array().unwrap().len(), 12, "three kinds of work, four lengths");
    assert_eq!((&answer["verdict"], &answer["doubt"]), (&"undecided".into(), &"guessed".into()));
    // A native run tells how long an operation takes: half a second of CPU time for 1,000 operations.
    let native = "f() { i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; }; f & f; wait";
    let measured = check("replay", &["predict", &file, "--after", "ideal", "--native", native]);
    // A busy machine may not let the run on one CPU end in time.
    assert!(
        measured["think"].as_str().is_some_and(|t| t.starts_with("from") && t.contains("native")),
        "{measured}"
    );
    let decided = measured["verdict"] != "undecided";
    assert!(decided || measured["doubt"] == "effect" || measured["doubt"] == "others", "{measured}");
    assert!(measured["period_ns"].as_f64().unwrap() > 10_000.0, "{measured}");
}

#[test]
fn operations_timed_here_are_simulated_elsewhere() {
    if !need("two CPUs") {
        return;
    }
    let file = data("two-locks.evidence");
    let base =
        ["predict", file.as_str(), "--machine", "2s-icelake-sp-96", "--draws", "5", "--after", "ideal"];
    let spent = |of: &Value| of["assumptions"]["think_ns"].as_f64().unwrap();
    // Two at work at the same time, as when it was recorded.
    let work = "f() { i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; }; f & f; wait";
    let arguments = [&base[..], &["--native", work]].concat();
    let timed = run(&arguments);
    if String::from_utf8_lossy(&timed.stderr).contains("does not run on one CPU alone") {
        return skip("others use the CPUs: the run on one of them took too long");
    }
    let (guessed, measured) = (check("predict", &base), held("predict", &arguments, &timed));
    assert!(spent(&measured) > 10.0 * spent(&guessed), "{measured}");
    assert_ne!(measured["doubt"], "short", "1,000 operations in some milliseconds");
}

#[test]
fn what_hunts_predicted_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("tussle");
    std::fs::create_dir(&cache).unwrap();
    let (predicted, measured) =
        (r#"{"low":0.1,"median":0.2,"high":0.3}"#, r#"{"low":null,"median":0.5,"high":null}"#);
    let line = format!(r#"{{"command":"./a","predicted":{predicted},"measured":{measured}}}"#);
    let ask = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tussle"));
        command.args(["predict", "--kept", "--format", "json"]).env("XDG_CACHE_HOME", folder.path());
        command.output().unwrap()
    };
    assert_eq!(ask().status.code(), Some(2), "none yet");
    std::fs::write(cache.join("predictions.jsonl"), format!("{line}\nrubbish\n")).unwrap();
    let shown: Value = serde_json::from_slice(&ask().stdout).unwrap();
    schema::keeps_to("predictions", &shown);
    assert_eq!((&shown["inside"], &shown["judged"]), (&0.into(), &1.into()));
}

#[test]
fn scenarios_on_real_threads_take_layouts_of_builds() {
    let build = format!("{}/../layout/tests/data/snapshots/7.2-amd64.json", env!("CARGO_MANIFEST_DIR"));
    for id in ["mmap_lock", "i_mmap", "vma_lock", "anon_vma"] {
        // The check of all objects at the end of every run is what this is about.
        let base = ["scenario", id, "--tasks", "2", "--pairs", "2", "--after", &build];
        let measured = check("scenario", &base);
        assert!(measured["after"].as_f64().unwrap() > 0.0, "{measured}");
    }
}

#[test]
fn the_same_question_has_the_same_bytes_on_any_number_of_cores() {
    let ask = |bound: bool| {
        let tussle = env!("CARGO_BIN_EXE_tussle");
        let arguments =
            ["predict", "mmap_lock", "--cpus", "4", "--draws", "4", "--set", "run_us=50", "--format", "json"];
        let mut command = if bound { Command::new("taskset") } else { Command::new(tussle) };
        if bound {
            command.args(["-c", "0", tussle]);
        }
        command.args(arguments).output().unwrap().stdout
    };
    if !need("taskset") {
        return;
    }
    let one = ask(true);
    assert!(!one.is_empty() && one == ask(false));
}

#[test]
fn calibration() {
    if !need("two CPUs") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("here.toml");
    let profile = profile.to_str().unwrap();
    let found = check("calibrate", &["calibrate", "--noisy", "-q", "--name", "1s-here-2", "-o", profile]);
    assert!(found["latency_ns"].as_f64().unwrap() > 0.0, "{found}");
    let answer = check(
        "predict",
        &["predict", "mmap_lock", "--machine", profile, "--cpus", "1", "--draws", "1", "--set", "run_us=20"],
    );
    assert_eq!(answer["machine"], "1s-here-2");
}
