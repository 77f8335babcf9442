use super::*;
use tussle_evidence::*;
use tussle_model::types::*;

fn base(t: &mut TypeTable, name: &str, size: u64) -> TypeId {
    t.push(Type::Base(Base { name: name.into(), size, encoding: Encoding::Signed }))
}

fn aggregate(
    t: &mut TypeTable,
    kind: AggregateKind,
    name: Option<&str>,
    size: u64,
    members: Vec<Member>,
) -> TypeId {
    t.push(Type::Aggregate(Aggregate::new(kind, name, size, members)))
}

/// `struct worker { long done; union { long cas; char end; }; struct { int a, b; } slot[3]; pthread_mutex_t lock; }`
fn evidence() -> Evidence {
    let mut t = TypeTable::new(8);
    let long = base(&mut t, "long", 8);
    let int = base(&mut t, "int", 4);
    let ch = base(&mut t, "char", 1);
    let union = aggregate(
        &mut t,
        AggregateKind::Union,
        None,
        8,
        vec![Member::field(Some("cas"), long, 0), Member::field(Some("end"), ch, 0)],
    );
    let slot = aggregate(
        &mut t,
        AggregateKind::Struct,
        None,
        8,
        vec![Member::field(Some("a"), int, 0), Member::field(Some("b"), int, 4)],
    );
    let slots = t.push(Type::Array { elem: slot, counts: vec![Some(3)] });
    let mutex =
        aggregate(&mut t, AggregateKind::Union, None, 40, vec![Member::field(Some("__align"), long, 0)]);
    let mutex = t.push(Type::Typedef { name: "pthread_mutex_t".into(), to: mutex });
    let mut flag = Member::field(Some("flag"), int, 80);
    flag.bit_size = Some(3);
    let worker = aggregate(
        &mut t,
        AggregateKind::Struct,
        Some("worker"),
        96,
        vec![
            Member::field(Some("done"), long, 0),
            Member::field(None, union, 8),
            Member::field(Some("slot"), slots, 16),
            Member::field(Some("lock"), mutex, 40),
            flag,
            Member::field(Some("last"), long, 88),
        ],
    );
    let workers = t.push(Type::Array { elem: worker, counts: vec![Some(4)] });
    let mut e = empty(t);
    e.objects = vec![
        object(ObjectKind::Heap, None, Some(worker), 1, 96),
        object(ObjectKind::Heap, None, Some(worker), 4, 384),
        object(ObjectKind::Global, Some("workers"), Some(workers), 1, 384),
        object(ObjectKind::Global, Some("counter"), Some(long), 1, 8),
        object(ObjectKind::Heap, None, None, 1, 64),
        object(ObjectKind::Heap, None, Some(long), 8, 64),
    ];
    e
}

fn object(kind: ObjectKind, name: Option<&str>, ty: Option<TypeId>, count: u64, size: u64) -> Object {
    Object {
        process: 0,
        kind,
        base: 0x1000,
        size,
        name: name.map(Into::into),
        ty,
        count,
        confidence: 1.0,
        why: String::new(),
        align: 16,
        allocator: Some("malloc".into()),
        alloc_code: None,
        alloc_actor: None,
        vt0: 0,
        vt1: None,
        live_max: 1,
        basis: None,
        region: None,
    }
}

fn empty(types: TypeTable) -> Evidence {
    Evidence { types, ..Evidence::empty(Run::new(Source::Recorder, 1, Sees::ACCESSES)) }
}

#[track_caller]
fn check(e: &Evidence, object: u32, offset: u64, size: u64, path: &str, index: Option<u64>) {
    let got = field_path(e, object, offset, size);
    assert_eq!((got.path.as_str(), got.index), (path, index));
}

#[test]
fn fields_of_structs_arrays_and_globals_have_one_name() {
    let e = evidence();
    check(&e, 0, 0, 8, "struct worker.done", None);
    check(&e, 0, 28, 4, "struct worker.slot[].b", Some(1));
    check(&e, 1, 96, 8, "struct worker[].done", Some(1));
    check(&e, 2, 96 + 88, 8, "workers[].last", Some(1));
    check(&e, 3, 0, 8, "counter", None);
    check(&e, 5, 16, 8, "long[]", Some(2));
    assert_eq!(field_path(&e, 0, 28, 4).leaf.as_deref(), Some("slot[1].b"));
}

