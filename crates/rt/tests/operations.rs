//! Sampled critical sections: their order, their locks, how many they stand for, and that sampling changes no count.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab};
use std::collections::BTreeMap;
use tussle_evidence::{Evidence, Operation, OperationKind, TouchKind};

const SECTIONS: u64 = 10_000;

fn recorded() -> Option<Evidence> {
    let lab = Lab::new()?;
    let ran = lab.run(&lab.build("sections", &[]), &["10000"], How::default());
    assert_eq!(ran.status, 0);
    assert!(ran.evidence.run.sees.locks);
    Some(ran.evidence)
}

fn address(e: &Evidence, object: u32, offset: u64) -> u64 {
    e.objects[object as usize].base + offset
}

/// Rows of critical sections.
fn sections(e: &Evidence) -> impl Iterator<Item = &Operation> {
    e.operations.iter().flatten().filter(|o| o.kind == Some(OperationKind::Section))
}

/// Rows of one thread, by lock, the lock that was taken most often first.
fn by_lock(e: &Evidence, actor: u32) -> Vec<(u64, Vec<&Operation>)> {
    let mut out: Vec<(u64, Vec<&Operation>)> = Vec::new();
    for o in sections(e).filter(|o| o.actor == actor) {
        let lock = address(e, o.lock_object.unwrap(), o.lock_offset.unwrap());
        match out.iter_mut().find(|l| l.0 == lock) {
            Some(l) => l.1.push(o),
            None => out.push((lock, vec![o])),
        }
    }
    out.sort_by_key(|l| (std::cmp::Reverse(l.1.iter().map(|o| o.repeats).sum::<u64>()), l.0));
    out
}

/// (distance from the lock, kind, accesses before) of a row's visits.
fn visits(e: &Evidence, lock: u64, o: &Operation) -> Vec<(i64, TouchKind, u64)> {
    o.visits.iter().map(|v| (address(e, v.0, v.1) as i64 - lock as i64, v.3, v.4)).collect()
}

#[test]
fn sections_come_in_order_under_their_lock() {
    use TouchKind::{Read, Write};
    let Some(e) = recorded() else { return };
    for actor in [1, 2] {
        let locks = by_lock(&e, actor);
        let total = |k: usize| locks[k].1.iter().map(|o| o.repeats).sum::<u64>();
        // The mutex and the reader-writer lock, then the spin lock: the inner mutex has no rows of its own.
        assert_eq!(locks.len(), 3);
        assert_eq!((total(0), total(1), total(2)), (SECTIONS, SECTIONS, SECTIONS / 8));

        // glibc's mutex has 40 bytes; `a` and `b` follow. Between them are 40 accesses of the thread's own and one to
        // a variable that nobody writes. Where the latter is the last, the mutex stands for it.
        let (mutex, rows) = locks.iter().find(|l| l.1.len() == 2).unwrap();
        let plain = rows.iter().find(|o| o.visits.len() == 3).unwrap();
        let both = rows.iter().find(|o| o.visits.len() == 4).unwrap();
        assert_eq!(visits(&e, *mutex, plain), [(40, Read, 0), (40, Write, 0), (0, Read, 0)]);
        let thought = [(40, Read, 0), (40, Write, 0), (48, Read, 41), (48, Write, 0)];
        assert_eq!(visits(&e, *mutex, both), thought);
        let share = both.repeats as f64 / SECTIONS as f64;
        assert!((0.1..0.45).contains(&share), "a quarter has four visits, not {share}");
        assert!(rows.iter().all(|o| o.shared == Some(false) && o.inner.as_deref() == Some(&[])));

        let readers: Vec<_> = locks.iter().filter(|l| l.1[0].shared == Some(true)).collect();
        assert_eq!(readers.len(), 1);
        // Two fields of one word.
        let [o] = readers[0].1[..] else { panic!("{:?}", readers[0].1) };
        let field = |k: usize| (address(&e, o.visits[k].0, o.visits[k].1), o.visits[k].2, o.visits[k].3);
        assert_eq!((o.visits.len(), field(0), field(1)), (2, (mutex + 56, 4, Read), (mutex + 60, 4, Read)));

        let nested = &locks[2].1;
        let [o] = nested[..] else { panic!("{nested:?}") };
        let inner = o.inner.as_ref().unwrap();
        assert_eq!((o.visits.len(), inner.len()), (2, 1), "{o:?}");
        assert_eq!((inner[0].0, inner[0].1, inner[0].4), (0, 2, Some(false)));
        assert_ne!(address(&e, inner[0].2, inner[0].3), locks[2].0);
    }
}

