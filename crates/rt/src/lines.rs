//! Which lines of a process are worth keeping: those that two threads used within one window, and their neighbours.

use crate::earlier::Outline;
use crate::pieces::Piece;
use crate::raw::RawFile;
use crate::wire::*;
use std::collections::{BTreeSet, HashMap};
use tussle_evidence::threads;

/// Accesses of one thread to one line in one stretch of its clock.
#[derive(Clone)]
pub(crate) struct AccessRun {
    pub vt0: u64,
    pub vt1: u64,
    pub reads: [u32; 8],
    pub writes: [u32; 8],
    pub rmws: [u32; 8],
}

impl AccessRun {
    /// Of all kinds.
    pub fn accesses(&self) -> f64 {
        self.outline().accesses as f64
    }

    fn outline(&self) -> Outline {
        let sum = |counts: &[u32; 8]| counts.iter().map(|&n| u64::from(n)).sum::<u64>();
        let stores = sum(&self.writes) + sum(&self.rmws);
        let accesses = sum(&self.reads) + stores;
        Outline { vt0: self.vt0, vt1: self.vt1, accesses, stores: stores > 0 }
    }

    fn add(&mut self, other: &AccessRun) {
        let pairs = [
            (&mut self.reads, &other.reads),
            (&mut self.writes, &other.writes),
            (&mut self.rmws, &other.rmws),
        ];
        for (to, from) in pairs {
            for (t, f) in to.iter_mut().zip(from) {
                *t = t.saturating_add(*f);
            }
        }
    }
}

/// Folds runs of a line until at most `runs_max` are left, the oldest of each group of windows taking the counts of
/// the others. Groups follow from the clock alone, so that all threads fold alike: what alternated still does, and what
/// coincided still does. Returns how many runs went.
pub(crate) fn thin(uses: &mut [Use], runs_max: usize) -> u64 {
    let count = |uses: &[Use]| uses.iter().map(|u| u.runs.len()).sum::<usize>();
    let before = count(uses);
    let mut shift = WINDOW_VT.ilog2();
    while count(uses) > runs_max.max(uses.len()) && shift < 63 {
        shift += 1;
        for u in uses.iter_mut() {
            u.runs.sort_by_key(|r| r.vt0);
            u.runs.dedup_by(|newer, older| {
                let same = newer.vt0 >> shift == older.vt0 >> shift;
                if same {
                    older.add(newer);
                }
                same
            });
        }
    }
    (before - count(uses)) as u64
}

/// Everything one thread did to one line.
pub(crate) struct Use {
    /// Position of the thread in [`RawFile::threads`].
    pub thread: usize,
    pub rmask: u64,
    pub wmask: u64,
    pub runs: Vec<AccessRun>,
    pub touches: Vec<u64>,
    pub company: Option<Company>,
}

#[cfg(test)]
impl Use {
    /// A thread did nothing.
    pub fn none() -> Use {
        Use { thread: 0, rmask: 0, wmask: 0, runs: vec![], touches: vec![], company: None }
    }
}

/// Which lines to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Lines that threads fight for, and their neighbours (for other offsets and longer lines).
    Shared,
    /// Every line.
    All,
}

/// (line, position of the thread, reference of the record)
type Index = Vec<(u64, u32, u32)>;

/// A process's lines with all that threads did to them.
pub(crate) struct Lines<'a> {
    file: &'a RawFile<'a>,
    index: Index,
    /// Unflushed counts of threads that were alive at the end.
    pending: HashMap<(u32, u64), AccessRun>,
    /// Last clock of each thread.
    pub ends: Vec<u64>,
}

