//! What is known of the watched processes while they run: records of the rings in, lines and threads out.

use crate::address::{self, Accesses};
use crate::code::{self, AHEAD_BYTES_MAX, FUNCTION_BYTES_MAX, Following, Site};
use crate::confirm::Confirmed;
use crate::decode::Event;
use crate::image::Image;
use crate::jit;
use crate::kernel::{KERNEL_PID, Kernel};
use crate::lines::{LINE_BYTES, LineId, Lines};
use crate::maps::{Mapping, Maps};
use crate::registers::Registers;
use foldhash::fast::RandomState;
use iced_x86::Instruction;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use tussle_debuginfo::Bytes;
use tussle_evidence::{TouchKind, Unit};
use tussle_perf::Sample;

/// Code places kept of one process; more are decoded again.
const SITES_MAX: usize = 1 << 16;

/// Code addresses that are told apart; samples beyond have none.
const CODES_MAX: usize = 1 << 20;

/// Addresses from here on are the kernel's.
pub const KERNEL_START: u64 = 1 << 63;

/// What the session asks of the machine. All answers may be missing: processes end at any time.
pub trait Target {
    /// Text of `/proc/PID/maps`.
    fn maps(&mut self, pid: u32) -> Option<String>;
    /// The executable's path, its command line, and its parent.
    fn program(&mut self, pid: u32) -> Option<Program>;
    /// Name of a thread.
    fn thread_name(&mut self, pid: u32, tid: u32) -> Option<String>;
    /// The file behind a mapping, as the process sees it.
    fn file(&mut self, pid: u32, mapping: &Mapping) -> Option<Bytes>;
    /// Memory of the process, for code without a file; fills as much as can be read.
    fn memory(&mut self, pid: u32, address: u64, buffer: &mut [u8]) -> usize;
    /// What the process's JIT compiler says of its functions: `/tmp/perf-PID.map`.
    fn jit_names(&mut self, pid: u32) -> Option<String>;
    /// The same in a file of records that the process has mapped, if it has grown.
    fn jit_dump(&mut self, pid: u32, path: &str) -> Option<Vec<u8>>;
    /// Nanoseconds of a clock that does not go backwards.
    fn now_ns(&mut self) -> u64;
}

/// What a process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Path of the executable, as the process sees it.
    pub exe: String,
    /// Command and arguments.
    pub command: Vec<String>,
}

/// A process, or what one ran before it began to run another program.
#[derive(Default)]
pub struct Process {
    /// Operating system's id.
    pub pid: u32,
    /// Number of the process that forked it.
    pub parent: Option<u32>,
    /// What it runs.
    pub program: Program,
    /// Its memory.
    pub maps: Maps,
    /// `exited`, `exec`; empty while it runs.
    pub end: &'static str,
    /// Names of code made at run time.
    pub jit: Option<jit::Names>,
    /// The same from a dump.
    pub dump: Option<jit::Names>,
    dump_read_ns: u64,
    sites: HashMap<u64, Rc<Site>, RandomState>,
    maps_read_ns: u64,
    threads: u32,
}

impl Process {
    /// The function that a JIT compiler made there.
    pub fn made(&self, address: u64) -> Option<&jit::Function> {
        [&self.jit, &self.dump].into_iter().flatten().find_map(|names| names.find(address))
    }

    /// Reads what JIT compilers have written since; dumps only when they were read so long ago.
    pub fn read_names(&mut self, target: &mut dyn Target, age_ns: u64) {
        if let Some(text) = target.jit_names(self.pid) {
            self.jit = Some(jit::Names::read(&text));
        }
        let now = target.now_ns();
        let Some(dump) = self.maps.all().find(|m| jit::is_dump(&m.path)) else { return };
        if self.dump.is_some() && now.saturating_sub(self.dump_read_ns) < age_ns {
            return;
        }
        self.dump_read_ns = now;
        if let Some(bytes) = target.jit_dump(self.pid, &dump.path) {
            let names = self.dump.insert(jit::Names::default());
            names.add_dump(&bytes);
        }
    }
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Number of its process.
    pub process: u32,
    /// Operating system's id.
    pub tid: u32,
    /// Its name.
    pub name: Option<String>,
    /// It has ended.
    pub ended: bool,
    /// Samples of it.
    pub samples: u64,
    /// Its stack pointer when it was sampled last.
    pub stack_pointer: u64,
    /// The thread that made it.
    pub creator: Option<u32>,
    /// Threads that its creator made after it had ended, one after the other, and that it stands for, too: jobs of some
    /// milliseconds are one thread to whoever looks at a line.
    pub in_turn: u32,
}

