use super::*;
use crate::env::{Env, Note};
use crate::machine;
use crate::memory::{Cell, Shape, Words};
use std::sync::Arc;

/// What the tasks of a test do.
#[derive(Clone, Copy)]
enum What {
    Add,
    OwnLines,
    NobodyWakes,
    SpinForEver,
    PingPong,
    Oversubscribed,
    Handoff,
    /// Tries for ever what cannot succeed.
    Polite,
    /// Two locks in opposite order, by sleeping.
    Embrace,
    /// Spins on what nobody changes, until a time.
    SpinUntil,
    /// By compare-and-swap alone, as the public figures were measured.
    CasPingPong,
}

struct Test {
    memory: MemoryMap,
    cells: Vec<Cell>,
    what: What,
    tasks: usize,
    /// CPU of the second task.
    other: u32,
}

fn program(what: What, tasks: usize) -> Test {
    let shape = Arc::new(Shape::new("word", 64, &[("value", 0, 8)]));
    let mut memory = MemoryMap::new();
    let cells = memory.slab(&shape, tasks.max(2) as u32, 0).unwrap();
    Test { memory, cells, what, tasks, other: 1 }
}

impl Program for Test {
    fn tasks(&self) -> usize {
        self.tasks
    }

    fn memory(&self) -> &MemoryMap {
        &self.memory
    }

    fn init(&self, _: &mut dyn Words) {}

    fn pinned(&self, task: u32, cpus: u32) -> Option<u32> {
        Some(if task == 1 { self.other } else { task } % cpus)
    }

    async fn run<E: Env>(&self, env: &E) {
        let mut turn = u64::from(env.me());
        let (a, mine) = (self.cells[0], self.cells[env.me() as usize % self.cells.len()]);
        match self.what {
            What::NobodyWakes => {
                env.park().await;
            }
            What::SpinForEver => {
                env.spin(Spin::on(a, 0)).await;
            }
            What::Embrace => {
                let (first, second) = (env.me() as usize % 2, 1 - env.me() as usize % 2);
                env.add(self.cells[first], 1).await;
                env.compute(10_000).await;
                while env.cas(self.cells[second], 0, 1).await != 0 {
                    env.park().await;
                }
            }
            What::Polite => loop {
                if env.cas(a, 7, 8).await == 7 {
                    break;
                }
            },
            _ => {}
        }
        while !env.stopping() {
            match self.what {
                What::Add => drop(env.add(a, 1).await),
                What::OwnLines => drop(env.add(mine, 1).await),
                What::PingPong => {
                    let me = u64::from(env.me());
                    let seen = env.load(a).await;
                    if seen % 2 != me {
                        env.spin(Spin::on(a, seen)).await;
                        continue;
                    }
                    env.cas(a, seen, seen + 1).await;
                }
                What::CasPingPong => {
                    if env.cas(a, turn, turn + 1).await != turn {
                        continue;
                    }
                    turn += 2;
                }
                What::SpinUntil => {
                    let over = env.now_ns() + 10_000;
                    assert_eq!(env.spin(Spin::on(a, 0).until(over)).await, crate::env::SpinEnd::Expired);
                    assert!((over..over + 10).contains(&env.now_ns()), "{} for {over}", env.now_ns());
                }
                What::Oversubscribed => drop(env.compute(10_000).await),
                What::Handoff => {
                    env.unpark(env.me() ^ 1).await;
                    env.park().await;
                }
                _ => {}
            }
            env.note(Note::Done);
        }
        if matches!(self.what, What::Handoff | What::PingPong) {
            env.unpark(env.me() ^ 1).await;
            env.add(a, 1).await;
        }
    }

    fn check(&self, _: &mut dyn Words) -> Result<(), String> {
        Ok(())
    }
}

use crate::env::Spin;

fn run(what: What, tasks: usize, cpus: u32) -> Result<Simulated, SimError> {
    let machine = machine::find("2s-icelake-sp-96").unwrap();
    simulate(&program(what, tasks), &machine, &Config::new(cpus, 200_000, 7))
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let machine = machine::find("2s-icelake-sp-96").unwrap();
    let test = program(What::Add, 8);
    let runs: Vec<Simulated> =
        [1, 1, 2].map(|s| simulate(&test, &machine, &Config::new(8, 100_000, s)).unwrap()).into();
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].counters, runs[2].counters);
}

/// Bit-identical across builds: this figure is the same in debug and release, on any machine.
#[test]
fn a_known_run_never_changes() {
    let r = run(What::Add, 4, 4).unwrap();
    assert_eq!((r.operations, r.counters.transfers, r.counters.events), KNOWN);
}

const KNOWN: (u64, u64, u64) = (15676, 3919, 11757);

