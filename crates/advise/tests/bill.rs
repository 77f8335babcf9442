//! The bill of a change, worked out by hand: bytes, bytes of all live objects, lines, new sharing, allocations.

use tussle_advise::{Advice, Edit, Options, advise, best, evaluate};
use tussle_evidence::sample::Sample;
use tussle_evidence::{Basis, Evidence};
use tussle_model::{Base, Encoding, Type};

const ALL: (u64, u64) = (0, 1_000_000);

/// `struct s { long a, b, c; }` twice as variables `one` (thread 1 writes a, thread 2 writes b) and `two`.
fn three_longs() -> Sample {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 10, &[]);
    let workers = [s.worker(main, start), s.worker(main, start)];
    let long = s.long();
    let ty = s.structure("s", 24, &[("a", long, 0), ("b", long, 8), ("c", long, 16)]);
    let one = s.global("one", 0x1000, 24, Some(ty), 8);
    s.global("two", 0x2000, 24, Some(ty), 8);
    s.access(one, 0, 8, workers[0], ALL, [0, 100_000, 0]);
    s.access(one, 8, 8, workers[1], ALL, [0, 100_000, 0]);
    s
}

fn bill(e: &Evidence, edits: &str) -> Advice {
    let edits: Vec<Edit> = edits.split(' ').map(|e| e.parse().expect("an edit")).collect();
    evaluate(e, "s", &edits, &Options::default()).expect("a bill")
}

/// Bytes of one object after, bytes of both objects more, members on other lines.
#[track_caller]
fn check(edits: &str, size: u64, live: i64, moved: &[&str]) {
    let a = bill(&three_longs().evidence(), edits);
    assert_eq!((a.size_before, a.size_after, a.live_bytes), (24, size, live), "{edits}");
    assert_eq!(a.moved, moved, "{edits}");
    assert!(a.sites.is_empty() && a.variables.is_empty(), "{edits}");
}

#[test]
fn bytes_are_those_of_the_abi() {
    // Two variables of 24 bytes live at once.
    check("c:first", 24, 0, &[]);
    check("swap:a,c", 24, 0, &[]);
    check("pad=64", 64, 2 * 40, &[]);
    check("pad=128", 128, 2 * 104, &[]);
    check("element=64", 64, 2 * 40, &[]);
    check("element=128", 128, 2 * 104, &[]);
    // a 0..8, then 56 bytes of padding, b 64..72, c 72..80, rounded up to 128.
    check("align:b=64", 128, 2 * 104, &["b", "c"]);
    check("align:c=64", 128, 2 * 104, &["c"]);
    // a 0..8, a gap to 72, then b and c.
    check("gap:b=64", 88, 2 * 64, &["b", "c"]);
    // a at 0, b at 64, c at 128: three lines.
    check("align:b=64 align:c=64", 192, 2 * 168, &["b", "c"]);
    check("align:a=64", 64, 2 * 40, &[]);
    // b moved to the front: 0..8, a on the next line, c behind it.
    check("b:first align:a=64", 128, 2 * 104, &["a", "c"]);
    check("align:b=16", 32, 2 * 8, &[]);
    check("align:a=32", 32, 2 * 8, &[]);
}

#[test]
fn what_no_longer_meets_is_not_sharing_and_what_newly_meets_is() {
    let e = three_longs().evidence();
    let parted = bill(&e, "align:b=64");
    assert!(
        parted.before.observed > 90_000.0 && parted.after.worst < 1.0,
        "{:?} {:?}",
        parted.before,
        parted.after
    );
    assert!(parted.new_sharing.is_empty() && parted.why.contains("no longer share a line"), "{}", parted.why);
    let kept = bill(&e, "c:first");
    assert!(kept.gain().abs() < 0.05 * kept.before.mean && kept.new_sharing.is_empty());
    // Apart by a line of 64 bytes, together in one of 128.
    let options = Options { line: Some(128), ..Options::default() };
    let edits = ["align:b=64".parse().expect("an edit")];
    let wide = evaluate(&e, "s", &edits, &options).expect("a bill");
    assert!(wide.after.mean > 0.4 * wide.before.mean, "{:?}", wide.after);
}

