//! How often the verdicts are wrong: simulated A/A and A/B comparisons with fixed seeds.
//!
//! The short form runs with every test run. The long form prints the table of `docs/calibration.md`:
//! `cargo test --release -p tussle-bench --test calibration -- --ignored --nocapture`

#![allow(clippy::unwrap_used)]

use tussle_bench::design::{Order, plan, round};
use tussle_bench::{Criterion, verdict};
use tussle_stats::{Rng, permutation, welch};

/// What disturbs neighbouring runs. All have a standard deviation of about 2% of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Noise {
    /// Independent.
    White,
    /// Autoregressive with this lag-1 correlation.
    Auto(f64),
    /// Autoregressive 0.6 on a slow drift of 10% over the session.
    Drift,
    /// Autoregressive 0.6, and one run in twenty is 10% slower.
    Outliers,
    /// A machine that changes between two speeds 4% apart.
    TwoSpeeds,
}

const ALL: [Noise; 6] =
    [Noise::White, Noise::Auto(0.6), Noise::Auto(0.9), Noise::Drift, Noise::Outliers, Noise::TwoSpeeds];

struct Machine {
    noise: Noise,
    state: f64,
    runs: f64,
    rng: Rng,
}

impl Machine {
    fn new(noise: Noise, seed: u64) -> Machine {
        let mut rng = Rng::new(seed);
        let state = rng.normal();
        Machine { noise, state, runs: 0.0, rng }
    }

    /// ln of the next run's time.
    fn run(&mut self) -> f64 {
        let rng = &mut self.rng;
        let mut auto = |r: f64, state: &mut f64| {
            *state = r * *state + (1.0 - r * r).sqrt() * rng.normal();
            0.02 * *state
        };
        self.runs += 1.0;
        match self.noise {
            Noise::White => 0.02 * rng.normal(),
            Noise::Auto(r) => auto(r, &mut self.state),
            Noise::Drift => auto(0.6, &mut self.state) + 0.1 * self.runs / 40.0,
            Noise::Outliers => auto(0.6, &mut self.state) + if rng.uniform() < 0.05 { 0.1 } else { 0.0 },
            Noise::TwoSpeeds => {
                if rng.uniform() < 0.1 {
                    self.state = -self.state;
                }
                0.02 * self.state.signum() + 0.003 * rng.normal()
            }
        }
    }
}

/// ln(b/a) of each pair of a session with a true effect.
fn session(noise: Noise, pairs: usize, effect: f64, seed: u64) -> Vec<f64> {
    let mut machine = Machine::new(noise, seed);
    (0..pairs).map(|pair| one_pair(&mut machine, pair, effect, seed)).collect()
}

fn one_pair(machine: &mut Machine, pair: usize, effect: f64, seed: u64) -> f64 {
    let mut value = [0.0; 2];
    for slot in round(seed, pair, 2, false) {
        value[slot.arm] = machine.run() + effect * slot.arm as f64;
    }
    value[1] - value[0]
}

#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    /// A/A sessions called different, %.
    false_positives: f64,
    /// A/B sessions (+5%) whose interval holds the truth, %.
    coverage: f64,
    /// A/B sessions (+5%) that found it, %.
    power: f64,
    /// Mean pairs of an A/B session.
    pairs: f64,
}

/// The default design: a fixed number of pairs.
fn fixed(noise: Noise, pairs: usize, sessions: u64) -> Rates {
    let mut r = Rates { pairs: pairs as f64 * sessions as f64, ..Rates::default() };
    let effect = 0.05f64.ln_1p();
    for seed in 0..sessions {
        let interval = |d: &[f64]| verdict::interval(d, 0.95, false).unwrap();
        let aa = interval(&session(noise, pairs, 0.0, seed));
        let ab = interval(&session(noise, pairs, effect, seed + 1_000_000));
        r.false_positives += f64::from(!aa.contains(0.0));
        r.coverage += f64::from(ab.contains(effect));
        r.power += f64::from(!ab.contains(0.0));
    }
    r.percent(sessions)
}

