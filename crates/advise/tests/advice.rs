//! Advice on hand-made evidences: the sign must be right.

use tussle_advise::Edit;
use tussle_advise::advice::{Advice, Options, Report, advise, best, evaluate};
use tussle_advise::builds::Build;
use tussle_evidence::Evidence;
use tussle_evidence::sample::Sample;
use tussle_model::{Language, Type};

/// Virtual time of all accesses: many windows long.
const ALL: (u64, u64) = (0, 1_000_000);

fn run(evidence: &Evidence, name: &str) -> Report {
    advise(evidence, name, &Options::default()).expect("a report")
}

fn moves(a: &Advice) -> String {
    a.edits.iter().map(|e| e.to_string()).collect::<Vec<_>>().join(" ")
}

fn all_moves(report: &Report) -> Vec<String> {
    report.advices.iter().map(moves).collect()
}

/// A struct of longs named by letters, as one global aligned to a line, with `threads` threads.
fn longs(names: &[&str], threads: u32) -> (Sample, u32, Vec<u32>) {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 10, &[]);
    let workers: Vec<u32> = (0..threads).map(|_| s.worker(main, start)).collect();
    let long = s.long();
    let members: Vec<_> = names.iter().zip(0u64..).map(|(n, i)| (*n, long, 8 * i)).collect();
    let size = 8 * names.len() as u64;
    let ty = s.structure("s", size, &members);
    let o = s.global("g", 0x1000, size, Some(ty), 64);
    (s, o, workers)
}

#[test]
fn a_lock_beside_anothers_counter_is_parted_from_it() {
    let (mut s, o, w) = longs(&["lock", "hits", "c", "d", "e", "f", "g", "h", "i", "j"], 2);
    s.access(o, 0, 8, w[0], ALL, [0, 0, 400_000]);
    s.access(o, 8, 8, w[1], ALL, [0, 400_000, 0]);
    let report = run(&s.evidence(), "s");
    let first = &report.advices[0];
    assert!(first.before.mean > 300_000.0 && first.after.mean < 1.0, "{:?}", report.cost);
    // The cheapest of them moves the counter to the second line and costs no byte.
    let free = report.advices.iter().find(|a| a.bytes_added() == 0).expect("an exchange or a move");
    assert!(free.after.mean < 1.0 && free.new_sharing.is_empty(), "{free:?}");
    assert!(moves(free).contains("hits"), "{}", moves(free));
    assert_eq!(free.why, "g.hits and g.lock no longer share a line");
    assert!(report.sharing.e_true < 1.0);
}

/// Of a Rust struct `limit` and `factor` are read by two threads, `hits` is written by a third.
fn read_mostly() -> Evidence {
    let (mut s, o, w) = longs(&["limit", "hits", "factor"], 3);
    for reader in &w[..2] {
        s.access(o, 0, 8, *reader, ALL, [400_000, 0, 0]);
        s.access(o, 16, 8, *reader, ALL, [300_000, 0, 0]);
    }
    s.access(o, 8, 8, w[2], ALL, [0, 0, 400_000]);
    let mut e = s.evidence();
    let id = e.types.find("s").expect("the struct");
    let mut a = e.types.aggregate(id).expect("the struct").clone();
    a.language = Language::Rust;
    e.types.set(id, Type::Aggregate(a));
    e
}

/// `#[repr(align)]` around `limit` would come first, `hits` and `factor` would close up behind it.
#[test]
fn fields_on_either_side_of_an_aligned_one_stay_together_in_rust() {
    let e = read_mostly();
    let edits = [Edit::Align { field: "limit".into(), bytes: 64 }];
    let found = evaluate(&e, "s", &edits, &Options::default()).expect("a bill");
    assert_eq!(found.size_after, 128);
    assert!(found.after.observed > 100_000.0, "{:?}", found.after);
}

#[test]
fn of_edits_with_the_same_layout_the_fewest_are_proposed() {
    assert_eq!(all_moves(&run(&read_mostly(), "s"))[0], "align:hits=64");
}

