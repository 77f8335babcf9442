//! Alignments of types against the compiler's own: `_Alignof` of each is asserted in the source that they came from.

use std::path::Path;
use std::process::Command;
use tussle_debuginfo::NoCompanions;
use tussle_debuginfo::dwarf::Want;
use tussle_layout::bounds::bounds;
use tussle_testkit::{need, skip};

const SOURCE: &str = r#"
typedef struct __attribute__((packed)) { char c; int i; } inner_t;
struct plain { char c; long l; };
struct packed_odd { char c; long l; } __attribute__((packed));
struct packed_even { int a; char b; int c; char d[3]; } __attribute__((packed));
struct packed_bits { unsigned a:7; unsigned long b:50; unsigned short c:9; char d; unsigned e:31; }
    __attribute__((packed));
struct packed_holds { char c; struct plain p; char rest[7]; } __attribute__((packed));
struct holds_packed { inner_t in; short s; };
struct bits { unsigned a:3; unsigned long b:40; signed char c; };
struct wide { char c; long double d; };
struct pair { long long q; char c; };
struct line { char c; } __attribute__((aligned(64)));
struct holds_line { char c; struct line l; };
union both { char c[5]; short s; };
struct plain g1; struct packed_odd g2; struct packed_even g3; struct packed_bits g4; struct packed_holds g5;
struct holds_packed g6; struct bits g7; struct wide g8; struct pair g9; struct line g10; struct holds_line g11;
union both g12;
struct low { unsigned long long v; } __attribute__((packed, aligned(4)));
struct holds_low { unsigned events; struct low d[8]; };
struct lower { unsigned long long v; unsigned w, x; } __attribute__((packed, aligned(2)));
struct asked_less { unsigned long long v; } __attribute__((aligned(4)));
typedef unsigned long long weak_t __attribute__((aligned(4)));
struct holds_weak { int x; weak_t v; };
struct complex { long hot; _Complex double z; long cold[6]; };
struct complexes { char a; _Complex float f; char b; _Complex long double l; };
typedef char vector_t __attribute__((vector_size(16)));
struct vectors { char c; float f __attribute__((vector_size(64))); vector_t v; };
#ifdef ATOMIC /* which DWARF 4 cannot say */
struct whole { _Atomic struct { int a, b; } at; } g24;
#endif
#ifdef BITINT
struct bit_ints { char a; _BitInt(100) b; char c; _BitInt(40) d; char e; unsigned _BitInt(13) f; } g25;
#endif
#pragma pack(push, 2)
struct pragma_two { char c; long l; short s; };
struct pragma_odd { char c; int l; char d[3]; char e; };
#pragma pack(pop)
struct low g13; struct holds_low g14; struct lower g15; struct asked_less g16; struct holds_weak g17;
struct complex g18; struct complexes g19; struct vectors g20; struct pragma_two g22;
struct pragma_odd g23;
"#;

/// Types whose alignment the compilers do not write.
const UNTOLD: [&str; 3] = ["pragma_two", "pragma_odd", "vectors"];

/// And of which clang writes what the source asks for.
const ASKED: [&str; 4] = ["low", "holds_low", "lower", "asked_less"];

/// The bounds of every type, as assertions, and the names of those that leave a choice.
fn assertions(object: &Path) -> (String, Vec<String>) {
    let bytes = std::fs::read(object).expect("the object");
    let (table, problems) = tussle_debuginfo::open(&bytes, &Want::All, &mut NoCompanions).expect("types");
    assert!(problems.is_empty(), "{problems:?}");
    let named = table.aggregates().filter(|(_, a)| a.name.is_some());
    let mut open = Vec::new();
    let line = |(id, a): (tussle_model::TypeId, &tussle_model::Aggregate)| {
        let (name, of) = (table.name(id), bounds(&table, id, false));
        open.extend(a.name.clone().filter(|_| !of.is_certain()));
        let assert = |what: &str| format!("_Static_assert({what}, \"{name}\");\n");
        let (at_least, at_most) =
            (format!("_Alignof({name}) >= {}", of.least), format!("_Alignof({name}) <= {}", of.most));
        assert(&at_least) + &assert(&at_most)
    };
    let text = named.map(line).collect();
    (text, open)
}

