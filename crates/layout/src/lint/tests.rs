use super::*;
use tussle_model::{Base, Encoding, Member, TypeTable};

/// A table with `long`, a lock of 8 bytes, an atomic of 4 and a function pointer.
struct Kit {
    t: TypeTable,
    lock: TypeId,
    atomic: TypeId,
    function: TypeId,
    long: TypeId,
}

impl Kit {
    fn new() -> Kit {
        let mut t = TypeTable::new(8);
        let base =
            |name: &str, size| Type::Base(Base { name: name.into(), size, encoding: Encoding::Signed });
        let (int, long) = (t.push(base("int", 4)), t.push(base("long", 8)));
        let atomic = t.push(Type::Atomic(int));
        let lock = t.push(Type::Typedef { name: "spinlock_t".into(), to: long });
        let code = t.push(Type::Function { ret: int, params: Vec::new(), variadic: false });
        let function = t.push(Type::Pointer { to: code, size: 8 });
        Kit { t, lock, atomic, function, long }
    }

    fn add(&mut self, name: &str, size: u64, members: &[(&str, TypeId, u64)]) -> TypeId {
        let members = members.iter().map(|&(n, ty, at)| Member::field(Some(n), ty, at)).collect();
        self.t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, Some(name), size, members)))
    }

    fn rules(&self) -> Vec<(Rule, String)> {
        let found = lint(&self.t, LineSize::L64, false);
        found.doubts.into_iter().map(|d| (d.rule, d.ty)).collect()
    }
}

#[test]
fn ends_of_a_queue_in_one_line_and_apart() {
    let mut k = Kit::new();
    let atomic = k.atomic;
    k.add("near", 64, &[("head", atomic, 0), ("tail", atomic, 4)]);
    k.add("far", 192, &[("head", atomic, 0), ("tail", atomic, 128)]);
    k.add("counters", 64, &[("hits", atomic, 0), ("misses", atomic, 4)]);
    assert_eq!(k.rules(), [(Rule::QueueEnds, "struct near".to_string())]);
}

#[test]
fn two_locks_also_of_embedded_structs() {
    let mut k = Kit::new();
    let (lock, long) = (k.lock, k.long);
    let queue = k.add("queue", 16, &[("lock", lock, 0), ("n", long, 8)]);
    k.add("both", 32, &[("rx", queue, 0), ("tx", queue, 16)]);
    k.add("apart", 208, &[("rx", queue, 0), ("tx", queue, 192)]);
    k.add("my_seqlock", 16, &[("a", lock, 0), ("b", lock, 8)]);
    assert_eq!(k.rules(), [(Rule::Locks, "struct both".to_string())]);
}

#[test]
fn elements_of_threads_and_of_locks() {
    let mut k = Kit::new();
    let (lock, long) = (k.lock, k.long);
    let array = |k: &mut Kit, elem, n| k.t.push(Type::Array { elem, counts: vec![Some(n)] });
    let (locks, longs) = (array(&mut k, lock, 16), array(&mut k, long, 16));
    k.add("striped", 128, &[("stripes", locks, 0)]);
    k.add("per", 128, &[("per_thread", longs, 0)]);
    k.add("settings", 128, &[("thread_ids", longs, 0)]);
    k.add("table", 128, &[("weights", longs, 0)]);
    let got = k.rules();
    let want = [(Rule::Elements, "struct per".to_string()), (Rule::Elements, "struct striped".to_string())];
    assert_eq!(got, want);
}

#[test]
fn a_counter_beside_functions_that_are_called_often() {
    let mut k = Kit::new();
    let (atomic, function, long) = (k.atomic, k.function, k.long);
    let at = |last: u64| {
        [("refs", atomic, last), ("read", function, 8), ("write", function, 16), ("pad", long, 120)]
    };
    k.add("hot", 128, &at(0));
    k.add("cold", 128, &at(112));
    k.add(
        "once",
        128,
        &[("refs", atomic, 0), ("free", function, 8), ("close", function, 16), ("pad", long, 120)],
    );
    k.add("small", 24, &at(0)[..3]);
    assert_eq!(k.rules(), [(Rule::BesideRead, "struct hot".to_string())]);
}
