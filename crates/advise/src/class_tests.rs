use super::*;
use tussle_contention::analysis::{Question, contention};
use tussle_contention::objective::Transfers;
use tussle_evidence::sample::Sample;
use tussle_evidence::{ObjectKind, TouchKind};

fn cost(total: f64, apart: f64, main: f64) -> LineCost {
    LineCost { now: Transfers { stores: total, copies: 0.0 }, apart, main }
}

#[test]
fn classes_follow_the_documented_bounds() {
    for (c, class) in [
        (cost(999.0, 0.0, 0.0), Class::Small),
        (cost(1_000.0, 0.0, 0.0), Class::LayoutHelps),
        (cost(4_000.0, 3_000.0, 3_000.0), Class::LayoutHelps),
        (cost(10_000.0, 8_000.0, 8_000.0), Class::Undecided),
        (cost(10_000.0, 8_600.0, 8_600.0), Class::SameBytes),
        (cost(3_000.0, 2_100.0, 2_100.0), Class::SameBytes),
        (cost(10_000.0, 10_000.0, 1_000.0), Class::MovesWhole),
    ] {
        assert_eq!(Class::of(&c), class, "{c:?}");
    }
}

/// Two fields of each of many nodes of one allocation site, little on each.
#[test]
fn a_fight_spread_over_many_nodes_is_one_case() {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 3, &[]);
    let make = s.code("make", "w.c", 30, &[]);
    let long = s.long();
    let node = s.structure("node", 64, &[("in", long, 0), ("out", long, 8)]);
    let (a, b) = (s.worker(main, start), s.worker(main, start));
    for i in 0..200 {
        let o = s.heap(0x10_000 + 64 * i, 64, Some(node), 1, 64, Some(make));
        s.access(o, 0, 8, a, (0, 50_000), [0, 100, 0]);
        s.access(o, 8, 8, b, (0, 50_000), [0, 100, 0]);
    }
    let e = s.evidence();
    let (namer, seen) = (Namer::new(&e), contention(&e, &Question::observed()));
    let judged = judge(&e, &namer, &seen);
    assert_eq!(judged.len(), 1);
    assert_eq!(judged[0].class, Class::LayoutHelps);
    assert!((judged[0].group.cost.total() - 20_000.0).abs() < 1.0);
    assert_eq!(judged[0].group.title(), "struct node.in \u{27f7} struct node.out");
}

/// What threads hand to each other costs a transfer each time, whatever lies where. Under a lock beside the fields it
/// is a fight, as the lock's waiters come at any time.
#[test]
fn what_threads_were_seen_to_take_turns_at_is_no_fight() {
    let class = |lock: Option<u64>| {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let start = s.code("worker", "w.c", 3, &[]);
        let long = s.long();
        let job = s.structure("job", 64, &[("made", long, 8), ("used", long, 16)]);
        let o = s.heap(0x1000, 64, Some(job), 1, 64, None);
        for field in [8, 16] {
            let worker = s.worker(main, start);
            s.access(o, field, 8, worker, (0, 50_000), [0, 100_000, 0]);
        }
        for a in &mut s.tables().accesses {
            a.held = lock.map(|offset| (o, offset, 10_000, 10_000));
        }
        let e = s.evidence();
        judge(&e, &Namer::new(&e), &contention(&e, &Question::observed()))[0].class
    };
    assert_eq!(class(None), Class::LayoutHelps);
    assert_eq!(class(Some(0)), Class::LayoutHelps, "a lock");
    assert_eq!(class(Some(tussle_evidence::TURN_BYTE)), Class::Undecided);
}

