//! Real C++ programs against gdb: sizes, members, bases, and virtual bases through the program's own vtables.
//!
//! `scripts/cxx-programs.sh DIR` builds twelve; `TUSSLE_CXX_PROGRAMS=DIR` asks for the comparison. Without it two small
//! programs of our own are compared, with and without optimisation.

mod common;

use common::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use tussle_model::{Aggregate, Member, MemberRole, TypeTable, virtual_bases};
use tussle_testkit::{given, need};

/// A member as both sides tell it: kind, place (`None`: unknown), size, name.
type Row = (char, Option<u64>, u64, String);

/// What gdb says, by type, and its lines of doubt about itself.
#[derive(Default)]
struct Told {
    types: BTreeMap<String, (u64, Vec<Row>)>,
    doubts: Vec<String>,
}

#[derive(Default, Debug)]
struct Score {
    equal: usize,
    differ: Vec<String>,
    missing: usize,
    virtual_known: usize,
    virtual_unknown: usize,
}

fn ask_gdb(program: &Path, names: &[&str]) -> Told {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/gdb-layouts.py");
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("names");
    std::fs::write(&list, names.join("\n")).unwrap();
    let out = Command::new("gdb")
        .args(["-nx", "-batch", "a.out", "-x", script])
        .env("TYPE_NAMES", &list)
        .env("LC_ALL", "C")
        .current_dir(program.parent().unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("T\t"), "gdb: {}", String::from_utf8_lossy(&out.stderr));
    parse(&text)
}

fn parse(text: &str) -> Told {
    let (mut told, mut at) = (Told::default(), String::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words.as_slice() {
            ["T", name, size] => {
                at = (*name).to_string();
                told.types.insert(at.clone(), (size.parse().unwrap(), Vec::new()));
            }
            ["X", doubt] => told.doubts.push((*doubt).to_string()),
            [kind @ ("M" | "B" | "V"), place, size, name] => {
                let name = if *kind == "M" { *name } else { "" };
                let row = (kind.chars().next().unwrap(), place.parse().ok(), size.parse().unwrap(), name);
                let rows = &mut told.types.get_mut(&at).unwrap().1;
                rows.push((row.0, row.1, row.2, row.3.to_string()));
            }
            _ => {}
        }
    }
    told
}

fn ours(table: &TypeTable, a: &Aggregate) -> Vec<Row> {
    let bytes = |m: &Member| table.size(m.ty).unwrap_or(0);
    let row = |m: &Member| {
        let name = m.name.clone().unwrap_or_default();
        // gdb spells template arguments in its own way
        let base = String::new();
        Some(match m.role {
            MemberRole::Static => return None,
            MemberRole::Base => ('B', Some(m.offset_bits), bytes(m), base),
            MemberRole::VirtualBase => {
                let places = virtual_bases(table, a);
                let found = places.iter().find(|p| p.ty == table.strip(m.ty)).and_then(|p| p.offset);
                ('V', found, bytes(m), base)
            }
            _ => ('M', Some(m.offset_bits), m.bit_size.map_or(bytes(m) * 8, u64::from), name),
        })
    };
    a.members.iter().filter_map(row).collect()
}

/// Virtual bases count as equal where either side does not know.
fn same(ours: &Row, theirs: &Row, score: &mut Score) -> bool {
    if ours.0 != 'V' || theirs.0 != 'V' {
        return ours == theirs;
    }
    match ours.1 {
        Some(_) => score.virtual_known += 1,
        None => score.virtual_unknown += 1,
    }
    (ours.2, &ours.3) == (theirs.2, &theirs.3)
        && (ours.1.is_none() || theirs.1.is_none() || ours.1 == theirs.1)
}

