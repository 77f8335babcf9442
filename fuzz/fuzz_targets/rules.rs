//! Rule files, as TOML and as kernel sources, applied to a kernel's structures.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tussle_debuginfo::snapshot;
use tussle_layout::rules::{Build, check, emit_c, from_source, parse, view};
use tussle_model::TypeTable;

static KERNEL: LazyLock<TypeTable> = LazyLock::new(|| {
    let bytes = include_bytes!("../../crates/layout/tests/data/snapshots/6.1-amd64.json");
    snapshot::read(bytes).expect("our own file").0
});

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let _ = from_source(&text);
    let Ok(rules) = parse(&text) else { return };
    let _ = emit_c(&rules);
    let build = || Build { name: "f".into(), table: &KERNEL, btf: false, arch: None, config: None, caches: None };
    if let Ok(outcomes) = check(&rules, &[build()]) {
        let _ = view(&rules, &[build()], &outcomes);
    }
});
