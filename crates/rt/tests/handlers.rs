//! Signals that come while their thread is inside the recorder, and what their handlers do then.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab, observed, total_e};
use std::path::Path;
use std::process::Command;

/// Whether the slow variants run.
#[track_caller]
fn slow() -> bool {
    tussle_testkit::slow("recorder")
}

/// Runs a case of `handlers.c`: it must end well, its last two threads be recorded in full, and no event be lost in a
/// handler.
fn check(args: &[&str]) {
    if let Some(lab) = Lab::new() {
        check_exe(&lab, &lab.build("handlers", &[]), args);
    }
}

fn check_exe(lab: &Lab, exe: &Path, args: &[&str]) {
    let ran = lab.run(exe, args, How::default());
    if ran.status == 77 {
        return tussle_testkit::skip(&format!("{args:?}: {}", ran.stdout.trim()));
    }
    assert_eq!((ran.status, &ran.unusable[..]), (11, &[][..]), "{args:?}: {}", ran.stdout);
    let lost: u64 = ran.evidence.losses.iter().filter(|l| l.what == "signal handlers").map(|l| l.count).sum();
    assert_eq!(lost, 0, "{args:?}");
    // Two threads with 50,000 increments each: E = 50,000.
    let e = total_e(&observed(&ran.evidence), true);
    assert!(e > 45_000.0, "{args:?}: E {e}");
}

#[test]
fn a_handler_leaves_by_siglongjmp() {
    check(&["siglongjmp", if slow() { "10000" } else { "500" }]);
}

#[test]
fn threads_are_stopped_anywhere() {
    check(&["stop", "3000"]);
}

/// Every thread is stopped 10,000 times.
#[test]
fn threads_are_stopped_anywhere_for_long() {
    if slow() {
        check(&["stop", "60000", "10000"]);
    }
}

#[test]
fn a_handler_posts_a_semaphore() {
    check(&["sem_post", if slow() { "10000" } else { "1000" }]);
}

#[test]
fn queued_signals_keep_their_order() {
    check(&["queue", if slow() { "10000" } else { "1000" }]);
}

#[test]
fn a_handler_makes_children() {
    check(&["children", if slow() { "10000" } else { "500" }]);
}

#[test]
fn threads_are_cancelled_anywhere() {
    check(&["cancel", if slow() { "10000" } else { "300" }]);
}

/// Needs the right to real-time priorities.
#[test]
fn a_high_priority_never_waits_for_a_low_one() {
    check(&["fifo", if slow() { "10000" } else { "1000" }]);
}

/// The same cases in a program built by clang.
#[test]
fn handlers_of_a_program_built_by_clang() {
    let Some(lab) = Lab::new() else { return };
    let Some(exe) = lab.build_by_clang("handlers") else { return };
    for case in ["siglongjmp", "stop", "sem_post", "queue", "cancel", "children"] {
        check_exe(&lab, &exe, &[case, "200", "100"]);
    }
}

/// What a program learns about its handlers is the same recorded and not.
#[test]
fn handlers_are_reported_as_the_program_installed_them() {
    let Some(lab) = Lab::new() else { return };
    let recorded = lab.run(&lab.build("sigaction", &[]), &[], How::default());
    assert_eq!(recorded.status, 0);
    let native = lab.path().join("native");
    let source = common::programs().join("sigaction.c");
    let built = Command::new("gcc").args(["-w", "-o"]).arg(&native).arg(source).arg("-lpthread").status();
    assert!(built.unwrap().success());
    assert_eq!(recorded.stdout, output(&native));
}

fn output(exe: &Path) -> String {
    String::from_utf8(Command::new(exe).output().unwrap().stdout).unwrap()
}
