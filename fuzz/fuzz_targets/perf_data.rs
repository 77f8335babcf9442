//! perf.data: what is imported adds up to what was counted, and can be written.
#![no_main]

use tussle_perf::import;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(got) = import::perf_data(bytes) else { return };
    let rows = got.evidence.samples.iter().flatten().map(|s| s.records).fold(0, u64::saturating_add);
    assert!(rows <= got.totals.load + got.totals.store);
    let mut out = Vec::new();
    assert!(tussle_evidence::file::write(&got.evidence, &mut out).is_ok());
});
