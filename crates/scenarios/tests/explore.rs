//! Every interleaving of two or three tasks, under total store order, for every lock.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use tussle_scenarios::Nodes;
use tussle_scenarios::locks::{
    self, SleepLock, SleepWords, percpu, rwsem, seqcount, spin, spin::SpinLock, vma,
};
use tussle_sim::explore::{Explored, Fault, Limits, explore};
use tussle_sim::{Cell, Env, MemoryMap, Note, Op, Program, Shape, Words};

#[derive(Clone)]
enum Lock {
    Spin(SpinLock),
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
                (Lock::Spin(l), _) => {
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
    for name in SpinLock::NAMES {
        let of =
            |tasks, rounds| case(|c, n| Lock::Spin(SpinLock::new(name, c, n).unwrap()), tasks, 0, rounds);
        passes(&of(2, 2), quick);
        passes(&of(3, 1), if name == "queued" { strict } else { quick });
    }
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

/// Writers of the modern semaphore spin for readers for a while: with the end of that time at every possible moment.
#[test]
fn spins_that_expire_lose_nobody() {
    let limits = Limits { rescheds: 2, ..Limits::default() };
    let done = passes(&sleeping(locks::Kind::Rwsem, 1, 1, 1), limits);
    let never = passes(&sleeping(locks::Kind::Rwsem, 1, 1, 1), Limits { rescheds: 0, ..limits });
    assert!(done.states > never.states, "no spin ended early: {done:?} {never:?}");
    for (writers, readers) in [(2, 1), (1, 2)] {
        let strict = Limits { late_stores: false, rescheds: 1, states: 150_000, ..limits };
        no_fault_within(&sleeping(locks::Kind::Rwsem, writers, readers, 1), strict);
    }
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

/// Writers excluded by a spinlock behind a sequence; readers take what did not change meanwhile.
struct Sequence {
    memory: MemoryMap,
    seq: seqcount::SeqCount,
    lock: spin::TestAndSet,
    data: Cell,
    writers: usize,
}

impl Program for Sequence {
    fn tasks(&self) -> usize {
        self.writers + 1
    }
    fn memory(&self) -> &MemoryMap {
        &self.memory
    }
    fn init(&self, _: &mut dyn Words) {}

    async fn run<E: Env>(&self, e: &E) {
        let (a, b) = (self.data, self.data.field(1));
        if (e.me() as usize) < self.writers {
            self.lock.lock(e).await;
            self.seq.write_begin(e).await;
            let seen = e.load(a).await;
            e.store(a, seen + 1).await;
            e.store(b, seen + 1).await;
            self.seq.write_end(e).await;
            self.lock.unlock(e).await;
            return;
        }
        let begun = self.seq.begin(e).await;
        let pair = (e.load(a).await, e.load(b).await);
        assert!(self.seq.changed(e, begun).await || pair.0 == pair.1, "a torn read was taken for good");
    }

    fn check(&self, w: &mut dyn Words) -> Result<(), String> {
        let got = (w.get(self.data), w.get(self.seq.word));
        let n = self.writers as u64;
        (got == (n, 2 * n)).then_some(()).ok_or(format!("data and sequence are {got:?}"))
    }
}

#[test]
fn a_sequence_never_lets_a_torn_read_pass() {
    for writers in [1, 2] {
        let mut memory = MemoryMap::new();
        let fields = [("seq", 0, 4), ("lock", 4, 4), ("a", 8, 8), ("b", 16, 8)];
        let c = memory.object(&Arc::new(Shape::new("guarded", 24, &fields)), 0).unwrap();
        let (seq, lock) = (seqcount::SeqCount { word: c }, spin::TestAndSet { word: c.field(1) });
        let program = Sequence { memory, seq, lock, data: c.field(2), writers };
        match explore(&program, Limits::default()) {
            Ok(done) => assert!(done.complete && done.ends > 0, "{done:?}"),
            Err(fault) => panic!("{fault}"),
        }
    }
}

/// A CPU uses its own lists while others drain them.
struct Drained {
    memory: MemoryMap,
    lock: percpu::PerCpuLock,
    data: Cell,
    others: usize,
}

impl Program for Drained {
    fn tasks(&self) -> usize {
        1 + self.others
    }
    fn memory(&self) -> &MemoryMap {
        &self.memory
    }
    fn init(&self, _: &mut dyn Words) {}

    async fn run<E: Env>(&self, e: &E) {
        let (count, skipped) = (self.data, self.data.field(1));
        if e.me() > 0 {
            self.lock.enter_remote(e).await;
            let seen = e.load(count).await;
            e.store(count, seen + 1).await;
            self.lock.leave_remote(e).await;
        } else if self.lock.enter(e).await {
            let seen = e.load(count).await;
            e.store(count, seen + 1).await;
            self.lock.leave(e).await;
        } else {
            // The zone it is: nobody waits for a drain.
            e.add(skipped, 1).await;
        }
    }

    fn check(&self, w: &mut dyn Words) -> Result<(), String> {
        let got = w.get(self.data) + w.get(self.data.field(1));
        (got == self.tasks() as u64).then_some(()).ok_or(format!("{got} of {} uses counted", self.tasks()))
    }
}

#[test]
fn per_cpu_lists_are_never_used_and_drained_at_once() {
    for kind in [percpu::Kind::Spin, percpu::Kind::SpinIrq] {
        for others in [1, 2] {
            let mut memory = MemoryMap::new();
            let fields = [("lock", 0, 4), ("count", 8, 8), ("skipped", 16, 8)];
            let c = memory.object(&Arc::new(Shape::new("lists", 24, &fields)), 0).unwrap();
            let nodes = Nodes::new(&mut memory, 3).unwrap();
            let lock = percpu::PerCpuLock { kind, spin: spin::Queued { word: c, nodes }, irq_ns: 9 };
            let limits = Limits { late_stores: others == 1, ..Limits::default() };
            match explore(&Drained { memory, lock, data: c.field(1), others }, limits) {
                Ok(done) => assert!(done.complete && done.ends > 0, "{done:?}"),
                Err(fault) => panic!("{fault}"),
            }
        }
    }
}

/// Page faults against a writer that changes, takes out and replaces an area, with each of the locks.
struct Areas {
    memory: MemoryMap,
    lock: vma::VmaLock,
    word: Cell,
    seq: Cell,
    state: Cell,
    faults: usize,
    detach: bool,
}

fn areas(kind: vma::Kind, faults: usize, detach: bool) -> Areas {
    let mut memory = MemoryMap::new();
    let mut fields: Vec<(&str, u32, u8)> =
        (0..6).map(|i| (SleepWords::FIELDS[i as usize], i * 8, 8)).collect();
    let more = ["pointer", "vm_lock_seq", "detached", "refcnt", "waiter", "mm_lock_seq", "state", "inside"];
    fields.extend(more.iter().zip(6..).map(|(&n, i)| (n, i * 8, 8)));
    let c = memory.object(&Arc::new(Shape::new("area", 112, &fields)), 0).unwrap();
    let nodes = Nodes::new(&mut memory, faults + 1).unwrap();
    let sem = rwsem::Rwsem { words: SleepWords::at(c), nodes, spin: false, steal: true };
    let (seq, detached) = (c.field(7), c.field(8));
    let lock = match kind {
        vma::Kind::Split => vma::VmaLock::Sem { sem, pointer: Some(c.field(6)), seq, detached },
        vma::Kind::Merged => vma::VmaLock::Sem { sem, pointer: None, seq, detached },
        vma::Kind::Count => {
            vma::VmaLock::Count { lock: vma::RefLock { word: c.field(9), waiter: c.field(10) }, seq }
        }
    };
    Areas { memory, lock, word: c.field(9), seq: c.field(11), state: c.field(12), faults, detach }
}

impl Program for Areas {
    fn tasks(&self) -> usize {
        1 + self.faults
    }
    fn memory(&self) -> &MemoryMap {
        &self.memory
    }
    fn init(&self, w: &mut dyn Words) {
        w.set(self.word, 1);
        // The sequence of an area that nobody writes differs from the mm's.
        w.set(self.seq, 2);
    }

    async fn run<E: Env>(&self, e: &E) {
        if e.me() == 0 {
            // Under the mm's lock, which this single writer stands for.
            e.add(self.seq, 1).await;
            self.lock.write(e, 3).await;
            e.store(self.state, 1).await;
            if self.detach {
                self.lock.detach(e).await;
            }
            e.store(self.state, 2).await;
            e.swap(self.seq, 4).await;
            return;
        }
        let seen = e.load(self.seq).await;
        if seen & 1 == 0 && self.lock.try_read(e, seen + 1).await {
            let first = e.load(self.state).await;
            let last = e.load(self.state).await;
            assert!(first == last && first != 1, "the area changed under a fault: {first} {last}");
            self.lock.read_unlock(e).await;
        }
    }

    fn check(&self, w: &mut dyn Words) -> Result<(), String> {
        let left = if matches!(self.lock, vma::VmaLock::Count { .. }) { w.get(self.word) } else { 1 };
        let want = u64::from(!(self.detach && matches!(self.lock, vma::VmaLock::Count { .. })));
        (left == want).then_some(()).ok_or(format!("{left} references left"))
    }
}

#[test]
fn no_area_changes_under_a_fault() {
    for (name, kind) in vma::Kind::NAMES {
        for detach in [false, true] {
            println!("{name} detach {detach}");
            match explore(&areas(kind, 1, detach), Limits::default()) {
                Ok(done) => assert!(done.complete && done.ends > 0, "{done:?}"),
                Err(fault) => panic!("{name}: {fault}"),
            }
            let limits = Limits { late_stores: false, states: 100_000, ..Limits::default() };
            if let Err(fault) = explore(&areas(kind, 2, detach), limits) {
                panic!("{name}: {fault}");
            }
        }
    }
}

/// More references than the limit are refused, and so is a detached area.
#[test]
fn a_full_or_detached_reference_count_refuses() {
    struct Full(MemoryMap, vma::RefLock, u64);
    impl Program for Full {
        fn tasks(&self) -> usize {
            1
        }
        fn memory(&self) -> &MemoryMap {
            &self.0
        }
        fn init(&self, w: &mut dyn Words) {
            w.set(self.1.word, self.2);
        }
        async fn run<E: Env>(&self, e: &E) {
            let got = self.1.try_read(e).await;
            assert_eq!(got, self.2 == 1, "{}", self.2);
        }
        fn check(&self, _: &mut dyn Words) -> Result<(), String> {
            Ok(())
        }
    }
    for count in [0, 1, vma::LIMIT, vma::LIMIT + 1, vma::WRITER | 1] {
        let mut memory = MemoryMap::new();
        let c = memory.object(&Arc::new(Shape::new("a", 16, &[("n", 0, 4), ("w", 8, 8)])), 0).unwrap();
        let lock = vma::RefLock { word: c, waiter: c.field(1) };
        explore(&Full(memory, lock, count), Limits::default()).unwrap();
    }
}
