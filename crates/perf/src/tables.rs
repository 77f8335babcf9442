//! Builds the tables of an evidence out of samples, whatever text or file they come from.

use crate::maps::{KERNEL_START, Maps};
use crate::sums::Fast;
use std::collections::HashMap;
use tussle_evidence::{
    Access, Actor, ActorKind, Code, Evidence, Frame, Module, Object, ObjectKind, Process, Run, Sampled, Sees,
    Source, Touch, TouchKind, Unit,
};

/// Executable of the process that stands for the kernel.
pub(crate) const KERNEL_PROCESS: &str = "[kernel]";

/// Executable of the process that stands for the guests of virtual machines.
const GUEST_PROCESS: &str = "[guest]";

/// Memory of which only addresses are known is shown by the page.
const PAGE: u64 = 4096;

/// Virtual time of the run: samples have no order that means anything, so all of it is one window.
const WINDOW_VT: u64 = 1 << 20;

/// Tables while they grow.
pub(crate) struct Tables {
    e: Evidence,
    processes: Fast<u32, u32>,
    actors: Fast<(u32, u32), u32>,
    codes: Fast<(u32, u64), u32>,
    pages: Fast<(u32, u64), u32>,
    modules: Fast<(u32, u64, u64), u32>,
    /// Build-id by path, for mappings whose record has none.
    pub(crate) build_ids: HashMap<String, Vec<u8>>,
}

impl Tables {
    pub(crate) fn new() -> Tables {
        let sees = Sees { reads: true, phases: true, word_parts: true, ..Sees::NOTHING };
        let run = Run {
            unit: Unit::HitmSamples,
            arch: String::new(),
            cpu_model: "unknown CPU".into(),
            cpus: 0,
            ..Run::new(Source::Perf, WINDOW_VT, sees)
        };
        let e = Evidence { samples: Some(Vec::new()), ..Evidence::empty(run) };
        Tables {
            e,
            processes: Fast::default(),
            actors: Fast::default(),
            codes: Fast::default(),
            pages: Fast::default(),
            modules: Fast::default(),
            build_ids: HashMap::new(),
        }
    }

    /// The kernel is a process of its own: all others share its memory.
    pub(crate) fn process(&mut self, pid: u32) -> u32 {
        let e = &mut self.e;
        *self.processes.entry(pid).or_insert_with(|| {
            let (pid, exe) = match pid {
                Maps::KERNEL => (0, KERNEL_PROCESS.to_string()),
                Maps::GUEST => (0, GUEST_PROCESS.to_string()),
                _ => (pid, String::new()),
            };
            e.processes.push(Process { pid, parent: None, exe, build_id: None, end: "sampled".into() });
            e.processes.len() as u32 - 1
        })
    }

    /// The kernel and its modules; files of processes become modules when code or data in them is met.
    pub(crate) fn modules_of(&mut self, maps: &Maps) {
        for m in maps.of(Maps::KERNEL) {
            let process = self.process(Maps::KERNEL);
            self.module(process, m);
        }
    }

    /// Module row of a mapping that a process has, perhaps from its parent.
    pub(crate) fn module_of(&mut self, pid: u32, m: &crate::record::Mmap) -> u32 {
        let process = self.process(pid);
        self.module(process, m)
    }

    fn module(&mut self, process: u32, m: &crate::record::Mmap) -> u32 {
        let (e, ids) = (&mut self.e, &self.build_ids);
        *self.modules.entry((process, m.start, m.time_ns)).or_insert_with(|| {
            let hex = |id: &Vec<u8>| id.iter().map(|b| format!("{b:02x}")).collect();
            // Mappings of the kernel are `[kernel.kallsyms]_text`, its entry in the list has no suffix.
            let listed = ids.get(&m.path).or_else(|| ids.get(m.path.strip_suffix("_text")?));
            e.modules.push(Module {
                process,
                path: m.path.clone(),
                build_id: m.build_id.as_ref().or(listed).map(hex),
                start: m.start,
                end: m.start.saturating_add(m.len),
                bias: m.start.wrapping_sub(m.file_offset),
            });
            e.modules.len() as u32 - 1
        })
    }

    pub(crate) fn thread(&mut self, pid: u32, tid: u32, name: Option<&String>) -> u32 {
        let process = self.process(pid);
        if self.e.processes[process as usize].exe.is_empty() && pid == tid {
            self.e.processes[process as usize].exe = name.cloned().unwrap_or_default();
        }
        let e = &mut self.e;
        *self.actors.entry((pid, tid)).or_insert_with(|| {
            e.actors.push(actor(Some(process), ActorKind::Thread, tid, name.cloned()));
            e.actors.len() as u32 - 1
        })
    }

    /// The one actor of a source that does not tell them apart.
    pub(crate) fn nobody(&mut self) -> u32 {
        let e = &mut self.e;
        *self.actors.entry((Maps::KERNEL, 0)).or_insert_with(|| {
            e.actors.push(actor(None, ActorKind::Unknown, 0, Some("all CPUs".into())));
            e.actors.len() as u32 - 1
        })
    }