/// What became of the samples. A sample may tell of two instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub samples: u64,
    /// With an address of the instruction that was about to run.
    pub exact: u64,
    /// With an address of the instruction that had run before, but none of the next one.
    pub rebuilt: u64,
    /// Neither instruction touches memory.
    pub no_memory: u64,
    /// Memory was touched, the address cannot be told.
    pub unknown: u64,
    /// The code could not be read.
    pub no_code: u64,
    /// Records that the kernel had no room for.
    pub lost: u64,
    /// In the kernel's own code, where that cannot be left out: nothing of the program's.
    pub kernels: u64,
    /// Times that the kernel stopped sampling because of its own limit.
    pub throttled: u64,
}

/// Everything known.
pub struct Session {
    /// In order of appearance.
    pub processes: Vec<Process>,
    /// In order of appearance.
    pub threads: Vec<Thread>,
    /// Code addresses with their process.
    pub codes: Vec<(u32, u64)>,
    /// What was touched.
    pub lines: Lines,
    /// What debug registers told.
    pub confirmed: Confirmed,
    /// What became of the samples.
    pub counts: Counts,
    /// Files behind mappings, by device, inode and path.
    pub images: HashMap<(u64, u64, String), Option<Rc<Image>>>,
    /// The kernel itself, where it is what is watched.
    pub kernel: Option<Kernel>,
    /// What is sampled: of a clock unless somebody says otherwise.
    pub unit: Unit,
    /// Records come of everything that runs on the machine: those of processes that are not known are not ours.
    pub whole_machine: bool,
    by_pid: HashMap<u32, u32>,
    by_tid: HashMap<(u32, u32), u32>,
    /// Threads that have ended, by who made them.
    idle: HashMap<u32, BTreeSet<u32>>,
    by_code: HashMap<(u32, u64), u32, RandomState>,
    shared: HashMap<(u64, u64), u32>,
    spaces: u32,
}

/// Maps are read again for an unknown address after so long at the earliest.
const MAPS_AGE_NS: u64 = 100_000_000;

/// Dumps of JIT compilers hold the code, too, and grow all the time: they are read so often at most.
const DUMP_AGE_NS: u64 = 1_000_000_000;

impl Default for Session {
    fn default() -> Session {
        Session {
            processes: Vec::new(),
            threads: Vec::new(),
            codes: Vec::new(),
            lines: Lines::new(),
            confirmed: Confirmed::default(),
            counts: Counts::default(),
            images: HashMap::new(),
            kernel: None,
            unit: Unit::ClockSamples,
            whole_machine: false,
            by_pid: HashMap::new(),
            by_tid: HashMap::new(),
            idle: HashMap::new(),
            by_code: HashMap::default(),
            shared: HashMap::new(),
            spaces: 0,
        }
    }
}

impl Session {
    /// A session that watches the kernel.
    pub fn of_kernel(kernel: Kernel) -> Session {
        let program = Program { exe: "[kernel]".into(), command: vec!["[kernel]".into()] };
        let mut out = Session { kernel: Some(kernel), ..Session::default() };
        out.new_process(Process { pid: KERNEL_PID, program, ..Process::default() });
        out
    }

