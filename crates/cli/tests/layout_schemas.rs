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
fn structs_over_kernels() {
    let kernels = ["6.1-amd64.json", "6.12-amd64.json", "7.2-amd64.json"];
    let json = check(&[&["layout", "--lines", "-C", "address_space"], &kernels[..]].concat());
    let text = json.to_string();
    let sizes: Vec<_> =
        json["types"][0]["builds"].as_array().unwrap().iter().map(|b| &b["size_bytes"]).collect();
    assert!(sizes.len() == 3 && sizes.iter().all(|s| s.as_u64().is_some_and(|n| n > 0)), "{text}");
    let lines = json["types"][0]["lines"].as_array().unwrap();
    let told =
        |l: &Value| l["builds"].as_array().unwrap().iter().any(|b| b["changes"] != serde_json::json!([]));
    assert!(lines.iter().any(told), "{text}");
}

#[test]
fn headers_orders_and_values() {
    let header = check(&["layout", "6.1-amd64.json", "--compile"]);
    assert!(header["text"].as_str().is_some_and(|t| t.contains("struct mm_struct {")));
    let orders = check(&["layout", "6.1-amd64.json", "-R", "-C", "mm_struct,address_space,per_cpu_pages"]);
    assert_eq!(orders["types"].as_array().map(Vec::len), Some(3));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml@0");
    check(&["layout", "6.1-amd64.json", "-C", "per_cpu_pages", "--data", file]);
    let listed = check(&["layout", "6.1-amd64.json", "--prefix", "mm_,per_", "--exclude", "per_cpu_pages"]);
    let names = listed["types"].as_array().into_iter().flatten().filter_map(|t| t["name"].as_str());
    assert!(
        names.clone().count() > 0 && names.into_iter().all(|n| n.contains(" mm_") || n.contains(" per_"))
    );
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
fn doubts() {
    let json = check(&["lint", "--experimental", "6.1-amd64.json", "6.12-amd64.json"]);
    assert_eq!(json["doubts"].as_u64(), Some(json["findings"].as_array().map_or(0, Vec::len) as u64));
    assert!(json["types"].as_u64() > Some(10), "{json}");
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

fn tussle(dir: &Path, args: &[&str]) -> (i32, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_tussle")).args(args).current_dir(dir).output().unwrap();
    (out.status.code().unwrap(), String::from_utf8_lossy(&out.stdout).into_owned())
}

#[test]
fn layouts_kept_in_a_repository() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(SNAPSHOTS);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("layouts")).unwrap();
    std::fs::create_dir(dir.join("build")).unwrap();
    std::fs::copy(folder.join("6.1-amd64.json"), dir.join("build/k.json")).unwrap();
    let first = ["snapshot", "build/k.json", "-C", "mm_struct,per_cpu_pages", "-o", "layouts/k.json"];
    assert_eq!(tussle(dir, &first).0, 0);
    let (code, text) = tussle(dir, &["diff", "layouts", "build", "--format", "json"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &json["types_changed"]), (0, &0.into()));
    std::fs::copy(folder.join("7.2-amd64.json"), dir.join("build/k.json")).unwrap();
    let (code, text) = tussle(dir, &["diff", "layouts", "build", "--format", "json", "--fail-on", "any"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    schema::keeps_to("diff", &json);
    assert_eq!((code, &json["types_changed"]), (1, &2.into()));
    assert!(tussle(dir, &["diff", "layouts", "build", "--format", "md"]).1.contains("mm_struct"));
    assert_eq!(tussle(dir, &["snapshot", "--update", "layouts", "build"]).0, 0);
    assert_eq!(tussle(dir, &["diff", "layouts", "build", "--fail-on", "any"]).0, 0);
    std::fs::remove_file(dir.join("build/k.json")).unwrap();
    assert_eq!(tussle(dir, &["diff", "layouts", "build"]).0, 2);
}

#[test]
fn filters_orders_and_formats() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(SNAPSHOTS);
    let sizes = |args: &[&str]| {
        let (code, text) =
            tussle(&folder, &[&["layout", "6.1-amd64.json", "--format", "json"], args].concat());
        assert_eq!(code, 0, "{args:?}");
        let json: Value = serde_json::from_str(&text).unwrap();
        let types = json["types"].as_array().unwrap().clone();
        types
            .iter()
            .map(|t| (t["name"].as_str().unwrap().to_string(), t["size_bytes"].as_u64().unwrap()))
            .collect()
    };
    let like: Vec<(String, u64)> = sizes(&["-C", "*_struct"]);
    assert!(like.len() >= 2 && like.iter().all(|(n, _)| n.ends_with("_struct")), "{like:?}");
    let holders: Vec<(String, u64)> = sizes(&["-i", "rw_semaphore"]);
    assert!(holders.iter().any(|(n, _)| n == "struct mm_struct"), "{holders:?}");
    assert!(!holders.iter().any(|(n, _)| n == "struct per_cpu_pages"), "{holders:?}");
    let sorted: Vec<(String, u64)> = sizes(&["--sort", "size"]);
    assert!(sorted.len() > 5 && sorted.is_sorted_by_key(|x| std::cmp::Reverse(x.1)), "{sorted:?}");
    for format in ["sarif", "github"] {
        assert_eq!(
            tussle(&folder, &["layout", "6.1-amd64.json", "-C", "mm_struct", "--format", format]).0,
            2
        );
    }
    let (_, page) =
        tussle(&folder, &["layout", "6.1-amd64.json", "-C", "mm_struct", "--lines", "--format", "html"]);
    assert!(page.contains("<svg") && page.contains("<rect"));
    let (_, page) =
        tussle(&folder, &["layout", "6.1-amd64.json", "-C", "mm_struct", "--lines", "--format", "md"]);
    assert!(page.contains("<code>"));
}
