//! Data under locks that a program made itself moves with the lock, whatever that is made of.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab, observed, total_e};
use std::path::Path;
use tussle_evidence::Access;

const STORES: f64 = 320_000.0;

/// Of atomics: queues whose waiters wait for 0 or for something else, on nodes that stay or lie on the stack.
const ATOMICS: [&str; 13] = [
    "MCS",
    "MCS_READY",
    "MCS_STACK",
    "CLH",
    "CLH_READY",
    "HEMLOCK",
    "QSPIN",
    "FLAGS",
    "ARRAY",
    "ARRAY_LATE",
    "SET_BY_HAND",
    "TICKET_SPIN",
    "SLOW_UNSEEN",
];

/// Of a mutex and conditions.
const MONITORS: [&str; 6] = ["SEMAPHORE", "WOKEN_AFTER", "READERS", "TICKETS", "TURNS", "OWN_TURNS"];

/// E as a share of the stores.
fn share(lab: &Lab, exe: &Path) -> f64 {
    let ran = lab.run(exe, &[], How::default());
    assert_eq!((ran.status, &ran.unusable[..]), (0, &[][..]));
    total_e(&observed(&ran.evidence), false) / STORES
}

/// Of five runs, so that one in which the scheduler kept a thread from the lock until the end says nothing.
fn check(kinds: &[&str], flags: &[&str]) {
    let Some(lab) = Lab::new() else { return };
    let mut wrong = Vec::new();
    for kind in kinds {
        let kind_flag = format!("-DKIND={kind}");
        let flags: Vec<&str> = flags.iter().copied().chain([&*kind_flag]).collect();
        let exe = lab.build("hand_locks", &flags);
        let shares: Vec<f64> = (0..5).map(|_| share(&lab, &exe)).collect();
        eprintln!("{kind}: {shares:.4?} of the stores");
        if shares.iter().filter(|s| **s < 0.02).count() < 4 {
            wrong.push(*kind);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Which word is free is known only after some sections, and these are long: they may seem to be met by others.
#[test]
fn data_under_a_lock_that_is_handed_over_mostly_moves_with_it() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("hand_locks", &["-DKIND=PARKED"]);
    let mut shares: Vec<f64> = (0..5).map(|_| share(&lab, &exe)).collect();
    eprintln!("PARKED: {shares:.4?} of the stores");
    shares.sort_by(f64::total_cmp);
    // A lock that is contended from its first section on is recognised late in one run of ten.
    assert!(shares[2] < 0.15, "{shares:?}");
}

/// One section in eight stores, so that the data moves 0.125 times for each store at most; the sections before the lock
/// is recognised may double that. Without the lock it is 0.75.
#[test]
fn short_sections_are_counted_whether_their_beginning_is_seen_or_not() {
    let Some(lab) = Lab::new() else { return };
    for kind in ["PARKED", "SLOW_UNSEEN"] {
        let exe = lab.build("hand_locks", &[&*format!("-DKIND={kind}"), "-DSHORT"]);
        // Ten times as many stores as in the other programs.
        let mut shares: Vec<f64> = (0..5).map(|_| share(&lab, &exe) / 10.0).collect();
        eprintln!("{kind}: {shares:.4?} of the stores");
        shares.sort_by(f64::total_cmp);
        assert!(shares[2] < 0.25, "{kind}: {shares:?}");
    }
}

#[test]
fn data_under_queue_locks_moves_with_them() {
    check(&ATOMICS, &[]);
}

#[test]
fn data_under_monitors_moves_with_them() {
    check(&MONITORS, &[]);
}

/// The first sections are long, and over before the other threads come: nobody knew yet that there was a lock.
#[test]
fn who_comes_late_to_a_lock_meets_nobody_of_its_first_sections() {
    check(&["SET_BY_HAND", "TICKET_SPIN", "MCS", "CLH", "QSPIN", "ARRAY"], &["-DLONG", "-DLATE"]);
}

#[test]
fn without_the_lock_all_fight() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("hand_locks", &["-DKIND=SEMAPHORE", "-DBROKEN"]);
    let shares: Vec<f64> = (0..3).map(|_| share(&lab, &exe)).collect();
    assert!(shares.iter().all(|s| *s > 0.5), "{shares:?}");
}

/// The lock's word beside its data, and threads that look at it meanwhile: that is no hand-off.
#[test]
fn who_polls_a_monitor_beside_its_data_is_seen() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("hand_locks", &["-DKIND=SEMAPHORE", "-DPOLLED"]);
    // Where one thread has the CPU for all of its sections, nobody polls: on a busy machine, five runs in a row.
    let mut seen =
        (0..25).map(|_| share(&lab, &exe)).inspect(|share| eprintln!("polled: {share:.4} of the stores"));
    assert!(seen.any(|share| share > 0.02));
}

/// Who looks at a word that nobody changes does not wait for the lock beside it: the two go on at the same time.
#[test]
fn who_looks_at_what_stays_as_it_is_waits_for_nothing() {
    const STEPS: f64 = 40_000.0;
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("looker", &[]);
    let shares: Vec<f64> = (0..3).map(|_| share(&lab, &exe) * STORES / STEPS).collect();
    eprintln!("looked at: {shares:.4?} of the steps");
    // On a busy machine one of the two may wait for a CPU while the other one works.
    assert!(shares.iter().filter(|s| **s > 0.9).count() >= 2, "{shares:?}");
}

