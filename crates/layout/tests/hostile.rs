//! Nothing that a file can say about types makes an answer panic or take for ever.

use proptest::prelude::*;
use tussle_layout::diff::{Options, Side, diff};
use tussle_layout::phases::{Where, object_align};
use tussle_layout::slab::embeddings;
use tussle_layout::slots::{NewField, slots};
use tussle_layout::{lines, pahole, rules};
use tussle_model::*;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..300u64, Just(u64::MAX), Just(1 << 62), any::<u64>()]
}

fn member() -> impl Strategy<Value = Member> {
    let name = prop_oneof![Just(None), Just(Some("a".to_string())), Just(Some("b".to_string()))];
    (name, 0..12u32, number(), prop::option::of(0..200u32), prop::option::of(number())).prop_map(
        |(name, ty, offset_bits, bit_size, align)| Member {
            name,
            ty: TypeId(ty),
            offset_bits,
            bit_size,
            align,
            decl_line: 1,
            role: MemberRole::Field,
        },
    )
}

fn ty() -> impl Strategy<Value = Type> {
    let id = || (0..12u32).prop_map(TypeId);
    prop_oneof![
        number().prop_map(|size| Type::Base(Base { name: "int".into(), size, encoding: Encoding::Signed })),
        (id(), number()).prop_map(|(to, size)| Type::Pointer { to, size }),
        id().prop_map(Type::Const),
        id().prop_map(|to| Type::Typedef { name: "t".into(), to }),
        (id(), prop::collection::vec(prop::option::of(number()), 0..3))
            .prop_map(|(elem, counts)| Type::Array { elem, counts }),
        (id(), prop::collection::vec(id(), 0..3)).prop_map(|(ret, params)| Type::Function {
            ret,
            params,
            variadic: true
        }),
        (any::<bool>(), any::<bool>(), number(), number(), prop::collection::vec(member(), 0..6)).prop_map(
            |(union, named, size, align, members)| {
                Type::Aggregate(Aggregate {
                    kind: if union { AggregateKind::Union } else { AggregateKind::Struct },
                    name: named.then(|| "s".into()),
                    size,
                    align: Some(Alignment { bytes: align, source: AlignmentSource::Declared }),
                    members,
                    decl: None,
                    declaration: false,
                    language: if size % 3 == 0 { Language::Rust } else { Language::C },
                    unit: None,
                    indirect_bases: Vec::new(),
                })
            }
        ),
    ]
}

fn table() -> impl Strategy<Value = TypeTable> {
    prop::collection::vec(ty(), 12).prop_map(|types| {
        let mut t = TypeTable::new(8);
        for ty in types {
            t.push(ty);
        }
        t
    })
}

/// Pieces of rule files in any order.
const RULE_TEXT: &str = "(\\[\\[rule\\]\\]|type|=|\"|\\[|\\]|\\{|\\}|separate|max_size|[a-z0-9 \\n]){0,60}";

/// The same cases in every run; TUSSLE_HOSTILE_SEED=N tries others.
fn config() -> ProptestConfig {
    let seed = std::env::var("TUSSLE_HOSTILE_SEED").ok().and_then(|v| v.parse().ok()).unwrap_or(3);
    let rng_seed = proptest::test_runner::RngSeed::Fixed(seed);
    ProptestConfig { cases: 32, failure_persistence: None, rng_seed, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_answer_comes_back(t in table(), phase in number()) {
        let field = NewField { name: "f".into(), size: 4, align: 4 };
        let ids: Vec<TypeId> = t.aggregates().map(|(id, _)| id).collect();
        for &id in &ids {
            for (expand, btf) in [(false, true), (true, false)] {
                pahole::text(&t, id, pahole::Options { expand, btf, ..pahole::Options::default() });
            }
            pahole::sizes_line(&t, id);
            object_align(&t, id, true);
            lines::lines(&t, id, phase, LineSize::L64, 4096);
            slots(&t, id, &field, true, 4);
            embeddings(&t, id, 100);
            let side = Side { table: &t, btf: true };
            let options = Options { line: LineSize::L64, at: Where::Phase(phase), hot: vec!["a".into()] };
            diff(side, id, side, ids[0], &options);
        }
        let text = "[[rule]]\ntype = \"s\"\nsame_line = [\"a\"]\n[[rule]]\ntype = \"s\"\nalone = [\"a\"]";
        let build = rules::Build { name: "b".into(), table: &t, btf: true, arch: None, config: None, caches: None };
        let _ = rules::check(&rules::parse(text).expect("rules").rules, &[build]);
    }

    #[test]
    fn rule_files_are_read_or_refused(text in RULE_TEXT) {
        let _ = rules::parse(&text);
        let _ = rules::from_source(&text);
    }
}

/// 64 levels of structs that hold the next one twice: 2^64 leaves in a few kilobytes.
#[test]
fn doubling_structs_end() {
    let mut t = TypeTable::new(8);
    let mut id = t.push(Type::Base(Base { name: "char".into(), size: 1, encoding: Encoding::Char }));
    for level in 0..60 {
        let member = |name, offset_bits| Member { offset_bits, ..Member::field(Some(name), id, 0) };
        let half = 1u64 << level;
        id = t.push(Type::Aggregate(Aggregate {
            kind: AggregateKind::Struct,
            name: Some(format!("s{level}")),
            size: 2 * half,
            align: None,
            members: vec![member("a", 0), member("b", half.saturating_mul(8))],
            decl: None,
            declaration: false,
            language: Language::C,
            unit: None,
            indirect_bases: Vec::new(),
        }));
    }
    assert!(pahole::text(&t, id, pahole::Options { btf: true, ..pahole::Options::default() }).len() < 10_000);
    object_align(&t, id, true);
    let (rows, cut) = lines::lines(&t, id, 0, LineSize::L64, lines::LINES_MAX);
    assert!(cut && rows.len() as u64 == lines::LINES_MAX);
}
