//! Watching running programs: perf's software clock, debug registers, `/proc`. Never `ptrace`, never a write to the
//! watched process.

mod arming;
mod breakpoint;
mod budget;
mod clock;
mod command;
mod cost;
mod error;
mod event;
mod kernel;
mod load;
mod own;
mod pieces;
mod pmu;
mod target;
mod watch;

pub use budget::{Overhead, Way};
pub use cost::Cost;
pub use error::LiveError;
pub use target::{LiveImages, Procs};

use budget::rate;
use clock::Clock;
use command::Waiting;
use load::Load;
use own::Own;
use pmu::Choice;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tussle_evidence::{Evidence, Loss, Unit};
use tussle_live::convert::{self, About, Operands};
use tussle_live::decode;
use tussle_live::session::{Process, Session};
use watch::Watcher;

/// Samples per second of a running thread at most.
pub const RATE_HZ_MAX: u64 = 10_000;

/// Samples per second when nobody says, if the budget has room for them.
pub const RATE_HZ: u64 = 4_000;

/// The least that makes sense.
pub const RATE_HZ_MIN: u64 = 50;

/// Rings are read so often at least, and more often where the clock has to pause in between: waking up costs, too.
const TICK: Duration = Duration::from_millis(50);
const TICK_OF_BURSTS: Duration = Duration::from_millis(20);

/// Words are armed within so long of each other.
const BETWEEN_ARMINGS_NS: u64 = 5_000_000;

/// The kernel may take so long to write a record after it looked at the clock.
const LATE_NS: u64 = 1_000_000;

/// Maps of all processes are read so often.
const REFRESH_NS: u64 = 1_000_000_000;

/// Debug registers are used from here on: before, it is not known what is worth it.
const FIRST_WATCH_NS: u64 = 500_000_000;

/// Whom to watch.
#[derive(Clone, Debug)]
pub enum Who {
    /// Processes.
    Pids(Vec<u32>),
    /// All processes of a user, by name or number.
    User(String),
    /// All processes of a control group and of those in it.
    Cgroup(PathBuf),
    /// A command that is started.
    Command(Vec<OsString>),
    /// The kernel itself, with its file that has debug information.
    Kernel(Option<PathBuf>),
}

/// What is sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// Precise loads and stores where the PMU opens, else a software clock.
    #[default]
    Best,
    /// A software clock.
    Software,
    /// Precise loads and stores.
    Pmu,
}

/// How to watch.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whom.
    pub who: Who,
    /// What to sample.
    pub sampling: Sampling,
    /// Samples per second of a running thread; `None` lets the budget decide.
    pub rate_hz: Option<u64>,
    /// Share of the watched threads' time that may be lost, 0 to 1.
    pub overhead: f64,
    /// Use debug registers.
    pub confirm: bool,
}

/// Programs that are being watched.
pub struct Watching {
    /// What is known.
    pub session: Session,
    procs: Procs,
    clock: Clock,
    watcher: Watcher,
    load: Load,
    own: Own,
    way: Way,
    /// Since when the clock pauses.
    paused_at_ns: Option<u64>,
    /// For how long it did before.
    paused_ns: u64,
    cost: Cost,
    rate_hz: u64,
    options: Options,
    child: Option<Child>,
    begin_ns: u64,
    end_ns: u64,
    refreshed_ns: u64,
    started_unix_s: f64,
    /// What people should know: a process that is stopped, no debug registers.
    pub remarks: Vec<String>,
}

impl Watching {
    /// Begins.
    ///
    /// # Errors
    /// Nothing can be sampled; the message says what to change.
    pub fn start(options: Options) -> Result<Watching, LiveError> {
        if let Who::Kernel(vmlinux) = &options.who {
            let found = kernel::find(vmlinux.as_deref())?;
            return Watching::of_kernel(options, found);
        }
        let mut out = Watching::of_programs(options)?;
        match out.options.who.clone() {
            Who::Pids(pids) => pids.into_iter().try_for_each(|pid| out.attach(pid))?,
            Who::User(user) => out.attach_all(target::of_user(&user), LiveError::NoneOfUser(user))?,
            Who::Cgroup(path) => {
                let shown = path.display().to_string();
                let pids = target::of_cgroup(&path).ok_or(LiveError::NoCgroup(shown.clone()))?;
                out.attach_all(pids, LiveError::NoneOfCgroup(shown))?;
            }
            Who::Command(command) => out.run(&command)?,
            Who::Kernel(_) => {}
        }
        Ok(out)
    }

