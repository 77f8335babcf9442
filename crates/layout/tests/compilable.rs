//! Headers made of types, compiled again: the same sizes and offsets.

use std::path::Path;
use std::process::Command;
use tussle_debuginfo::dwarf::Want;
use tussle_layout::compilable::header;
use tussle_layout::{data, reorder};
use tussle_model::leaf::Arrays;
use tussle_model::{TypeId, TypeTable, leaves};
use tussle_testkit::{given, need};

fn compile(dir: &Path, cc: &str, flags: &str, file: &str) -> bool {
    let mut command = Command::new(cc);
    command.args(flags.split_whitespace()).args(["-g", "-c", file, "-o", "a.o"]).current_dir(dir);
    command.status().is_ok_and(|s| s.success())
}

fn read(file: &Path) -> TypeTable {
    let bytes = std::fs::read(file).unwrap();
    tussle_debuginfo::open(&bytes, &Want::All, &mut tussle_debuginfo::NoCompanions).unwrap().0
}

fn named(table: &TypeTable) -> Vec<TypeId> {
    table.aggregates().filter(|(_, a)| a.name.is_some()).map(|(id, _)| id).collect()
}

/// The header of all types compiles, and its own assertions about every size and offset hold.
fn holds(dir: &Path, table: &TypeTable, what: &str) {
    let roots = named(table);
    std::fs::write(dir.join("made.c"), header(table, &roots)).unwrap();
    assert!(
        compile(dir, "gcc", "-w -fno-eliminate-unused-debug-types -DTUSSLE_CHECK_LAYOUT", "made.c"),
        "{what}: {} types",
        roots.len()
    );
}

const CPP: &str = r#"
#include <map>
#include <string>
#include <sstream>
namespace n { struct Empty {}; struct Tail { long a; char b; }; struct Reuse : Tail { char c; };
struct V : virtual Tail { int x : 3, y : 9; Empty e; bool class_; }; union U { char c[5]; short s; };
struct All : Empty, Reuse { std::map<std::string, V> m; U u; double register_; int &ref; void (*f)(int); }; }
n::All *all; n::V v; std::ostringstream o; int main() { return v.x + (all != 0) + o.good(); }
"#;

#[test]
fn headers_compile_to_the_same_offsets() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let c = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/layouts.c")).unwrap();
    std::fs::write(dir.path().join("l.c"), c).unwrap();
    assert!(compile(dir.path(), "gcc", "", "l.c"));
    let table = read(&dir.path().join("a.o"));
    holds(dir.path(), &table, "layouts.c");
    // leaf for leaf, bit-fields included
    let again = read(&dir.path().join("a.o"));
    let facts = |t: &TypeTable, id| {
        let all = leaves(t, id, Arrays::Whole).into_iter().filter(|l| !l.path.contains("__pad_"));
        all.map(|l| (l.path, l.offset, l.size, l.bits)).collect::<Vec<_>>()
    };
    let mut compared = 0;
    for (id, a) in table.aggregates().filter(|(_, a)| a.name.is_some()) {
        let other = again.find(a.name.as_deref().unwrap()).unwrap_or_else(|| panic!("{:?}", a.name));
        // the storage of a packed bit-field may be told in other units
        let of = |t: &TypeTable, id| {
            facts(t, id)
                .into_iter()
                .map(|(p, at, _, b)| (p, at * 8 + b.map_or(0, |b| u64::from(b.0))))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&table, id), of(&again, other), "{:?}", a.name);
        compared += 1;
    }
    assert!(compared >= 14, "{compared}");
    for cc in ["g++", "clang++"].into_iter().filter(|cc| need(cc)) {
        std::fs::write(dir.path().join("c.cc"), CPP).unwrap();
        assert!(compile(dir.path(), cc, "", "c.cc"));
        holds(dir.path(), &read(&dir.path().join("a.o")), cc);
    }
}

