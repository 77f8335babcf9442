//! Alignments of types against the compiler's own: `_Alignof` of each is asserted in the source that they came from.

use std::path::Path;
use std::process::Command;
use tussle_debuginfo::NoCompanions;
use tussle_debuginfo::dwarf::Want;
use tussle_layout::phases::object_align;
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
"#;

/// The alignment of every type, as assertions.
fn assertions(object: &Path) -> String {
    let bytes = std::fs::read(object).expect("the object");
    let (table, problems) = tussle_debuginfo::open(&bytes, &Want::All, &mut NoCompanions).expect("types");
    assert!(problems.is_empty(), "{problems:?}");
    let named = table.aggregates().filter(|(_, a)| a.name.is_some());
    let line = |(id, _): (tussle_model::TypeId, &tussle_model::Aggregate)| {
        let name = table.name(id);
        format!("_Static_assert(_Alignof({name}) == {}, \"{name}\");\n", object_align(&table, id, false))
    };
    named.map(line).collect()
}

fn holds(compiler: &str, flags: &[&str]) {
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
    let assertions = assertions(&at("a.o"));
    assert!(assertions.lines().count() >= 12, "{assertions}");
    std::fs::write(at("b.c"), format!("{SOURCE}{assertions}")).expect("written");
    let out = compile("b.c");
    assert!(out.status.success(), "{compiler} {flags:?}: {}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn of_packed_and_aligned_types() {
    if need("gcc") {
        holds("gcc", &[]);
        holds("gcc", &["-gdwarf-4"]);
    }
    if need("clang") {
        holds("clang", &[]);
        holds("clang", &["--target=aarch64-linux-gnu", "-gdwarf-4"]);
        holds("clang", &["--target=armv7-linux-gnueabi"]);
    }
}
