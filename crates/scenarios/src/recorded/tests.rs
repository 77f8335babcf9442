use super::*;
use crate::decide::Course;
use crate::predict::{Ablation, Comparison, Doubt, Job, Verdict, run};
use proptest::prelude::*;
use std::sync::Arc;
use tussle_evidence::tables::*;
use tussle_model::{Aggregate, AggregateKind, Base, Encoding, Member, Type, TypeTable};
use tussle_sim::machine;

const SEES: Sees = Sees { locks: true, ..Sees::ACCESSES };

/// `struct counters { long a; long b; pthread_mutex_t la; pthread_mutex_t lb; }` with the locks on lines of their own,
/// a and b at these offsets.
fn types(a: u64, b: u64) -> (TypeTable, tussle_model::TypeId) {
    let mut t = TypeTable::new(8);
    let long = t.push(Type::Base(Base { name: "long".into(), size: 8, encoding: Encoding::Signed }));
    let member = |name: &str, ty, offset| Member::field(Some(name), ty, offset);
    let aggregate = |t: &mut TypeTable, name, size, members| {
        t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, name, size, members)))
    };
    let words = ["__lock", "__owner", "__kind", "__prev", "__next"];
    let words = words.iter().zip([0, 8, 16, 24, 32]).map(|(n, at)| member(n, long, at)).collect();
    let futex = aggregate(&mut t, None, 40, words);
    let mutex = t.push(Type::Typedef { name: "pthread_mutex_t".into(), to: futex });
    let members = [("a", long, a), ("b", long, b), ("la", mutex, 256), ("lb", mutex, 384)];
    let members = members.map(|(n, ty, at)| member(n, ty, at)).to_vec();
    let id = aggregate(&mut t, Some("counters"), 512, members);
    (t, id)
}

fn aggregate(t: &mut TypeTable, name: &str, size: u64) -> tussle_model::TypeId {
    t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, Some(name), size, Vec::new())))
}

fn actor(number: u32) -> Actor {
    Actor {
        process: None,
        kind: ActorKind::Thread,
        number,
        name: None,
        creator: None,
        start: None,
        vt0: 0,
        vt1: 1_000_000,
    }
}

/// `actors` threads that update a field 20 times, under a lock, with some own work between; `field` and `lock` by
/// actor.
fn evidence(actors: u32, field: impl Fn(u32) -> u64, lock: impl Fn(u32) -> Option<u64>) -> Evidence {
    let mut e = Evidence::empty(Run::new(Source::Recorder, 1_000, SEES));
    let (table, ty) = types(0, 8);
    e.types = table;
    e.actors = (0..actors).map(actor).collect();
    let object = Object::unnamed(0, ObjectKind::Global, 0x10_0000, 512);
    e.objects = vec![Object { ty: Some(ty), ..object }];
    let operation = |a: u32| Operation {
        actor: a,
        lock_object: lock(a).map(|_| 0),
        lock_offset: lock(a),
        vt0: 0,
        vt1: 100_000,
        visits: (0..20)
            .flat_map(|_| [TouchKind::Read, TouchKind::Write].map(|k| (0, field(a), 8, k, 2)))
            .collect(),
        repeats: 500,
        ..Operation::default()
    };
    e.operations = Some((0..actors).map(operation).collect());
    e
}

fn ask(e: &Evidence, cpus: u32) -> Comparison {
    let mut q =
        Comparison::of_recording(Recording::new(e).unwrap(), machine::find("2s-icelake-sp-96").unwrap());
    (q.cpus, q.draws, q.run_ns) = (vec![cpus], Some(21), Some(60_000));
    q
}

fn answer(q: &Comparison) -> crate::predict::Prediction {
    let mut course = Course::new(q);
    loop {
        let jobs = course.next();
        if jobs.is_empty() {
            return course.answer();
        }
        course.add(&jobs, jobs.iter().map(|j| run(q, j).unwrap()).collect());
    }
}

#[test]
fn fields_falsely_shared_under_two_locks_gain_from_a_split() {
    let e = evidence(2, |a| u64::from(a) * 8, |a| Some(256 + u64::from(a) * 128));
    let p = answer(&ask(&e, 2));
    let point = p.point().unwrap();
    assert_eq!((point.verdict, point.withheld), (Verdict::Undecided, Some(Verdict::Faster)), "{point:?}");
    assert_eq!((point.doubt, point.positive_share), (Some(Doubt::Withheld), 1.0), "{point:?}");
    assert!(point.median > 0.1, "{point:?}");
    // Nobody knows which fields further tasks would use: the slots are not one object per thread.
    let more = answer(&ask(&e, 24));
    assert!(matches!(more.point().unwrap().doubt, Some(Doubt::Replicas(_))), "{:?}", more.point());
}

