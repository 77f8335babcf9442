//! Replays the corpora of the fuzz targets, and shorter and damaged forms of each file.

use std::sync::Arc;

use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::{Bytes, CompanionRequest, Companions, btf, open, snapshot};
use tussle_testkit::replay;

/// Hands out the file itself for every companion.
struct Itself(Vec<u8>);

impl Companions for Itself {
    fn open(&mut self, _: &CompanionRequest) -> Option<Bytes> {
        Some(Arc::new(self.0.clone()))
    }
}

#[test]
fn dwarf() {
    replay("dwarf", 8, |bytes| {
        let mut companions = Itself(bytes.to_vec());
        let _ = open(bytes, &Want::Names(&["outer".into()]), &mut companions);
        if let Ok((table, _)) = open(bytes, &Want::All, &mut companions) {
            table.iter().take(64).for_each(|(id, _)| drop((table.size(id), table.name(id))));
        }
    });
}

#[test]
fn btf_blobs() {
    replay("btf", 3, |bytes| {
        let _ = btf::read(bytes, Some(bytes));
        let _ = btf::read_types(bytes, None, &Want::Names(&["s".into()]), 4);
        if let Ok((table, _)) = btf::read(bytes, None) {
            table.iter().take(64).for_each(|(id, _)| drop((table.size(id), table.name(id))));
        }
    });
}

#[test]
fn snapshots() {
    replay("snapshot", 2, |bytes| {
        let Ok((table, _)) = snapshot::read(bytes) else { return };
        let ids: Vec<_> = table.iter().map(|(id, _)| id).take(64).collect();
        let again = snapshot::write(&table, &ids).unwrap();
        snapshot::read(&again).unwrap();
    });
}
