//! What threads and processes hand to each other through the kernel orders what they do.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab, observed, total_e};

const ALL: [&str; 10] =
    ["pipe", "readv", "eventfd", "counter", "socket", "semop", "msg", "mq", "sigwait", "signalfd"];
const STEPS: f64 = 60.0;

/// E of `channels HOW WORK MODE` as a share of its stores to the line.
fn share(lab: &Lab, exe: &std::path::Path, how: &str, work: u32, mode: &str) -> f64 {
    let ran = lab.run(exe, &[how, &work.to_string(), mode], How::default());
    assert_eq!((ran.status, &ran.unusable[..]), (0, &[][..]), "{how} {mode}");
    total_e(&observed(&ran.evidence), false) / (2.0 * STEPS * f64::from(work))
}

/// The least of some runs: on a busy machine a thread may be late for its turn.
fn least(lab: &Lab, exe: &std::path::Path, how: &str, work: u32, mode: &str) -> f64 {
    (0..4).map(|_| share(lab, exe, how, work, mode)).fold(1.0, f64::min)
}

#[test]
fn short_steps_of_threads_by_turns_meet_nobody() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("channels", &["-lrt"]);
    for how in ALL {
        let e = least(&lab, &exe, how, 5000, "turns");
        assert!(e < 0.02, "{how}: {e}");
    }
}

#[test]
fn long_steps_of_threads_and_processes_by_turns_meet_nobody() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("channels", &["-lrt"]);
    for how in ALL {
        let e = least(&lab, &exe, how, 50_000, "turns");
        assert!(e < 0.02, "{how}: {e}");
        // Who sends itself signals tells no other process.
        if !["sigwait", "signalfd"].contains(&how) {
            let e = least(&lab, &exe, how, 50_000, "processes");
            assert!(e < 0.02, "{how} of processes: {e}");
        }
    }
}

#[test]
fn who_works_at_the_same_time_meets_the_other_one_whatever_it_tells() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("channels", &["-lrt"]);
    for how in ["pipe", "counter", "socket", "semop", "msg", "mq"] {
        // Who has worked for long goes on beside who is told, so that a part of what meets lies apart. One may come
        // when the other one is done: one of some runs must tell.
        let e = (0..4).map(|_| share(&lab, &exe, how, 5000, "both")).fold(0.0, f64::max);
        assert!(e > 0.1, "{how}: {e}");
    }
}

#[test]
fn who_waits_for_another_process_is_not_kept_waiting_by_threads() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("channels", &["-lrt"]);
    for how in ["pipe", "socket", "semop", "mq"] {
        let e = (0..4).map(|_| share(&lab, &exe, how, 5000, "served")).fold(0.0, f64::max);
        assert!(e > 0.2, "{how}: {e}");
    }
}
