//! CPUs, sleep, wake-up, preemption.

use super::exec::Store;
use super::{Engine, Kind, NONE, State};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(super) struct Cpu {
    /// Running task or [`NONE`].
    current: u32,
    /// Tasks that wait for this CPU.
    pub(super) queue: VecDeque<u32>,
    /// The running task should give way.
    pub(super) resched: bool,
    since: u64,
    /// Counts changes of `current`, so that old slice events are known as such.
    generation: u32,
    armed: bool,
    /// Stores not yet committed.
    pub(super) stores: VecDeque<Store>,
    /// Lines requested for them.
    pub(super) requested: Vec<u32>,
    /// Task waiting for the store buffer.
    pub(super) waiter: u32,
    /// Time taken by interrupts, charged to the next step.
    pub(super) stolen: u64,
}

impl Default for Cpu {
    fn default() -> Self {
        Cpu {
            current: NONE,
            queue: VecDeque::new(),
            resched: false,
            since: 0,
            generation: 0,
            armed: false,
            stores: VecDeque::new(),
            requested: Vec::new(),
            waiter: NONE,
            stolen: 0,
        }
    }
}

impl Engine<'_> {
    /// A wake-up or the end of a timer has arrived.
    pub(super) fn wake(&mut self, task: u32, timer: bool) {
        let waits_for = if timer { State::Asleep } else { State::Parked };
        if self.tasks[task as usize].state != waits_for {
            if self.tasks[task as usize].state != State::Finished {
                self.tasks[task as usize].token = true;
            }
            return;
        }
        let cpu = self.choose_cpu(task);
        if self.tasks[task as usize].cpu != cpu {
            self.move_to(task, cpu);
        }
        let now = self.now;
        let c = &mut self.cpus[cpu as usize];
        if c.current == NONE {
            let at = now + self.costs.wake_latency + self.costs.switch;
            self.take_cpu(task, cpu, at);
            return;
        }
        self.tasks[task as usize].state = State::Ready;
        self.queued += 1;
        if now.saturating_sub(c.since) >= self.costs.granularity {
            c.queue.push_front(task);
            self.set_resched(cpu);
        } else {
            c.queue.push_back(task);
            self.arm(cpu);
        }
    }

    fn choose_cpu(&self, task: u32) -> u32 {
        let t = &self.tasks[task as usize];
        if t.pinned || self.idle_cpus == 0 || self.cpus[t.cpu as usize].current == NONE {
            return t.cpu;
        }
        let n = self.cpu_count;
        let idle = |c: &u32| self.cpus[*c as usize].current == NONE;
        let around = (1..n).map(|k| (t.cpu + k) % n);
        let home = self.near.socket(t.cpu);
        let near = around.clone().filter(|c| self.near.socket(*c) == home).find(idle);
        near.or_else(|| around.clone().find(idle)).unwrap_or(t.cpu)
    }

    fn move_to(&mut self, task: u32, cpu: u32) {
        self.tasks[task as usize].cpu = cpu;
        self.tasks[task as usize].port.cpu.set(cpu);
        self.count.migrations += 1;
    }

    fn take_cpu(&mut self, task: u32, cpu: u32, at: u64) {
        let c = &mut self.cpus[cpu as usize];
        if c.current == NONE {
            self.idle_cpus -= 1;
        }
        (c.current, c.since, c.resched, c.armed) = (task, at, false, false);
        c.generation = c.generation.wrapping_add(1);
        self.count.switches += 1;
        self.tasks[task as usize].state = State::Running;
        self.tasks[task as usize].port.resched.set(false);
        self.push(at, Kind::Step, task, 0);
        if !self.cpus[cpu as usize].queue.is_empty() {
            self.arm(cpu);
        }
    }

    fn arm(&mut self, cpu: u32) {
        let slice = self.costs.slice;
        let now = self.now;
        let c = &mut self.cpus[cpu as usize];
        if !c.armed {
            c.armed = true;
            let (at, generation) = ((c.since + slice).max(now), c.generation);
            self.push(at, Kind::Slice, cpu, generation);
        }
    }

    pub(super) fn slice_end(&mut self, cpu: u32, generation: u32) {
        let c = &mut self.cpus[cpu as usize];
        if c.generation != generation {
            return;
        }
        c.armed = false;
        if !c.queue.is_empty() && c.current != NONE {
            self.set_resched(cpu);
        }
    }

    fn set_resched(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        c.resched = true;
        let current = c.current;
        if let Some(t) = self.tasks.get(current as usize) {
            t.port.resched.set(true);
            self.kick(current, self.now);
        }
    }

    /// The running task goes to the end of the queue.
    pub(super) fn preempt(&mut self, task: u32, t: u64) {
        let cpu = self.tasks[task as usize].cpu;
        self.tasks[task as usize].state = State::Ready;
        self.count.preemptions += 1;
        self.cpus[cpu as usize].queue.push_back(task);
        self.queued += 1;
        self.leave_cpu(task, t);
    }

    pub(super) fn go_to_sleep(&mut self, task: u32, state: State, t: u64) {
        self.tasks[task as usize].state = state;
        self.count.sleeps += 1;
        self.leave_cpu(task, t);
    }

    pub(super) fn finish(&mut self, task: u32, t: u64) {
        self.tasks[task as usize].state = State::Finished;
        self.live -= 1;
        self.leave_cpu(task, t);
    }

    /// Whoever spins for this task is told, and the CPU takes another task or goes idle.
    fn leave_cpu(&mut self, task: u32, t: u64) {
        self.shared.on_cpu[task as usize].set(false);
        let mut spinners = std::mem::take(&mut self.spinners_for[task as usize]);
        spinners.sort_unstable();
        spinners.into_iter().for_each(|s| self.kick(s, t));
        let cpu = self.tasks[task as usize].cpu;
        let next = self.cpus[cpu as usize].queue.pop_front().or_else(|| self.pull(cpu));
        match next {
            Some(next) => {
                self.queued -= 1;
                let cost = self.costs.switch;
                self.take_cpu(next, cpu, t + cost);
            }
            None => {
                let c = &mut self.cpus[cpu as usize];
                (c.current, c.resched) = (NONE, false);
                c.generation = c.generation.wrapping_add(1);
                c.armed = false;
                self.idle_cpus += 1;
                self.count.switches += 1;
            }
        }
    }

    /// An idle CPU takes a waiting task that may move, from its own socket first.
    fn pull(&mut self, cpu: u32) -> Option<u32> {
        if !self.balance || self.queued == 0 {
            return None;
        }
        let n = self.cpu_count;
        let home = self.near.socket(cpu);
        for same in [true, false] {
            for k in 1..n {
                let other = (cpu + k) % n;
                if (self.near.socket(other) == home) != same {
                    continue;
                }
                let queue = &self.cpus[other as usize].queue;
                let Some(at) = queue.iter().position(|&t| !self.tasks[t as usize].pinned) else { continue };
                let task = self.cpus[other as usize].queue.remove(at)?;
                self.move_to(task, cpu);
                return Some(task);
            }
        }
        None
    }
}