/// Two threads of one start routine, each with an object of its own out of one allocation site, side by side.
fn own_objects(e: &mut Evidence) {
    let heap = |n: u64| {
        let o = Object::unnamed(0, ObjectKind::Heap, 0x10_0000 + n * 32, 24);
        Object { align: 16, alloc_code: Some(7), ..o }
    };
    e.objects = (0..e.actors.len() as u64).map(heap).collect();
    e.actors.iter_mut().for_each(|a| a.start = Some(3));
    for (i, o) in e.operations.iter_mut().flatten().enumerate() {
        o.visits.iter_mut().for_each(|v| (v.0, v.1) = (i as u32, 0));
    }
}

#[test]
fn only_what_all_actors_share_or_each_has_for_itself_is_replicated() {
    let mut e = evidence(2, |_| 0, |_| None);
    own_objects(&mut e);
    assert_eq!(Recording::new(&e).unwrap().no_replicas(), None);
    let with = |change: fn(&mut Evidence)| {
        let mut other = e.clone();
        change(&mut other);
        Recording::new(&other).unwrap().no_replicas()
    };
    assert!(with(|e| e.actors[1].start = Some(4)).is_some(), "two routines");
    assert!(with(|e| e.objects[1].alloc_code = Some(8)).is_some(), "two sites");
    let ops = |e: &mut Evidence| e.operations.as_mut().unwrap()[1].visits[0] = (0, 8, 8, TouchKind::Read, 0);
    assert!(with(ops).is_some(), "a neighbour's object");
    let all = |e: &mut Evidence| {
        e.operations.iter_mut().flatten().for_each(|o| o.visits.iter_mut().for_each(|v| v.0 = 0));
    };
    assert_eq!(with(all), None, "one field that all use");
}

/// Objects of a type that a side moves lay on one line when they were recorded, and the before side keeps them there.
#[test]
fn before_is_where_things_were_recorded() {
    let mut e = evidence(2, |_| 0, |_| None);
    own_objects(&mut e);
    let item = aggregate(&mut e.types, "item", 24);
    e.objects.iter_mut().for_each(|o| o.ty = Some(item));
    for o in e.operations.iter_mut().flatten() {
        o.visits.iter_mut().for_each(|v| v.3 = TouchKind::Rmw);
    }
    let r = Arc::new(Recording::new(&e).unwrap());
    let mut padded = Relocation::new("pad=64");
    padded.add(item, 64, 1, [(0, 0)]);
    let lines = |how| {
        let a = place::arrange(&r, how, 2, &crate::Setup::new(2)).unwrap();
        [0, 1].map(|spot| a.memory.at(a.cells[0][spot]).addr / 64)
    };
    let before = lines(Arrangement::Recorded);
    assert_eq!(before[0], before[1]);
    let after = lines(Arrangement::Moved(&padded));
    assert_ne!(after[0], after[1], "an element that grows pushes the next one away");
    let mut q = ask(&e, 2);
    q.after = Side::Moved(Arc::new(padded));
    let p = answer(&q);
    assert!(p.point().unwrap().low > 0.2, "padding brings something: {:?}", p.point());
}

#[test]
fn operations_that_hold_little_of_the_traffic_give_no_verdict() {
    let mut e = evidence(2, |a| u64::from(a) * 8, |a| Some(256 + u64::from(a) * 128));
    let inside = 2 * 500 * 40;
    for (outside, withheld) in
        [(0, Some(Verdict::Faster)), (inside / 2, Some(Verdict::Faster)), (2 * inside, None)]
    {
        e.accesses = vec![Access {
            object: 0,
            offset: 0,
            size: 8,
            actor: 0,
            vt0: 0,
            vt1: 100_000,
            reads: inside + outside,
            writes: 0,
            rmws: 0,
            held: None,
        }];
        let p = answer(&ask(&e, 2));
        let point = p.point().unwrap();
        assert_eq!((point.verdict, point.withheld), (Verdict::Undecided, withheld), "{outside} outside");
        assert_eq!(matches!(point.doubt, Some(Doubt::Coverage(_))), withheld.is_none(), "{point:?}");
    }
}