    pub(crate) fn code(&mut self, pid: u32, ip: u64, chain: &[u64], time_ns: u64, maps: &Maps) -> u32 {
        let owner = if ip >= KERNEL_START && pid != Maps::GUEST { Maps::KERNEL } else { pid };
        let process = self.process(owner);
        if let Some(known) = self.codes.get(&(process, ip))
            && self.e.code.get(*known as usize).is_some_and(|c| !c.chain.is_empty())
        {
            return *known;
        }
        let callers: Vec<u32> =
            chain.iter().map(|a| self.code_row(pid, a.saturating_sub(1), time_ns, maps)).collect();
        let row = self.code_row(pid, ip, time_ns, maps);
        if let Some(c) = self.e.code.get_mut(row as usize).filter(|c| c.chain.is_empty()) {
            c.chain = callers;
        }
        row
    }

    fn code_row(&mut self, pid: u32, ip: u64, time_ns: u64, maps: &Maps) -> u32 {
        let owner = if ip >= KERNEL_START && pid != Maps::GUEST { Maps::KERNEL } else { pid };
        let process = self.process(owner);
        if let Some(known) = self.codes.get(&(process, ip)) {
            return *known;
        }
        let made = (owner == Maps::KERNEL).then(|| maps.made(ip)).flatten();
        let map = maps.find(pid, ip, time_ns).filter(|_| made.is_none());
        let module = map.map(|m| self.module(process, m));
        let named = |k: &crate::record::Ksymbol| Frame {
            function: k.name.clone(),
            file: String::new(),
            line: 0,
            column: 0,
        };
        let frames = made.into_iter().map(named).collect();
        self.e.code.push(Code { process, module, address: ip, frames, chain: Vec::new() });
        let id = self.e.code.len() as u32 - 1;
        self.codes.insert((process, ip), id);
        id
    }

    /// A code row that its source has named already.
    pub(crate) fn named_code(&mut self, kernel: bool, ip: u64, function: &str, place: &str) -> u32 {
        let process = self.process(if kernel { Maps::KERNEL } else { 0 });
        if let Some(known) = self.codes.get(&(process, ip)) {
            return *known;
        }
        let (file, line) = match place.rsplit_once(':') {
            Some((file, line)) => (file.to_string(), line.parse().unwrap_or(0)),
            None => (String::new(), 0),
        };
        let frame = Frame { function: function.into(), file, line, column: 0 };
        self.e.code.push(Code { process, module: None, address: ip, frames: vec![frame], chain: Vec::new() });
        let id = self.e.code.len() as u32 - 1;
        self.codes.insert((process, ip), id);
        id
    }

    /// Object and offset of an address of which nothing else is known.
    pub(crate) fn place(&mut self, pid: u32, address: u64) -> (u32, u64) {
        let kernel = address >= KERNEL_START && pid != Maps::GUEST;
        let process = self.process(if kernel { Maps::KERNEL } else { pid });
        let base = address / PAGE * PAGE;
        let e = &mut self.e;
        let id = *self.pages.entry((process, base)).or_insert_with(|| {
            e.objects.push(unknown(process, base, PAGE.min(u64::MAX - base)));
            e.objects.len() as u32 - 1
        });
        (id, address - base)
    }

    /// Adds a row, and the accesses and touches that say the same for those who read only these.
    pub(crate) fn sample(&mut self, row: Sampled) {
        let stores = [row.store_l1_hit, row.store_l1_miss, row.store_no_level];
        let writes: u64 = stores.into_iter().flatten().sum();
        let reads = row.records.saturating_sub(writes);
        if let Some(actor) = row.actor {
            let (vt0, vt1) = (0, WINDOW_VT);
            let (object, offset, size) = (row.object, row.offset, row.size);
            self.e.accesses.push(Access {
                object,
                offset,
                size,
                actor,
                vt0,
                vt1,
                reads,
                writes,
                rmws: 0,
                held: None,
            });
        }
        if let Some(code) = row.code {
            let kinds = [(TouchKind::Read, reads), (TouchKind::Write, writes)];
            for (kind, samples) in kinds.into_iter().filter(|k| k.1 > 0) {
                let (object, offset, size) = (row.object, row.offset, row.size);
                let actor = row.actor;
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
        }
        self.e.samples.get_or_insert_default().push(row);
    }

    /// Room for so many samples.
    pub(crate) fn reserve(&mut self, samples: usize) {
        self.e.samples.get_or_insert_default().reserve_exact(samples);
        self.e.accesses.reserve_exact(samples);
        self.e.touches.reserve_exact(samples);
    }

    pub(crate) fn finish(self) -> Evidence {
        self.e
    }
}

fn actor(process: Option<u32>, kind: ActorKind, number: u32, name: Option<String>) -> Actor {
    Actor { process, kind, number, name, creator: None, start: None, vt0: 0, vt1: WINDOW_VT }
}

/// Memory of which only the address is known.
pub(crate) fn unknown(process: u32, base: u64, size: u64) -> Object {
    let why = "the sample tells the address only".into();
    Object { why, ..Object::unnamed(process, ObjectKind::Unknown, base, size) }
}