#[test]
fn locks_are_named_whole_and_ranges_by_their_ends() {
    let e = evidence();
    check(&e, 0, 40, 4, "struct worker.lock", None);
    check(&e, 0, 72, 8, "struct worker.lock", None);
    check(&e, 0, 80, 4, "struct worker.flag", None);
    check(&e, 0, 84, 4, "struct worker padding after flag", None);
    check(&e, 0, 0, 64, "struct worker.done..lock", None);
}

#[test]
fn the_code_decides_between_union_members() {
    let mut e = evidence();
    check(&e, 0, 8, 8, "struct worker.cas", None);
    check(&e, 0, 8, 1, "struct worker.end", None);
    check(&e, 0, 8, 2, "struct worker.cas", None);
    e.touches.push(Touch {
        object: 0,
        offset: 8,
        size: 1,
        code: 0,
        actor: None,
        kind: TouchKind::Read,
        samples: 1,
        field: Some("cas".into()),
        role: None,
    });
    check(&e, 0, 8, 1, "struct worker.cas", None);
}

/// Of bits in one byte those that code is about are named, and of a union all that it may be about.
#[test]
fn the_code_decides_between_bits() {
    let said = |fields: &[&str]| {
        let mut t = TypeTable::new(8);
        let int = base(&mut t, "int", 4);
        let bits = ["a", "b", "c"].into_iter().enumerate().map(|(n, name)| {
            let mut m = Member::field(Some(name), int, 0);
            (m.offset_bits, m.bit_size) = (n as u64, Some(1));
            m
        });
        let flags = aggregate(&mut t, AggregateKind::Struct, Some("flags"), 4, bits.collect());
        let atomic = aggregate(
            &mut t,
            AggregateKind::Struct,
            Some("atomic"),
            4,
            vec![Member::field(Some("counter"), int, 0)],
        );
        let members = ["map", "kind", "order"].map(|n| Member::field(Some(n), int, 0));
        let mut members = members.to_vec();
        members[0].ty = atomic;
        let page = aggregate(&mut t, AggregateKind::Union, Some("page"), 4, members);
        let mut e = empty(t);
        e.objects = [flags, page].map(|ty| object(ObjectKind::Heap, None, Some(ty), 1, 4)).to_vec();
        let touch = |(object, field): (u32, &&str)| Touch {
            object,
            offset: 0,
            size: 1,
            code: 0,
            actor: None,
            kind: TouchKind::Read,
            samples: 1,
            field: Some(field.to_string()),
            role: None,
        };
        e.touches = fields.iter().flat_map(|f| [touch((0, f)), touch((1, f))]).collect();
        [field_path(&e, 0, 0, 1).path, field_path(&e, 1, 0, 1).path]
    };
    assert_eq!(said(&[])[0], "struct flags.a|b|c");
    assert_eq!(said(&["b"])[0], "struct flags.b");
    assert_eq!(said(&["a|c"])[0], "struct flags.a|c");
    assert_eq!(said(&["a", "c"])[0], "struct flags.a|c");
    assert_eq!(said(&["kind"])[1], "union page.kind");
    assert_eq!(said(&["map.counter"])[1], "union page.map.counter", "what it says is inside of the member");
    assert_eq!(said(&["map.counter|order"])[1], "union page.map.counter|order");
}

#[test]
fn members_that_overlap_at_every_level_end() {
    let mut t = TypeTable::new(8);
    let mut inner = t.push(Type::Base(Base { name: "long".into(), size: 8, encoding: Encoding::Signed }));
    for _ in 0..60 {
        let twice = ["a", "b"].map(|n| Member::field(Some(n), inner, 0)).to_vec();
        inner = aggregate(&mut t, AggregateKind::Struct, Some("nest"), 8, twice);
    }
    let mut e = empty(t);
    e.objects.push(Object { ty: Some(inner), ..Object::unnamed(0, ObjectKind::Heap, 64, 8) });
    assert!(field_path(&e, 0, 0, 8).path.starts_with("struct nest"));
}

#[test]
fn unknown_stays_unknown() {
    let e = evidence();
    check(&e, 4, 24, 8, "malloc block, bytes 24..31", None);
    check(&e, 99, 24, 8, "?, bytes 24..31", None);
    check(&e, 1, 400, 8, "struct worker, bytes 400..407", None);
    check(&e, 0, 104, 8, "behind struct worker, bytes 104..111", None);
    assert_eq!(field_path(&e, 4, 24, 8).certainty, 0.0);
}