    /// Watches nobody yet, with what the machine has and the options allow.
    fn of_programs(options: Options) -> Result<Watching, LiveError> {
        let on_exec = matches!(options.who, Who::Command(_));
        let choice = pmu::choose(options.sampling, Path::new(pmu::DEVICES), &mut pmu::Machine)?;
        Ok(match choice {
            Choice::Precise(events) => {
                let cost = cost::measure(cost::Of::Precise(&events), |_| 0);
                let clock = Clock::precise(&events, rate(&options, cost.sample_ns), on_exec);
                let mut out = Watching::new(options, cost, clock);
                out.session.unit = Unit::PreciseSamples;
                out
            }
            Choice::Software(remark) => {
                let period_ns = |sample_ns| 1_000_000_000 / rate(&options, sample_ns);
                let cost = cost::measure(cost::Of::Program, period_ns);
                let clock = Clock::new(period_ns(cost.sample_ns), on_exec);
                let mut out = Watching::new(options, cost, clock);
                out.remarks.extend(remark);
                out
            }
        })
    }

    fn of_kernel(options: Options, found: kernel::Found) -> Result<Watching, LiveError> {
        if options.sampling == Sampling::Pmu {
            return Err(LiveError::NoPmu("the kernel is watched with the software clock alone".into()));
        }
        let cost = cost::measure(cost::Of::Kernel, |_| 0);
        let clock = Clock::of_kernel(1_000_000_000 / rate(&options, cost.sample_ns))?;
        let mut out = Watching::new(options, cost, clock);
        out.session = Session::of_kernel(found.kernel);
        out.procs = Procs::with_kernel(found.memory, found.file);
        out.remarks = found.remarks;
        Ok(out)
    }

    fn new(options: Options, cost: Cost, clock: Clock) -> Watching {
        let rate_hz = rate(&options, cost.sample_ns);
        let begin_ns = event::now_ns();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Watching {
            session: Session::default(),
            procs: Procs::default(),
            clock,
            watcher: Watcher::new(now.as_nanos() as u64, begin_ns),
            load: Load::default(),
            own: Own::new(),
            way: Way::Threads,
            paused_at_ns: None,
            paused_ns: 0,
            cost,
            rate_hz,
            options,
            child: None,
            begin_ns,
            end_ns: begin_ns,
            refreshed_ns: begin_ns,
            started_unix_s: now.as_secs_f64(),
            remarks: Vec::new(),
        }
    }

    fn attach(&mut self, pid: u32) -> Result<(), LiveError> {
        if target::is_32_bit(pid) {
            return Err(LiveError::Bits32(pid));
        }
        if target::state(pid).is_some_and(|s| matches!(s, 'T' | 't')) {
            self.remarks.push(format!("process {pid} is stopped: nothing is sampled until it goes on"));
        }
        for tid in self.clock.watch(pid)? {
            self.session.thread(pid, tid, &mut self.procs);
        }
        Ok(())
    }

    /// Processes that end meanwhile are no error; that there are none is `none`.
    fn attach_all(&mut self, pids: Vec<u32>, none: LiveError) -> Result<(), LiveError> {
        let mut first = Err(none);
        for pid in pids {
            match self.attach(pid) {
                Err(LiveError::NoProcess(_) | LiveError::Bits32(_)) => {}
                other => {
                    first = first.or(other);
                    if let Err(LiveError::Descriptors { .. }) = first {
                        return first;
                    }
                }
            }
        }
        first
    }

    fn run(&mut self, command: &[OsString]) -> Result<(), LiveError> {
        let waiting = Waiting::new(command)?;
        self.clock.watch(waiting.pid)?;
        self.child = Some(waiting.run()?);
        Ok(())
    }

    /// Watches for about so long; less when everything has ended.
    pub fn step(&mut self, length: Duration) {
        let until = event::now_ns() + length.as_nanos() as u64;
        while event::now_ns() < until {
            let before = event::now_ns();
            let watches = self.may_watch(before);
            let pause = match watches {
                true => Duration::from_nanos(self.watcher.random.below(BETWEEN_ARMINGS_NS)),
                false => self.tick().min(Duration::from_nanos(until - before)),
            };
            std::thread::sleep(pause);
            self.own.woke();
            if watches {
                self.watcher.once(&mut self.session, &mut self.procs);
            }
            self.collect(event::now_ns().saturating_sub(LATE_NS));
            self.keep_to_budget();
            if self.finished() {
                break;
            }
        }
        self.note_ends();
        self.end_ns = event::now_ns();
    }

