//! `tussle hunt` on every program that a layout helps.

use super::manifest::Manifest;
use super::run::Workshop;
use serde_json::Value;
use tussle_testkit::skip;

/// Prints a row for each program; none is worse than before, and whatever stays has its reason.
pub fn all() {
    let workshop = Workshop::new();
    let (mut repaired, mut partly, mut left) = (0, 0, 0);
    for case in Manifest::read().cases.iter().filter(|c| c.buggy == "layout" && c.instrumented) {
        let name = format!("{} {}", case.source, case.flags.join(" "));
        let (status, said) = workshop.hunt(case).unwrap();
        if status == 2 {
            skip(&format!("{name}: nothing was seen here"));
            continue;
        }
        let (patches, stays) = (rows(&said, "patches"), rows(&said, "left"));
        println!("{name}: status {status}");
        for p in patches {
            let (before, after) = (number(p, "before"), number(p, "after"));
            println!("    {}: {before:.0} to {after:.0}", p["edit"].as_str().unwrap_or_default());
            assert!(after < before, "{name}: worse");
        }
        for l in stays {
            let because = l["because"].as_str().unwrap_or_default();
            println!("    left: {}: {because}", l["fields"].as_str().unwrap_or_default());
            assert!(!because.is_empty(), "{name}: no reason");
        }
        match (patches.is_empty(), stays.is_empty()) {
            (_, true) => repaired += 1,
            (false, _) => partly += 1,
            (true, _) => left += 1,
        }
    }
    println!("repaired {repaired}, partly {partly}, not {left}");
}

fn rows<'a>(said: &'a Value, key: &str) -> &'a [Value] {
    said[key].as_array().map_or(&[], Vec::as_slice)
}

fn number(patch: &Value, key: &str) -> f64 {
    patch["transfers"][key].as_f64().unwrap_or_default()
}
