//! Our text against the installed pahole's, byte for byte.
//!
//! Always: structs compiled here. With `TUSSLE_PAHOLE_FILES` (colon-separated BTF or ELF files, for example
//! `/sys/kernel/btf/vmlinux`): every named struct and union of those files; fewer than 99.5% equal is a failure.

use std::collections::{BTreeMap, HashSet};
use std::process::Command;
use tussle_debuginfo::dwarf::Want;
use tussle_layout::holes::Holes;
use tussle_layout::pahole::{Options, sizes_line, text};
use tussle_model::{LineSize, TypeTable};
use tussle_testkit::{given, need};

/// Standard output of pahole; `None` when it is not installed.
fn pahole(args: &[&str]) -> Option<String> {
    let out = Command::new("pahole").args(args).output().ok()?;
    Some(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The first definition of each name in pahole's output.
fn definitions(output: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut current: Option<(String, String)> = None;
    for line in output.split_inclusive('\n') {
        if let Some((name, text)) = &mut current {
            text.push_str(line);
            if line.starts_with('}') {
                let (name, text) = (std::mem::take(name), std::mem::take(text));
                all.entry(name).or_insert(text);
                current = None;
            }
        } else if let Some(name) = line
            .strip_prefix("struct ")
            .or_else(|| line.strip_prefix("union "))
            .and_then(|rest| rest.split_whitespace().next())
        {
            current = Some((name.to_string(), line.to_string()));
        }
    }
    all
}

/// Names in the order of the table, each once.
fn names(table: &TypeTable) -> Vec<(String, tussle_model::TypeId)> {
    let mut seen = HashSet::new();
    table
        .aggregates()
        .filter_map(|(id, a)| Some((a.name.clone()?, id)))
        .filter(|(n, _)| seen.insert(n.clone()))
        .collect()
}

struct Outcome {
    equal: usize,
    differ: Vec<String>,
}

/// Compares all types of `file` under some flags.
fn compare(file: &str, table: &TypeTable, options: Options, flags: &[&str]) -> Outcome {
    let theirs = definitions(&pahole(&[flags, &[file]].concat()).unwrap_or_default());
    let mut outcome = Outcome { equal: 0, differ: Vec::new() };
    for (name, id) in names(table) {
        let Some(want) = theirs.get(&name) else { continue };
        let got = text(table, id, options);
        if got == *want {
            outcome.equal += 1;
        } else {
            outcome.differ.push(format!("--- pahole\n{want}+++ tussle\n{got}"));
        }
    }
    outcome
}

/// Lines of `pahole -s` and `pahole -H N -s` that ours lack, and how many there are. We may have more: types defined in
/// functions, and second definitions of a name.
fn sizes(file: &str, table: &TypeTable, holes: u64) -> (Vec<String>, usize) {
    let flags: &[&str] = if holes == 0 { &["-s"] } else { &["-s", "-H", &holes.to_string()] };
    let theirs = pahole(&[flags, &[file]].concat()).unwrap_or_default();
    let listed = |(id, a): (tussle_model::TypeId, &tussle_model::Aggregate)| {
        a.name.as_ref()?;
        (Holes::of(table, a).count >= holes).then(|| sizes_line(table, id))?
    };
    let ours: HashSet<String> = table.aggregates().filter_map(listed).collect();
    let missing = theirs.split_inclusive('\n').filter(|l| !ours.contains(*l)).map(str::to_string);
    (missing.collect(), theirs.lines().count())
}

/// Flags of pahole and what they are for us.
type Flags = (&'static [&'static str], fn(&mut Options));

const FLAGS: &[Flags] = &[
    (&[], |_| ()),
    (&["-E"], |o| o.expand = true),
    (&["-c", "128"], |o| o.line = LineSize::L128),
    (&["--hex"], |o| o.hex = true),
];

fn read(file: &str) -> (TypeTable, bool) {
    let bytes = std::fs::read(file).expect("the file can be read");
    let (table, _) =
        tussle_debuginfo::open(&bytes, &Want::All, &mut tussle_debuginfo::NoCompanions).expect("types");
    let btf = table.aggregates().all(|(_, a)| a.decl.is_none());
    (table, btf)
}

#[test]
fn compiled_structs_read_as_in_pahole() {
    if !need("gcc") || !need("pahole 1.24") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/layouts.c");
    let object = folder.path().join("layouts.o");
    let built = Command::new("gcc").args(["-g", "-c", source, "-o"]).arg(&object).status();
    assert!(built.is_ok_and(|s| s.success()), "layouts.c does not compile");
    let object = object.to_string_lossy().into_owned();
    let (table, btf) = read(&object);
    for (flags, set) in FLAGS {
        let mut options = Options { btf, ..Options::default() };
        set(&mut options);
        let outcome = compare(&object, &table, options, flags);
        assert!(outcome.differ.is_empty(), "{flags:?}\n{}", outcome.differ.join("\n"));
        assert!(outcome.equal >= 14, "only {} types compared", outcome.equal);
    }
    for holes in [0, 1, 2] {
        let (missing, listed) = sizes(&object, &table, holes);
        assert!(missing.is_empty() && listed > 0, "-s -H {holes}: {missing:?}");
    }
}

#[test]
fn whole_files_read_as_in_pahole() {
    let Some(files) = given("TUSSLE_PAHOLE_FILES") else { return };
    if !need("pahole 1.24") {
        return;
    }
    for file in files.to_string_lossy().split(':') {
        let (table, btf) = read(file);
        for (flags, set) in FLAGS {
            let mut options = Options { btf, ..Options::default() };
            set(&mut options);
            let outcome = compare(file, &table, options, flags);
            let total = outcome.equal + outcome.differ.len();
            println!("{file} {flags:?}: {} of {total} equal", outcome.equal);
            for text in outcome.differ.iter().take(20) {
                println!("{text}");
            }
            assert!(outcome.equal * 1000 >= total * 995, "{file} {flags:?}: {} of {total}", outcome.equal);
        }
        for holes in [0, 1, 3] {
            let (missing, listed) = sizes(file, &table, holes);
            println!("{file} -s -H {holes}: {} of {listed} lines missing", missing.len());
            assert!(missing.len() * 1000 <= listed * 5, "{missing:?}");
        }
    }
}
