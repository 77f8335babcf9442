//! Which lines of a process are worth keeping: those that two threads used within one window, and their neighbours.

use crate::raw::RawFile;
use crate::wire::*;
use std::collections::{BTreeSet, HashMap};

/// Accesses of one thread to one line in one stretch of its clock.
#[derive(Clone)]
pub(crate) struct Run {
    pub vt0: u64,
    pub vt1: u64,
    pub reads: [u32; 8],
    pub writes: [u32; 8],
    pub rmws: [u32; 8],
}

impl Run {
    fn total(&self) -> u64 {
        [&self.reads, &self.writes, &self.rmws].iter().flat_map(|c| c.iter()).map(|&n| u64::from(n)).sum()
    }

    fn add(&mut self, other: &Run) {
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

    fn stores(&self) -> bool {
        self.writes.iter().chain(&self.rmws).any(|&n| n > 0)
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
    pub runs: Vec<Run>,
    pub touches: Vec<u64>,
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
    pending: HashMap<(u32, u64), Run>,
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
                    if run.total() > 0 {
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

    /// Lines to keep, in ascending order.
    pub fn keep(&self, keep: Keep) -> BTreeSet<u64> {
        let mut out = BTreeSet::new();
        for group in self.index.chunk_by(|a, b| a.0 == b.0) {
            let line = group[0].0;
            if keep == Keep::All || (group.len() > 1 && self.shared(group)) || self.pair(group) {
                out.extend([line.wrapping_sub(LINE), line, line.wrapping_add(LINE)]);
            }
        }
        out
    }

    /// Uses of a line.
    pub fn uses(&self, line: u64) -> Vec<Use> {
        let from = self.index.partition_point(|e| e.0 < line);
        self.index[from..].iter().take_while(|e| e.0 == line).filter_map(|e| self.read(e, true)).collect()
    }

    /// Accesses to a line by all threads but its busiest one: an upper bound for what they can do to each other.
    pub fn met(&self, line: u64) -> u64 {
        let from = self.index.partition_point(|e| e.0 < line);
        let of_line = self.index[from..].iter().take_while(|e| e.0 == line);
        let totals =
            of_line.filter_map(|e| self.read(e, false)).map(|u| u.runs.iter().map(Run::total).sum::<u64>());
        let (sum, max) = totals.fold((0u64, 0u64), |(s, m), n| (s.saturating_add(n), m.max(n)));
        sum - max
    }

    /// Lines that start in a range of addresses.
    pub fn within(&self, start: u64, end: u64) -> BTreeSet<u64> {
        let from = self.index.partition_point(|e| e.0 < start);
        self.index[from..].iter().take_while(|e| e.0 < end).map(|e| e.0).collect()
    }

    /// When the process's threads used a line. Their numbers count from `first_thread`.
    pub fn spans(&self, line: u64, first_thread: usize) -> Vec<Span> {
        let from = self.index.partition_point(|e| e.0 < line);
        let of_line = self.index[from..].iter().take_while(|e| e.0 == line);
        let uses: Vec<Use> = of_line.filter_map(|e| self.read(e, false)).collect();
        let mut out = spans(&uses);
        out.iter_mut().for_each(|s| s.2 += first_thread);
        out.sort_unstable();
        out.dedup();
        out
    }

    fn read(&self, &(line, thread, record): &(u64, u32, u32), touches: bool) -> Option<Use> {
        let r = self.file.record(record)?;
        let mut runs: Vec<Run> = self.file.pieces(&r).iter().rev().map(piece).collect();
        let current = Run {
            vt0: r.vt0,
            vt1: r.vt1,
            reads: half(&r.words, 0),
            writes: half(&r.words, 8),
            rmws: self.file.rmw(r.rmw),
        };
        if r.vt0 != u64::MAX && current.total() > 0 {
            runs.push(current);
        }
        runs.extend(self.pending.get(&(thread, line)).cloned());
        runs.retain(|r| r.total() > 0 && RawFile::is_time(r.vt0) && RawFile::is_time(r.vt1));
        let touches = if touches { self.file.touches(&r) } else { Vec::new() };
        Some(Use { thread: thread as usize, rmask: r.rmask, wmask: r.wmask, runs, touches })
    }

    /// Two threads used the line within one window, and one of them wrote.
    fn shared(&self, group: &[(u64, u32, u32)]) -> bool {
        let uses: Vec<Use> = group.iter().filter_map(|e| self.read(e, false)).collect();
        fight(spans(&uses))
    }

    /// A line of one thread's beside a line of another's: shared if lines were longer or objects lay elsewhere.
    fn pair(&self, group: &[(u64, u32, u32)]) -> bool {
        let line = group[0].0;
        let at = self.index.partition_point(|e| e.0 < line + LINE);
        let Some(next) = self.index.get(at).filter(|e| e.0 == line + LINE) else { return false };
        if group.len() == 1
            && next.1 == group[0].1
            && self.index.get(at + 1).is_none_or(|e| e.0 != line + LINE)
        {
            return false;
        }
        let beside = self.index[at..].iter().take_while(|e| e.0 == line + LINE);
        let uses: Vec<Use> = group.iter().chain(beside).filter_map(|e| self.read(e, false)).collect();
        fight(spans(&uses))
    }
}

/// (start, end, thread, stores), both ends widened to whole windows.
pub(crate) type Span = (u64, u64, usize, bool);

fn spans(uses: &[Use]) -> Vec<Span> {
    let span = |u: &Use, r: &Run| {
        (r.vt0 / WINDOW_VT, r.vt1.max(r.vt0 + 1).div_ceil(WINDOW_VT), u.thread, r.stores())
    };
    uses.iter().flat_map(|u| u.runs.iter().map(move |r| span(u, r))).collect()
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

fn half(words: &[u32; 16], from: usize) -> [u32; 8] {
    std::array::from_fn(|k| words[from + k])
}

fn piece(p: &Piece) -> Run {
    Run { vt0: p.vt0, vt1: p.vt1, reads: half(&p.words, 0), writes: half(&p.words, 8), rmws: p.rmw }
}

/// Counts that were still in the table when the process died.
fn unflushed(vt: u64, e: &Entry, rmw: &[u16; 8]) -> Run {
    let count = |k: usize| u32::from(e.cnt[k].saturating_sub(COUNT_START));
    let mut run = Run {
        vt0: vt.wrapping_sub(u64::from((vt as u32).wrapping_sub(e.vt0))),
        vt1: 0,
        reads: std::array::from_fn(count),
        writes: std::array::from_fn(|k| count(k + 8)),
        rmws: std::array::from_fn(|k| if e.rec & RMW_FLAG != 0 { u32::from(rmw[k]) } else { 0 }),
    };
    run.vt1 = vt.saturating_add(run.total());
    run
}
