//! Who goes on after whom where a gate opens once, and flags that keep nobody out.

#![allow(clippy::unwrap_used)]

mod common;

use common::{How, Lab, observed, total_e};

/// E of `gates MODE` as a share of its stores to the line.
fn share(lab: &Lab, exe: &std::path::Path, mode: &str, stores: f64, how: How) -> f64 {
    let ran = lab.run(exe, &[mode], how);
    assert_eq!((ran.status, &ran.unusable[..]), (0, &[][..]), "{mode}");
    total_e(&observed(&ran.evidence), false) / stores
}

const STORES: f64 = 600_000.0;

#[test]
fn what_a_gate_lets_go_on_comes_after_what_opened_it() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("gates", &[]);
    for mode in ["joined", "handed", "unseen"] {
        // On a busy machine the second may come when the gate is open: one of three runs must tell.
        let least = (0..3).map(|_| share(&lab, &exe, mode, STORES, How::default())).fold(1.0, f64::min);
        assert!(least < 0.01, "{mode}: {least}");
    }
    let together = share(&lab, &exe, "together", STORES, How::default());
    assert!((0.45..0.55).contains(&together), "together: {together}");
}

#[test]
fn a_word_that_counts_turns_is_no_lock_when_it_holds_what_locks_hold() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("gates", &[]);
    let least = (0..3).map(|_| share(&lab, &exe, "counted", 1_200_000.0, How::default())).fold(1.0, f64::min);
    assert!(least < 0.01, "{least}");
}

#[test]
fn a_flag_that_anybody_clears_is_no_lock() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("gates", &[]);
    for one_cpu in [false, true] {
        let how = How { one_cpu, ..How::default() };
        // Two of three stores find the line elsewhere. On a busy machine one may come when another one is done: one of
        // three runs must tell.
        let e = (0..3).map(|_| share(&lab, &exe, "dirty", 600_000.0, how)).fold(0.0, f64::max);
        assert!(e > 0.4, "one CPU {one_cpu}: {e}");
    }
}

#[test]
fn locks_of_one_thread_each_order_nothing() {
    let Some(lab) = Lab::new() else { return };
    let exe = lab.build("gates", &[]);
    // Each takes its own 300,000 times and gives it back: half of these stores find the line with the other one.
    let e = share(&lab, &exe, "own", 1_200_000.0, How::default());
    assert!(e > 0.4, "{e}");
}
