//! Which object an address belonged to, at which time.

use crate::raw::{LIVES, RawFile};
use crate::shifts::Kind;
use crate::wire::*;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use tussle_evidence::tables::{NEAR_BYTES, WHOLE_BYTES};
use tussle_evidence::{Object, ObjectKind};

/// Bytes below the thread pointer that may be thread-local variables, where the end of the stack is not told.
const TLS_BYTES: u64 = 4096;
/// A stack that ends further below the thread pointer is another one.
const TLS_BYTES_MAX: u64 = 1 << 24;
const PAGE: u64 = 4096;

/// A candidate: something that occupied `[base, base + size)` during `[vt0, vt1)`.
#[derive(Clone)]
pub(crate) struct Occupant {
    pub base: u64,
    pub size: u64,
    pub vt0: u64,
    pub vt1: u64,
    pub what: What,
    /// Position in [`Places::names`] of the type that the program told.
    pub told: Option<u32>,
}

#[derive(Clone, Copy)]
pub(crate) enum What {
    /// Allocation: file index (a forked child's objects may be its parent's), slot's code and thread, site.
    Heap {
        code: u32,
        thread: u32,
        allocator: u16,
        align: u32,
        site: u32,
        inherited: bool,
        /// Address of the type's description, 0 if none.
        descriptor: u64,
    },
    Tls {
        thread: u32,
    },
    Stack {
        thread: u32,
    },
    Page,
}

impl What {
    /// Index of the thread that has it, or made it; `None` if that was no thread of this process.
    fn owner(self) -> Option<u32> {
        match self {
            What::Heap { thread, inherited: false, .. } | What::Tls { thread } | What::Stack { thread } => {
                Some(thread)
            }
            What::Heap { .. } | What::Page => None,
        }
    }
}

/// Places by cache line, for the lines that matter.
pub(crate) struct Places {
    places: Vec<Occupant>,
    /// (line, place) in ascending order, and those of the line that was asked for last.
    by_line: Vec<(u64, u32)>,
    last: (u64, Range<usize>),
    pages: HashMap<u64, u32>,
    /// Names of types that the program told.
    pub names: Vec<String>,
    /// Object id of each place, once it is used.
    ids: Vec<Option<u32>>,
}

impl Places {
    /// Collects the places of a process. `parent` is the file that it was forked from.
    pub fn new(file: &RawFile<'_>, parent: Option<&RawFile<'_>>) -> Places {
        let mut names = Names::default();
        let mut places: Vec<Occupant> =
            file.heap().iter().map(|s| heap_place(s, false, names.of(file, s))).collect();
        if let Some(parent) = parent {
            let fork = file.header().fork_vt;
            let alive = |s: &HeapSlot| s.vt0 <= fork && s.vt1 > fork;
            let theirs = parent.heap();
            names.known.clear();
            places
                .extend(theirs.iter().filter(|s| alive(s)).map(|s| heap_place(s, true, names.of(parent, s))));
        }
        end_parts(&mut places);
        for t in file.threads() {
            let (vt0, vt1) = (t.vt0, if t.live != 0 { u64::MAX } else { t.vt1 });
            // The thread's variables end at its pointer, and begin where its stack ends, if that is told; the first
            // thread's stack lies elsewhere.
            let told = t.creator != NONE && (1..=TLS_BYTES_MAX).contains(&t.tp.saturating_sub(t.stack_hi));
            let low = if told { t.stack_hi } else { t.tp.saturating_sub(TLS_BYTES) };
            let what = What::Tls { thread: t.index };
            places.push(Occupant { base: low, size: t.tp - low, vt0, vt1, what, told: None });
            if t.stack_lo != 0 && t.stack_hi > t.stack_lo {
                let top = if (t.stack_lo..t.stack_hi).contains(&low) { low } else { t.stack_hi };
                let size = top - t.stack_lo;
                places.push(Occupant {
                    base: t.stack_lo,
                    size,
                    vt0,
                    vt1,
                    what: What::Stack { thread: t.index },
                    told: None,
                });
            }
        }
        let ids = vec![None; places.len()];
        let (by_line, pages) = (Vec::new(), HashMap::new());
        Places { places, by_line, last: (0, 0..0), pages, names: names.all, ids }
    }

