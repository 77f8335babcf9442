//! Compiles every fuzz target and replays its corpus.
//!
//! The targets are `fuzz/fuzz_targets/`, as they stand: a macro takes the place of libFuzzer's.
//! `TUSSLE_FUZZ_SECONDS=300 cargo test --release -p tussle-cli --test corpora` mutates each corpus for so long.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use tussle_testkit::replay;

extern crate self as libfuzzer_sys;

/// Libfuzzer's makes the entry point of a program of this.
macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $body:expr) => {
        pub fn run($bytes: &[u8]) {
            $body
        }
    };
}
pub(crate) use fuzz_target;

/// A module and a test per target: at least so many files in its corpus.
macro_rules! targets {
    ($($name:ident: $file:literal, $files_min:literal;)+) => {
        $(
            #[path = $file]
            #[allow(unused_attributes)]
            mod $name;
        )+
        mod corpus_of {
            $( #[test] fn $name() { super::replay(stringify!($name), $files_min, super::$name::run) } )+
        }
        const TARGETS: &[&str] = &[$(stringify!($name)),+];
    };
}
targets! {
    bench: "../../../fuzz/fuzz_targets/bench.rs", 6;
    btf: "../../../fuzz/fuzz_targets/btf.rs", 3;
    dwarf: "../../../fuzz/fuzz_targets/dwarf.rs", 8;
    evidence: "../../../fuzz/fuzz_targets/evidence.rs", 4;
    kernel_stream: "../../../fuzz/fuzz_targets/kernel_stream.rs", 2;
    patch: "../../../fuzz/fuzz_targets/patch.rs", 4;
    perf_data: "../../../fuzz/fuzz_targets/perf_data.rs", 8;
    perf_text: "../../../fuzz/fuzz_targets/perf_text.rs", 1;
    raw: "../../../fuzz/fuzz_targets/raw.rs", 2;
    rules: "../../../fuzz/fuzz_targets/rules.rs", 4;
    snapshot: "../../../fuzz/fuzz_targets/snapshot.rs", 2;
}

fn fuzz() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz"))
}

#[test]
fn every_target_is_tried_and_built_by_cargo_fuzz() {
    let tried: BTreeSet<String> = TARGETS.iter().map(|t| t.to_string()).collect();
    let names = |folder: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(fuzz().join(folder)).unwrap();
        entries.map(|e| e.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(names("fuzz_targets"), tried);
    assert_eq!(names("corpus"), tried);
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let built =
        manifest.lines().filter_map(|l| l.strip_prefix("path = \"fuzz_targets/")?.strip_suffix(".rs\""));
    assert_eq!(built.map(str::to_string).collect::<BTreeSet<_>>(), tried);
}

/// A seed of an older layout exercises little more than its header.
#[test]
fn the_raw_seed_is_a_recording() {
    let seed = std::fs::read(fuzz().join("corpus/raw/two_threads")).unwrap();
    let file = tussle_rt::RawFile::new("seed".into(), &seed).expect("of the present layout: docs/testing.md");
    let e = tussle_rt::convert(&[file], tussle_rt::convert::Keep::Shared).evidence;
    assert!(!e.accesses.is_empty() && e.operations.is_some());
}
