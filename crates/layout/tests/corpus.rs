//! Replays the corpus of the rules' fuzz target.

use std::path::Path;
use tussle_layout::rules::{Build, Context, Language, check, emit, from_source, parse, view};
use tussle_testkit::replay;

#[test]
fn rules() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/snapshots/6.1-amd64.json");
    let (table, _) = tussle_debuginfo::snapshot::read(&std::fs::read(file).unwrap()).unwrap();
    replay("rules", 4, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = from_source(&text);
        let Ok(set) = parse(&text) else { return };
        for language in [Language::C, Language::Cpp, Language::Rust] {
            let _ = emit(&set.rules, language, None);
        }
        let build =
            || Build { name: "f".into(), table: &table, btf: false, arch: None, config: None, caches: None };
        let outcomes = check(&set.rules, &[build()]);
        let _ =
            view(&set.rules, &[build()], &outcomes, &Context { waivers: set.waivers, ..Context::default() });
    });
}