/// Tickets and flags that let several threads work at once.
#[test]
fn cells_of_a_queue_are_no_lock() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("flag_rings", &[]);
    for _ in 0..4 {
        let (under, all) = stores_held(&lab, &exe);
        assert!(all >= 320_000 && under < 10_000, "{under} of {all}");
    }
}

/// What a word looks like beside the lock that it is adds no sections: they bound what its data cost.
#[test]
fn a_lock_that_is_exchanged_is_taken_as_often_as_it_is() {
    const TIMES: u64 = 4 * 40_000;
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("exchanged", &[]);
    for _ in 0..3 {
        let rows = lab.run(&exe, &[], How::default()).evidence.accesses;
        let of_word = rows.iter().filter(|a| a.rmws > 0 && a.size <= 4);
        let sections: u64 = of_word.filter_map(|a| a.held).map(|held| held.2).sum();
        assert!((TIMES * 95 / 100..=TIMES * 101 / 100).contains(&sections), "{sections} of {TIMES}");
    }
}

/// Who wakes somebody just after the unlock holds nothing from then on.
#[test]
fn who_only_lets_others_go_on_holds_nothing() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("producers", &[]);
    // 360,000 of their own, and some under the mutex. On a busy machine one may look like a holder for a while.
    let runs: Vec<(u64, u64)> = (0..3).map(|_| stores_held(&lab, &exe)).collect();
    let right = runs.iter().filter(|(under, _)| *under < 10_000).count();
    assert!(runs.iter().all(|(_, all)| *all >= 360_000) && right >= 2, "{runs:?}");
}

/// Stores of a run under a lock, and all.
fn stores_held(lab: &Lab, exe: &Path) -> (u64, u64) {
    held_of(&lab.run(exe, &[], How::default()).evidence.accesses)
}

fn held_of(rows: &[Access]) -> (u64, u64) {
    let under = rows.iter().filter(|a| a.held.is_some()).map(|a| a.writes).sum();
    (under, rows.iter().map(|a| a.writes).sum())
}

/// Up before the wait, down after it: what lies between two waits is under no lock.
#[test]
fn a_count_of_waiters_is_no_lock() {
    let Some(lab) = Lab::new() else { return };
    for flags in [&[][..], &["-DWORK_COUNTED"]] {
        let exe = lab.build("waiters", flags);
        for _ in 0..5 {
            let (under, all) = stores_held(&lab, &exe);
            assert!(all >= 640_000 && under < 10_000, "{flags:?}: {under} of {all}");
        }
    }
}

/// Who keeps one of two permits for long leaves the other thread alone with the last one. That may look like a lock of
/// that thread's, but it orders nobody: the two work at once, whenever each of them has a CPU.
#[test]
fn permits_are_no_lock() {
    let Some(lab) = Lab::new() else { return };
    for (flags, most) in [(&["-DPERMITS"][..], 330_000), (&["-DPERMITS", "-DKEPT"], 50_000)] {
        let exe = lab.build("waiters", flags);
        let mut all_e = Vec::new();
        for _ in 0..9 {
            let evidence = lab.run(&exe, &[], How::default()).evidence;
            let (under, all) = held_of(&evidence.accesses);
            assert!(all >= 640_000 && under < most, "{flags:?}: {under} of {all}");
            all_e.push(total_e(&observed(&evidence), false));
        }
        all_e.sort_by(f64::total_cmp);
        eprintln!("{flags:?}: {all_e:.0?} transfers of 640,000 stores");
        // Until a word is known to be no lock, a few of what may be its sections are put in order. In one run of nine
        // the threads may hardly have met: other tests run beside this one.
        assert!(all_e[1] > 80_000.0 && all_e[4] > 180_000.0, "{flags:?}: {all_e:?}");
    }
}

/// Phases of 16,000 accesses: whoever comes to the end of one looks at its number first, and has not waited then.
#[test]
fn turns_that_end_at_a_counting_barrier_are_turns() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("waiters", &["-DTURNS"]);
    let shares: Vec<f64> = (0..5).map(|_| share(&lab, &exe)).collect();
    assert!(shares.iter().filter(|s| **s < 0.02).count() >= 4, "{shares:?}");
}

/// Who has given a monitor back is outside, also if another one was used before that under the same mutex.
#[test]
fn what_follows_a_monitor_is_outside() {
    let Some(lab) = Lab::new() else { return };
    for more in [&["-DOUTSIDE"][..], &["-DOUTSIDE", "-DNESTED"]] {
        let exe = lab.build("hand_locks", &[&["-DKIND=SEMAPHORE"], more].concat());
        let shares: Vec<f64> = (0..4).map(|_| share(&lab, &exe)).collect();
        // As many stores outside as inside; one after the other where the scheduler wants it so. Under a lock: 0.001.
        assert!(shares.iter().filter(|s| **s > 0.02).count() >= 2, "{more:?}: {shares:?}");
    }
}
