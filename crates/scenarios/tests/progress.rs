//! Nobody starves: a writer among readers that hardly pause, a reader among writers that hardly pause, for every lock
//! that lets its waiters sleep; and every spinlock serves everyone.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use tussle_scenarios::Nodes;
use tussle_scenarios::locks::{Kind, SleepLock, SleepWords, spin::SpinLock};
use tussle_sim::{Cell, Config, Env, MemoryMap, Note, Program, Shape, Simulated, Words, machine, simulate};

enum Lock {
    Sleep(SleepLock),
    Spin(SpinLock),
}

/// Tasks below `writers` write, the others read.
struct Crowd {
    memory: MemoryMap,
    lock: Lock,
    writers: u32,
    tasks: u32,
    pause_ns: u32,
}

fn crowd(make: impl FnOnce(Cell, &Nodes) -> Lock, writers: u32, readers: u32) -> Crowd {
    let mut memory = MemoryMap::new();
    let fields: Vec<(&str, u32, u8)> = (0..6).map(|i| (SleepWords::FIELDS[i as usize], i * 8, 8)).collect();
    let lock = memory.object(&Arc::new(Shape::new("lock", 48, &fields)), 0).unwrap();
    let tasks = writers + readers;
    let nodes = Nodes::new(&mut memory, tasks as usize).unwrap();
    let lock = make(lock, &nodes);
    Crowd { memory, lock, writers, tasks, pause_ns: 200 }
}

impl Program for Crowd {
    fn tasks(&self) -> usize {
        self.tasks as usize
    }
    fn memory(&self) -> &MemoryMap {
        &self.memory
    }
    fn init(&self, _: &mut dyn Words) {}

    async fn run<E: Env>(&self, e: &E) {
        let writes = e.me() < self.writers;
        while !e.stopping() {
            match &self.lock {
                Lock::Sleep(l) if writes => {
                    l.lock(e).await;
                    e.compute(300).await;
                    l.unlock(e).await;
                }
                Lock::Sleep(l) => {
                    l.lock_shared(e).await;
                    e.compute(300).await;
                    l.unlock_shared(e).await;
                }
                Lock::Spin(l) => {
                    l.lock(e).await;
                    e.compute(100).await;
                    l.unlock(e).await;
                }
            }
            e.note(Note::Done);
            // Without any pause whoever unlocks takes a lock that can be stolen again before its line has left.
            e.compute(self.pause_ns).await;
        }
    }

    fn check(&self, _: &mut dyn Words) -> Result<(), String> {
        Ok(())
    }
}

/// Runs on as many CPUs as tasks, or on fewer.
fn run(program: &Crowd, cpus: u32, ms: u64) -> Simulated {
    let machine = machine::find("2s-icelake-sp-96").unwrap();
    simulate(program, &machine, &Config::new(cpus, ms * 1_000_000, 5)).unwrap()
}

fn sleeping(kind: Kind, writers: u32, readers: u32) -> Crowd {
    let all = crowd(|c, n| Lock::Sleep(SleepLock::new(kind, SleepWords::at(c), n)), writers, readers);
    Crowd { pause_ns: pause_ns(kind), ..all }
}

/// Locks that hand over or serve in order do so for tasks that hardly pause. The others let whoever runs take the lock
/// before a sleeper that was woken: it starves while they hardly pause, which is what hand-off was invented for; there
/// it must get in when the lock is free now and then.
fn pause_ns(kind: Kind) -> u32 {
    if matches!(kind, Kind::Mutex | Kind::Rwsem | Kind::RwsemFair) { 200 } else { 20_000 }
}

#[test]
fn hand_off_serves_whom_the_mutex_before_it_starves() {
    let least = |kind| run(&Crowd { pause_ns: 200, ..sleeping(kind, 9, 0) }, 4, 40).by_task.into_iter().min();
    let (with, without) = (least(Kind::Mutex), least(Kind::Mutex310));
    assert!(with > Some(3) && with > without, "{with:?} {without:?}");
}

#[test]
fn a_writer_among_readers_that_hardly_pause_gets_in() {
    for (name, kind) in Kind::NAMES {
        for cpus in [4, 9] {
            let r = run(&sleeping(kind, 1, 8), cpus, 40);
            assert!(r.by_task[0] >= 3, "{name} on {cpus}: the writer got in {} times", r.by_task[0]);
            assert!(r.by_task[1..].iter().all(|&n| n >= 3), "{name} on {cpus}: {:?}", r.by_task);
        }
    }
}

#[test]
fn a_reader_among_writers_that_hardly_pause_gets_in() {
    for (name, kind) in Kind::NAMES {
        for cpus in [4, 9] {
            let r = run(&sleeping(kind, 8, 1), cpus, 60);
            assert!(r.by_task[8] >= 3, "{name} on {cpus}: the reader got in {} times", r.by_task[8]);
            assert!(r.by_task[..8].iter().all(|&n| n >= 3), "{name} on {cpus}: {:?}", r.by_task);
        }
    }
}

#[test]
fn spinlocks_serve_everyone_and_queues_serve_fairly() {
    for name in SpinLock::NAMES {
        let r = run(&crowd(|c, n| Lock::Spin(SpinLock::new(name, c, n).unwrap()), 8, 0), 8, 5);
        assert!(r.by_task.iter().all(|&n| n > 0), "{name}: {:?}", r.by_task);
        assert!(name == "test-and-set" || r.fairness() > 0.99, "{name}: {:?}", r.by_task);
    }
}
