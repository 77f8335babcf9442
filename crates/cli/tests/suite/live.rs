//! `tussle live` on programs whose truth is known by construction (`suite/`), as the compiler leaves them at -O2.
//!
//! A twin counts if it loses time on this machine: its work takes at least [`EFFECT_MIN`] longer than that of the fixed
//! one. Those programs are skipped by name whose work cannot be repeated, and that others' use of the CPUs hides.

use super::judge::Outcome;
use super::manifest::{Case, Manifest, Twin};
use super::run::{Setting, Workshop};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tussle_testkit::skip;

/// Least loss of time of a fight, and interleaved pairs that show it.
const EFFECT_MIN: f64 = 0.05;
const PAIRS: usize = 9;
/// Of so many pairs this one, from the smallest, is below the median with 98% (sign test).
const LOWER: usize = 1;
/// A run of a pair, and of what is watched, s.
const RUN_S: f64 = 0.3;
const WATCHED_S: f64 = 14.0;
const TIMES_MAX: u64 = 1 << 22;
/// Share of fights that have to be found and named.
const FOUND_MIN: f64 = 0.95;

/// All of them, one by one.
pub fn all() {
    let (mut rows, workshop) = (Vec::new(), Workshop::new());
    let layouts = |c: &&Case| c.instrumented && c.buggy == "layout";
    for case in Manifest::read().chosen().filter(layouts) {
        match judge(&workshop, case) {
            Ok(row) => {
                println!("{}", row.words);
                rows.push(row);
            }
            Err(why) => skip(&format!("{} {}: {why}", case.source, case.flags.join(" "))),
        }
    }
    let found = rows.iter().filter(|r| r.found).count();
    let accused = rows.iter().filter(|r| r.accused).count();
    println!("{} programs fight here: {found} found and named, {accused} fixed ones accused", rows.len());
    assert!(!rows.is_empty(), "nothing fights here");
    if whatever_it_costs() {
        return;
    }
    assert!(found as f64 >= FOUND_MIN * rows.len() as f64 && accused == 0);
}

/// All are watched, also what is not known to fight here: for a busy machine, where nothing can be required.
fn whatever_it_costs() -> bool {
    std::env::var_os("TUSSLE_LIVE_UNMEASURED").is_some()
}

struct Row {
    words: String,
    found: bool,
    accused: bool,
}

fn judge(workshop: &Workshop, case: &Case) -> Result<Row, String> {
    let twins = case.twins(true);
    let [buggy, fixed] = twins.as_slice() else { return Err("no twin".into()) };
    let built = |twin: &Twin| workshop.build(case, twin, &Setting::bare());
    let programs = [built(buggy)?, built(fixed)?];
    let times = times(&programs[0])?;
    let mut effects = vec![0.0; PAIRS];
    if !whatever_it_costs() {
        effects = self::effects(&programs, times)?;
        if effects[LOWER] < EFFECT_MIN {
            return Err(format!("no fight here: its fixed twin gains {}", percent(&effects)));
        }
    }
    let [found, other] = [0, 1].map(|k| watch(workshop, case, &programs[k], times));
    let (found, other) = (found?, other?);
    let row =
        Row { found: found.status == 1 && found.named, accused: other.status == 1, words: String::new() };
    let words = format!(
        "{} {}: gains {}; {}: {}; fixed: exit {} {}",
        case.source,
        case.flags.join(" "),
        percent(&effects),
        if row.found { "found" } else { "MISSED" },
        found.classes.first().map_or("nothing", String::as_str),
        other.status,
        if row.accused { "ACCUSED" } else { "" },
    );
    Ok(Row { words, ..row })
}

fn percent(sorted: &[f64]) -> String {
    let at = |k: usize| sorted[k] * 100.0;
    format!("{:+.0}% ({:+.0} to {:+.0}%)", at(sorted.len() / 2), at(LOWER), at(sorted.len() - 1 - LOWER))
}

/// How often the work must be repeated to take [`RUN_S`].
fn times(program: &Path) -> Result<u64, String> {
    let mut times = 1;
    while seconds(program, times)? < RUN_S {
        times *= 4;
        if times > TIMES_MAX {
            return Err("its work cannot be repeated".into());
        }
    }
    Ok(times)
}

/// By how much the buggy one takes longer, from least to most.
fn effects(programs: &[PathBuf; 2], times: u64) -> Result<Vec<f64>, String> {
    let mut out = Vec::new();
    for pair in 0..PAIRS {
        let mut took = [0.0; 2];
        for k in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            took[k] = seconds(&programs[k], times)?;
        }
        out.push(took[0] / took[1] - 1.0);
    }
    out.sort_by(f64::total_cmp);
    Ok(out)
}

fn seconds(program: &Path, times: u64) -> Result<f64, String> {
    let begun = Instant::now();
    let mut child = std::process::Command::new(program)
        .args(["2", &times.to_string()])
        .stdout(std::process::Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) if status.success() => return Ok(begun.elapsed().as_secs_f64()),
            Some(status) => return Err(format!("its work cannot be repeated: {status}")),
            None if begun.elapsed() > Duration::from_secs(20) => {
                child.kill().and_then(|()| child.wait()).map_err(|e| e.to_string())?;
                return Err("its work cannot be repeated: it waits for ever".into());
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// What a report says of ten seconds of it.
fn watch(workshop: &Workshop, case: &Case, program: &Path, times: u64) -> Result<Outcome, String> {
    let more = (times as f64 * WATCHED_S / seconds(program, times)?) as u64;
    let tussle = || workshop.command(env!("CARGO_BIN_EXE_tussle"));
    let mut live = tussle();
    live.args(["live", "-o", "live.data", "--duration", "10s", "--"])
        .arg(program)
        .args(["2", &more.to_string()]);
    let live = live.output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&live.stderr).into_owned();
    assert!(live.status.success(), "{}: {said}", case.source);
    let report =
        tussle().args(["report", "--format", "json", "live.data"]).output().map_err(|e| e.to_string())?;
    let status = report.status.code().unwrap_or(-1);
    let outcome = Outcome::new(status, &report.stdout, "", case.pair.as_ref());
    Ok(Outcome { named: outcome.named || lists(&report.stdout, case.pair.as_ref()), ..outcome })
}

/// Some fight that a layout ends has both fields among its own. A title has two; of three that samples find equally
/// often, chance says which.
fn lists(report: &[u8], pair: Option<&[String; 2]>) -> bool {
    let view: serde_json::Value = serde_json::from_slice(report).unwrap_or_default();
    let fights =
        view["live_lines"].as_array().into_iter().flatten().filter(|f| f["class"] == "a layout helps");
    let has = |fight: &serde_json::Value, name: &String| {
        let mut fields = fight["fields"].as_array().into_iter().flatten().filter_map(|f| f["field"].as_str());
        fields.any(|f| f.contains(name.as_str()))
    };
    pair.is_some_and(|p| fights.into_iter().any(|f| p.iter().all(|name| has(f, name))))
}
