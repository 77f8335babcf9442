//! Two hundred generated types in Rust and in Go: sizes, offsets and alignments as the program itself prints them.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::{NoCompanions, open};
use tussle_layout::bounds::bounds;
use tussle_model::TypeTable;
use tussle_testkit::skip;

const TYPES: usize = 200;

/// xorshift64*, seeded: the same program every time.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

/// A field type: a scalar, an array, an earlier struct, or what the language wraps around one.
fn field(
    random: &mut Random,
    scalars: &[&str],
    wraps: &[&str],
    made: usize,
    array: fn(&str, usize) -> String,
) -> String {
    let inner = match random.below(5) {
        0 if made > 0 => format!("S{}", random.below(made)),
        _ => scalars[random.below(scalars.len())].to_string(),
    };
    match random.below(6) {
        0 => array(&inner, 1 + random.below(5)),
        1 => wraps[random.below(wraps.len())].replace('@', &inner),
        _ => inner,
    }
}

fn rust_program() -> String {
    let mut random = Random(0x7355_1e01);
    let scalars =
        ["u8", "i16", "u32", "i64", "u128", "f32", "f64", "bool", "char", "usize", "&'static str", "()"];
    let wraps = [
        "Option<@>",
        "Box<@>",
        "Vec<@>",
        "(u8, @)",
        "Option<Box<@>>",
        "Result<@, u16>",
        "std::cell::Cell<@>",
        "std::sync::atomic::AtomicU32",
        "Pair<@, u8>",
        "E",
        "std::sync::Mutex<@>",
        "std::mem::MaybeUninit<@>",
    ];
    let mut types = String::from(
        "#![allow(dead_code)]\nstruct Pair<A, B> { one: A, two: B, three: A }\n\
         enum E { A, B(u64), C { x: u8, y: u32 } }\n",
    );
    let mut prints = String::new();
    for i in 0..TYPES {
        let attribute =
            ["", "", "", "#[repr(C)]", "#[repr(C, align(32))]", "#[repr(align(64))]"][random.below(6)];
        let _ = writeln!(types, "{attribute} struct S{i} {{");
        let _ = writeln!(
            prints,
            "println!(\"S{i} - {{}} {{}}\", std::mem::size_of::<S{i}>(), std::mem::align_of::<S{i}>());"
        );
        for f in 0..1 + random.below(9) {
            let ty = field(&mut random, &scalars, &wraps, i, |t, n| format!("[{t}; {n}]"));
            let _ = writeln!(types, "    f{f}: {ty},");
            let _ = writeln!(
                prints,
                "println!(\"S{i} f{f} {{}} {{}}\", std::mem::offset_of!(S{i}, f{f}), std::mem::size_of::<{ty}>());"
            );
        }
        let _ = writeln!(types, "}}\n#[used] static K{i}: Keep<S{i}> = Keep(std::ptr::null());");
    }
    let keep = "struct Keep<T>(*const T); unsafe impl<T> Sync for Keep<T> {}\n";
    format!("{types}{keep}fn main() {{\n{prints}}}\n")
}

fn go_program() -> String {
    let mut random = Random(0x7355_1e02);
    let scalars = [
        "uint8",
        "int16",
        "uint32",
        "int64",
        "float32",
        "float64",
        "bool",
        "string",
        "uintptr",
        "complex128",
    ];
    let wraps = [
        "*@",
        "[]@",
        "map[string]@",
        "chan @",
        "func(@) error",
        "interface{}",
        "struct { a uint8; b @ }",
        "error",
    ];
    let mut types = String::from("package main\nimport (\"fmt\"; \"unsafe\")\n");
    let mut prints = String::new();
    for i in 0..TYPES {
        let _ = writeln!(types, "type S{i} struct {{");
        let _ = writeln!(
            prints,
            "fmt.Println(\"S{i}\", \"-\", unsafe.Sizeof(v{i}), unsafe.Alignof(v{i})); keep = &v{i}"
        );
        for f in 0..1 + random.below(9) {
            let ty = field(&mut random, &scalars, &wraps, i, |t, n| format!("[{n}]{t}"));
            let _ = writeln!(types, "\tf{f} {ty}");
            let _ = writeln!(
                prints,
                "fmt.Println(\"S{i}\", \"f{f}\", unsafe.Offsetof(v{i}.f{f}), unsafe.Sizeof(v{i}.f{f}))"
            );
        }
        let _ = writeln!(types, "}}\nvar v{i} S{i}");
    }
    format!("{types}var keep interface{{}}\nfunc main() {{\n{prints}_ = keep\n}}\n")
}

/// What was equal.
#[derive(Debug, Default)]
struct Counts {
    types: usize,
    fields: usize,
    /// Types whose alignment nothing else is possible than what it is.
    certain: usize,
}

/// Each line of the program's output holds in the table.
fn compare(table: &TypeTable, prefix: &str, printed: &str) -> Counts {
    let mut counts = Counts::default();
    for line in printed.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, field, first, second] = words.as_slice() else { panic!("{line}") };
        let (first, second): (u64, u64) = (first.parse().unwrap(), second.parse().unwrap());
        let id = table.find(&format!("{prefix}{name}")).unwrap_or_else(|| panic!("no {prefix}{name}"));
        let a = table.aggregate(id).unwrap();
        if *field == "-" {
            let align = bounds(table, id, false);
            assert_eq!(a.size, first, "{line}");
            assert!(align.least <= second && second <= align.most, "{line}: {align:?}");
            counts.types += 1;
            counts.certain += usize::from(align.is_certain());
            continue;
        }
        let member = a.members.iter().find(|m| m.name.as_deref() == Some(*field)).unwrap();
        let found = (member.offset(), table.size(member.ty).unwrap_or(0));
        assert_eq!(found, (first, second), "{line}");
        counts.fields += 1;
    }
    counts
}

fn run(dir: &Path, command: &str) -> String {
    let mut words = command.split_whitespace();
    let mut program = Command::new(words.next().unwrap());
    let out = program.args(words).current_dir(dir).output().unwrap();
    assert!(out.status.success(), "{command}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn read(path: &Path) -> TypeTable {
    let bytes = std::fs::read(path).unwrap();
    open(&bytes, &Want::All, &mut NoCompanions).unwrap().0
}

#[test]
fn rust_types_as_the_program_prints_them() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.rs"), rust_program()).unwrap();
    for flags in ["-g", "-g -O", "-g -C split-debuginfo=off -C debuginfo=2 -C codegen-units=4"] {
        run(dir.path(), &format!("rustc {flags} --edition 2021 a.rs -o a.out"));
        let counts = compare(&read(&dir.path().join("a.out")), "a::", &run(dir.path(), "./a.out"));
        println!("rustc {flags}: {counts:?}");
        assert_eq!((counts.types, counts.certain), (TYPES, TYPES));
    }
}

#[test]
fn go_types_as_the_program_prints_them() {
    if !Command::new("go").arg("version").output().is_ok_and(|o| o.status.success()) {
        return skip("go is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.go"), go_program()).unwrap();
    for flags in ["", "-gcflags=-N"] {
        let home = dir.path().display();
        run(
            dir.path(),
            &format!(
                "env GOCACHE={home}/cache GOPATH={home}/path GO111MODULE=off go build {flags} -o a.out a.go"
            ),
        );
        let counts = compare(&read(&dir.path().join("a.out")), "main.", &run(dir.path(), "./a.out"));
        println!("go {flags}: {counts:?}");
        assert_eq!(counts.types, TYPES);
    }
}
