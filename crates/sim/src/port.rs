//! How a task's future talks to the engine: it leaves one operation in its port and finds the result there.

use crate::env::{Env, Note, Op, Visit};
use crate::memory::{Cell, Words};
use std::cell::{Cell as Slot, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tussle_stats::rng::Rng;

/// What engine and task share, per task.
pub(crate) struct Port {
    pub(crate) op: Slot<Option<Op>>,
    pub(crate) result: Slot<u64>,
    pub(crate) cpu: Slot<u32>,
    pub(crate) resched: Slot<bool>,
    pub(crate) now_ps: Slot<u64>,
    pub(crate) visits: RefCell<Vec<Visit>>,
    pub(crate) rng: RefCell<Rng>,
    pub(crate) notes: Notes,
    /// Hash of everything that the task was told other than by results.
    pub(crate) observed: Slot<u64>,
}

/// What a task told about itself.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) done: Slot<u64>,
    pub(crate) wait_since: Slot<u64>,
    pub(crate) held_since: Slot<u64>,
    pub(crate) wait_ps: Slot<u64>,
    pub(crate) held_ps: Slot<u64>,
    pub(crate) mark: Slot<Option<u64>>,
}

/// What engine and all tasks share.
pub(crate) struct Shared {
    pub(crate) values: Vec<Slot<u64>>,
    pub(crate) stop: Slot<bool>,
    pub(crate) on_cpu: Vec<Slot<bool>>,
    /// Counts everything that shows that tasks get somewhere.
    pub(crate) progress: Slot<u64>,
}

/// A task's [`Env`] in the simulator and in the explorer.
pub(crate) struct PortEnv {
    pub(crate) port: Rc<Port>,
    pub(crate) shared: Rc<Shared>,
    pub(crate) task: u32,
}

impl Port {
    pub(crate) fn new(seed: u64) -> Port {
        Port {
            op: Slot::new(None),
            result: Slot::new(0),
            cpu: Slot::new(0),
            resched: Slot::new(false),
            now_ps: Slot::new(0),
            visits: RefCell::default(),
            rng: RefCell::new(Rng::new(seed)),
            notes: Notes::default(),
            observed: Slot::new(0),
        }
    }
}

/// Waits for the engine to perform one operation.
pub(crate) struct OpFuture<'a> {
    port: &'a Port,
    op: Option<Op>,
}

impl Future for OpFuture<'_> {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        match self.op.take() {
            Some(op) => {
                self.port.op.set(Some(op));
                Poll::Pending
            }
            None => Poll::Ready(self.port.result.get()),
        }
    }
}

/// Direct access to simulated values; records visits when given a list.
pub(crate) struct SimWords<'a> {
    pub(crate) values: &'a [Slot<u64>],
    pub(crate) visits: Option<&'a mut Vec<Visit>>,
    pub(crate) work_ns: u32,
}

impl SimWords<'_> {
    fn record(&mut self, cell: Cell, write: bool) {
        let work_ns = std::mem::take(&mut self.work_ns);
        if let Some(v) = &mut self.visits {
            v.push(Visit { cell, write, work_ns });
        }
    }
}

impl Words for SimWords<'_> {
    fn get(&mut self, cell: Cell) -> u64 {
        self.record(cell, false);
        self.values.get(cell.0 as usize).map_or(0, Slot::get)
    }

    fn set(&mut self, cell: Cell, value: u64) {
        self.record(cell, true);
        if let Some(v) = self.values.get(cell.0 as usize) {
            v.set(value);
        }
    }

    fn work(&mut self, ns: u32) {
        self.work_ns = self.work_ns.saturating_add(ns);
    }
}

impl Env for PortEnv {
    fn op(&self, op: Op) -> impl Future<Output = u64> {
        OpFuture { port: &self.port, op: Some(op) }
    }

    async fn work<R>(&self, code: impl FnOnce(&mut dyn Words) -> R) -> R {
        let result = {
            let mut visits = self.port.visits.borrow_mut();
            visits.clear();
            let mut words = SimWords { values: &self.shared.values, visits: Some(&mut visits), work_ns: 0 };
            let result = code(&mut words);
            let rest = words.work_ns;
            if rest > 0 {
                visits.push(Visit { cell: Cell::NULL, write: false, work_ns: rest });
            }
            result
        };
        self.op(Op::Visits).await;
        result
    }

    fn me(&self) -> u32 {
        self.task
    }

    fn cpu(&self) -> u32 {
        self.port.cpu.get()
    }

    fn stopping(&self) -> bool {
        self.shared.stop.get()
    }

    fn on_cpu(&self, task: u32) -> bool {
        let on = self.shared.on_cpu.get(task as usize).is_some_and(Slot::get);
        self.port.observed.set(self.port.observed.get().wrapping_mul(3).wrapping_add(u64::from(on) + 1));
        on
    }

    fn need_resched(&self) -> bool {
        self.port.resched.get()
    }

    fn now_ns(&self) -> u64 {
        self.port.now_ps.get() / 1_000
    }

    fn random(&self) -> u64 {
        self.port.rng.borrow_mut().next_u64()
    }

    fn note(&self, note: Note) {
        let (n, now) = (&self.port.notes, self.port.now_ps.get());
        self.shared.progress.set(self.shared.progress.get() + 1);
        match note {
            Note::Done if !self.shared.stop.get() => n.done.set(n.done.get() + 1),
            Note::Done => {}
            Note::LockWait => n.wait_since.set(now),
            Note::LockHeld => {
                n.wait_ps.set(n.wait_ps.get() + now.saturating_sub(n.wait_since.get()));
                n.held_since.set(now);
            }
            Note::LockFree => n.held_ps.set(n.held_ps.get() + now.saturating_sub(n.held_since.get())),
            Note::Mark(m) => n.mark.set(Some(m)),
        }
    }
}