#[test]
fn what_a_compiler_refused_is_proposed_no_more() {
    let hits = Edit::Align { field: "hits".into(), bytes: 64 };
    let options = Options { failed: vec![("s".into(), vec![hits.clone()])], ..Options::default() };
    let report = advise(&read_mostly(), "s", &options).expect("a report");
    assert!(report.advices.iter().all(|a| !a.edits.contains(&hits)), "{:?}", all_moves(&report));
    let of_another = Options { failed: vec![("t".into(), vec![hits])], ..Options::default() };
    let report = advise(&read_mostly(), "s", &of_another).expect("a report");
    assert_eq!(all_moves(&report)[0], "align:hits=64");
}

#[test]
fn types_that_one_thread_has_for_itself_hide_none_that_threads_fight_for() {
    let (mut s, o, w) = longs(&["a", "b"], 2);
    s.access(o, 0, 8, w[0], ALL, [0, 50_000, 0]);
    s.access(o, 8, 8, w[1], ALL, [0, 50_000, 0]);
    let long = s.long();
    for n in 0..20u64 {
        let (name, at) = (format!("task{n}"), 0x8000 + 0x100 * n);
        let ty = s.structure(&name, 8, &[("x", long, 0)]);
        let own = s.global(&name, at, 8, Some(ty), 64);
        s.access(own, 0, 8, w[0], ALL, [0, 900_000, 0]);
    }
    let found = best(&s.evidence(), &Options::default());
    assert_eq!(found.first().map(|a| a.type_name.as_str()), Some("struct s"));
}

#[test]
fn true_sharing_is_not_fixed() {
    let (mut s, o, w) = longs(&["count", "b", "c"], 4);
    for t in &w {
        s.access(o, 0, 8, *t, ALL, [0, 0, 200_000]);
    }
    let evidence = s.evidence();
    let report = run(&evidence, "s");
    assert!(report.cost.mean > 500_000.0);
    assert_eq!(report.advices, []);
    assert!(report.sharing.e_true > 0.99 * report.cost.mean && report.sharing.e_false < 1.0);
    assert_eq!(best(&evidence, &Options::default()), []);
}

#[test]
fn a_lock_stays_with_the_data_that_its_holder_writes() {
    let (mut s, o, w) = longs(&["lock", "balance", "moves", "d", "e", "f", "g", "h", "i"], 4);
    for t in &w {
        s.access(o, 0, 8, *t, ALL, [0, 50_000, 50_000]);
        s.access(o, 8, 8, *t, ALL, [50_000, 50_000, 0]);
        s.access(o, 16, 8, *t, ALL, [50_000, 50_000, 0]);
    }
    assert_eq!(all_moves(&run(&s.evidence(), "s")), [] as [String; 0]);
}

#[test]
fn elements_of_different_threads_get_lines_of_their_own() {
    let (mut s, _, w) = longs(&["jobs", "bytes"], 4);
    let ty = s.tables().types.find("s");
    let o = s.global("workers", 0x2000, 64, ty, 64);
    s.tables().objects[o as usize].count = 4;
    for (i, t) in w.iter().enumerate() {
        s.access(o, 16 * i as u64, 8, *t, ALL, [0, 100_000, 0]);
        s.access(o, 16 * i as u64 + 8, 8, *t, ALL, [0, 100_000, 0]);
    }
    let report = run(&s.evidence(), "s");
    let element = report.advices.iter().find(|a| moves(a) == "element=64").expect("alignment of the element");
    assert_eq!((element.size_before, element.size_after), (16, 64));
    // Four workers of 64 instead of 16 bytes, and the lone global.
    assert_eq!(element.live_bytes, 4 * 48 + 48);
    assert!(element.after.worst < 1.0 && element.notes.is_empty());
    assert_eq!(element.why, "every struct s gets cache lines of its own");
}

#[test]
fn malloc_does_not_align_and_the_advice_says_so() {
    let mut s = Sample::two_counters();
    let ty = s.tables().types.find("stats");
    let o = s.heap(0x5010, 64, ty, 4, 16, Some(0));
    for i in 0..4u64 {
        s.access(o, 16 * i, 8, 1 + i as u32 % 2, ALL, [0, 300_000, 0]);
    }
    let report = run(&s.evidence(), "stats");
    let by = |m: &str| report.advices.iter().find(|a| moves(a) == m);
    if let Some(element) = by("element=64") {
        assert!(element.notes[0].contains("aligned_alloc(64"), "{:?}", element.notes);
    }
    let pad = by("pad=64").expect("padding");
    // malloc's four phases, and no one of them shares 8 hot bytes every 64 bytes between elements.
    assert!(pad.after.phases == 4 && pad.notes.is_empty());
    assert!(pad.gain() > 100_000.0);
}

