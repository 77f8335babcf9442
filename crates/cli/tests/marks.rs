//! What programs tell by `tussle.h`: regions are all that is counted, types and operations have their names, and where
//! nothing is recorded the marks do nothing.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};
use tussle_evidence::{Evidence, MarkKind};
use tussle_testkit::need;

/// Two threads, three phases; the one in the middle is a region of each thread, and begins before all are there.
const PHASES: &str = include_str!("marks/phases.c");

/// A pool whose elements only the program knows, an allocation behind an opaque function, and operations.
const TYPES: &str = include_str!("marks/types.c");

/// Four threads begin and end regions as fast as they can, and count.
const STORM: &str = include_str!("marks/storm.c");

/// In C of 1989 and C++ of 1998.
const EVERY_MARK: &str = include_str!("marks/every_mark.c");

struct Lab(tempfile::TempDir);

impl Lab {
    #[track_caller]
    fn new(source: &str) -> Option<Lab> {
        if !need("gcc") {
            return None;
        }
        let lab = Lab(tempfile::tempdir().unwrap());
        for name in ["p.c", "p.cc"] {
            std::fs::write(lab.0.path().join(name), source).unwrap();
        }
        Some(lab)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new(program).args(arguments).current_dir(self.0.path()).output().unwrap()
    }