#[test]
fn operations_too_short_for_the_model_give_no_verdict() {
    let mut e = evidence(2, |a| u64::from(a) * 8, |a| Some(256 + u64::from(a) * 128));
    e.operations.iter_mut().flatten().for_each(|o| o.visits.truncate(4));
    let p = answer(&ask(&e, 2));
    let point = p.point().unwrap();
    assert_eq!((point.verdict, point.withheld), (Verdict::Undecided, None));
    assert!(matches!(point.doubt, Some(Doubt::Short(ns)) if ns < 50.0), "{point:?}");
}

#[test]
fn true_sharing_under_one_lock_gains_nothing() {
    let e = evidence(2, |_| 0, |_| Some(256));
    let p = answer(&ask(&e, 8));
    let point = p.point().unwrap();
    assert_eq!(point.verdict, Verdict::Undecided, "{point:?}");
    assert!(point.median.abs() < 0.02, "{point:?}");
}

#[test]
fn counters_without_locks_are_simulated_too() {
    let mut e = evidence(2, |a| u64::from(a) * 8, |_| None);
    for v in e.operations.iter_mut().flatten().flat_map(|o| &mut o.visits) {
        v.3 = TouchKind::Rmw;
    }
    let p = answer(&ask(&e, 2));
    assert!(p.point().unwrap().median > 0.5, "{:?}", p.point());
    let names: Vec<&str> = p.samples[0].before.fields.iter().map(|f| f.0.as_str()).collect();
    assert_eq!(names, ["counters.a", "counters.b"]);
}

/// One locked operation of each of two threads on its own half of a line, 100 accesses apart.
fn locked_counters() -> Evidence {
    let mut e = evidence(2, |a| u64::from(a) * 8, |_| None);
    for o in e.operations.iter_mut().flatten() {
        o.visits = vec![(0, u64::from(o.actor) * 8, 8, TouchKind::Rmw, 100)];
        (o.vt1, o.repeats) = (200, 5_000);
    }
    e
}

/// The table of `tussle calibrate` beneath the simulator: nothing is hidden behind work that waits for nothing, all of
/// a line's way behind a chain, and the kind of work that nobody knows spans both.
#[test]
fn what_a_processor_hides_comes_from_the_machines_table() {
    let mut q = ask(&locked_counters(), 2);
    q.fixed = vec![("think".into(), 1.0), ("work".into(), 1.0)];
    let median = |q: &Comparison| answer(q).point().unwrap().median;
    let none = median(&q);
    assert!(q.clone().set("chain", 1.0).is_err(), "this machine has no table");
    let column = |ns: [f64; 2]| [(tussle_sim::Pattern::Rmw, ns.to_vec())].into();
    q.machine.curve = Some(tussle_sim::Curve {
        work_ns: vec![0.0, 50.0],
        dependent: column([80.0, 0.0]),
        independent: column([80.0, 80.0]),
    });
    let kind = |chain: f64| {
        let mut q = q.clone();
        q.set("chain", chain).unwrap();
        median(&q)
    };
    let (independent, dependent) = (kind(1.0), kind(2.0));
    assert!(none > 0.2 && (independent - none).abs() < 0.05, "{none} {independent}");
    assert!(dependent < independent / 2.0, "{dependent} of {independent}");
    let both = answer(&q);
    let point = both.point().unwrap();
    assert!(point.low < independent / 2.0 && point.high > dependent, "{point:?}");
    assert!(both.tornado.iter().any(|t| t.unknown.key == "chain"));
}

#[test]
fn another_layout_is_followed_by_field_name() {
    let e = evidence(2, |a| u64::from(a) * 8, |a| Some(256 + u64::from(a) * 128));
    let recording = Recording::new(&e).unwrap();
    assert_eq!(recording.coverage(), None);
    let (other, _) = types(0, 128);
    let moved = Relocation::of_types(&recording, &e.types, &other, "patched").unwrap();
    let mut q = ask(&e, 2);
    q.after = Side::Moved(Arc::new(moved));
    let patched = answer(&q);
    assert_eq!(patched.point().unwrap().withheld, Some(Verdict::Faster));
    // The other way round it is a loss.
    std::mem::swap(&mut q.before, &mut q.after);
    assert_eq!(answer(&q).point().unwrap().withheld, Some(Verdict::Slower));
    // A layout without the field, and one without the type.
    let (mut less, id) = types(0, 8);
    let Type::Aggregate(mut a) = less.get(id).clone() else { unreachable!() };
    a.members.remove(1);
    less.set(id, Type::Aggregate(a));
    let error = |t: &TypeTable| Relocation::of_types(&recording, &e.types, t, "6.1").unwrap_err().to_string();
    assert_eq!(
        error(&less),
        "6.1: struct counters has no field `b`; it has a, la.__lock, la.__owner, la.__kind, la.__prev, la.__next, \
         lb.__lock, lb.__owner, lb.__kind, lb.__prev, lb.__next, ..."
    );
    assert_eq!(error(&TypeTable::new(8)), "6.1 has none of the recorded types: struct counters");
}

