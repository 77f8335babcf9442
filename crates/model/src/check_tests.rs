use super::*;
use crate::types::{AggregateKind, Alignment, AlignmentSource, Base, Encoding};
use proptest::prelude::*;

fn number() -> impl Strategy<Value = u64> {
    let edges = [0, 1, SIZE_MAX, SIZE_MAX + 1, 8 * SIZE_MAX + 1, 1 << 62, i64::MAX as u64, u64::MAX];
    prop_oneof![0..300u64, prop::sample::select(edges.to_vec()), any::<u64>()]
}

fn member() -> impl Strategy<Value = Member> {
    let role = prop_oneof![Just(MemberRole::Field), Just(MemberRole::Static), Just(MemberRole::Base)];
    (0..20u32, number(), prop::option::of(any::<u32>()), prop::option::of(number()), role).prop_map(
        |(ty, offset_bits, bit_size, align, role)| {
            let plain = Member::field(Some("m"), TypeId(ty), 0);
            Member { offset_bits, bit_size, align, role, ..plain }
        },
    )
}

fn ty() -> impl Strategy<Value = Type> {
    let id = || (0..20u32).prop_map(TypeId);
    let counts = || prop::collection::vec(prop::option::of(number()), 0..3);
    prop_oneof![
        number().prop_map(|size| Type::Base(Base { name: "int".into(), size, encoding: Encoding::Signed })),
        (id(), number()).prop_map(|(to, size)| Type::Pointer { to, size }),
        id().prop_map(Type::Atomic),
        id().prop_map(|to| Type::Typedef { name: "t".into(), to }),
        (id(), counts()).prop_map(|(elem, counts)| Type::Array { elem, counts }),
        (number(), number(), prop::collection::vec(member(), 0..6)).prop_map(|(size, align, members)| {
            let plain = Aggregate::new(AggregateKind::Struct, Some("s"), size, members);
            let align = Some(Alignment { bytes: align, source: AlignmentSource::Declared });
            Type::Aggregate(Aggregate { align, ..plain })
        }),
    ]
}

fn table(types: Vec<Type>) -> TypeTable {
    let mut t = TypeTable::new(8);
    for ty in types {
        t.push(ty);
    }
    t
}

/// Levels of containment below a type; recursion without a limit, to be found by the stack.
fn levels(t: &TypeTable, id: TypeId) -> u32 {
    (0..).map_while(|n| contained(t.get(id), n)).map(|to| 1 + levels(t, to)).max().unwrap_or(0)
}

fn all_in_bounds(t: &TypeTable) {
    for (id, ty) in t.iter() {
        assert!(t.size(id).is_none_or(|s| s <= SIZE_MAX), "{ty:?}");
        ty.clone().map_ids(|to| {
            assert!((to.0 as usize) < t.len());
            to
        });
        if let Type::Aggregate(a) = ty {
            let unplaced =
                |m: &Member| m.role == MemberRole::VirtualBase && m.offset_bits == Member::UNPLACED;
            assert!(a.members.iter().all(|m| m.offset_bits <= 8 * SIZE_MAX || unplaced(m)));
            assert!(a.members.iter().all(|m| m.bit_size.is_none_or(|b| b <= BITS_MAX)));
            assert!(a.members.iter().all(|m| m.align.is_none_or(is_alignment)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_table_says_it_is_in_bounds_afterwards(types in prop::collection::vec(ty(), 0..16)) {
        let before = table(types);
        let (t, damage) = before.clone().checked();
        all_in_bounds(&t);
        prop_assert_eq!(t.len(), before.len());
        for id in ids(t.len()) {
            prop_assert!(levels(&t, id) <= NESTING_MAX);
            let told = damage.iter().any(|d| d.ty == id);
            prop_assert!(told || t.get(id) == before.get(id), "{:?} became {:?}", before.get(id), t.get(id));
        }
        let (_, again) = t.checked();
        prop_assert_eq!(again, []);
    }
}

#[test]
fn a_size_that_overflows_is_unknown() {
    let base = |size| Type::Base(Base { name: "long".into(), size, encoding: Encoding::Signed });
    let (t, damage) = table(vec![base(i64::MAX as u64), base(8)]).checked();
    assert_eq!(damage, [Damage { ty: TypeId(1), what: "larger than any object" }]);
    assert_eq!((t.size(TypeId(1)), t.size(TypeId(2))), (None, Some(8)));
}

#[test]
fn no_name_breaks_a_line() {
    let members = vec![Member::field(Some("a\n::error::b"), TypeId(1), 0)];
    let types = vec![
        Type::Base(Base { name: "int\x1b[2J".into(), size: 4, encoding: Encoding::Signed }),
        Type::Aggregate(Aggregate::new(AggregateKind::Struct, Some("größe\r\u{2028}s"), 4, members)),
    ];
    let (t, damage) = table(types).checked();
    assert_eq!(damage, []);
    let a = t.aggregate(TypeId(2)).unwrap();
    let names = (t.name(TypeId(1)), a.name.as_deref(), a.members[0].name.as_deref());
    let want = ("int\u{fffd}[2J".into(), Some("größe\u{fffd}\u{fffd}s"), Some("a\u{fffd}::error::b"));
    assert_eq!(names, want);
}

#[test]
fn a_class_may_have_a_static_member_of_its_own_type() {
    let one = |role| {
        let member = Member { role, ..Member::field(Some("zero"), TypeId(1), 0) };
        table(vec![Type::Aggregate(Aggregate::new(AggregateKind::Class, Some("c"), 1, vec![member]))])
    };
    assert_eq!(one(MemberRole::Static).checked().1, []);
    assert_eq!(one(MemberRole::Field).checked().1[0].what, "contains itself");
}

#[test]
fn a_million_typedefs_of_each_other_end() {
    let chain = |last: u32| {
        let types = (0..1_000_000u32).map(|i| Type::Const(TypeId(if i == 999_999 { last } else { i + 2 })));
        table(types.collect()).checked()
    };
    let (t, damage) = chain(0);
    assert!(damage.iter().all(|d| d.what == "nested too deeply") && damage.len() > 1000);
    all_in_bounds(&t);
    let (_, damage) = chain(1);
    assert!(damage.iter().any(|d| d.what == "contains itself"));
}