/// Who takes a lock that lies elsewhere has all of its data by turns, and pays for the lock's own line as often. Who
/// comes without it comes at any time.
#[test]
fn what_one_lock_orders_goes_by_turns() {
    let class = |outside: u64| {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let (start, long) = (s.code("worker", "w.c", 3, &[]), s.long());
        let stats = s.structure("stats", 64, &[("in", long, 8), ("out", long, 16), ("seen", long, 24)]);
        let o = s.heap(0x1000, 64, Some(stats), 1, 64, None);
        let lock = s.heap(0x9000, 64, None, 1, 64, None);
        for field in [8, 16] {
            let worker = s.worker(main, start);
            s.access(o, field, 8, worker, (0, 50_000), [0, 5_000, 0]);
        }
        for a in &mut s.tables().accesses {
            a.held = Some((lock, 0, a.writes, a.writes));
        }
        if outside > 0 {
            let third = s.worker(main, start);
            s.access(o, 24, 8, third, (0, 50_000), [0, outside, 0]);
        }
        let e = s.evidence();
        let (namer, seen) = (Namer::new(&e), contention(&e, &Question::observed()));
        judge(&e, &namer, &seen)[0].class
    };
    assert_eq!(class(0), Class::Undecided);
    assert_eq!(class(5_000), Class::LayoutHelps);
}

/// What one lock orders is not what a case is called after, if somebody without it is there, too: a cache that counts
/// under its lock, and beside it what one of its users counts alone.
#[test]
fn a_case_is_called_after_what_one_lock_does_not_order() {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let (start, long) = (s.code("worker", "w.c", 3, &[]), s.long());
    let fields = [("hits", long, 8), ("misses", long, 16), ("other", long, 24)];
    let stats = s.structure("stats", 64, &fields);
    let o = s.heap(0x1000, 64, Some(stats), 1, 64, None);
    let lock = s.heap(0x9000, 64, None, 1, 64, None);
    let workers: Vec<u32> = (0..4).map(|_| s.worker(main, start)).collect();
    for &worker in &workers {
        s.access(o, 8, 8, worker, (0, 50_000), [6_000, 6_000, 0]);
        s.access(o, 16, 8, worker, (0, 50_000), [4_000, 4_000, 0]);
    }
    for a in &mut s.tables().accesses {
        a.held = Some((lock, 0, a.writes, a.writes));
    }
    s.access(o, 24, 8, workers[0], (0, 50_000), [10_000, 10_000, 0]);
    let e = s.evidence();
    let (namer, seen) = (Namer::new(&e), contention(&e, &Question::observed()));
    let judged = &judge(&e, &namer, &seen)[0].group;
    let most = judged.pairs.iter().filter(|p| !p.same_bytes).max_by(|a, b| a.e.total_cmp(&b.e));
    let two = most.map(|p| [p.stored, p.lost].map(|f| judged.fields[f].path.as_str()));
    assert_eq!(two.map(|t| t.iter().any(|f| f.ends_with("other"))), Some(false), "what most E is about");
    assert_eq!(judged.title(), "struct stats.hits \u{27f7} struct stats.other");
}

/// Memory without a type that a library alone touches (the control bytes of a hash table) is the library's.
#[test]
fn memory_without_a_type_is_whose_code_touches_it() {
    let class = |file: &str| {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let (start, make) = (s.code("worker", "src/w.rs", 3, &[]), s.code("make", "src/w.rs", 30, &[]));
        let user = s.code("find", file, 7, &[]);
        let o = s.heap(0x1000, 64, None, 1, 16, Some(make));
        for field in [8, 16] {
            let worker = s.worker(main, start);
            s.access(o, field, 8, worker, (0, 50_000), [0, 100_000, 0]);
            s.touch(o, field, 8, user, worker, tussle_evidence::TouchKind::Write);
        }
        let e = s.evidence();
        judge(&e, &Namer::new(&e), &contention(&e, &Question::observed()))[0].class
    };
    assert_eq!(class("src/w.rs"), Class::LayoutHelps);
    assert_eq!(class("/rustc/5980/library/hashbrown/src/raw.rs"), Class::Library);
}

