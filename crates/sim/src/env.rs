//! What lock code is written against. The same async functions run in the simulator, in the explorer of all
//! interleavings, and on real threads.

use crate::memory::{Cell, Words};
use std::future::Future;

/// One operation of a task. Values are the cell's width; wider results wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Acquire load.
    Load(Cell),
    /// Acquire load of a word that a compare-and-swap will follow: processors request the line exclusively already.
    LoadForCas(Cell),
    /// Release store; buffered, visible to others when it commits.
    Store(Cell, u64),
    /// Release store that clears these bits and leaves the others: the byte store by which a queued spinlock is
    /// released.
    Clear(Cell, u64),
    /// Compare-and-swap (cell, old, new); returns what was there.
    Cas(Cell, u64, u64),
    /// Fetch-and-add; returns what was there.
    Add(Cell, u64),
    /// Swap; returns what was there.
    Swap(Cell, u64),
    /// Spins while the first cell has its value and, if given, the second too. Ends early when the CPU is wanted by
    /// another task (`resched`), when task `holder` stops running or at a time. Returns a [`SpinEnd`].
    Spin(Spin),
    /// Computes for this many ns.
    Compute(u32),
    /// Sleeps until [`Op::Unpark`]; returns at once when one came before. May return spuriously.
    Park,
    /// Wakes a task. A barrier: earlier stores are visible to it.
    Unpark(u32),
    /// Sleeps for this many ns without using a CPU. Wake-ups do not end it; they count for the next [`Op::Park`].
    Sleep(u32),
    /// Pays for the visits that [`Env::work`] has recorded.
    Visits,
    /// No preemption from here on; nests.
    PreemptOff,
    /// Preemption again.
    PreemptOn,
    /// Interrupts another CPU without waiting for it.
    Interrupt(u32),
    /// Gives the CPU to others that want it.
    Yield,
    /// Asks for a line, exclusively or not, and does not wait for it: a processor looks ahead.
    Ask(Cell, bool),
}

/// What to spin on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    /// Cell that is watched.
    pub cell: Cell,
    /// Spin while it has this value.
    pub value: u64,
    /// A second cell and its value; [`Cell::NULL`] for none.
    pub also: (Cell, u64),
    /// End when another task wants this CPU.
    pub resched: bool,
    /// End when this task is not running; `u32::MAX` for none.
    pub holder: u32,
    /// End at this time of [`Env::now_ns`]; `u64::MAX` for never.
    pub until_ns: u64,
}

impl Spin {
    /// Spins while `cell` holds `value`.
    pub fn on(cell: Cell, value: u64) -> Spin {
        Spin { cell, value, also: (Cell::NULL, 0), resched: false, holder: u32::MAX, until_ns: u64::MAX }
    }

    /// Ends when another task wants the CPU.
    pub fn or_resched(mut self) -> Spin {
        self.resched = true;
        self
    }

    /// Ends when task `holder` no longer runs.
    pub fn while_running(mut self, holder: u32) -> Spin {
        self.holder = holder;
        self
    }

    /// Ends at a time of [`Env::now_ns`].
    pub fn until(mut self, ns: u64) -> Spin {
        self.until_ns = ns;
        self
    }

    /// Ends when a second cell changes.
    pub fn or_change(mut self, cell: Cell, value: u64) -> Spin {
        self.also = (cell, value);
        self
    }
}

/// Why a spin ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinEnd {
    /// A watched value changed.
    Changed = 0,
    /// Another task wants the CPU.
    Resched = 1,
    /// The holder stopped running.
    HolderOff = 2,
    /// The time has come.
    Expired = 3,
}

impl SpinEnd {
    /// From an operation's result.
    pub fn from_result(r: u64) -> SpinEnd {
        match r {
            1 => SpinEnd::Resched,
            2 => SpinEnd::HolderOff,
            3 => SpinEnd::Expired,
            _ => SpinEnd::Changed,
        }
    }
}

/// What a task tells about itself, for the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// One operation of the workload is complete.
    Done,
    /// Starts to wait for a lock.
    LockWait,
    /// Has it.
    LockHeld,
    /// Gave it up.
    LockFree,
    /// A point where the task's state is only this number: merges states in exhaustive exploration.
    Mark(u64),
}

/// The world as a task sees it.
pub trait Env {
    /// Performs one operation.
    fn op(&self, op: Op) -> impl Future<Output = u64>;

