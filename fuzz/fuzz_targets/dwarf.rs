//! ELF files with DWARF, all types and one by name; the file is its own companion too.
#![no_main]

use std::sync::Arc;

use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::{Bytes, CompanionRequest, Companions, open};
use tussle_model::{leaf::Arrays, leaves};

struct Itself(Vec<u8>);

impl Companions for Itself {
    fn open(&mut self, _: &CompanionRequest) -> Option<Bytes> {
        Some(Arc::new(self.0.clone()))
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut companions = Itself(bytes.to_vec());
    let _ = open(bytes, &Want::Names(&["outer".into()]), &mut companions);
    if let Ok((table, _)) = open(bytes, &Want::All, &mut companions) {
        for (id, _) in table.iter().take(64) {
            let _ = (table.size(id), table.name(id), leaves(&table, id, Arrays::Whole));
        }
    }
});
