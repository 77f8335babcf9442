//! Snapshots: what is read can be used and written again.
#![no_main]

use tussle_debuginfo::snapshot;
use tussle_model::{leaf::Arrays, leaves};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok((table, _)) = snapshot::read(bytes) else { return };
    let ids: Vec<_> = table.iter().map(|(id, _)| id).take(64).collect();
    for &id in &ids {
        let _ = (table.size(id), table.name(id), leaves(&table, id, Arrays::Elements));
    }
    let again = snapshot::write(&table, &ids).expect("a table can be written");
    snapshot::read(&again).expect("what was written can be read");
});
