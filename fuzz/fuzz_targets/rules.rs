//! Rule files, as TOML and as kernel sources, applied to a kernel's structures.
#![no_main]

use std::sync::LazyLock;

use tussle_debuginfo::snapshot;
use tussle_layout::rules::{Build, Context, Language, check, emit, from_source, parse, view};
use tussle_model::TypeTable;

static KERNEL: LazyLock<TypeTable> = LazyLock::new(|| {
    let bytes = include_bytes!("../../crates/layout/tests/data/snapshots/6.1-amd64.json");
    snapshot::read(bytes).expect("our own file").0
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let _ = from_source(&text);
    let Ok(set) = parse(&text) else { return };
    for language in [Language::C, Language::Cpp, Language::Rust] {
        let _ = emit(&set.rules, language, None);
    }
    let build =
        || Build { name: "f".into(), table: &KERNEL, btf: false, arch: None, config: None, caches: None };
    let outcomes = check(&set.rules, &[build()]);
    let _ = view(&set.rules, &[build()], &outcomes, &Context { waivers: set.waivers, ..Context::default() });
});