    /// As [`Lab::run`], which must succeed.
    #[track_caller]
    fn did(&self, program: &str, arguments: &[&str]) -> String {
        let out = self.run(program, arguments);
        assert!(out.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    #[track_caller]
    fn tussle(&self, arguments: &[&str]) -> String {
        self.did(env!("CARGO_BIN_EXE_tussle"), arguments)
    }

    /// Records `./p`, which ends with that status.
    #[track_caller]
    fn recorded(&self, status: i32) -> Evidence {
        let out = self.run(env!("CARGO_BIN_EXE_tussle"), &["record", "./p"]);
        assert_eq!(out.status.code(), Some(status), "{}", String::from_utf8_lossy(&out.stderr));
        read(&self.0.path().join("tussle.data"))
    }
}

fn read(at: &Path) -> Evidence {
    let (evidence, problems) = tussle_evidence::file::read(&std::fs::read(at).unwrap()).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    evidence
}

/// Stores per actor to each of the three phases' words.
fn stores(e: &Evidence) -> [Vec<u64>; 3] {
    let words = e.objects.iter().position(|o| o.name.as_deref() == Some("words")).unwrap();
    std::array::from_fn(|k| {
        let of = |a: &&tussle_evidence::Access| a.object as usize == words && a.offset / 64 == k as u64;
        let mut by_actor = vec![0; e.actors.len()];
        e.accesses.iter().filter(of).for_each(|a| by_actor[a.actor as usize] += a.writes);
        by_actor
    })
}

#[track_caller]
fn only_the_region(e: &Evidence) {
    assert_eq!(stores(e), [vec![0, 0], vec![100_000, 100_000], vec![0, 0]]);
    // The threads' regions count as simultaneous, whichever began first.
    let ends = e.accesses.iter().filter(|a| a.writes > 1000).map(|a| a.vt0 / e.run.window_vt);
    let windows: Vec<u64> = ends.collect();
    assert!(windows.iter().all(|w| *w == windows[0]), "{windows:?}");
    let loss = e.losses.iter().find(|l| l.what == "outside of regions").unwrap();
    assert_eq!(loss.count, 4);
    let marks: Vec<_> = e.marks.iter().flatten().map(|m| (m.kind, m.name.as_str(), m.count)).collect();
    assert_eq!(marks, [(MarkKind::Region, "middle", 4)]);
}

#[test]
fn only_what_happens_in_regions_is_counted() {
    let Some(lab) = Lab::new(PHASES) else { return };
    lab.tussle(&["cc", "-O1", "p.c", "-o", "p", "-lpthread"]);
    only_the_region(&lab.recorded(3));
    let out = lab.run(&lab.0.path().join("p").display().to_string(), &[]);
    assert_eq!((out.status.code(), out.stdout.as_slice()), (Some(3), b"done\n".as_slice()));
}

/// The recorder then comes in a library, and the program's references to it are weak.
#[test]
fn regions_of_programs_that_another_compiler_instrumented_are_known() {
    let Some(lab) = Lab::new(PHASES) else { return };
    let include = format!("-I{}", lab.tussle(&["cc", "--print-include"]).trim());
    for kind in [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]] {
        let out = lab.run(
            "gcc",
            &["-g", "-O1", kind[0], kind[1], "-fsanitize=thread", &include, "p.c", "-o", "p", "-lpthread"],
        );
        if !out.status.success() {
            return tussle_testkit::skip("gcc has no -fsanitize=thread");
        }
        only_the_region(&lab.recorded(3));
    }
}

#[test]
fn types_and_operations_have_the_names_that_they_were_told() {
    let Some(lab) = Lab::new(TYPES) else { return };
    lab.tussle(&["cc", "-O1", "p.c", "-o", "p", "-lpthread"]);
    let e = lab.recorded(0);
    let marks: Vec<_> = e.marks.iter().flatten().map(|m| (m.kind, m.name.as_str(), m.count)).collect();
    assert_eq!(marks, [(MarkKind::Operation, "request", 40_000)]);
    assert!(e.losses.is_empty(), "{:?}", e.losses);
    let report = lab.run(env!("CARGO_BIN_EXE_tussle"), &["report", "tussle.data"]).stdout;
    let report = String::from_utf8(report).unwrap();
    for fields in ["struct conn.hits ⟷ struct conn.misses", "struct whole[].a ⟷ struct whole[].b"] {
        assert!(report.contains(fields), "{fields}:\n{report}");
    }
    // The program is where the part was made, not the header.
    assert!(!report.contains("tussle.h"), "{report}");
    // One operation is four visits from its begin on: the turn of no other loop.
    let first = |o: &tussle_evidence::Operation| o.visits.first().map(|v| v.1);
    let of_thread = |k: u32| e.operations.iter().flatten().find(|o| o.actor == k).unwrap();
    for k in 0..2 {
        assert_eq!((of_thread(k).visits.len(), first(of_thread(k))), (4, Some(u64::from(k) * 8)));
    }
}

#[test]
fn regions_that_begin_and_end_all_the_time_change_no_result() {
    let Some(lab) = Lab::new(STORM) else { return };
    lab.tussle(&["cc", "-O2", "p.c", "-o", "p", "-lpthread"]);
    let plain = lab.did("./p", &[]);
    assert_eq!(plain, format!("{} 640000\n", 4 * 800 * 2 * (199 * 200 / 2)));
    let out = lab.run(env!("CARGO_BIN_EXE_tussle"), &["record", "./p"]);
    assert_eq!((out.status.code(), String::from_utf8(out.stdout).unwrap()), (Some(0), plain));
    let e = read(&lab.0.path().join("tussle.data"));
    // Every region is counted whole; how much of the rest depends on who else had one open.
    let atomics: u64 = e.accesses.iter().map(|a| a.rmws).sum();
    assert!((320_000..=640_000).contains(&atomics), "{atomics}");
    let begun: u64 = e.marks.iter().flatten().map(|m| m.count).sum();
    assert_eq!(begun, 1600);
}

#[test]
fn marks_do_nothing_in_builds_without_a_recorder() {
    let Some(lab) = Lab::new(EVERY_MARK) else { return };
    let include = format!("-I{}", lab.tussle(&["cc", "--print-include"]).trim());
    let check = |compiler: &str, flags: &str, source: &str| {
        let mut all: Vec<&str> = flags.split(' ').collect();
        all.extend(["-Wall", "-Wextra", "-Werror", &include, source, "-o", "p"]);
        lab.did(compiler, &all);
        assert_eq!(lab.did("./p", &[]), "1\n", "{compiler} {flags}");
    };
    let kinds =
        ["-O2", "-O2 -fPIE -pie", "-O2 -fno-pie -no-pie", "-static", "-DTUSSLE_NO_MARKS", "-O2 -flto"];
    for (compiler, standards, source) in [
        ("gcc", ["-std=c89 -pedantic", "-std=c99 -pedantic"], "p.c"),
        ("clang", ["-std=c89 -pedantic", "-std=c99 -pedantic"], "p.c"),
        ("g++", ["-std=c++98 -pedantic", "-std=c++17 -pedantic"], "p.cc"),
    ] {
        if need(compiler) {
            kinds.iter().chain(&standards).for_each(|flags| check(compiler, flags, source));
        }
    }
}
