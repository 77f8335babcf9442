//! Memory that processes share, and memory that only has the same addresses.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab, Ran, observed, read, total_e};
use tussle_rt::convert::Keep;

fn ran(lab: &Lab, flags: &[&str], how: &str) -> Ran {
    let exe = lab.build("processes", flags);
    let path = lab.path().join("memory");
    let args = [how, path.to_str().unwrap()];
    let ran =
        lab.run(&exe, if how == "objects" || how == "files" { &args } else { &args[..1] }, How::default());
    assert_eq!((ran.status, &ran.unusable[..]), (0, &[][..]), "{how}");
    ran
}

/// Two processes of 100,000 increments each: the E of two threads, which is half of the stores, without what the
/// processes did before both ran.
fn check_fight(how: &str) {
    let Some(lab) = Lab::new() else { return };
    let buggy = ran(&lab, &[], how);
    let e = total_e(&observed(&buggy.evidence), true);
    assert!((90_000.0..=101_000.0).contains(&e), "{how}: E {e}");
    let fixed = total_e(&observed(&ran(&lab, &["-DFIXED"], how).evidence), true);
    assert!(fixed < e / 1000.0, "{how}: E {fixed} when fixed");
    let regions = buggy.evidence.regions.unwrap();
    let of = |p: u32| regions.iter().filter(move |r| r.process == p);
    let same =
        of(0).filter(|a| of(1).chain(of(2)).any(|b| (a.device, a.inode) == (b.device, b.inode))).count();
    assert!(same > 0, "{how}: {regions:?}");
}

#[test]
fn anonymous_memory_of_parent_and_child() {
    check_fight("anonymous");
}

#[test]
fn system_v_segments() {
    check_fight("segment");
}

#[test]
fn one_object_at_two_addresses() {
    check_fight("objects");
}

#[test]
fn one_file_mapped_by_two_programs() {
    check_fight("files");
}

#[test]
fn private_pages_after_a_fork_are_two_processes_own() {
    let Some(lab) = Lab::new() else { return };
    let evidence = ran(&lab, &[], "private").evidence;
    assert_eq!(total_e(&observed(&evidence), true), 0.0);
    assert_eq!(evidence.regions, None, "nothing is shared");
}

/// Runs `phases HOW MEMORY WHEN ..`; E of all lines, and stores to counters that share one.
fn phases(lab: &Lab, exe: &std::path::Path, how: &str, by_file: bool, when: &str) -> (f64, f64) {
    let path = lab.path().join(format!("phases-{how}-{when}"));
    let memory = if by_file { path.to_str().unwrap() } else { "-" };
    let ran = lab.run(exe, &[how, memory, when], How::default());
    assert_eq!((ran.status, &ran.unusable[..]), (0, &[][..]), "{how}");
    let stores: f64 = ran.stdout.split_whitespace().nth(1).unwrap().parse().unwrap();
    let _ = std::fs::remove_file(path);
    (total_e(&observed(&ran.evidence), true), stores)
}

/// In turns there are 8 hand-offs at most, whatever orders the turns, and at whatever addresses the memory lies; all at
/// once every other store finds the line elsewhere.
#[test]
fn what_orders_processes_orders_their_clocks() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("phases", &[]);
    let all = ["wait", "sem", "mutex", "cond", "barrier", "word"].map(|how| [(how, false), (how, true)]);
    let other = [("exec", true), ("spawn", true)];
    let mut wrong = Vec::new();
    for (how, by_file) in all.into_iter().flatten().chain(other) {
        let (e, _) = phases(&lab, &exe, how, by_file, "turns");
        if e > 200.0 {
            wrong.push(format!("{how} (file: {by_file}) in turns: E {e}"));
        }
    }
    for (how, by_file) in [("wait", false), ("wait", true), ("spawn", true), ("exec", true)] {
        let (e, stores) = phases(&lab, &exe, how, by_file, "once");
        if !(0.4 * stores..0.51 * stores).contains(&e) {
            wrong.push(format!("{how} (file: {by_file}) at once: E {e} of {stores} stores"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What the recorder does for itself (paths, clearing of memory) is neither counted nor lost.
#[test]
fn what_the_recorder_does_itself_is_nobodys_access() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("idle", &[]);
    for (args, truth) in [(&[][..], 0), (&["fork"][..], 0), (&["fork", "share"][..], 5)] {
        let ran = lab.run(&exe, args, How::default());
        assert_eq!((ran.status, &ran.unusable[..]), (0, &[][..]), "{args:?}");
        assert_eq!(ran.evidence.run.accesses, Some(truth), "{args:?}");
        assert_eq!(ran.evidence.losses, [], "{args:?}");
    }
}

/// The site of a mapping is the code that called `mmap`, not who called that.
#[test]
fn a_mapping_is_its_askers() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("idle", &[]);
    let session = tempfile::tempdir().unwrap();
    let ran = lab.run_in(session.path(), &exe, &["fork", "share"], How::default());
    let (e, _) = read(session.path(), Keep::All);
    let main: u64 = ran.stdout.trim().parse().unwrap();
    let mapped = e.objects.iter().find(|o| o.allocator.as_deref() == Some("mmap")).unwrap();
    let asked = e.code[mapped.alloc_code.unwrap() as usize].address;
    assert!((main..main + 1000).contains(&asked), "asked at {asked:#x}, main begins at {main:#x}");
}

/// A ring without an end is mapped twice.
#[test]
fn memory_at_two_addresses_of_one_process_is_one() {
    let Some(lab) = Lab::new() else { return };
    let ran = lab.run(&lab.build("twice", &[]), &[], How::default());
    assert_eq!(ran.status, 0);
    let e = total_e(&observed(&ran.evidence), false);
    // 100,000 stores by each.
    assert!(e > 80_000.0, "E {e}");
}
