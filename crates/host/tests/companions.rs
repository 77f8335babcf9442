//! Companion files are found in the standard places.

use std::path::Path;
use std::process::Command;

use tussle_debuginfo::dwarf::Want;
use tussle_debuginfo::open;
use tussle_host::companions::{FileCompanions, open_bytes};
use tussle_testkit::need;

/// Runs a command in a folder; true when it succeeds.
fn run(dir: &Path, command: &str) -> bool {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    Command::new(program).args(words).current_dir(dir).status().is_ok_and(|s| s.success())
}

/// `struct found` can be read from `file` with companions under `root`.
fn check(file: &Path, root: &Path, expect: bool) {
    let bytes = open_bytes(file).unwrap();
    let mut companions = FileCompanions::with_roots(file, vec![root.to_path_buf()]);
    let read = open((*bytes).as_ref(), &Want::All, &mut companions);
    let found = read.is_ok_and(|(table, _)| table.find("struct found").is_some());
    assert_eq!(found, expect, "{}", file.display());
}

/// A folder with `a.c`, compiled to `a.out` with a build-id.
#[track_caller]
fn compiled(flags: &str) -> Option<tempfile::TempDir> {
    if !need("gcc") || !need("objcopy") {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let text = "struct found { int here; } f; int main(void) { return f.here; }\n";
    std::fs::write(dir.path().join("a.c"), text).unwrap();
    assert!(run(dir.path(), &format!("gcc -g -Wl,--build-id=0xabcdef12 {flags} a.c")));
    Some(dir)
}

#[test]
fn by_build_id() {
    let Some(dir) = compiled("") else { return };
    let folder = dir.path().join("debug/.build-id/ab");
    std::fs::create_dir_all(&folder).unwrap();
    assert!(run(dir.path(), "objcopy --only-keep-debug a.out debug/.build-id/ab/cdef12.debug"));
    assert!(run(dir.path(), "objcopy --strip-debug a.out stripped"));
    check(&dir.path().join("stripped"), &dir.path().join("debug"), true);
    check(&dir.path().join("stripped"), &dir.path().join("elsewhere"), false);
    // a file of another build in that place is not taken
    assert!(run(dir.path(), "gcc -g -Wl,--build-id=0x1234 a.c -o other"));
    std::fs::copy(dir.path().join("other"), folder.join("cdef12.debug")).unwrap();
    check(&dir.path().join("stripped"), &dir.path().join("debug"), false);
}

#[test]
fn by_name_and_checksum() {
    let Some(dir) = compiled("") else { return };
    std::fs::create_dir_all(dir.path().join(".debug")).unwrap();
    assert!(run(dir.path(), "objcopy --only-keep-debug a.out .debug/a.debug"));
    assert!(run(dir.path(), "objcopy --strip-debug --remove-section=.note.gnu.build-id a.out stripped"));
    assert!(run(dir.path(), "objcopy --add-gnu-debuglink=.debug/a.debug stripped"));
    let nowhere = dir.path().join("nowhere");
    check(&dir.path().join("stripped"), &nowhere, true);
    let path = dir.path().join(".debug/a.debug");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.push(0);
    std::fs::write(&path, bytes).unwrap();
    let stripped = dir.path().join("stripped");
    check(&stripped, &nowhere, false);
    // and it is said why
    let mut companions = FileCompanions::with_roots(&stripped, vec![nowhere]);
    let bytes = open_bytes(&stripped).unwrap();
    let why = open((*bytes).as_ref(), &Want::All, &mut companions).unwrap_err().to_string();
    assert!(why.contains("a.debug is of another build: its CRC is "), "{why}");
}

#[test]
fn split_objects_and_dwz() {
    let Some(dir) = compiled("-gsplit-dwarf") else { return };
    let nowhere = dir.path().join("nowhere");
    check(&dir.path().join("a.out"), &nowhere, true);
    let Some(dir) = compiled("") else { return };
    let text = "struct found { int here; } f; struct more { struct found a[3], b[4]; char name[20]; } m; \
        struct third { struct more x; struct found y; } t; int main(void) { return f.here; }\n";
    std::fs::write(dir.path().join("a.c"), text).unwrap();
    if !need("dwz") {
        return;
    }
    assert!(run(dir.path(), "gcc -g a.c -o one") && run(dir.path(), "gcc -g a.c -o two"));
    assert!(run(dir.path(), "dwz -m shared.debug -M shared.debug one two"));
    assert!(dir.path().join("shared.debug").exists());
    check(&dir.path().join("one"), &nowhere, true);
}

#[test]
fn files_without_a_size_are_read() {
    let bytes = open_bytes(Path::new("/proc/self/status")).unwrap();
    assert!(!(*bytes).as_ref().is_empty());
    assert!(open_bytes(Path::new("/")).is_err());
}