/// `--until decided`: looked at after every pair. A false positive is an improvement or a regression reported where
/// there is
/// none; coverage is that of the interval reported at the end, whenever that is.
fn until_decided(noise: Noise, pairs_max: usize, sessions: u64) -> Rates {
    let mut r = Rates::default();
    let effect = 0.05f64.ln_1p();
    for seed in 0..sessions {
        let aa = stopped(noise, pairs_max, 0.0, seed);
        r.false_positives += f64::from(excludes_zero(&aa));
        let ab = stopped(noise, pairs_max, effect, seed + 1_000_000);
        r.pairs += ab.len() as f64;
        r.power += f64::from(excludes_zero(&ab));
        r.coverage += f64::from(verdict::interval(&ab, 0.95, true).is_none_or(|i| i.contains(effect)));
    }
    r.percent(sessions)
}

fn excludes_zero(d: &[f64]) -> bool {
    verdict::interval(d, 0.95, true).is_some_and(|i| !i.contains(0.0))
}

fn stopped(noise: Noise, pairs_max: usize, effect: f64, seed: u64) -> Vec<f64> {
    let mut machine = Machine::new(noise, seed);
    let mut d = Vec::new();
    while d.len() < pairs_max && !verdict::decided(&d, Criterion::default()) {
        d.push(one_pair(&mut machine, d.len(), effect, seed));
    }
    d
}

impl Rates {
    fn percent(self, sessions: u64) -> Rates {
        let share = |x: f64| 100.0 * x / sessions as f64;
        Rates {
            false_positives: share(self.false_positives),
            coverage: share(self.coverage),
            power: share(self.power),
            pairs: self.pairs / sessions as f64,
        }
    }
}

/// A..AB..B with Welch's test: what tussle does not do.
fn blocked(noise: Noise, runs: usize, sessions: u64) -> f64 {
    let called = (0..sessions).filter(|&seed| {
        let mut machine = Machine::new(noise, seed);
        let mut arms = [Vec::new(), Vec::new()];
        for slot in plan(Order::Blocked, seed, 2, 0, runs) {
            arms[slot.arm].push(machine.run());
        }
        welch::welch(&arms[0], &arms[1]).is_some_and(|t| t.p < 0.05)
    });
    100.0 * called.count() as f64 / sessions as f64
}

#[test]
fn the_default_design_keeps_its_promises() {
    for noise in ALL {
        for pairs in [8, 20] {
            let r = fixed(noise, pairs, 3000);
            assert!((4.0..=6.0).contains(&r.false_positives), "{noise:?} {pairs} {r:?}");
            assert!((94.0..=96.0).contains(&r.coverage), "{noise:?} {pairs} {r:?}");
        }
    }
    let blocks = blocked(Noise::Auto(0.6), 12, 1000);
    assert!(blocks > 20.0, "blocks must be seen to fail: {blocks}%");
}

#[test]
fn until_decided_keeps_its_promises() {
    for noise in [Noise::Auto(0.6), Noise::Outliers] {
        let r = until_decided(noise, 60, 150);
        assert!(r.false_positives <= 6.0 && r.coverage >= 94.0, "{noise:?} {r:?}");
        assert!(r.power > 80.0, "{noise:?} {r:?}");
    }
}

#[test]
fn sign_flips_are_exact_under_any_noise() {
    for noise in [Noise::Outliers, Noise::TwoSpeeds] {
        let called = (0..1000)
            .filter(|&seed| {
                let d = session(noise, 8, 0.0, seed);
                permutation::sign_flip(&d, 0, &mut Rng::new(1)).unwrap() <= 0.05
            })
            .count();
        assert!(called <= 65, "{noise:?} {called} of 1000");
    }
}

#[test]
#[ignore = "minutes; prints the table of docs/calibration.md"]
fn the_table_of_the_documentation() {
    println!(
        "| noise | design | A/A called different | A/B: interval holds the truth | A/B (+5%) found | pairs |"
    );
    println!("|---|---|---|---|---|---|");
    let row = |noise: Noise, design: &str, r: Rates| {
        let Rates { false_positives, coverage, power, pairs } = r;
        println!(
            "| {noise:?} | {design} | {false_positives:.1}% | {coverage:.1}% | {power:.1}% | {pairs:.1} |"
        );
    };
    for noise in ALL {
        for pairs in [8, 12, 20] {
            row(noise, &format!("{pairs} pairs"), fixed(noise, pairs, 20_000));
        }
        row(noise, "until decided, at most 100", until_decided(noise, 100, 4_000));
        println!("| {noise:?} | blocks of 12, Welch | {:.1}% | | | |", blocked(noise, 12, 20_000));
    }
}