/// `struct sems { long id; union { long seq; void *next; }; struct sem { long val; spinlock_t lock; } sem[]; }`.
fn flexible() -> (TypeTable, tussle_model::TypeId) {
    let mut t = TypeTable::new(8);
    let long = t.push(Type::Base(Base { name: "long".into(), size: 8, encoding: Encoding::Signed }));
    let member = |name, ty, offset| Member::field(name, ty, offset);
    let aggregate = |t: &mut TypeTable, kind, name, size, members| {
        t.push(Type::Aggregate(Aggregate::new(kind, name, size, members)))
    };
    let kind = AggregateKind::Struct;
    let raw = aggregate(&mut t, kind, None, 4, vec![]);
    let spin = t.push(Type::Typedef { name: "spinlock_t".into(), to: raw });
    let members = vec![member(Some("val"), long, 0), member(Some("lock"), spin, 8)];
    let sem = aggregate(&mut t, kind, Some("sem"), 16, members);
    let array = t.push(Type::Array { elem: sem, counts: vec![None] });
    let both = vec![member(Some("seq"), long, 0), member(Some("next"), long, 0)];
    let union = aggregate(&mut t, AggregateKind::Union, None, 8, both);
    let members = vec![member(Some("id"), long, 0), member(None, union, 8), member(Some("sem"), array, 16)];
    let id = aggregate(&mut t, kind, Some("sems"), 16, members);
    (t, id)
}

/// Names of what is touched at these offsets of an object of one struct, and of the lock at 40.
fn names(object: Object, (types, ty): (TypeTable, tussle_model::TypeId)) -> (Vec<String>, Vec<String>) {
    let mut e = evidence(2, |_| 0, |_| Some(40));
    e.types = types;
    e.objects = vec![Object { ty: Some(ty), ..object }];
    for o in e.operations.iter_mut().flatten() {
        o.visits = [0, 8, 16, 32].map(|at| (0, at, 8, TouchKind::Write, 0)).to_vec();
    }
    let r = Recording::new(&e).unwrap();
    let fields = r.spots.iter().map(|s| format!("{} {}", s.offset, s.name)).collect();
    (fields, r.locks().iter().map(|l| l.at.clone()).collect())
}

#[test]
fn what_lies_behind_a_struct_is_not_its_beginning() {
    let slab = Object::unnamed(0, ObjectKind::Slab, 0x1000, 64);
    let (fields, locks) = names(slab.clone(), flexible());
    // All members of a union are named, as in the report.
    assert_eq!(fields, ["0 id", "8 seq|next", "16 sem[0].val", "32 sem[1].val"]);
    assert_eq!(locks, ["sems.sem[].lock"]);
    let (mut table, ty) = flexible();
    let Type::Aggregate(mut a) = table.get(ty).clone() else { unreachable!() };
    a.members.pop();
    table.set(ty, Type::Aggregate(a));
    let (fields, locks) = names(slab.clone(), (table.clone(), ty));
    assert_eq!(fields, ["0 id", "8 seq|next", "16 +0x10", "32 +0x20"]);
    assert_eq!(locks, ["sems at 40 (0x28)"]);
    // Elements side by side are each of the type.
    let (fields, _) = names(Object { count: 4, ..slab }, (table, ty));
    assert_eq!(fields, ["0 id", "8 seq|next", "16 id", "32 id"]);
}

#[test]
fn variables_are_known_by_their_names_and_readers_of_spinning_locks_are_told_of() {
    let mut e = evidence(2, |_| 0, |_| Some(0));
    let mut t = TypeTable::new(8);
    let raw = t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, None, 8, vec![])));
    let ty = t.push(Type::Typedef { name: "rwlock_t".into(), to: raw });
    let object = Object { ty: Some(ty), ..Object::unnamed(0, ObjectKind::Global, 0x1000, 8) };
    e.types = t;
    e.objects = vec![Object { name: Some("tasklist_lock".into()), ..object }];
    let r = Recording::new(&e).unwrap();
    let locks = r.locks();
    let lock = locks.first().unwrap();
    assert_eq!((lock.at.as_str(), lock.found.ty.as_deref()), ("tasklist_lock", Some("rwlock_t")));
    assert_eq!(lock.found.model.title(), "queued spinlock: its readers are serialised");
}

