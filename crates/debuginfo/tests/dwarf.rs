//! DWARF held against what the compiled program says about its own offsets and sizes.

mod common;

use common::*;
use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::{NoCompanions, open};
use tussle_model::{AlignmentSource, MemberRole, Type, TypeTable};
use tussle_testkit::need;

#[test]
fn c_of_every_compiler_version_and_width() {
    for cc in ["gcc", "clang"].into_iter().filter(|cc| need(cc)) {
        for flags in
            ["-gdwarf-4", "-gdwarf-5", "-gdwarf-4 -O2", "-gdwarf-5 -O2", "-gdwarf-5 -gdwarf64", "-g3"]
        {
            check_c(&format!("{cc} {flags} sample.c"));
        }
    }
    check_c("gcc -gdwarf-2 -gstrict-dwarf sample.c");
    check_c("gcc -gdwarf-3 -gstrict-dwarf sample.c");
}

fn compile(file: &str, source: &str, command: &str) -> TypeTable {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(file), source).unwrap();
    run(dir.path(), command);
    read(&dir.path().join("a.out"))
}

const CPP: &str = r#"
namespace ns {
template <class T, int N> struct Foo {
    T v[N]; struct Inner { int i; } in; static int shared; virtual void f() {} enum Mode { One } mode;
};
template <class T, int N> int Foo<T, N>::shared = 3;
struct V { long v; };
namespace { struct Hidden { int h; }; }
inline namespace one { struct InInline { char c; }; }
}
struct A : virtual ns::V { int a; };
struct B : A, ns::Foo<int, 3> {
    char c; ns::Hidden h; int A::*pm; void (A::*pf)(); int &r; const int &&rr; ns::one::InInline ii;
    B(int &x) : r(x), rr(static_cast<const int &&>(x)) {}
};
class K { int k; public: virtual ~K() {} };
struct Derived : K { char tail; };
struct Later; struct Holder { Later *later; };
struct Later { int defined; };
"#;

#[test]
fn cpp_classes_bases_and_templates() {
    let body = format!(
        r#"{PROBE}#undef B
#define COMMA ,
{CPP}
int x; B b(x); Derived d; Holder hold; Later later;
int main() {{
    S("ns::Foo<int, 3>", ns::Foo<int COMMA 3>); S("B", B); S("A", A); S("K", K); S("Derived", Derived);
    S("ns::V", ns::V); S("Later", Later); S("ns::Foo<int, 3>::Inner", ns::Foo<int COMMA 3>::Inner);
    hold.later = &later; return b.a + b.shared - 3 + hold.later->defined;
}}"#
    );
    for command in ["g++ -gdwarf-4", "g++ -gdwarf-5", "clang++ -gdwarf-4", "clang++ -gdwarf-5"] {
        if !need(command.split(' ').next().unwrap()) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.cpp"), &body).unwrap();
        run(dir.path(), &format!("{command} -w a.cpp"));
        let table = read(&dir.path().join("a.out"));
        assert_facts(&table, &facts(&run(dir.path(), "./a.out")), command);
        check_cpp(&table, command);
    }
}

fn check_cpp(table: &TypeTable, context: &str) {
    let roles = |name: &str| -> Vec<(MemberRole, Option<String>)> {
        let a = table.aggregate(table.find(name).unwrap()).unwrap();
        a.members.iter().map(|m| (m.role, m.name.clone())).collect()
    };
    let b = roles("B");
    assert_eq!(b[0], (MemberRole::Base, None), "{context}");
    assert_eq!(b[1], (MemberRole::Base, None), "{context}");
    assert_eq!(b[2], (MemberRole::Field, Some("c".into())), "{context}");
    assert!(roles("A").iter().any(|(r, _)| *r == MemberRole::VirtualBase), "{context}");
    assert!(roles("K").iter().any(|(r, _)| *r == MemberRole::Vptr), "{context}");
    let foo = roles("ns::Foo<int, 3>");
    assert!(foo.contains(&(MemberRole::Static, Some("shared".into()))), "{context}: {foo:?}");
    assert!(table.find("ns::(anonymous namespace)::Hidden").is_some(), "{context}");
    assert!(table.find("ns::one::InInline").is_some(), "{context}");
    // a pointer to a class that was only declared there leads to its definition
    let holder = table.aggregate(table.find("Holder").unwrap()).unwrap();
    let Type::Pointer { to, .. } = table.get(holder.members[0].ty) else { panic!("{context}") };
    assert_eq!(table.aggregate(*to).unwrap().members.len(), 1, "{context}");
}

