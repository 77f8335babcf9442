//! BTF: whole, as a module's that continues itself, and by name.
#![no_main]

use tussle_debuginfo::btf;
use tussle_debuginfo::dwarf::Want;
use tussle_model::{leaf::Arrays, leaves};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = btf::read(bytes, Some(bytes));
    let _ = btf::read_types(bytes, None, &Want::Names(&["s".into()]), 4);
    if let Ok((table, _)) = btf::read(bytes, None) {
        for (id, _) in table.iter().take(64) {
            let _ = (table.size(id), table.name(id), leaves(&table, id, Arrays::Whole));
        }
    }
});
