//! Damaged files: whatever is wrong, an error or problems come out, never a panic, never an endless loop.

mod common;

use common::*;
use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::{NoCompanions, open, snapshot};
use tussle_model::{TypeTable, leaf::Arrays, leaves};
use tussle_testkit::{Random, need};

/// Touches everything that other crates use.
fn use_table(table: &TypeTable) {
    for (id, ty) in table.iter() {
        let _ = (table.size(id), table.name(id));
        if matches!(ty, tussle_model::Type::Aggregate(_)) {
            leaves(table, id, Arrays::Whole);
        }
    }
}

fn survive(bytes: &[u8]) {
    if let Ok((table, _)) = open(bytes, &Want::All, &mut NoCompanions) {
        use_table(&table);
    }
    let _ = open(bytes, &Want::Names(&["outer".into()]), &mut NoCompanions);
}

/// A small object with debug information.
fn object(command: &str) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let source = "struct in { int a, b : 3; }; struct outer { struct in i[2]; struct outer *n; union { char c; }; \
        int (*f)(struct outer *, ...); } o; enum e { A } v; typedef struct in t; t *p;\n";
    std::fs::write(dir.path().join("a.c"), source).unwrap();
    attempt(dir.path(), command)?;
    Some(std::fs::read(dir.path().join("a.o")).unwrap())
}

fn objects() -> Vec<Vec<u8>> {
    [
        "gcc -gdwarf-4 -c a.c",
        "clang -gdwarf-5 -c a.c",
        "gcc -gdwarf-4 -fdebug-types-section -c a.c",
        "gcc -g -gz -c a.c",
    ]
    .into_iter()
    .filter(|c| need(c.split(' ').next().unwrap()))
    .filter_map(object)
    .collect()
}

#[test]
fn every_truncation() {
    for whole in objects() {
        for end in (0..whole.len()).step_by(37) {
            survive(&whole[..end]);
        }
    }
}

#[test]
fn flipped_bytes() {
    for whole in objects() {
        let mut bytes = whole.clone();
        for at in (0..whole.len()).step_by(5) {
            bytes[at] = whole[at] ^ [0xff, 0x01, 0x80][at % 3];
            survive(&bytes);
            bytes[at] = whole[at];
        }
    }
}

#[test]
fn random_damage() {
    let objects = objects();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for whole in &objects {
        for _ in 0..100 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random.below(30) {
                let at = random.below(bytes.len());
                bytes[at] = random.below(256) as u8;
            }
            survive(&bytes);
        }
    }
}

#[test]
fn damaged_snapshots() {
    for whole in objects().iter().take(1) {
        let (table, _) = open(whole, &Want::All, &mut NoCompanions).unwrap();
        let json = snapshot::write(&table, &[table.find("outer").unwrap()]).unwrap();
        for at in 0..json.len() {
            let _ = snapshot::read(&json[..at]);
            let mut bytes = json.clone();
            bytes[at] = b"0\"}]9,"[at % 6];
            if let Ok((table, _)) = snapshot::read(&bytes) {
                use_table(&table);
            }
        }
    }
}
