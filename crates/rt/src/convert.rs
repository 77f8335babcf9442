//! From raw files to evidence, still without names.

use crate::family::Family;
use crate::held::{HeldLocks, Share, Turns};
use crate::lines::{AccessRun, Kept, Lines, Use, thin};
use crate::objects::{Places, What, blank};
use crate::operations::Traced;
use crate::raw::RawFile;
use crate::shared::Shared;
use crate::shifts::{Kind, Shifts};
use crate::wire::*;
use crate::words::{Counts, Span, Words, touched};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use tussle_evidence::*;

pub use crate::lines::Keep;

/// Runs of all lines of a process together that the evidence should hold at most, and bounds for one line.
const RUNS_MAX: usize = 60_000;
const RUNS_PER_LINE_MIN: usize = 8;
const RUNS_PER_LINE_MAX: usize = 512;
/// The lines where threads meet most, and the runs that each of them keeps.
const FINE_LINES: usize = 64;
/// Lines beyond those of which it is read how threads came to them.
const WATCHED_LINES: usize = 1 << 12;
const RUNS_PER_FINE_LINE: usize = 4096;

/// So many lines may complete structs in any case; else twice as many as were kept.
const COMPLETING_MIN: usize = 4096;

/// Lines of which everything is in memory at the same time.
const LINES_AT_ONCE: usize = 4096;

/// Share of a conversion that is over when the lines that matter are known (0.3 to 0.5 in the programs of
/// `benches/programs`); only progress hangs on it.
const FOUND: f64 = 0.4;

/// Losses by what the program asked of the system: index, name, explanation.
const OUTSIDE: [(usize, &str, &str); 3] = [
    (
        LOST_SWITCHES,
        "counting not stopped",
        "the system does not let the program's code be changed: more, or less, was counted than was asked for",
    ),
    (
        LOST_CHILDREN,
        "processes not recorded",
        "forked children that could neither make a file nor had room in their parent's; commands of system and popen \
         without the environment that tussle set",
    ),
    (
        LOST_SANDBOX,
        "sandbox",
        "the program gave up system calls (seccomp) or has them sent to it as signals: from then on the recording got \
         no further memory",
    ),
];

/// Name of the loss for memory that others than the program's threads write.
const KERNEL_WRITES: &str = "writes of the kernel";

/// Libraries, as their names begin, that bring a collector which moves objects.
const MOVING: [&str; 5] = ["libjvm.so", "libcoreclr.so", "libmonosgen-2.0.so", "libv8.so", "libnode.so"];

/// No more than this is the runtime's function that starts threads.
const THREAD_START_BYTES: u64 = 512;

/// What [`convert()`] makes.
pub struct Converted {
    /// Evidence without names; `run.command`, times and CPU are for the caller to fill in.
    pub evidence: Evidence,
    /// For people: what could not be read.
    pub problems: Vec<String>,
    /// Inode of each process's namespace of process ids; 0 if unknown.
    pub pid_namespaces: Vec<u32>,
    /// Objects whose allocator was told the type, and the address of the type's description in the program.
    pub described: Vec<(u32, u64)>,
    /// Objects of which the program told the type by name (`tussle.h`).
    pub named: Vec<(u32, String)>,
}