fn holds(compiler: &str, flags: &[&str], choice: &[&str]) {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("a.c"), SOURCE).expect("written");
    let compile = |source: &str| {
        let mut c = Command::new(compiler);
        c.args(["-g", "-c", "-o", "a.o", source]).args(flags).current_dir(dir.path()).output().expect("runs")
    };
    if !compile("a.c").status.success() {
        return skip(&format!("{compiler} {flags:?} does not compile here"));
    }
    let (assertions, open) = assertions(&at("a.o"));
    assert!(assertions.lines().count() >= 44, "{assertions}");
    let surprising: Vec<&String> = open.iter().filter(|n| !choice.contains(&n.as_str())).collect();
    assert!(surprising.is_empty(), "{compiler} {flags:?}: {surprising:?} are not certain");
    std::fs::write(at("b.c"), format!("{SOURCE}{assertions}")).expect("written");
    let out = compile("b.c");
    assert!(out.status.success(), "{compiler} {flags:?}: {}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn of_packed_and_aligned_types() {
    let asked = [&UNTOLD[..], &ASKED].concat();
    if need("gcc") {
        holds("gcc", &["-DATOMIC"], &UNTOLD);
        holds("gcc", &["-gdwarf-4"], &UNTOLD);
        holds("gcc", &["-m32", "-DATOMIC"], &UNTOLD);
    }
    if need("clang") {
        holds("clang", &["-gdwarf-5", "-DATOMIC"], &asked);
        // without the alignment of typedefs
        holds("clang", &["-gdwarf-4"], &asked);
        holds("clang", &["--target=aarch64-linux-gnu", "-gdwarf-4"], &asked);
        holds("clang", &["--target=armv7-linux-gnueabi"], &asked);
        holds("clang", &["--target=s390x-linux-gnu"], &asked);
        holds("clang", &["-std=c2x", "-DBITINT"], &asked);
        holds("clang", &["-std=c2x", "-DBITINT", "--target=i386-linux-gnu"], &asked);
        // older and newer versions differ
        let versions = [&asked[..], &["bit_ints"]].concat();
        holds("clang", &["-std=c2x", "-DBITINT", "--target=aarch64-linux-gnu"], &versions);
    }
}

const CPP: &str = r#"
struct Wide { __int128 w; };
struct Line { alignas(64) int l; };
struct Odd : virtual Wide { char c; };
struct Deep : Odd, virtual Line { char d; };
struct V { void g(); };
struct PM { long hot; void (V::*fm)(); long b[6]; };
struct NQ { decltype(nullptr) n; int x; };
Odd g1; Deep g2; PM g3; NQ g4;
"#;

/// Pointers to members, `nullptr_t`, virtual bases.
#[test]
fn of_what_only_cpp_has() {
    for compiler in ["g++", "clang++"].into_iter().filter(|c| need(c)) {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        let compile = |name: &str, source: &str| {
            std::fs::write(at(name), source).expect("written");
            let mut c = Command::new(compiler);
            c.args(["-g", "-std=c++17", "-c", "-o", "a.o", name])
                .current_dir(dir.path())
                .output()
                .expect("runs")
        };
        assert!(compile("a.cc", CPP).status.success());
        let (assertions, open) = assertions(&at("a.o"));
        assert_eq!(open, [""; 0], "{compiler}");
        let assertions = assertions.replace("_Static_assert", "static_assert").replace("_Alignof", "alignof");
        let sizes = "static_assert(sizeof(NQ) == 16 && alignof(Deep) == 64);\n";
        let out = compile("b.cc", &format!("{CPP}{assertions}{sizes}"));
        assert!(out.status.success(), "{compiler}: {}", String::from_utf8_lossy(&out.stderr));
    }
}
