//! Predictions of recorded programs held against reality (`suite/closed-loop`). Timing: only on request, on a quiet
//! machine.

#![allow(clippy::unwrap_used)]

mod closed_loop {
    pub mod cases;
    pub mod run;
    pub mod score;
}

use closed_loop::score::{Outcome, table};
use closed_loop::{cases, run};

#[test]
fn predictions_come_true() {
    if !tussle_testkit::slow("closed-loop")
        || !tussle_testkit::need("cc")
        || !tussle_testkit::need("two CPUs")
    {
        return;
    }
    let filter = std::env::var("CLOSED_LOOP").unwrap_or_default();
    let folder = tempfile::tempdir().unwrap();
    let mut outcomes: Vec<Outcome> = Vec::new();
    for case in cases::read().into_iter().filter(|c| c.matches(&filter)) {
        let outcome = run::case(&case, folder.path());
        println!("{}", outcome.line());
        outcomes.push(outcome);
    }
    println!("\n{}", table(&outcomes));
    // Until the gate holds no verdict may be printed; that is what `predict` keeps to, whatever this table says.
    assert!(outcomes.iter().all(|o| o.printed_undecided), "a verdict was printed that is to be withheld");
}

#[test]
fn the_loop_is_large_enough() {
    let all = cases::read();
    let mut programs: Vec<&str> = all.iter().map(|c| c.source.as_str()).collect();
    programs.dedup();
    assert!(all.len() >= 40 && programs.len() >= 12, "{} cases of {}", all.len(), programs.len());
}

#[test]
fn cases_are_scored_as_effects() {
    let outcome = |low: f64, high: f64, truth: (f64, f64, f64), verdict: &str| Outcome {
        name: "x".into(),
        program: "x.c".into(),
        predicted: Some((low, (low + high) / 2.0, high, 1.0)),
        truth: Some(truth),
        verdict: verdict.into(),
        printed_undecided: true,
        problem: None,
    };
    let right = outcome(0.1, 0.4, (0.15, 0.2, 0.25), "faster");
    assert!(right.hit() && right.supported() && !right.opposite());
    let opposite = outcome(0.1, 0.4, (-0.3, -0.2, -0.1), "faster");
    assert!(!opposite.hit() && !opposite.supported() && opposite.opposite());
    let unsupported = outcome(0.1, 0.4, (-0.01, 0.12, 0.3), "faster");
    assert!(unsupported.hit() && !unsupported.supported() && !unsupported.opposite());
    let text = table(&[right, opposite, unsupported]);
    assert!(text.contains("hits 2 of 3") && text.contains("unsupported 1, opposite 1"), "{text}");
}