#[test]
fn rust_enums_tuples_and_names() {
    if !need("rustc") {
        return;
    }
    let source = r#"
pub enum Shape { Circle(f64), Rect { w: u32, h: u32 }, Unit }
pub struct Big<T> { pub t: (u8, T), pub s: Shape, pub o: Option<Box<u32>>, pub st: &'static str }
fn main() {
    let b = Big { t: (1, 2u64), s: Shape::Rect { w: 1, h: 2 }, o: None, st: "x" };
    let c = [Shape::Circle(1.0), Shape::Unit];
    std::hint::black_box((&b, &c));
}
"#;
    let table = compile("r.rs", source, "rustc -g -C debuginfo=2 r.rs -o a.out");
    let shape = table.aggregate(table.find("r::Shape").unwrap()).unwrap();
    assert_eq!(shape.size, 16);
    let names: Vec<_> = shape.members.iter().map(|m| (m.role, m.name.as_deref())).collect();
    assert_eq!(names[0], (MemberRole::Discriminant, None));
    for variant in ["Circle", "Rect", "Unit"] {
        assert!(names.contains(&(MemberRole::Variant, Some(variant))), "{names:?}");
    }
    let big = table.aggregate(table.find("r::Big<u64>").unwrap()).unwrap();
    let types: Vec<_> = big.members.iter().map(|m| table.name(m.ty)).collect();
    assert!(types.contains(&"(u8, u64)".to_string()) && types.contains(&"&str".to_string()), "{types:?}");
    assert!(types.iter().any(|t| t.starts_with("core::option::Option<alloc::boxed::Box<u32")), "{types:?}");
    // the first variant's contents lie behind the discriminant
    let rect = shape.members.iter().find(|m| m.name.as_deref() == Some("Rect")).unwrap();
    let fields = &table.aggregate(rect.ty).unwrap().members;
    assert_eq!(fields.iter().map(|f| f.offset()).collect::<Vec<_>>(), [4, 8]);
}

/// rustc describes the tail as one element that lies outside of the struct, and functions without bytes as pointers:
/// nothing is wrong with such structs.
#[test]
fn members_of_rust_that_have_no_bytes_take_none() {
    if !need("rustc") {
        return;
    }
    let source = r#"
pub struct Tail { pub n: u32, pub rest: [u64] }
pub struct Text { pub id: u8, pub text: str }
pub struct Outer { pub at: u64, pub tail: Tail }
#[inline(never)] fn sum(a: &Tail, b: &Text, c: &Outer, d: &std::path::Path) -> usize {
    a.rest.len() + b.text.len() + c.tail.rest.len() + d.as_os_str().len()
}
pub struct Item<F> { pub f: F, pub n: u16 }
pub struct Two<F, G> { pub f: F, pub at: u64, pub g: G }
#[inline(never)] fn call<F: Fn(u8) -> u8, G: Fn(u8) -> u8>(a: &Item<F>, b: &Two<F, G>) -> u8 {
    (a.f)(1) + (b.f)(2) + (b.g)(a.n as u8) + b.at as u8
}
fn one(n: u8) -> u8 { n + 1 }
fn two(n: u8) -> u8 { n + 2 }
fn main() {
    let pointer: fn(u8) -> u8 = two;
    std::hint::black_box(call(&Item { f: one, n: 3 }, &Two { f: one, at: 3, g: two }));
    std::hint::black_box(call(&Item { f: pointer, n: 3 }, &Two { f: pointer, at: 3, g: pointer }));
    let f: fn(&Tail, &Text, &Outer, &std::path::Path) -> usize = sum;
    std::hint::black_box(f);
}
"#;
    let table = compile("t.rs", source, "rustc -g t.rs -o a.out");
    let tail = |name: &str| {
        let a = table.aggregate(table.find(name).unwrap()).unwrap();
        let m = a.members.last().unwrap();
        (a.size, m.offset(), table.name(m.ty))
    };
    assert_eq!(tail("t::Tail"), (8, 8, "u64[]".into()));
    assert_eq!(tail("t::Text"), (1, 1, "u8[]".into()));
    assert_eq!(tail("t::Outer"), (16, 8, "t::Tail".into()));
    // items and pointers have one name: they are told apart by their room
    let sizes = |name: &str| {
        let all = table.find_all(name).into_iter().filter_map(|id| table.aggregate(id));
        let bytes =
            |a: &tussle_model::Aggregate| a.members.iter().map(|m| table.size(m.ty)).collect::<Vec<_>>();
        let mut all: Vec<_> = all.map(|a| (a.size, bytes(a))).collect();
        all.sort();
        all
    };
    let b = |n: &[u64]| n.iter().map(|&n| Some(n)).collect::<Vec<_>>();
    assert_eq!(sizes("t::Item<fn(u8) -> u8>"), [(2, b(&[0, 2])), (16, b(&[8, 2]))]);
    let two = sizes("t::Two<fn(u8) -> u8, fn(u8) -> u8>");
    assert_eq!(two, [(8, b(&[0, 8, 0])), (24, b(&[8, 8, 8]))]);
    let doubted: Vec<_> = table.aggregates().filter_map(|(id, _)| table.damaged(id)).collect();
    assert!(doubted.is_empty(), "{doubted:?}");
}