    /// Only these lines are asked for from now on.
    pub fn meet(&mut self, lines: &BTreeSet<u64>) {
        self.by_line = by_line(&self.places, lines);
        self.last = (0, 0..0);
    }

    /// Where the structs lie that threads fight for on these lines: addresses, in ascending order.
    pub fn structs(&self, fought: &BTreeSet<u64>) -> Vec<Range<u64>> {
        let fought: Vec<u64> = fought.iter().copied().collect();
        let mut inside = vec![false; fought.len()];
        let mut out: Vec<Range<u64>> = Vec::new();
        for p in self.places.iter().filter(|p| matches!(p.what, What::Heap { .. }) && p.size <= WHOLE_BYTES) {
            let (first, end) = (p.base & !(LINE - 1), p.base.saturating_add(p.size));
            let from = fought.partition_point(|&l| l < first);
            let count = fought[from..].iter().take_while(|&&l| l < end).count();
            if count > 0 {
                inside[from..from + count].fill(true);
                out.push(first..end);
            }
        }
        let large = fought.iter().zip(inside).filter(|(_, inside)| !inside);
        out.extend(large.map(|(l, _)| l.saturating_sub(NEAR_BYTES)..l.saturating_add(LINE + NEAR_BYTES)));
        out.sort_unstable_by_key(|r| (r.start, r.end));
        out.dedup();
        out
    }

    /// Positions in `by_line` of a line's places.
    fn of_line(&mut self, line: u64) -> Range<usize> {
        if self.last.0 != line {
            let from = self.by_line.partition_point(|b| b.0 < line);
            let count = self.by_line[from..].iter().take_while(|b| b.0 == line).count();
            self.last = (line, from..from + count);
        }
        self.last.1.clone()
    }

    /// The place that held byte `addr` for most of `[vt0, vt1)`, for that thread; a page if nothing is known.
    ///
    /// Threads that run one after another may get the same memory though their clocks say the same times. Its own clock
    /// tells a thread exactly when the objects lived that it made, so of those in its time these come first.
    pub fn find(&mut self, addr: u64, vt0: u64, vt1: u64, thread: u32) -> u32 {
        let here = self.of_line(addr & !(LINE - 1));
        let fits = |p: &Occupant| p.base <= addr && addr - p.base < p.size;
        let mut fitting =
            self.by_line[here].iter().map(|b| b.1).filter(|&i| fits(&self.places[i as usize])).peekable();
        let Some(first) = fitting.next() else { return self.page(addr & !(PAGE - 1)) };
        if fitting.peek().is_none() {
            return first;
        }
        let rank = |&i: &u32| rank(&self.places[i as usize], (vt0, vt1), thread);
        std::iter::once(first).chain(fitting).max_by_key(rank).unwrap_or(first)
    }

    /// What lies at a byte, if that is one of many.
    pub fn kind(&mut self, addr: u64, vt: u64) -> Option<Kind> {
        let place = self.find(addr, vt, vt, u32::MAX);
        match self.get(place).what {
            What::Heap { site, .. } => (site != 0).then_some(Kind::Site(site)),
            What::Page => Some(Kind::Page(addr & !(PAGE - 1))),
            What::Tls { .. } | What::Stack { .. } => None,
        }
    }

    fn page(&mut self, base: u64) -> u32 {
        if let Some(&i) = self.pages.get(&base) {
            return i;
        }
        let i = self.places.len() as u32;
        self.places.push(Occupant { base, size: PAGE, vt0: 0, vt1: u64::MAX, what: What::Page, told: None });
        self.ids.push(None);
        self.pages.insert(base, i);
        i
    }

    /// The place itself.
    pub fn get(&self, place: u32) -> &Occupant {
        &self.places[place as usize]
    }

    /// Object id of a place, once it has one.
    pub fn id(&self, place: u32) -> Option<u32> {
        self.ids[place as usize]
    }

    /// Gives a place its object id.
    pub fn number(&mut self, place: u32, id: u32) {
        self.ids[place as usize] = Some(id);
    }
}