/// Without locks the accesses themselves are operations: windows of them, of which a loop is one turn.
#[test]
fn accesses_under_no_lock_are_operations() {
    let Some(lab) = Lab::new() else { return };
    for n in [100u64, 300_000] {
        let e = lab.run(&lab.build("counters", &[]), &[&n.to_string()], How::default()).evidence;
        // A turn reads the bound of the loop and adds.
        let turn = |o: &&Operation| o.visits.iter().map(|v| v.3).eq([TouchKind::Read, TouchKind::Rmw]);
        let rows: Vec<&Operation> = e.operations.iter().flatten().filter(turn).collect();
        let [a, b, c] = rows[..] else { panic!("{:?}", e.operations) };
        for o in [a, b, c] {
            assert_eq!((o.kind, o.lock_object), (Some(OperationKind::Window), None));
            assert!(o.repeats.abs_diff(n) <= 1 + n / 100 && o.visits[1].4 == 0, "{o:?}");
        }
        assert_eq!((a.visits[1].0, a.visits[1].2), (b.visits[1].0, 4));
        assert_ne!(a.visits[1].1, b.visits[1].1);
    }
}

#[test]
fn think_time_follows_from_the_clock() {
    let Some(e) = recorded() else { return };
    for actor in [1, 2] {
        let rows: Vec<_> = sections(&e).filter(|o| o.actor == actor).collect();
        let first = rows.iter().map(|o| o.vt0).min().unwrap();
        let last = rows.iter().map(|o| o.vt1).max().unwrap();
        let count: u64 = rows.iter().map(|o| o.repeats).sum();
        let inside: u64 =
            rows.iter().map(|o| o.repeats * o.visits.iter().map(|v| v.4 + 1).sum::<u64>()).sum();
        // Two sections a round and 80 accesses outside of them; every eighth round has a third section. Some more are
        // the locks' own words, some of which the clock counts.
        let think = (last - first - inside) as f64 / count as f64;
        assert!((34.0..44.0).contains(&think), "{think} accesses between sections");
    }
}

#[test]
fn sampling_changes_no_count() {
    let Some(lab) = Lab::new() else { return };
    for jumps in [true, false] {
        let exe = lab.build_with("sections", &[], jumps);
        let rows = |no_operations: bool| {
            let e = lab.run(&exe, &["10000"], How { no_operations, ..How::default() }).evidence;
            assert_eq!(e.operations.is_none(), no_operations);
            assert_eq!(e.run.sees.locks, !no_operations);
            // What is known to have happened under a lock has rows of its own, and so have parts of a word: how much of
            // its count each has is an estimate.
            let mut sums: BTreeMap<(u64, u32), [u64; 3]> = BTreeMap::new();
            for a in &e.accesses {
                let sum = sums.entry((address(&e, a.object, a.offset) & !7, a.actor)).or_default();
                *sum = [sum[0] + a.reads, sum[1] + a.writes, sum[2] + a.rmws];
            }
            // Threads are numbered as they start; by address and counts the order is the same in every run.
            let mut rows: Vec<_> = sums.into_iter().map(|((at, _), n)| (at, n)).collect();
            rows.sort_unstable();
            rows
        };
        let (with, without) = (rows(false), rows(true));
        assert!(with.len() > 10);
        assert_eq!(with, without, "jumps: {jumps}");
    }
}