/// Readers count in one word of a rwlock and look at another: both are the C library's. Two locks on one line part.
#[test]
fn the_insides_of_a_lock_are_nobodys_to_move() {
    let judged = |locks: u64| {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let start = s.code("worker", "w.c", 3, &[]);
        let long = s.long();
        let inside = s.structure("rwlock", 32, &[("readers", long, 0), ("writer", long, 8)]);
        let ty = s.typedef("pthread_rwlock_t", inside);
        for i in 0..locks {
            let o = s.global(&format!("lock{i}"), 0x1000 + 32 * i, 32, Some(ty), 8);
            for _ in 0..2 {
                let worker = s.worker(main, start);
                s.access(o, 0, 8, worker, (0, 50_000), [0, 0, 10_000]);
                s.access(o, 8, 8, worker, (0, 50_000), [20_000, 0, 0]);
            }
        }
        let e = s.evidence();
        let (namer, seen) = (Namer::new(&e), contention(&e, &Question::observed()));
        let judged = judge(&e, &namer, &seen);
        (judged[0].class, judged[0].group.cost.removable_share() >= HELPS_SHARE_MIN)
    };
    assert_eq!(judged(1), (Class::SameBytes, true));
    assert_eq!(judged(2), (Class::LayoutHelps, true));
}

#[test]
fn an_empty_evidence_says_nothing() {
    assert!(blind(&Sample::new(1000).evidence()).is_some());
    assert_eq!(blind(&Sample::two_counters().evidence()), None);
    let mut apart = Sample::two_counters().evidence();
    let (process, what) = (None, "shared memory".into());
    apart.losses.push(tussle_evidence::Loss { process, what, count: 1, note: String::new() });
    assert_eq!(blind(&apart).as_deref(), Some("memory that processes share was not compared"));
}

/// Two counters 56 bytes apart, in arrays of one allocation site at these addresses, the first of one element, each
/// next one `longer` by so many; each counter has a thread.
fn channels(bases: &[(u64, bool)], longer: u64) -> Evidence {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let (start, make) = (s.code("worker", "w.c", 3, &[]), s.code("make", "w.c", 30, &[]));
    let long = s.long();
    let ty = s.structure("channel", 64, &[("sent", long, 0), ("received", long, 56)]);
    let (a, b) = (s.worker(main, start), s.worker(main, start));
    for (i, (base, both)) in bases.iter().enumerate() {
        let elements = 1 + longer * i as u64;
        let o = s.heap(*base, 64 * elements, Some(ty), elements, 8, Some(make));
        let when = (100_000 * i as u64, 100_000 * i as u64 + 50_000);
        s.access(o, 0, 8, a, when, [0, 10_000, 0]);
        if *both {
            s.access(o, 56, 8, b, when, [0, 10_000, 0]);
        }
    }
    s.evidence()
}

/// What an object of the same kind did at a phase was not hidden.
#[test]
fn a_phase_that_another_object_had_is_not_latent() {
    let hidden = |bases: &[(u64, bool)], longer| {
        let e = channels(bases, longer);
        let (namer, seen) = (Namer::new(&e), contention(&e, &Question::observed()));
        let judged = judge(&e, &namer, &seen);
        let by_phase = |l: &Latent| matches!(l.hidden_by, HiddenBy::Phase { .. });
        let cases = judged.iter().filter(|j| j.class == Class::LayoutHelps).count();
        (latent(&e, &seen, &judged).into_iter().filter(by_phase).count(), cases)
    };
    assert_eq!(hidden(&[(0x1008, true)], 0), (1, 0), "at phase 8 the counters lie on two lines");
    assert_eq!(hidden(&[(0x1008, true), (0x2000, false)], 0), (1, 0), "one thread alone shows nothing");
    assert_eq!(hidden(&[(0x1008, true), (0x2000, true)], 0), (0, 1), "what it does at phase 0 was seen");
    assert_eq!(hidden(&[(0x1008, true), (0x2000, true)], 1), (0, 1), "a longer array is of the same kind");
}

