//! Tables by blocks are the tables.

use std::sync::{Arc, Mutex};
use tussle_evidence::file::{self, Parts};
use tussle_evidence::sample::Sample;
use tussle_tables::evidence::{table, tables};

#[test]
fn a_table_by_blocks_has_all_rows() {
    let mut s = Sample::two_counters();
    for i in 0..40_000 {
        s.access(0, 8, 8, 1, (i, i + 1), [i, 0, 1]);
    }
    let e = s.evidence();
    let mut bytes = Vec::new();
    file::write(&e, &mut bytes).unwrap();
    let parts = Arc::new(Mutex::new(Parts::open(Arc::new(bytes)).unwrap()));
    let e = Arc::new(e);
    for known in tables() {
        let whole = known.batches(e.clone()).map(|mut next| {
            let mut rows = 0;
            while let Some(batch) = next().unwrap() {
                rows += batch.len();
            }
            rows
        });
        let streamed = known.streamed(parts.clone()).map(|mut next| {
            let mut rows = 0;
            while let Some(batch) = next().unwrap() {
                assert!(batch.len() <= 16_384, "{}: {} rows", known.name, batch.len());
                rows += batch.len();
            }
            rows
        });
        assert_eq!(streamed, whole, "{}", known.name);
    }
    assert!(table("samples").unwrap().streamed(parts).is_none());
}
