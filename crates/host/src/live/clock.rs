//! The software clock, or a PMU's precise events, on all threads of some processes.
//!
//! One event per thread and CPU, inherited by what the thread starts, and one ring per CPU. Inherited events cannot
//! write to a ring of their own thread: the kernel refuses `mmap` of an inherited event that follows its thread from
//! CPU to CPU. Events of a thread without inheritance would miss threads that are born and die between two looks at
//! `/proc`. CPU-wide events see, and slow down, everybody else; but the kernel does not set them up anew whenever a
//! thread comes to run, which can cost more than all samples.

use super::error::{self, LiveError, refused};
use super::event::{self, Attr, CPU_CLOCK, Event, Ring, SOFTWARE, flag};
use super::pmu::Precise;
use super::target;
use std::collections::HashSet;
use std::io;
use tussle_live::decode::{self, Event as Record};

/// Pages of a ring: what an unprivileged user may lock by default on each CPU.
const RING_PAGES: usize = 128;

/// Looks at the list of threads for ones that were born while it was read.
const LOOKS_MAX: usize = 4;

/// Functions of a call chain in the kernel: the interrupted one and its callers.
const KERNEL_CALLERS: u16 = 4;

/// Descriptors that are needed for other things.
const SPARE_DESCRIPTORS: usize = 64;

/// The open events of all threads and the rings of all CPUs.
pub(super) struct Clock {
    sampled: Vec<Precise>,
    layout: tussle_perf::Attr,
    cpus: Vec<i32>,
    rings: Vec<Ring>,
    /// Of each CPU the event that owns the ring comes first.
    events: Vec<Vec<Event>>,
    /// Count, and sample nothing.
    leaders: Vec<Event>,
    buffer: Vec<u8>,
    /// Records from before belong to somebody else.
    from_ns: u64,
    /// What is sampled, as perf calls it, where it is not of threads.
    of_cpus: Option<&'static str>,
}

/// A software clock that samples the code of programs.
fn in_programs(period_ns: u64) -> Attr {
    let layout = decode::attr();
    Attr {
        kind: SOFTWARE,
        config: CPU_CLOCK,
        sample_period: period_ns,
        sample_type: layout.sample_type,
        sample_regs_user: layout.sample_regs_user,
        flags: flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV,
        ..Attr::default()
    }
}

impl Clock {
    /// Nothing watched yet; `on_exec`: the clock starts when the process runs its program.
    pub fn new(period_ns: u64, on_exec: bool) -> Clock {
        let attr = in_programs(period_ns);
        let clock = Precise { name: "cpu-clock".into(), attr, leader: None, cpus: None };
        Clock::with(following(vec![clock], on_exec), decode::attr())
    }

    /// Precise loads and stores, about so many samples of a thread per second in all.
    pub fn precise(events: &[Precise], rate_hz: u64, on_exec: bool) -> Clock {
        // Those of a hybrid processor's two kinds of cores never run at once.
        let at_once = events.iter().filter(|e| e.attr.kind == events[0].attr.kind).count() as u64;
        let sampled = events.iter().cloned().map(|mut e| {
            e.attr.sample_period = (rate_hz / at_once.max(1)).max(1);
            e.attr.flags |= flag::FREQUENCY;
            e
        });
        Clock::with(following(sampled.collect(), on_exec), decode::precise_attr())
    }

