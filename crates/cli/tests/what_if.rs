//! What a kernel recording holds beyond its report: operations, lives, types of kmalloc objects, the ordered log.
//! With a real kernel and emulator, opt-in: `TUSSLE_TEST_VMLINUX` names a vmlinux with debug information.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tussle_evidence::{Evidence, file};

fn tussle(folder: &Path, arguments: &[&str]) -> Output {
    let tussle = std::env::var_os("TUSSLE_TEST_BINARY").unwrap_or(env!("CARGO_BIN_EXE_tussle").into());
    Command::new(tussle).current_dir(folder).args(arguments).output().unwrap()
}

/// A recording of two CPUs, or `None` where there is no kernel.
#[track_caller]
fn record(folder: &Path, name: &str) -> Option<Evidence> {
    let vmlinux = tussle_testkit::given("TUSSLE_TEST_VMLINUX")?.into_string().unwrap();
    let run = tussle(
        folder,
        &[
            "record-kernel",
            "--vmlinux",
            &vmlinux,
            "--smp",
            "2",
            "--workload",
            "mmap1",
            "--ops",
            "40",
            "-o",
            name,
        ],
    );
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let (evidence, problems) = file::read(&fs::read(folder.join(name)).unwrap()).unwrap();
    assert_eq!(problems, []);
    Some(evidence)
}

#[test]
fn a_recording_can_be_replayed_and_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let Some(e) = record(at, "a.data") else { return };
    let operations = e.operations.as_ref().unwrap();
    let lock = |o: &tussle_evidence::Operation| {
        let object = &e.objects[o.lock_object.unwrap() as usize];
        tussle_contention::fields::field_path(&e, o.lock_object.unwrap(), o.lock_offset.unwrap(), 8).path
            + if object.ty.is_some() { "" } else { "?" }
    };
    let mmap: Vec<_> =
        operations.iter().filter(|o| lock(o).starts_with("struct mm_struct.mmap_lock")).collect();
    // mmap and munmap, each 40 times on two CPUs; the first few before the lock counted as hot.
    let repeats: u64 = mmap.iter().map(|o| o.repeats).sum();
    assert!((130..=180).contains(&repeats), "{repeats}");
    assert!(mmap.iter().all(|o| o.visits.len() > 20 && o.shared == Some(false)), "{mmap:?}");
    assert!(mmap.iter().filter(|o| o.think_instructions.is_some()).count() * 10 > mmap.len() * 9);
    let twice = |base| e.objects.iter().filter(|o| o.base == base).nth(1).is_some();
    assert!(e.objects.iter().any(|o| o.vt0 > 0 && twice(o.base)), "a slab slot that lived twice");

    let view = tussle(at, &["report", "a.data", "--what-if", "mm_struct: map_count@0", "--format", "json"]);
    let view: Value = serde_json::from_slice(&view.stdout).unwrap();
    assert_eq!(view["places_that_differ"], 0, "{view}");
    let lengths: Vec<_> = e.turn_lengths().map(tussle_evidence::Evidence::turn_instructions).collect();
    assert_eq!(lengths, [Some(1000), Some(100), Some(10_000)]);
    let turns: Vec<_> =
        view["turns"].as_array().unwrap().iter().map(|t| t["turn_instructions"].as_u64().unwrap()).collect();
    assert_eq!(turns, [100, 1000, 10_000], "{view}");
    assert!(view["reached"]["before"].as_u64() > Some(0) && view["log"].as_u64() > Some(1000), "{view}");
    let same = tussle(at, &["report", "a.data", "--layout", &std::env::var("TUSSLE_TEST_VMLINUX").unwrap()]);
    let same = String::from_utf8_lossy(&same.stdout).into_owned();
    assert!(same.contains(": 0 of "), "the kernel's own layouts: {same}");
    let wrong = tussle(at, &["report", "a.data", "--what-if", "mm_struct: nothing@0"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("has no field `nothing`"));

    let predicted = tussle(at, &["predict", "a.data", "--draws", "3"]);
    let text = String::from_utf8_lossy(&predicted.stdout);
    assert!(predicted.status.success() && text.contains("rw_semaphore"), "{text}");
}

#[test]
fn a_second_run_is_the_same_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    if record(folder.path(), "a.data").is_none() {
        return;
    }
    record(folder.path(), "b.data").unwrap();
    let read = |name| fs::read(folder.path().join(name)).unwrap();
    assert!(read("a.data") == read("b.data"), "two runs differ");
}
