//! Predictions of recorded programs held against reality (`suite/closed-loop`). Timing: only on request, on a quiet
//! machine.

#![allow(clippy::unwrap_used)]

mod closed_loop {
    pub mod cases;
    pub mod run;
    pub mod score;
    pub mod unseen;
}

use closed_loop::cases::Case;
use closed_loop::score::{Outcome, failed, table};
use closed_loop::{cases, run, unseen};
use std::path::Path;
use std::sync::Mutex;

/// Two threads on CPUs of their own, programs to build.
fn can(kind: &str) -> bool {
    tussle_testkit::slow(kind) && tussle_testkit::need("cc") && tussle_testkit::need("two CPUs")
}

/// Share of the intervals that have to hold the truth: 34 of 40 here, 32 of 40 where nobody has seen the programs.
const HITS: f64 = 34.0 / 40.0;
const HITS_UNSEEN: f64 = 32.0 / 40.0;

/// Loops would disturb each other.
static ALONE: Mutex<()> = Mutex::new(());

/// Machines that the recorded cases are simulated on besides, for nobody's verdict: names, or files of `calibrate`.
fn machines() -> Vec<String> {
    let named = std::env::var("LOOP_MACHINES").unwrap_or_default();
    named.split(',').filter(|n| !n.is_empty()).map(String::from).collect()
}

fn score(all: &[Case], hits: f64, folder: &Path) {
    let _alone = ALONE.lock().unwrap();
    let filter = std::env::var("CLOSED_LOOP").unwrap_or_default();
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut simulated: Vec<(String, Vec<Outcome>)> =
        machines().into_iter().map(|m| (m, Vec::new())).collect();
    for case in all.iter().filter(|c| c.matches(&filter)) {
        let outcome = run::case(case, folder);
        println!("{}", outcome.line());
        for (machine, of) in &mut simulated {
            of.push(run::simulated(case, outcome.truth, machine, folder));
        }
        outcomes.push(outcome);
    }
    told("on threads of this machine", &outcomes, hits);
    for (machine, of) in &simulated {
        of.iter().for_each(|o| println!("{}", o.line()));
        told(&format!("simulated, {machine}"), of, hits);
    }
    // What is printed is what is scored here, or nothing with its reason.
    let every = simulated.iter().flat_map(|(_, of)| of).chain(&outcomes);
    assert!(every.into_iter().all(|o| o.kept_its_word), "a verdict was printed that is not the scored one");
}

fn told(how: &str, outcomes: &[Outcome], hits: f64) {
    println!("\n{how}\n{}", table(outcomes));
    match failed(outcomes, hits).as_slice() {
        [] => println!("the gate holds"),
        some => println!("the gate does not hold: {}", some.join(", ")),
    }
}

#[test]
fn predictions_come_true() {
    if can("closed-loop") {
        score(&cases::read(), HITS, tempfile::tempdir().unwrap().path());
    }
}

#[test]
fn predictions_of_drawn_programs_come_true() {
    if !can("closed-loop-unseen") {
        return;
    }
    let number = |name: &str, default| std::env::var(name).map_or(default, |n| n.parse().unwrap());
    let (seed, count) = (number("UNSEEN_SEED", 1), number("UNSEEN_CASES", 40));
    let folder = tempfile::tempdir().unwrap();
    println!("{count} programs of seed {seed}");
    score(&unseen::draw_all(seed, count as usize, folder.path()).unwrap(), HITS_UNSEEN, folder.path());
}

/// What is drawn compiles in both layouts, differs by seed, and is the same for one.
#[test]
fn drawn_programs_are_programs() {
    let folder = tempfile::tempdir().unwrap();
    let names = |seed| -> Vec<String> {
        unseen::draw_all(seed, 12, folder.path()).unwrap().into_iter().map(|c| c.name).collect()
    };
    assert!(names(1) == names(1) && names(1) != names(2));
    if !tussle_testkit::need("cc") {
        return;
    }
    let mut programs: Vec<_> =
        unseen::draw_all(2, 12, folder.path()).unwrap().into_iter().map(|c| c.source).collect();
    programs.dedup();
    for fixed in [&[][..], &["-DFIXED"]] {
        let mut cc = std::process::Command::new("cc");
        cc.args(["-fsyntax-only", "-Wall", "-Werror", "-pthread"]).args(fixed).args(&programs);
        assert!(cc.status().unwrap().success());
    }
}

#[test]
fn the_loop_is_large_enough() {
    let all = cases::read();
    let mut programs: Vec<String> = all.iter().map(Case::program).collect();
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
        kept_its_word: true,
        problem: None,
    };
    let right = outcome(0.1, 0.4, (0.15, 0.2, 0.25), "faster");
    assert!(right.hit() && right.supported() && !right.opposite());
    let opposite = outcome(0.1, 0.4, (-0.3, -0.2, -0.1), "faster");
    assert!(!opposite.hit() && !opposite.supported() && opposite.opposite());
    let unsupported = outcome(0.1, 0.4, (-0.01, 0.12, 0.3), "faster");
    assert!(unsupported.hit() && !unsupported.supported() && !unsupported.opposite());
    let all = [right, opposite, unsupported];
    let wrong = failed(&all, HITS);
    assert!(wrong.contains(&"no verdict unsupported or opposite") && wrong.contains(&"hits"), "{wrong:?}");
    let good = || outcome(0.1, 0.4, (0.15, 0.2, 0.25), "faster");
    assert_eq!(failed(&(0..40).map(|_| good()).collect::<Vec<_>>(), HITS), [""; 0]);
    let text = table(&all);
    assert!(text.contains("hits 2 of 3") && text.contains("unsupported 1, opposite 1"), "{text}");
}
