//! What a file does not tell, or tells wrong, is not known: no rule holds over it, nothing is left out in silence.

#![allow(clippy::unwrap_used)]

mod schema;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tussle_testkit::need;

fn run(dir: &Path, program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).current_dir(dir).output().unwrap()
}

fn build(dir: &Path, compiler: &str, name: &str, source: &str, options: &[&str]) {
    std::fs::write(dir.join(name), source).unwrap();
    let out = run(dir, compiler, &[&["-g", "-c", name, "-o", "a.o"], options].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

fn json(dir: &Path, args: &[&str]) -> (i32, Value) {
    let out = run(dir, env!("CARGO_BIN_EXE_tussle"), &[args, &["--format", "json"]].concat());
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}{errors}"));
    schema::keeps_to(json["kind"].as_str().unwrap(), &json);
    (out.status.code().unwrap(), json)
}

/// Cells of the rules (`type` and a demand) over a.o with --strict, and the exit status.
fn cells(dir: &Path, rules: &[(&str, &str)]) -> (i32, Vec<String>, Value) {
    let text: String =
        rules.iter().map(|(ty, demand)| format!("[[rule]]\ntype = '{ty}'\n{demand}\n")).collect();
    std::fs::write(dir.join("rules.toml"), text).unwrap();
    let (code, json) = json(dir, &["check", "--strict", "--rules", "rules.toml", "a.o"]);
    let cell = |row: &Value| row["a.o"].as_str().unwrap().to_string();
    (code, json["matrix"].as_array().unwrap().iter().map(cell).collect(), json)
}

fn fields(dir: &Path, ty: &str) -> (usize, bool) {
    let (_, json) = json(dir, &["layout", "a.o", "-C", ty]);
    let ty = &json["types"][0];
    (ty["fields"].as_array().unwrap().len(), ty["fields_cut"].as_bool().unwrap())
}

/// By value, as bases, as members, and through so many typedefs.
const NESTED: &str = "
template<int N> struct Held { Held<N - 1> m; char c; }; template<> struct Held<0> { long x; };
template<int N> struct Base : Base<N - 1> { char c; }; template<> struct Base<0> { long x; };
template<int N> struct Name { using type = typename Name<N - 1>::type; };
template<> struct Name<0> { using type = long; };
template<int N> struct Rows { Rows<N - 1> m; char c; }; template<> struct Rows<0> { long x; };
struct Holds { char a; Held<90> b; char z; } holds;
struct Derives { char a; Base<90> b; char z; } derives;
struct Named { char a; Name<80>::type b; char c; } named;
struct Deep { char a; Rows<400> b; char z; } deep;
struct Long { char a; Name<600>::type b; char c; } longer;
";

#[test]
fn nothing_holds_below_what_is_read_of_a_nest() {
    if !need("g++") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    build(dir, "g++", "a.cc", NESTED, &["-ftemplate-depth=1000"]);
    assert_eq!(fields(dir, "Holds"), (93, false));
    assert_eq!(fields(dir, "Derives"), (93, false));
    assert_eq!(fields(dir, "Named"), (3, false));
    assert!(fields(dir, "Deep").1 && fields(dir, "Long").1);
    let apart = "phases = [0]\nseparate = ['a', 'b']";
    let (code, cells, json) = cells(
        dir,
        &[
            ("Holds", apart),
            ("Holds", "phases = [0]\nalone = ['a']"),
            ("Derives", "nothing_between = ['a', 'z']"),
            ("Named", apart),
            ("Named", "phases = [0]\nalone = ['a']"),
            ("Deep", apart),
            ("Deep", "nothing_between = ['a', 'z']"),
            ("Long", apart),
            ("Long", "max_size = 8"),
        ],
    );
    let (fail, unknown) = (["fail"; 5].as_slice(), ["unknown"; 4].as_slice());
    assert_eq!((code, cells), (1, [fail, unknown].concat().iter().map(ToString::to_string).collect()));
    assert_eq!(json["undecided"].as_array().unwrap().len(), 4);
}

#[test]
fn a_struct_without_a_size_is_no_struct_of_size_0() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let source = "struct whole { int a; } w;\nint f(int n) { struct varies { int a; char v[n]; } x; \
        __asm__ volatile(\"\" : : \"r\"(&x) : \"memory\"); return x.a; }\n";
    build(dir, "gcc", "a.c", source, &["-O2"]);
    let (_, listing) = json(dir, &["layout", "a.o"]);
    let names: Vec<&Value> = listing["types"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["struct whole"]);
    let (code, cells, json) = cells(dir, &[("varies", "max_size = 0"), ("whole", "max_size = 4")]);
    assert_eq!((code, cells), (1, vec!["unknown".into(), "pass".into()]));
    assert!(json["undecided"][0]["why"].as_str().unwrap().contains("varies"), "{json}");
}