    /// Takes one record.
    pub fn take(&mut self, event: &Event, target: &mut dyn Target) {
        if self.whole_machine && !self.is_ours(event) {
            return;
        }
        match event {
            Event::Sample(s) if self.kernel.is_some() => self.kernel_sample(s, target),
            Event::Sample(s) => match s.data_src {
                Some(source) => self.precise(s, source, target),
                None => self.sample(s, target),
            },
            Event::Mapped(pid, mapping) => {
                let p = self.process(*pid, target);
                let process = &mut self.processes[p as usize];
                process.maps.add(mapping.clone());
                process.sites.retain(|at, _| !(mapping.start..mapping.end).contains(at));
            }
            Event::Named(pid, tid, name, exec) => {
                if *exec {
                    self.replaced(*pid, target);
                }
                self.thread(*pid, *tid, target);
                self.named(*pid, *tid, name);
            }
            Event::Forked(pid, parent, tid, creator) => {
                self.forked(*pid, (*parent, *creator), *tid, target);
            }
            Event::Ended(pid, tid) => self.ended(*pid, *tid),
            Event::Lost(n) => self.counts.lost += n,
            Event::Throttled => self.counts.throttled += 1,
            Event::Other => {}
        }
    }

    fn is_ours(&self, event: &Event) -> bool {
        let pid = match event {
            Event::Sample(s) => s.pid,
            Event::Mapped(pid, _) | Event::Named(pid, ..) | Event::Ended(pid, _) => Some(*pid),
            Event::Forked(_, parent, ..) => Some(*parent),
            Event::Lost(_) | Event::Throttled | Event::Other => return true,
        };
        pid.is_some_and(|pid| self.by_pid.contains_key(&pid))
    }

    /// Number of a process; a new one is asked about.
    pub fn process(&mut self, pid: u32, target: &mut dyn Target) -> u32 {
        if let Some(known) = self.by_pid.get(&pid) {
            return *known;
        }
        let program = target.program(pid).unwrap_or_default();
        let maps = target.maps(pid).map(|t| Maps::read(&t)).unwrap_or_default();
        let maps_read_ns = target.now_ns();
        self.new_process(Process { pid, program, maps, maps_read_ns, ..Process::default() })
    }

    fn new_process(&mut self, process: Process) -> u32 {
        let id = self.processes.len() as u32;
        self.by_pid.insert(process.pid, id);
        self.processes.push(process);
        id
    }

    /// Number of a thread.
    pub fn thread(&mut self, pid: u32, tid: u32, target: &mut dyn Target) -> u32 {
        if let Some(known) = self.by_tid.get(&(pid, tid)) {
            return *known;
        }
        let process = self.process(pid, target);
        let name = target.thread_name(pid, tid);
        let id = self.threads.len() as u32;
        self.threads.push(Thread { process, tid, name, ..Thread::default() });
        self.processes[process as usize].threads += 1;
        self.by_tid.insert((pid, tid), id);
        id
    }

    /// The process runs another program from here on.
    fn replaced(&mut self, pid: u32, target: &mut dyn Target) {
        let parent = self.by_pid.remove(&pid);
        self.by_tid.retain(|(p, _), _| *p != pid);
        if let Some(old) = parent {
            self.processes[old as usize].end = "exec";
        }
        let id = self.process(pid, target);
        self.processes[id as usize].parent = parent;
    }

    /// A thread that stands for earlier ones has another name than these had: it is one of its own.
    fn named(&mut self, pid: u32, tid: u32, name: &str) {
        let Some(&at) = self.by_tid.get(&(pid, tid)) else { return };
        let t = &self.threads[at as usize];
        if t.in_turn == 0 || t.name.as_deref() == Some(name) {
            self.threads[at as usize].name = Some(name.into());
            return;
        }
        let (creator, own) =
            (t.creator, Thread { tid, name: Some(name.into()), in_turn: 0, samples: 0, ..t.clone() });
        let called = |n: &&u32| self.threads[**n as usize].name.as_deref() == Some(name);
        let same = creator.and_then(|c| self.idle.get(&c)?.iter().find(called).copied());
        self.threads[at as usize].in_turn -= 1;
        self.rests(at);
        match same {
            Some(at) => self.follows(at, pid, tid),
            None => {
                self.by_tid.insert((pid, tid), self.threads.len() as u32);
                self.threads.push(own);
            }
        }
    }

    /// The thread has ended; the next one that its creator makes may take its place.
    fn rests(&mut self, at: u32) {
        let t = &mut self.threads[at as usize];
        t.ended = true;
        if let Some(creator) = t.creator {
            self.idle.entry(creator).or_default().insert(at);
        }
    }