/// Turns the raw files of one session, one per process, into evidence. `keep` says which lines matter.
pub fn convert(files: &[RawFile<'_>], keep: Keep) -> Converted {
    convert_telling(files, keep, &mut |_| {})
}

/// As [`convert()`]; `tell` hears which share of the work is done, about, from 0 to 1 and never less than before.
pub fn convert_telling(files: &[RawFile<'_>], keep: Keep, tell: &mut dyn FnMut(f64)) -> Converted {
    let nested: Vec<RawFile<'_>> = files.iter().flat_map(RawFile::nested).collect();
    let mut order: Vec<&RawFile<'_>> = files.iter().chain(&nested).collect();
    order.sort_by_key(|f| (f.header().parent_pid != 0, f.header().pid, f.header().seq));
    let run = tussle_evidence::Run::new(Source::Recorder, WINDOW_VT, Sees::ACCESSES);
    let mut out = Converted {
        evidence: Evidence::empty(run),
        problems: Vec::new(),
        pid_namespaces: Vec::new(),
        described: Vec::new(),
        named: Vec::new(),
    };
    let family = Family::new(&order);
    let forked_from = |i| family.forked_from(i);
    let shared = Shared::new(&order, &(0..order.len()).map(forked_from).collect::<Vec<_>>());
    out.evidence.regions = (!shared.is_empty()).then(|| shared.regions());
    let fought = shared.fought(&order);
    if shared.not_followed > 0 {
        let note =
            "mappings that processes share, where another one lay before: their accesses were not compared";
        let (what, count) = ("shared memory".into(), shared.not_followed);
        out.evidence.losses.push(Loss { process: None, what, count, note: note.into() });
    }
    let mut one = SharedObjects { shared, ids: HashMap::new(), described: Vec::new(), named: Vec::new() };
    let all: f64 = order.iter().map(|f| f.len() as f64).sum();
    let mut done = 0.0;
    for (i, file) in order.iter().enumerate() {
        let h = file.header();
        out.evidence.processes.push(Process {
            pid: h.pid,
            parent: family.parent(i),
            exe: lossy(&file.text(h.exe)),
            build_id: None,
            end: end_of(&h, family.replaced(i)).into(),
        });
        out.pid_namespaces.push(h.pid_namespace);
        let from = forked_from(i).and_then(|p| order.get(p).copied());
        let (begun, own) = (done, file.len() as f64);
        let mut told = |share: f64| tell((begun + share * own) / all.max(1.0));
        ProcessReader::new(i as u32, file, &mut out.evidence, &mut one)
            .read(from, keep, &fought[i], &mut told);
        done += own;
    }
    (out.described, out.named) = (one.described, one.named);
    // Seen are the locks of all processes or none.
    let sampled = order.iter().all(|f| f.header().operations != 0) && !order.is_empty();
    out.evidence.run.sees.locks = sampled;
    if sampled {
        out.evidence.operations.get_or_insert_with(Vec::new);
    }
    // What calls of libc bring into memory is stored by their callers; other ways are told where they were noticed.
    out.evidence.run.sees.kernel_writes =
        !order.is_empty() && out.evidence.losses.iter().all(|l| l.what != KERNEL_WRITES);
    out.evidence.run.complete = out.evidence.processes.iter().all(|p| p.end != "cut off");
    out
}

fn end_of(h: &Header, replaced: bool) -> &'static str {
    match h.end {
        END_EXITED | END_UNDERSCORE_EXIT => "exited",
        END_REPLACED => "exec",
        _ if replaced => "exec",
        _ => "cut off",
    }
}

fn lossy(b: &[u8]) -> String {
    String::from_utf8_lossy(b).into_owned()
}

/// Objects in memory that processes share, by the process and address that stand for it.
struct SharedObjects {
    shared: Shared,
    ids: HashMap<(usize, u64, u64), u32>,
    /// As [`Converted::described`].
    described: Vec<(u32, u64)>,
    /// As [`Converted::named`].
    named: Vec<(u32, String)>,
}

/// At which lines threads took turns. Of those that are not asked for, objects of a kind tell of it.
fn shifts(lines: &Lines<'_>, watched: &BTreeSet<u64>, asked: &BTreeSet<u64>, places: &mut Places) -> Shifts {
    let seen: Vec<_> = watched.iter().flat_map(|line| lines.companies(*line)).collect();
    let seen = seen.into_iter().map(|(line, at, vt, c)| (line, c, places.kind(at, vt)));
    Shifts::new(seen.filter(|(line, _, kind)| asked.contains(line) || matches!(kind, Some(Kind::Site(_)))))
}

/// What lies at a line where it was used first.
fn first_kind(line: u64, uses: &[Use], places: &mut Places) -> Option<Kind> {
    let first = uses.first()?;
    let byte = (first.rmask | first.wmask).trailing_zeros().min(LINE as u32 - 1);
    places.kind(line + u64::from(byte), first.runs.first()?.vt0)
}

pub(crate) struct ProcessReader<'a> {
    pub process: u32,
    pub file: &'a RawFile<'a>,
    pub threads: Vec<ThreadInfo>,
    codes: Vec<Vec<CodeRow>>,
    /// Codes of the process that this one was forked from.
    parent_codes: Vec<Vec<CodeRow>>,
    pub first_actor: u32,
    first_module: usize,
    code_ids: HashMap<(u64, Vec<u64>), u32>,
    pub ev: &'a mut Evidence,
    one: &'a mut SharedObjects,
}

