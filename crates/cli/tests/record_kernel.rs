//! `tussle record-kernel` with a real kernel and emulator: opt-in, `TUSSLE_TEST_VMLINUX` names a vmlinux with debug
//! information.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a shell script with `$tussle` and `$vmlinux` set; `None` where the kernel or a tool is missing.
#[track_caller]
fn shell(folder: &Path, script: &str) -> Option<Output> {
    let vmlinux = tussle_testkit::given("TUSSLE_TEST_VMLINUX")?;
    if !tussle_testkit::need("user namespaces") {
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c"]).arg(script).current_dir(folder);
    // Unoptimised, the types of a whole kernel take most of the time.
    let tussle = std::env::var_os("TUSSLE_TEST_BINARY").unwrap_or(env!("CARGO_BIN_EXE_tussle").into());
    command.env("tussle", tussle).env("vmlinux", vmlinux);
    command.env("record", RECORD);
    Some(command.output().unwrap())
}

/// `eval "$record"` defines this.
const RECORD: &str = r#"record() { "$tussle" record-kernel --vmlinux "$vmlinux" --timeout 120 "$@"; }"#;

fn said(run: &Output) -> String {
    String::from_utf8_lossy(&run.stderr).into_owned()
}

#[test]
fn a_run_from_a_snapshot_gives_the_evidence_of_a_boot() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
        eval "$record"
        export XDG_CACHE_HOME=$PWD/cache
        small="--smp 2 --workload mmap1 --ops 50 --quantum 1000"
        record $small -o kept.data && record $small -o restored.data && record $small --no-snapshot -o booted.data &&
        record --smp 2 --workload page_fault1 --ops 3 --quantum 1000 -o other.data &&
        record --smp 2 --workload page_fault1 --ops 3 --quantum 1000 --no-snapshot -o other-booted.data &&
        record $small --stream-max 2 -o cut.data && record $small --stream-max 2 --no-snapshot -o cut-booted.data &&
        ls -A cache/tussle | grep -c '^guest-' &&
        for part in state memory stream about.json; do
            echo damaged >$(echo cache/tussle/guest-*)/$part
        done &&
        record $small -o again.data && ls cache/tussle/guest-*"#;
    let Some(run) = shell(folder.path(), script) else { return };
    let said = said(&run);
    assert!(run.status.success(), "{said}");
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert!(read("kept.data") == read("restored.data"), "restored: {said}");
    assert!(read("kept.data") == read("booted.data"), "booted: {said}");
    assert!(read("other.data") == read("other-booted.data"), "another workload: {said}");
    assert!(read("kept.data") == read("again.data"), "after damage: {said}");
    assert_eq!(said.matches("the booted guest is kept for further runs").count(), 2, "{said}");
    assert!(read("cut.data") == read("cut-booted.data"), "at the limit of the stream: {said}");
    assert_eq!(said.matches("records did not fit").count(), 2, "{said}");
    assert_eq!(said.matches("booted guest from ").count(), 3, "{said}");
    assert_eq!(said.matches("; booting instead").count(), 1, "{said}");
    let out = String::from_utf8_lossy(&run.stdout);
    assert_eq!(out, "1\nabout.json\nmemory\nstate\nstream\n");
}

#[test]
fn a_program_comes_with_its_libraries_and_its_words() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a file"), "text").unwrap();
    let script = r#"
        eval "$record"
        export XDG_CACHE_HOME=$PWD/cache
        add() { record --smp 2 --quantum 1000 --initrd-add /bin/cat --initrd-add "$PWD/a file=/a file" "$@"; }
        add --run "/bin/cat '/a file'" || exit 1
        echo fails >&2
        add --run "/bin/cat /missing""#;
    let Some(run) = shell(folder.path(), script) else { return };
    let said = said(&run);
    assert_eq!(run.status.code(), Some(125), "{said}");
    assert!(said.contains("/bin/cat exited with status 1. The guest said last:"), "{said}");
    assert!(said.contains("cat: /missing: No such file or directory"), "its own words: {said}");
    assert!(folder.path().join("tussle.data").exists(), "{said}");
}