#[test]
fn a_shared_counter_costs_a_transfer_and_own_lines_cost_nothing() {
    let shared = run(What::Add, 2, 2).unwrap();
    let own = run(What::OwnLines, 2, 2).unwrap();
    assert!(own.throughput() > 2.0 * shared.throughput(), "{} {}", own.throughput(), shared.throughput());
    assert!(own.counters.transfers <= 2);
    assert!(shared.counters.hit_modified > 1_000);
    assert!(shared.fairness() > 0.95);
    assert_eq!(shared.by_field[0].0, "word.value");
}

#[test]
fn ping_pong_by_spinning_loads_takes_a_read_and_an_upgrade() {
    // An upgrade of three legs of 25.5 ns, of which the spinner's copy goes with the second; half a pause of 45 ns; a
    // read of which two legs are left when the upgrade has arrived.
    let hop = |migratory| {
        let mut machine = machine::find("2s-icelake-sp-96").unwrap();
        machine.core.migratory = migratory;
        let r = simulate(&program(What::PingPong, 2), &machine, &Config::new(2, 200_000, 7)).unwrap();
        r.measured_ns as f64 / r.operations as f64
    };
    assert!((125.0..160.0).contains(&hop(false)), "{} ns per hand-over", hop(false));
    // Where reading moves the line there is nothing to upgrade.
    assert!((51.0..105.0).contains(&hop(true)), "{} ns per hand-over", hop(true));
}

/// The figures of a profile are medians of ping-pong: simulated ping-pong must give them back.
#[test]
fn simulated_ping_pong_gives_every_profile_back() {
    for m in machine::built_in() {
        for other in 1..m.cpus() {
            let distance = m.distance(0, other);
            if (1..other).any(|o| m.distance(0, o) == distance) {
                continue;
            }
            let test = Test { other, ..program(What::CasPingPong, 2) };
            let config = Config { jitter: 0.0, ..Config::new(m.cpus(), 100_000, 7) };
            let r = simulate(&test, &m, &config).unwrap();
            let (hop, known) = (r.measured_ns as f64 / r.operations as f64, m.latency(distance));
            // Near transfers may undercut the tenure; who waits asks again after a failed operation or before.
            let most = known.max(known / 2.0 + m.core.tenure_ns) + m.core.rmw_ns;
            assert!((known - 0.5..most).contains(&hop), "{} {distance:?}: {hop} ns for {known}", m.name);
        }
    }
}

#[test]
fn deadlocks_are_found_and_named() {
    let error = run(What::NobodyWakes, 2, 2).unwrap_err().to_string();
    assert!(error.contains("deadlock") && error.contains("nobody wakes it"), "{error}");
    let error = run(What::SpinForEver, 1, 1).unwrap_err().to_string();
    assert!(error.contains("spins while word.value is 0"), "{error}");
}

#[test]
fn a_deadly_embrace_names_the_locks() {
    let error = run(What::Embrace, 2, 2).unwrap_err().to_string();
    assert!(error.contains("deadlock") && error.contains("last changed word.value"), "{error}");
}

#[test]
fn livelocks_are_found_and_named() {
    let machine = machine::find("2s-icelake-sp-96").unwrap();
    let config = Config { idle_events_max: 100_000, ..Config::new(2, 200_000, 7) };
    let error = simulate(&program(What::Polite, 2), &machine, &config).unwrap_err();
    assert!(matches!(error, SimError::Livelock { .. }));
    let text = error.to_string();
    assert!(text.contains("livelock") && text.contains("compare-and-swap of word.value"), "{text}");
}

#[test]
fn more_tasks_than_cpus_share_them_fairly() {
    let machine = machine::find("2s-icelake-sp-96").unwrap();
    let r = simulate(&program(What::Oversubscribed, 6), &machine, &Config::new(2, 60_000_000, 7)).unwrap();
    assert!(r.fairness() > 0.9, "{}", r.fairness());
    assert!(r.counters.preemptions >= 20);
    let busy = r.operations as f64 * 10_000.0 / (2.0 * r.measured_ns as f64);
    assert!((0.98..1.01).contains(&busy), "{busy}");
}

#[test]
fn a_wake_up_costs_its_latency() {
    let r = run(What::Handoff, 2, 2).unwrap();
    let ns = r.measured_ns as f64 / r.operations as f64;
    assert!((1_500.0..6_000.0).contains(&ns), "{ns}");
    assert!(r.counters.switches >= r.operations);
}

#[test]
fn spins_end_at_their_time() {
    let r = run(What::SpinUntil, 2, 2).unwrap();
    assert!((38..=40).contains(&r.operations), "{}", r.operations);
    assert!(r.counters.spin_ns > 390_000, "{}", r.counters.spin_ns);
}

#[test]
fn bad_configurations_are_refused() {
    assert!(matches!(run(What::Add, 2, 0), Err(SimError::Cpus { .. })));
    assert!(matches!(run(What::Add, 2, 97), Err(SimError::Cpus { .. })));
}