impl<'a> ProcessReader<'a> {
    fn new(process: u32, file: &'a RawFile<'a>, ev: &'a mut Evidence, one: &'a mut SharedObjects) -> Self {
        let threads = file.threads();
        let codes = threads.iter().map(|t| file.codes(t)).collect();
        let (first_actor, first_module) = (ev.actors.len() as u32, ev.modules.len());
        let code_ids = HashMap::new();
        ProcessReader {
            process,
            file,
            threads,
            codes,
            parent_codes: vec![],
            first_actor,
            first_module,
            code_ids,
            ev,
            one,
        }
    }

    /// `fought` are lines that threads of other processes use, too.
    fn read(
        &mut self,
        parent: Option<&RawFile<'_>>,
        keep: Keep,
        fought: &BTreeSet<u64>,
        tell: &mut dyn FnMut(f64),
    ) {
        self.modules();
        let lines = Lines::new(self.file, &self.threads);
        self.actors(&lines.ends);
        if let Some(p) = parent {
            self.parent_codes = p.threads().iter().map(|t| p.codes(t)).collect();
        }
        let first_row = (self.ev.accesses.len(), self.ev.operations.as_ref().map_or(0, Vec::len));
        let Kept { lines: mut kept, fought: mut own, mut met, accesses } = lines.keep(keep);
        kept.extend(fought);
        own.extend(fought);
        let traced = Traced::new(self.file, &self.threads, &kept);
        let mut places = Places::new(self.file, parent);
        let whole = self.whole(&lines, &places.structs(&own), &kept);
        met.sort_unstable_by(|a, b| b.cmp(a));
        // What one place allocates is alike: of the way of objects those tell, too, that nobody fights for.
        let mut watched = whole.clone();
        watched.extend(met.iter().take(WATCHED_LINES).map(|m| m.1));
        let mut known = watched.clone();
        known.extend(traced.lines());
        places.meet(&known);
        // Where threads meet most, time is kept finely; elsewhere the file would only grow.
        met.retain(|m| kept.contains(&m.1));
        met.truncate(FINE_LINES);
        let mut fine: BTreeSet<u64> = met.into_iter().map(|m| m.1).collect();
        fine.extend(fought.iter().take(FINE_LINES));
        let coarse = (RUNS_MAX / kept.len().max(1)).clamp(RUNS_PER_LINE_MIN, RUNS_PER_LINE_MAX);
        let mut held = traced.held(&whole);
        held.know_sites(|addr| places.kind(addr, 0).and_then(Kind::site));
        let shifts = shifts(&lines, &watched, &whole, &mut places);
        let mut folded = 0;
        let all: Vec<u64> = whole.iter().copied().collect();
        let chunks = all.len().div_ceil(LINES_AT_ONCE).max(1) as f64;
        for (n, part) in all.chunks(LINES_AT_ONCE).enumerate() {
            tell(FOUND + (1.0 - FOUND) * n as f64 / chunks);
            for (&line, mut uses) in part.iter().zip(lines.uses_of(part)) {
                let runs = match (fine.contains(&line), kept.contains(&line)) {
                    (true, _) => RUNS_PER_FINE_LINE,
                    (_, true) => coarse,
                    _ => RUNS_PER_LINE_MIN,
                };
                folded += thin(&mut uses, runs);
                let kind = first_kind(line, &uses, &mut places);
                let site = kind.and_then(Kind::site);
                let known = shifts.at(line, || kind).filter(|_| !held.cover((line, site), &uses));
                let index = |u: &Use| self.threads[u.thread].index;
                let turns = known.map_or_else(Vec::new, |k| Shifts::of(line, k, &uses, index));
                for (k, u) in uses.iter().enumerate() {
                    self.one_use((line, site), u, (&held, turns.get(k).copied().flatten()), &mut places);
                }
            }
        }
        if folded > 0 {
            let note = "stretches of time folded into earlier ones of the same thread and line, counts kept";
            let (process, what) = (Some(self.process), "runs folded".into());
            self.ev.losses.push(Loss { process, what, count: folded, note: note.into() });
        }
        traced.rows(self, &kept, &mut places);
        let all = self.scale(first_row, accesses);
        self.ev.run.accesses = Some(self.ev.run.accesses.unwrap_or(0).saturating_add(all));
        self.losses();
    }

