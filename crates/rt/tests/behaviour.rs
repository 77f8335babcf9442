//! Recording must not change what a program does, and must keep what it saw however the program ends.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab, accesses, observed, programs, run_tool, total_e};
use std::process::Command;
use tussle_rt::RawFile;
use tussle_rt::convert::{Keep, convert};

/// Runs `behave MODE`: it must end with `status` and leave `processes` with evidence of the contended pair.
fn check(mode: &str, status: i32, processes: usize) {
    check_with(mode, status, processes, How::default());
}

fn check_with(mode: &str, status: i32, processes: usize, how: How) {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("behave", &[]);
    let ran = lab.run(&exe, &[mode], how);
    assert_eq!(ran.status, status, "{mode}");
    assert!(ran.unusable.is_empty(), "{mode}: {:?}", ran.unusable);
    assert_eq!(ran.evidence.processes.len(), processes, "{mode}");
    // Two threads with 50,000 increments each: E = 50,000.
    let e = total_e(&observed(&ran.evidence), true);
    assert!(e > 45_000.0, "{mode}: E {e} of {} accesses", accesses(&ran.evidence));
}

#[test]
fn processes_that_multiply() {
    check("fork", 11, 2);
    check("rawfork", 11, 2);
    check("vfork", 11, 2);
    check("exec", 3, 2);
}

#[test]
fn processes_that_die() {
    check("return", 0, 1);
    check("abort", 134, 1);
    check("segv", 139, 1);
    check("kill", 137, 1);
    check("_exit", 9, 1);
    check("exit-in-thread", 5, 1);
}

#[test]
fn threads_that_end_early() {
    check("pthread_exit", 0, 1);
    check("cancel", 11, 1);
}

#[test]
fn descriptors_limits_signals_and_errno() {
    check("closefds", 11, 1);
    check("fsize", 11, 1);
    check("signals", 11, 1);
    check("longjmp", 11, 1);
    check("errno", 11, 1);
}

#[test]
fn a_small_memory_cap_is_a_stated_loss() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("behave", &[]);
    let ran = lab.run(&exe, &["nomem"], How { mem_max_bytes: Some(4 << 20), ..How::default() });
    assert_eq!(ran.status, 11);
    let lost: u64 = ran.evidence.losses.iter().filter(|l| l.what == "memory cap").map(|l| l.count).sum();
    assert!(lost > 100_000, "{:?}", ran.evidence.losses);
    // What was known before the cap goes on being counted.
    assert!(total_e(&observed(&ran.evidence), true) > 45_000.0);
}

/// Needs the right to mount; elsewhere the memory cap above takes the same path.
#[test]
fn a_full_disk_is_a_stated_loss() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("behave", &[]);
    let disk = tempfile::tempdir().unwrap();
    let mount = |verb: &str, args: &[&str]| {
        std::process::Command::new(verb)
            .args(args)
            .arg(disk.path())
            .output()
            .is_ok_and(|o| o.status.success())
    };
    if !mount("mount", &["-t", "tmpfs", "-o", "size=600k", "tmpfs"]) {
        return tussle_testkit::skip("this user may not mount");
    }
    let ran = std::panic::catch_unwind(|| lab.run_in(disk.path(), &exe, &["nomem"], How::default()));
    assert!(mount("umount", &["-l"]));
    let ran = ran.unwrap();
    assert_eq!(ran.status, 11);
    assert!(
        ran.evidence.losses.iter().any(|l| l.what == "memory cap" && l.count > 0),
        "{:?}",
        ran.evidence.losses
    );
    assert!(total_e(&observed(&ran.evidence), true) > 45_000.0);
}

#[test]
fn nothing_is_written_outside_of_a_session() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("behave", &[]);
    let status = std::process::Command::new(exe).arg("fork").status().unwrap();
    assert_eq!(status.code(), Some(11));
}

#[test]
fn an_unusable_session_folder_leaves_the_program_alone() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("behave", &[]);
    let status =
        std::process::Command::new(exe).env(tussle_rt::SESSION_VARIABLE, "/nonexistent").status().unwrap();
    assert_eq!(status.code(), Some(0));
}

