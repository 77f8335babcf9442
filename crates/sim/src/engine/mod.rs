//! The event loop: one heap of events, integer picoseconds, ties broken by order of creation.

mod coherence;
mod exec;
mod near;
mod sched;
#[cfg(test)]
mod tests;

use crate::env::{Op, Program};
use crate::machine::{Distance, Machine, MachineError};
use crate::memory::{Cell, MemoryMap};
use crate::port::{Port, PortEnv, Shared, SimWords};
use coherence::Line;
use near::Near;
use sched::Cpu;
use std::cell::Cell as Slot;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use tussle_stats::Rng;

/// Picoseconds in a nanosecond.
pub(crate) const PS: u64 = 1_000;
/// No CPU, no task, no time.
pub(crate) const NONE: u32 = u32::MAX;
const NEVER: u64 = u64::MAX;
/// What [`Config::idle_events_max`] is unless told otherwise: some seconds of simulating.
const IDLE_EVENTS_MAX: u64 = 20_000_000;

/// How to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// CPUs used, from CPU 0.
    pub cpus: u32,
    /// Simulated time that is measured, ns.
    pub run_ns: u64,
    /// Simulated time before that, not measured, ns.
    pub warmup_ns: u64,
    /// Seed of all randomness.
    pub seed: u64,
    /// Relative jitter of latencies, so that CPUs do not fall into step.
    pub jitter: f64,
    /// How far a task may run ahead of the others on lines that it holds, ns.
    pub run_ahead_ns: u64,
    /// Stores to fields with this ending are free (an ablation); empty for none.
    pub free_stores: String,
    /// Events without any sign of progress after which a run is called a livelock.
    pub idle_events_max: u64,
}

impl Config {
    /// `cpus` CPUs for `run_ns` after a tenth of that as warm-up.
    pub fn new(cpus: u32, run_ns: u64, seed: u64) -> Config {
        Config {
            cpus,
            run_ns,
            warmup_ns: run_ns / 10,
            seed,
            jitter: 0.1,
            run_ahead_ns: 20,
            free_stores: String::new(),
            idle_events_max: IDLE_EVENTS_MAX,
        }
    }
}

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The machine makes no sense.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// More CPUs than the machine has, or none.
    #[error("{cpus} CPUs asked for, `{machine}` has {has}")]
    Cpus {
        /// Asked for.
        cpus: u32,
        /// Machine.
        machine: String,
        /// Number that it has.
        has: u32,
    },
    /// Nobody can ever run again.
    #[error("deadlock at {at_ns} ns: {tasks}")]
    Deadlock {
        /// Simulated time.
        at_ns: u64,
        /// Who waits for what.
        tasks: String,
    },
    /// Everybody runs and nobody gets anywhere.
    #[error("livelock at {at_ns} ns: no task made progress for {events} events; {tasks}")]
    Livelock {
        /// Simulated time.
        at_ns: u64,
        /// Events since the last progress.
        events: u64,
        /// Who waits for what.
        tasks: String,
    },
    /// The program's own check failed at the end.
    #[error("objects are wrong at the end of the run: {0}")]
    Check(String),
}