    /// Runs code that touches cells and nothing else, to its end, then pays for what it touched. The code must be
    /// protected by a lock, or be a reader that can stand to see any state. Cells that are written by [`Op::Store`]
    /// are not for it: stores that have not committed are not seen.
    fn work<R>(&self, code: impl FnOnce(&mut dyn Words) -> R) -> impl Future<Output = R>;

    /// This task's number, from 0.
    fn me(&self) -> u32;

    /// The CPU it runs on (on real threads: the one it was started for).
    fn cpu(&self) -> u32;

    /// The run is over: finish the current operation and return.
    fn stopping(&self) -> bool;

    /// Task `task` is running on some CPU.
    fn on_cpu(&self, task: u32) -> bool;

    /// Another task wants this CPU.
    fn need_resched(&self) -> bool;

    /// Time since some fixed point, ns.
    fn now_ns(&self) -> u64;

    /// 64 random bits from this task's own stream.
    fn random(&self) -> u64;

    /// With preemption off no other task runs on this CPU. Threads of a process cannot have that.
    fn preemption_excludes(&self) -> bool {
        true
    }

    /// Tells something for the counters.
    fn note(&self, note: Note);

    /// [`Op::Load`].
    fn load(&self, cell: Cell) -> impl Future<Output = u64> {
        self.op(Op::Load(cell))
    }

    /// [`Op::LoadForCas`].
    fn load_for_cas(&self, cell: Cell) -> impl Future<Output = u64> {
        self.op(Op::LoadForCas(cell))
    }

    /// [`Op::Store`].
    fn store(&self, cell: Cell, value: u64) -> impl Future<Output = u64> {
        self.op(Op::Store(cell, value))
    }

    /// [`Op::Clear`].
    fn clear(&self, cell: Cell, mask: u64) -> impl Future<Output = u64> {
        self.op(Op::Clear(cell, mask))
    }

    /// [`Op::Cas`].
    fn cas(&self, cell: Cell, old: u64, new: u64) -> impl Future<Output = u64> {
        self.op(Op::Cas(cell, old, new))
    }

    /// [`Op::Add`]; `delta` may be a negative number in two's complement.
    fn add(&self, cell: Cell, delta: i64) -> impl Future<Output = u64> {
        self.op(Op::Add(cell, delta as u64))
    }

    /// [`Op::Swap`].
    fn swap(&self, cell: Cell, value: u64) -> impl Future<Output = u64> {
        self.op(Op::Swap(cell, value))
    }

    /// [`Op::Spin`].
    fn spin(&self, spin: Spin) -> impl Future<Output = SpinEnd> {
        let fut = self.op(Op::Spin(spin));
        async move { SpinEnd::from_result(fut.await) }
    }

    /// [`Op::Compute`].
    fn compute(&self, ns: u32) -> impl Future<Output = u64> {
        self.op(Op::Compute(ns))
    }

    /// [`Op::Ask`].
    fn ask(&self, cell: Cell, own: bool) -> impl Future<Output = u64> {
        self.op(Op::Ask(cell, own))
    }

    /// [`Op::Park`].
    fn park(&self) -> impl Future<Output = u64> {
        self.op(Op::Park)
    }

    /// [`Op::Unpark`].
    fn unpark(&self, task: u32) -> impl Future<Output = u64> {
        self.op(Op::Unpark(task))
    }
}

/// What runs: `tasks` sequential tasks over one memory.
pub trait Program {
    /// Number of tasks.
    fn tasks(&self) -> usize;

    /// Where its objects lie.
    fn memory(&self) -> &crate::memory::MemoryMap;

    /// Fills the initial values. Runs before any task.
    fn init(&self, words: &mut dyn Words);

    /// The CPU that a task is bound to; `None` lets the scheduler move it.
    fn pinned(&self, task: u32, cpus: u32) -> Option<u32> {
        Some(task % cpus.max(1))
    }

    /// Body of a task.
    fn run<E: Env>(&self, env: &E) -> impl Future<Output = ()>;

    /// Nothing lost, nothing freed twice: called when every task has returned.
    ///
    /// # Errors
    /// What is wrong, for people.
    fn check(&self, words: &mut dyn Words) -> Result<(), String>;
}

/// One line of a recorded piece of work: a cell, whether it was written, and ns of computing before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Cell.
    pub cell: Cell,
    /// Written, else read.
    pub write: bool,
    /// Computing before the access, ns.
    pub work_ns: u32,
}