impl<'a> Lines<'a> {
    pub fn new(file: &'a RawFile<'a>, threads: &[ThreadInfo]) -> Lines<'a> {
        let mut index = Index::new();
        let mut pending = HashMap::new();
        let mut ends = Vec::new();
        for (i, t) in threads.iter().enumerate() {
            file.lines(t, |line, record| index.push((line, i as u32, record)));
            let mut end = t.vt1;
            if let Some((vt, entries)) = file.live(t) {
                end = vt;
                for (e, rmw) in entries {
                    let run = unflushed(vt, &e, &rmw);
                    if run.outline().accesses > 0 {
                        end = end.max(run.vt1);
                        pending.insert((i as u32, e.key), run);
                    }
                }
            }
            ends.push(end);
        }
        index.sort_unstable();
        Lines { file, index, pending, ends }
    }

    /// Lines to keep: those that two threads used within one window, one of them writing, and pairs of lines of which
    /// that is true together (lines may be longer elsewhere, objects lie otherwise).
    pub fn keep(&self, keep: Keep) -> Kept {
        let parts = threads::parts(&self.index, |e| e.0);
        let mut out = Kept::default();
        for part in threads::map(&parts, |part| self.keep_of(part, keep)) {
            out.lines.extend(part.lines);
            out.fought.extend(part.fought);
            out.met.extend(part.met);
            out.accesses = out.accesses.saturating_add(part.accesses);
        }
        out
    }

    /// Of a part of the index, but with the line behind it.
    fn keep_of(&self, part: &std::ops::Range<usize>, keep: Keep) -> Kept {
        let mut kept = Kept::default();
        let mut before: Option<Spans> = None;
        for group in self.index[part.start..].chunk_by(|a, b| a.0 == b.0) {
            let line = group[0].0;
            let own = before.as_ref().is_none_or(|b| b.line < self.index[part.end - 1].0);
            let beside = before.take().filter(|b| !b.kept && b.line + LINE == line);
            if !own && beside.is_none() {
                break;
            }
            let mut here = self.use_spans(group);
            if beside.as_ref().is_some_and(|b| b.with(&here).fight()) {
                kept.lines.extend(around(line - LINE));
                kept.fought.extend([line - LINE, line]);
            }
            if !own {
                break;
            }
            kept.accesses = here.totals.iter().fold(kept.accesses, |sum, n| sum.saturating_add(*n));
            if keep == Keep::All || here.fight() {
                here.kept = true;
                kept.lines.extend(around(line));
                kept.fought.insert(line);
            }
            kept.met.extend(Some((here.met(), line)).filter(|m| m.0 > 0));
            before = Some(here);
        }
        kept
    }

    /// When a line was used: all that it takes to tell whether it matters.
    fn use_spans(&self, group: &[(u64, u32, u32)]) -> Spans {
        let mut out = Spans { line: group.first().map_or(0, |e| e.0), ..Spans::default() };
        for &(line, thread, reference) in group {
            let Some(r) = self.file.record(reference) else { continue };
            out.totals.push(0);
            self.file.outlines(&r, |o| out.add(thread, &o));
            self.pending.get(&(thread, line)).into_iter().for_each(|run| out.add(thread, &run.outline()));
        }
        out
    }

    /// Uses of these lines, in their order.
    pub fn uses_of(&self, lines: &[u64]) -> Vec<Vec<Use>> {
        threads::map(lines, |line| self.uses(*line))
    }

    /// Uses of a line.
    fn uses(&self, line: u64) -> Vec<Use> {
        self.of_line(line).iter().filter_map(|e| self.read(e)).collect()
    }

    /// Entries of a line in the index.
    fn of_line(&self, line: u64) -> &[(u64, u32, u32)] {
        let from = self.index.partition_point(|e| e.0 < line);
        let count = self.index[from..].iter().take_while(|e| e.0 == line).count();
        &self.index[from..from + count]
    }

    /// Lines that start in a range of addresses.
    pub fn within(&self, start: u64, end: u64) -> BTreeSet<u64> {
        let from = self.index.partition_point(|e| e.0 < start);
        self.index[from..].iter().take_while(|e| e.0 < end).map(|e| e.0).collect()
    }

    /// When the process's threads used a line. Their numbers count from `first_thread`.
    pub fn spans(&self, line: u64, first_thread: usize) -> Vec<Span> {
        let mut out = self.use_spans(self.of_line(line)).list;
        out.iter_mut().for_each(|s| s.2 += first_thread);
        out
    }

    /// Whether threads met at a line: of each that was watched there the line, a byte that it used, and when.
    pub fn companies(&self, line: u64) -> Vec<(u64, u64, u64, Company)> {
        let of = |e: &(u64, u32, u32)| {
            let r = self.file.record(e.2)?;
            let byte = (r.rmask | r.wmask).trailing_zeros().min(LINE as u32 - 1);
            Some((line, line + u64::from(byte), r.vt0, self.file.company(&r)?))
        };
        self.of_line(line).iter().filter_map(of).collect()
    }

    fn read(&self, &(line, thread, record): &(u64, u32, u32)) -> Option<Use> {
        let r = self.file.record(record)?;
        let mut runs: Vec<AccessRun> = Vec::new();
        self.file.runs(&r, |p| runs.push(run(&p)));
        runs.extend(self.pending.get(&(thread, line)).cloned());
        runs.retain(|r| r.outline().happened());
        let (touches, company) = (self.file.touches(&r), self.file.company(&r));
        Some(Use { thread: thread as usize, rmask: r.rmask, wmask: r.wmask, runs, touches, company })
    }
}

/// A line with the two beside it.
fn around(line: u64) -> [u64; 3] {
    [line.wrapping_sub(LINE), line, line.wrapping_add(LINE)]
}