    /// A thread takes the place of one that has ended.
    fn follows(&mut self, at: u32, pid: u32, tid: u32) {
        let t = &mut self.threads[at as usize];
        (t.tid, t.ended, t.in_turn) = (tid, false, t.in_turn + 1);
        if let Some(idle) = t.creator.and_then(|c| self.idle.get_mut(&c)) {
            idle.remove(&at);
        }
        self.by_tid.insert((pid, tid), at);
    }

    fn forked(&mut self, pid: u32, (parent, creator): (u32, u32), tid: u32, target: &mut dyn Target) {
        if pid != parent && !self.by_pid.contains_key(&pid) {
            let from = self.process(parent, target);
            let p = &self.processes[from as usize];
            let (program, maps) = (p.program.clone(), p.maps.clone());
            self.new_process(Process { pid, parent: Some(from), program, maps, ..Process::default() });
        }
        let creator = self.by_tid.get(&(parent, creator)).copied().filter(|_| pid == parent);
        let Some(creator) = creator.filter(|_| !self.by_tid.contains_key(&(pid, tid))) else {
            self.thread(pid, tid, target);
            return;
        };
        if let Some(at) = self.idle.get(&creator).and_then(|idle| idle.first().copied()) {
            self.processes[self.threads[at as usize].process as usize].threads += 1;
            self.follows(at, pid, tid);
            return;
        }
        // A new thread has its creator's name at first, and one that is short may have no other.
        let name = self.threads[creator as usize].name.clone();
        let at = self.thread(pid, tid, target);
        let t = &mut self.threads[at as usize];
        t.creator = Some(creator);
        t.name = t.name.take().or(name);
    }

    fn ended(&mut self, pid: u32, tid: u32) {
        let Some(t) = self.by_tid.remove(&(pid, tid)) else { return };
        self.rests(t);
        let p = &mut self.processes[self.threads[t as usize].process as usize];
        p.threads = p.threads.saturating_sub(1);
        if p.threads == 0 {
            p.end = "exited";
            self.by_pid.remove(&pid);
        }
    }

    /// Processes that still run.
    pub fn alive(&self) -> impl Iterator<Item = (u32, &Process)> {
        self.processes.iter().enumerate().filter(|p| p.1.end.is_empty()).map(|(n, p)| (n as u32, p))
    }

    /// Reads the maps of all living processes again: the kernel's records do not tell of everything.
    pub fn refresh(&mut self, target: &mut dyn Target) {
        for p in self.processes.iter_mut().filter(|p| p.end.is_empty()) {
            if let Some(text) = target.maps(p.pid) {
                p.maps.replace(&text);
            }
            p.maps_read_ns = target.now_ns();
        }
    }

    fn sample(&mut self, s: &Sample, target: &mut dyn Target) {
        let (Some(pid), Some(tid), Some(ip)) = (s.pid, s.tid, s.ip) else { return };
        let registers = Registers::of_sample(s.regs_user.each());
        // A sample of the kernel's own code says nothing about the program's registers.
        if registers.ip != ip || ip >= KERNEL_START {
            return;
        }
        self.counts.samples += 1;
        self.lines.now_ns = s.time_ns.unwrap_or(0);
        let thread = self.thread(pid, tid, target);
        let process = self.threads[thread as usize].process;
        let stack_pointer = registers.get(iced_x86::Register::RSP).unwrap_or(0);
        let t = &mut self.threads[thread as usize];
        (t.samples, t.stack_pointer) = (t.samples + 1, stack_pointer);
        let site = self.site(process, ip, target);
        let Some(at) = &site.at else {
            self.counts.no_code += 1;
            return;
        };
        self.sampled(thread, at, &site, &registers, target);
    }

    /// Takes note of what a sample at `at` tells: what it accesses, what the one before it did, and the stores ahead.
    pub(crate) fn sampled(
        &mut self,
        thread: u32,
        at: &Instruction,
        site: &Site,
        registers: &Registers,
        target: &mut dyn Target,
    ) {
        let next = address::before_it_runs(at, registers);
        let last = site.before.as_ref().map(|b| address::after_it_ran(b, registers)).unwrap_or_default();
        self.count(&next, &last);
        self.add(thread, at, &next, target);
        if let Some(before) = &site.before {
            self.add(thread, before, &last, target);
        }
        for f in &site.ahead {
            self.follow(thread, f, registers, &[&next, &last], target);
        }
    }

