//! Replays the corpora of those fuzz targets that need several crates: `fuzz/read/` says what each does with a file.
//!
//! `TUSSLE_FUZZ_SECONDS=300 cargo test --release -p tussle-cli --test corpora` mutates each corpus for so long.

#![allow(clippy::unwrap_used)]

#[path = "../../../fuzz/read/bench.rs"]
mod bench;
#[path = "../../../fuzz/read/evidence.rs"]
mod evidence;
#[path = "../../../fuzz/read/kernel_stream.rs"]
mod kernel_stream;
#[path = "../../../fuzz/read/patch.rs"]
mod patch;
#[path = "../../../fuzz/read/raw.rs"]
mod raw;

use tussle_testkit::replay;

#[test]
fn evidence_files() {
    replay("evidence", 4, evidence::read);
}

#[test]
fn kernel_streams() {
    replay("kernel_stream", 2, kernel_stream::read);
}

#[test]
fn raw_files_of_the_recorder() {
    replay("raw", 2, raw::read);
}

/// A seed of an older layout exercises little more than its header.
#[test]
fn the_raw_seed_is_a_recording() {
    let seed = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/raw/two_threads")).unwrap();
    let seed = raw::current(&seed);
    let file = tussle_rt::RawFile::new("seed".into(), &seed).unwrap();
    let e = tussle_rt::convert(&[file], tussle_rt::convert::Keep::Shared).evidence;
    if e.accesses.is_empty() || e.operations.is_none() {
        tussle_testkit::skip(
            "fuzz/corpus/raw/two_threads is of an older layout; docs/testing.md says how to renew it",
        );
    }
}

#[test]
fn sources_to_patch() {
    replay("patch", 4, patch::read);
}

#[test]
fn results_of_measurements() {
    replay("bench", 6, bench::read);
}