/// Lines to keep.
#[derive(Default)]
pub(crate) struct Kept {
    /// In ascending order.
    pub lines: BTreeSet<u64>,
    /// Of these the ones that threads fight for.
    pub fought: BTreeSet<u64>,
    /// Of lines that several threads used, kept or not: accesses by all but the busiest thread, an upper bound for what
    /// they can do to each other.
    pub met: Vec<(u64, u64)>,
    /// Accesses to all lines, kept or not.
    pub accesses: u64,
}

/// When threads used a line.
#[derive(Default)]
struct Spans {
    line: u64,
    kept: bool,
    list: Vec<Span>,
    /// Accesses of each thread.
    totals: Vec<u64>,
}

impl Spans {
    fn add(&mut self, thread: u32, r: &Outline) {
        if !r.happened() {
            return;
        }
        if let Some(total) = self.totals.last_mut() {
            *total = total.saturating_add(r.accesses);
        }
        let new = span(thread as usize, r);
        match self.list.last_mut() {
            // Neighbours that differ in nothing are one.
            Some(last) if (last.2, last.3) == (new.2, new.3) && last.0 <= new.0 && new.0 <= last.1 => {
                last.1 = last.1.max(new.1);
            }
            _ => self.list.push(new),
        }
    }

    fn met(&self) -> u64 {
        let sum = self.totals.iter().fold(0u64, |s, n| s.saturating_add(*n));
        sum - self.totals.iter().max().unwrap_or(&0)
    }

    /// Both lines as one; empty if that is one thread's.
    fn with(&self, other: &Spans) -> Spans {
        let all = || self.list.iter().chain(&other.list);
        let first = all().next().map(|s| s.2);
        let list = if all().any(|s| Some(s.2) != first) { all().copied().collect() } else { Vec::new() };
        Spans { list, ..Spans::default() }
    }

    /// Two threads used it within one window, and one of them wrote.
    fn fight(&self) -> bool {
        // What one thread had for itself, or all only read, is most of a program's memory.
        let first = self.list.first().map(|s| s.2);
        let several = self.list.iter().any(|s| Some(s.2) != first);
        several && self.list.iter().any(|s| s.3) && fight(self.list.clone())
    }
}

/// (start, end, thread, stores), both ends widened to whole windows.
pub(crate) type Span = (u64, u64, usize, bool);

fn span(thread: usize, r: &Outline) -> Span {
    (r.vt0 / WINDOW_VT, r.vt1.max(r.vt0 + 1).div_ceil(WINDOW_VT), thread, r.stores)
}

/// Two threads within one window, and one of them wrote.
pub(crate) fn fight(mut spans: Vec<Span>) -> bool {
    spans.sort_unstable();
    // Latest ends seen: of any thread and of another thread than that one; the same for spans that store.
    let mut any = Latest::default();
    let mut stores = Latest::default();
    for (start, end, thread, writes) in spans {
        if stores.other(thread) > start || (writes && any.other(thread) > start) {
            return true;
        }
        any.add(thread, end);
        if writes {
            stores.add(thread, end);
        }
    }
    false
}

/// The latest end of two different threads.
#[derive(Default)]
struct Latest {
    first: (u64, usize),
    second: (u64, usize),
}

impl Latest {
    fn add(&mut self, thread: usize, end: u64) {
        if thread == self.first.1 {
            self.first.0 = self.first.0.max(end);
        } else if end > self.first.0 {
            self.second = self.first;
            self.first = (end, thread);
        } else if end > self.second.0 {
            self.second = (end, thread);
        }
    }

    fn other(&self, thread: usize) -> u64 {
        if self.first.1 == thread { self.second.0 } else { self.first.0 }
    }
}

fn run(p: &Piece) -> AccessRun {
    let part = |from: usize| std::array::from_fn(|k| p.counts[from + k]);
    AccessRun { vt0: p.vt0, vt1: p.vt1, reads: part(0), writes: part(8), rmws: part(16) }
}

/// Counts that were still in the table when the process died.
fn unflushed(vt: u64, e: &Entry, rmw: &[u16; 8]) -> AccessRun {
    let count = |k: usize| u32::from(e.cnt[k].saturating_sub(COUNT_START));
    let mut run = AccessRun {
        vt0: vt.wrapping_sub(u64::from((vt as u32).wrapping_sub(e.vt0))),
        vt1: 0,
        reads: std::array::from_fn(count),
        writes: std::array::from_fn(|k| count(k + 8)),
        rmws: std::array::from_fn(|k| if e.rec & RMW_FLAG != 0 { u32::from(rmw[k]) } else { 0 }),
    };
    run.vt1 = vt.saturating_add(run.outline().accesses);
    run
}
