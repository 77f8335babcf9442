//! What `--format json` prints is what docs/schema says.

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
    let schema = folder.join("../../../../../docs/schema").join(kind).with_extension("json");
    let schema: Value = serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
    let mut errors = Vec::new();
    validate(&schema, &json, kind, &mut errors);
    assert!(errors.is_empty(), "{what}\n{}", errors.join("\n"));
    json
}

/// JSON Schema (draft 2020-12) as far as our schemas use it; any other keyword is an error, lest it be overlooked.
fn validate(schema: &Value, json: &Value, at: &str, errors: &mut Vec<String>) {
    for (keyword, want) in schema.as_object().unwrap_or_else(|| panic!("{at}: a schema is an object")) {
        let fits = match keyword.as_str() {
            "$schema" | "title" | "description" | "properties" => true,
            "const" => json == want,
            "enum" => want.as_array().unwrap().contains(json),
            "type" => {
                want.as_array().map_or_else(|| is_a(json, want), |any| any.iter().any(|t| is_a(json, t)))
            }
            "minimum" => json.as_f64().is_none_or(|n| n >= want.as_f64().unwrap()),
            "required" => {
                let missing = |k: &&Value| json.is_object() && json.get(k.as_str().unwrap()).is_none();
                !want.as_array().unwrap().iter().any(|k| missing(&k))
            }
            "items" => {
                for (i, item) in json.as_array().into_iter().flatten().enumerate() {
                    validate(want, item, &format!("{at}[{i}]"), errors);
                }
                true
            }
            "additionalProperties" => true,
            _ => panic!("{at}: keyword {keyword} is not known here"),
        };
        if !fits {
            errors.push(format!("{at}: {keyword} {want}: {json:.100}"));
        }
    }
    for (key, value) in json.as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        match (schema["properties"].get(key), &schema["additionalProperties"]) {
            (Some(schema), _) => validate(schema, value, &at, errors),
            (None, Value::Bool(false)) => errors.push(format!("{at} is not in the schema")),
            (None, Value::Null | Value::Bool(true)) => {}
            (None, schema) => validate(schema, value, &at, errors),
        }
    }
}

fn is_a(json: &Value, kind: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => json.is_null(),
        "boolean" => json.is_boolean(),
        "integer" => json.is_i64() || json.is_u64(),
        "number" => json.is_number(),
        "string" => json.is_string(),
        "array" => json.is_array(),
        "object" => json.is_object(),
        other => panic!("type {other}"),
    }
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
        println!("skipped: /sys/kernel/slab");
    }
}

#[test]
fn differences() {
    check(&["diff", "6.1-amd64.json", "6.12-amd64.json"]);
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
