//! Every story and every lock on real threads, with its objects right at the end.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;
use tussle_scenarios::atomic::run_threads;
use tussle_scenarios::locks::{self, SleepLock, SleepWords, seqcount::SeqCount, spin, spin::SpinLock};
use tussle_scenarios::{Nodes, Setup, Side, Story, World};
use tussle_sim::{Cell, Env, MemoryMap, Note, Program, Shape, Words};

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

#[test]
fn every_variant_of_every_story_on_real_threads() {
    for story in Story::ALL {
        for name in story.about().variants {
            let mut setup = Setup::new(3);
            setup.phase = 3;
            setup.think = 0.1;
            let world = World::build(story, &Side::Name((*name).into()), &setup).unwrap();
            let run = run_threads(&world, cpus(), Duration::from_millis(60), 5, |_, _| {});
            match run {
                Ok(run) => assert!(run.throughput() > 0.0, "{} {name}: nothing done", story.about().name),
                Err(e) => panic!("{} {name}: {e}", story.about().name),
            }
        }
    }
}

enum Lock {
    Spin(SpinLock),
    Sleep(SleepLock),
    Seq(SeqCount, spin::TestAndSet),
}

/// Writers add to two cells; readers must see them equal.
struct Stress {
    memory: MemoryMap,
    lock: Lock,
    data: Cell,
    tasks: u32,
    rounds: u64,
}

impl Stress {
    fn add(&self, w: &mut dyn Words) {
        for i in 0..2 {
            let v = w.get(self.data.field(i));
            w.set(self.data.field(i), v + 1);
        }
    }

    fn equal(&self, w: &mut dyn Words) -> bool {
        w.get(self.data) == w.get(self.data.field(1))
    }
}

impl Program for Stress {
    fn tasks(&self) -> usize {
        self.tasks as usize
    }
    fn memory(&self) -> &MemoryMap {
        &self.memory
    }
    fn init(&self, _: &mut dyn Words) {}

    async fn run<E: Env>(&self, e: &E) {
        for round in 0..self.rounds {
            let reads = round % 4 == 3;
            match &self.lock {
                Lock::Spin(l) => {
                    l.lock(e).await;
                    e.work(|w| self.add(w)).await;
                    l.unlock(e).await;
                }
                Lock::Sleep(l) => {
                    l.lock(e).await;
                    e.work(|w| self.add(w)).await;
                    l.unlock(e).await;
                    if reads {
                        l.lock_shared(e).await;
                        assert!(e.work(|w| self.equal(w)).await, "a reader saw a half-made change");
                        l.unlock_shared(e).await;
                    }
                }
                Lock::Seq(seq, l) => {
                    l.lock(e).await;
                    seq.write_begin(e).await;
                    let seen = e.load(self.data).await;
                    e.store(self.data, seen + 1).await;
                    e.store(self.data.field(1), seen + 1).await;
                    seq.write_end(e).await;
                    l.unlock(e).await;
                    let begun = seq.begin(e).await;
                    let pair = (e.load(self.data).await, e.load(self.data.field(1)).await);
                    assert!(
                        seq.changed(e, begun).await || pair.0 == pair.1,
                        "a torn read was taken for good"
                    );
                }
            }
            e.note(Note::Done);
        }
    }

    fn check(&self, w: &mut dyn Words) -> Result<(), String> {
        let (got, want) = (w.get(self.data), u64::from(self.tasks) * self.rounds);
        (got == want && self.equal(w)).then_some(()).ok_or(format!("{got} of {want} additions survived"))
    }
}

fn stress(name: &str, make: impl FnOnce(Cell, &Nodes) -> Lock) {
    let mut memory = MemoryMap::new();
    let fields: Vec<(&str, u32, u8)> = (0..6).map(|i| (SleepWords::FIELDS[i as usize], i * 8, 8)).collect();
    let cell = memory.object(&Arc::new(Shape::new("lock", 48, &fields)), 0).unwrap();
    let data = memory.object(&Arc::new(Shape::new("data", 16, &[("a", 0, 8), ("b", 8, 8)])), 0).unwrap();
    let nodes = Nodes::new(&mut memory, 4).unwrap();
    let lock = make(cell, &nodes);
    let test = Stress { memory, lock, data, tasks: 4, rounds: 4_000 };
    if let Err(e) = run_threads(&test, cpus(), Duration::from_millis(1), 1, |_, _| {}) {
        panic!("{name}: {e}");
    }
}

#[test]
fn every_lock_excludes_on_real_threads() {
    for name in SpinLock::NAMES {
        stress(name, |c, n| Lock::Spin(SpinLock::new(name, c, n).unwrap()));
    }
    stress("seqcount", |c, _| Lock::Seq(SeqCount { word: c }, spin::TestAndSet { word: c.field(1) }));
    for (name, kind) in locks::Kind::NAMES {
        stress(name, |c, n| Lock::Sleep(SleepLock::new(kind, SleepWords::at(c), n)));
    }
}
