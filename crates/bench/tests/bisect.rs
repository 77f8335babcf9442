//! Bisection of a synthetic history of 1,024 commits with an effect of one standard deviation.

#![allow(clippy::unwrap_used)]

use tussle_bench::bisect::{Bisection, Costs, Knowledge};
use tussle_stats::Rng;

const COMMITS: usize = 1024;

struct Outcome {
    right_percent: f64,
    runs_mean: f64,
}

fn evaluate(knowledge: Knowledge, stop: f64, seeds: u64) -> Outcome {
    let (mut right, mut runs) = (0, 0);
    for seed in 0..seeds {
        let mut rng = Rng::new(seed + 77);
        let guilty = 1 + rng.below(COMMITS - 1);
        let costs = Costs { build: 0.0, run: 1.0 };
        let mut b = Bisection::new(COMMITS, knowledge, costs).unwrap();
        while b.total_runs() < 1000 {
            let settled = b.best().1 >= stop;
            if settled && (knowledge != Knowledge::Unknown || b.total_runs() >= 16) {
                break;
            }
            let step = b.next();
            for _ in 0..step.runs {
                b.observe(step.commit, 50.0 + f64::from(u8::from(step.commit >= guilty)) + rng.normal());
            }
        }
        right += u64::from(b.best().0 == guilty);
        runs += b.total_runs();
    }
    Outcome { right_percent: 100.0 * right as f64 / seeds as f64, runs_mean: runs as f64 / seeds as f64 }
}

/// Three runs a step, the mean decides: what `git bisect run` with a threshold does.
fn naive(seeds: u64) -> f64 {
    let right = (0..seeds).filter(|&seed| {
        let mut rng = Rng::new(seed + 77);
        let guilty = 1 + rng.below(COMMITS - 1);
        let (mut good, mut bad) = (0, COMMITS - 1);
        while bad - good > 1 {
            let middle = (good + bad) / 2;
            let level = f64::from(u8::from(middle >= guilty));
            let mean = (0..3).map(|_| level + rng.normal()).sum::<f64>() / 3.0;
            if mean > 0.5 { bad = middle } else { good = middle }
        }
        bad == guilty
    });
    100.0 * right.count() as f64 / seeds as f64
}

#[test]
fn effect_and_noise_given() {
    let r = evaluate(Knowledge::Given { old: 50.0, shift: 1.0, std_dev: 1.0 }, 0.97, 150);
    println!("given: {:.1}% right, {:.1} runs on average", r.right_percent, r.runs_mean);
    assert!(r.right_percent >= 97.0 && r.runs_mean <= 90.0, "{}% {}", r.right_percent, r.runs_mean);
}

#[test]
fn nothing_known() {
    let r = evaluate(Knowledge::Unknown, 0.97, 60);
    println!("unknown: {:.1}% right, {:.1} runs on average", r.right_percent, r.runs_mean);
    assert!(r.right_percent >= 95.0 && r.runs_mean <= 250.0, "{}% {}", r.right_percent, r.runs_mean);
}

#[test]
#[ignore = "a minute; prints the figures of docs/bench.md"]
fn the_figures_of_the_documentation() {
    let given = evaluate(Knowledge::Given { old: 50.0, shift: 1.0, std_dev: 1.0 }, 0.97, 2000);
    let unknown = evaluate(Knowledge::Unknown, 0.97, 1000);
    for (name, r) in [("given", given), ("unknown", unknown)] {
        println!("{name}: {:.1}% right, {:.1} runs on average", r.right_percent, r.runs_mean);
    }
}

#[test]
fn naive_bisection_fails_where_this_one_does_not() {
    let right = naive(1000);
    println!("naive: {right:.1}% right with 30 runs");
    assert!(right < 20.0, "{right}");
}

/// Equal layouts on both sides of a stretch make its commits unlikely, never impossible.
#[test]
fn the_layout_prior_moves_the_search() {
    let mut b = Bisection::new(64, Knowledge::Unknown, Costs { build: 5.0, run: 1.0 }).unwrap();
    b.set_layout(0, 1);
    b.set_layout(40, 1);
    b.set_layout(63, 2);
    let p = b.posterior();
    assert!(p[20] > 0.0 && p[20] < p[50] / 10.0, "{} {}", p[20], p[50]);
    assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    b.set_layout(39, 3);
    assert!((b.posterior()[20] - b.posterior()[50]).abs() < 1e-12);
}

#[test]
fn a_dear_build_makes_batches_and_reuses_what_is_built() {
    let mut rng = Rng::new(5);
    let mut b = Bisection::new(256, Knowledge::Unknown, Costs { build: 30.0, run: 1.0 }).unwrap();
    while b.best().1 < 0.97 && b.total_runs() < 500 {
        let step = b.next();
        for _ in 0..step.runs {
            b.observe(step.commit, f64::from(u8::from(step.commit >= 100)) * 3.0 + rng.normal());
        }
    }
    let built = (0..256).filter(|&c| b.built(c)).count();
    assert_eq!(b.best().0, 100);
    assert!(built < 20 && built < b.total_runs() / 2, "{built} builds, {} runs", b.total_runs());
    let levels = b.levels().unwrap();
    assert!((levels.new - levels.old - 3.0).abs() < 1.0 && levels.score() > 5.0);
}

#[test]
fn observations_without_sense_are_refused() {
    let mut b = Bisection::new(2, Knowledge::Unknown, Costs { build: 0.0, run: 1.0 }).unwrap();
    assert!(!b.observe(0, f64::NAN) && !b.observe(7, 1.0) && b.observe(1, 1.0));
    assert!(Bisection::new(1, Knowledge::Unknown, Costs { build: 0.0, run: 1.0 }).is_none());
    assert_eq!(b.best().0, 1);
}