#[test]
fn a_lost_unit_leaves_every_rule_open() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let compile = |name: &str, source: &str| {
        std::fs::write(dir.join(name), source).unwrap();
        assert!(run(dir, "gcc", &["-g", "-gsplit-dwarf", "-c", name]).status.success());
    };
    compile("one.c", "struct two_ways { int a; } x; int main(void) { return 0; }");
    compile("two.c", "struct two_ways { int a[40]; } y;");
    assert!(run(dir, "gcc", &["-g", "one.o", "two.o", "-o", "a.o"]).status.success());
    let rule = [("two_ways", "max_size = 4")];
    assert_eq!(cells(dir, &rule).1, ["fail"]);
    std::fs::remove_file(dir.join("two.dwo")).unwrap();
    let (code, cells, json) = cells(dir, &rule);
    assert_eq!((code, cells), (1, vec!["unknown".to_string()]));
    assert!(json["undecided"][0]["why"].as_str().unwrap().contains("two.dwo"), "{json}");
}

/// Assembly of a unit with such entries in it, the first at `t1`; 1: unit, 2: struct (name, size), 3: member (name,
/// type, offset), 4: base type (name, size), 5: typedef (name, type).
fn damaged(entries: &str) -> String {
    let abbreviation = |code: u8, tag: u8, children: u8, attributes: &[u8]| {
        let bytes: Vec<String> =
            [&[code, tag, children], attributes, &[0, 0]].concat().iter().map(u8::to_string).collect();
        format!(".byte {}\n", bytes.join(","))
    };
    let abbreviations: String = [
        abbreviation(1, 0x11, 1, &[0x13, 0x0b]),
        abbreviation(2, 0x13, 1, &[0x03, 0x08, 0x0b, 0x0b]),
        abbreviation(3, 0x0d, 0, &[0x03, 0x08, 0x49, 0x13, 0x38, 0x0b]),
        abbreviation(4, 0x24, 0, &[0x03, 0x08, 0x0b, 0x0b, 0x3e, 0x0b]),
        abbreviation(5, 0x16, 0, &[0x03, 0x08, 0x49, 0x13]),
    ]
    .concat();
    format!(
        ".section .debug_abbrev,\"\",@progbits\nabbreviations:\n{abbreviations}.byte 0\n\
         .section .debug_info,\"\",@progbits\nunit:\n.long end - 1f\n1: .value 4\n.long abbreviations\n.byte 8\n\
         .byte 1, 12\nlong_: .byte 4\n.asciz \"long\"\n.byte 8, 5\n{entries}\n.byte 0\nend:\n"
    )
}

const BAD: &str = "
.byte 2\n.asciz \"far\"\n.byte 8
.byte 3\n.asciz \"x\"\n.long long_ - unit\n.byte 0
.byte 3\n.asciz \"y\"\n.long long_ - unit\n.byte 100\n.byte 0
self: .byte 2\n.asciz \"self\"\n.byte 16
.byte 3\n.asciz \"x\"\n.long long_ - unit\n.byte 0
.byte 3\n.asciz \"me\"\n.long self - unit\n.byte 8\n.byte 0
ping: .byte 5\n.asciz \"ping\"\n.long pong - unit
pong: .byte 5\n.asciz \"pong\"\n.long ping - unit
.byte 2\n.asciz \"loop\"\n.byte 16
.byte 3\n.asciz \"x\"\n.long long_ - unit\n.byte 0
.byte 3\n.asciz \"y\"\n.long ping - unit\n.byte 8\n.byte 0
.byte 2\n.asciz \"sound\"\n.byte 16
.byte 3\n.asciz \"x\"\n.long long_ - unit\n.byte 0
.byte 3\n.asciz \"y\"\n.long long_ - unit\n.byte 8\n.byte 0
";