/// `struct pool { long sum; std::vector<long> slots; }`
#[test]
fn members_of_the_cxx_library_are_no_names() {
    let mut t = TypeTable::new(8);
    let long = base(&mut t, "long", 8);
    let fields =
        |names: [&str; 3]| (0..3).map(|i| Member::field(Some(names[i]), long, 8 * i as u64)).collect();
    let inner = fields(["_M_start", "_M_finish", "_M_end_of_storage"]);
    let inner =
        aggregate(&mut t, AggregateKind::Struct, Some("std::_Vector_base<long>::_Vector_impl"), 24, inner);
    let vector = vec![Member::field(Some("_M_impl"), inner, 0)];
    let vector = aggregate(&mut t, AggregateKind::Class, Some("std::vector<long>"), 24, vector);
    let members = vec![Member::field(Some("sum"), long, 0), Member::field(Some("slots"), vector, 8)];
    let pool = aggregate(&mut t, AggregateKind::Struct, Some("pool"), 32, members);
    let name = |at: u64, size: u64| {
        let f = Resolve::new(&t, &[]).visit(pool, at, size, 0);
        (f.path, f.exact)
    };
    assert_eq!(name(8, 8), ("slots".into(), "slots._M_impl._M_start".into()));
    assert_eq!(name(16, 16).0, "slots");
    assert_eq!(name(0, 16).0, "sum..slots");
}

/// `struct Shared { done: AtomicU64, ends: (AtomicU64, AtomicU64), lock: Mutex<u64>, padded: CachePadded<AtomicU64> }`
#[test]
fn what_rust_puts_around_a_value_is_no_name() {
    let mut t = TypeTable::new(8);
    let long = base(&mut t, "u64", 8);
    let nothing = aggregate(&mut t, AggregateKind::Struct, Some("core::marker::PhantomData<u64>"), 0, vec![]);
    let mut make = |name: &str, size, members: &[(&str, TypeId, u64)]| {
        let members = members.iter().map(|(n, ty, at)| Member::field(Some(n), *ty, *at)).collect();
        aggregate(&mut t, AggregateKind::Struct, Some(name), size, members)
    };
    let cell = make("core::cell::UnsafeCell<u64>", 8, &[("value", long, 0)]);
    let atomic = make("core::sync::atomic::AtomicU64", 8, &[("v", cell, 0), ("_marker", nothing, 0)]);
    let ends = make("(AtomicU64, AtomicU64)", 16, &[("__0", atomic, 0), ("__1", atomic, 8)]);
    let futex = make("std::sys::sync::mutex::futex::Mutex", 8, &[("futex", atomic, 0)]);
    let poison = make("std::sync::poison::Flag", 8, &[("failed", atomic, 0)]);
    let fields = [("inner", futex, 0), ("poison", poison, 8), ("data", cell, 16)];
    let lock = make("std::sync::poison::mutex::Mutex<u64>", 24, &fields);
    let padded = make("crossbeam_utils::cache_padded::CachePadded<AtomicU64>", 128, &[("value", atomic, 0)]);
    let ours = make("app::CacheLine64<AtomicU64>", 64, &[("__0", atomic, 0)]);
    // The program's own types keep their words.
    let mine = make("app::Mine", 8, &[("__0", atomic, 0)]);
    let theirs = make("core::Counter", 8, &[("value", long, 0)]);
    let fields = [("done", atomic), ("ends", ends), ("lock", lock), ("padded", padded), ("ours", ours)];
    let fields = fields.into_iter().chain([("mine", mine), ("theirs", theirs)]);
    let fields: Vec<_> =
        fields.zip([0, 8, 24, 128, 256, 320, 328]).map(|((n, ty), at)| (n, ty, at)).collect();
    let shared = make("app::Shared", 384, &fields);
    let name = |at: u64, size: u64| Resolve::new(&t, &[]).visit(shared, at, size, 0).path;
    let of = |at: u64| name(at, 8);
    assert_eq!([of(0), of(8), of(16)], ["done", "ends.0", "ends.1"]);
    assert_eq!([of(24), of(32), of(40)], ["lock", "lock.poison", "lock.data"]);
    assert_eq!([of(128), of(256), of(320), of(328)], ["padded", "ours", "mine.0", "theirs.value"]);
    assert_eq!([name(0, 16), name(24, 24), name(128, 128)], ["done..ends.0", "lock", "padded"]);
    assert_eq!(Resolve::new(&t, &[]).visit(shared, 16, 8, 0).exact, "ends.__1.v.value");
    assert_eq!(Resolve { named: false, ..Resolve::new(&t, &[]) }.visit(padded, 0, 8, 0).path, "");
}

