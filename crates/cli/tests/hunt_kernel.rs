//! `tussle hunt --kernel`: what it refuses at once, and the whole way with a real tree and emulator (opt-in,
//! `TUSSLE_TEST_LINUX` names an unpacked tree; two builds of a small kernel).

#![allow(clippy::unwrap_used)]

mod schema;

use std::path::Path;
use std::process::{Command, Output};

fn hunt(folder: &Path, args: &[&str]) -> Output {
    let tussle = std::env::var_os("TUSSLE_TEST_BINARY").unwrap_or(env!("CARGO_BIN_EXE_tussle").into());
    Command::new(tussle).arg("hunt").args(args).current_dir(folder).output().unwrap()
}

fn said(run: &Output) -> String {
    String::from_utf8_lossy(&run.stderr).into_owned()
}

#[test]
fn what_cannot_be_hunted_is_refused_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    for (args, expect) in [
        (&["--kernel", "."][..], "what shall the guest do? --workload mmap1"),
        (&["--kernel", ".", "--workload", "mmap1"], "is no source tree of Linux"),
        (&[".", "-C", "mm_struct"], "--kernel"),
        (&[".", "--workload", "mmap1"], "--workload is for a kernel's guest"),
        (&["--kernel", ".", "--workload", "mmap1", "--move", "a:first"], "--class"),
        (&["--kernel", ".", "--workload", "mmap1", "--run", "/bin/true"], "the guest does one of both"),
    ] {
        let run = hunt(folder.path(), args);
        assert_eq!(run.status.code(), Some(2), "{args:?}: {}", said(&run));
        assert!(said(&run).contains(expect), "{args:?}: {}", said(&run));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The founding case: `count` and `owner` of `mmap_lock` on lines of their own, as the compiler and a second recording
/// of the patched kernel say.
#[test]
fn a_kernel_is_patched_and_recorded_again() {
    let Some(tree) = tussle_testkit::given("TUSSLE_TEST_LINUX") else { return };
    let folder = tempfile::tempdir().unwrap();
    let tree = tree.to_str().unwrap();
    let mut args = vec!["--kernel", tree, "--workload", "mmap1", "--ops", "50", "-C", "mm_struct"];
    args.extend(["--move", "mmlist:before:mmap_lock", "--move", "futex_unique_id:before:mmap_lock"]);
    args.extend(["--format", "json"]);
    let run = hunt(folder.path(), &args);
    let view: serde_json::Value =
        serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&run)));
    schema::keeps_to("hunt_kernel", &view);
    let parted = view["attempts"][0]["parted"].to_string();
    assert!(parted.contains("mmap_lock.count and mmap_lock.owner"), "{parted}");
    assert!(folder.path().join("tussle.data.patched").exists());
}