/// Sums over the measured time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Accesses of any kind, hits included.
    pub accesses: u64,
    /// Line transfers.
    pub transfers: u64,
    /// Of these, from a CPU that had modified the line.
    pub hit_modified: u64,
    /// Context switches, to and from idle included, as vmstat counts them.
    pub switches: u64,
    /// Times that a task went to sleep.
    pub sleeps: u64,
    /// Wake-ups sent.
    pub wakes: u64,
    /// Tasks preempted.
    pub preemptions: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// Interrupts between CPUs.
    pub interrupts: u64,
    /// Time spent spinning, ns, over all CPUs.
    pub spin_ns: u64,
    /// Iterations of spin loops, from that time and the length of a pause.
    pub spins: u64,
    /// Time waiting for locks, ns, over all tasks (as far as the program says).
    pub wait_ns: u64,
    /// Time holding locks, ns.
    pub held_ns: u64,
    /// Events processed.
    pub events: u64,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// Operations completed in the measured time.
    pub operations: u64,
    /// Measured simulated time, ns.
    pub measured_ns: u64,
    /// Operations by task.
    pub by_task: Vec<u64>,
    /// (field, transfers, of these hit-modified), most first, summed over objects of a type.
    pub by_field: Vec<(String, u64, u64)>,
    /// (lowest-addressed touched field of the line, byte address of the line, transfers), most first, at most 32.
    pub by_line: Vec<(String, u32, u64)>,
    /// Everything else.
    pub counters: Counters,
    /// The whole run, its warm-up and its tasks' last operations included: what the simulator had to do.
    pub whole: Whole,
}

/// Sums over a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// Accesses of any kind.
    pub accesses: u64,
    /// Events processed.
    pub events: u64,
    /// Simulated time at which the last task returned, ns.
    pub end_ns: u64,
}

impl Simulated {
    /// Operations per second.
    pub fn throughput(&self) -> f64 {
        self.operations as f64 * 1e9 / self.measured_ns.max(1) as f64
    }

    /// Jain's index of the tasks' shares: 1 is fair, 1/n is one task alone.
    pub fn fairness(&self) -> f64 {
        let n = self.by_task.len().max(1) as f64;
        let sum: f64 = self.by_task.iter().map(|&x| x as f64).sum();
        let squares: f64 = self.by_task.iter().map(|&x| (x as f64) * (x as f64)).sum();
        if squares == 0.0 { 1.0 } else { sum * sum / (n * squares) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A task goes on.
    Step,
    /// A line leaves its holders.
    Start,
    /// A line has arrived at a new exclusive holder, or was downgraded.
    Done,
    /// A shared copy has arrived.
    Shared,
    /// A task becomes runnable.
    Wake,
    /// A time slice ends.
    Slice,
    /// The time of a spin ends.
    Expire,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: u64,
    seq: u64,
    kind: Kind,
    a: u32,
    b: u32,
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A step is scheduled, or it is being stepped.
    Running,
    /// A line was requested.
    Miss(u32),
    /// Spins, waiting for one of its lines to be taken away.
    Watch,
    /// The store buffer has to be empty.
    Drain,
    /// The store buffer has to have room.
    Slot,
    /// Sleeps until woken.
    Parked,
    /// Sleeps until its timer ends.
    Asleep,
    /// Waits for a CPU.
    Ready,
    /// Has returned.
    Finished,
}

struct Task<'p> {
    future: Option<Pin<Box<dyn Future<Output = ()> + 'p>>>,
    port: Rc<Port>,
    cpu: u32,
    pinned: bool,
    state: State,
    op: Option<Op>,
    token: bool,
    preempt_off: u32,
    visit: usize,
    watch_since: u64,
    watched: [u32; 2],
    /// The time for which an end of spinning was scheduled last, ps.
    expires: u64,
    /// The cell that it changed last by a locked operation.
    last: Cell,
}

/// Costs in ps. `latency` is a whole transfer of a modified line, three legs of half a ping-pong hop each: in ping-pong
/// the next request waits at the line's home already, so that a hop is two legs.
struct Costs {
    hit: u64,
    rmw: u64,
    tenure: u64,
    commit: u64,
    pause: u64,
    run_ahead: u64,
    latency: [u64; 5],
    clean: [u64; 5],
    memory: u64,
    switch: u64,
    wake_cost: u64,
    wake_latency: u64,
    granularity: u64,
    slice: u64,
    ipi_send: u64,
    ipi_receive: u64,
}

pub(crate) struct Engine<'p> {
    memory: &'p MemoryMap,
    costs: Costs,
    early_rfo: bool,
    migratory: bool,
    socket_run: u32,
    balance: bool,
    pairs: bool,
    jitter_ppm: u64,
    store_buffer: usize,
    near: Near,
    cpu_count: u32,
    lines: Vec<Line>,
    sharers: Vec<u64>,
    words: usize,
    line_of: Vec<u32>,
    free_store: Vec<bool>,
    cpus: Vec<Cpu>,
    tasks: Vec<Task<'p>>,
    /// Tasks that spin while the task of this number runs.
    spinners_for: Vec<Vec<u32>>,
    shared: Rc<Shared>,
    heap: BinaryHeap<Reverse<Event>>,
    /// An event that is often the next one.
    next: Option<Event>,
    /// Lists of spinners that are not in use, for their memory.
    spare: Vec<Vec<u32>>,
    /// Steps that followed the current event without one of their own.
    in_a_row: u32,
    /// Some task has asked for a line ahead.
    looks_ahead: bool,
    /// Beginning or end of the measured time, whichever comes next.
    boundary: u64,
    now: u64,
    seq: u64,
    live: usize,
    idle_cpus: u32,
    queued: u32,
    rng: Rng,
    count: Counters,
    by_cell: Vec<(u64, u64)>,
}

