//! See `fuzz/read/patch.rs`, which `crates/cli/tests/corpora.rs` runs, too.
#![no_main]

#[path = "../read/patch.rs"]
mod read;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| read::read(bytes));
