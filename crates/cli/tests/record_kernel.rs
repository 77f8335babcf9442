//! `tussle record-kernel` with a real kernel and emulator: opt-in, `TUSSLE_TEST_VMLINUX` names a vmlinux with debug
//! information.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a shell script with `$tussle` and `$vmlinux` set; `None` where the kernel or a tool is missing.
fn shell(folder: &Path, script: &str) -> Option<Output> {
    let Some(vmlinux) = std::env::var_os("TUSSLE_TEST_VMLINUX") else {
        println!("skipped: TUSSLE_TEST_VMLINUX is not set");
        return None;
    };
    let apart = ["-rm", "sh", "-c"];
    if !Command::new("unshare").args(apart).arg("true").status().is_ok_and(|s| s.success()) {
        println!("skipped: unshare");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(apart).arg(script).current_dir(folder);
    command.env("tussle", env!("CARGO_BIN_EXE_tussle")).env("vmlinux", vmlinux);
    Some(command.output().unwrap())
}

#[test]
fn a_disk_that_fills_during_the_run_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("small")).unwrap();
    // Room at the start; none as soon as the emulator, a child of tussle, boots.
    let script = r#"
        mount -t tmpfs -o size=64m tmpfs small || exit 1
        emulator() {
            for p in $(grep -lsa '[i]count' /proc/[0-9]*/cmdline); do
                grep -q "PPid:.$$\$" ${p%cmdline}status && return
            done
            return 1
        }
        { while kill -0 $$ && ! emulator; do sleep 0.2; done; cat /dev/zero >small/filler; } 2>/dev/null >&2 &
        TMPDIR=$PWD/small exec "$tussle" record-kernel --vmlinux "$vmlinux" --smp 2 --workload mmap1 \
            --stream-max 48 --timeout 120"#;
    let Some(run) = shell(folder.path(), script) else { return };
    let said = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(125), "{said}");
    assert!(
        said.contains("could not be written to") && said.contains("/small (No space left on device)"),
        "{said}"
    );
    assert!(!folder.path().join("tussle.data").exists());
}

#[test]
fn a_program_that_cannot_start_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "exec \"$tussle\" record-kernel --vmlinux \"$vmlinux\" --smp 1 --run /bin/nothing --timeout 120";
    let Some(run) = shell(folder.path(), script) else { return };
    let said = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(125), "{said}");
    assert!(said.contains("cannot start /bin/nothing: No such file or directory"), "{said}");
}
