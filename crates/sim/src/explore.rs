//! All interleavings of a small program, under total store order: stores wait in a buffer per task and commit at any
//! later time, locked operations need it empty. States that differ in nothing a task can observe are visited once.
//!
//! Stateless search by replay (futures cannot be copied) with a set of visited states, as in loom and in stateful
//! model checkers: a state is the memory, the buffers, the wake-up tokens and what every task has been told so far.

use crate::env::{Op, Program, Spin};
use crate::memory::Cell;
use crate::port::{Port, PortEnv, Shared, SimWords};
use std::cell::Cell as Slot;
use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Bounds of a search.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// States after which the search gives up and says so.
    pub states: usize,
    /// Steps of one path after which it is called a livelock.
    pub steps: usize,
    /// Times per task that a spin may end because its CPU is wanted or its time has come.
    pub rescheds: u32,
    /// Stores commit late (total store order); otherwise at once.
    pub late_stores: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { states: 2_000_000, steps: 5_000, rescheds: 0, late_stores: true }
    }
}

/// What a search has found when it found nothing wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// Paths that ran to the end of all tasks.
    pub ends: usize,
    /// Nothing was left out.
    pub complete: bool,
}

/// What is wrong, with the path that shows it as (task, what) steps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Tasks are left that can never run.
    #[error("deadlock: {tasks}; path {path}")]
    Deadlock {
        /// Who waits for what.
        tasks: String,
        /// Steps.
        path: String,
    },
    /// A path without end.
    #[error("livelock: a path of more than {steps} steps; its last: {path}")]
    Livelock {
        /// Steps taken.
        steps: usize,
        /// Last steps.
        path: String,
    },
    /// The program's own check failed.
    #[error("{what}; path {path}")]
    Check {
        /// What it said.
        what: String,
        /// Steps.
        path: String,
    },
}

#[derive(Clone, Copy, Debug)]
enum Choice {
    Step(u32),
    Commit(u32),
    Resched(u32),
    Expire(u32),
}

struct Actor<'p> {
    future: Option<Pin<Box<dyn Future<Output = ()> + 'p>>>,
    port: Rc<Port>,
    op: Option<Op>,
    history: u64,
    stores: Vec<(Cell, u64, u64)>,
    token: bool,
    rescheds: u32,
}

struct World<'p> {
    actors: Vec<Actor<'p>>,
    shared: Rc<Shared>,
    late: bool,
    path: Vec<(Choice, Option<Op>)>,
}

/// Explores every interleaving of `program`.
///
/// # Errors
/// The first fault found.
pub fn explore<P: Program>(program: &P, limits: Limits) -> Result<Explored, Fault> {
    let mut visited = HashSet::new();
    let mut todo: Vec<Vec<u8>> = vec![Vec::new()];
    let mut ends = 0;
    while let Some(mut prefix) = todo.pop() {
        let mut world = World::new(program, limits);
        for &c in &prefix {
            let choices = world.choices();
            world.take(choices[usize::from(c)]);
        }
        loop {
            let choices = world.choices();
            if choices.is_empty() {
                world.end(program)?;
                ends += 1;
                break;
            }
            if !visited.insert(world.key()) {
                break;
            }
            if visited.len() >= limits.states {
                return Ok(Explored { states: visited.len(), ends, complete: false });
            }
            if prefix.len() > limits.steps {
                return Err(Fault::Livelock { steps: prefix.len(), path: world.describe(24) });
            }
            for c in (1..choices.len()).rev() {
                let mut other = prefix.clone();
                other.push(c as u8);
                todo.push(other);
            }
            world.take(choices[0]);
            prefix.push(0);
        }
    }
    Ok(Explored { states: visited.len(), ends, complete: true })
}

