//! The JSON of the layout verbs keeps to the schemas in `docs/schema`.

#![allow(clippy::unwrap_used)]

mod schema;

use serde_json::Value;
use std::path::Path;
use std::process::Command;

const SNAPSHOTS: &str = "../layout/tests/data/snapshots";

/// Prints `args` as JSON and holds it against the schema that `kind` names.
fn check(args: &[&str]) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(SNAPSHOTS);
    let out = Command::new(env!("CARGO_BIN_EXE_tussle"))
        .args(args)
        .args(["--format", "json"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let what = format!("{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    assert!(out.status.code().is_some_and(|c| c < 2), "{what}");
    let json: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{what}: {e}"));
    let kind = json["kind"].as_str().unwrap_or_else(|| panic!("{what}: no kind"));
    schema::keeps_to(kind, &json);
    json
}

#[test]
fn layouts() {
    let json = check(&["layout", "6.1-amd64.json", "-C", "mm_struct,address_space"]);
    assert_eq!(json["types"].as_array().map(Vec::len), Some(2));
    check(&["layout", "6.1-amd64.json"]);
    let json = check(&["layout", "6.12-amd64.json", "-C", "address_space", "--lines"]);
    assert_eq!(json["types"][0]["layouts"].as_array().map(Vec::len), Some(8));
    check(&["layout", "6.12-amd64.json", "-C", "mm_struct", "--phase", "16", "-c", "128"]);
    if Path::new("/sys/kernel/slab").is_dir() {
        check(&["layout", "6.12-amd64.json", "-C", "address_space", "--slab", "/sys/kernel/slab"]);
    } else {
        tussle_testkit::skip("there is no /sys/kernel/slab");
    }
}

#[test]
fn differences() {
    let whole = check(&["diff", "6.1-amd64.json", "6.12-amd64.json"]);
    assert!(whole["types_changed"].as_u64() >= whole["causes_count"].as_u64());
    check(&["diff", "6.1-amd64.json", "6.12-amd64.json", "-C", "mm_struct,per_cpu_pages"]);
    let same = check(&["diff", "6.1-amd64.json", "6.1-amd64.json", "-C", "mm_struct"]);
    assert_eq!(same["types"][0]["fields"].as_array().map(Vec::len), Some(0));
    let hot =
        ["diff", "6.1-amd64.json", "7.2-amd64.json", "-C", "address_space", "--hot", "i_mmap,i_mmap_rwsem"];
    assert!(check(&hot)["types"][0]["now_apart"].as_array().is_some_and(|a| !a.is_empty()));
}

#[test]
fn rules_and_places() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/linux-mm.toml");
    let json = check(&["check", "--rules", rules, "6.1-amd64.json", "7.2-arm64.json"]);
    assert_eq!((&json["builds"], &json["failed"]), (&2.into(), &5.into()));
    check(&["check", "--rules", rules, "--emit", "c"]);
    check(&["place", "6.1-amd64.json", "7.2-amd64.json", "-C", "vm_area_struct", "--field", "int x"]);
    check(&["place", "6.1-amd64.json", "-C", "mm_struct", "--field", "char x"]);
}

/// 1 for new sharing of named fields, of rules' fields or with --fail-on any; 2 without a common type.
#[test]
fn statuses_of_diff() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(SNAPSHOTS);
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/linux-mm.toml");
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.json");
    let small = r#"{"tussle_snapshot":1,"roots":[2],"table":{"pointer_size":8,"types":["Void",
        {"Base":{"name":"int","size":4,"encoding":"Signed"}},
        {"Aggregate":{"kind":"Struct","name":"lonely","size":4,"members":[{"name":"x","ty":1,"offset_bits":0}]}}]}}"#;
    std::fs::write(&other, small).unwrap();
    let status = |args: &[&str]| {
        let mut tussle = Command::new(env!("CARGO_BIN_EXE_tussle"));
        let out = tussle.arg("diff").args(args).current_dir(&folder).output().unwrap();
        out.status.code().unwrap()
    };
    let both = ["6.1-amd64.json", "7.2-amd64.json"];
    let with = |more: &[&str]| status(&[&both, more].concat());
    assert_eq!(with(&[]), 0);
    assert_eq!(with(&["--fail-on", "any"]), 1);
    assert_eq!(status(&["6.1-amd64.json", "6.1-amd64.json", "--fail-on", "any"]), 0);
    let hot = |fields| with(&["-C", "address_space", "--hot", fields]);
    assert_eq!((hot("i_mmap,i_mmap_rwsem.osq"), hot("i_pages.xa_lock,nrpages")), (1, 0));
    assert_eq!(
        status(&["7.2-amd64.json", "6.1-amd64.json", "--rules", rules]),
        1,
        "the tree joins its lock's owner"
    );
    assert_eq!(status(&["6.1-amd64.json", "6.1-amd64.json", "--rules", rules]), 0);
    assert_eq!(status(&["6.1-amd64.json", other.to_str().unwrap()]), 2);
}