#[test]
fn coverage_leaves_the_locks_own_words_out() {
    let mut e = evidence(2, |a| u64::from(a) * 8, |a| Some(256 + u64::from(a) * 128));
    let access = |offset, actor| Access {
        object: 0,
        offset,
        size: 8,
        actor,
        vt0: 0,
        vt1: 1_000_000,
        reads: 20_000,
        writes: 20_000,
        rmws: 0,
        held: None,
    };
    e.accesses = vec![access(0, 0), access(8, 1), access(256, 0), access(392, 1)];
    // 40 visits of each of 500 operations of both actors; all accesses to data but half lie in them.
    assert_eq!(Recording::new(&e).unwrap().coverage(), Some(0.5));
}

#[test]
fn neighbours_keep_their_line_and_copies_are_apart() {
    // Two variables side by side, each used by one thread; and one of the heap, whose place is drawn.
    let mut e = evidence(2, |_| 0, |_| None);
    e.objects = vec![
        Object::unnamed(0, ObjectKind::Global, 0x1000, 8),
        Object::unnamed(0, ObjectKind::Global, 0x1008, 8),
        Object::unnamed(0, ObjectKind::Heap, 0x2008, 64),
    ];
    for (i, o) in e.operations.iter_mut().flatten().enumerate() {
        o.visits = vec![(i as u32, 0, 8, TouchKind::Write, 1), (2, 8, 8, TouchKind::Read, 1)];
    }
    let r = Arc::new(Recording::new(&e).unwrap());
    let setup = crate::Setup::new(4);
    let line = |how, copy: usize, spot: usize| {
        let a = place::arrange(&r, how, 4, &setup).unwrap();
        a.memory.at(a.cells[copy][spot]).addr / 64
    };
    assert_eq!(line(Arrangement::Recorded, 0, 0), line(Arrangement::Recorded, 0, 2), "globals");
    assert_ne!(line(Arrangement::Recorded, 0, 0), line(Arrangement::Recorded, 1, 0), "a copy");
    assert_eq!(line(Arrangement::Recorded, 0, 1), line(Arrangement::Recorded, 1, 1), "shared by all");
    assert_ne!(line(Arrangement::Ideal, 0, 0), line(Arrangement::Ideal, 0, 2));
}

#[test]
fn the_ideal_keeps_a_buffer_together_and_splits_slots() {
    // Words of an untyped object: 0 to 3 are one thread's, 4 the other's, and both use 6 and 7.
    let mut e = evidence(2, |_| 0, |_| None);
    e.objects = vec![Object::unnamed(0, ObjectKind::Global, 0x1000, 64)];
    for (i, o) in e.operations.iter_mut().flatten().enumerate() {
        let words: &[u64] = if i == 0 { &[0, 1, 2, 3, 6, 7] } else { &[4, 6, 7] };
        o.visits = words.iter().map(|w| (0, w * 8, 8, TouchKind::Write, 0)).collect();
    }
    let r = Arc::new(Recording::new(&e).unwrap());
    let a = place::arrange(&r, Arrangement::Ideal, 2, &crate::Setup::new(2)).unwrap();
    let lines: Vec<u32> = a.cells[0].iter().map(|c| a.memory.at(*c).addr / 64).collect();
    let same = |x: usize, y: usize| lines[x] == lines[y];
    // In the order in which they were seen first: 0 1 2 3 6 7 4.
    assert!(same(0, 3) && same(4, 5) && !same(3, 6) && !same(6, 4) && !same(0, 4), "{lines:?}");
}