/// Two arrays of the heap side by side: thread 1 writes the end of one, thread 2 reads the beginning of the other.
fn neighbours() -> Evidence {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 10, &[]);
    let workers = [s.worker(main, start), s.worker(main, start)];
    let (one, two) = (s.code("init", "/src/w.c", 20, &[]), s.code("init", "/src/w.c", 21, &[]));
    let long = s.long();
    let ty = s.structure("s", 24, &[("a", long, 0), ("b", long, 8), ("c", long, 16)]);
    let other = s.structure("t", 16, &[("x", long, 0), ("y", long, 8)]);
    let a = s.heap(0x5010, 72, Some(ty), 3, 16, Some(one));
    let b = s.heap(0x5060, 32, Some(other), 2, 16, Some(two));
    for o in [a, b] {
        let object = &mut s.tables().objects[o as usize];
        (object.allocator, object.basis) = (Some("calloc".into()), Some(Basis::Sizeof));
    }
    s.access(a, 48, 8, workers[0], ALL, [0, 200_000, 0]);
    s.access(b, 0, 8, workers[1], ALL, [200_000, 0, 0]);
    s.evidence()
}

#[test]
fn memory_of_whole_lines_parts_neighbours() {
    let e = neighbours();
    let a = bill(&e, "alloc=64");
    // 72 bytes become two lines of 64.
    assert_eq!((a.size_before, a.size_after, a.live_bytes), (24, 24, 128 - 72));
    assert!(a.before.observed > 90_000.0 && a.after.worst < 1.0, "{:?} {:?}", a.before, a.after);
    assert_eq!(a.allocations(), ["w.c:20"]);
    let report = advise(&e, "s", &Options::default()).expect("a report");
    assert!(
        report.advices.iter().any(|a| matches!(a.edits[..], [Edit::Alloc { bytes: 64 }])),
        "{:?}",
        report.advices
    );
    // Alignment of the type asks for it, too; padding does not.
    assert_eq!(bill(&e, "element=64").allocations(), ["w.c:20"]);
    assert!(bill(&e, "pad=64").sites.is_empty());
}

#[test]
fn what_the_sources_refuse_is_left_out_with_a_word() {
    let e = neighbours();
    let refuses =
        |edits: &[Edit]| matches!(edits, [Edit::Alloc { .. }]).then(|| "a wrapper allocates".to_string());
    let options = Options { refuses: Some(&refuses), ..Options::default() };
    let report = advise(&e, "s", &options).expect("a report");
    assert!(!report.advices.iter().any(|a| matches!(a.edits[..], [Edit::Alloc { .. }])));
    let note = report.notes.iter().find(|n| n.contains("no patch would do")).expect("a note");
    assert!(note.contains("a wrapper allocates"), "{note}");
}

/// `struct table { long n; struct slot slots[]; }` with four slots behind it.
#[test]
fn elements_behind_a_struct_are_parted() {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 10, &[]);
    let workers: Vec<u32> = (0..4).map(|_| s.worker(main, start)).collect();
    let long = s.long();
    let slot = s.structure("slot", 16, &[("hits", long, 0), ("bytes", long, 8)]);
    let slots = s.tables().types.push(Type::Array { elem: slot, counts: vec![None] });
    let table = s.structure("table", 8, &[("n", long, 0), ("slots", slots, 8)]);
    let o = s.heap(0x1000, 8 + 4 * 16, Some(table), 1, 16, Some(start));
    for (i, w) in workers.iter().enumerate() {
        s.access(o, 8 + 16 * i as u64, 8, *w, ALL, [0, 100_000, 0]);
    }
    let e = s.evidence();
    let report = advise(&e, "struct slot", &Options::default()).expect("a report");
    let pad =
        report.advices.iter().find(|a| a.edits == ["pad=64".parse().expect("an edit")]).expect("pad=64");
    assert!(pad.before.observed > 100_000.0 && pad.after.observed < pad.before.observed / 100.0, "{pad:?}");
    assert_eq!(pad.live_bytes, 4 * 48);
}