    /// Kept lines, and those that complete the structs in these ranges.
    fn whole(&mut self, lines: &Lines<'_>, structs: &[Range<u64>], kept: &BTreeSet<u64>) -> BTreeSet<u64> {
        let mut whole = kept.clone();
        let most = COMPLETING_MIN.max(2 * kept.len()) + kept.len();
        for (n, r) in structs.iter().enumerate() {
            if whole.len() >= most {
                let note = "structs that threads fight for in part: what one thread alone did to the rest was not kept";
                let (process, what) = (Some(self.process), "structs cut".into());
                let count = (structs.len() - n) as u64;
                self.ev.losses.push(Loss { process, what, count, note: note.into() });
                break;
            }
            whole.extend(lines.within(r.start, r.end));
        }
        whole
    }

    fn modules(&mut self) {
        let emulators: Vec<u64> = parse_starts(&lossy(&self.file.text(self.file.header().emulator)));
        for text in self.file.maps() {
            for m in parse_maps(&lossy(&text), &emulators) {
                let old = self.ev.modules[self.first_module..].iter_mut().find(|o| o.path == m.path);
                match old {
                    Some(o) if o.bias == m.bias => o.end = o.end.max(m.end),
                    Some(_) => {}
                    None => self.ev.modules.push(Module { process: self.process, ..m }),
                }
            }
        }
    }

    fn actors(&mut self, ends: &[u64]) {
        for i in 0..self.threads.len() {
            let t = self.threads[i];
            let creator = self.actor(t.creator);
            let start = (t.start != 0).then(|| self.code(t.start, &[]));
            let name = lossy(t.name.split(|&b| b == 0).next().unwrap_or(&[]));
            self.ev.actors.push(Actor {
                process: Some(self.process),
                kind: ActorKind::Thread,
                number: t.tid,
                name: (!name.is_empty()).then_some(name),
                creator,
                start,
                vt0: t.vt0,
                vt1: ends.get(i).copied().unwrap_or(t.vt1).max(t.vt0),
            });
        }
    }

    /// Actor id of a thread's index.
    fn actor(&self, index: u32) -> Option<u32> {
        ((index as usize) < self.threads.len()).then(|| self.first_actor + index)
    }

    /// Id of an address with its callers.
    fn code(&mut self, address: u64, chain: &[u64]) -> u32 {
        let key = (address, chain.to_vec());
        if let Some(&id) = self.code_ids.get(&key) {
            return id;
        }
        let callers: Vec<u32> = chain.iter().map(|&c| self.code(c, &[])).collect();
        let modules = &self.ev.modules[self.first_module..];
        // What lies behind a file without a name counts as its own: of several files the nearest below.
        let within = modules.iter().enumerate().filter(|(_, m)| m.start <= address && address < m.end);
        let module = within.max_by_key(|(_, m)| m.start).map(|(i, _)| (i + self.first_module) as u32);
        let id = self.ev.code.len() as u32;
        self.ev.code.push(Code {
            process: self.process,
            module,
            address,
            frames: Vec::new(),
            chain: callers,
        });
        self.code_ids.insert(key, id);
        id
    }