/// A lock that four threads want, beside a counter of a fifth, which the lock's own bytes outweigh: the rest of the
/// object comes to the same line at another phase and adds little.
#[test]
fn a_fight_that_goes_on_here_is_not_latent_for_a_little_more_elsewhere() {
    let hidden = |polls_stores: u64, beside: u64| {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let (start, make) = (s.code("worker", "w.c", 3, &[]), s.code("make", "w.c", 30, &[]));
        let long = s.long();
        let members = [("polls", long, 0), ("lock", long, 8), ("data", long, 16)];
        let ty = s.structure("totals", 24, &members);
        // `data` lies on the next line here.
        let o = s.heap(0x1030, 24, Some(ty), 1, 16, Some(make));
        for _ in 0..4 {
            let worker = s.worker(main, start);
            s.access(o, 8, 8, worker, (0, 50_000), [0, 0, 10_000]);
        }
        let polls = s.worker(main, start);
        s.access(o, 0, 8, polls, (0, 50_000), [0, polls_stores, 0]);
        s.access(o, 16, 8, polls, (0, 50_000), [0, beside, 0]);
        let e = s.evidence();
        let (namer, seen) = (Namer::new(&e), contention(&e, &Question::observed()));
        let judged = judge(&e, &namer, &seen);
        let by_phase = |l: &Latent| matches!(l.hidden_by, HiddenBy::Phase { .. });
        let hidden = latent(&e, &seen, &judged).into_iter().filter(by_phase).count();
        (judged[0].class, hidden)
    };
    assert_eq!(hidden(9_000, 20_000), (Class::Undecided, 0), "nearly as much here");
    assert_eq!(hidden(6_000, 20_000), (Class::Undecided, 1), "much more there");
}

/// Two counters of one object on two lines of 64 bytes, which another phase, and lines of 128 bytes, bring together.
#[test]
fn what_hides_a_case_in_two_ways_costs_once() {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let start = s.code("worker", "w.c", 3, &[]);
    let long = s.long();
    let ty = s.structure("pair", 16, &[("a", long, 0), ("b", long, 8)]);
    let o = s.global("pair", 0x1038, 16, Some(ty), 8);
    for at in [0, 8] {
        let actor = s.worker(main, start);
        s.access(o, at, 8, actor, (0, 50_000), [0, 10_000, 0]);
    }
    let e = s.evidence();
    let (namer, seen) = (Namer::new(&e), contention(&e, &Question::observed()));
    let latent = latent(&e, &seen, &judge(&e, &namer, &seen));
    assert_eq!(latent.len(), 2, "a phase and the wide view");
    let hidden = crate::hidden::by_fields(&e, &namer, &latent);
    assert_eq!(hidden.len(), 1);
    assert!(hidden[0].words().contains("or with 128-byte lines"));
    let most = latent.iter().map(|l| l.line.cost.total()).fold(0.0, f64::max);
    assert!(
        (hidden[0].group.cost.total() - most).abs() < 1.0,
        "of 20,000 stores no more than 20,000 transfers"
    );
    let verdicts = Verdicts::new(&e, LineSize::L64);
    assert_eq!((verdicts.of_objects(|_| true), verdicts.hides(|_| true)), (Class::Small, true));
    let report = crate::advise(&e, "struct pair", &crate::advice::Options::default()).unwrap();
    assert!(report.latent && report.class == Class::Small && !report.advices.is_empty(), "{report:?}");
}

