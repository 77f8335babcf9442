//! The head of v5.10's `mm_struct` over its eight configurations, compiled from a table of facts, under the rule that
//! a regression and its fix argued about: `count` and `owner` of `mmap_lock` in two lines.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use tussle_debuginfo::{NoCompanions, dwarf::Want};
use tussle_layout::diff::{Change, Options, Side, diff};
use tussle_layout::phases::Where;
use tussle_layout::place::{self, positions};
use tussle_layout::rules::{Build, Status, check, parse};
use tussle_layout::slots::parse_field;
use tussle_model::{LineSize, TypeTable};
use tussle_testkit::need;

/// Member, size, alignment, option that it depends on.
const FACTS: &str = include_str!("data/mm_struct-v5.10.csv");

/// What decides the offset of `mmap_lock`.
const OPTIONS: [&str; 3] = ["CONFIG_MMU", "CONFIG_MEMBARRIER", "CONFIG_HAVE_ARCH_COMPAT_MMAP_BASES"];

const RULE: &str = r#"
[[rule]]
type = "mm_struct"
separate = ["mmap_lock.count", "mmap_lock.owner"]
phases = [0]
"#;

/// Where the new 4-byte field stands.
#[derive(Clone, Copy, PartialEq)]
enum Seq {
    Absent,
    After(&'static str),
    Before(&'static str),
}

/// C source of the structure.
fn source(seq: Seq) -> String {
    let mut c = String::from("typedef struct { unsigned sequence; } seqcount_t;\nstruct mm_struct {\n");
    let new = "\tseqcount_t write_protect_seq;\n";
    for line in FACTS.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()) {
        let (head, option) = line.rsplit_once(',').expect("four columns");
        let (head, align) = head.rsplit_once(',').expect("four columns");
        let (name, size) = head.rsplit_once(',').expect("four columns");
        let plain = name.split('{').next().expect("a name");
        if seq == Seq::Before(plain) {
            c.push_str(new);
        }
        if !option.is_empty() {
            writeln!(c, "#ifdef {option}").expect("a string");
        }
        match name.split_once('{') {
            Some((_, parts)) => {
                c.push_str("\tstruct {\n");
                for part in parts.trim_end_matches('}').split_whitespace() {
                    let mut words = part.split(':');
                    let (field, size) = (words.next().expect("a name"), words.nth(1).expect("a size"));
                    writeln!(c, "\t\t{};", member(field, size, if size == "4" { "4" } else { "8" }))
                        .expect("a string");
                }
                writeln!(c, "\t}} {plain};").expect("a string");
            }
            None => writeln!(c, "\t{};", member(plain, size, align)).expect("a string"),
        }
        if !option.is_empty() {
            c.push_str("#endif\n");
        }
        if seq == Seq::After(plain) {
            c.push_str(new);
        }
    }
    c.push_str("};\nstruct mm_struct mm;\n");
    c
}

fn member(name: &str, size: &str, align: &str) -> String {
    let (size, align): (u64, u64) = (size.parse().expect("a size"), align.parse().expect("an alignment"));
    let ty = if align == 4 { "int" } else { "long" };
    match size / align {
        1 => format!("{ty} {name}"),
        n => format!("{ty} {name}[{n}]"),
    }
}

/// Compiles one variant under one configuration.
fn build(folder: &Path, seq: Seq, options: &[&str]) -> TypeTable {
    let (c, o) = (folder.join("mm.c"), folder.join("mm.o"));
    std::fs::write(&c, source(seq)).expect("the folder can be written");
    let defines = options.iter().map(|o| format!("-D{o}"));
    let built = Command::new("gcc").args(["-g", "-c"]).args(defines).arg(&c).arg("-o").arg(&o).status();
    assert!(built.is_ok_and(|s| s.success()), "the generated source does not compile");
    let bytes = std::fs::read(&o).expect("the object can be read");
    tussle_debuginfo::open(&bytes, &Want::All, &mut NoCompanions).expect("types").0
}

/// All subsets of the options.
fn configs() -> Vec<Vec<&'static str>> {
    (0..8u32).map(|bits| (0..3).filter(|i| bits >> i & 1 == 1).map(|i| OPTIONS[i]).collect()).collect()
}