    /// The kernel's own code on all CPUs.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn of_kernel(period_ns: u64) -> Result<Clock, LiveError> {
        let layout = decode::kernel_attr();
        let attr = Attr {
            kind: SOFTWARE,
            config: CPU_CLOCK,
            sample_period: period_ns,
            sample_type: layout.sample_type,
            sample_regs_intr: layout.sample_regs_intr,
            sample_max_stack: KERNEL_CALLERS,
            flags: flag::EXCLUDE_USER | flag::EXCLUDE_HV | flag::EXCLUDE_CALLCHAIN_USER,
            ..Attr::default()
        };
        Clock::on_cpus("cpu-clock", &attr, layout).map_err(error::of_kernel)
    }

    /// The code of programs, whatever runs on the CPUs: it costs nothing when threads come to run. It tells of all
    /// processes, from `from_ns` on.
    ///
    /// # Errors
    /// The kernel refuses: one must have the right to watch everybody.
    pub fn of_cpus(period_ns: u64, from_ns: u64) -> io::Result<Clock> {
        let mut attr = in_programs(period_ns);
        attr.flags |= RECORDS;
        let clock = Clock::on_cpus("cpu-clock of all CPUs", &attr, decode::attr())?;
        Ok(clock.from(from_ns))
    }

    /// Of what happens before then another clock tells.
    pub fn from(self, from_ns: u64) -> Clock {
        Clock { from_ns, ..self }
    }

    fn on_cpus(words: &'static str, attr: &Attr, layout: tussle_perf::Attr) -> io::Result<Clock> {
        let flags = attr.flags | flag::USE_CLOCKID | flag::SAMPLE_ID_ALL;
        let attr = Attr { flags, clockid: libc::CLOCK_MONOTONIC, ..*attr };
        let mut out = Clock { of_cpus: Some(words), ..Clock::with(Vec::new(), layout) };
        for (n, cpu) in out.cpus.iter().enumerate() {
            let event = match Event::open(&attr, event::ANY_THREAD, *cpu) {
                Ok(event) => event,
                // Went offline.
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) => continue,
                Err(e) => return Err(e),
            };
            out.rings.push(ring(&event)?);
            out.events[n].push(event);
        }
        Ok(out)
    }

    fn with(sampled: Vec<Precise>, layout: tussle_perf::Attr) -> Clock {
        let cpus = online();
        let events = cpus.iter().map(|_| Vec::new()).collect();
        let (rings, leaders, buffer) = (Vec::new(), Vec::new(), Vec::new());
        Clock { sampled, layout, cpus, rings, events, leaders, buffer, from_ns: 0, of_cpus: None }
    }

    /// Stops or goes on with everything that this thread has opened.
    pub fn switch(&self, on: bool) {
        let what = if on { libc::PR_TASK_PERF_EVENTS_ENABLE } else { libc::PR_TASK_PERF_EVENTS_DISABLE };
        // SAFETY: takes no pointer.
        unsafe { libc::prctl(what, 0, 0, 0, 0) };
    }

    /// What is opened on every thread.
    #[cfg(test)]
    pub fn sampled(&self) -> &[Precise] {
        &self.sampled
    }

    /// What is sampled, as perf calls it.
    pub fn words(&self) -> String {
        let names: Vec<&str> = self.sampled.iter().map(|s| s.name.as_str()).collect();
        self.of_cpus.map_or_else(|| names.join("+"), Into::into)
    }

    /// How its records are laid out.
    pub fn layout(&self) -> &tussle_perf::Attr {
        &self.layout
    }

    /// CPUs that are watched.
    pub fn cpus(&self) -> usize {
        self.rings.len()
    }

    /// Watches all threads of a process. Returns those that exist.
    ///
    /// # Errors
    /// The kernel refuses; a thread that ends meanwhile is no error.
    pub fn watch(&mut self, pid: u32) -> Result<Vec<u32>, LiveError> {
        let mut known: HashSet<u32> = HashSet::new();
        let mut opened = false;
        for _ in 0..LOOKS_MAX {
            let new: Vec<u32> = target::threads(pid).into_iter().filter(|t| !known.contains(t)).collect();
            if new.is_empty() {
                break;
            }
            self.room(new.len())?;
            for tid in new {
                // Born of a thread that is watched already: it has inherited its events.
                if known.insert(tid) {
                    opened |= self.born().contains(&tid) || self.open(pid, tid)?;
                }
            }
        }
        match opened {
            false => Err(LiveError::NoProcess(pid)),
            true => Ok(known.into_iter().collect()),
        }
    }

    /// Threads that the rings say were started.
    fn born(&mut self) -> HashSet<u32> {
        self.drain();
        let records = decode::events(&self.buffer, &self.layout);
        let tid = |r: &Record| if let Record::Forked(_, _, tid, _) = r { Some(*tid) } else { None };
        records.iter().filter_map(tid).collect()
    }

    fn room(&self, threads: usize) -> Result<(), LiveError> {
        let open: usize = self.events.iter().map(Vec::len).sum::<usize>() + self.leaders.len();
        let cpus = self.cpus.len();
        let each: usize = self.sampled.iter().map(|s| 1 + usize::from(s.leader.is_some())).sum();
        let needed = open + threads * cpus * each + SPARE_DESCRIPTORS;
        let limit = descriptors();
        match needed > limit {
            true => {
                Err(LiveError::Descriptors { threads: needed / (cpus * each).max(1), cpus, needed, limit })
            }
            false => Ok(()),
        }
    }

    /// False where the thread has ended, if it is the main one and others go on.
    fn open(&mut self, pid: u32, tid: u32) -> Result<bool, LiveError> {
        for n in 0..self.cpus.len() {
            for which in 0..self.sampled.len() {
                match self.open_one((which, n), tid) {
                    Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Ok(false),
                    Err(e) => return Err(refused(e, pid)),
                    Ok(None) => {}
                    Ok(Some(event)) => self.keep(n, event)?,
                }
            }
        }
        Ok(true)
    }

    /// `None` where the CPU does not have the event.
    fn open_one(&mut self, (which, n): (usize, usize), tid: u32) -> io::Result<Option<Event>> {
        let (s, cpu) = (&self.sampled[which], self.cpus[n]);
        if s.cpus.as_ref().is_some_and(|c| !c.contains(&cpu)) {
            return Ok(None);
        }
        let leader = s.leader.as_ref().map(|l| Event::open(l, tid, cpu)).transpose()?;
        let event = Event::in_group(&s.attr, tid, cpu, leader.as_ref())?;
        self.leaders.extend(leader);
        Ok(Some(event))
    }

    fn keep(&mut self, n: usize, event: Event) -> Result<(), LiveError> {
        match self.events[n].first() {
            Some(first) => event.write_to(first).map_err(LiveError::Perf)?,
            None => self.rings.push(ring(&event).map_err(LiveError::Rings)?),
        }
        self.events[n].push(event);
        Ok(())
    }

    fn drain(&mut self) {
        for ring in &self.rings {
            ring.drain(&mut self.buffer);
        }
    }

    /// What the kernel has written up to a time, in order, and has not been taken yet.
    pub fn take(&mut self, until_ns: u64) -> Vec<u8> {
        self.drain();
        let (ready, later) = decode::in_order(&self.buffer, &self.layout, self.from_ns..until_ns);
        self.buffer = later;
        ready
    }
}

