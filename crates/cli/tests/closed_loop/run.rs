//! One case: record, predict, measure.

use super::cases::Case;
use super::score::{Outcome, Truth};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const TUSSLE: &str = env!("CARGO_BIN_EXE_tussle");
/// Evidence of the case that was recorded last.
const DATA: &str = "case.data";
/// Pairs of one session of `bench`.
const PAIRS: &str = "12";

/// Runs a program; its output, or what went wrong.
fn run(command: &mut Command) -> Result<String, String> {
    let out = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    // `bench` ends with 1 where the second is slower: an answer, no failure.
    if out.status.code().is_some_and(|c| c < 2) {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let talk = String::from_utf8_lossy(&out.stderr);
    Err(talk.lines().last().unwrap_or("failed without a word").to_string())
}

fn json(command: &mut Command) -> Result<Value, String> {
    serde_json::from_str(&run(command.args(["--format", "json"]))?).map_err(|e| e.to_string())
}

fn build(case: &Case, compiler: &[&str], more: &[&str], to: &Path) -> Result<(), String> {
    let mut cc = Command::new(compiler[0]);
    cc.args(&compiler[1..]).args(["-O2", "-g", "-pthread"]).args(&case.defines).args(more);
    run(cc.arg(&case.source).arg("-o").arg(to)).map(drop)
}

/// One session: the effect on throughput with its 95% interval.
fn session(before: &str, after: &str, folder: &Path, seed: u32) -> Result<Truth, String> {
    let mut bench = Command::new(TUSSLE);
    bench.args(["bench", "-q", "--pairs", PAIRS, "--seed", &seed.to_string(), "--no-counters"]);
    bench
        .arg("-o")
        .arg(folder.join("bench.jsonl"))
        .args([format!("before={before}"), format!("after={after}")]);
    let answer = json(&mut bench)?;
    let ratio = &answer["comparisons"][0]["ratio"];
    // Ratios of times; throughput is their inverse.
    let effect = |key: &str| ratio[key].as_f64().map(|r| 1.0 / r - 1.0).ok_or(format!("no {key}: {answer}"));
    Ok((effect("high")?, effect("ratio")?, effect("low")?))
}

/// Two sessions: the union of their intervals, and the median between them.
fn truth(before: &str, after: &str, folder: &Path) -> Result<Truth, String> {
    let (a, b) = (session(before, after, folder, 1)?, session(before, after, folder, 2)?);
    let median = ((1.0 + a.1) * (1.0 + b.1)).sqrt() - 1.0;
    Ok((a.0.min(b.0), median, a.2.max(b.2)))
}

/// What is predicted of a case.
fn outcome(case: &Case, truth: Option<Truth>) -> Outcome {
    Outcome {
        name: case.name.clone(),
        program: case.program(),
        predicted: None,
        truth,
        verdict: "undecided".into(),
        kept_its_word: true,
        problem: None,
    }
}

/// Records and predicts; never an error of the test, always an outcome of the loop.
pub fn case(case: &Case, folder: &Path) -> Outcome {
    let mut outcome = outcome(case, None);
    outcome.problem = all(case, folder, &mut outcome).err();
    outcome
}

/// The case that was recorded last, simulated on a machine by name or on that of a profile's file.
pub fn simulated(case: &Case, truth: Option<Truth>, machine: &str, folder: &Path) -> Outcome {
    let mut outcome = outcome(case, truth);
    outcome.problem = predict(case, folder, &["--machine", machine, "--cpus", "2"], &mut outcome).err();
    outcome
}

fn line(case: &Case, program: &Path) -> String {
    format!("{} {}", program.display(), case.operations)
}

fn all(case: &Case, folder: &Path, outcome: &mut Outcome) -> Result<(), String> {
    let at = |name: &str| folder.join(name);
    let (recorded, before, after) = (at("recorded"), at("before"), at("after"));
    std::fs::remove_file(at(DATA)).ok();
    build(case, &[TUSSLE, "cc"], &[], &recorded)?;
    build(case, &["cc"], &[], &before)?;
    build(case, &["cc"], &["-DFIXED"], &after)?;
    outcome.truth = Some(truth(&line(case, &before), &line(case, &after), folder)?);
    let mut record = Command::new(TUSSLE);
    run(record
        .args(["record", "-q", "-o"])
        .arg(at(DATA))
        .arg("--")
        .arg(&recorded)
        .args(case.operations.split(' ')))?;
    predict(case, folder, &[], outcome)
}

fn predict(case: &Case, folder: &Path, on: &[&str], outcome: &mut Outcome) -> Result<(), String> {
    let mut predict = Command::new(TUSSLE);
    predict
        .args(["predict", "-q", "--check", "--native", &line(case, &folder.join("before"))])
        .arg(folder.join(DATA))
        .arg("--after")
        .arg(folder.join("after"))
        .args(on);
    let answer = json(&mut predict)?;
    let of = |key: &str| answer["effect"][key].as_f64().ok_or(format!("no {key}"));
    outcome.predicted =
        Some((of("low")?, of("median")?, of("high")?, answer["error"].as_f64().unwrap_or(1.0)));
    outcome.verdict = answer["withheld"].as_str().unwrap_or("undecided").into();
    outcome.kept_its_word = answer["verdict"] == answer["withheld"]
        || answer["verdict"] == "undecided" && answer["doubt"].is_string();
    Ok(())
}
