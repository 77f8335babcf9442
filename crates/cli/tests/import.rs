//! Imported evidence through the verbs that read it: report, advise, check, and the JSON of import and of the Pareto
//! table.
#![allow(clippy::unwrap_used)]

mod samples;

#[path = "../../perf/tests/support/mod.rs"]
mod support;

use samples::{AFTER, BEFORE, TABLES, json, text, tussle};
use serde_json::Value;
use std::process::Command;
use support::{Plan, file, random_plan};

#[test]
fn text_keeps_to_its_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let import = json(at, "import", &["import", "-q", TABLES, "--layout", BEFORE, "--layout", AFTER]);
    assert_eq!(import["samples"], 9520);
    let moves = import["moves"].as_array().unwrap();
    assert!(moves[0].as_str().unwrap().contains("differs by 16: 16 -> 32"), "{moves:?}");
    let pareto = json(at, "pareto", &["report", "--style", "c2c"]);
    assert_eq!(pareto["lines"][0]["contended"], 9520);
    assert_eq!(pareto["lines"][0]["total_hitm_remote"], 3729);
    let types = json(at, "types", &["report", "--style", "type"]);
    let fields = types["layouts"][0]["fields"].as_array().unwrap();
    let owner = fields.iter().find(|f| f["field"] == "i_mmap_rwsem.owner").unwrap();
    assert!(owner["hitm"] == 5093 && owner["latency_cycles"].is_u64(), "{owner}");
    assert_eq!(types["layouts"][0]["outside"], 3436, "the table counts them in no row");
    // the exchange of the two fields undone: what was sampled fails, and says which fields
    let diff = json(at, "diff", &["diff", AFTER, BEFORE, "--evidence", "tussle.data"]);
    let pairs = diff["recorded"].as_array().unwrap();
    let has = |p: &Value, a: &str| p["field"].as_str() == Some(a) || p["other"].as_str() == Some(a);
    assert!(pairs.iter().any(|p| has(p, "i_mmap.rb_leftmost") && has(p, "i_mmap_rwsem.owner")), "{diff}");
    let evidence = ["--evidence", "tussle.data"];
    assert_eq!(tussle(at, &[&["diff", AFTER, BEFORE], &evidence[..]].concat()).status.code(), Some(1));
    assert_eq!(tussle(at, &[&["diff", BEFORE, BEFORE], &evidence[..]].concat()).status.code(), Some(0));
}

/// A layout of another build fits in part: nothing is named by it, and no move is made of it.
#[test]
fn what_is_not_sure_names_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let out = tussle(at, &["import", "-q", TABLES, "--table", "2", "--layout", BEFORE]);
    assert!(text(&out).contains("stay without a name"), "{}", text(&out));
    let report = text(&tussle(at, &["report"]));
    assert!(!report.contains("address_space"), "{report}");
}

/// Three fields of one object, written and read by four threads on one line.
fn recording() -> Plan {
    let mut plan = random_plan(2, 12_000);
    for (i, s) in plan.samples.iter_mut().enumerate() {
        s.addr = 0x7f00_0000_0000 + [72, 88, 96][i % 3];
        s.ip = 0x40_0000 + 4 * (i as u64 % 3);
        // Every third sample is a store.
        s.data_src = if i % 3 == 1 { 4 | (0x2 | 0x8) << 5 } else { 2 | (0x2 | 0x40) << 5 | 0x10 << 19 };
    }
    plan
}

#[test]
fn report_advise_and_check_read_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("perf.data"), file(&recording())).unwrap();
    let object = "0x7f0000000000=struct address_space";
    let import = json(at, "import", &["import", "-q", "perf.data", "--layout", BEFORE, "--object", object]);
    assert_eq!(import["samples"], 8000);
    let report = tussle(at, &["report"]);
    let said = text(&report);
    assert!(said.contains("i_mmap_rwsem.owner") && said.contains("8,000 HITM samples"), "{said}");
    assert_eq!(report.status.code(), Some(1), "false sharing is a finding");
    let advise = tussle(at, &["advise", "-C", "struct address_space"]);
    assert_eq!(advise.status.code(), Some(0), "{}", text(&advise));
    let said = text(&advise);
    assert!(said.contains("on different bytes") && said.contains("in samples"), "{said}");
    let rule = "[[rule]]\ntype = \"struct address_space\"\nseparate = [\"i_mmap\", \"i_mmap_rwsem\"]\n";
    std::fs::write(at.join("rules.toml"), rule).unwrap();
    let check = tussle(at, &["check", "--rules", "rules.toml", BEFORE]);
    assert_eq!(check.status.code(), Some(1), "{}", text(&check));
    let folded = text(&tussle(at, &["report", "--format", "folded"]));
    assert!(folded.lines().any(|l| l.ends_with(char::is_numeric)), "{folded}");
}

#[test]
fn pipes_folders_and_several_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for seed in [1, 2] {
        std::fs::write(at.join(format!("perf.data.{seed}")), file(&random_plan(seed, 500))).unwrap();
    }
    let alone = |n: &str| json(at, "import", &["import", "-q", n])["samples"].as_u64().unwrap();
    let sum = alone("perf.data.1") + alone("perf.data.2");
    let both = json(at, "import", &["import", "-q", "perf.data.1", "perf.data.2"])["samples"].as_u64();
    assert_eq!(both, Some(sum));
    std::fs::create_dir(at.join("dir")).unwrap();
    std::fs::copy(at.join("perf.data.1"), at.join("dir/data")).unwrap();
    assert_eq!(alone("dir"), alone("perf.data.1"));
    let input = std::fs::File::open(at.join("perf.data.1")).unwrap();
    let mut piped = Command::new(env!("CARGO_BIN_EXE_tussle"));
    let out =
        piped.current_dir(at).args(["import", "-q", "-", "--format", "json"]).stdin(input).output().unwrap();
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["samples"].as_u64(), Some(alone("perf.data.1")));
    let mixed = tussle(at, &["import", "-q", "perf.data.1", TABLES]);
    assert_eq!(mixed.status.code(), Some(2));
}