/// How well a place fits accesses of a thread in `[vt0, vt1)`; heap objects and thread-local variables lie inside of
/// larger things.
fn rank(p: &Occupant, (vt0, vt1): (u64, u64), thread: u32) -> (bool, u8, bool, u64, u64, u64) {
    let class = match p.what {
        What::Heap { .. } if p.told.is_some() => 5,
        What::Heap { allocator, .. } if ALLOCATORS.get(usize::from(allocator)) != Some(&"mmap") => 4,
        What::Heap { .. } => 3,
        What::Tls { .. } => 2,
        What::Stack { .. } => 1,
        What::Page => 0,
    };
    let overlap = p.vt1.min(vt1.max(vt0 + 1)).saturating_sub(p.vt0.max(vt0));
    let distance = p.vt0.saturating_sub(vt1).max(vt0.saturating_sub(p.vt1));
    (overlap > 0, class, p.what.owner() == Some(thread), overlap, u64::MAX - distance, p.vt0)
}

/// Which places meet which of the lines.
fn by_line(places: &[Occupant], lines: &BTreeSet<u64>) -> Vec<(u64, u32)> {
    let lines: Vec<u64> = lines.iter().copied().collect();
    let mut out = Vec::new();
    for (p, i) in places.iter().zip(0u32..) {
        let end = p.base.saturating_add(p.size.max(1));
        let from = lines.partition_point(|&l| l < p.base & !(LINE - 1));
        out.extend(lines[from..].iter().take_while(|&&l| l < end).map(|&l| (l, i)));
    }
    out.sort_unstable();
    out
}

fn heap_place(s: &HeapSlot, inherited: bool, told: Option<u32>) -> Occupant {
    let (code, thread, allocator, align, site) = (s.code, s.thread, s.allocator, s.align, s.site);
    let descriptor = if s.descriptor & TOLD == 0 { s.descriptor } else { 0 };
    let what = What::Heap { code, thread, allocator, align, site, inherited, descriptor };
    Occupant { base: s.base & !PART, size: s.size.max(1), vt0: s.vt0, vt1: s.vt1, what, told }
}

/// Names of types that the program told, each once.
#[derive(Default)]
struct Names {
    all: Vec<String>,
    /// Their positions by the mark in the file that is read now.
    known: HashMap<u64, Option<u32>>,
}

impl Names {
    fn of(&mut self, file: &RawFile<'_>, s: &HeapSlot) -> Option<u32> {
        if s.descriptor & TOLD == 0 {
            return None;
        }
        let all = &mut self.all;
        *self.known.entry(s.descriptor).or_insert_with(|| {
            let (name, _) = file.mark(s.descriptor as u32)?;
            all.push(name);
            Some(all.len() as u32 - 1)
        })
    }
}

/// Parts of an object live no longer than it does.
fn end_parts(places: &mut [Occupant]) {
    let is_part = |p: &Occupant| matches!(p.what, What::Heap { allocator: ALLOCATOR_TOLD, .. });
    if !places.iter().any(is_part) {
        return;
    }
    let mut whole: Vec<(u64, u64, u64, u64)> = places
        .iter()
        .filter(|p| matches!(p.what, What::Heap { .. }) && !is_part(p))
        .map(|p| (p.base, p.vt0, p.base + p.size, p.vt1))
        .collect();
    whole.sort_unstable();
    for p in places.iter_mut().filter(|p| is_part(p)) {
        // The nearest one below; its lives come in order.
        let upto = whole.partition_point(|w| (w.0, w.1) <= (p.base, p.vt0));
        let around = whole[..upto].iter().rev().take(LIVES).find(|w| p.base < w.2 && p.vt0 < w.3);
        p.vt1 = around.map_or(p.vt1, |w| p.vt1.min(w.3));
    }
}

/// An object row without names.
pub(crate) fn blank(process: u32, kind: ObjectKind, p: &Occupant) -> Object {
    Object {
        vt0: p.vt0,
        vt1: (p.vt1 != u64::MAX).then_some(p.vt1),
        ..Object::unnamed(process, kind, p.base, p.size)
    }
}
