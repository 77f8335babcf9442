//! What the program takes away or hides is stated as a loss, never left out in silence.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab, Ran, observed, programs, run_tool, total_e};
use std::process::Command;

/// Runs one kind of program; `None` if it cannot be run here.
fn run(file: &str, name: &str, how: How) -> Option<Ran> {
    let lab = Lab::new()?;
    let exe = lab.build(&format!("kinds/{file}"), &[]);
    // Some make files where they run.
    let native = Command::new(&exe).arg(name).current_dir(lab.path()).output().unwrap();
    if native.status.code() == Some(77) {
        tussle_testkit::skip(&format!("{file} {name}: {}", String::from_utf8_lossy(&native.stdout).trim()));
        return None;
    }
    let ran = lab.run(&exe, &[name], how);
    assert_eq!(Some(ran.status), native.status.code(), "{}", ran.stdout);
    Some(ran)
}

/// How often something was lost.
fn lost(ran: &Ran, what: &str) -> u64 {
    ran.evidence.losses.iter().filter(|l| l.what == what).map(|l| l.count).sum()
}

#[test]
fn a_sandbox_is_stated() {
    if let Some(ran) = run("sandbox", "kill", How::default()) {
        assert_eq!(lost(&ran, "sandbox"), 1);
    }
    // The program could not enter it, or only asked.
    if let Some(ran) = run("sandbox", "refused", How::default()) {
        assert_eq!(lost(&ran, "sandbox"), 0);
    }
}

#[test]
fn writes_of_the_kernel_are_told() {
    if let Some(ran) = run("input_output", "io_uring", How::default()) {
        assert_eq!(lost(&ran, "writes of the kernel"), 1);
        assert!(!ran.evidence.run.sees.kernel_writes);
    }
    // Rings that a library sets up with system calls of its own are seen by their mappings.
    if let Some(ran) = run("input_output", "hidden_ring", How::default()) {
        assert_eq!(lost(&ran, "writes of the kernel"), 1);
        assert!(!ran.evidence.run.sees.kernel_writes);
    }
}

/// System calls that become signals of the program take the recorder's away, too.
#[test]
fn dispatched_system_calls_are_stated() {
    if let Some(ran) = run("odd", "dispatch", How::default()) {
        assert_eq!(lost(&ran, "sandbox"), 1);
    }
}

/// What the kernel copies for a call is the calling thread's store.
#[test]
fn places_and_messages_that_are_read_are_stores() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("kernel_writes", &[]);
    let ways = ["readv", "preadv", "recvmsg", "recvfrom", "preadv2", "read_chk", "fread_unlocked"];
    for way in ways.into_iter().chain(["raw_read", "raw_readv", "raw_recvmsg", "raw_recvfrom"]) {
        let ran = lab.run(&exe, &[way], How::default());
        assert_eq!((ran.status, ran.stdout.trim()), (0, "24000"), "{way}");
        assert!(ran.evidence.run.sees.kernel_writes, "{way}");
        let e = &ran.evidence;
        let first = e.actors.iter().position(|a| a.creator.is_none()).unwrap() as u32;
        let other = e.accesses.iter().find(|a| a.actor != first && a.writes > 1000).map(|a| a.object);
        let mine = e.accesses.iter().filter(|a| a.actor == first && Some(a.object) == other);
        assert!(mine.map(|a| a.writes).sum::<u64>() >= 3000, "{way}: {:?}", e.accesses);
    }
}

/// With MSG_TRUNC a stream throws the bytes away, and the result is the same as if they had been copied.
#[test]
fn what_a_result_does_not_say_is_no_store() {
    let Some(lab) = Lab::new() else { return };
    let ran = lab.run(&lab.build("kernel_writes", &[]), &["recv_trunc"], How::default());
    assert_eq!((ran.status, ran.stdout.trim()), (0, "24000"));
    assert_eq!((lost(&ran, "writes of the kernel"), ran.evidence.run.sees.kernel_writes), (3000, false));
    let e = total_e(&observed(&ran.evidence), true);
    assert!(e < 500.0, "{e} {:?}", ran.evidence.accesses);
}

/// Handlers installed by a raw system call run inside the recorder, too: what they do there is counted.
#[test]
fn handlers_behind_libcs_back_are_told() {
    if let Some(ran) = run("signals", "raw_handler", How::default()) {
        assert!(lost(&ran, "signal handlers") > 0, "{:?}", ran.evidence.losses);
    }
}

/// After the descriptors' limit only the parent's file is left, and that may have no room.
#[test]
fn children_without_room_are_counted() {
    let small = How { mem_max_bytes: Some(1 << 20), ..How::default() };
    if let Some(ran) = run("surroundings", "nofile", small) {
        assert_eq!(ran.evidence.processes.len(), 1);
        assert_eq!(lost(&ran, "processes not recorded"), 1);
    }
    if let Some(ran) = run("surroundings", "nofile", How::default()) {
        assert_eq!(ran.evidence.processes.len(), 3);
        assert_eq!(lost(&ran, "processes not recorded"), 0);
        // The fights of all three: 5,000 each.
        let each: Vec<u32> = ran.evidence.processes.iter().map(|p| p.pid).collect();
        assert!(each[0] != each[1] && each[1] != each[2]);
        assert!(common::accesses(&ran.evidence) >= 3 * 2 * 2 * 5000, "{}", common::accesses(&ran.evidence));
    }
}

/// Address space is limited: a sixteenth of it is the recorder's at most.
#[test]
fn a_limit_on_address_space_is_shared() {
    if let Some(ran) = run("memory", "rlimit_as", How::default()) {
        assert_eq!(ran.evidence.processes.len(), 2);
        assert_eq!(lost(&ran, "memory cap"), 0);
    }
}

/// Runs a program that has thousands of mappings before it loads a library of that name.
fn with_library(name: &str) -> Option<Ran> {
    let lab = Lab::new()?;
    let library = lab.path().join(name);
    let mut build = Command::new("gcc");
    build
        .args(["-g", "-O1", "-shared", "-fPIC"])
        .arg(programs().join("late_library.c"))
        .arg("-o")
        .arg(&library);
    run_tool(&mut build);
    let exe = lab.build("late", &[]);
    let ran = lab.run(&exe, &[library.to_str().unwrap()], How::default());
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    Some(ran)
}

/// The memory map is then longer than any one block of the recording.
#[test]
fn late_libraries_keep_their_names_behind_thousands_of_mappings() {
    let Some(ran) = with_library("liblate.so") else { return };
    let e = &ran.evidence;
    let module = e.modules.iter().position(|m| m.path.ends_with("/liblate.so"));
    let module = module.expect("the library's name") as u32;
    assert!(e.code.iter().any(|c| c.module == Some(module)));
    assert_eq!(lost(&ran, "moving collector") + lost(&ran, "memory cap"), 0);
}

#[test]
fn runtimes_that_move_objects_are_told() {
    if let Some(ran) = with_library("libjvm.so") {
        assert_eq!(lost(&ran, "moving collector"), 1);
    }
}

/// The environment was cleared: what a shell starts is not recorded.
#[test]
fn commands_without_an_environment_are_counted() {
    if let Some(ran) = run("surroundings", "cleared_shell", How::default()) {
        assert_eq!(lost(&ran, "processes not recorded"), 2);
    }
    if let Some(ran) = run("life", "system_popen", How::default()) {
        assert_eq!(lost(&ran, "processes not recorded"), 0);
    }
}
