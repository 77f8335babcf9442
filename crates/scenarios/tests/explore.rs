//! Every interleaving of two or three tasks, under total store order, for every lock.

use std::sync::Arc;
use tussle_scenarios::Nodes;
use tussle_scenarios::locks::{self, SleepLock, SleepWords, rwsem, spin, vma};
use tussle_sim::explore::{Explored, Fault, Limits, explore};
use tussle_sim::{Cell, Env, MemoryMap, Note, Op, Program, Shape, Words};

#[derive(Clone)]
enum Lock {
    Tas(spin::TestAndSet),
    Ticket(spin::Ticket),
    Mcs(spin::Mcs),
    Queued(spin::Queued),
    Sleep(SleepLock),
    None,
}

/// `writers` add to a counter under the lock, in two steps; readers check that two cells agree.
struct Case {
    memory: MemoryMap,
    lock: Lock,
    data: Cell,
    rounds: u32,
    writers: usize,
    readers: usize,
    downgrade: bool,
}

fn case(make: impl FnOnce(Cell, &Nodes) -> Lock, writers: usize, readers: usize, rounds: u32) -> Case {
    let mut memory = MemoryMap::new();
    let fields: Vec<(&str, u32, u8)> = (0..6).map(|i| (SleepWords::FIELDS[i as usize], i * 8, 8)).collect();
    let lock = memory.object(&Arc::new(Shape::new("lock", 48, &fields)), 0).unwrap();
    let data = memory.object(&Arc::new(Shape::new("data", 16, &[("a", 0, 8), ("b", 8, 8)])), 0).unwrap();
    let nodes = Nodes::new(&mut memory, writers + readers).unwrap();
    let lock = make(lock, &nodes);
    Case { memory, lock, data, rounds, writers, readers, downgrade: false }
}

impl Case {
    async fn write<E: Env>(&self, e: &E) {
        let (a, b) = (self.data, self.data.field(1));
        let seen = e.load(a).await;
        e.store(a, seen + 1).await;
        e.store(b, seen + 1).await;
    }

    async fn read<E: Env>(&self, e: &E) {
        let (a, b) = (self.data, self.data.field(1));
        let seen = e.load(a).await;
        assert_eq!(seen, e.load(b).await, "a reader saw a half-made change");
    }
}

impl Program for Case {
    fn tasks(&self) -> usize {
        self.writers + self.readers
    }

    fn memory(&self) -> &MemoryMap {
        &self.memory
    }

    fn init(&self, _: &mut dyn Words) {}

    async fn run<E: Env>(&self, e: &E) {
        let writer = (e.me() as usize) < self.writers;
        for round in 0..self.rounds {
            e.note(Note::Mark(u64::from(round)));
            match (&self.lock, writer) {
                (Lock::None, _) => self.write(e).await,
                (Lock::Tas(l), _) => {
                    l.lock(e).await;
                    self.write(e).await;
                    l.unlock(e).await;
                }
                (Lock::Ticket(l), _) => {
                    l.lock(e).await;
                    self.write(e).await;
                    l.unlock(e).await;
                }
                (Lock::Mcs(l), _) => {
                    l.lock(e).await;
                    self.write(e).await;
                    l.unlock(e).await;
                }
                (Lock::Queued(l), _) => {
                    l.lock(e).await;
                    self.write(e).await;
                    l.unlock(e).await;
                }
                (Lock::Sleep(l), true) => {
                    l.lock(e).await;
                    self.write(e).await;
                    match l {
                        SleepLock::Rwsem(s) if self.downgrade => {
                            s.downgrade(e).await;
                            self.read(e).await;
                            s.read_unlock(e).await;
                        }
                        _ => l.unlock(e).await,
                    }
                }
                (Lock::Sleep(l), false) => {
                    l.lock_shared(e).await;
                    self.read(e).await;
                    l.unlock_shared(e).await;
                }
            }
        }
    }