#[test]
fn sharing_hidden_by_the_base_address_is_latent() {
    let (mut s, _, w) = longs(&["a", "b", "c", "d", "e", "f", "g", "h"], 2);
    let ty = s.tables().types.find("s");
    // Bytes 24..32 and 40..48 from 48 mod 64 lie in lines 1 and 1; from 32 mod 64 in lines 0 and 1.
    let o = s.heap(0x5020, 64, ty, 1, 16, None);
    s.access(o, 24, 8, w[0], ALL, [0, 100_000, 0]);
    s.access(o, 40, 8, w[1], ALL, [0, 100_000, 0]);
    let report = run(&s.evidence(), "s");
    assert!(report.cost.observed < 1.0 && report.cost.worst > 90_000.0);
    assert!(report.advices.iter().all(|a| a.is_latent() && a.gain() > 1000.0));
    assert!(!report.advices.is_empty());
}

/// Blocks of whole lines that always begin a line say nothing of where malloc puts what lies between them.
#[test]
fn aligned_neighbours_do_not_fix_where_an_object_begins() {
    let (mut s, _, w) = longs(&["a", "b", "c", "d", "e", "f", "g", "h"], 2);
    let ty = s.tables().types.find("s");
    for aligned in [0x4fc0, 0x5080] {
        let o = s.heap(aligned, 64, None, 1, 64, None);
        s.access(o, 0, 8, w[0], ALL, [0, 100_000, 0]);
    }
    let o = s.heap(0x5020, 64, ty, 1, 16, None);
    s.access(o, 24, 8, w[0], ALL, [0, 100_000, 0]);
    s.access(o, 40, 8, w[1], ALL, [0, 100_000, 0]);
    let report = run(&s.evidence(), "s");
    assert_eq!(report.cost.phases, 4);
    assert!(report.cost.observed < 1.0 && report.cost.worst > 90_000.0, "{:?}", report.cost);
    assert!(report.advices.iter().any(|a| a.is_latent() && a.after.worst < 1.0), "{:?}", all_moves(&report));
}

/// The hot part of `address_space` around `i_mmap`: `i_mmap` written under the lock, `i_mmap_rwsem` polled by waiters.
fn address_space() -> Sample {
    let names: Vec<String> = (0..24).map(|i| format!("w{i:02}")).collect();
    let mut list: Vec<&str> = names.iter().map(String::as_str).collect();
    // One slab slot in which root, leftmost pointer and the lock's words share a line.
    (list[9], list[10], list[11], list[12], list[13]) =
        ("i_mmap", "leftmost", "rwsem_count", "rwsem_owner", "rwsem_osq");
    (list[20], list[21]) = ("flags", "wb_err");
    let (mut s, o, w) = longs(&list, 8);
    for t in &w {
        // The holder links its vma in; the others spin on the owner.
        s.access(o, 72, 8, *t, ALL, [30_000, 10_000, 0]);
        s.access(o, 80, 8, *t, ALL, [30_000, 5_000, 0]);
        s.access(o, 88, 8, *t, ALL, [20_000, 0, 10_000]);
        s.access(o, 96, 8, *t, ALL, [300_000, 10_000, 0]);
    }
    s
}

#[test]
fn spinning_waiters_make_parting_lock_and_tree_worth_it() {
    let evidence = address_space().evidence();
    let report = run(&evidence, "s");
    assert!(!report.advices.is_empty(), "{:?}", report.cost);
    for a in &report.advices {
        assert!(a.gain() > 0.05 * a.before.mean && a.why.contains("rwsem_owner"), "{}", a.why);
    }
    let free = report.advices.iter().find(|a| a.bytes_added() == 0).expect("a move without padding");
    assert!(free.after.lines_per_actor > free.before.lines_per_actor, "the uncontended bill: {free:?}");
}