    /// Code id of a thread's code number. Recorded addresses are return addresses.
    fn code_of(&mut self, thread: usize, number: u32, inherited: bool) -> Option<u32> {
        let table = if inherited { &self.parent_codes } else { &self.codes };
        let row = *table.get(thread)?.get(number.checked_sub(1)? as usize)?;
        let count = (row.count as usize).min(CHAIN);
        let mut all: Vec<u64> = std::iter::once(row.pc).chain(row.chain[..count].iter().copied()).collect();
        // Hooks that cannot tell their caller give 0; the innermost frame is then the nearest that is known.
        // The frame that starts threads is the recorder's own.
        let start = self.file.header().thread_start;
        all.retain(|&pc| {
            pc != 0 && (start == 0 || !(start..start.saturating_add(THREAD_START_BYTES)).contains(&pc))
        });
        let all: Vec<u64> = all.iter().map(|pc| pc - 1).collect();
        let (first, chain) = all.split_first()?;
        Some(self.code(*first, chain))
    }

    fn one_use(
        &mut self,
        (line, site): (u64, Option<u32>),
        u: &Use,
        (held, turn): (&HeldLocks, Option<Share>),
        places: &mut Places,
    ) {
        let actor = self.first_actor + u.thread as u32;
        let index = self.threads[u.thread].index;
        let mut turns: Vec<(Span, Turns)> = Vec::new();
        let mut words = Words::new(u);
        for run in &u.runs {
            words.join_all(run);
            for &(range, counts, _) in words.joined() {
                let at = turns.iter().position(|t| t.0 == range).unwrap_or_else(|| {
                    let of_lock = || held.of_runs((line, site), range, &words, u);
                    let share = turn.or_else(of_lock);
                    turns.push((range, Turns::new(share)));
                    turns.len() - 1
                });
                let (inside, outside, lock) = turns[at].1.split(counts);
                self.access(line, range, inside, run, (actor, index), lock, places);
                self.access(line, range, outside, run, (actor, index), None, places);
            }
        }
        let Some(last) = u.runs.last() else { return };
        let (vt0, vt1) = (u.runs[0].vt0, last.vt1);
        for &s in &u.touches {
            self.touch(line, s, (vt0, vt1), (actor, index), places);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn access(
        &mut self,
        line: u64,
        (lo, hi): Span,
        (reads, writes, rmws): Counts,
        run: &AccessRun,
        (actor, thread): (u32, u32),
        lock: Option<(u64, u64, u64)>,
        places: &mut Places,
    ) {
        if reads + writes + rmws == 0 {
            return;
        }
        let start = line + lo;
        let place = places.find(start, run.vt0, run.vt1, thread);
        let object = self.object(place, places);
        let p = places.get(place);
        let size = (hi - lo).min(p.base + p.size - start);
        let (vt0, vt1) = (run.vt0, run.vt1.max(run.vt0 + 1));
        let offset = start - p.base;
        let held = lock.map(|(address, sections, storing)| {
            let id = places.find(address, vt0, vt1, thread);
            let base = places.get(id).base;
            (self.object(id, places), address - base, sections, storing)
        });
        self.ev.accesses.push(Access {
            object,
            offset,
            size: size as u32,
            actor,
            vt0,
            vt1,
            reads,
            writes,
            rmws,
            held,
        });
    }

    fn touch(
        &mut self,
        line: u64,
        s: u64,
        (vt0, vt1): (u64, u64),
        (actor, thread): (u32, u32),
        places: &mut Places,
    ) {
        let key = (s & slot::KEY) >> 24;
        let (byte, size_code, kind) = (key & 7, (key >> 3 & 7) as u32, (key >> 6) as u32);
        let position = (actor - self.first_actor) as usize;
        let Some(code) = self.code_of(position, (s & 0xff_ffff) as u32, false) else { return };
        let kind = match kind {
            READ => TouchKind::Read,
            WRITE => TouchKind::Write,
            _ => TouchKind::Rmw,
        };
        let words = (s >> 32 & 0xff) as u8;
        let samples = (s >> 40).max(1).div_ceil(u64::from(words.count_ones().max(1)));
        let ranged = size_code == slot::RANGE;
        for (from, to) in touched(words, (!ranged).then_some((byte, 1 << size_code.min(4)))) {
            let (mut start, mut left) = (line + from, to - from);
            while left > 0 {
                let place = places.find(start, vt0, vt1, thread);
                let object = self.object(place, places);
                let p = places.get(place);
                let part = left.min((p.base + p.size).saturating_sub(start));
                let (offset, size) = (start - p.base, part as u32);
                let (actor, field, role) = (Some(actor), None, None);
                self.ev.touches.push(Touch { object, offset, size, code, actor, kind, samples, field, role });
                // What goes beyond the object is the next one's, of a copy.
                left = if ranged && part > 0 { left - part } else { 0 };
                start += part;
            }
        }
    }

    /// Row of the object that a place is.
    pub fn object(&mut self, place: u32, places: &mut Places) -> u32 {
        // Most accesses are to objects that have a row already.
        if let Some(id) = places.id(place) {
            return id;
        }
        let p = places.get(place).clone();
        let mut o = blank(self.process, ObjectKind::Unknown, &p);
        match p.what {
            What::Page => o.align = 4096,
            What::Tls { thread } => (o.kind, o.alloc_actor) = (ObjectKind::Tls, self.actor(thread)),
            What::Stack { thread } => (o.kind, o.alloc_actor) = (ObjectKind::Stack, self.actor(thread)),
            What::Heap { code, thread, allocator, align, site, inherited, .. } => {
                let name = ALLOCATORS.get(usize::from(allocator)).copied().unwrap_or("?");
                o.kind = if name == "mmap" { ObjectKind::Mapped } else { ObjectKind::Heap };
                o.allocator = Some(name.into());
                o.align = u64::from(align.max(1));
                if !inherited {
                    o.alloc_actor = self.actor(thread);
                    o.live_max = self.file.live_max(site).max(1);
                }
                o.alloc_code = self.code_of(thread as usize, code, inherited);
            }
        }
        let id = match self.one.shared.canonical(self.process as usize, p.base) {
            Some(at) => self.shared_object(at, o),
            None => {
                self.ev.objects.push(o);
                self.ev.objects.len() as u32 - 1
            }
        };
        if let What::Heap { descriptor: at @ 1.., .. } = p.what {
            self.one.described.push((id, at));
        }
        let told = p.told.and_then(|n| places.names.get(n as usize));
        self.one.named.extend(told.map(|name| (id, name.clone())));
        places.number(place, id);
        id
    }

    /// Row of an object that several processes have: at the place that stands for it, for as long as one of them runs.
    fn shared_object(&mut self, (process, base): (usize, u64), o: Object) -> u32 {
        let objects = &mut self.ev.objects;
        let regions = self.ev.regions.iter().flatten();
        *self.one.ids.entry((process, base, o.size)).or_insert_with(|| {
            let process = process as u32;
            let region = regions
                .clone()
                .position(|r| r.process == process && (r.start..r.end).contains(&base))
                .map(|r| r as u32);
            objects.push(Object { process, base, vt1: None, region, ..o });
            objects.len() as u32 - 1
        })
    }

    fn moving_collectors(&mut self) {
        let moves = |m: &&Module| {
            let name = m.path.rsplit('/').next().unwrap_or("");
            MOVING.iter().any(|known| name.starts_with(known))
        };
        let modules = self.ev.modules.get(self.first_module..).unwrap_or(&[]);
        let found: Vec<String> = modules.iter().filter(moves).map(|m| m.path.clone()).collect();
        for path in found {
            let note = format!("{path} may move objects: bytes then show under what lay there first");
            self.ev.losses.push(Loss {
                process: Some(self.process),
                what: "moving collector".into(),
                count: 1,
                note,
            });
        }
    }

    /// Rings and devices: counted by the runtime, or named in what it wrote down of the memory map.
    fn other_writers(&mut self) {
        let maps = self.file.maps();
        let lines = maps.iter().flat_map(|text| text.split(|b| *b == b'\n'));
        let mut who: Vec<&str> = lines.filter_map(crate::foreign::writer).collect();
        who.sort_unstable();
        who.dedup();
        let count = self.file.header().losses[LOST_KERNEL].max(who.len() as u64);
        if count > 0 {
            let unnamed = || "a ring, a device or a call that receives with MSG_TRUNC".to_string();
            let who = if who.is_empty() { unnamed() } else { who.join(", ") };
            let note = format!("memory that {who} writes: not seen; nor are readers of it");
            let process = Some(self.process);
            self.ev.losses.push(Loss { process, what: KERNEL_WRITES.into(), count, note });
        }
    }

    fn losses(&mut self) {
        self.marks();
        self.stretches();
        self.moving_collectors();
        self.other_writers();
        let h = self.file.header();
        let name = lossy(h.unsupported.split(|&b| b == 0).next().unwrap_or(&[]));
        let unsupported = format!("calls of hooks that record nothing, `{name}` first");
        let notes: [(usize, &str, &str); 13] = [
            (LOST_NO_MEMORY, "memory cap", "first accesses to a line that found no memory; raise --mem-max"),
            (
                LOST_PIECES,
                "pieces merged",
                "stretches of time merged: alternation on these lines may look concurrent",
            ),
            (
                LOST_REENTRANT,
                "signal handlers",
                "events in handlers of faults, or installed by a raw system call, that interrupted the recorder",
            ),
            (LOST_SLOTS, "lock slots", "locks forgotten for others: what they order may look concurrent"),
            (LOST_TOUCHES, "code samples", "samples of further code on lines with many code places"),
            (
                LOST_OBJECTS,
                "heap objects",
                "allocations without an object: their bytes show as unknown memory",
            ),
            (
                LOST_GENERATIONS,
                "address reuse",
                "objects counted together with an earlier one of the same site and address",
            ),
            (LOST_UNSUPPORTED, "unsupported hook", &unsupported),
            (LOST_CODES, "code addresses", "places in code beyond the limit: their touches carry no code"),
            (LOST_THREADS, "threads", "threads that found no memory: nothing of them was recorded"),
            (
                LOST_AFTER_END,
                "after thread end",
                "slow-path accesses in a thread's last destructors, or since it shares its thread pointer",
            ),
            (
                LOST_LOCKS,
                "locks",
                "critical sections under locks that found no room: no operations tell of them",
            ),
            (
                LOST_SECTIONS,
                "operations cut",
                "sampled critical sections with more visits than are kept, or without memory for them: left out",
            ),
        ];
        for (what, name, note) in notes.into_iter().chain(OUTSIDE) {
            let count = h.losses[what];
            if count > 0 {
                let process = Some(self.process);
                self.ev.losses.push(Loss { process, what: name.into(), count, note: note.into() });
            }
        }
    }
}

/// Where the mappings of a `/proc/pid/maps` text begin.
fn parse_starts(text: &str) -> Vec<u64> {
    text.lines().filter_map(Mapped::parse).map(|m| m.start).collect()
}

/// Mapped files of a `/proc/pid/maps` text: whole extents, and the bias of the first mapping. Mappings that begin at
/// one of `others` are not the program's.
fn parse_maps(text: &str, others: &[u64]) -> Vec<Module> {
    let mut out: Vec<Module> = Vec::new();
    for here in text.lines().filter_map(Mapped::parse).filter(|m| !others.contains(&m.start)) {
        let Mapped { start, end, offset, path, .. } = here;
        if path.is_empty() {
            // Zero-initialised data follows its file without a name.
            if let Some(m) = out.last_mut().filter(|m| m.end == start) {
                m.end = end;
            }
            continue;
        }
        // Shared mappings are data.
        if !path.starts_with('/') || path.ends_with(".raw") || here.shared() {
            continue;
        }
        let path = here.opened();
        match out.iter_mut().rev().find(|m| m.path == path) {
            Some(m) => m.end = m.end.max(end),
            None => out.push(Module {
                process: 0,
                path,
                build_id: None,
                start,
                end,
                bias: start.wrapping_sub(offset),
            }),
        }
    }
    out
}