    fn check(&self, w: &mut dyn Words) -> Result<(), String> {
        let want = self.writers as u64 * u64::from(self.rounds);
        let got = w.get(self.data);
        (got == want).then_some(()).ok_or(format!("{got} of {want} additions survived"))
    }
}

fn passes(case: &Case, limits: Limits) -> Explored {
    match explore(case, limits) {
        Ok(done) => {
            assert!(done.complete, "not explored to the end: {done:?}");
            println!("{done:?}");
            done
        }
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn the_explorer_finds_a_missing_lock() {
    let none = case(|_, _| Lock::None, 2, 0, 1);
    let Err(Fault::Check { what, .. }) = explore(&none, Limits::default()) else { panic!("not found") };
    assert_eq!(what, "1 of 2 additions survived");
}

#[test]
fn spinlocks_exclude_and_end() {
    let quick = Limits::default();
    let strict = Limits { late_stores: false, ..quick };
    passes(&case(|c, _| Lock::Tas(spin::TestAndSet { word: c }), 2, 0, 2), quick);
    passes(&case(|c, _| Lock::Tas(spin::TestAndSet { word: c }), 3, 0, 1), quick);
    passes(&case(|c, _| Lock::Ticket(spin::Ticket { next: c, serving: c.field(1) }), 2, 0, 2), quick);
    passes(&case(|c, _| Lock::Ticket(spin::Ticket { next: c, serving: c.field(1) }), 3, 0, 1), quick);
    passes(&case(|c, n| Lock::Mcs(spin::Mcs { tail: c, nodes: n.clone() }), 2, 0, 2), quick);
    passes(&case(|c, n| Lock::Mcs(spin::Mcs { tail: c, nodes: n.clone() }), 3, 0, 1), quick);
    passes(&case(|c, n| Lock::Queued(spin::Queued { word: c, nodes: n.clone() }), 2, 0, 2), quick);
    passes(&case(|c, n| Lock::Queued(spin::Queued { word: c, nodes: n.clone() }), 3, 0, 1), strict);
}

fn sleeping(kind: locks::Kind, writers: usize, readers: usize, rounds: u32) -> Case {
    case(|c, n| Lock::Sleep(SleepLock::new(kind, SleepWords::at(c), n)), writers, readers, rounds)
}

#[test]
fn every_sleeping_lock_excludes_two_tasks_and_wakes_them() {
    for (name, kind) in locks::Kind::NAMES {
        for (writers, readers) in [(2, 0), (1, 1)] {
            println!("{name} {writers}+{readers}");
            passes(&sleeping(kind, writers, readers, 1), Limits { rescheds: 1, ..Limits::default() });
        }
    }
}

/// No fault within a bounded number of states; says whether that was all of them.
fn no_fault_within(case: &Case, limits: Limits) {
    match explore(case, limits) {
        Ok(done) => println!("{done:?}"),
        Err(fault) => panic!("{fault}"),
    }
}

fn three_tasks(states: usize) {
    let limits = Limits { late_stores: false, states, ..Limits::default() };
    for (name, kind) in locks::Kind::NAMES {
        for (writers, readers) in [(3, 0), (2, 1), (1, 2)] {
            println!("{name} {writers}+{readers}");
            no_fault_within(&sleeping(kind, writers, readers, 1), limits);
        }
        println!("{name} twice");
        no_fault_within(&sleeping(kind, 2, 0, 2), Limits { rescheds: 1, ..limits });
    }
    let mut downgrading = sleeping(locks::Kind::Rwsem, 2, 1, 1);
    downgrading.downgrade = true;
    no_fault_within(&downgrading, limits);
}

#[test]
fn three_tasks_on_every_sleeping_lock() {
    three_tasks(15_000);
}

/// All interleavings of three tasks: minutes.
#[test]
#[ignore = "minutes; run with --ignored in release"]
fn three_tasks_on_every_sleeping_lock_to_the_end() {
    three_tasks(20_000_000);
}

#[test]
fn downgrading_lets_readers_in_and_loses_nobody() {
    let mut two = sleeping(locks::Kind::Rwsem, 1, 1, 1);
    two.downgrade = true;
    passes(&two, Limits { rescheds: 1, ..Limits::default() });
}

/// A spinner without a spin bit must not be needed for progress.
#[test]
fn a_semaphore_without_spinning_only_sleeps() {
    let make = |c, n: &Nodes| {
        let words = SleepWords::at(c);
        Lock::Sleep(SleepLock::Rwsem(rwsem::Rwsem { words, nodes: n.clone(), spin: false, steal: true }))
    };
    passes(&case(make, 2, 0, 1), Limits::default());
}

/// Readers of a reference-counted area against its detaching and reuse under another name.
struct Reuse {
    memory: MemoryMap,
    lock: vma::RefLock,
    name: Cell,
    inside: Cell,
    recheck: bool,
    readers: usize,
}

fn reuse(recheck: bool, readers: usize) -> Reuse {
    let mut memory = MemoryMap::new();
    let shape = Arc::new(Shape::new(
        "area",
        32,
        &[("count", 0, 4), ("waiter", 8, 8), ("name", 16, 8), ("in", 24, 8)],
    ));
    let c = memory.object(&shape, 0).unwrap();
    let lock = vma::RefLock { word: c, waiter: c.field(1) };
    Reuse { memory, lock, name: c.field(2), inside: c.field(3), recheck, readers }
}

impl Program for Reuse {
    fn tasks(&self) -> usize {
        1 + self.readers
    }

    fn memory(&self) -> &MemoryMap {
        &self.memory
    }

    fn init(&self, w: &mut dyn Words) {
        w.set(self.lock.word, 1);
        w.set(self.name, 1);
    }

    async fn run<E: Env>(&self, e: &E) {
        if e.me() == 0 {
            // The writer takes the area out, and its memory comes back as another area.
            self.lock.write_enter(e).await;
            self.lock.detach(e).await;
            assert_eq!(e.load(self.inside).await, 0, "recycled under a reader");
            e.store(self.name, 2).await;
            self.lock.attach(e).await;
            return;
        }
        // A reader found area 1 in the tree before.
        if self.lock.try_read(e).await {
            e.add(self.inside, 1).await;
            let name = e.load(self.name).await;
            if !self.recheck || name == 1 {
                assert_eq!(name, 1, "a reader uses the wrong area");
                assert_eq!(e.load(self.name).await, 1, "it changed under a reader");
            }
            e.add(self.inside, -1).await;
            self.lock.put(e).await;
        }
    }

    fn check(&self, w: &mut dyn Words) -> Result<(), String> {
        let got = (w.get(self.lock.word), w.get(self.name));
        (got == (1, 2)).then_some(()).ok_or(format!("count and name are {got:?}"))
    }
}

#[test]
fn a_recycled_area_is_never_used() {
    for readers in [1, 2] {
        match explore(&reuse(true, readers), Limits::default()) {
            Ok(done) => assert!(done.complete && done.ends > 0),
            Err(fault) => panic!("{fault}"),
        }
    }
}

#[test]
fn without_the_recheck_the_explorer_finds_the_use_of_a_recycled_area() {
    let run = std::panic::catch_unwind(|| explore(&reuse(false, 1), Limits::default()).is_err());
    assert!(run.is_err(), "the wrong area was not noticed");
}

/// Unused operations of the vocabulary still have to be accepted.
#[test]
fn yields_and_interrupts_change_nothing() {
    struct Idle(MemoryMap);
    impl Program for Idle {
        fn tasks(&self) -> usize {
            1
        }
        fn memory(&self) -> &MemoryMap {
            &self.0
        }
        fn init(&self, _: &mut dyn Words) {}
        async fn run<E: Env>(&self, e: &E) {
            e.op(Op::Yield).await;
            e.op(Op::Interrupt(7)).await;
            e.op(Op::Sleep(5)).await;
        }
        fn check(&self, _: &mut dyn Words) -> Result<(), String> {
            Ok(())
        }
    }
    assert!(explore(&Idle(MemoryMap::new()), Limits::default()).unwrap().complete);
}