#[test]
fn think_time_is_what_operations_leave() {
    let e = evidence(2, |_| 0, |_| Some(256));
    let r = Recording::new(&e).unwrap();
    // 500 operations of 40 x 3 accesses in 100,000.
    assert_eq!((r.think(), r.think_ns()), (Think::Accesses, 80.0));
    // Work without accesses is not recorded: there may be a microsecond of it.
    let unknowns = crate::subject::Subject::Recording(Arc::new(r))
        .unknowns(&tussle_sim::machine::find("2s-icelake-sp-96").unwrap());
    let range = unknowns.iter().find(|u| u.key == "think").map(|u| u.range);
    assert_eq!(range, Some((0.5, 14.5)));
    let mut e = e;
    e.operations.iter_mut().flatten().for_each(|o| o.vt1 = 50_000);
    // Less than they need (the times are those of one of them), so the actor's life of 1,000,000 counts.
    let r = Recording::new(&e).unwrap();
    assert_eq!((r.think(), r.think_ns()), (Think::Accesses, (1_000_000.0 - 60_000.0) / 500.0));
    for o in e.operations.iter_mut().flatten() {
        (o.think_instructions, o.instructions) = (Some(1_000), Some(120));
    }
    let r = Recording::new(&e).unwrap();
    assert_eq!((r.think(), r.think_ns(), r.operation_ns()), (Think::Instructions, 350.0, 42.0));
    for o in e.operations.iter_mut().flatten() {
        (o.think_instructions, o.repeats) = (None, u64::MAX / 2);
    }
    assert_eq!(Recording::new(&e).unwrap().think(), Think::Unknown);
}

#[test]
fn locks_inside_are_taken_and_crossed_ones_left_out() {
    let mut e = evidence(2, |_| 0, |a| Some(256 + u64::from(a) * 128));
    let other = |a: u32| 256 + u64::from(1 - a) * 128;
    for o in e.operations.iter_mut().flatten().take(1) {
        o.inner = Some(vec![(1, 3, 0, other(o.actor), None)]);
    }
    let r = Recording::new(&e).unwrap();
    let locks = |r: &Recording, i: usize| {
        let one =
            |s: &Step| matches!(s, Step::Lock(..)) as usize + matches!(s, Step::Unlock(..)) as usize * 10;
        r.shapes[i].steps.iter().map(one).sum::<usize>()
    };
    assert_eq!((locks(&r, 0), r.crossed), (11, 0));
    // The same two locks the other way round: that would deadlock.
    for o in e.operations.iter_mut().flatten() {
        o.inner = Some(vec![(1, 3, 0, other(o.actor), None)]);
    }
    let r = Recording::new(&e).unwrap();
    assert_eq!((locks(&r, 0), locks(&r, 1), r.crossed), (11, 0, 1));
    let q = ask(&e, 4);
    assert!(run(&q, &Job { cpus: 4, draw: 0, ablation: Ablation::None }).unwrap().before.throughput > 0.0);
}

#[test]
fn what_cannot_be_predicted_is_said() {
    let error = |e: &Evidence| Recording::new(e).unwrap_err();
    let mut e = evidence(2, |_| 0, |_| None);
    e.operations.as_mut().unwrap().truncate(1);
    assert!(matches!(error(&e), RecordedError::OneActor));
    e.operations.as_mut().unwrap()[0].actor = 77;
    assert!(matches!(error(&e), RecordedError::Dangling(1)));
    e.operations = None;
    assert!(matches!(error(&e), RecordedError::NoOperations));
    let e = evidence(2, |a| u64::from(a) * 8, |_| None);
    let mut q = ask(&e, 2);
    q.after = Side::Name("fixed".into());
    let said = q.subject.check(&q.after).unwrap_err().to_string();
    assert!(said.starts_with("recorded operations have no variant `fixed`"), "{said}");
}

/// An operation with any numbers in it.
fn operation() -> impl Strategy<Value = Operation> {
    let kind = prop_oneof![Just(TouchKind::Read), Just(TouchKind::Write), Just(TouchKind::Rmw)];
    let number = prop_oneof![0u64..600, Just(u64::MAX), Just(u64::MAX / 2), any::<u64>()];
    let small = prop_oneof![0u32..4, any::<u32>()];
    let visit = (small.clone(), number.clone(), small.clone(), kind, number.clone());
    let inner = (small.clone(), small.clone(), small.clone(), number.clone(), any::<Option<bool>>());
    let lock = (proptest::option::of(small.clone()), proptest::option::of(number.clone()));
    let times = (number.clone(), number.clone(), number.clone());
    let counts = (proptest::option::of(number.clone()), proptest::option::of(number), any::<Option<bool>>());
    let lists = (
        proptest::collection::vec(visit, 0..12),
        proptest::option::of(proptest::collection::vec(inner, 0..4)),
    );
    (small, lock, times, counts, lists).prop_map(|(actor, lock, times, counts, lists)| Operation {
        actor,
        lock_object: lock.0,
        lock_offset: lock.1,
        vt0: times.0,
        vt1: times.1,
        repeats: times.2,
        think_instructions: counts.0,
        instructions: counts.1,
        shared: counts.2,
        visits: lists.0,
        inner: lists.1,
        ..Operation::default()
    })
}

