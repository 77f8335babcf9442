//! A session to evidence: the lines that several threads touch, with what lies around them.

use crate::address::How;
use crate::confirm::Waits;
use crate::image::Image;
use crate::kernel::{File, Kernel};
use crate::kernel_types;
use crate::lines::{LINE_BYTES, Line, LineId, Row};
use crate::maps::Mapping;
use crate::session::{Process, Session, Target};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use tussle_evidence::{
    Access, Actor, ActorKind, Backing, Basis, Code, ELSEWHERE, Evidence, Frame, Loss, Module, Object,
    ObjectKind, Rate, RateOf, Region, Run, Sampled, Sees, Source, Touch, TouchKind, UNREAD, Unit,
};

/// Contended lines kept at most, those with most samples first.
pub const KEPT_MAX: usize = 4096;

/// Lines around a contended one that are kept, too: the struct may go on there.
const AROUND: u64 = 4;

/// Memory of which only addresses are known is shown by the page.
const PAGE: u64 = 4096;

/// Guards of stacks have a few pages.
const GUARD_MAX: u64 = 1 << 20;

/// Samples have no order that means anything: all of it is one window.
const WINDOW_VT: u64 = 1 << 20;

/// What is known about the run beside the samples.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Seconds since 1970.
    pub started_unix_s: f64,
    /// Seconds.
    pub duration_s: f64,
    /// CPU.
    pub cpu_model: String,
    /// CPUs that can be used.
    pub cpus: u32,
    /// Options.
    pub flags: Vec<String>,
    /// Of the random moments of arming.
    pub seed: u64,
    /// What was not seen, and why.
    pub losses: Vec<Loss>,
}

/// Registers of rows of the samples table: (row, [(perf's number, value)]).
pub type Operands = Vec<(u32, Vec<(u32, u64)>)>;

/// The evidence, names still missing, and the registers of its samples.
pub fn evidence(session: &mut Session, about: &About, target: &mut dyn Target) -> (Evidence, Operands) {
    session.refresh(target);
    // JIT compilers write late, some only at the end.
    session.processes.iter_mut().for_each(|p| p.read_names(target, 0));
    let kept = kept(session);
    let mut build = Build::new(session, about, target);
    for id in &kept {
        build.line(*id);
    }
    build.rates(&kept);
    build.finish(about)
}

/// Lines that several threads fight for, and those around them.
fn kept(session: &Session) -> Vec<LineId> {
    let mut out: BTreeSet<LineId> = BTreeSet::new();
    let watched = session.confirmed.tallies.keys().map(|w| w.line);
    let ranked: Vec<LineId> = session.lines.ranked().take(KEPT_MAX).map(|l| l.0).collect();
    for id in ranked.into_iter().chain(watched) {
        for n in 0..=2 * AROUND {
            let address = id.address.wrapping_add(n * LINE_BYTES).wrapping_sub(AROUND * LINE_BYTES);
            let near = LineId { address, ..id };
            if near == id || session.lines.get(near).is_some() {
                out.insert(near);
            }
        }
    }
    // What was watched before it was seen that its threads take turns.
    out.retain(|id| !session.lines.get(*id).is_some_and(|l| l.moved()));
    out.into_iter().collect()
}

struct Build<'s> {
    session: &'s mut Session,
    target: &'s mut dyn Target,
    e: Evidence,
    operands: Operands,
    processes: HashMap<u32, u32>,
    actors: HashMap<u32, u32>,
    codes: HashMap<u32, u32>,
    modules: HashMap<(u32, String, u64), u32>,
    objects: HashMap<(u32, u64), u32>,
    regions: HashMap<(u32, u64), u32>,
    stacks: HashMap<(u32, u64), bool>,
}

