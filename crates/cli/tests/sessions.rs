//! Recordings are not lost: the output is checked before the program starts, and what tussle could not finish is found
//! and finished later.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\nvolatile long pair[2];\n\
    static volatile char wide[1 << 20];\nstatic int much;\n\
    static void *run(void *p) { for (int i = 0; i < 20000; i++) pair[(long)p]++;\n\
    for (long i = (long)p; much && i < sizeof wide; i += 4) wide[i]++; return 0; }\n\
    int main(int argc, char **argv) { pthread_t t; much = argc > 2; pthread_create(&t, 0, run, (void *)1); run(0);\n\
    pthread_join(t, 0); fclose(fopen(\"ran\", \"w\")); while (argc > 1 && access(argv[1], 0)) usleep(1000);\n\
    return 7; }\n";

fn tussle(folder: &Path) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_tussle"));
    c.current_dir(folder).stdin(Stdio::null());
    c
}

/// A folder with the program `p`, instrumented; `None` without a compiler.
fn lab() -> Option<tempfile::TempDir> {
    if !tussle_testkit::need("gcc") {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("p.c"), PROGRAM).unwrap();
    let built = tussle(dir.path()).args(["cc", "-O1", "p.c", "-o", "p", "-lpthread"]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(dir)
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_output_that_cannot_be_written_is_found_before_the_program_runs() {
    let Some(dir) = lab() else { return };
    for output in ["nowhere/e.data", "."] {
        let out = tussle(dir.path()).args(["record", "-o", output, "--", "./p"]).output().unwrap();
        assert_eq!(out.status.code(), Some(125), "{output}: {}", String::from_utf8_lossy(&out.stderr));
        assert!(!dir.path().join("ran").exists(), "{output}");
    }
}

/// A program that gets its owner's rights writes no file where its caller says, and is refused with the reason.
#[test]
fn a_program_with_more_rights_than_its_caller_records_nothing() {
    use std::os::unix::fs::PermissionsExt;
    const NOBODY: u32 = 65534;
    let Some(dir) = lab() else { return };
    let program = dir.path().join("p");
    if std::os::unix::fs::chown(&program, Some(NOBODY), None).is_err() {
        return tussle_testkit::skip("only root gives files away");
    }
    let folder = |name: &str, mode| {
        let at = dir.path().join(name);
        std::fs::create_dir(&at).unwrap();
        std::fs::set_permissions(&at, PermissionsExt::from_mode(mode)).unwrap();
        at
    };
    let (session, open) = (folder("session", 0o777), folder("open", 0o777));
    let files = || std::fs::read_dir(&session).unwrap().count();
    let run = |program: &Path| {
        let _ = std::fs::remove_file(open.join("ran"));
        let mut c = Command::new(program);
        c.current_dir(&open).env(tussle_rt::SESSION_VARIABLE, &session).status().unwrap().code()
    };
    assert_eq!((run(&program), files()), (Some(7), 1));
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    assert_eq!((run(&program), files()), (Some(7), 1));
    let out = tussle(dir.path()).args(["record", "--", "./p"]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(said.contains("set-user-id"), "{said}");
    assert!(!dir.path().join("ran").exists());
}

/// The session folder of a recording of `program` that nobody works on.
fn left(program: &Path) -> Option<PathBuf> {
    let program = program.display().to_string();
    let all = tussle_host::record::leftovers();
    all.into_iter().find(|l| l.command.first() == Some(&program)).map(|l| l.path)
}

#[test]
fn a_recording_whose_tussle_was_killed_is_found_and_finished() {
    let Some(dir) = lab() else { return };
    let (at, program) = (dir.path(), dir.path().join("p"));
    let mut recording =
        tussle(at).args(["record", "--"]).arg(&program).arg("go").stderr(Stdio::null()).spawn().unwrap();
    wait_for("the program works", || at.join("ran").exists());
    assert_eq!(left(&program), None, "tussle is at work");
    recording.kill().unwrap();
    recording.wait().unwrap();
    // Its helper in the process group notices, and lets go of the folder.
    wait_for("nobody works on the recording", || left(&program).is_some());
    let folder = left(&program).unwrap();
    // Another recording says so.
    let other = tussle(at).args(["record", "-o", "other.data", "--", "./p"]).output().unwrap();
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(said.contains(&format!("tussle record --convert {}", folder.display())), "{said}");
    // While the program lives, its raw files stay.
    let convert = |output: &str| {
        let out = tussle(at).args(["record", "-o", output, "--convert"]).arg(&folder).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        let (e, _) = tussle_host::evidence_file::read(&at.join(output)).unwrap();
        let n: u64 = e.accesses.iter().map(|a| a.reads + a.writes).sum();
        assert!(n >= 80_000, "{n} accesses");
        assert_eq!(e.run.command, [program.display().to_string(), "go".into()]);
    };
    convert("early.data");
    assert!(folder.exists());
    std::fs::write(at.join("go"), "").unwrap();
    let pid = std::fs::read_dir(&folder).unwrap().find_map(|e| {
        let name = e.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".0.raw").map(str::to_owned)
    });
    let process = format!("/proc/{}", pid.unwrap());
    wait_for("the program ends", || {
        let state = std::fs::read_to_string(format!("{process}/stat")).unwrap_or_default();
        !Path::new(&process).exists() || state.contains(") Z ")
    });
    convert("late.data");
    assert!(!folder.exists());
}

/// SIGTERM while the evidence is made: tussle ends and says how to finish, and the raw files stay.
#[test]
fn a_conversion_that_is_terminated_is_finished_later() {
    let Some(dir) = lab() else { return };
    let (at, program) = (dir.path(), dir.path().join("p"));
    for _ in 0..5 {
        let mut recording = tussle(at);
        recording
            .args(["record", "-o", "e.data", "--"])
            .arg(&program)
            .args(["go", "much"])
            .stderr(Stdio::piped());
        let recording = recording.spawn().unwrap();
        wait_for("the program works", || at.join("ran").exists());
        std::fs::write(at.join("go"), "").unwrap();
        let children = format!("/proc/{0}/task/{0}/children", recording.id());
        wait_for("the program ends", || {
            std::fs::read_to_string(&children).is_ok_and(|c| c.trim().is_empty())
        });
        // SAFETY: a signal to a child of ours that has not been waited for.
        unsafe { libc::kill(recording.id() as i32, libc::SIGTERM) };
        let out = recording.wait_with_output().unwrap();
        let (said, folder) = (String::from_utf8_lossy(&out.stderr).into_owned(), left(&program));
        ["ran", "go"].iter().for_each(|f| std::fs::remove_file(at.join(f)).unwrap());
        let Some(folder) = folder else {
            assert_eq!(out.status.code(), Some(7), "{said}");
            continue;
        };
        assert!(said.contains(&format!("tussle record --convert {}", folder.display())), "{said}");
        let out = tussle(at).args(["record", "-o", "e.data", "--convert"]).arg(&folder).output().unwrap();
        assert_eq!(out.status.code(), Some(7), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(!folder.exists());
        let (e, _) = tussle_host::evidence_file::read(&at.join("e.data")).unwrap();
        assert!(e.accesses.iter().map(|a| a.writes).sum::<u64>() >= 500_000);
        return;
    }
    tussle_testkit::skip("conversions end before they can be terminated");
}

/// A shell's line in a mount namespace of its own, where all places for raw files are `kib` large.
fn in_small_places(folder: &Path, kib: u32, line: &str) -> Command {
    let small = format!("mount -t tmpfs -o size={kib}k small");
    let mut c = Command::new("unshare");
    c.args(["-rm", "sh", "-c"]).arg(format!("{small} /dev/shm && {small} /var/tmp && {line}"));
    c.env("TMPDIR", "/dev/shm").current_dir(folder).stdin(Stdio::null());
    c
}

/// The place of the raw files fills up: what was recorded is kept, what was not is stated, and reading never faults.
#[test]
fn a_recording_on_a_full_file_system_is_finished() {
    let Some(dir) = lab() else { return };
    let ran = in_small_places(dir.path(), 300, "true").output();
    if !ran.is_ok_and(|o| o.status.success()) {
        return tussle_testkit::skip("no mounts in a namespace (unshare -rm)");
    }
    for kib in [300, 400, 600, 1000] {
        let line = format!("{} record -o {kib}.data -- ./p", env!("CARGO_BIN_EXE_tussle"));
        let out = in_small_places(dir.path(), kib, &line).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(7), "{kib}: {said}");
        let (e, _) = tussle_host::evidence_file::read(&dir.path().join(format!("{kib}.data"))).unwrap();
        assert_eq!(e.processes.len(), 1, "{kib}");
        assert!(said.contains("threads: ") || e.actors.len() == 2, "{kib}: {said}");
    }
    let line = format!("{} record -o none.data -- ./p", env!("CARGO_BIN_EXE_tussle"));
    let out = in_small_places(dir.path(), 200, &line).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(said.contains("has room for") && said.contains("set TMPDIR"), "{said}");
}

/// The namespaces of process ids that containers make give every process the id 1.
#[test]
fn processes_of_two_namespaces_with_one_id_are_two() {
    let Some(dir) = lab() else { return };
    if !Command::new("unshare").args(["-rpf", "true"]).output().is_ok_and(|o| o.status.success()) {
        return tussle_testkit::skip("no namespaces of process ids (unshare -rpf)");
    }
    let both = "unshare -rpf ./p; unshare -rpf ./p; unshare -rpf ./p & unshare -rpf ./p; wait";
    let out = tussle(dir.path())
        .args(["record", "--children", "-o", "e.data", "--", "sh", "-c", both])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let (e, _) = tussle_host::evidence_file::read(&dir.path().join("e.data")).unwrap();
    let told: Vec<_> = e.processes.iter().map(|p| (p.pid, p.parent, p.end.as_str())).collect();
    assert_eq!(told, [(1, None, "exited"); 4]);
    assert!(e.run.complete);
}

#[test]
fn a_recording_ends_after_its_duration() {
    let Some(dir) = lab() else { return };
    let at = dir.path();
    let record = |seconds: &str, args: &[&str]| {
        let mut c = tussle(at);
        c.args(["record", "--duration", seconds, "--", "./p"]).args(args).output().unwrap()
    };
    // It waits for a file that never comes.
    let out = record("500ms", &["never"]);
    assert_eq!(out.status.code(), Some(128 + 15), "{}", String::from_utf8_lossy(&out.stderr));
    let (e, _) = tussle_host::evidence_file::read(&at.join("tussle.data")).unwrap();
    assert_eq!(e.processes[0].end, "killed by signal 15");
    assert!(e.accesses.iter().map(|a| a.reads + a.writes).sum::<u64>() >= 80_000);
    // One that ends before is not touched.
    assert_eq!(record("10m", &[]).status.code(), Some(7));
    assert_eq!(record("soon", &[]).status.code(), Some(2));
}