/// A raw file damaged anywhere gives less evidence, never a panic.
#[test]
fn damaged_files_are_read_as_far_as_they_go() {
    let Some(lab) = Lab::new() else { return };
    for (name, args) in [("behave", &[][..]), ("sections", &["500"][..])] {
        let exe = lab.build(name, &[]);
        let session = tempfile::tempdir().unwrap();
        let mut run = std::process::Command::new(exe);
        let status = run.args(args).env(tussle_rt::SESSION_VARIABLE, session.path()).status().unwrap();
        assert!(status.success());
        let path = std::fs::read_dir(session.path()).unwrap().next().unwrap().unwrap().path();
        let mut bytes = vec![0; 512 << 10];
        let n = std::io::Read::read(&mut std::fs::File::open(path).unwrap(), &mut bytes).unwrap();
        bytes.truncate(n);
        check_damage(&bytes);
    }
}

fn check_damage(bytes: &[u8]) {
    for cut in (0..bytes.len()).step_by(9973) {
        if let Ok(f) = RawFile::new("cut".into(), &bytes[..cut]) {
            convert(&[f], Keep::Shared);
        }
    }
    let mut seed = 1u64;
    for _ in 0..200 {
        let mut bad = bytes.to_vec();
        for _ in 0..20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Past the magic and version, so that the file is looked into; the header more often than the rest.
            let room = if seed & 1 == 0 { 4096 } else { bad.len() };
            let at = 12 + (seed >> 16) as usize % (room - 12);
            bad[at] = (seed >> 8) as u8;
        }
        if let Ok(f) = RawFile::new("bad".into(), &bad) {
            convert(&[f], Keep::Shared);
        }
    }
}

/// Every hook that Debian's libtsan.so.2 defines is defined here.
#[test]
fn every_hook_of_libtsan_is_there() {
    let out = |file: &std::path::Path| {
        let o = std::process::Command::new("nm").args(["-D", "--defined-only"]).arg(file).output().ok()?;
        o.status.success().then(|| String::from_utf8_lossy(&o.stdout).into_owned())
    };
    let found = std::process::Command::new("gcc").arg("-print-file-name=libtsan.so.2").output();
    let theirs = found.ok().map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string());
    let Some(theirs) = theirs.as_deref().map(std::path::Path::new).filter(|p| p.is_absolute()).and_then(out)
    else {
        return tussle_testkit::skip("gcc has no libtsan.so.2, or there is no nm");
    };
    let dir = tempfile::tempdir().unwrap();
    let ours = dir.path().join("libtsan.so.2");
    std::fs::write(&ours, tussle_rt::SHARED.bytes()).unwrap();
    let ours = out(&ours).unwrap();
    let names = |text: &str| -> Vec<String> {
        text.lines()
            .filter_map(|l| l.split(' ').next_back())
            .filter(|n| n.starts_with("__tsan_"))
            .map(Into::into)
            .collect()
    };
    let have = names(&ours);
    let missing: Vec<String> = names(&theirs).into_iter().filter(|n| !have.contains(n)).collect();
    assert!(names(&theirs).len() > 100 && missing.is_empty(), "{missing:?}");
}

/// The recorder's own data lie behind the program's: variables with and without a value share a line as they do without
/// it.
#[test]
fn data_of_the_program_stay_side_by_side() {
    let Some(lab) = Lab::new() else { return };
    let plain = lab.path().join("plain");
    run_tool(Command::new("cc").arg(programs().join("border.c")).args(["-O1", "-pthread", "-o"]).arg(&plain));
    let native = Command::new(&plain).output().unwrap();
    let ran = lab.run(&lab.build("border", &[]), &[], How::default());
    let distance = |text: &str| text.trim().parse::<i64>().unwrap();
    let (own, recorded) = (distance(&String::from_utf8_lossy(&native.stdout)), distance(&ran.stdout));
    assert!((recorded - own).abs() < 64, "{own} bytes, recorded {recorded}");
}