/// Advice does not deny what a report says: a fight inside of a member, and one of objects without members.
#[test]
fn what_no_move_parts_is_said_as_it_is() {
    let mut s = Sample::new(1000);
    let main = s.thread("main", None);
    let (start, make) = (s.code("worker", "w.c", 3, &[]), s.code("make", "w.c", 30, &[]));
    let long = s.long();
    let io = s.structure("io", 16, &[("rx", long, 0), ("tx", long, 8)]);
    let conn = s.structure("conn", 24, &[("fd", long, 0), ("io", io, 8)]);
    let k = s.global("k", 0x1000, 24, Some(conn), 8);
    let actors = [s.worker(main, start), s.worker(main, start)];
    for (at, actor) in [8, 16].into_iter().zip(actors) {
        s.access(k, at, 8, actor, (0, 50_000), [0, 10_000, 0]);
    }
    for (base, actor) in [0x2000, 0x2020].into_iter().zip(actors) {
        let o = s.heap(base, 8, Some(long), 1, 16, Some(make));
        s.access(o, 0, 8, actor, (0, 50_000), [0, 10_000, 0]);
    }
    let e = s.evidence();
    let ask = |name: &str| crate::advise(&e, name, &crate::advice::Options::default());
    let report = ask("struct conn").unwrap();
    assert_eq!(
        (report.class, report.stays),
        (Class::LayoutHelps, Some(crate::stays::Stays::Inside("io".into())))
    );
    let (namer, seen) = (Namer::new(&e), contention(&e, &Question::observed()));
    let judged = judge(&e, &namer, &seen);
    let of_io = judged.iter().find(|j| j.group.title().contains("io")).unwrap();
    assert_eq!(of_io.struct_name(&e).as_deref(), Some("struct conn"));
    assert_eq!(of_io.inner_struct(&e).as_deref(), Some("struct io"), "its members part");
    assert!(of_io.is_for_advise(&e) && of_io.remedy(&e).contains("`tussle advise` says how"));
    let of_long = judged.iter().find(|j| !j.group.title().contains("io")).unwrap();
    assert!(!of_long.is_for_advise(&e) && of_long.remedy(&e).contains("no members to move"));
    let number = ask(&e.types.name(long)).unwrap_err().to_string();
    assert!(number.contains("has no members to move"), "{number}");
    let other = ask("no such").unwrap_err().to_string();
    assert!(other.contains("no recorded object holds"), "{other}");
}

/// The words of an arena on one line, and on the next its last header beside a block of the program.
#[test]
fn an_arena_of_malloc_is_the_librarys_whatever_lies_behind_it() {
    let with = |beside: u64, function: &str| {
        let mut s = Sample::new(1000);
        let main = s.thread("main", None);
        let start = s.code("worker", "w.c", 3, &[]);
        let (frees, works) = (s.code(function, "", 0, &[]), s.code("work", "w.c", 9, &[]));
        let (a, b) = (s.worker(main, start), s.worker(main, start));
        let page = s.global("", 0x7000, 4096, None, 4096);
        let put = |s: &mut Sample, at: u64, actor: u32, stores: u64, code: u32| {
            s.access(page, at, 8, actor, (0, 50_000), [0, stores, 0]);
            s.touch(page, at, 8, code, actor, TouchKind::Write);
        };
        for (at, actor) in [(0, a), (8, b), (16, a), (24, b)] {
            put(&mut s, at, actor, 5_000, frees);
        }
        put(&mut s, 64, a, beside, frees);
        put(&mut s, 72, b, beside, works);
        let mut e = s.evidence();
        e.objects[page as usize].kind = ObjectKind::Unknown;
        e.objects[page as usize].name = None;
        let (namer, seen) = (Namer::new(&e), contention(&e, &Question::observed()));
        let judged: Vec<Class> = judge(&e, &namer, &seen).iter().map(|j| j.class).collect();
        judged
    };
    assert_eq!(with(500, "_int_free")[0], Class::Library);
    assert_eq!(with(500, "release")[0], Class::LayoutHelps, "a function of the program");
    assert!(with(50_000, "_int_free").contains(&Class::LayoutHelps), "the block is what is fought over");
}

/// Variants of an enum lie at the same bytes and are all as large as the enum: the one with members there is meant.
#[test]
fn a_fight_in_an_enum_is_of_the_variant_that_has_the_fields() {
    use tussle_model::types::{Base, Encoding};
    use tussle_model::{AggregateKind, Type};
    let mut t = TypeTable::new(8);
    let word = t.push(Type::Base(Base { name: "u64".into(), size: 8, encoding: Encoding::Unsigned }));
    let fields = |names: &[&str]| {
        names.iter().zip(1u64..).map(|(n, k)| Member::field(Some(*n), word, 8 * k)).collect::<Vec<_>>()
    };
    let mut of = |name: &str, members| {
        t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, Some(name), 24, members)))
    };
    let (idle, running) = (of("State::Idle", Vec::new()), of("State::Running", fields(&["done", "failed"])));
    let variant = |ty| Member { role: MemberRole::Variant, ..Member::field(None, ty, 0) };
    let state = of("State", vec![variant(idle), variant(running)]);
    assert_eq!(holder_of(&t, state, 8, 16).as_deref(), Some("struct State::Running"));
}
