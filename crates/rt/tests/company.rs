//! Objects that go from thread to thread: who has one has it alone, whatever orders that.

mod common;
use common::*;
use std::path::Path;

/// A thread's stores to the objects.
const STORES: f64 = 320_000.0;

/// E of `handed MODE` as a share of one thread's stores.
fn share(lab: &Lab, exe: &Path, mode: &str, how: How) -> f64 {
    share_of(STORES, lab, exe, &[mode], how)
}

/// Where both threads have a CPU. On a busy machine one may have run only while the other one did not: one of many runs
/// must tell.
#[test]
fn objects_that_are_handed_on_are_no_fight() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("handed", &[]);
    for mode in ["queue", "ring", "pool"] {
        assert!((0..25).any(|_| share(&lab, &exe, mode, How::default()) < 0.02), "{mode}");
    }
}

/// Short visits of `handed MODE`, each between two locks: most of five shares are so, with a CPU each and on one. What
/// else runs on that one may let the threads take turns: one of several fives must tell.
fn mostly(mode: &str, is: impl Fn(f64) -> bool) {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("handed", &[]);
    for one_cpu in [false, true] {
        let how = How { one_cpu, ..How::default() };
        let share = || share_of(STORES, &lab, &exe, &[mode, "40", "8000"], how);
        let most = || (0..5).filter(|_| is(share())).count() >= 3;
        assert!((0..5).any(|_| most()), "one CPU {one_cpu}");
    }
}

/// A hand-off is a transfer, and there are two of them for each round.
#[test]
fn objects_that_are_handed_on_soon_are_no_fight() {
    mostly("queue", |share| share < 0.06);
}

/// Where nothing but the order of two stores hands them on, too.
#[test]
fn objects_that_are_handed_on_soon_without_a_lock_are_no_fight() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("handed", &[]);
    let share = || share_of(STORES, &lab, &exe, &["ring", "40", "8000"], How::default());
    assert!((0..25).any(|_| share() < 0.06));
}

/// Memory that one thread frees is another one's next message.
#[test]
fn messages_that_are_freed_and_made_anew_are_no_fight() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("freed", &[]);
    for mode in ["aligned", "plain"] {
        for one_cpu in [false, true] {
            let how = How { one_cpu, ..How::default() };
            let share = || share_of(STORES, &lab, &exe, &[mode], how);
            // On one CPU a third of the recordings accuses messages that share lines with others, many in a row.
            let least = if one_cpu && mode == "plain" { 1 } else { 3 };
            let most = || (0..5).filter(|_| share() < 0.06).count() >= least;
            assert!((0..5).any(|_| most()), "{mode}, one CPU {one_cpu}");
        }
    }
}

/// Who hands objects on does not hand on what else it has.
#[test]
fn what_lies_beside_a_queue_is_not_handed_on() {
    mostly("beside", |share| share > 0.5);
}

/// Objects that two threads have at once, and one that a thread comes to seldom.
#[test]
fn who_comes_at_the_same_time_fights() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("handed", &[]);
    for one_cpu in [false, true] {
        for (mode, least) in [("both", 0.9), ("seldom", 0.5)] {
            let how = How { one_cpu, ..How::default() };
            let shares: Vec<f64> = (0..3).map(|_| share(&lab, &exe, mode, how)).collect();
            assert!(
                shares.iter().filter(|s| **s > least).count() >= 2,
                "{mode}, one CPU {one_cpu}: {shares:?}"
            );
        }
    }
}

/// Who gives away an element, and goes on with the next one, has not given the ring away.
#[test]
fn a_ring_is_the_same_on_one_cpu() {
    const ELEMENTS: f64 = 200_000.0;
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("two_ends", &[]);
    for one_cpu in [false, true] {
        let how = || How { one_cpu, ..How::default() };
        let shares: Vec<f64> = (0..5).map(|_| share_of(ELEMENTS, &lab, &exe, &[], how())).collect();
        assert!(shares.iter().filter(|s| **s > 1.0).count() >= 4, "one CPU {one_cpu}: {shares:?}");
    }
}