impl<'p> World<'p> {
    fn new<P: Program>(program: &'p P, limits: Limits) -> World<'p> {
        let tasks = program.tasks();
        let shared = Rc::new(Shared {
            values: (0..program.memory().cells()).map(|_| Slot::new(0)).collect(),
            stop: Slot::new(false),
            on_cpu: (0..tasks).map(|_| Slot::new(true)).collect(),
            progress: Slot::new(0),
        });
        program.init(&mut SimWords { values: &shared.values, visits: None, work_ns: 0 });
        let actor = |i: usize| {
            let port = Rc::new(Port::new(i as u64));
            port.cpu.set(i as u32);
            let env = PortEnv { port: port.clone(), shared: shared.clone(), task: i as u32 };
            let future: Pin<Box<dyn Future<Output = ()> + 'p>> =
                Box::pin(async move { program.run(&env).await });
            let (stores, rescheds) = (Vec::new(), limits.rescheds);
            Actor { future: Some(future), port, op: None, history: 0, stores, token: false, rescheds }
        };
        let actors = (0..tasks).map(actor).collect();
        let mut world = World { actors, shared, late: limits.late_stores, path: Vec::new() };
        (0..tasks).for_each(|i| world.poll(i, 0));
        world
    }

    /// Lets a task run to its next operation that others can notice.
    fn poll(&mut self, i: usize, result: u64) {
        let a = &mut self.actors[i];
        a.port.result.set(result);
        a.history = mix(a.history, result);
        loop {
            let Some(future) = a.future.as_mut() else { return };
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(()) => {
                    a.future = None;
                    a.op = None;
                    self.shared.on_cpu[i].set(false);
                    return;
                }
                Poll::Pending => a.op = a.port.op.take(),
            }
            if let Some(mark) = a.port.notes.mark.take() {
                a.history = mark;
                a.port.observed.set(0);
            }
            let local = Op::Compute(0);
            match a.op.unwrap_or(local) {
                Op::Compute(_)
                | Op::PreemptOff
                | Op::PreemptOn
                | Op::Visits
                | Op::Interrupt(_)
                | Op::Ask(..)
                | Op::Yield => {
                    a.port.result.set(0);
                }
                _ => return,
            }
        }
    }

    fn value(&self, i: usize, cell: Cell) -> u64 {
        let mut v = self.shared.values[cell.0 as usize].get();
        for (c, value, mask) in &self.actors[i].stores {
            if *c == cell {
                v = v & !mask | value & mask;
            }
        }
        v
    }

    fn spin_over(&self, i: usize, s: Spin) -> Option<u64> {
        let also = s.also.0 != Cell::NULL && self.value(i, s.also.0) != s.also.1;
        if self.value(i, s.cell) != s.value || also {
            return Some(0);
        }
        let off = s.holder != u32::MAX && !self.shared.on_cpu.get(s.holder as usize).is_some_and(Slot::get);
        off.then_some(2)
    }

    fn enabled(&self, i: usize) -> bool {
        let a = &self.actors[i];
        match a.op {
            None => false,
            Some(Op::Park) => a.token && a.stores.is_empty(),
            Some(Op::Spin(s)) => self.spin_over(i, s).is_some(),
            // A wake-up is a barrier: what was stored before it is seen by whoever wakes.
            Some(Op::Cas(..) | Op::Add(..) | Op::Swap(..) | Op::Unpark(_)) => a.stores.is_empty(),
            _ => true,
        }
    }

    fn choices(&self) -> Vec<Choice> {
        let mut out = Vec::new();
        for i in 0..self.actors.len() {
            let (a, n) = (&self.actors[i], i as u32);
            if self.enabled(i) {
                out.push(Choice::Step(n));
            } else if let Some(Op::Spin(s)) = a.op
                && a.rescheds > 0
            {
                out.extend(s.resched.then_some(Choice::Resched(n)));
                out.extend((s.until_ns != u64::MAX).then_some(Choice::Expire(n)));
            }
            if !a.stores.is_empty() {
                out.push(Choice::Commit(n));
            }
        }
        out
    }

    fn take(&mut self, choice: Choice) {
        let (Choice::Step(n) | Choice::Commit(n) | Choice::Resched(n) | Choice::Expire(n)) = choice;
        let i = n as usize;
        self.path.push((choice, self.actors[i].op));
        match choice {
            Choice::Commit(_) => {
                let (cell, value, mask) = self.actors[i].stores.remove(0);
                self.set(cell, value, mask);
            }
            Choice::Resched(_) => {
                self.actors[i].rescheds -= 1;
                self.poll(i, 1);
            }
            Choice::Expire(_) => {
                self.actors[i].rescheds -= 1;
                self.poll(i, 3);
            }
            Choice::Step(_) => {
                let result = self.perform(i);
                self.poll(i, result);
                let parked = matches!(self.actors[i].op, Some(Op::Park)) && !self.actors[i].token;
                self.shared.on_cpu[i].set(self.actors[i].op.is_some() && !parked);
            }
        }
    }

