//! SARIF 2.1.0 (OASIS standard), as code scanning services read it: findings only.

use crate::json::{Json, level};
use crate::tree::{Finding, View};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

pub(crate) fn render(view: &View) -> String {
    let findings = crate::findings(view);
    let mut rules: Vec<(&str, Option<&str>)> =
        findings.iter().map(|f| (f.rule.as_str(), f.help.as_deref())).collect();
    rules.sort_unstable();
    rules.dedup_by_key(|r| r.0);
    let driver = object([
        ("name", Json::text("tussle")),
        ("version", Json::text(env!("CARGO_PKG_VERSION"))),
        ("rules", Json::Array(rules.iter().map(rule).collect())),
    ]);
    let run = object([
        ("tool", object([("driver", driver)])),
        ("results", Json::Array(findings.iter().map(|f| result(f)).collect())),
    ]);
    let log = object([
        ("$schema", Json::text(SCHEMA)),
        ("version", Json::text("2.1.0")),
        ("runs", Json::Array(vec![run])),
    ]);
    log.pretty()
}

fn rule((id, help): &(&str, Option<&str>)) -> Json {
    let mut fields = vec![("id", Json::text(*id))];
    fields.extend(help.map(|text| ("help", object([("text", Json::text(text))]))));
    object(fields)
}

fn result(f: &Finding) -> Json {
    let mut fields = vec![
        ("ruleId", Json::text(&f.rule)),
        ("level", Json::text(level(f.level))),
        ("message", object([("text", Json::text(&f.message))])),
    ];
    if let Some(print) = &f.fingerprint {
        fields.push(("partialFingerprints", object([("tussle/v1", Json::text(print))])));
    }
    if let Some(file) = &f.file {
        let mut physical = vec![("artifactLocation", object([("uri", Json::text(uri(file)))]))];
        if let Some(line) = f.line.filter(|l| *l > 0) {
            physical.push(("region", object([("startLine", Json::Value(line.into()))])));
        }
        let location = object([("physicalLocation", object(physical))]);
        fields.push(("locations", Json::Array(vec![location])));
    }
    object(fields)
}

/// A path as a URI reference: absolute ones get a scheme, bytes outside the unreserved set are escaped.
fn uri(path: &str) -> String {
    let mut out = if path.starts_with('/') { "file://".to_string() } else { String::new() };
    for b in path.bytes() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'+' => {
                out.push(b as char)
            }
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
    Json::Object(fields.into_iter().map(|(k, v)| (k.to_string(), v)).collect())
}