/// `struct Own : Get, Put { hits }`, whose bases have a `hits` each, `struct Both : Own, Get` and a `std::tuple`.
#[test]
fn members_of_one_name_are_told_by_their_bases() {
    let mut t = TypeTable::new(8);
    let long = base(&mut t, "long", 8);
    let derived = |ty, at| Member { role: MemberRole::Base, ..Member::field(None, ty, at) };
    let mut make =
        |name: &str, size, members| aggregate(&mut t, AggregateKind::Struct, Some(name), size, members);
    let hits = |at| Member::field(Some("hits"), long, at);
    let get = make("Get", 16, vec![hits(0), Member::field(Some("gets"), long, 8)]);
    let put = make("Put", 8, vec![hits(0)]);
    let own = make("Own", 32, vec![derived(get, 0), derived(put, 16), hits(24)]);
    let other = make("Other", 8, vec![derived(put, 0)]);
    let both = make("Both", 48, vec![derived(own, 0), derived(get, 32)]);
    let head = |make: &mut dyn FnMut(&str, u64, Vec<Member>) -> TypeId, n: u32| {
        make(
            &format!("std::_Head_base<{n}, long, false>"),
            8,
            vec![Member::field(Some("_M_head_impl"), long, 0)],
        )
    };
    let (first, second) = (head(&mut make, 0), head(&mut make, 1));
    let rest = make("std::_Tuple_impl<1, long>", 8, vec![derived(second, 0)]);
    let all = make("std::_Tuple_impl<0, long, long>", 16, vec![derived(rest, 0), derived(first, 8)]);
    let tuple = make("std::tuple<long, long>", 16, vec![derived(all, 0)]);
    let holder = make("Holder", 16, vec![Member::field(Some("t"), tuple, 0)]);
    let name = |ty, at| Resolve::new(&t, &[]).visit(ty, at, 8, 0).path;
    assert_eq!([0, 8, 16, 24].map(|at| name(own, at)), ["Get::hits", "gets", "Put::hits", "hits"]);
    assert_eq!(name(other, 0), "hits");
    assert_eq!(
        [0, 8, 32, 40].map(|at| name(both, at)),
        ["Own::Get::hits", "Own::gets", "Get::hits", "Get::gets"]
    );
    assert_eq!([0, 8].map(|at| name(holder, at)), ["t.1", "t.0"]);
}

#[test]
fn code_names_bytes_of_objects_without_a_type() {
    let mut s = sample::Sample::new(1);
    let object = s.heap(0x1000, 192, None, 1, 64, None);
    for (code, offset) in [(0, 16), (1, 24), (2, 24), (3, 40)] {
        s.touch(object, offset, 4, code, 0, TouchKind::Read);
    }
    let mut e = s.evidence();
    e.objects[0].name = Some("kmalloc-192 in f".into());
    let fields = ["struct chunk.free", "struct chunk.base", "struct page.flags", "stats.hits"];
    for (t, field) in e.touches.iter_mut().zip(fields) {
        t.field = Some(field.into());
    }
    let namer = Namer::new(&e);
    assert_eq!(namer.name(object, 16, 4).path, "kmalloc-192 in f, struct chunk.free");
    assert_eq!(namer.name(object, 24, 4).path, "kmalloc-192 in f, bytes 24..27", "they disagree");
    assert_eq!(
        namer.name(object, 40, 4).path,
        "kmalloc-192 in f, bytes 40..43",
        "whose field it is stays open"
    );
}

/// Memory that no type is known of is told by the program's own code, not by a smart pointer's.
#[test]
fn the_asker_is_outside_of_system_headers() {
    let root = |header: &str| {
        let mut s = sample::Sample::new(1);
        let main = s.code("main", "/home/me/server.cc", 9, &[]);
        let site = s.code("std::make_unique<S>()", header, 1065, &[main]);
        let object = s.heap(0x1000, 32, None, 1, 16, Some(site));
        let e = s.evidence();
        Namer::new(&e).name(object, 0, 8).path
    };
    assert_eq!(root("/usr/include/c++/12/bits/unique_ptr.h"), "malloc in main, bytes 0..7");
    assert_eq!(root("/home/me/own_ptr.h"), "malloc in std::make_unique<S>(), bytes 0..7");
}