impl<'s> Build<'s> {
    fn new(session: &'s mut Session, about: &About, target: &'s mut dyn Target) -> Build<'s> {
        let sees =
            Sees { reads: true, writes: true, rmws: true, phases: true, word_parts: true, ..Sees::NOTHING };
        let run = Run {
            unit: session.unit,
            command: session.processes.first().map(|p| p.program.command.clone()).unwrap_or_default(),
            started_unix_s: Some(about.started_unix_s),
            duration_s: Some(about.duration_s),
            cpu_model: about.cpu_model.clone(),
            cpus: about.cpus,
            flags: Some(about.flags.clone()),
            seed: Some(about.seed),
            ..Run::new(Source::Live, WINDOW_VT, sees)
        };
        let samples = Some(Vec::new());
        let mut out = Build {
            e: Evidence {
                samples,
                rates: Some(Vec::new()),
                regions: Some(Vec::new()),
                ..Evidence::empty(run)
            },
            operands: Vec::new(),
            processes: HashMap::new(),
            actors: HashMap::new(),
            codes: HashMap::new(),
            modules: HashMap::new(),
            objects: HashMap::new(),
            regions: HashMap::new(),
            stacks: HashMap::new(),
            session,
            target,
        };
        for p in 0..out.session.processes.len() as u32 {
            out.process(p);
        }
        out
    }

    fn process(&mut self, number: u32) -> u32 {
        if let Some(known) = self.processes.get(&number) {
            return *known;
        }
        let Some(p) = self.session.processes.get(number as usize) else { return 0 };
        let end = if p.end.is_empty() { "running" } else { p.end };
        let row = tussle_evidence::Process {
            pid: p.pid,
            parent: p.parent.map(|n| self.session.processes[n as usize].pid),
            exe: p.program.exe.clone(),
            build_id: None,
            end: end.into(),
        };
        self.e.processes.push(row);
        let id = self.e.processes.len() as u32 - 1;
        self.processes.insert(number, id);
        id
    }

    fn actor(&mut self, thread: u32) -> Option<u32> {
        if let Some(known) = self.actors.get(&thread) {
            return Some(*known);
        }
        let t = self.session.threads.get(thread as usize)?.clone();
        let process = self.process(t.process);
        self.e.actors.push(Actor {
            process: Some(process),
            kind: if self.session.kernel.is_some() { ActorKind::Cpu } else { ActorKind::Thread },
            number: t.tid,
            name: t.name,
            creator: None,
            start: None,
            vt0: 0,
            vt1: WINDOW_VT,
        });
        let id = self.e.actors.len() as u32 - 1;
        self.actors.insert(thread, id);
        Some(id)
    }

    fn code(&mut self, code: u32) -> Option<u32> {
        if let Some(known) = self.codes.get(&code) {
            return Some(*known);
        }
        let (number, address) = *self.session.codes.get(code as usize)?;
        let process = self.process(number);
        let module = self.module_at(number, address);
        let p = &self.session.processes[number as usize];
        let frames = match &self.session.kernel {
            _ if module.is_some() => Vec::new(),
            Some(k) => k.known.symbols.function(address).map(|f| frame(f.name.into())).into_iter().collect(),
            None => made(p, address),
        };
        self.e.code.push(Code { process, module, address, frames, chain: Vec::new() });
        let id = self.e.code.len() as u32 - 1;
        self.codes.insert(code, id);
        Some(id)
    }

    /// Row of the file behind an address, zero-initialised data behind a file included.
    fn module_at(&mut self, number: u32, address: u64) -> Option<u32> {
        if let Some(kernel) = &self.session.kernel {
            let file = kernel.known.file.clone()?;
            return self.kernel_module(number, address, file);
        }
        let p = self.session.processes.get(number as usize)?;
        let (pid, mapping) = (p.pid, file_of(p, address)?.clone());
        let image = self.session.image(pid, &mapping, self.target)?;
        let bias = image.bias(mapping.start, mapping.offset, mapping.end - mapping.start)?;
        let process = self.process(number);
        let key = (process, mapping.path.clone(), bias);
        if let Some(known) = self.modules.get(&key) {
            let m = &mut self.e.modules[*known as usize];
            (m.start, m.end) = (m.start.min(mapping.start), m.end.max(mapping.end));
            return Some(*known);
        }
        self.module(process, &mapping, &image, bias);
        let id = self.e.modules.len() as u32 - 1;
        self.modules.insert(key, id);
        Some(id)
    }

    /// Row of the kernel's file, if the address lies in it.
    fn kernel_module(&mut self, number: u32, address: u64, file: File) -> Option<u32> {
        if !(file.start..file.end).contains(&address) {
            return None;
        }
        let process = self.process(number);
        let (next, modules) = (self.e.modules.len() as u32, &mut self.e.modules);
        let id = *self.modules.entry((process, file.path.clone(), file.bias)).or_insert_with(|| {
            let File { path, build_id, start, end, bias } = file;
            modules.push(Module { process, path, build_id, start, end, bias });
            next
        });
        Some(id)
    }

    fn module(&mut self, process: u32, mapping: &Mapping, image: &Rc<Image>, bias: u64) {
        let row = &mut self.e.processes[process as usize];
        if row.exe == mapping.path {
            row.build_id.clone_from(&image.build_id);
        }
        self.e.modules.push(Module {
            process,
            path: mapping.path.clone(),
            build_id: image.build_id.clone(),
            start: mapping.start,
            end: mapping.end,
            bias,
        });
    }

    /// The object of an address, and the byte of it.
    fn object(&mut self, number: u32, address: u64) -> (u32, u64) {
        let base = address / PAGE * PAGE;
        if let Some(known) = self.objects.get(&(number, base)) {
            return (*known, address - base);
        }
        if self.module_at(number, address).is_none()
            && let Some(found) = self.variable(number, address)
        {
            return found;
        }
        let kind = if self.is_stack(number, address) { ObjectKind::Stack } else { ObjectKind::Unknown };
        let process = self.process(number);
        let region = self.region(number, process, address);
        let why = "a sample tells the address only".into();
        self.e.objects.push(Object { why, region, ..Object::unnamed(process, kind, base, PAGE) });
        let id = self.e.objects.len() as u32 - 1;
        self.objects.insert((number, base), id);
        (id, address - base)
    }

    /// A variable of the kernel that only its list of symbols names: no type, no size but up to the next one.
    fn variable(&mut self, number: u32, address: u64) -> Option<(u32, u64)> {
        let kernel = self.session.kernel.as_ref().filter(|k| k.known.file.is_none())?;
        let (v, area) = kernel.variable(address)?;
        let (base, size) = (area.unwrap_or(0).wrapping_add(v.start), v.end - v.start);
        let kind = if area.is_some() { ObjectKind::PerCpu } else { ObjectKind::Global };
        let (name, basis) = (Some(v.name.to_string()), Some(Basis::Variable));
        let process = self.process(number);
        let (next, objects) = (self.e.objects.len() as u32, &mut self.e.objects);
        let id = *self.objects.entry((number, base)).or_insert_with(|| {
            let why = "of the kernel's list of symbols, which has no types".into();
            objects.push(Object { name, basis, why, ..Object::unnamed(process, kind, base, size) });
            next
        });
        Some((id, address.wrapping_sub(base)))
    }

    /// Lies in the mapping that a thread's stack pointer is in.
    fn is_stack(&mut self, number: u32, address: u64) -> bool {
        let Some(p) = self.session.processes.get(number as usize) else { return false };
        let Some(m) = p.maps.find(address).filter(|m| !m.path.starts_with('/')) else { return false };
        let holds =
            |t: &crate::session::Thread| t.process == number && (m.start..m.end).contains(&t.stack_pointer);
        let threads = &self.session.threads;
        // A thread's stack is its own, with a guard below. Go's runtime has its heap and all stacks in one mapping, and
        // below it what the heap may grow into.
        let below = || m.start.checked_sub(1).and_then(|a| p.maps.find(a));
        let guarded = || below().is_some_and(|g| g.barred && g.end - g.start <= GUARD_MAX);
        m.path.starts_with("[stack")
            || *self.stacks.entry((number, m.start)).or_insert_with(|| {
                m.path.is_empty() && guarded() && threads.iter().filter(|t| holds(t)).count() == 1
            })
    }

    /// Memory that several processes may map.
    fn region(&mut self, number: u32, process: u32, address: u64) -> Option<u32> {
        let p = self.session.processes.get(number as usize)?;
        let m = p.maps.find(address).filter(|m| m.shared)?;
        let regions = self.e.regions.get_or_insert_default();
        let id = *self.regions.entry((process, m.start)).or_insert_with(|| {
            regions.push(Region {
                process,
                start: m.start,
                end: m.end,
                backing: Some(Backing::File).filter(|_| m.inode != 0),
                device: Some(m.device),
                inode: Some(m.inode),
                offset: Some(m.offset),
                parent: None,
            });
            regions.len() as u32 - 1
        });
        Some(id)
    }

    /// The process and address by which a line is called: of the first row.
    fn home(&self, line: &Line) -> Option<(u32, u64)> {
        let first = line.rows.first()?;
        let process = self.session.threads.get(first.thread as usize)?.process;
        Some((process, first.address.wrapping_sub(u64::from(first.offset))))
    }

    fn line(&mut self, id: LineId) {
        let Some(line) = self.session.lines.get(id) else { return };
        let Some((number, address)) = self.home(line) else { return };
        let rows = line.rows.clone();
        for row in rows {
            let (object, offset) = self.object(number, address.wrapping_add(u64::from(row.offset)));
            self.row(&row, object, offset);
        }
    }

    fn row(&mut self, row: &Row, object: u32, offset: u64) {
        let (Some(actor), Some(code)) = (self.actor(row.thread), self.code(row.code)) else { return };
        let samples = u64::from(row.samples);
        // `inc [x]` reads, too, but is no atomic.
        let kind = if row.kind == TouchKind::Rmw && !row.locked { TouchKind::Write } else { row.kind };
        let of = |wanted: TouchKind| if kind == wanted { samples } else { 0 };
        let (reads, writes, rmws) = (of(TouchKind::Read), of(TouchKind::Write), of(TouchKind::Rmw));
        let size = u32::from(row.size);
        let table = self.e.samples.get_or_insert_default();
        let operand: Vec<(u32, u64)> = row.operand.iter().flatten().copied().collect();
        if !operand.is_empty() {
            self.operands.push((table.len() as u32, operand));
        }
        let place =
            Sampled { object, offset, size, code: Some(code), actor: Some(actor), ..Sampled::default() };
        table.push(match row.how {
            How::Told => told(row, place),
            _ => Sampled {
                records: samples,
                loads: Some(reads),
                store_no_level: Some(writes + rmws),
                locked: Some(if row.locked { samples } else { 0 }),
                rebuilt: Some(if row.how == How::Rebuilt { samples } else { 0 }),
                ..place
            },
        });
        let (vt0, vt1) = (0, WINDOW_VT);
        self.e.accesses.push(Access {
            object,
            offset,
            size,
            actor,
            vt0,
            vt1,
            reads,
            writes,
            rmws,
            held: None,
        });
        let actor = Some(actor);
        self.e.touches.push(Touch {
            object,
            offset,
            size,
            code,
            actor,
            kind,
            samples,
            field: None,
            role: None,
        });
    }

    fn rates(&mut self, kept: &[LineId]) {
        let kept: BTreeSet<LineId> = kept.iter().copied().collect();
        let tallies = std::mem::take(&mut self.session.confirmed.tallies);
        for (watch, tally) in tallies.iter().filter(|t| kept.contains(&t.0.line)) {
            let Some((number, address)) = self.session.lines.get(watch.line).and_then(|l| self.home(l))
            else {
                continue;
            };
            let Some(rate) = tally.rate() else { continue };
            let (object, offset) = self.object(number, address.wrapping_add(8 * u64::from(watch.word)));
            let most = tally.codes.iter().max_by_key(|c| *c.1).map(|c| c.0.0);
            let code = most.and_then(|c| self.code(c));
            let actor = self.actor(watch.thread);
            self.e.rates.get_or_insert_default().push(Rate {
                object,
                offset,
                size: 8,
                actor,
                code,
                of: if watch.waits == Waits::Stores { RateOf::Writes } else { RateOf::Accesses },
                from_s: tally.from_ns as f64 / 1e9,
                to_s: tally.to_ns as f64 / 1e9,
                events: tally.hits,
                per_s: rate.per_s,
                low_per_s: Some(rate.low_per_s),
                high_per_s: rate.high_per_s,
                first_s: None,
            });
        }
        self.session.confirmed.tallies = tallies;
    }

    fn finish(mut self, about: &About) -> (Evidence, Operands) {
        if let Some(kernel) = &self.session.kernel {
            kernel_types::name(&mut self.e, kernel, self.target);
        }
        let (c, l) = (&self.session.counts, &self.session.lines);
        let kept: u64 = self.e.samples.iter().flatten().map(|s| s.records).sum();
        let seen = l.all().map(|l| l.1.samples).sum::<u64>() + l.dropped_samples;
        let own = self.session.kernel.as_ref().map_or(0, |k| k.own_stack);
        let precise = self.session.unit == Unit::PreciseSamples;
        // A clock's samples are shares of time, whatever the code does then; precise ones are of loads and stores.
        let without = c.unknown + c.no_code + own + if precise { 0 } else { c.no_memory };
        let [moved, followed] = self.in_turn();
        let elsewhere = "on lines of one thread, or of code that touches no memory: shares are of all";
        let all = [
            (ELSEWHERE, (seen + without).saturating_sub(kept), elsewhere),
            ("records lost by the kernel", c.lost, "a ring was full; shares stay, totals are too low"),
            ("samples throttled", c.throttled, "times that the kernel's own limit stopped the clock"),
            (UNREAD, c.no_code, "not attributed"),
            (
                "samples with an address that cannot be told",
                c.unknown,
                if precise {
                    "the processor gave none: not attributed"
                } else {
                    "thread-local memory, masked or overwritten operands: not attributed"
                },
            ),
            (
                "samples of neither a load nor a store",
                if precise { c.no_memory } else { 0 },
                "this processor samples all operations: these tell of no memory",
            ),
            (
                "samples in the kernel's own code",
                c.kernels,
                "this processor cannot leave them out: not attributed",
            ),
            (
                "lines of one thread dropped",
                l.dropped_lines,
                "the table of lines was full; rarely touched lines may be missing",
            ),
            moved,
            followed,
            (
                "samples of rows that a line had no room for",
                l.rows_lost,
                "too many code addresses on one line",
            ),
        ];
        let loss = |(what, count, note): (&str, u64, &str)| Loss {
            process: None,
            what: what.into(),
            count,
            note: note.into(),
        };
        self.e.losses.extend(all.into_iter().map(loss).filter(|l| l.count > 0));
        self.e.losses.extend(self.session.kernel.iter().flat_map(Kernel::losses));
        self.e.losses.extend(about.losses.iter().cloned());
        if self.e.regions.as_ref().is_some_and(Vec::is_empty) {
            self.e.regions = None;
        }
        (self.e, self.operands)
    }

    /// Lines that one after the other has, and threads of which one stands for those after it.
    fn in_turn(&self) -> [(&'static str, u64, &'static str); 2] {
        let moved = self.session.lines.all().filter(|l| l.1.moved()).count() as u64;
        let (what, note) = match self.session.kernel {
            Some(_) => (
                "lines that moved from CPU to CPU with a task",
                "used by one task, or by one CPU after the other: no fight",
            ),
            None => ("lines that threads use in turns", "turns of a third of a second and longer: no fight"),
        };
        let followed = self.session.threads.iter().map(|t| u64::from(t.in_turn)).sum();
        let one = "made by the same thread: those that followed each other are shown as one";
        [(what, moved, note), ("threads that came after others that had ended", followed, one)]
    }
}

