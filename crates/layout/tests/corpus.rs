//! Replays the corpus of the rules' fuzz target.

#[path = "../../../fuzz/replay.rs"]
mod replay;

use std::path::Path;
use tussle_layout::rules::{Build, check, emit_c, from_source, parse, view};

#[test]
fn rules() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/snapshots/6.1-amd64.json");
    let (table, _) = tussle_debuginfo::snapshot::read(&std::fs::read(file).unwrap()).unwrap();
    replay::replay("rules", 4, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = from_source(&text);
        let Ok(rules) = parse(&text) else { return };
        let _ = emit_c(&rules);
        let build =
            || Build { name: "f".into(), table: &table, btf: false, arch: None, config: None, caches: None };
        if let Ok(outcomes) = check(&rules, &[build()]) {
            let _ = view(&rules, &[build()], &outcomes);
        }
    });
}
