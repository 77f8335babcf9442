//! Real against simulated on this machine: two threads on every generation of the reader-writer semaphore. Nothing is
//! fitted to it. Opt-in, as it takes both CPUs for some seconds:
//! `TUSSLE_SLOW=grid cargo test --release -p tussle-host --test grid -- --nocapture`.

use tussle_host::{calibrate, grid, threads};
use tussle_scenarios::duel::score;

#[test]
fn simulation_agrees_with_this_machine() {
    if !tussle_testkit::slow("grid") {
        return;
    }
    // The profile is complete before the first point runs.
    let measured = calibrate::measure(true).unwrap();
    let machine = calibrate::fit(&measured, threads::cpus(), "1s-this-2", "test");
    let (points, conditions) = grid::compare(&machine, 1, |_, _| {}).unwrap();
    let (agree, of) = score(&points);
    println!("{agree} of {of} measured points of {} within 35%; {conditions:?}", points.len());
    if conditions.steal.is_none_or(|s| s >= 0.01) || of * 2 < points.len() {
        return tussle_testkit::skip(&format!("not measured: steal {:?}, {of} points", conditions.steal));
    }
    assert!(agree * 10 >= of * 8, "{agree} of {of}");
}