/// On request: every type of these files, with the assertions.
#[test]
fn headers_of_whole_files_compile() {
    let Some(files) = given("TUSSLE_PAHOLE_FILES") else { return };
    let dir = tempfile::tempdir().unwrap();
    for file in files.to_string_lossy().split(':') {
        let table = read(Path::new(file));
        holds(dir.path(), &table, file);
        println!("{file}: {} types", named(&table).len());
    }
}

#[test]
fn proposed_orders_have_the_promised_size() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let source = "struct s { char a; long b; char c; unsigned x:3, y:9; void *d; short e; char tail[]; } s;\n\
        struct tight { long a; int b, c; } t; struct p { char a; long b; } __attribute__((packed)) p;\n";
    std::fs::write(dir.path().join("s.c"), source).unwrap();
    assert!(compile(dir.path(), "gcc", "", "s.c"));
    let table = read(&dir.path().join("a.o"));
    let find = |n| reorder::advise(&table, table.find(n).unwrap());
    let advice = find("s").unwrap();
    assert!(find("tight").unwrap().moves.is_empty());
    assert!(find("p").is_err());
    // the members in the new order, as C
    let mut order = vec!["a", "b", "c", "x", "d", "e", "tail"];
    for m in &advice.moves {
        order.retain(|n| *n != m.field);
        let at = m.behind.as_ref().map_or(0, |b| order.iter().position(|n| n == b).unwrap() + 1);
        order.insert(at, ["a", "b", "c", "x", "d", "e"].into_iter().find(|n| *n == m.field).unwrap());
    }
    let text = |n: &&str| match *n {
        "a" => "char a;",
        "b" => "long b;",
        "c" => "char c;",
        "x" => "unsigned x:3, y:9;",
        "d" => "void *d;",
        "e" => "short e;",
        _ => "char tail[];",
    };
    let body: String = order.iter().map(text).collect();
    let source =
        format!("struct s {{ {body} }}; _Static_assert(sizeof(struct s) == {}, \"\");", advice.after);
    std::fs::write(dir.path().join("s.c"), source).unwrap();
    assert!(compile(dir.path(), "gcc", "", "s.c"), "{advice:?}");
    assert!(advice.after < advice.before, "{advice:?}");
}

#[test]
fn bytes_read_as_the_program_wrote_them() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let source = "enum color { RED, BLUE = 7 }; struct in { short s; float f; };\n\
        struct s { int i; unsigned b:3, c:7; signed d:2; char name[8];\n\
        enum color e; struct in in[2]; _Bool on; void *p;\n\
        union { int u; char c2; }; } s = { -5, 5, 99, -1, \"eth0\", BLUE, {{1, 1.5f}, {-2, 0.25f}}, 1, 0, {66} };\n";
    std::fs::write(dir.path().join("s.c"), source).unwrap();
    assert!(compile(dir.path(), "gcc", "-fno-zero-initialized-in-bss", "s.c"));
    let table = read(&dir.path().join("a.o"));
    let file = dir.path().join("a.o");
    let run = Command::new("objcopy")
        .args(["-O", "binary", "-j", ".data"])
        .arg(&file)
        .arg(dir.path().join("d"))
        .status();
    assert!(run.is_ok_and(|s| s.success()));
    let bytes = std::fs::read(dir.path().join("d")).unwrap();
    let memory = data::Memory { bytes: &bytes, little_endian: true };
    let text = data::text(&table, table.find("s").unwrap(), memory);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let want = "{ .i = -5, .b = 5, .c = 99, .d = -1, .name = \"eth0\", .e = BLUE, .in = [ { .s = 1, .f = 1.5, }, \
        { .s = -2, .f = 0.25, } ], .on = true, .p = 0x0, { // one of .u = 66, .c2 = 'B', }, }";
    assert_eq!(flat, want);
    let short = data::Memory { bytes: &bytes[..6], little_endian: true };
    assert!(data::text(&table, table.find("s").unwrap(), short).contains(".name = [ ?"));
}