/// Runs a program to its end and checks its objects.
///
/// # Errors
/// See [`SimError`].
pub fn simulate<P: Program>(program: &P, machine: &Machine, config: &Config) -> Result<Simulated, SimError> {
    let mut engine = Engine::new(program, machine, config)?;
    engine.run(program, config)
}

fn ps(ns: f64) -> u64 {
    (ns * PS as f64).round() as u64
}

impl Costs {
    fn new(machine: &Machine, config: &Config) -> Costs {
        let (c, s) = (&machine.core, &machine.sched);
        let of = [Distance::Own, Distance::Smt, Distance::Cluster, Distance::Socket, Distance::Cross];
        let latency = of.map(|d| ps(machine.latency(d) * 1.5));
        let clean = of.map(|d| {
            if d <= Distance::Smt { ps(machine.latency(d)) } else { ps(machine.latency(d) * c.clean_share) }
        });
        Costs {
            hit: ps(c.hit_ns).max(1),
            rmw: ps(c.rmw_ns).max(1),
            tenure: ps(c.tenure_ns),
            commit: ps(c.commit_ns),
            pause: ps(c.pause_ns).max(1),
            run_ahead: config.run_ahead_ns * PS,
            latency,
            clean,
            memory: ps(machine.latency_ns.memory),
            switch: ps(s.switch_ns),
            wake_cost: ps(s.wake_cost_ns),
            wake_latency: ps(s.wake_latency_ns),
            granularity: ps(s.wakeup_granularity_ns),
            slice: ps(s.slice_ns),
            ipi_send: ps(s.ipi_send_ns),
            ipi_receive: ps(s.ipi_receive_ns),
        }
    }
}