    fn tick(&self) -> Duration {
        if self.way == Way::Bursts { TICK_OF_BURSTS } else { TICK }
    }

    /// While the clock pauses, nobody tells who ends.
    fn note_ends(&mut self) {
        if !self.is_kernel() {
            let gone = |p: &&mut Process| target::is_gone(p.pid);
            let alive = self.session.processes.iter_mut().filter(|p| p.end.is_empty());
            alive.filter(gone).for_each(|p| p.end = "exited");
        }
    }

    fn is_kernel(&self) -> bool {
        matches!(self.options.who, Who::Kernel(_))
    }

    fn may_watch(&self, now_ns: u64) -> bool {
        let passed = now_ns.saturating_sub(self.begin_ns);
        self.options.confirm
            && self.watcher.refused.is_none()
            && passed > FIRST_WATCH_NS
            // Once in any case: whether the kernel lets words be watched is worth it.
            && (self.has_room_for_registers() || self.watcher.spent.armings == 0)
            && self.session.lines.all().any(|l| l.1.shared())
    }

    /// Takes what happened until then, in order: which thread came after which matters, and what a process ran.
    fn collect(&mut self, until_ns: u64) {
        let bytes = self.clock.take(until_ns);
        for event in decode::events(&bytes, self.clock.layout()) {
            self.session.take(&event, &mut self.procs);
        }
        let now = event::now_ns();
        if now - self.refreshed_ns > REFRESH_NS {
            self.refreshed_ns = now;
            self.session.refresh(&mut self.procs);
            // A program that sleeps has no time of which the budget is a share: the clock may never go on.
            if self.paused_at_ns.is_some() {
                self.changed_meanwhile();
            }
        }
    }

    /// Everything that was watched has ended.
    pub fn finished(&mut self) -> bool {
        if self.is_kernel() {
            return false;
        }
        if let Some(child) = &mut self.child
            && !matches!(child.try_wait(), Ok(None))
        {
            return self.session.alive().all(|(_, p)| target::is_gone(p.pid));
        }
        self.child.is_none() && self.session.alive().all(|(_, p)| target::is_gone(p.pid))
    }

    /// Seconds watched.
    pub fn seconds(&self) -> f64 {
        (self.end_ns - self.begin_ns) as f64 / 1e9
    }

    /// Why debug registers are not used, if so.
    pub fn unconfirmed(&self) -> Option<String> {
        match (&self.watcher.refused, self.options.confirm) {
            (Some(e), _) => Some(clock::why_no_registers(e)),
            (None, false) => Some("--no-confirm was given".into()),
            (None, true) => None,
        }
    }

    /// The evidence of everything so far, names still missing.
    pub fn evidence(&mut self) -> (Evidence, Operands) {
        let loss = |why: String| Loss {
            process: None,
            what: "lines not confirmed by debug registers".into(),
            count: 1,
            note: why,
        };
        self.collect(u64::MAX);
        let o = self.overhead();
        let share = o.share.map_or("unknown".into(), |s| format!("{:.2}%", 100.0 * s));
        let mut flags = vec![
            format!("clock={}", self.clock.words()),
            format!("rate={}", o.rate_hz),
            format!("overhead={share} of {:.2}%", 100.0 * self.options.overhead),
            format!("hits={}", o.hits),
            format!("armings={}", o.armings),
            format!("own={:.3}s", o.own_ns as f64 / 1e9),
            format!("paused={:.1}s", o.paused_ns as f64 / 1e9),
        ];
        flags.extend(self.session.kernel.as_ref().map(|k| format!("idle={}", k.idle)));
        let about = About {
            started_unix_s: self.started_unix_s,
            duration_s: self.seconds(),
            cpu_model: cpu_model(),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            flags,
            seed: self.watcher.random.0,
            losses: self.unconfirmed().map(loss).into_iter().collect(),
        };
        convert::evidence(&mut self.session, &about, &mut self.procs)
    }

    /// Number of the command that was started, if it still runs.
    pub fn still_runs(&mut self) -> Option<u32> {
        let child = self.child.as_mut()?;
        matches!(child.try_wait(), Ok(None)).then(|| child.id())
    }

    /// Files for naming.
    pub fn procs(&self) -> &Procs {
        &self.procs
    }
}

impl Drop for Watching {
    /// A command that still runs when watching ends goes on by itself; one that has ended is not left as a zombie.
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.try_wait();
        }
    }
}

fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    line.map_or("unknown CPU".into(), |l| l.1.trim().to_string())
}