/// What happens to processes and threads.
const RECORDS: u64 = flag::MMAP | flag::MMAP2 | flag::COMM | flag::COMM_EXEC | flag::TASK;

/// The events as a process and all that it starts is followed with them; the first of a CPU tells what happens, too.
fn following(mut events: Vec<Precise>, on_exec: bool) -> Vec<Precise> {
    let start = if on_exec { flag::DISABLED | flag::ENABLE_ON_EXEC } else { 0 };
    let mut told: Vec<Option<Vec<i32>>> = Vec::new();
    for e in &mut events {
        let first = !told.contains(&e.cpus);
        told.push(e.cpus.clone());
        e.attr.flags |= if first { RECORDS } else { 0 };
        for attr in std::iter::once(&mut e.attr).chain(&mut e.leader) {
            attr.flags |= start | flag::INHERIT | flag::USE_CLOCKID | flag::SAMPLE_ID_ALL;
            attr.clockid = libc::CLOCK_MONOTONIC;
        }
    }
    events
}

/// As large as allowed.
fn ring(event: &Event) -> io::Result<Ring> {
    let mut pages = RING_PAGES;
    loop {
        match Ring::new(event, pages) {
            Ok(ring) => return Ok(ring),
            Err(e) if pages <= 4 => return Err(e),
            Err(_) => pages /= 2,
        }
    }
}

/// `0-3,8`.
pub(super) fn list(text: &str) -> Vec<i32> {
    let range = |part: &str| -> Option<Vec<i32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<i32>().ok()?, last.parse::<i32>().ok()?);
        Some((first..=last.min(first + 65_535)).collect())
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// Those that run.
fn online() -> Vec<i32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = list(&text);
    let all = std::thread::available_parallelism().map_or(1, |n| n.get() as i32);
    if cpus.is_empty() { (0..all).collect() } else { cpus }
}

/// File descriptors that we may have; the limit is raised as far as it goes.
fn descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads and writes one rlimit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        if limit.rlim_cur < limit.rlim_max {
            let wanted = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) == 0 {
                limit = wanted;
            }
        }
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// Whether breakpoints can be had at all, or why not.
pub(super) fn why_no_registers(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::ENOSPC) => "the debug registers are taken, by a debugger for instance".into(),
        Some(libc::EACCES | libc::EPERM) => "the kernel refuses debug registers here (a container?)".into(),
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL) => {
            "this machine has no debug registers that perf can use".into()
        }
        _ => e.to_string(),
    }
}
