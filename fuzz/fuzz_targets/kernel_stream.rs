//! See `fuzz/read/kernel_stream.rs`, which `crates/cli/tests/corpora.rs` runs, too.
#![no_main]

#[path = "../read/kernel_stream.rs"]
mod read;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| read::read(bytes));