#[test]
fn what_the_source_says_is_kept() {
    if !need("gcc") {
        return;
    }
    let source = "\
struct first { int a; };
struct second {
    _Alignas(32) char aligned;
    struct first *p;
} __attribute__((aligned(64)));
enum e { LOW = -2, HIGH = 200 };
struct second s; enum e v; _Bool flag; float f; union { int a; } anonymous;
int (*fn)(struct first, char *, ...);
int main(void) { return 0; }
";
    let table = compile("a.c", source, "gcc -g a.c");
    let names: Vec<_> = table.aggregates().filter_map(|(_, a)| a.name.as_deref()).collect();
    assert_eq!(names, ["first", "second"], "in the order of the file");
    let second = table.aggregate(table.find("second").unwrap()).unwrap();
    let decl = second.decl.as_ref().unwrap();
    assert!(decl.file.ends_with("a.c") && decl.line == 2, "{decl:?}");
    let align = second.align.unwrap();
    assert_eq!((align.bytes, align.source), (64, AlignmentSource::Declared));
    assert_eq!((second.members[0].align, second.members[0].decl_line), (Some(32), 3));
    assert_eq!(table.name(second.members[1].ty), "struct first *");
    let Some(Type::Enum(e)) = table.iter().map(|(_, t)| t).find(|t| matches!(t, Type::Enum(_))) else {
        panic!()
    };
    assert_eq!(e.values.iter().map(|v| v.value).collect::<Vec<_>>(), [-2, 200]);
}

#[test]
fn a_name_is_found_without_reading_everything() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.c"), c_sample()).unwrap();
    run(dir.path(), "gcc -g a.c");
    let bytes = std::fs::read(dir.path().join("a.out")).unwrap();
    for name in ["struct outer", "outer", "anonymous_t", "union choice", "local"] {
        let wanted = [name.to_string()];
        let (table, problems) = open(&bytes, &Want::Names(&wanted), &mut NoCompanions).unwrap();
        assert!(problems.is_empty());
        let all = read(&dir.path().join("a.out"));
        let (got, want) = (table.find(name).unwrap(), all.find(name).unwrap());
        assert_eq!(layout(&table, got), layout(&all, want), "{name}");
    }
    let (table, _) = open(&bytes, &Want::Names(&["absent".into()]), &mut NoCompanions).unwrap();
    assert!(table.find("absent").is_none());
    let (table, _) = open(&bytes, &Want::Names(&["union outer".into()]), &mut NoCompanions).unwrap();
    assert!(table.find("outer").is_none());
}

fn layout(table: &TypeTable, id: tussle_model::TypeId) -> Vec<(String, u64, u64)> {
    let leaves = tussle_model::leaves(table, id, tussle_model::leaf::Arrays::Whole);
    leaves.into_iter().map(|l| (l.path, l.offset, l.size)).collect()
}