impl<'p> Engine<'p> {
    fn new<P: Program>(program: &'p P, machine: &Machine, config: &Config) -> Result<Engine<'p>, SimError> {
        machine.validate()?;
        let has = machine.cpus();
        if config.cpus == 0 || config.cpus > has {
            return Err(SimError::Cpus { cpus: config.cpus, machine: machine.name.clone(), has });
        }
        let memory = program.memory();
        let n = config.cpus;
        let line_bytes = machine.line_bytes.max(1);
        let line_count = (memory.bytes() / line_bytes + 2) as usize;
        let words = (n as usize).div_ceil(64);
        let cells = memory.cells();
        let cell = |i: usize| Cell(i as u32);
        let free =
            |i: usize| !config.free_stores.is_empty() && memory.name(cell(i)).ends_with(&config.free_stores);
        let tasks = program.tasks();
        let shared = Rc::new(Shared {
            values: (0..cells).map(|_| Slot::new(0)).collect(),
            stop: Slot::new(false),
            on_cpu: (0..tasks).map(|_| Slot::new(false)).collect(),
            progress: Slot::new(0),
        });
        let mut engine = Engine {
            memory,
            costs: Costs::new(machine, config),
            early_rfo: machine.core.early_rfo,
            migratory: machine.core.migratory,
            socket_run: machine.core.socket_run.round() as u32,
            balance: machine.sched.balance,
            pairs: machine.adjacent_pairs && line_bytes < 128,
            jitter_ppm: (config.jitter.clamp(0.0, 0.9) * 1e6) as u64,
            store_buffer: machine.core.store_buffer.max(1) as usize,
            near: Near::new(machine, n),
            cpu_count: n,
            lines: (0..line_count).map(|_| Line::new()).collect(),
            sharers: vec![0; line_count * words],
            words,
            line_of: (0..cells).map(|i| memory.at(cell(i)).addr / line_bytes).collect(),
            free_store: (0..cells).map(free).collect(),
            cpus: (0..n).map(|_| Cpu::default()).collect(),
            tasks: Vec::with_capacity(tasks),
            spinners_for: vec![Vec::new(); tasks],
            shared: shared.clone(),
            heap: BinaryHeap::new(),
            next: None,
            spare: Vec::new(),
            in_a_row: 0,
            looks_ahead: false,
            boundary: 0,
            now: 0,
            seq: 0,
            live: tasks,
            idle_cpus: n,
            queued: 0,
            rng: Rng::new(config.seed),
            count: Counters::default(),
            by_cell: vec![(0, 0); cells],
        };
        program.init(&mut SimWords { values: &shared.values, visits: None, work_ns: 0 });
        for i in 0..tasks {
            engine.spawn(program, i as u32, config.seed);
        }
        for line in &engine.line_of {
            if let Some(l) = engine.lines.get_mut(*line as usize) {
                l.used = true;
            }
        }
        Ok(engine)
    }

    fn spawn<P: Program>(&mut self, program: &'p P, task: u32, seed: u64) {
        let mixed = seed ^ (u64::from(task) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let port = Rc::new(Port::new(mixed));
        let env = PortEnv { port: port.clone(), shared: self.shared.clone(), task };
        let future: Pin<Box<dyn Future<Output = ()> + 'p>> = Box::pin(async move { program.run(&env).await });
        let pin = program.pinned(task, self.cpu_count).map(|c| c % self.cpu_count);
        let cpu = pin.unwrap_or(task % self.cpu_count);
        port.cpu.set(cpu);
        self.tasks.push(Task {
            future: Some(future),
            port,
            cpu,
            pinned: pin.is_some(),
            state: State::Parked,
            op: None,
            token: false,
            preempt_off: 0,
            visit: 0,
            watch_since: 0,
            watched: [NONE; 2],
            expires: NEVER,
            last: Cell::NULL,
        });
        // Tasks start within one microsecond of each other, in no particular order.
        let at = self.rng.below(1_000 * PS as usize) as u64;
        self.push(at, Kind::Wake, task, 0);
    }

    fn push(&mut self, at: u64, kind: Kind, a: u32, b: u32) {
        self.seq += 1;
        let event = Event { at, seq: self.seq, kind, a, b };
        // Most events are the next to come: they never see the heap.
        match &mut self.next {
            Some(next) if *next < event => self.heap.push(Reverse(event)),
            next => {
                if let Some(old) = next.replace(event) {
                    self.heap.push(Reverse(old));
                }
            }
        }
    }

    /// The earliest event; of several at one time the one that was created first.
    fn pop(&mut self) -> Option<Event> {
        match (&self.next, self.heap.peek()) {
            (Some(next), Some(Reverse(top))) if top < next => self.heap.pop().map(|e| e.0),
            (None, _) => self.heap.pop().map(|e| e.0),
            _ => self.next.take(),
        }
    }

    /// No event is due at or before `t`.
    fn alone_until(&self, t: u64) -> bool {
        self.next.is_none_or(|e| e.at > t) && self.heap.peek().is_none_or(|e| e.0.at > t)
    }

    fn run<P: Program>(&mut self, program: &P, config: &Config) -> Result<Simulated, SimError> {
        let start = config.warmup_ns * PS;
        let end = start + config.run_ns.max(1) * PS;
        let mut begun: Option<(Counters, Vec<u64>)> = None;
        let mut ended: Option<(Counters, Vec<u64>)> = None;
        let (mut progress, mut since) = (0, 0);
        self.boundary = start;
        while self.live > 0 {
            let Some(event) = self.pop() else {
                return Err(SimError::Deadlock { at_ns: self.now / PS, tasks: self.stuck() });
            };
            debug_assert!(event.at >= self.now, "time went back");
            self.now = event.at;
            if begun.is_none() && self.now >= start {
                begun = Some(self.snapshot());
                self.boundary = end;
                self.by_cell.iter_mut().for_each(|c| *c = (0, 0));
            }
            if ended.is_none() && self.now >= end {
                ended = Some(self.snapshot());
                self.boundary = NEVER;
                self.shared.stop.set(true);
            }
            self.count.events += 1;
            let seen = self.shared.progress.get();
            if seen != progress {
                (progress, since) = (seen, self.count.events);
            }
            let events = self.count.events - since;
            if events > config.idle_events_max {
                return Err(SimError::Livelock { at_ns: self.now / PS, events, tasks: self.stuck() });
            }
            // A line's arrival has requests of its own to see to after the step that it causes.
            self.in_a_row = if event.kind == Kind::Step { 0 } else { exec::IN_A_ROW_MAX };
            self.dispatch(event);
        }
        self.finish_requests();
        debug_assert!(self.all_answered(), "a request or a store was left behind");
        let words = &mut SimWords { values: &self.shared.values, visits: None, work_ns: 0 };
        program.check(words).map_err(SimError::Check)?;
        let ended = ended.unwrap_or_else(|| self.snapshot());
        Ok(self.result(
            begun.unwrap_or_else(|| (Counters::default(), vec![0; self.tasks.len()])),
            ended,
            config,
        ))
    }

    /// Lets transfers and stores end that were under way when the last task returned.
    fn finish_requests(&mut self) {
        while let Some(event) = self.pop() {
            self.now = event.at;
            if matches!(event.kind, Kind::Start | Kind::Done | Kind::Shared) {
                self.dispatch(event);
            }
        }
    }

    fn dispatch(&mut self, event: Event) {
        match event.kind {
            Kind::Step => self.step(event.a),
            Kind::Start => self.start_transfer(event.a),
            Kind::Done => self.transfer_done(event.a),
            Kind::Shared => self.shared_arrived(event.a, event.b),
            Kind::Wake => self.wake(event.a, event.b == 1),
            Kind::Slice => self.slice_end(event.a, event.b),
            Kind::Expire => self.expire(event.a),
        }
    }

    fn snapshot(&self) -> (Counters, Vec<u64>) {
        let mut c = self.count.clone();
        for t in &self.tasks {
            c.wait_ns += t.port.notes.wait_ps.get() / PS;
            c.held_ns += t.port.notes.held_ps.get() / PS;
        }
        (c, self.tasks.iter().map(|t| t.port.notes.done.get()).collect())
    }

    fn result(&self, begun: (Counters, Vec<u64>), ended: (Counters, Vec<u64>), config: &Config) -> Simulated {
        let ((b, from), (e, to)) = (begun, ended);
        let by_task: Vec<u64> = from.iter().zip(&to).map(|(a, z)| z - a).collect();
        let spin_ns = e.spin_ns - b.spin_ns;
        let counters = Counters {
            accesses: e.accesses - b.accesses,
            transfers: e.transfers - b.transfers,
            hit_modified: e.hit_modified - b.hit_modified,
            switches: e.switches - b.switches,
            sleeps: e.sleeps - b.sleeps,
            wakes: e.wakes - b.wakes,
            preemptions: e.preemptions - b.preemptions,
            migrations: e.migrations - b.migrations,
            interrupts: e.interrupts - b.interrupts,
            spin_ns,
            spins: spin_ns * PS / self.costs.pause,
            wait_ns: e.wait_ns - b.wait_ns,
            held_ns: e.held_ns - b.held_ns,
            events: e.events - b.events,
        };
        let (by_field, by_line) = self.tables();
        let operations = by_task.iter().sum();
        let whole = Whole { accesses: self.count.accesses, events: self.count.events, end_ns: self.now / PS };
        Simulated {
            operations,
            measured_ns: config.run_ns.max(1),
            by_task,
            by_field,
            by_line,
            counters,
            whole,
        }
    }

    #[allow(clippy::type_complexity)]
    fn tables(&self) -> (Vec<(String, u64, u64)>, Vec<(String, u32, u64)>) {
        let mut fields = std::collections::BTreeMap::<String, (u64, u64)>::new();
        let mut lines = std::collections::BTreeMap::<u32, (String, u64)>::new();
        for (i, &(transfers, hitm)) in self.by_cell.iter().enumerate() {
            if transfers == 0 {
                continue;
            }
            let name = self.memory.name(Cell(i as u32));
            let line = lines.entry(self.line_of[i]).or_insert_with(|| (name.clone(), 0));
            line.1 += transfers;
            let f = fields.entry(name).or_default();
            *f = (f.0 + transfers, f.1 + hitm);
        }
        let mut fields: Vec<_> = fields.into_iter().map(|(n, (t, h))| (n, t, h)).collect();
        fields.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut lines: Vec<_> = lines.into_iter().map(|(l, (n, t))| (n, l, t)).collect();
        lines.sort_unstable_by(|a, b| b.2.cmp(&a.2).then(a.1.cmp(&b.1)));
        lines.truncate(32);
        (fields, lines)
    }

    /// An operation with the name of its field.
    fn describe(&self, op: Op) -> String {
        let (what, cell) = match op {
            Op::Load(c) | Op::LoadForCas(c) => ("a load of", c),
            Op::Store(c, _) | Op::Clear(c, _) => ("a store to", c),
            Op::Cas(c, ..) => ("a compare-and-swap of", c),
            Op::Add(c, _) | Op::Swap(c, _) => ("a locked operation on", c),
            Op::Spin(s) => ("a spin on", s.cell),
            other => return format!("{other:?}"),
        };
        format!("{what} {}", self.memory.name(cell))
    }

    /// Nothing is left behind when all tasks have returned: every request was answered, every store committed.
    fn all_answered(&self) -> bool {
        self.lines.iter().all(|l| l.is_quiet()) && self.cpus.iter().all(|c| c.stores.is_empty())
    }

    /// Who waits for what, at most eight tasks.
    fn stuck(&self) -> String {
        let waiting = self.tasks.iter().enumerate().filter(|(_, t)| t.state != State::Finished);
        let names: Vec<String> = waiting
            .take(8)
            .map(|(i, t)| {
                let what = match (t.state, t.op) {
                    (State::Watch, Some(Op::Spin(s))) => format!(
                        "spins while {} is {}",
                        self.memory.name(s.cell),
                        self.shared.values.get(s.cell.0 as usize).map_or(0, Slot::get)
                    ),
                    (State::Parked, _) => {
                        format!("sleeps and nobody wakes it; last changed {}", self.memory.name(t.last))
                    }
                    (_, Some(op)) => format!("is in {}", self.describe(op)),
                    (state, None) => format!("is {state:?}"),
                };
                format!("task {i} {what}")
            })
            .collect();
        names.join("; ")
    }
}