#[test]
fn files_lie_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
        eval "$record"
        [ "$(nm "$vmlinux" | grep -cE ' (nvme_queue_rq|ext4_fill_super)$')" = 2 ] || { echo "no disk" >&2; exit 0; }
        export XDG_CACHE_HOME=$PWD/cache
        record --smp 2 --workload exec_storm --ops 4 --quantum 1000 --disk ext4 -o first.data &&
        record --smp 2 --workload exec_storm --ops 4 --quantum 1000 --disk ext4 -o second.data &&
        cmp first.data second.data && "$tussle" report -C ext4_inode_info first.data
        record --smp 1 --workload exec_storm --disk ext4 --append initcall_blacklist=nvme_init"#;
    let Some(run) = shell(folder.path(), script) else { return };
    let said = said(&run);
    if said == "no disk\n" {
        return;
    }
    assert_eq!(run.status.code(), Some(125), "{said}");
    assert!(said.contains("the guest cannot use its disk (mounting /dev/nvme0n1: No such file"), "{said}");
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(out.contains("struct ext4_inode_info.vfs_inode"), "{said}\n{out}");
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
            --stream-max 48 --timeout 120 --no-snapshot"#;
    let Some(run) = shell(folder.path(), script) else { return };
    let said = said(&run);
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
    let script = r#"eval "$record"; record --smp 1 --run /bin/nothing --no-snapshot"#;
    let Some(run) = shell(folder.path(), script) else { return };
    let said = said(&run);
    assert_eq!(run.status.code(), Some(125), "{said}");
    assert!(said.contains("cannot start /bin/nothing: No such file or directory"), "{said}");
}

/// A program that opens and closes files, between marks or without them.
const MARKED: &str = r#"
    #include <fcntl.h>
    #include <unistd.h>
    #include "tussle.h"
    int main(int argc, char **argv) {
        (void)argv;
        if (argc > 1) tussle_region_begin("work");
        for (int i = 0; i < 50; i++) close(open("/dev/null", O_RDONLY));
        if (argc > 1) tussle_region_end("work");
        return 0;
    }"#;

#[test]
fn regions_leave_start_and_end_out() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("marked.c"), MARKED).unwrap();
    let script = r#"
        eval "$record"
        export XDG_CACHE_HOME=$PWD/cache
        cc -O2 -static -I"$("$tussle" cc --print-include)" -o marked marked.c || exit 3
        run() { record --smp 2 --quantum 1000 --initrd-add ./marked=/bin/marked --ops 2 "$@"; }
        run --run "/bin/marked yes" -o all.data || exit 4
        run --run "/bin/marked yes" --regions -o part.data || exit 5
        for name in all part; do "$tussle" report $name.data --format json >$name.json; done
        run --run /bin/marked --regions -o none.data"#;
    let Some(run) = shell(folder.path(), script) else { return };
    let said = said(&run);
    assert_eq!(run.status.code(), Some(125), "{said}");
    assert!(said.contains("no region was begun in the guest"), "{said}");
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(folder.path().join(name)).unwrap()).unwrap()
    };
    let (all, part) = (read("all.json"), read("part.json"));
    let count = |v: &serde_json::Value| v["transfers"].as_u64().unwrap();
    assert!(count(&part) > 0 && count(&part) * 2 < count(&all), "{} of {}", count(&part), count(&all));
    let outside =
        part["losses"].as_array().unwrap().iter().find(|l| l["what"] == "outside of regions").unwrap();
    assert_eq!(outside["note"], "accesses left out; 4 regions were begun");
    let execs = |v: &serde_json::Value| v.to_string().contains("exec_mmap");
    assert!(!execs(&part), "{part}");
}