/// What the processor told of a row.
fn told(row: &Row, place: Sampled) -> Sampled {
    let (t, of) = (&row.told, |n: u32| Some(u64::from(n)));
    Sampled {
        records: u64::from(row.samples),
        loads: of(t.loads),
        hitm_local: of(t.hitm_local),
        hitm_remote: of(t.hitm_remote),
        peer: of(t.peer).filter(|n| *n > 0),
        store_l1_hit: of(t.store_l1_hit),
        store_l1_miss: of(t.store_l1_miss),
        store_no_level: of(t.store_no_level),
        locked: of(t.locked),
        tlb_miss: of(t.tlb_miss),
        latency_cycles: Some(t.latency_cycles),
        period: Some(t.period).filter(|n| *n > 0),
        ..place
    }
}

/// The file that an address belongs to: mapped there, or whose mapping ends where the address's own begins.
fn file_of(p: &Process, address: u64) -> Option<&Mapping> {
    let mut m = p.maps.find(address)?;
    for _ in 0..4 {
        if m.path.starts_with('/') {
            return (m.inode != 0 && !m.shared).then_some(m);
        }
        if !m.path.is_empty() {
            return None;
        }
        let start = m.start;
        m = p.maps.find(start.checked_sub(1)?)?;
    }
    None
}

/// Names of code that no file has.
fn made(p: &Process, address: u64) -> Vec<Frame> {
    let jit = p.made(address).map(|f| f.name.clone());
    let kernels = || p.maps.find(address).map(|m| m.path.clone()).filter(|p| p.starts_with('['));
    jit.or_else(kernels).map(frame).into_iter().collect()
}

/// A function of which nothing else is known.
fn frame(function: String) -> Frame {
    Frame { function, file: String::new(), line: 0, column: 0 }
}
