//! One object on two lines of a table: too little on either, enough together.
#![allow(clippy::unwrap_used)]

use tussle_debuginfo::{NoCompanions, dwarf::Want};
use tussle_model::TypeTable;
use tussle_perf::joint::{name, primitives};
use tussle_perf::text::{Counts, TextLine, TextRow};

const DECIDED: f64 = 0.8;
/// Where the object lies: its lock's count (byte 88) ends a line, owner and queue begin the next one.
const BASE: u64 = 0xffff_8881_0000_0000 + 32;

fn types() -> TypeTable {
    let json = include_str!("data/address_space-6.4-before.json");
    tussle_debuginfo::open(json.as_bytes(), &Want::All, &mut NoCompanions).unwrap().0
}

fn row(function: &str, at: u64) -> TextRow {
    TextRow {
        percent: vec![0.0, 30.0, 0.0, 0.0],
        offset: (BASE + at) % 64,
        records: Some(50),
        kernel: true,
        symbol: function.into(),
        ..TextRow::default()
    }
}

fn line(rows: &[(&str, u64)]) -> TextLine {
    let address = (BASE + rows[0].1) / 64 * 64;
    let counts = Counts { local_hitm: 1000, ..Counts::default() };
    TextLine { index: 0, address, counts, rows: rows.iter().map(|r| row(r.0, r.1)).collect() }
}

/// The lock's count; its owner and its queue.
fn two_lines() -> Vec<TextLine> {
    let first = line(&[("down_write", 88), ("up_write", 88)]);
    let second = line(&[("rwsem_spin_on_owner", 96), ("osq_lock", 104), ("__mystery", 104)]);
    vec![first, second]
}

/// A tree beside members that any function may touch; the owner of the lock behind it.
fn tree_and_owner() -> Vec<TextLine> {
    let strangers = [("fault_here", 64), ("fault_there", 64), ("elsewhere", 68)];
    let first = line(&[&strangers[..], &[("vma_interval_tree_remove", 80)]].concat());
    vec![first, line(&[("rwsem_spin_on_owner", 96), ("afar", 120)])]
}

#[test]
fn adjacent_lines_are_fitted_together() {
    let types = types();
    let lines = tree_and_owner();
    let alone = name(&lines[..1], &[&types], 64, DECIDED);
    let alone = alone[0].candidates.first().map_or(0.0, |c| c.confidence);
    assert!(alone < DECIDED, "one place says too little: {alone}");
    let named = name(&lines, &[&types], 64, DECIDED);
    for (n, wanted) in named.iter().zip(["leftmost", "owner"]) {
        let best = &n.candidates[0];
        assert!(best.confidence >= DECIDED, "{best:?}");
        assert_eq!(n.fitted.len(), 2, "{n:?}");
        assert!(best.fields.iter().any(|f| f.2.contains(wanted)), "{best:?}");
        assert!(best.fields.iter().all(|f| f.0 < 64), "{best:?}");
    }
    assert_eq!(named[0].candidates[0].base, named[1].candidates[0].base);
}

#[test]
fn a_lock_is_said_without_the_object_around_it() {
    let types = types();
    let mut lines = two_lines();
    // Strangers at places that no member of anything explains.
    lines[0].rows.extend([row("alien_one", 61), row("alien_two", 77)]);
    let found = primitives(&lines, &[&types], 64, DECIDED);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].type_name.as_str(), found[0].base), ("struct rw_semaphore", BASE + 88));
    assert!(found[0].fields.len() >= 3, "{found:?}");
}

#[test]
fn lines_apart_are_not_joined() {
    let types = types();
    let mut lines = two_lines();
    lines[1].address += 64;
    let named = name(&lines, &[&types], 64, DECIDED);
    assert!(named.iter().all(|n| n.fitted.len() == 1), "{named:?}");
}
