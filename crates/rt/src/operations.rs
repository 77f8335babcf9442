//! Sampled critical sections become rows of `operations`: visits to memory that matters, in order, and everything else
//! as the accesses between them.

use crate::convert::ProcessReader;
use crate::held::HeldLocks;
use crate::objects::Places;
use crate::raw::{RawFile, TracedLock};
use crate::wire::*;
use std::collections::{BTreeSet, HashMap, HashSet};
use tussle_evidence::tables::InnerLock;
use tussle_evidence::{Loss, Operation, OperationKind, TouchKind};

/// Rows and visits of one process; the most frequent ones are kept.
const ROWS_MAX: usize = 20_000;
const VISITS_MAX: usize = 500_000;

/// What the threads of a process did under locks that matter: taken by two threads, or held while visiting memory that
/// threads share.
pub(crate) struct Traced {
    /// Position of the thread, and a lock that it held.
    locks: Vec<(usize, TracedLock)>,
    /// Position of the thread, and its windows of accesses under no lock.
    windows: Vec<(usize, TracedLock)>,
    /// Addresses of locks that two threads took.
    shared: HashSet<u64>,
}

/// Where a visit was and what it did: object, offset, size, kind.
pub(crate) type Where = (u32, u64, u32, TouchKind);

/// What two sections have in common that count as one operation.
#[derive(PartialEq, Eq, Hash)]
struct OperationKey {
    lock: (u32, u64),
    shared: bool,
    visits: Vec<Where>,
    inner: Vec<InnerLock>,
}

/// Sections of one shape.
struct Alike {
    sections: u64,
    /// Sums over the sections of the accesses before each visit, and after the last one.
    gaps: Vec<u64>,
    vt0: u64,
    vt1: u64,
    repeats: u64,
}

impl Traced {
    pub fn new(file: &RawFile<'_>, threads: &[ThreadInfo], kept: &BTreeSet<u64>) -> Traced {
        let all =
            threads.iter().enumerate().flat_map(|(i, t)| file.locks(t).into_iter().map(move |l| (i, l)));
        let (windows, mut locks): (Vec<_>, Vec<(usize, TracedLock)>) =
            all.partition(|(_, l)| l.lock.addr == NO_LOCK);
        // Locks, inner ones too, with the first thread that took them, and whether there was another one.
        let mut takers: HashMap<u64, (usize, bool)> = HashMap::new();
        for (i, l) in &locks {
            let inner = l
                .sections
                .iter()
                .flat_map(|s| &s.1)
                .filter(|v| v.what >> 56 >= u64::from(TAKEN))
                .map(address);
            for addr in inner.chain([l.lock.addr]) {
                let of_lock = takers.entry(addr).or_insert((*i, false));
                of_lock.1 |= of_lock.0 != *i;
            }
        }
        let shared: HashSet<u64> = takers.into_iter().filter(|t| t.1.1).map(|t| t.0).collect();
        let visits =
            |l: &TracedLock| l.sections.iter().flat_map(|s| &s.1).any(|v| kept.contains(&line(address(v))));
        locks
            .retain(|(_, l)| shared.contains(&l.lock.addr) || kept.contains(&line(l.lock.addr)) || visits(l));
        locks.sort_by_key(|(i, l)| (*i, l.lock.addr));
        Traced { locks, windows, shared }
    }

    /// Lines of the locks.
    pub fn lines(&self) -> impl Iterator<Item = u64> {
        self.locks.iter().map(|(_, l)| l.lock.addr).chain(self.shared.iter().copied()).map(line)
    }

    /// Which accesses to kept lines happened under which lock.
    pub fn held(&self, kept: &BTreeSet<u64>) -> HeldLocks {
        HeldLocks::new(self.locks.iter(), self.windows.iter(), |line| kept.contains(&line))
    }