proptest! {
    #[test]
    fn any_operations_are_simulated_or_refused(
        operations in proptest::collection::vec(operation(), 0..12),
        places in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>()), 0..4),
        cpus in 1u32..6,
    ) {
        let mut e = evidence(4, |_| 0, |_| None);
        e.objects.extend(places.iter().map(|&(base, size, align, heap)| {
            let kind = if heap { ObjectKind::Heap } else { ObjectKind::Global };
            let ty = heap.then_some(tussle_model::TypeId(size as u32));
            Object { align, ty, ..Object::unnamed(0, kind, base, size) }
        }));
        e.operations = Some(operations);
        if let Ok(recording) = Recording::new(&e) {
            let mut q = Comparison::of_recording(recording, machine::find("2s-icelake-sp-96").unwrap());
            (q.cpus, q.draws, q.run_ns) = (vec![cpus], Some(1), Some(20_000));
            // Errors are typed; a deadlock would be one of the replay's own making.
            if let Err(e) = run(&q, &Job { cpus, draw: 0, ablation: Ablation::None }) {
                prop_assert!(!e.to_string().contains("lock at"), "{}", e);
            }
        }
    }
}

#[test]
fn many_actors_and_shapes_are_bounded() {
    let mut e = evidence(5_000, |a| u64::from(a % 60) * 8, |_| Some(256));
    let one = e.operations.as_ref().unwrap()[0].clone();
    let more = (0..30_000u32).map(|i| Operation { actor: i % 5_000, repeats: 1_000_000_000, ..one.clone() });
    e.operations.as_mut().unwrap().extend(more);
    let r = Recording::new(&e).unwrap();
    assert!(r.shapes.len() <= OPERATIONS_MAX && r.operations().1 < r.operations().0);
    let mut q = Comparison::of_recording(r, machine::find("2s-icelake-sp-96").unwrap());
    assert_eq!(q.cpus, [96]);
    (q.draws, q.run_ns) = (Some(1), Some(20_000));
    run(&q, &Job { cpus: 96, draw: 0, ablation: Ablation::None }).unwrap();
}

/// A variable that is an array of structs, and a build in which each has a line.
#[test]
fn elements_of_arrays_are_followed_to_another_build() {
    let stripes = |size: u64| {
        let (mut t, _) = types(0, 8);
        let long = t.find("counters").and_then(|c| Some(t.aggregate(c)?.members[0].ty)).unwrap();
        let members = ["lock", "count"].iter().zip([0, 8]).map(|(n, at)| Member::field(Some(n), long, at));
        let s = Aggregate::new(AggregateKind::Struct, Some("stripe"), size, members.collect());
        let s = t.push(Type::Aggregate(s));
        let two = t.push(Type::Array { elem: s, counts: vec![Some(2)] });
        (t, two)
    };
    let mut e = evidence(2, |_| 0, |_| None);
    let (table, ty) = stripes(16);
    (e.types, e.objects[0].ty, e.objects[0].size) = (table, Some(ty), 32);
    for (i, o) in e.operations.iter_mut().flatten().enumerate() {
        o.visits.iter_mut().for_each(|v| v.1 = i as u64 * 16 + 8);
    }
    let r = Recording::new(&e).unwrap();
    let moved = Relocation::of_types(&r, &e.types, &stripes(64).0, "fixed").unwrap();
    let setup = crate::Setup::new(2);
    let apart = |how| {
        let at = place::native(&r, how, &setup).unwrap();
        at.spots[0].0.abs_diff(at.spots[1].0)
    };
    assert_eq!((apart(Arrangement::Recorded), apart(Arrangement::Moved(&moved))), (16, 64));
}