#[test]
fn frozen_members_keep_their_offset() {
    let (mut s, o, w) = longs(&["lock", "hits", "c", "d", "e", "f", "g", "h", "i"], 2);
    s.access(o, 0, 8, w[0], ALL, [0, 0, 400_000]);
    s.access(o, 8, 8, w[1], ALL, [0, 400_000, 0]);
    let evidence = s.evidence();
    let frozen = |f: &str| Options { frozen: vec![f.into()], ..Options::default() };
    let report = advise(&evidence, "s", &frozen("hits")).expect("a report");
    assert_eq!(all_moves(&report), [] as [String; 0], "lock is first and stays, hits is frozen");
    assert!(!advise(&evidence, "s", &frozen("lock")).expect("a report").advices.is_empty());
    assert!(advise(&evidence, "s", &frozen("nothing")).is_err());
}

#[test]
fn advice_must_hold_in_every_build() {
    let (mut s, o, w) = longs(&["lock", "hits", "c", "d", "e", "f", "g", "h", "i"], 3);
    s.access(o, 0, 8, w[0], ALL, [0, 0, 400_000]);
    s.access(o, 8, 8, w[1], ALL, [0, 400_000, 0]);
    s.access(o, 64, 8, w[2], ALL, [0, 400_000, 0]);
    let evidence = s.evidence();
    // In the other build `i` lies on the first line already, where the cheap exchange would put it.
    let (other, _, _) = longs(&["lock", "c", "d", "e", "f", "g", "h", "hits", "x", "y", "i"], 1);
    let other = other.evidence();
    let build = Build { name: "other", table: &other.types };
    let report =
        advise(&evidence, "s", &Options { builds: vec![build], ..Options::default() }).expect("a report");
    let alone = run(&evidence, "s");
    assert!(report.advices.len() <= alone.advices.len() && !report.advices.is_empty());
    // A build without the members refuses.
    let (none, _, _) = longs(&["p", "q"], 1);
    let none = none.evidence();
    let build = Build { name: "none", table: &none.types };
    let report =
        advise(&evidence, "s", &Options { builds: vec![build], ..Options::default() }).expect("a report");
    assert!(report.advices.iter().all(|a| !moves(a).contains("hits")), "{:?}", all_moves(&report));
}

#[test]
fn two_moves_gain_at_least_as_much_as_one() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"];
    let (mut s, o, w) = longs(&names, 3);
    for (i, t) in w.iter().enumerate() {
        s.access(o, 8 + 8 * i as u64, 8, *t, ALL, [0, 300_000, 0]);
    }
    let evidence = s.evidence();
    let most = |moves| {
        let report = advise(&evidence, "s", &Options { moves, ..Options::default() }).expect("a report");
        report.advices.iter().filter(|a| a.bytes_added() == 0).map(|a| a.gain()).fold(0.0, f64::max)
    };
    let (one, two) = (most(1), most(2));
    assert!(one > 100_000.0 && two >= one, "{one} {two}");
}

#[test]
fn rows_of_a_member_array_are_parted() {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 10, &[]);
    let workers: Vec<u32> = (0..4).map(|_| s.worker(main, start)).collect();
    let long = s.long();
    let rows = s.tables().types.push(Type::Array { elem: long, counts: vec![Some(4), Some(2)] });
    let ty = s.structure("tally", 80, &[("total", long, 0), ("count", rows, 8), ("last", long, 72)]);
    let o = s.global("g", 0x1000, 80, Some(ty), 64);
    for (t, at) in workers.iter().zip(0..) {
        s.access(o, 8 + 16 * at, 8, *t, ALL, [0, 50_000, 0]);
        s.access(o, 16 + 16 * at, 8, *t, ALL, [0, 50_000, 0]);
    }
    let evidence = s.evidence();
    let report = run(&evidence, "tally");
    let first = &report.advices[0];
    assert_eq!(moves(first), "element:count=64");
    assert!(first.before.mean > 100_000.0 && first.after.mean < 1.0, "{first:?}");
    assert_eq!((first.size_before, first.size_after, first.live_bytes), (80, 384, 304));
    // Where it says that they lie, they lie: another move of the caller's own has the same bill.
    let edits = ["element:count=128".parse().unwrap()];
    let wide = tussle_advise::evaluate(&evidence, "tally", &edits, &Options::default()).unwrap();
    assert_eq!((wide.size_after, wide.after.mean), (768, 0.0));
    let none = ["element:last=64".parse().unwrap()];
    assert!(tussle_advise::evaluate(&evidence, "tally", &none, &Options::default()).is_err());
}