fn split_is_good(table: &TypeTable) -> bool {
    let rules = parse(RULE).expect("a rule").rules;
    let build = Build { name: "mm.o".into(), table, btf: false, arch: None, config: None, caches: None };
    let outcome = check(&rules, &[build]);
    outcome[0].status == Status::Pass
}

#[test]
fn two_of_eight_configurations_had_the_good_split_and_the_insertion_flips_the_full_one() {
    if !need("gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let good = |seq| -> Vec<bool> {
        configs().iter().map(|c| split_is_good(&build(folder.path(), seq, c))).collect()
    };
    let before = good(Seq::Absent);
    let regressed = good(Seq::After("has_pinned"));
    let fixed = good(Seq::Before("arg_lock"));
    assert_eq!(before.iter().filter(|g| **g).count(), 2, "{before:?}");
    // The last configuration has all three options set.
    let lost: Vec<usize> = (0..8).filter(|&i| before[i] && !regressed[i]).collect();
    assert_eq!(lost, [7], "before {before:?}, after {regressed:?}");
    assert_eq!(fixed, before, "the fix restores what was");
}

#[test]
fn the_difference_names_the_insertion_and_the_hole_that_takes_it() {
    if !need("gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let old = build(folder.path(), Seq::Absent, &OPTIONS);
    let new = build(folder.path(), Seq::After("has_pinned"), &OPTIONS);
    let options = Options {
        line: LineSize::L64,
        at: Where::Phase(0),
        hot: vec!["mmap_lock.count".into(), "mmap_lock.owner".into()],
    };
    let side = |table| Side { table, btf: false };
    let (a, b) = (old.find("mm_struct").expect("a type"), new.find("mm_struct").expect("a type"));
    let d = diff(side(&old), a, side(&new), b, &options);
    let pairs: Vec<(&str, &str)> = d.now_share.iter().map(|p| (p.a.as_str(), p.b.as_str())).collect();
    assert_eq!(pairs, [("mmap_lock.count", "mmap_lock.owner")]);
    assert!(d.moved.iter().any(|m| m.path == "mmap_lock" && (m.old, m.new) == (120, 128)));
    let cause = d.cause.expect("a cause");
    assert_eq!(
        (cause.member.as_str(), cause.change, cause.after.as_str()),
        ("write_protect_seq", Change::Inserted, "has_pinned")
    );
    assert_eq!(cause.shift, 8);
    assert!(cause.free_slots.iter().any(|s| s.after == "arg_lock"), "{:?}", cause.free_slots);
}

#[test]
fn the_hole_after_arg_lock_is_free_in_every_configuration() {
    if !need("gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let tables: Vec<TypeTable> = configs().iter().map(|c| build(folder.path(), Seq::Absent, c)).collect();
    let builds: Vec<place::Build<'_>> = tables
        .iter()
        .enumerate()
        .map(|(i, table)| place::Build {
            name: format!("config {i}"),
            table,
            id: table.find("mm_struct").expect("a type"),
            btf: false,
        })
        .collect();
    let field = parse_field(&tables[0], "unsigned int write_protect_seq", false).expect("a field");
    let all = positions(&builds, &field);
    let find = |after: &str| all.iter().find(|p| p.after == after);
    assert!(find("arg_lock").is_some_and(|p| p.is_free()));
    let upstream = find("def_flags").expect("the position that upstream chose");
    assert!(!upstream.is_free());
    for slot in upstream.slots.iter().flatten() {
        assert_eq!(slot.growth, 0);
        let (name, old, new) = &slot.moves[0];
        assert_eq!((slot.moves.len(), name.as_str(), new - old), (1, "arg_lock", 4));
    }
    assert!(find("has_pinned").is_none_or(|p| !p.is_free()), "that insertion moved everything");
}
