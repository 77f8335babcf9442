//! One grammar of moves: what `advise` prints and what docs/advise.md lists, `fix`, `report --what-if` and `predict`
//! take, nested members and `FIELD@OFFSET` included; what one of them cannot read, none reads.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use tussle_evidence::sample::Sample;
use tussle_evidence::{Operation, OperationKind, TouchKind, Turn};
use tussle_testkit::need;

const SOURCE: &str = "struct guard {\n\tlong owner;\n\tlong waiters;\n};\nstruct stats {\n\tlong hits;\n\
    \tstruct guard lock;\n\tlong misses;\n\tlong size;\n} s;\nint main(void) { return (int)s.hits; }\n";

/// Two threads that write `hits` and `misses` of the struct above, one that reads `lock.owner`; with an ordered log.
fn folder() -> tempfile::TempDir {
    let mut s = Sample::new(1000);
    let main = s.thread("server", None);
    let start = s.code("worker", "server.c", 11, &[]);
    let (one, two) = (s.worker(main, start), s.worker(main, start));
    let long = s.long();
    let guard = s.structure("guard", 16, &[("owner", long, 0), ("waiters", long, 8)]);
    let members = [("hits", long, 0), ("lock", guard, 8), ("misses", long, 24), ("size", long, 32)];
    let stats = s.structure("stats", 40, &members);
    let o = s.global("s", 0x40_4040, 40, Some(stats), 32);
    s.access(o, 0, 8, one, (0, 100_000), [0, 50_000, 0]);
    s.access(o, 24, 8, two, (0, 100_000), [0, 50_000, 0]);
    s.access(o, 8, 8, one, (0, 100_000), [9_000, 0, 0]);
    let write = |offset| (o, offset, 8, TouchKind::Write);
    let turn = |actor, visits: &[_]| Turn { actor, visits: visits.to_vec(), schedule: None };
    let pair = [turn(one, &[write(0), (o, 8, 8, TouchKind::Read)]), turn(two, &[write(24)])];
    s.tables().order = Some(pair.iter().cycle().take(400).cloned().collect());
    let window = |actor, offset, vt0| Operation {
        actor,
        vt0,
        vt1: vt0 + 10,
        visits: vec![(o, offset, 8, TouchKind::Write, 0), (o, offset, 8, TouchKind::Write, 5)],
        repeats: 100,
        kind: Some(OperationKind::Window),
        ..Operation::default()
    };
    let windows = (0..20).flat_map(|n| [window(one, 0, 1000 * n), window(two, 24, 1000 * n)]);
    s.tables().operations = Some(windows.collect());
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("server.c"), SOURCE).unwrap();
    let mut bytes = Vec::new();
    tussle_evidence::file::write_jsonl(&s.evidence(), &mut bytes).unwrap();
    std::fs::write(dir.path().join("tussle.data"), bytes).unwrap();
    dir
}

fn tussle(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tussle"));
    command.args(arguments).current_dir(dir).env("XDG_CACHE_HOME", dir.join("cache"));
    command.output().unwrap()
}

/// How each of the three verbs ends, with what it says.
fn ends(dir: &Path, edit: &str) -> [(&'static str, Option<i32>, String); 3] {
    let what_if = format!("stats: {edit}");
    let run = |name, arguments: &[&str]| {
        let out = tussle(dir, arguments);
        (name, out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    [
        run("report", &["report", "--what-if", &what_if]),
        run(
            "predict",
            &[
                "predict",
                "tussle.data",
                "--machine",
                "2s-icelake-sp-96",
                "--draws",
                "1",
                "--cpus",
                "2",
                "-C",
                "stats",
                "--move",
                edit,
            ],
        ),
        run("fix", &["fix", "-C", "stats", "--move", edit]),
    ]
}

#[test]
fn every_verb_takes_every_move() {
    if !need("gcc") {
        return;
    }
    let dir = folder();
    let moves = [
        "misses:after:size",
        "misses:before:hits",
        "misses:first",
        "swap:hits,size",
        "align:misses=64",
        "gap:misses=64",
        "element=64",
        "pad=64",
        "misses@32",
        "lock.owner@0",
    ];
    for edit in moves {
        for (verb, code, said) in ends(dir.path(), edit) {
            assert_eq!(code, Some(0), "{verb} {edit}: {said}");
        }
    }
}

#[test]
fn no_verb_takes_what_is_no_move() {
    let dir = folder();
    let none = [
        "misses",
        "misses:behind:size",
        "align:misses=63",
        "gap:misses=0",
        "swap:misses",
        "misses@-8",
        "pad=0",
    ];
    for edit in none {
        for (verb, code, said) in ends(dir.path(), edit) {
            assert_ne!(code, Some(0), "{verb} {edit}");
            assert!(said.contains("FIELD:after:FIELD"), "{verb} {edit}: {said}");
        }
    }
    for (verb, code, said) in ends(dir.path(), "lock.holder@0") {
        assert!(code != Some(0) && said.contains("lock.holder"), "{verb}: {said}");
    }
}

#[test]
fn what_advise_prints_the_others_take() {
    if !need("gcc") {
        return;
    }
    let dir = folder();
    let out = tussle(dir.path(), &["advise", "-C", "stats", "--format", "json"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut printed = Vec::new();
    words(&json, &mut printed);
    printed.sort();
    printed.dedup();
    assert!(!printed.is_empty(), "{text}");
    for edit in printed.iter().filter(|e| !e.starts_with("alloc=")).take(4) {
        for (verb, code, said) in ends(dir.path(), edit) {
            assert_eq!(code, Some(0), "{verb} {edit}: {said}");
        }
    }
}

/// Every string of the answer that is a single move.
fn words(json: &serde_json::Value, out: &mut Vec<String>) {
    match json {
        serde_json::Value::String(s) if s.parse::<tussle_advise::Edit>().is_ok() => out.push(s.clone()),
        serde_json::Value::Array(all) => all.iter().for_each(|v| words(v, out)),
        serde_json::Value::Object(map) => map.values().for_each(|v| words(v, out)),
        _ => {}
    }
}

#[test]
fn a_source_says_which_struct_is_meant() {
    if !need("gcc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let other = "struct item {\n\tint id;\n\tlong used;\n};\nlong g(struct item *i) { return i->used; }\n";
    let one = "struct item {\n\tchar tag;\n\tlong left;\n\tchar kind;\n};\nint f(struct item *i) { return i->kind; }\n";
    std::fs::write(dir.path().join("one.c"), one).unwrap();
    std::fs::write(dir.path().join("other.c"), other).unwrap();
    let fix = |more: &[&str]| {
        let words = ["fix", "-q", "-C", "item", "--move", "kind:after:tag"];
        let out = tussle(dir.path(), &[&words[..], more].concat());
        let (said, why) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        (out.status.code(), format!("{said}{why}"))
    };
    let (status, text) = fix(&[]);
    assert!(
        status == Some(2) && text.contains("one.c, other.c; they differ: name one of them with --in"),
        "{text}"
    );
    let (status, text) = fix(&["--in", "one.c"]);
    assert!(status == Some(0) && text.contains("24 -> 16 bytes"), "{text}");
    let (status, text) = fix(&["--in", "none.c"]);
    assert!(status == Some(2) && text.contains("none.c"), "{text}");
    std::fs::write(dir.path().join("none.c"), "struct item;\n").unwrap();
    let (status, text) = fix(&["--in", "none.c"]);
    assert!(status == Some(2) && text.contains("none.c does not define item"), "{text}");
}
