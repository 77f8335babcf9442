//! Tasks' operations. Every operation is tried until its lines are there: a miss asks and returns, the answer tries
//! again.

use super::coherence::Who;
use super::{Engine, Kind, NONE, PS, State};
use crate::env::{Op, Spin};
use crate::memory::Cell;
use std::task::{Context, Poll, Waker};

/// Times that a task goes on without an event before the event loop looks after livelocks.
pub(super) const IN_A_ROW_MAX: u32 = 10_000;

/// A store on its way: cell, value, and which bits of the cell it writes.
pub(super) type Store = (Cell, u64, u64);

/// What became of an operation.
enum Outcome {
    /// Result, and the time at which the task goes on.
    Done(u64, u64),
    /// An event will try again.
    Wait,
    /// The task has lost its CPU; the operation is over with result 0.
    Off,
}

impl Engine<'_> {
    /// Runs a task from now until it waits or is far enough ahead.
    pub(super) fn step(&mut self, task: u32) {
        let i = task as usize;
        if self.tasks[i].state != State::Running {
            return;
        }
        let cpu = self.tasks[i].cpu;
        self.shared.on_cpu[i].set(true);
        let mut t = self.now + std::mem::take(&mut self.cpus[cpu as usize].stolen);
        loop {
            if self.cpus[cpu as usize].resched && self.tasks[i].preempt_off == 0 {
                if !self.wait_for_stores(task, cpu) {
                    self.preempt(task, t);
                }
                return;
            }
            if t > self.now + self.costs.run_ahead {
                let Some(on) = self.run_on(task, cpu, t) else { return };
                t = on;
                continue;
            }
            let Some(op) = self.next_op(task, t) else {
                self.finish(task, t);
                return;
            };
            match self.try_op(task, cpu, op, t) {
                Outcome::Done(result, at) => {
                    self.tasks[i].port.result.set(result);
                    self.tasks[i].op = None;
                    t = at;
                }
                Outcome::Wait => return,
                Outcome::Off => {
                    self.tasks[i].op = None;
                    self.tasks[i].port.result.set(0);
                    return;
                }
            }
        }
    }

    /// A task that has run as far ahead of the others as it may goes on by an event, or at once where no event comes
    /// before it: then the time for it.
    fn run_on(&mut self, task: u32, cpu: u32, t: u64) -> Option<u64> {
        if !self.alone_until(t) || t >= self.boundary || self.in_a_row >= IN_A_ROW_MAX {
            self.push(t, Kind::Step, task, 0);
            return None;
        }
        self.in_a_row += 1;
        self.count.events += 1;
        self.now = t;
        Some(t + std::mem::take(&mut self.cpus[cpu as usize].stolen))
    }

    /// The operation in progress, or the next one; `None` when the task has returned.
    fn next_op(&mut self, task: u32, t: u64) -> Option<Op> {
        let task = &mut self.tasks[task as usize];
        if task.op.is_none() {
            task.port.now_ps.set(t);
            let future = task.future.as_mut()?;
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(()) => {
                    task.future = None;
                    return None;
                }
                Poll::Pending => task.op = task.port.op.take(),
            }
            task.visit = 0;
        }
        // A future that waits for something other than an operation can never go on.
        Some(task.op.unwrap_or(Op::Park))
    }

    fn try_op(&mut self, task: u32, cpu: u32, op: Op, t: u64) -> Outcome {
        let (hit, rmw) = (self.costs.hit, self.costs.rmw);
        match op {
            Op::Load(c) => self.load(task, cpu, c, false, t),
            Op::LoadForCas(c) => self.load(task, cpu, c, self.early_rfo, t),
            Op::Store(c, v) => self.store(task, cpu, (c, v, u64::MAX), t),
            Op::Clear(c, mask) => self.store(task, cpu, (c, 0, mask), t),
            Op::Cas(c, old, new) => self.modify(task, cpu, c, t, rmw, |v| if v == old { new } else { v }),
            Op::Add(c, d) => self.modify(task, cpu, c, t, rmw, |v| v.wrapping_add(d)),
            Op::Swap(c, new) => self.modify(task, cpu, c, t, rmw, |_| new),
            Op::Spin(spin) => self.spin(task, cpu, spin, t),
            Op::Compute(ns) => Outcome::Done(0, t + u64::from(ns) * PS),
            // What was stored must not be left behind on this CPU, and must be seen by whoever wakes: switches and
            // wake-ups are barriers.
            Op::Park | Op::Sleep(_) | Op::Yield | Op::Unpark(_) if self.wait_for_stores(task, cpu) => {
                Outcome::Wait
            }
            Op::Park => self.park(task, t),
            Op::Sleep(ns) => {
                self.push(t + u64::from(ns) * PS, Kind::Wake, task, 1);
                self.go_to_sleep(task, State::Asleep, t);
                Outcome::Off
            }
            Op::Unpark(other) => {
                let asleep = self.tasks.get(other as usize).is_some_and(|t| t.state == State::Parked);
                // Whoever is awake costs a look at its state under a lock.
                let at = t + if asleep { self.costs.wake_cost } else { 2 * rmw };
                self.count.wakes += 1;
                if (other as usize) < self.tasks.len() {
                    self.push(at, Kind::Wake, other, 0);
                }
                Outcome::Done(0, at)
            }
            Op::Visits => self.replay(task, cpu, t),
            Op::PreemptOff => {
                self.tasks[task as usize].preempt_off += 1;
                Outcome::Done(0, t)
            }
            Op::PreemptOn => {
                let p = &mut self.tasks[task as usize].preempt_off;
                *p = p.saturating_sub(1);
                Outcome::Done(0, t)
            }
            Op::Interrupt(other) => {
                self.count.interrupts += 1;
                let stolen = self.costs.ipi_receive;
                if let Some(c) = self.cpus.get_mut(other as usize) {
                    c.stolen += stolen;
                }
                Outcome::Done(0, t + self.costs.ipi_send)
            }
            Op::Ask(c, own) => {
                let line = self.line_of[c.0 as usize];
                if !self.held(line, cpu, own, t) {
                    self.looks_ahead = true;
                    self.request(Who::Ahead(cpu), cpu, c, own, t);
                }
                Outcome::Done(0, t)
            }
            Op::Yield => {
                if self.cpus[cpu as usize].queue.is_empty() || self.tasks[task as usize].preempt_off > 0 {
                    return Outcome::Done(0, t + hit);
                }
                self.tasks[task as usize].op = None;
                self.preempt(task, t);
                Outcome::Off
            }
        }
    }

    fn park(&mut self, task: u32, t: u64) -> Outcome {
        if std::mem::take(&mut self.tasks[task as usize].token) {
            return Outcome::Done(0, t + self.costs.hit);
        }
        self.go_to_sleep(task, State::Parked, t);
        Outcome::Off
    }

    fn value(&self, cell: Cell) -> u64 {
        self.shared.values[cell.0 as usize].get()
    }

    fn load(&mut self, task: u32, cpu: u32, cell: Cell, own: bool, t: u64) -> Outcome {
        let hit = self.costs.hit;
        match self.buffered(cpu, cell) {
            Some((_, value, u64::MAX)) => {
                self.count.accesses += 1;
                return Outcome::Done(value, t + hit);
            }
            Some(_) => {
                self.wait_for_stores(task, cpu);
                return Outcome::Wait;
            }
            None => {}
        }
        let line = self.line_of[cell.0 as usize];
        if self.held(line, cpu, own, t) {
            self.touch(line, false, t);
            return Outcome::Done(self.value(cell), t + hit);
        }
        self.miss(task, cpu, cell, own, t)
    }

    fn miss(&mut self, task: u32, cpu: u32, cell: Cell, own: bool, t: u64) -> Outcome {
        self.tasks[task as usize].state = State::Miss(cell.0);
        self.request(Who::Task(task), cpu, cell, own, t);
        Outcome::Wait
    }

    /// The newest store to a cell that this CPU has not committed.
    fn buffered(&self, cpu: u32, cell: Cell) -> Option<Store> {
        self.cpus[cpu as usize].stores.iter().rev().find(|s| s.0 == cell).copied()
    }

    fn commit(&mut self, (cell, value, mask): Store) {
        let slot = &self.shared.values[cell.0 as usize];
        slot.set(slot.get() & !mask | value & mask);
    }

    fn store(&mut self, task: u32, cpu: u32, store: Store, t: u64) -> Outcome {
        let (c, cell) = (cpu as usize, store.0);
        let hit = self.costs.hit;
        let line = self.line_of[cell.0 as usize];
        if self.free_store[cell.0 as usize] {
            self.commit(store);
            // Spinners must still learn of it, at no cost to the writer.
            for w in std::mem::take(&mut self.lines[line as usize].watchers) {
                self.unwatch(w, t);
                self.tasks[w as usize].state = State::Running;
                self.push(t.max(self.now), Kind::Step, w, 0);
            }
            return Outcome::Done(0, t + hit);
        }
        if self.cpus[c].stores.len() >= self.store_buffer {
            self.tasks[task as usize].state = State::Slot;
            self.cpus[c].waiter = task;
            return Outcome::Wait;
        }
        let commit = t + self.costs.commit;
        if self.cpus[c].stores.is_empty() && self.held(line, cpu, true, commit) {
            self.touch(line, true, t);
            self.commit(store);
            return Outcome::Done(0, t + hit);
        }
        self.cpus[c].stores.push_back(store);
        self.ask_for_store(cpu, cell, t);
        Outcome::Done(0, t + hit)
    }

    fn ask_for_store(&mut self, cpu: u32, cell: Cell, t: u64) {
        let line = self.line_of[cell.0 as usize];
        let c = &mut self.cpus[cpu as usize];
        if !c.requested.contains(&line) {
            self.cpus[cpu as usize].requested.push(line);
            self.request(Who::Stores(cpu), cpu, cell, true, t);
        }
    }

    /// Commits stores in order as far as their lines are there.
    pub(super) fn drain(&mut self, cpu: u32) {
        let c = cpu as usize;
        while let Some(&store) = self.cpus[c].stores.front() {
            let line = self.line_of[store.0.0 as usize];
            if !self.held(line, cpu, true, self.now) {
                self.ask_for_store(cpu, store.0, self.now);
                break;
            }
            self.touch(line, true, self.now);
            self.commit(store);
            self.cpus[c].stores.pop_front();
        }
        let waiter = self.cpus[c].waiter;
        let room = match self.tasks.get(waiter as usize).map(|t| t.state) {
            Some(State::Drain) => self.cpus[c].stores.is_empty(),
            Some(State::Slot) => self.cpus[c].stores.len() < self.store_buffer,
            _ => false,
        };
        if room {
            self.cpus[c].waiter = NONE;
            self.tasks[waiter as usize].state = State::Running;
            self.push(self.now, Kind::Step, waiter, 0);
        }
    }

    /// Locked operations wait for earlier stores, then need the line exclusively.
    fn modify(
        &mut self,
        task: u32,
        cpu: u32,
        cell: Cell,
        t: u64,
        cost: u64,
        f: impl Fn(u64) -> u64,
    ) -> Outcome {
        if self.wait_for_stores(task, cpu) {
            return Outcome::Wait;
        }
        let line = self.line_of[cell.0 as usize];
        if !self.held(line, cpu, true, t) {
            return self.miss(task, cpu, cell, true, t);
        }
        self.touch(line, true, t);
        self.tasks[task as usize].last = cell;
        let old = self.value(cell);
        self.shared.values[cell.0 as usize].set(f(old));
        Outcome::Done(old, t + cost)
    }

    /// True when the task now waits for its CPU's stores to commit.
    fn wait_for_stores(&mut self, task: u32, cpu: u32) -> bool {
        let wait = !self.cpus[cpu as usize].stores.is_empty();
        if wait {
            self.tasks[task as usize].state = State::Drain;
            self.cpus[cpu as usize].waiter = task;
        }
        wait
    }

    fn spin(&mut self, task: u32, cpu: u32, spin: Spin, t: u64) -> Outcome {
        let cells = [(spin.cell, spin.value), spin.also];
        for (cell, value) in cells {
            if cell == Cell::NULL {
                continue;
            }
            if self.buffered(cpu, cell).is_some() {
                self.wait_for_stores(task, cpu);
                return Outcome::Wait;
            }
            let line = self.line_of[cell.0 as usize];
            if !self.held(line, cpu, false, t) {
                return self.miss(task, cpu, cell, false, t);
            }
            self.touch(line, false, t);
            if self.value(cell) != value {
                return Outcome::Done(0, t + self.costs.hit);
            }
        }
        if spin.resched && self.cpus[cpu as usize].resched {
            return Outcome::Done(1, t);
        }
        if spin.holder != NONE && !self.shared.on_cpu.get(spin.holder as usize).is_some_and(|s| s.get()) {
            return Outcome::Done(2, t);
        }
        if spin.until_ns != u64::MAX {
            let until = spin.until_ns.saturating_mul(PS);
            if t >= until {
                return Outcome::Done(3, t);
            }
            // One event for each time, however often the spin looks again before it.
            if self.tasks[task as usize].expires != until {
                self.tasks[task as usize].expires = until;
                self.push(until, Kind::Expire, task, 0);
            }
        }
        for (k, (cell, _)) in cells.into_iter().enumerate() {
            let line = if cell == Cell::NULL { NONE } else { self.line_of[cell.0 as usize] };
            self.tasks[task as usize].watched[k] = line;
            let twice = k == 1 && line == self.tasks[task as usize].watched[0];
            if line != NONE && !twice {
                self.lines[line as usize].watchers.push(task);
            }
        }
        if let Some(list) = self.spinners_for.get_mut(spin.holder as usize) {
            list.push(task);
        }
        self.tasks[task as usize].state = State::Watch;
        self.tasks[task as usize].watch_since = t;
        Outcome::Wait
    }

    /// Takes a spinner off the lines that it watches.
    pub(super) fn unwatch(&mut self, task: u32, t: u64) {
        let watched = std::mem::replace(&mut self.tasks[task as usize].watched, [NONE; 2]);
        for line in watched {
            if line != NONE {
                self.lines[line as usize].watchers.retain(|&w| w != task);
            }
        }
        if let Some(Op::Spin(s)) = self.tasks[task as usize].op
            && let Some(list) = self.spinners_for.get_mut(s.holder as usize)
        {
            list.retain(|&w| w != task);
        }
        let since = self.tasks[task as usize].watch_since;
        self.count.spin_ns += t.saturating_sub(since) / PS;
    }

    /// The time of a spin has come, unless it is over already or another one has begun.
    pub(super) fn expire(&mut self, task: u32) {
        let i = task as usize;
        if matches!(self.tasks[i].op, Some(Op::Spin(s)) if s.until_ns.saturating_mul(PS) <= self.now) {
            self.kick(task, self.now);
        }
    }

    /// Lets a spinner look at its conditions again.
    pub(super) fn kick(&mut self, task: u32, t: u64) {
        if self.tasks[task as usize].state == State::Watch {
            self.unwatch(task, t);
            self.tasks[task as usize].state = State::Running;
            self.push(t.max(self.now), Kind::Step, task, 0);
        }
    }

    /// Pays for recorded visits one by one.
    fn replay(&mut self, task: u32, cpu: u32, mut t: u64) -> Outcome {
        let port = self.tasks[task as usize].port.clone();
        let visits = port.visits.borrow();
        let mut at = self.tasks[task as usize].visit;
        while let Some(v) = visits.get(at / 2) {
            // Two halves per visit: its computing, then its access.
            if at.is_multiple_of(2) {
                t += u64::from(v.work_ns) * PS;
                at += 1;
                self.tasks[task as usize].visit = at;
            }
            if t > self.now + self.costs.run_ahead {
                let Some(on) = self.run_on(task, cpu, t) else { return Outcome::Wait };
                t = on;
                if self.cpus[cpu as usize].resched && self.tasks[task as usize].preempt_off == 0 {
                    // Let the step that called see to it.
                    self.push(t, Kind::Step, task, 0);
                    return Outcome::Wait;
                }
            }
            let line = self.line_of[v.cell.0 as usize];
            if v.cell != Cell::NULL && !self.free_store[v.cell.0 as usize] {
                let until = if v.write { t + self.costs.commit } else { t };
                if !self.held(line, cpu, v.write, until) {
                    if !v.write {
                        return self.miss(task, cpu, v.cell, false, t);
                    }
                    // The write has taken effect already: what is left to pay for is its way through the store buffer.
                    match self.store(task, cpu, (v.cell, 0, 0), t) {
                        Outcome::Done(..) => {}
                        other => return other,
                    }
                } else {
                    self.touch(line, v.write, t);
                }
                t += self.costs.hit;
            }
            at += 1;
            self.tasks[task as usize].visit = at;
        }
        Outcome::Done(0, t)
    }
}