    /// Adds the rows.
    pub fn rows(&self, reader: &mut ProcessReader<'_>, kept: &BTreeSet<u64>, places: &mut Places) {
        if reader.file.header().operations == 0 {
            return;
        }
        let mut rows: Vec<Operation> = Vec::new();
        let mut unseen = 0u64;
        for (thread, l) in &self.locks {
            unseen = unseen.saturating_add(l.lock.count - seen(l));
            let thread = *thread;
            let mut one =
                Reading { reader: &mut *reader, places: &mut *places, kept, shared: &self.shared, thread };
            rows.extend(one.one_lock(l));
        }
        for (thread, l) in &self.windows {
            let thread = *thread;
            let mut one =
                Reading { reader: &mut *reader, places: &mut *places, kept, shared: &self.shared, thread };
            rows.extend(one.windows(l));
        }
        let all = rows.len();
        let left = most_frequent(&mut rows);
        let process = Some(reader.process);
        let mut say = |count: u64, what: &str, note: &str| {
            let (what, note) = (what.into(), note.into());
            reader.ev.losses.extend((count > 0).then_some(Loss { process, what, count, note }));
        };
        let not_sampled = "critical sections of locks of which none was traced to its end, or that \
                           traced ones with too many visits stand for";
        say(unseen, "operations not sampled", not_sampled);
        say((all - left) as u64, "operations left out", "shapes of critical sections, rare ones first");
        rows.sort_by_key(|r| (r.actor, r.vt0, r.vt1));
        reader.ev.operations.get_or_insert_with(Vec::new).extend(rows);
    }
}

fn line(addr: u64) -> u64 {
    addr & !(LINE - 1)
}

fn address(v: &Visit) -> u64 {
    v.what & 0xffff_ffff_ffff
}

/// Sections of a lock that those stand for of which everything is known: of the others nothing is said.
fn seen(l: &TracedLock) -> u64 {
    let whole = l.sections.iter().filter(|s| s.0.cut == 0).count();
    let share = u128::from(l.lock.count) * whole as u128 / l.sections.len().max(1) as u128;
    share as u64
}

/// One thread's sections under one lock, or its windows.
pub(crate) struct Reading<'r, 'f> {
    pub(crate) reader: &'r mut ProcessReader<'f>,
    places: &'r mut Places,
    kept: &'r BTreeSet<u64>,
    shared: &'r HashSet<u64>,
    thread: usize,
}

impl Reading<'_, '_> {
    /// Rows of one thread and lock. All sampled sections stand for equally many.
    fn one_lock(&mut self, l: &TracedLock) -> Vec<Operation> {
        let mut index: HashMap<OperationKey, usize> = HashMap::new();
        let mut all: Vec<Alike> = Vec::new();
        for (s, visits) in l.sections.iter().rev().filter(|s| s.0.cut == 0) {
            let (shape, gaps) = self.shape(l.lock.addr, s, visits);
            let next = index.len();
            let i = *index.entry(shape).or_insert(next);
            if i == next {
                all.push(Alike { sections: 0, gaps: vec![0; gaps.len()], vt0: u64::MAX, vt1: 0, repeats: 0 });
            }
            let a = &mut all[i];
            a.sections += 1;
            a.gaps.iter_mut().zip(&gaps).for_each(|(sum, g)| *sum = sum.saturating_add(*g));
            (a.vt0, a.vt1) = (a.vt0.min(s.vt0), a.vt1.max(s.vt1));
        }
        share(seen(l), &mut all);
        let actor = self.actor();
        let mut shapes: Vec<(OperationKey, usize)> = index.into_iter().collect();
        shapes.sort_unstable_by_key(|s| s.1);
        let rows = shapes.into_iter().map(|(shape, i)| row(actor, shape, &all[i]));
        rows.filter(|r| r.repeats > 0).collect()
    }

    /// The thread.
    pub(crate) fn actor(&self) -> u32 {
        self.reader.first_actor + self.thread as u32
    }

    /// A section as operations are told apart, and the accesses before each visit and after them.
    fn shape(&mut self, lock: u64, s: &Section, visits: &[Visit]) -> (OperationKey, Vec<u64>) {
        let (lock_object, lock_offset, _) = self.place(lock, 1, (s.vt0, s.vt1));
        let (visits, gaps, inner) = self.walk(s, visits);
        (OperationKey { lock: (lock_object, lock_offset), shared: s.shared != 0, visits, inner }, gaps)
    }

