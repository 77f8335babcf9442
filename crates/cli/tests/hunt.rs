//! The whole loop as a user runs it, on the example, without the measurement (wall time is no test).

mod schema;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tallyd")
}

fn tussle(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tussle"))
        .args(arguments)
        .current_dir(dir)
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hunt(dir: &Path, more: &[&str]) -> Output {
    let source = example();
    let mut arguments = vec!["hunt", source.to_str().unwrap(), "--run", "./tallyd 300 4", "--no-bench"];
    arguments.extend(more);
    tussle(dir, &arguments)
}

#[test]
fn the_example_is_found_explained_and_patched() {
    if !tussle_testkit::need("make") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = hunt(dir.path(), &["--format", "json"]);
    let view: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    schema::keeps_to("hunt", &view);
    assert!(view["patches"].as_array().unwrap().iter().any(|p| p["before"]["stretches"].is_array()), "drawn");
    // Recorded again with all patches: everything that a layout helps is gone, neighbours on the heap, too.
    let left = view["left"].as_array().cloned().unwrap_or_default();
    assert_eq!(view["beside"], serde_json::Value::Null, "{}", text(&out.stderr));
    assert_eq!(out.status.code(), Some(0), "{left:?} {}", text(&out.stderr));
    let gone = |name: &str| left.iter().all(|l| !l["fields"].as_str().unwrap().contains(name));
    assert!(gone("worker_stats") && gone("server_stats"), "{left:?}");
    let lines = view["lines"].as_array().unwrap();
    let of = |name: &str| {
        lines.iter().filter(|l| l["fields"].as_str().unwrap().contains(name)).collect::<Vec<_>>()
    };
    let kind =
        |name: &str| of(name).iter().map(|l| l["kind"].as_str().unwrap().to_string()).collect::<Vec<_>>();
    assert!(kind("worker_stats").iter().any(|k| k == "a layout helps"), "{lines:?}");
    assert!(kind("server_stats").iter().any(|k| k == "a layout helps"), "{lines:?}");
    // Every worker writes the one counter: contended, but nothing to fix.
    assert!(kind("answer_number").iter().all(|k| k == "no layout helps: the same bytes"), "{lines:?}");
    // In which order they are repaired hangs on the run; that the workers' struct is, and well, does not.
    let patches = view["patches"].as_array().unwrap();
    let of_workers = patches.iter().find(|p| p["type"].as_str().unwrap().contains("worker_stats"));
    let of_workers = &of_workers.unwrap_or_else(|| panic!("{patches:?}"))["transfers"];
    let transfers = |what: &str| of_workers[what].as_f64().unwrap();
    assert!(transfers("before") > 1000.0 && transfers("after") < transfers("before") / 10.0, "{of_workers}");
    // The patch applies to the example as it is, and the example was not touched.
    let patch = std::fs::read_to_string(dir.path().join("tussle.patch")).unwrap();
    assert!(patch.contains("--- a/tallyd.h\n+++ b/tallyd.h\n"), "{patch}");
    // Statistics that begin on a line are allocated so.
    assert!(patch.contains("--- a/main.c\n+++ b/main.c\n") && patch.contains("aligned_alloc"), "{patch}");
    assert!(!example().join("tallyd.o").exists() && !example().join("main.o").exists());
}

#[test]
fn a_folder_without_a_makefile_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let out = tussle(dir.path(), &["hunt", "."]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--build"), "{}", text(&out.stderr));
    assert!(out.stdout.is_empty());
}

#[test]
fn a_build_that_fails_shows_its_last_lines() {
    let dir = tempfile::tempdir().unwrap();
    let out = tussle(dir.path(), &["hunt", ".", "--build", "echo no such header >&2; exit 3"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("no such header"), "{}", text(&out.stderr));
}