/// `long counts[4]`, an element per thread, and two variables side by side.
fn variables() -> Evidence {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 10, &[]);
    let workers: Vec<u32> = (0..4).map(|_| s.worker(main, start)).collect();
    let base = Base { name: "long".into(), size: 8, encoding: Encoding::Signed };
    let long = s.tables().types.push(Type::Base(base));
    let array = s.tables().types.push(Type::Array { elem: long, counts: vec![Some(4)] });
    let counts = s.global("counts", 0x1000, 32, Some(array), 16);
    let (sent, got) = (s.global("sent", 0x2000, 8, Some(long), 8), s.global("got", 0x2008, 8, Some(long), 8));
    for (i, w) in workers.iter().enumerate() {
        s.access(counts, 8 * i as u64, 8, *w, ALL, [0, 100_000, 0]);
    }
    s.access(sent, 0, 8, workers[0], ALL, [0, 100_000, 0]);
    s.access(got, 0, 8, workers[1], ALL, [0, 100_000, 0]);
    s.evidence()
}

#[test]
fn variables_have_a_bill_as_structs_have() {
    let e = variables();
    let all = best(&e, &Options::default());
    let of = |name: &str| all.iter().find(|a| a.variables.iter().any(|v| v == name)).expect("advice");
    let counts = of("counts");
    assert_eq!(counts.edits, ["element=64".parse().expect("an edit")]);
    assert_eq!((counts.size_before, counts.size_after, counts.live_bytes), (32, 256, 224));
    assert!(counts.before.observed > 200_000.0 && counts.after.worst < 1.0, "{:?}", counts.after);
    let sent = of("sent");
    let edits: Vec<String> = sent.edits.iter().map(Edit::to_string).collect();
    assert_eq!(edits, ["align:got=64", "align:sent=64"]);
    assert!(sent.after.worst < 1.0, "{:?}", sent.after);
    // Each may leave a gap before it.
    assert_eq!(sent.live_bytes, 2 * (64 - 8));
    assert_eq!(advise(&e, "sent", &Options::default()).expect("a report").advices.len(), 1);
}

/// `char pool[64]`, from which a program hands out its objects: a line for each of its bytes parts nothing that it has.
#[test]
fn bytes_that_hold_something_larger_are_no_elements() {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 10, &[]);
    let workers = [s.worker(main, start), s.worker(main, start)];
    let base = Base { name: "char".into(), size: 1, encoding: Encoding::Signed };
    let char = s.tables().types.push(Type::Base(base));
    let array = s.tables().types.push(Type::Array { elem: char, counts: vec![Some(64)] });
    let pool = s.global("pool", 0x1000, 64, Some(array), 64);
    for (at, w) in [8, 32].into_iter().zip(workers) {
        s.access(pool, at, 8, w, ALL, [0, 100_000, 0]);
    }
    assert_eq!(best(&s.evidence(), &Options::default()), []);
}

#[test]
fn a_size_that_no_line_has_is_refused() {
    let e = three_longs().evidence();
    let name = "s";
    for bytes in [0, 8, 63, 96, 8192] {
        let options = Options { line: Some(bytes), ..Options::default() };
        let error = tussle_advise::advise(&e, name, &options).expect_err("no line").to_string();
        assert!(error.contains(&format!("-c {bytes}: a power of two")), "{error}");
    }
}

/// Rust's and C++'s names without the crate or namespace.
#[test]
fn a_struct_is_found_without_the_names_around_it() {
    let found = |others: &[&str]| {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let start = s.code("run", "run.rs", 9, &[]);
        let (one, two) = (s.worker(main, start), s.worker(main, start));
        let long = s.long();
        let ty = s.structure("meters::Meter", 16, &[("a", long, 0), ("b", long, 8)]);
        for name in others {
            s.structure(name, 8, &[("a", long, 0)]);
        }
        let o = s.global("m", 0x1000, 16, Some(ty), 16);
        s.access(o, 0, 8, one, (0, 100_000), [0, 50_000, 0]);
        s.access(o, 8, 8, two, (0, 100_000), [0, 50_000, 0]);
        tussle_advise::advise(&s.evidence(), "Meter", &Options::default()).map(|r| r.type_name)
    };
    assert_eq!(found(&["meters::Metering"]).expect("a report"), "struct meters::Meter");
    assert!(found(&["other::Meter"]).is_err(), "two are called so");
}