    /// A store to a line on which the thread just is.
    fn follow(
        &mut self,
        thread: u32,
        f: &Following,
        now: &Registers,
        on: &[&Accesses],
        target: &mut dyn Target,
    ) {
        let mut registers = *now;
        f.overwritten.iter().for_each(|r| registers.forget(*r));
        let line = |a: &address::Access| a.address / LINE_BYTES;
        let here = |a: &address::Access| on.iter().flat_map(|o| &o.known).any(|h| line(h) == line(a));
        let mut stores = address::before_it_runs(&f.instruction, &registers);
        stores.known.retain(|a| a.kind != TouchKind::Read && here(a));
        self.add(thread, &f.instruction, &stores, target);
    }

    fn count(&mut self, next: &Accesses, last: &Accesses) {
        let c = &mut self.counts;
        match (next.known.is_empty(), last.known.is_empty(), next.unknown + last.unknown) {
            (false, ..) => c.exact += 1,
            (true, false, _) => c.rebuilt += 1,
            (true, true, 0) => c.no_memory += 1,
            (true, true, _) => c.unknown += 1,
        }
    }

    fn add(&mut self, thread: u32, i: &Instruction, accesses: &Accesses, target: &mut dyn Target) {
        let process = self.threads[thread as usize].process;
        for a in &accesses.known {
            let (wanted, task) = match &mut self.kernel {
                Some(k) => (k.wants(a.address), Some(k.task)),
                None => (a.address < KERNEL_START, None),
            };
            if !wanted {
                continue;
            }
            let place = self.place(process, a.address, target);
            if let Some(code) = self.code(process, i.ip()) {
                self.lines.add(place, a, thread, code);
                task.into_iter().for_each(|t| self.lines.ran(place, t));
            }
        }
    }

    /// Number of a code address; `None` when there are too many.
    pub fn code(&mut self, process: u32, ip: u64) -> Option<u32> {
        if let Some(known) = self.by_code.get(&(process, ip)) {
            return Some(*known);
        }
        let id = self.codes.len() as u32;
        if self.codes.len() >= CODES_MAX {
            return None;
        }
        self.codes.push((process, ip));
        self.by_code.insert((process, ip), id);
        Some(id)
    }

    /// The memory that an address of a process belongs to, and where in it.
    pub(crate) fn place(&mut self, process: u32, address: u64, target: &mut dyn Target) -> LineId {
        let now = target.now_ns();
        let p = &mut self.processes[process as usize];
        let old = now.saturating_sub(p.maps_read_ns) > MAPS_AGE_NS;
        if old && p.end.is_empty() && p.maps.find(address).is_none() {
            p.maps_read_ns = now;
            if let Some(text) = target.maps(p.pid) {
                p.maps.replace(&text);
            }
        }
        match p.maps.find(address).filter(|m| m.shared && m.inode != 0) {
            Some(m) => {
                let (key, inside) = ((m.device, m.inode), address - m.start);
                let (address, spaces) = (m.offset.wrapping_add(inside), &mut self.spaces);
                let space = *self.shared.entry(key).or_insert_with(|| {
                    *spaces += 1;
                    u32::MAX - *spaces
                });
                LineId { space, address }
            }
            None => LineId { space: process, address },
        }
    }

    /// What a breakpoint's hit tells: the instruction that had just run, and what it does there.
    pub fn hit(
        &mut self,
        s: &Sample,
        word: u64,
        target: &mut dyn Target,
    ) -> (Option<u32>, Option<TouchKind>) {
        let (Some(pid), Some(ip)) = (s.pid, s.ip) else { return (None, None) };
        if (ip >= KERNEL_START) != self.kernel.is_some() {
            return (None, None);
        }
        let process = self.process(if self.kernel.is_some() { KERNEL_PID } else { pid }, target);
        let site = self.site(process, ip, target);
        let registers = match &self.kernel {
            Some(k) => k.registers(s),
            None => Registers::of_sample(s.regs_user.each()),
        };
        let Some(before) = &site.before else { return (self.code(process, ip.saturating_sub(1)), None) };
        let touched = address::after_it_ran(before, &registers);
        let over = |a: &&address::Access| a.address < word + 8 && word < a.address + u64::from(a.size);
        let kind = touched.known.iter().find(over).map(|a| a.kind);
        (self.code(process, before.ip()), kind)
    }