fn compare(program: &Path) -> Score {
    let table = read(program);
    let mut by_name: BTreeMap<&str, Vec<&Aggregate>> = BTreeMap::new();
    for (_, a) in table.aggregates() {
        if let Some(name) = a.name.as_deref() {
            by_name.entry(name).or_default().push(a);
        }
    }
    // where units disagree, gdb shows whichever it meets first
    by_name.retain(|_, all| all.len() == 1);
    let told = ask_gdb(program, &by_name.keys().copied().collect::<Vec<_>>());
    assert!(told.doubts.is_empty(), "{:?}", told.doubts);
    let mut score = Score::default();
    for (name, all) in by_name {
        let Some((size, theirs)) = told.types.get(name) else {
            score.missing += 1;
            continue;
        };
        let ours = ours(&table, all[0]);
        let rows = ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| same(a, b, &mut score));
        match rows && *size == all[0].size {
            true => score.equal += 1,
            false => score.differ.push(format!("{name}: {} {ours:?}\n  gdb: {size} {theirs:?}", all[0].size)),
        }
    }
    score
}

fn assert_good(what: &str, score: &Score) {
    println!(
        "{what}: {} types equal, {} differ, {} unknown to gdb; virtual bases: {} placed, {} unknown",
        score.equal,
        score.differ.len(),
        score.missing,
        score.virtual_known,
        score.virtual_unknown
    );
    assert!(score.differ.is_empty(), "{what}\n{}", score.differ.join("\n"));
    assert!(score.equal > 0 && score.missing <= score.equal, "{what}: {score:?}");
}

const SOURCE: &str = r#"
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>
namespace app {
struct Named { virtual ~Named() {} std::string name; };
struct Loose { char z; virtual void f() {} };
struct Left : virtual Named { long l; };
struct Right : virtual Named, virtual Loose { int r : 5, s : 11; };
template <class T> struct Both : Left, Right { std::map<std::string, std::vector<T>> all; char last; };
struct Log : std::ostringstream { int level; };
}
app::Both<int> one; app::Both<char> two; app::Log log1; app::Left l; app::Right r;
int main() { std::ifstream in("x"); return (int)one.l + two.r + log1.level + !in + (int)l.l + r.r; }
"#;

#[test]
fn own_programs_read_as_in_gdb() {
    if !need("gdb") {
        return;
    }
    for cc in ["g++", "clang++"].into_iter().filter(|cc| need(cc)) {
        for flags in ["-O0", "-O2 -fdebug-types-section", "-O1 -gdwarf-4 -gsplit-dwarf"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("a.cc"), SOURCE).unwrap();
            run(dir.path(), &format!("{cc} -g -no-pie {flags} a.cc"));
            let score = compare(&dir.path().join("a.out"));
            assert!(score.equal >= 20, "{score:?}");
            assert_good(&format!("{cc} {flags}"), &score);
        }
    }
}

#[test]
fn twelve_programs_read_as_in_gdb() {
    let Some(folder) = given("TUSSLE_CXX_PROGRAMS") else { return };
    if !need("gdb") {
        return;
    }
    let mut programs: Vec<_> = std::fs::read_dir(Path::new(&folder).join("out"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.join("combination").is_file())
        .collect();
    programs.sort();
    let scores: Vec<_> = programs
        .iter()
        .map(|p| (std::fs::read_to_string(p.join("combination")).unwrap(), compare(&p.join("a.out"))))
        .collect();
    scores.iter().for_each(|(what, score)| assert_good(what.trim(), score));
    assert!(scores.len() >= 12, "only {} programs", scores.len());
}

/// `static void i()` has no mangled name in the debug information, and `i` is no type.
#[test]
fn short_names_of_static_functions_are_no_types() {
    let dir = tempfile::tempdir().unwrap();
    let source = "volatile int n;\nstatic void __attribute__((noinline)) i() { n++; }\nint main() { i(); }\n";
    std::fs::write(dir.path().join("a.cc"), source).unwrap();
    run(dir.path(), "g++ -O2 -g -c a.cc");
    let bytes = std::fs::read(dir.path().join("a.o")).unwrap();
    let (symbols, _) = tussle_debuginfo::symbols::Symbols::read(&bytes, None).unwrap();
    let at = symbols.functions().find(|s| s.name == "i()").unwrap().svma;
    assert_eq!(symbols.frames(at)[0].function, "i");
}