    fn set(&mut self, cell: Cell, value: u64, mask: u64) {
        let slot = &self.shared.values[cell.0 as usize];
        slot.set(slot.get() & !mask | value & mask);
    }

    fn perform(&mut self, i: usize) -> u64 {
        let Some(op) = self.actors[i].op else { return 0 };
        let modify = |c: Cell, f: &dyn Fn(u64) -> u64| {
            let old = self.shared.values[c.0 as usize].get();
            self.shared.values[c.0 as usize].set(f(old));
            old
        };
        match op {
            Op::Load(c) | Op::LoadForCas(c) => self.value(i, c),
            Op::Store(c, v) => self.buffer(i, (c, v, u64::MAX)),
            Op::Clear(c, mask) => self.buffer(i, (c, 0, mask)),
            Op::Cas(c, old, new) => modify(c, &|v| if v == old { new } else { v }),
            Op::Add(c, d) => modify(c, &|v| v.wrapping_add(d)),
            Op::Swap(c, new) => modify(c, &|_| new),
            Op::Spin(s) => self.spin_over(i, s).unwrap_or(0),
            Op::Park => {
                self.actors[i].token = false;
                // Nobody knows how long a task has slept: long enough for every timeout.
                let port = &self.actors[i].port;
                port.now_ps.set(port.now_ps.get() + 10_000_000_000);
                0
            }
            Op::Unpark(t) => {
                if let Some(a) = self.actors.get_mut(t as usize) {
                    a.token = true;
                    self.shared.on_cpu[t as usize].set(a.op.is_some());
                }
                0
            }
            _ => 0,
        }
    }

    fn buffer(&mut self, i: usize, store: (Cell, u64, u64)) -> u64 {
        if self.late {
            self.actors[i].stores.push(store);
        } else {
            self.set(store.0, store.1, store.2);
        }
        0
    }

    fn key(&self) -> u64 {
        let mut h = 0;
        for v in &self.shared.values {
            h = mix(h, v.get());
        }
        for a in &self.actors {
            h = mix(h, a.history);
            h = mix(h, a.port.observed.get());
            h = mix(h, u64::from(a.token) | u64::from(a.op.is_none()) << 1 | u64::from(a.rescheds) << 2);
            for (c, v, m) in &a.stores {
                h = mix(mix(mix(h, u64::from(c.0)), *v), *m);
            }
            h = mix(h, a.stores.len() as u64);
        }
        h
    }

    fn end<P: Program>(&self, program: &P) -> Result<(), Fault> {
        let waiting = self.actors.iter().enumerate().filter(|(_, a)| a.op.is_some());
        let tasks: Vec<String> = waiting.map(|(i, a)| format!("task {i} in {:?}", a.op)).collect();
        if !tasks.is_empty() {
            return Err(Fault::Deadlock { tasks: tasks.join("; "), path: self.describe(80) });
        }
        let words = &mut SimWords { values: &self.shared.values, visits: None, work_ns: 0 };
        program.check(words).map_err(|what| Fault::Check { what, path: self.describe(80) })
    }

    fn describe(&self, last: usize) -> String {
        let from = self.path.len().saturating_sub(last);
        let steps: Vec<String> = self.path[from..]
            .iter()
            .map(|(c, op)| match c {
                Choice::Step(n) => format!("{n}:{:?}", op.unwrap_or(Op::Compute(0))),
                Choice::Commit(n) => format!("{n}:commit"),
                Choice::Resched(n) => format!("{n}:resched"),
                Choice::Expire(n) => format!("{n}:expire"),
            })
            .collect();
        steps.join(" ")
    }
}

fn mix(h: u64, v: u64) -> u64 {
    let mut z = (h ^ v.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x2545_f491_4f6c_dd1d);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