    pub(crate) fn site(&mut self, process: u32, ip: u64, target: &mut dyn Target) -> Rc<Site> {
        if let Some(known) = self.processes[process as usize].sites.get(&ip) {
            return known.clone();
        }
        let site = Rc::new(self.decode(process, ip, target));
        let sites = &mut self.processes[process as usize].sites;
        if sites.len() >= SITES_MAX {
            sites.clear();
        }
        sites.insert(ip, site.clone());
        site
    }

    fn decode(&mut self, process: u32, ip: u64, target: &mut dyn Target) -> Site {
        let p = &self.processes[process as usize];
        let (pid, mapping) = (p.pid, p.maps.find(ip).cloned());
        if let Some(kernel) = &self.kernel {
            return kernel.site(ip, target);
        }
        if let Some(m) = mapping.as_ref().filter(|m| m.path.starts_with('/'))
            && let Some(image) = self.image(pid, m, target)
            && let Some(bias) = image.bias(m.start, m.offset, m.end - m.start)
        {
            return of_image(&image, ip.wrapping_sub(bias), ip);
        }
        self.of_memory(process, ip, target)
    }

    /// The file behind a mapping, read once.
    pub fn image(&mut self, pid: u32, m: &Mapping, target: &mut dyn Target) -> Option<Rc<Image>> {
        let key = (m.device, m.inode, m.path.clone());
        if let Some(known) = self.images.get(&key) {
            return known.clone();
        }
        let image = target.file(pid, m).and_then(Image::read).map(Rc::new);
        self.images.insert(key, image.clone());
        image
    }

    /// Code that a JIT compiler made, or of a file that cannot be had.
    fn of_memory(&mut self, process: u32, ip: u64, target: &mut dyn Target) -> Site {
        let p = &mut self.processes[process as usize];
        if p.made(ip).is_none() {
            p.read_names(target, DUMP_AGE_NS);
        }
        let mut bytes = [0; AHEAD_BYTES_MAX];
        let n = target.memory(p.pid, ip, &mut bytes);
        let (at, ahead) = (code::one(&bytes[..n], ip), code::ahead(&bytes[..n], ip));
        let function = p.made(ip).filter(|f| f.size <= FUNCTION_BYTES_MAX);
        let before = function.and_then(|f| {
            let mut all = vec![0; f.size as usize];
            let whole = target.memory(p.pid, f.start, &mut all) == all.len();
            whole.then(|| code::before(&all, f.start, ip)).flatten()
        });
        Site { at, before, ahead, ..Site::default() }
    }

    /// The mapping of a line in the first process that has it.
    pub fn home(&self, line: LineId, address: u64) -> Option<&Mapping> {
        let process = self.processes.get(line.space as usize).or(self.processes.first())?;
        process.maps.find(address)
    }

    /// The same line as [`LineId`] of its neighbour in a pair of 128 bytes.
    pub fn neighbour(line: LineId) -> LineId {
        LineId { address: line.address ^ LINE_BYTES, ..line }
    }
}

/// The site, with instructions at run-time addresses.
fn of_image(image: &Image, svma: u64, ip: u64) -> Site {
    let bytes = image.code(svma, AHEAD_BYTES_MAX as u64).unwrap_or_default();
    let (at, ahead) = (code::one(bytes, ip), code::ahead(bytes, ip));
    let function = image.function(svma).filter(|f| f.1 - f.0 <= FUNCTION_BYTES_MAX);
    let before = function.and_then(|(start, end)| {
        let bytes = image.code(start, end - start)?;
        code::before(bytes, ip.wrapping_sub(svma - start), ip)
    });
    Site { at, before, ahead, ..Site::default() }
}
