//! Keeping to the share of the program's time that watching may take, and saying what it took.
//!
//! Clocks of threads are followed exactly and disturb nobody else. But the kernel sets them up anew whenever a thread
//! comes to run, and a server that sleeps for every request does so more often than it is sampled: 12 µs each time for
//! 500 Hz in a virtual machine, a sample 10 to 18. There the clocks of whole CPUs take over, which cost their samples
//! alone. Who has no right to these samples as fast as it makes sense for a short while, and pauses for long: what
//! coming to run costs hardly depends on how often one samples then.

use super::clock::Clock;
use super::cost::{self, Cost};
use super::event;
use super::load::Ticking;
use super::{Options, RATE_HZ, RATE_HZ_MAX, RATE_HZ_MIN, Watching};
use tussle_evidence::Unit;
use tussle_live::confirm::WATCHED_MAX;
use tussle_live::decode;
use tussle_live::session::Target;

/// It is looked at so often what the threads did; less often where that does not decide when the clock pauses.
const LOOK_NS: u64 = 50_000_000;
const LOOK_OF_CPUS_NS: u64 = 250_000_000;

/// The clock may cost so much before it has to pause.
const SLACK_NS: u64 = 2_000_000;

/// Whose clock samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// That of the watched threads.
    #[default]
    Threads,
    /// The same, fast for short times: they come to run so often.
    Bursts,
    /// That of the CPUs, whatever they run.
    Cpus,
}

/// What watching costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// Measured before.
    pub cost: Cost,
    /// Samples per second of a running thread.
    pub rate_hz: u64,
    /// Whose clock it is.
    pub way: Way,
    /// Hits of debug registers.
    pub hits: u64,
    /// Times that words were armed.
    pub armings: u64,
    /// Times that watched threads came to run while the clock was on.
    pub switches: u64,
    /// Time for which the clock paused to keep to the budget.
    pub paused_ns: u64,
    /// CPU time of tussle itself while no CPU was idle.
    pub own_ns: u64,
    /// CPU time of the watched threads.
    pub cpu_ns: u64,
    /// Share of the watched threads' CPU time; `None` when they had none.
    pub share: Option<f64>,
}

impl Watching {
    /// CPU time of the watched threads; of the kernel, that of all CPUs, whatever they run: the clock stops all.
    pub(super) fn cpu_ns(&self) -> u64 {
        if self.is_kernel() {
            return event::now_ns().saturating_sub(self.begin_ns) * self.clock.cpus() as u64;
        }
        let ran = self.load.ran_ns.unwrap_or(0);
        match self.session.unit {
            // Samples of a clock are time.
            Unit::ClockSamples => ran.max(self.counted() * 1_000_000_000 / self.rate_hz),
            _ => ran,
        }
    }

    /// Samples of the watched threads.
    fn counted(&self) -> u64 {
        let c = &self.session.counts;
        // What is lost of whole CPUs may be anybody's.
        c.samples + if self.session.whole_machine { 0 } else { c.lost }
    }

    /// Samples taken, those that were not written included.
    fn taken(&self) -> u64 {
        match self.is_kernel() {
            true => self.cpu_ns() / (1_000_000_000 / self.rate_hz),
            // In the kernel's code a thread is interrupted, too, but no sample is written.
            false => (self.counted() + self.session.counts.kernels).max(self.load.ticks as u64),
        }
    }

    /// What the clock has cost the watched threads.
    fn clock_ns(&self) -> u64 {
        self.taken() * self.cost.sample_ns + self.load.switches_ns
    }

    /// What everything has cost them.
    fn spent_ns(&self) -> u64 {
        self.clock_ns() + self.watcher.spent.ns(&self.cost) + self.own.ns()
    }

    /// Debug registers may take what the clock has left of the whole, but for the next four words.
    pub(super) fn has_room_for_registers(&self) -> bool {
        let allowed = (self.cpu_ns() as f64 * self.options.overhead) as u64;
        // Who arms waits for each interruption of the other CPU, which takes him twice as long (docs/live.md).
        let each = 3 * self.cost.arming_ns + self.cost.trap_ns;
        let next = each * WATCHED_MAX as u64;
        self.spent_ns() + next < allowed
    }

