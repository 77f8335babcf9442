//! Random structs, compiled in batches and held against the program's own `offsetof` and `sizeof`.

mod common;

use common::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tussle_debuginfo::Damage;
use tussle_testkit::need;

/// A type of a generated member.
#[derive(Clone, Debug)]
enum Kind {
    Scalar(&'static str),
    Bits(&'static str, u32),
    Pointer(&'static str),
    Array(&'static str, Vec<u32>),
    /// An anonymous struct or union, whose members count as the outer ones.
    Anonymous(bool, Vec<Field>),
    /// A named member of an aggregate type of its own.
    Nested(bool, Vec<Field>),
}

#[derive(Clone, Debug)]
struct Field {
    kind: Kind,
    align: Option<u32>,
}

#[derive(Clone, Debug)]
struct Struct {
    union: bool,
    packed: bool,
    align: Option<u32>,
    fields: Vec<Field>,
}

fn scalar() -> impl Strategy<Value = &'static str> {
    let names = [
        "char",
        "short",
        "int",
        "long",
        "long long",
        "float",
        "double",
        "unsigned char",
        "uint64_t",
        "_Bool",
        "long double",
    ];
    proptest::sample::select(names.to_vec())
}

/// Types of bit-fields with their width.
const TYPES_BITS: &[(&str, u32)] =
    &[("unsigned", 32), ("unsigned char", 8), ("unsigned short", 16), ("uint64_t", 64)];

fn kind() -> impl Strategy<Value = Kind> {
    let bits = proptest::sample::select(TYPES_BITS);
    let leaf = prop_oneof![
        4 => scalar().prop_map(Kind::Scalar),
        3 => (bits, 1..=64u32).prop_map(|((ty, max), n)| Kind::Bits(ty, n.min(max))),
        1 => scalar().prop_map(Kind::Pointer),
        2 => (scalar(), proptest::collection::vec(1..5u32, 1..4)).prop_map(|(ty, dims)| Kind::Array(ty, dims)),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        let fields =
            || proptest::collection::vec(inner.clone().prop_map(|kind| Field { kind, align: None }), 1..5);
        prop_oneof![
            (any::<bool>(), fields()).prop_map(|(union, f)| Kind::Anonymous(union, f)),
            (any::<bool>(), fields()).prop_map(|(union, f)| Kind::Nested(union, f)),
        ]
    })
}

fn align() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![5 => Just(None), 1 => (4..8u32).prop_map(|n| Some(1 << n))]
}

fn structs() -> impl Strategy<Value = Vec<Struct>> {
    let field = (kind(), align()).prop_map(|(kind, align)| Field { kind, align });
    let one = (any::<bool>(), any::<bool>(), align(), proptest::collection::vec(field, 1..10)).prop_map(
        |(union, packed, align, fields)| Struct { union: union && fields.len() < 4, packed, align, fields },
    );
    proptest::collection::vec(one, 120)
}

/// Writes declarations and, for each named leaf, a probe.
struct Writer {
    next: usize,
    probes: Vec<(String, bool)>,
}

impl Writer {
    fn fields(&mut self, fields: &[Field], path: &str) -> String {
        fields.iter().map(|f| self.field(f, path)).collect()
    }

    fn field(&mut self, field: &Field, path: &str) -> String {
        self.next += 1;
        let name = format!("f{}", self.next);
        let bits = matches!(field.kind, Kind::Bits(..));
        let align = field
            .align
            .filter(|_| !bits)
            .map(|a| format!("__attribute__((aligned({a}))) "))
            .unwrap_or_default();
        let keyword = |union: bool| if union { "union" } else { "struct" };
        let full = format!("{path}{name}");
        let text = match &field.kind {
            Kind::Scalar(ty) => format!("{ty} {name}"),
            Kind::Bits(ty, n) => format!("{ty} {name} : {n}"),
            Kind::Pointer(ty) => format!("{ty} *{name}"),
            Kind::Array(ty, dims) => {
                format!("{ty} {name}{}", dims.iter().map(|d| format!("[{d}]")).collect::<String>())
            }
            Kind::Anonymous(union, inner) => {
                return format!("{} {{ {} }};\n", keyword(*union), self.fields(inner, path));
            }
            Kind::Nested(union, inner) => {
                let inner = self.fields(inner, &format!("{full}."));
                format!("{} {{ {inner} }} {name}", keyword(*union))
            }
        };
        self.probes.push((full, bits));
        format!("{align}{text};\n")
    }
}

fn program(structs: &[Struct]) -> String {
    let mut types = String::from(PROBE);
    let mut probes = String::new();
    for (i, s) in structs.iter().enumerate() {
        let mut writer = Writer { next: 0, probes: Vec::new() };
        let body = writer.fields(&s.fields, "");
        let packed = if s.packed { "__attribute__((packed)) " } else { "" };
        let align = s.align.map(|a| format!("__attribute__((aligned({a}))) ")).unwrap_or_default();
        let keyword = if s.union { "union" } else { "struct" };
        types += &format!("{keyword} {packed}{align}s{i} {{\n{body}}};\n{keyword} s{i} v{i};\n");
        probes += &format!("static void p{i}(void) {{ S(\"s{i}\", {keyword} s{i});\n");
        for (path, bits) in &writer.probes {
            let macro_name = if *bits { 'B' } else { 'F' };
            probes += &format!("{macro_name}(\"s{i}\", {keyword} s{i}, {path});\n");
        }
        probes += "}\n";
    }
    let calls: String = (0..structs.len()).map(|i| format!("p{i}();")).collect();
    format!("{types}{probes}int main(void) {{ {calls} return 0; }}\n")
}

fn check(structs: &[Struct], compiler: &str) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.c"), program(structs)).unwrap();
    run(dir.path(), &format!("{compiler} -w a.c"));
    let facts = facts(&run(dir.path(), "./a.out"));
    let (table, problems) = read_with_problems(&dir.path().join("a.out"));
    // clang leaves the first bit of a packed field as wide as its type out. These structs have no unnamed bits, so
    // what the reader takes for it, and says that it cannot be sure of, is right all the same.
    let told = |p: &Damage| compiler.starts_with("clang") && p.what.contains("its first bit is not told");
    assert!(problems.iter().all(told), "{compiler}: {problems:?}");
    assert_facts(&table, &facts, compiler);
}

#[test]
fn random_structs_as_the_compiler_lays_them_out() {
    let compilers: Vec<_> = ["gcc -gdwarf-5", "gcc -gdwarf-4", "clang -gdwarf-5", "clang -gdwarf-4"]
        .into_iter()
        .filter(|c| need(c.split(' ').next().unwrap()))
        .collect();
    if compilers.is_empty() {
        return;
    }
    let config = Config { cases: 4, max_shrink_iters: 12, failure_persistence: None, ..Config::default() };
    let turn = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(config);
    let result = runner.run(&structs(), |batch| {
        let at = turn.replace(turn.get() + 1);
        check(&batch, compilers[at % compilers.len()]);
        Ok(())
    });
    result.unwrap();
}