#[test]
fn generated_programs_are_bounded_and_hold_nothing_of_the_evidences_names() {
    let mut e = evidence(2, |a| u64::from(a) * 8, |a| Some(256 + u64::from(a) * 128));
    e.run.command = vec!["$(touch /tmp/x)".into()];
    let program = |e: &Evidence| {
        let r = Recording::new(e).unwrap();
        native::program(&r, Arrangement::Recorded, Arrangement::Ideal, &crate::Setup::new(2))
    };
    let text = program(&e).unwrap();
    assert!(!text.contains("counters") && !text.contains("touch"), "{text}");
    assert!(text.contains("INCREMENT(64, ") && text.contains("MUTEX_LOCK("), "{text}");
    let one = e.operations.as_ref().unwrap()[0].clone();
    let more = |i: u32| Operation { actor: i % 2, visits: one.visits.repeat(100), ..one.clone() };
    e.operations.as_mut().unwrap().extend((0..1_000).map(more));
    assert!(program(&e).unwrap().len() < 4_000_000);
    // Bytes of a mutex must not lie over a lock's neighbours.
    e.objects[0].ty = None;
    assert!(matches!(program(&e), Err(NativeError::Foreign(_))), "a lock of an unknown type");
    e.actors.iter_mut().for_each(|a| a.kind = ActorKind::Cpu);
    assert!(matches!(program(&e), Err(NativeError::Lock(_))), "a kernel's lock is none of a program");
}

#[test]
fn real_memory_has_the_distances_that_were_recorded() {
    let e = evidence(2, |a| u64::from(a) * 8, |a| Some(256 + u64::from(a) * 128));
    let r = Recording::new(&e).unwrap();
    let setup = crate::Setup::new(2);
    let at = place::native(&r, Arrangement::Recorded, &setup).unwrap();
    assert_eq!((at.spots[0].0.abs_diff(at.spots[1].0), at.spots[0].1), (8, 8));
    let apart = place::native(&r, Arrangement::Ideal, &setup).unwrap();
    assert!(apart.spots[0].0.abs_diff(apart.spots[1].0) >= 64);
    let mut all: Vec<u64> = apart.spots.iter().map(|s| s.0).chain(apart.locks.values().copied()).collect();
    all.sort_unstable();
    assert!(
        all.windows(2).all(|w| w[1] - w[0] >= 40) && all.iter().all(|a| a + 128 <= apart.bytes),
        "{all:?}"
    );
}

/// Evidence files that the documents use, made here: written anew with `TUSSLE_WRITE_EXAMPLES=1`.
#[test]
fn example_files_are_what_this_makes() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let check = |name: &str, mut e: Evidence| {
        (e.run.command, e.run.tool_version) = (vec![format!("./{name}")], "example".into());
        let process =
            |pid| Process { pid, parent: None, exe: name.into(), build_id: None, end: "exited".into() };
        e.processes.push(process(1));
        for o in e.operations.iter_mut().flatten() {
            o.visits.truncate(12);
            o.vt1 = 200_000;
        }
        let mut out = Vec::new();
        tussle_evidence::file::write_jsonl(&e, &mut out).unwrap();
        let path = folder.join(format!("{name}.evidence"));
        if std::env::var_os("TUSSLE_WRITE_EXAMPLES").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &out).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == out, "{name}: TUSSLE_WRITE_EXAMPLES=1 writes it anew");
    };
    check("two-locks", evidence(2, |a| u64::from(a) * 8, |a| Some(256 + u64::from(a) * 128)));
    check("one-lock", evidence(2, |_| 0, |_| Some(256)));
}

#[test]
fn a_measured_time_is_that_of_operations_and_what_lies_between() {
    let e = evidence(2, |a| u64::from(a) * 8, |a| Some(256 + u64::from(a) * 128));
    let mut r = Recording::new(&e).unwrap();
    assert!(r.think().guessed());
    let part = r.think_ns() / r.mean(OperationShape::nominal_ns);
    r.timed(&[1_000.0, 3_000.0]);
    let whole = |a: usize| r.mean_of(|s| s.actor == a, |s| s.nominal_ns() + s.locks_ns());
    assert!((whole(0) - 1_000.0).abs() < 1e-6 && (whole(1) - 3_000.0).abs() < 1e-6);
    assert!((r.think_ns() / r.mean(OperationShape::nominal_ns) - part).abs() < 0.01, "parted as recorded");
    assert!(!r.think().guessed());
    // What takes less than its locks alone, or nothing at all, is no time for anything.
    r.timed(&[1.0, f64::NAN]);
    assert!(r.shapes.iter().all(|s| s.think_ns > 0.0 && s.access_ns > 0.0 && s.think_ns.is_finite()));
    // A measured time leaves less open.
    let range = |r: &Recording| {
        let subject = crate::subject::Subject::Recording(Arc::new(r.clone()));
        let all = subject.unknowns(&machine::find("2s-icelake-sp-96").unwrap());
        all.into_iter().find(|u| u.key == "think").map(|u| u.range.1 / u.range.0).unwrap()
    };
    assert!(range(&r) < range(&Recording::new(&e).unwrap()));
}