    /// What a section did to memory that matters, the accesses before each of these visits and after them, and the
    /// locks inside.
    pub(crate) fn walk(&mut self, s: &Section, visits: &[Visit]) -> (Vec<Where>, Vec<u64>, Vec<InnerLock>) {
        let when = (s.vt0, s.vt1);
        let (mut wheres, mut gaps, mut gap) = (Vec::new(), Vec::new(), 0u64);
        let mut inner: Vec<(u64, InnerLock)> = Vec::new();
        for v in visits {
            gap = gap.saturating_add(v.gap);
            let (addr, kind, now) = (address(v), (v.what >> 56) as u32, wheres.len() as u32);
            match kind {
                READ | WRITE | RMW if self.kept.contains(&line(addr)) => {
                    let (object, offset, size) = self.place(addr, v.what >> 48 & 0xff, when);
                    wheres.push((object, offset, size, touch_kind(kind)));
                    gaps.push(std::mem::take(&mut gap));
                }
                READ | WRITE | RMW => gap = gap.saturating_add(1),
                TAKEN | TAKEN_SHARED if self.shared.contains(&addr) => {
                    let (object, offset, _) = self.place(addr, 1, when);
                    inner.push((addr, (now, u32::MAX, object, offset, Some(kind == TAKEN_SHARED))));
                }
                RELEASED => {
                    let open = inner.iter_mut().rev().find(|(a, i)| *a == addr && i.1 == u32::MAX);
                    open.into_iter().for_each(|(_, i)| i.1 = now);
                }
                _ => {}
            }
        }
        gaps.push(gap);
        let end = wheres.len() as u32;
        let inner = inner.into_iter().map(|(_, i)| (i.0, i.1.min(end), i.2, i.3, i.4)).collect();
        (wheres, gaps, inner)
    }

    /// Object, offset and size within it of what lay at an address.
    fn place(&mut self, addr: u64, size: u64, (vt0, vt1): (u64, u64)) -> (u32, u64, u32) {
        let thread = self.reader.threads[self.thread].index;
        let id = self.places.find(addr, vt0, vt1, thread);
        let p = self.places.get(id);
        let offset = addr - p.base;
        let size = size.min(p.size.saturating_sub(offset)).max(1);
        (self.reader.object(id, self.places), offset, size as u32)
    }
}

/// Shares the lock's sections out to the shapes, so that the sum stays what it is.
fn share(count: u64, shapes: &mut [Alike]) {
    let total: u64 = shapes.iter().map(|a| a.sections).sum();
    let up_to = |n: u64| (u128::from(count.max(total)) * u128::from(n) / u128::from(total.max(1))) as u64;
    let mut before = 0;
    for a in shapes {
        a.repeats = up_to(before + a.sections) - up_to(before);
        before += a.sections;
    }
}

fn row(actor: u32, s: OperationKey, a: &Alike) -> Operation {
    let mean = |sum: u64| sum.saturating_add(a.sections / 2) / a.sections.max(1);
    let rest = a.gaps.last().map_or(0, |sum| mean(*sum));
    let mut visits: Vec<_> =
        s.visits.into_iter().zip(&a.gaps).map(|((o, at, n, k), g)| (o, at, n, k, mean(*g))).collect();
    if rest > 0 {
        // Work after the last visit would count as time between sections: the release stands for its end.
        visits.push((s.lock.0, s.lock.1, 1, TouchKind::Read, rest - 1));
    }
    Operation {
        actor,
        lock_object: Some(s.lock.0),
        lock_offset: Some(s.lock.1),
        vt0: a.vt0,
        vt1: a.vt1,
        visits,
        repeats: a.repeats,
        shared: Some(s.shared),
        inner: Some(s.inner),
        kind: Some(OperationKind::Section),
        ..Operation::default()
    }
}

fn touch_kind(code: u32) -> TouchKind {
    match code {
        READ => TouchKind::Read,
        WRITE => TouchKind::Write,
        _ => TouchKind::Rmw,
    }
}

/// Keeps the most frequent rows within the bounds; how many were kept.
fn most_frequent(rows: &mut Vec<Operation>) -> usize {
    rows.sort_by_key(|r| std::cmp::Reverse(r.repeats));
    rows.truncate(ROWS_MAX);
    let mut room = VISITS_MAX;
    rows.retain(|r| {
        let fits = r.visits.len() <= room;
        room -= if fits { r.visits.len() } else { 0 };
        fits
    });
    rows.len()
}
