//! Text of `perf c2c report`, `perf script` and `perf mem report`.
#![no_main]

use tussle_perf::{import_text, mem_report, script, text};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let words = String::from_utf8_lossy(bytes);
    let read = text::read(&words);
    for table in import_text::split(&read) {
        let (evidence, _) = import_text::c2c_text(&read, table);
        assert!(tussle_evidence::file::write(&evidence, &mut Vec::new()).is_ok());
    }
    if mem_report::is_mem_report(&words) {
        let got = script::read_mem_report(&words);
        assert!(tussle_evidence::file::write(&got.evidence, &mut Vec::new()).is_ok());
    }
    if script::is_script(&words) {
        let got = script::read(&words);
        let rows = got.evidence.samples.iter().flatten().map(|s| s.records).fold(0, u64::saturating_add);
        assert!(rows <= got.totals.load + got.totals.store);
    }
});
