//! Nobody starves: a writer among readers that hardly pause, a reader among writers that hardly pause, for every lock
//! that lets its waiters sleep; and every spinlock serves everyone.

use std::sync::Arc;
use tussle_scenarios::Nodes;
use tussle_scenarios::locks::{Kind, SleepLock, SleepWords, spin};
use tussle_sim::{Cell, Config, Env, MemoryMap, Note, Program, Run, Shape, Words, machine, simulate};

enum Lock {
    Sleep(SleepLock),
    Tas(spin::TestAndSet),
    Ticket(spin::Ticket),
    Mcs(spin::Mcs),
    Queued(spin::Queued),
}

/// Tasks below `writers` write, the others read.
struct Crowd {
    memory: MemoryMap,
    lock: Lock,
    writers: u32,
    tasks: u32,
}

fn crowd(make: impl FnOnce(Cell, &Nodes) -> Lock, writers: u32, readers: u32) -> Crowd {
    let mut memory = MemoryMap::new();
    let fields: Vec<(&str, u32, u8)> = (0..6).map(|i| (SleepWords::FIELDS[i as usize], i * 8, 8)).collect();
    let lock = memory.object(&Arc::new(Shape::new("lock", 48, &fields)), 0).unwrap();
    let tasks = writers + readers;
    let nodes = Nodes::new(&mut memory, tasks as usize).unwrap();
    let lock = make(lock, &nodes);
    Crowd { memory, lock, writers, tasks }
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
                Lock::Tas(l) => {
                    l.lock(e).await;
                    e.compute(100).await;
                    l.unlock(e).await;
                }
                Lock::Ticket(l) => {
                    l.lock(e).await;
                    e.compute(100).await;
                    l.unlock(e).await;
                }
                Lock::Mcs(l) => {
                    l.lock(e).await;
                    e.compute(100).await;
                    l.unlock(e).await;
                }
                Lock::Queued(l) => {
                    l.lock(e).await;
                    e.compute(100).await;
                    l.unlock(e).await;
                }
            }
            e.note(Note::Done);
            // Without any pause whoever unlocks takes a lock that can be stolen again before its line has left.
            e.compute(200).await;
        }
    }

    fn check(&self, _: &mut dyn Words) -> Result<(), String> {
        Ok(())
    }
}

/// Runs on as many CPUs as tasks, or on fewer.
fn run(program: &Crowd, cpus: u32, ms: u64) -> Run {
    let machine = machine::find("2s-icelake-sp-96").unwrap();
    simulate(program, &machine, &Config::new(cpus, ms * 1_000_000, 5)).unwrap()
}

fn sleeping(kind: Kind, writers: u32, readers: u32) -> Crowd {
    crowd(|c, n| Lock::Sleep(SleepLock::new(kind, SleepWords::at(c), n)), writers, readers)
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
    let ticket = |c: Cell, _: &Nodes| Lock::Ticket(spin::Ticket { next: c, serving: c.field(1) });
    let mcs = |c, n: &Nodes| Lock::Mcs(spin::Mcs { tail: c, nodes: n.clone() });
    let queued = |c, n: &Nodes| Lock::Queued(spin::Queued { word: c, nodes: n.clone() });
    for fair in [crowd(ticket, 8, 0), crowd(mcs, 8, 0), crowd(queued, 8, 0)] {
        let r = run(&fair, 8, 2);
        assert!(r.fairness() > 0.99, "{:?}", r.by_task);
    }
    let r = run(&crowd(|c, _| Lock::Tas(spin::TestAndSet { word: c }), 8, 0), 8, 5);
    assert!(r.by_task.iter().all(|&n| n > 0), "{:?}", r.by_task);
}
