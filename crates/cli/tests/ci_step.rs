//! The step that all templates of continuous integration run, and the one of `action.yml` as it stands there.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const TUSSLE: &str = env!("CARGO_BIN_EXE_tussle");
const SNAPSHOTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../layout/tests/data/snapshots");

/// The words of `check` with a rule that mm_struct breaks or keeps.
fn check(folder: &Path, apart: &str) -> Vec<String> {
    let rules = folder.join("rules.toml");
    let text = format!("[[rule]]\ntype = \"mm_struct\"\nseparate = [{apart}]\n");
    std::fs::write(&rules, text).unwrap();
    let snapshot = std::fs::read_dir(SNAPSHOTS).unwrap().map(|e| e.unwrap().path());
    let snapshot = snapshot.filter(|p| p.extension().is_some_and(|x| x == "json")).min().unwrap();
    ["check", "--rules"].map(String::from).into_iter().chain([text_of(&rules), text_of(&snapshot)]).collect()
}

fn text_of(path: &Path) -> String {
    path.to_str().unwrap().into()
}

fn step(words: &[String], environment: &[(&str, &str)]) -> Output {
    let mut sh = Command::new("sh");
    sh.arg(format!("{ROOT}/scripts/ci-step.sh")).args(words).env("TUSSLE", TUSSLE);
    sh.env_remove("GITHUB_ACTIONS").env_remove("GITHUB_STEP_SUMMARY").env_remove("GITHUB_EVENT_NAME");
    sh.envs(environment.iter().copied()).output().unwrap()
}

#[test]
fn the_status_is_tussles_and_github_gets_annotations_and_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let words = check(folder.path(), "\"mmap_lock.count\", \"mmap_lock.owner\"");
    let alone = step(&words, &[]);
    let direct = Command::new(TUSSLE).args(&words).output().unwrap();
    assert_eq!((alone.status.code(), &alone.stdout), (direct.status.code(), &direct.stdout));
    assert_eq!(alone.status.code(), Some(1), "{}", String::from_utf8_lossy(&alone.stderr));
    let summary = folder.path().join("summary.md");
    let on_github = step(&words, &[("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", &text_of(&summary))]);
    assert_eq!(on_github.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&on_github.stdout).starts_with("::error"));
    assert!(std::fs::read_to_string(summary).unwrap().contains("| **VIOLATED** |"));
    let nothing = step(&["check".into(), "--rules".into(), "/nowhere".into(), "/nowhere".into()], &[]);
    assert_eq!(nothing.status.code(), Some(2));
}

#[test]
fn no_code_of_strangers_runs_beside_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let words: Vec<String> = ["record", "--", "touch", &text_of(&mark)].map(Into::into).to_vec();
    let out = step(&words, &[("GITHUB_EVENT_NAME", "pull_request_target")]);
    assert_eq!(out.status.code(), Some(2));
    assert!(!mark.exists() && String::from_utf8_lossy(&out.stderr).contains("pull_request_target"));
}

#[test]
fn the_action_runs_its_command_as_words_and_never_as_shell() {
    let action = std::fs::read_to_string(format!("{ROOT}/action.yml")).unwrap();
    let script = action.lines().filter_map(|l| l.trim().strip_prefix("run: ")).next_back().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("tussle/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(TUSSLE, bin.join("tussle")).unwrap();
    let run = |command: &str| {
        Command::new("bash")
            .args(["-e", "-c", script])
            .env("GITHUB_ACTION_PATH", ROOT)
            .env("RUNNER_TEMP", folder.path())
            .env("STEP_COMMAND", command)
            .env_remove("GITHUB_ACTIONS")
            .env_remove("TUSSLE")
            .output()
            .unwrap()
    };
    let words = check(folder.path(), "\"mmap_lock.count\", \"mmap_lock.owner\"");
    assert_eq!(run(&words.join(" ")).status.code(), Some(1));
    let mark = folder.path().join("evil");
    let out = run(&format!("--version; touch {0} $(touch {0}) `touch {0}`", text_of(&mark)));
    assert!(!mark.exists() && out.status.code() == Some(2), "{out:?}");
}

/// By the schemas that `check-jsonschema` carries (pip), and pre-commit's own.
#[test]
fn the_templates_keep_to_their_schemas() {
    let github: &[&str] = &["--builtin-schema", "vendor.github-actions", "action.yml"];
    let gitlab: &[&str] =
        &["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci", "scripts/gitlab-ci.yml"];
    let manifest: &[&str] = &["validate-manifest", ".pre-commit-hooks.yaml"];
    for (tool, words) in
        [("check-jsonschema", github), ("check-jsonschema", gitlab), ("pre-commit", manifest)]
    {
        if !tussle_testkit::wish(tool) {
            continue;
        }
        let out = Command::new(tool).args(words).current_dir(ROOT).output().unwrap();
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stdout));
    }
}
