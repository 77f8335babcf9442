//! Programs whose truth is known by construction (`suite/`), recorded and judged as a user would.
//!
//! `cargo test` runs a fixed forty. `TUSSLE_SLOW=suite-once` runs all of them once, `TUSSLE_SLOW=suite` all of them
//! with every compiler, optimisation, number of threads and of CPUs. The outcome is printed as a table.

mod suite {
    pub mod compare;
    pub mod hunt;
    pub mod judge;
    pub mod live;
    pub mod manifest;
    pub mod run;
}

use suite::judge::{Outcome, Tally};
use suite::manifest::{Case, Limits, Manifest, Twin, languages};
use suite::run::{Setting, Workshop};
use tussle_testkit::{need, skip, slow};

#[test]
fn verdicts_are_those_that_the_programs_were_built_to_have() {
    let manifest = Manifest::read();
    let workshop = Workshop::new();
    let matrix = slow("suite");
    let builds = if matrix { Setting::builds() } else { vec![Setting::usual()] };
    let mut tally = Tally::default();
    for setting in &builds {
        let runs = if matrix { setting.runs() } else { vec![*setting] };
        for case in manifest.chosen() {
            for twin in &case.twins(matrix || slow("suite-once")) {
                judge_all(&workshop, case, twin, &runs, &mut tally);
            }
        }
    }
    println!("{}", tally.table());
    let allowed = manifest.limits.scaled(tally.judged());
    tally.check(&allowed);
}

/// One build of a twin, run in every way that is asked for.
fn judge_all(workshop: &Workshop, case: &Case, twin: &Twin, runs: &[Setting], tally: &mut Tally) {
    let program = workshop.build(case, twin, &runs[0]);
    for setting in runs.iter().filter(|s| case.holds(s.threads)) {
        let judged = program.clone().and_then(|p| workshop.judge_built(&p, case, setting));
        match judged {
            Ok(outcome) => tally.add(case, twin, setting, outcome),
            Err(skipped) => skip(&format!("{} {}: {skipped}", case.source, setting.words())),
        }
    }
}

/// The same programs as their compiler leaves them, at -O2, but for those that are about what is not instrumented.
#[test]
fn verdicts_under_emulation_are_the_same() {
    if slow("suite-emulated") && need("qemu-x86_64") {
        let manifest = Manifest::read();
        let cases: Vec<&Case> = manifest.chosen().filter(|c| c.instrumented).collect();
        emulated(&cases, &manifest.limits);
    }
}

/// Programs in Rust and Go.
#[test]
fn verdicts_under_emulation_of_other_languages() {
    if slow("suite-emulated") && need("qemu-x86_64") && need("rustc") && need("go") {
        let all = languages();
        emulated(&all.iter().collect::<Vec<_>>(), &Manifest::read().limits);
    }
}

fn emulated(cases: &[&Case], limits: &Limits) {
    let (workshop, mut tallies) = (Workshop::new(), Vec::new());
    for setting in &Setting::emulated() {
        if !need(&setting.tool(false)) || !need(&setting.tool(true)) {
            continue;
        }
        let mut tally = Tally::default();
        for case in cases.iter().filter(|c| setting.is_for(c)) {
            for twin in &case.twins(true) {
                judge_all(&workshop, case, twin, &[*setting], &mut tally);
            }
        }
        println!("{}: {}", setting.words(), tally.table());
        tallies.push(tally);
    }
    for tally in tallies {
        tally.check(&limits.scaled(tally.judged()));
    }
}

/// The recorder inside of programs and the one in the emulator say the same of the same sources.
#[test]
fn findings_under_emulation_are_those_of_the_recorder() {
    if slow("suite-emulated") && need("qemu-x86_64") {
        suite::compare::all();
    }
}

/// Every program that a layout helps, as it is: a patch that survives, or the reason why there is none.
#[test]
fn hunts_repair_or_say_why_not() {
    if slow("suite-hunt") {
        suite::hunt::all();
    }
}

#[test]
fn what_fights_here_is_found_while_it_runs() {
    if slow("live") {
        suite::live::all();
    }
}

#[test]
fn the_fixed_set_has_forty_twins() {
    let n: usize = Manifest::read().cases.iter().map(|c| c.twins(false).len()).sum();
    assert_eq!(n, 40);
}

#[test]
fn an_outcome_is_a_miss_an_accusation_or_right() {
    let layout = Twin { fixed: false, class: "layout".into() };
    let quiet = Twin { fixed: true, class: "quiet".into() };
    assert!(Outcome { status: 0, ..Outcome::default() }.missed(&layout));
    assert!(Outcome { status: 1, ..Outcome::default() }.accused(&quiet));
    assert!(!Outcome { status: 1, ..Outcome::default() }.missed(&layout));
    assert!(Outcome { status: 2, ..Outcome::default() }.missed(&quiet));
}