#[test]
fn two_structs_of_one_name_stay_apart() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = |n: u32, field: &str| {
        let text = format!(
            "struct worker {{ int {field}; }}; struct same {{ struct worker *w; }};\n\
             struct same s{n}; struct worker *w{n}[2];\n"
        );
        std::fs::write(dir.path().join(format!("f{n}.c")), text).unwrap();
    };
    file(1, "one");
    file(2, "two");
    std::fs::write(dir.path().join("main.c"), "int main(void) { return 0; }\n").unwrap();
    run(dir.path(), "gcc -g f1.c f2.c main.c");
    let table = read(&dir.path().join("a.out"));
    let workers: Vec<_> = table
        .aggregates()
        .filter(|(_, a)| a.name.as_deref() == Some("worker"))
        .map(|(_, a)| a.members[0].name.clone().unwrap())
        .collect();
    assert_eq!(workers, ["one", "two"]);
}

#[test]
fn any_number_of_threads_reads_the_same() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = String::from("gcc -g -shared -fPIC -o a.out");
    for unit in 0..7 {
        let text = format!(
            "struct common {{ int a; struct own{unit} *p; struct later *l; }};\n\
             struct own{unit} {{ struct common c; }};\n\
             typedef struct {{ int x; }} t{unit}; struct same {{ int in{unit}; }};\n\
             struct own{unit} o{unit}; t{unit} v{unit}; struct same s{unit};\n{}",
            if unit == 5 { "struct later { int defined; } later;" } else { "" }
        );
        std::fs::write(dir.path().join(format!("u{unit}.c")), text).unwrap();
        command += &format!(" u{unit}.c");
    }
    run(dir.path(), &command);
    let bytes = std::fs::read(dir.path().join("a.out")).unwrap();
    let elf = tussle_debuginfo::Elf::parse(&bytes).unwrap();
    let files = tussle_debuginfo::dwarf::Files::load(&elf, &mut NoCompanions).unwrap();
    let units = files.units(&mut Vec::new()).unwrap();
    let read = |threads| {
        let mut types = tussle_debuginfo::dwarf::Types::new(&units, files.pointer_size());
        types.read_all_on(threads);
        let (table, problems) = types.finish();
        assert!(problems.is_empty(), "{problems:?}");
        let show = |(_, a): (_, &tussle_model::Aggregate)| {
            let members: Vec<_> =
                a.members.iter().map(|m| (m.name.clone(), m.offset_bits, table.name(m.ty))).collect();
            format!("{} {} {members:?}", a.display_name(), a.size)
        };
        table.aggregates().map(show).collect::<Vec<_>>()
    };
    let one = read(1);
    assert_eq!(one.iter().filter(|s| s.starts_with("struct same ")).count(), 7);
    assert_eq!(one.iter().filter(|s| s.starts_with("struct later ")).count(), 1);
    for threads in 2..=8 {
        assert_eq!(read(threads), one, "{threads} threads");
    }
}

/// A struct around an array of variable length has no layout of its own; 2^32 elements are no -1.
#[test]
fn arrays_of_variable_and_of_huge_length() {
    let source = "struct h { char big[4294967296]; int t; }; struct h *p; int f(void) { return p->t; }\n\
        int g(int n) { struct vla { int a; char v[n]; int b; } x; x.b = n; p = (void *)&x; return x.b; }\n";
    for compiler in ["gcc", "clang"].into_iter().filter(|c| need(c)) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("h.c"), source).unwrap();
        if common::attempt(dir.path(), &format!("{compiler} -g -c h.c")).is_none() {
            continue;
        }
        let bytes = std::fs::read(dir.path().join("h.o")).unwrap();
        let (table, problems) = tussle_debuginfo::open(&bytes, &Want::All, &mut NoCompanions).unwrap();
        let h = table.aggregate(table.find("h").unwrap()).unwrap();
        assert_eq!(table.size(h.members[0].ty), Some(1 << 32), "{compiler}");
        assert_eq!(table.find("vla"), None, "{compiler}");
        assert!(problems.iter().any(|p| p.to_string().contains("computed at run time")), "{problems:?}");
    }
}