#[test]
fn what_no_compiler_writes_is_not_believed() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    build(dir, "gcc", "a.s", &damaged(BAD), &[]);
    let small = "max_size = 16";
    let rules =
        [("far", small), ("self", small), ("loop", small), ("sound", small), ("far", "offset = { y = 100 }")];
    let (code, cells, _) = cells(dir, &rules);
    assert_eq!(
        (code, cells),
        (1, ["unknown", "unknown", "unknown", "pass", "unknown"].map(String::from).to_vec())
    );
    let out = run(dir, env!("CARGO_BIN_EXE_tussle"), &["layout", "a.o"]);
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    for name in ["far", "self", "loop"] {
        let line = told.lines().find(|l| l.contains(&format!("{name}: ")));
        assert!(line.is_some_and(|l| l.contains("a.o: .debug_info: offset 0x")), "{name}: {told}");
    }
    assert!(!told.contains("sound"), "{told}");
}

#[test]
fn one_of_two_bases_of_a_name_can_be_said() {
    if !need("g++") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let source = "struct B { long b; }; struct X : B { long x; }; struct Y : B { long y; };\n\
        struct Z : X, Y { long z; } z; struct D : X, B { long d; } d;\n";
    build(dir, "g++", "a.cc", source, &["-w"]);
    let (code, cells, json) = cells(
        dir,
        &[
            ("Z", "offset = { 'X::B::b' = 0 }"),
            ("Z", "offset = { 'Y::B::b' = 16 }"),
            ("D", "offset = { 'D::B::b' = 16 }"),
            ("D", "offset = { 'D::X::B::b' = 0 }"),
            ("D", "offset = { 'B::b' = 0 }"),
        ],
    );
    assert_eq!((code, cells), (2, ["pass", "pass", "pass", "pass", "error"].map(String::from).to_vec()));
    let message = json["findings"][0]["message"].as_str().unwrap();
    assert!(message.contains("`D::X::B::b` or `D::B::b`"), "{message}");
}

#[test]
fn every_name_of_a_listing_is_found() {
    if !need("rustc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let source = "use std::fmt::Write;\n\
        pub struct Held<'a> { pub b: Box<[u16]>, pub t: (usize, Option<usize>), pub w: &'a mut dyn Write,\n\
        pub f: Option<Box<dyn Fn(u8) -> u16>>, pub s: &'a [(u8, u16)] }\n\
        #[no_mangle] pub fn take(h: &mut Held<'_>) -> usize { h.t.0 + h.b.len() + h.s.len() }\n";
    std::fs::write(dir.join("a.rs"), source).unwrap();
    let options = ["-g", "--crate-type=rlib", "--emit=obj", "-o", "a.o", "a.rs"];
    assert!(run(dir, "rustc", &options).status.success());
    let (_, listing) = json(dir, &["layout", "a.o"]);
    let all: Vec<&Value> = listing["types"].as_array().unwrap().iter().collect();
    assert!(all.len() > 5);
    for ty in all {
        let name = ty["name"].as_str().unwrap();
        let (code, one) = json(dir, &["layout", "a.o", "-C", name]);
        assert_eq!((code, &one["types"][0]["name"]), (0, &ty["name"]));
        assert_eq!(cells(dir, &[(name, "max_size = 4096")]).1, ["pass"], "{name}");
    }
}

#[test]
fn clang_says_less_than_the_members_need_of_packed_structs() {
    if !need("clang") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let source =
        "struct __attribute__((packed, aligned(4))) p { long a, b; } x; struct w { char c; struct p p; } y;";
    build(dir.path(), "clang", "a.c", source, &[]);
    let (_, json) = json(dir.path(), &["layout", "a.o", "-C", "p,w"]);
    let aligns: Vec<&Value> = json["types"].as_array().unwrap().iter().map(|t| &t["align_bytes"]).collect();
    assert_eq!(aligns, [4, 4]);
}