    /// Half of the budget is for samples: where the clock itself costs more, it becomes another one, or pauses.
    pub(super) fn keep_to_budget(&mut self) {
        if self.is_kernel() || self.child.is_some() && self.session.threads.is_empty() {
            return;
        }
        let (now, on) = (event::now_ns(), self.paused_at_ns.is_none());
        let (switch_ns, pause_ns) = match self.way {
            Way::Cpus => (0, LOOK_OF_CPUS_NS),
            _ => (self.cost.switch_ns, LOOK_NS),
        };
        let ticking = Ticking { rate_hz: self.rate_hz, switch_ns };
        self.load.read(&self.session, (now, pause_ns), on.then_some(ticking));
        if self.way == Way::Cpus {
            // Its rate is what the budget has room for.
            return;
        }
        let allowed = (self.cpu_ns() as f64 * self.options.overhead / 2.0) as u64;
        let spent = self.clock_ns();
        let wanted = if on { spent < allowed + SLACK_NS } else { spent <= allowed };
        if wanted == on || !wanted && self.found_a_cheaper_way() {
            return;
        }
        self.clock.switch(wanted);
        if wanted {
            self.paused_ns = self.all_paused_ns(now);
            self.paused_at_ns = None;
            self.changed_meanwhile();
        } else {
            self.paused_at_ns = Some(now);
        }
    }

    /// True where the clock need not pause.
    fn found_a_cheaper_way(&mut self) -> bool {
        let wakeups = self.load.switches_ns > self.taken() * self.cost.sample_ns;
        if self.way != Way::Threads || self.session.unit != Unit::ClockSamples || !wakeups {
            return false;
        }
        let period_ns = 1_000_000_000 / self.rate_hz;
        let replaced = self.replace_clock(|_, from_ns| Clock::of_cpus(period_ns, from_ns).ok());
        if replaced {
            self.way = Way::Cpus;
            self.session.whole_machine = true;
            return true;
        }
        let rate_hz = self.options.rate_hz.unwrap_or(RATE_HZ);
        let period_ns = 1_000_000_000 / rate_hz;
        let faster = self.replace_clock(|watching, from_ns| {
            let mut clock = Clock::new(period_ns, false).from(from_ns);
            // A process that has ended is no error.
            let watched = watching.session.alive().filter(|(_, p)| clock.watch(p.pid).is_ok()).count();
            (watched > 0).then_some(clock)
        });
        if faster {
            (self.way, self.rate_hz) = (Way::Bursts, rate_hz);
            self.cost.switch_ns = cost::switch(period_ns);
        }
        false
    }

    /// Another clock takes over from now on; false where it cannot be had.
    fn replace_clock(&mut self, open: impl FnOnce(&Watching, u64) -> Option<Clock>) -> bool {
        let from_ns = event::now_ns();
        let Some(clock) = open(self, from_ns) else { return false };
        self.collect(from_ns);
        self.clock = clock;
        true
    }

    /// While the clock pauses nobody tells which processes begin to run another program.
    pub(super) fn changed_meanwhile(&mut self) {
        let known: Vec<(u32, String)> =
            self.session.alive().map(|(_, p)| (p.pid, p.program.exe.clone())).collect();
        for (pid, exe) in known {
            if self.procs.program(pid).is_some_and(|now| now.exe != exe) {
                let name = self.procs.thread_name(pid, pid).unwrap_or_default();
                self.session.take(&decode::Event::Named(pid, pid, name, true), &mut self.procs);
            }
        }
    }

    fn all_paused_ns(&self, now_ns: u64) -> u64 {
        self.paused_ns + self.paused_at_ns.map_or(0, |at| now_ns.saturating_sub(at))
    }

    /// What it cost so far.
    pub fn overhead(&self) -> Overhead {
        let cpu_ns = self.cpu_ns();
        let spent = self.watcher.spent;
        let lost = self.spent_ns();
        Overhead {
            cost: self.cost,
            rate_hz: self.rate_hz,
            way: self.way,
            hits: spent.hits,
            armings: spent.armings,
            switches: self.load.switches,
            paused_ns: self.all_paused_ns(self.end_ns),
            own_ns: self.own.ns(),
            cpu_ns,
            share: (cpu_ns > 0).then(|| lost as f64 / cpu_ns as f64),
        }
    }
}

/// Half of the budget is for samples.
pub(super) fn rate(options: &Options, sample_ns: u64) -> u64 {
    let affordable = (options.overhead / 2.0 * 1e9 / sample_ns as f64) as u64;
    let wanted = options.rate_hz.unwrap_or(RATE_HZ).min(RATE_HZ_MAX);
    wanted.min(affordable).max(RATE_HZ_MIN)
}