#[test]
fn sampling_is_the_same_in_every_run() {
    let (Some(a), Some(b)) = (recorded(), recorded()) else { return };
    let rows = |e: &Evidence| {
        let mut rows: Vec<_> = sections(e)
            .map(|o| {
                let lock = address(e, o.lock_object.unwrap(), o.lock_offset.unwrap());
                (lock, o.repeats, visits(e, lock, o).len())
            })
            .collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!(rows(&a), rows(&b));
}

/// A process killed while a section is traced loses no count, and the sections before are there.
#[test]
fn a_traced_section_may_never_end() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("sections", &[]);
    let session = tempfile::tempdir().unwrap();
    let status = std::process::Command::new(exe)
        .args(["20", "die"])
        .env(tussle_rt::SESSION_VARIABLE, session.path())
        .status()
        .unwrap();
    assert!(!status.success());
    let (e, unusable) = common::read(session.path(), tussle_rt::convert::Keep::All);
    assert!(unusable.is_empty());
    let plain =
        |o: &&Operation| o.visits.len() >= 2 && o.inner.as_deref() == Some(&[]) && o.shared == Some(false);
    let row = sections(&e).find(plain);
    let (object, offset) = row.map(|o| (o.visits[0].0, o.visits[0].1)).unwrap();
    let a = address(&e, object, offset);
    let counts: Vec<_> = e
        .accesses
        .iter()
        .filter(|r| r.actor == 1 && address(&e, r.object, r.offset) == a)
        .map(|r| (r.reads, r.writes))
        .collect();
    assert_eq!(counts, [(20, 20)]);
}

#[test]
fn little_memory_is_not_exceeded_by_operations() {
    let Some(lab) = Lab::new() else { return };
    let how = How { mem_max_bytes: Some(1 << 20), ..How::default() };
    let ran = lab.run(&lab.build("sections", &[]), &["2000"], how);
    assert_eq!(ran.status, 0);
    let count: u64 = sections(&ran.evidence).map(|o| o.repeats).sum();
    let lost: u64 =
        ran.evidence.losses.iter().filter(|l| l.what.starts_with("operations")).map(|l| l.count).sum();
    assert!(count + lost >= 2 * 2000, "{count} operations, {lost} lost");
}

/// Nothing is noted of locks when nobody asked.
#[test]
fn switched_off_no_lock_is_noted() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("sections", &[]);
    for no_operations in [false, true] {
        let session = tempfile::tempdir().unwrap();
        lab.run_in(session.path(), &exe, &["100"], How { no_operations, ..How::default() });
        let file = std::fs::read_dir(session.path()).unwrap().next().unwrap().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        let raw = tussle_rt::RawFile::new("raw".into(), &bytes).unwrap();
        let locks: usize = raw.threads().iter().map(|t| raw.locks(t).len()).sum();
        assert_eq!(locks == 0, no_operations, "{locks} locks");
    }
}

/// What was not seen to its end, or found no room, is a loss and no row.
#[test]
fn sections_beyond_the_limits_are_losses() {
    let Some(lab) = Lab::new() else { return };
    let e = lab.run(&lab.build("limits", &[]), &["3"], How::default()).evidence;
    let rows: Vec<&Operation> = sections(&e).collect();
    let repeats = |rows: &mut dyn Iterator<Item = &Operation>| rows.map(|o| o.repeats).sum::<u64>();
    assert!(rows.iter().all(|o| !o.visits.is_empty() && o.visits.len() < 192));
    let lost = |what: &str| e.losses.iter().filter(|l| l.what == what).map(|l| l.count).sum::<u64>();
    assert!(lost("operations cut") > 0);
    // Each thread finds room for half of the locks.
    assert!(lost("locks") > 2 * 3 * 2000);
    let all = 2 * (3 * 6000 + 1000);
    assert_eq!(repeats(&mut rows.iter().copied()) + lost("operations not sampled") + lost("locks"), all);
}
