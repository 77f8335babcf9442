//! Sampled accesses summed by cache line, in bounded memory.
//!
//! When the table is full, lines that one thread touched least are dropped, and counted. A line of which two threads
//! were seen stays: such lines are few.

use crate::address::{Access, How};
use crate::precise::Told;
use crate::turns::Turns;
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use tussle_evidence::TouchKind;

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;

/// Lines kept at most.
pub const LINES_MAX: usize = 1 << 18;

/// Rows kept of one line.
pub const ROWS_MAX: usize = 256;

/// One line of memory: a memory (process, or what processes share) and the address of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineId {
    /// Number of the memory: a process's own, or a file that several map.
    pub space: u32,
    /// First byte's address, or place in the file.
    pub address: u64,
}

/// What one thread's code does to some bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Number of the thread.
    pub thread: u32,
    /// Number of the code address.
    pub code: u32,
    /// Byte in the line.
    pub offset: u8,
    /// Bytes, inside the line.
    pub size: u8,
    /// Read, write or both.
    pub kind: TouchKind,
    /// Locked.
    pub locked: bool,
    /// How the address is known.
    pub how: How,
    /// Samples.
    pub samples: u32,
    /// Address as that thread's process has it.
    pub address: u64,
    /// Base and index register of the first sample.
    pub operand: [Option<(u32, u64)>; 2],
    /// What the processor told, of samples that are its own.
    pub told: Told,
}

/// A line with everything seen on it.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// What was seen, up to [`ROWS_MAX`].
    pub rows: Vec<Row>,
    /// Samples on it, those of rows that are not kept included.
    pub samples: u64,
    several: bool,
    stored: bool,
    tasks: Tasks,
    last: Option<u32>,
    /// Times that another thread came than the one before.
    changes: u64,
    /// Who was seen when, from the second thread and the first store on.
    turns: Option<Box<Turns>>,
}

/// Where threads of the table are CPUs: who ran on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tasks {
    /// The threads are threads.
    #[default]
    Themselves,
    One(u32),
    Several,
}

/// Of the changes between CPUs that chance would give, a line has fewer than one in so many if it moves with a task.
const CHANGES_PART: f64 = 4.0;

impl Line {
    /// Two threads were seen on it, and a store.
    pub fn contended(&self) -> bool {
        self.several && self.stored && !self.moved()
    }

    /// Several threads were seen on it that use it in long turns, or several CPUs because a task that uses it went from
    /// one to the other: no fight.
    pub fn moved(&self) -> bool {
        match self.tasks {
            Tasks::Themselves => self.several && self.turns.as_ref().is_some_and(|t| t.are_long()),
            Tasks::One(_) => self.several,
            Tasks::Several => self.several && (self.changes as f64) < self.changes_by_chance() / CHANGES_PART,
        }
    }

    /// Changes between CPUs if each sample came from one of them by lot.
    fn changes_by_chance(&self) -> f64 {
        let threads = self.threads();
        let all: f64 = threads.iter().map(|t| t.1 as f64).sum();
        let same: f64 = threads.iter().map(|t| (t.1 as f64 / all.max(1.0)).powi(2)).sum();
        all * (1.0 - same)
    }

    /// What the CPU ran when it touched the line.
    fn ran(&mut self, task: u32) {
        self.tasks = match self.tasks {
            Tasks::Themselves => Tasks::One(task),
            Tasks::One(known) if known == task => Tasks::One(known),
            _ => Tasks::Several,
        };
    }

    /// Two threads were seen on it.
    pub fn shared(&self) -> bool {
        self.several
    }

    /// Threads with their samples, most first.
    pub fn threads(&self) -> Vec<(u32, u64)> {
        let mut sums: HashMap<u32, u64> = HashMap::new();
        self.rows.iter().for_each(|r| *sums.entry(r.thread).or_default() += u64::from(r.samples));
        let mut out: Vec<(u32, u64)> = sums.into_iter().collect();
        out.sort_unstable_by_key(|(t, n)| (std::cmp::Reverse(*n), *t));
        out
    }

    /// The 8-byte words of the line that were seen touched, by number.
    pub fn words(&self) -> Vec<u8> {
        let touched: HashSet<u8> =
            self.rows.iter().flat_map(|r| r.offset / 8..=(r.offset + r.size - 1) / 8).collect();
        let mut out: Vec<u8> = touched.into_iter().collect();
        out.sort_unstable();
        out
    }

    fn add(&mut self, new: Row, now_ns: u64) -> bool {
        self.samples += u64::from(new.samples);
        self.stored |= new.kind != TouchKind::Read;
        self.several |= self.rows.first().is_some_and(|r| r.thread != new.thread);
        if self.several && self.stored && now_ns > 0 {
            self.turns.get_or_insert_default().add(new.thread, now_ns);
        }
        self.changes += u64::from(self.last.is_some_and(|t| t != new.thread));
        self.last = Some(new.thread);
        let same = |r: &&mut Row| {
            (r.thread, r.code, r.offset, r.size, r.kind, r.how)
                == (new.thread, new.code, new.offset, new.size, new.kind, new.how)
        };
        let room = self.rows.len() < ROWS_MAX;
        match self.rows.iter_mut().find(same) {
            Some(r) => {
                r.samples = r.samples.saturating_add(new.samples);
                r.told.add(&new.told);
            }
            None if room => {
                // Most lines have one row.
                self.rows.reserve_exact(usize::from(self.rows.is_empty()));
                self.rows.push(new);
            }
            None => return false,
        }
        true
    }
}

/// The table.
#[derive(Debug, Default)]
pub struct Lines {
    lines: HashMap<LineId, Line, RandomState>,
    lines_max: usize,
    /// Lines dropped because the table was full.
    pub dropped_lines: u64,
    /// Samples on them.
    pub dropped_samples: u64,
    /// Samples of rows that a line had no room for.
    pub rows_lost: u64,
    /// Time of the samples that come; 0 where it is not known.
    pub now_ns: u64,
}

impl Lines {
    /// An empty table for [`LINES_MAX`] lines.
    pub fn new() -> Lines {
        Lines::with_room(LINES_MAX)
    }

    /// For so many lines.
    pub fn with_room(lines_max: usize) -> Lines {
        Lines { lines_max: lines_max.max(2), ..Lines::default() }
    }

    /// Adds an access whose first byte lies at `place` of its memory; one that crosses lines is added to each.
    pub fn add(&mut self, place: LineId, access: &Access, thread: u32, code: u32) {
        self.add_told(place, access, thread, code, Told::default());
    }

    /// The same with what the processor told.
    pub fn add_told(&mut self, place: LineId, access: &Access, thread: u32, code: u32, told: Told) {
        let (mut at, mut left, mut address) = (place.address, u64::from(access.size), access.address);
        while left > 0 {
            let inside = at % LINE_BYTES;
            let size = left.min(LINE_BYTES - inside);
            let id = LineId { space: place.space, address: at - inside };
            self.add_row(
                id,
                Row {
                    thread,
                    code,
                    offset: inside as u8,
                    size: size as u8,
                    kind: access.kind,
                    locked: access.locked,
                    how: access.how,
                    samples: 1,
                    address,
                    operand: access.operand,
                    told,
                },
            );
            (at, left, address) = (at.wrapping_add(size), left - size, address.wrapping_add(size));
        }
    }

    /// The task that a CPU ran when it touched these bytes.
    pub fn ran(&mut self, place: LineId, task: u32) {
        let id = LineId { address: place.address / LINE_BYTES * LINE_BYTES, ..place };
        if let Some(line) = self.lines.get_mut(&id) {
            line.ran(task);
        }
    }

    fn add_row(&mut self, id: LineId, row: Row) {
        if self.lines.len() >= self.lines_max && !self.lines.contains_key(&id) {
            self.make_room();
        }
        if !self.lines.entry(id).or_default().add(row, self.now_ns) {
            self.rows_lost += 1;
        }
    }

    /// Drops lines of single threads, those with fewest samples first, until half of the room is free.
    fn make_room(&mut self) {
        let mut least = 1;
        while self.lines.len() > self.lines_max / 2 {
            let (mut lines, mut samples) = (0, 0);
            // In the end even shared lines go, the rarest first.
            let spare_shared = least < 1 << 10;
            self.lines.retain(|_, l| {
                let keep = l.samples > least || (spare_shared && l.several);
                lines += u64::from(!keep);
                samples += if keep { 0 } else { l.samples };
                keep
            });
            self.dropped_lines += lines;
            self.dropped_samples += samples;
            least *= 2;
        }
    }

    /// All lines.
    pub fn all(&self) -> impl Iterator<Item = (&LineId, &Line)> {
        self.lines.iter()
    }

    /// One line.
    pub fn get(&self, id: LineId) -> Option<&Line> {
        self.lines.get(&id)
    }

    /// Lines that two threads touch and of which no store was seen: one may be.
    pub fn suspects(&self) -> Vec<(LineId, &Line)> {
        self.by_samples(|l| l.several && !l.stored && !l.moved())
    }

    /// The lines that two threads touch and one stores to, most samples first.
    /// Whether their threads take turns is asked of those that are taken: it costs more than all the rest.
    pub fn ranked(&self) -> impl Iterator<Item = (LineId, &Line)> {
        self.by_samples(|l| l.several && l.stored).into_iter().filter(|(_, l)| l.contended())
    }

    /// Some of the lines, most samples first.
    fn by_samples(&self, wanted: impl Fn(&Line) -> bool) -> Vec<(LineId, &Line)> {
        let mut out: Vec<(LineId, &Line)> = self.all().filter(|l| wanted(l.1)).map(|l| (*l.0, l.1)).collect();
        out.sort_unstable_by_key(|(id, l)| (std::cmp::Reverse(l.samples), *id));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(address: u64, size: u32, kind: TouchKind) -> Access {
        Access { address, size, kind, locked: false, how: How::Exact, operand: [None; 2] }
    }

    fn at(address: u64) -> LineId {
        LineId { space: 0, address }
    }

    #[test]
    fn a_line_of_two_threads_with_a_store_is_a_candidate() {
        let mut lines = Lines::new();
        for (thread, address, kind) in [
            (1, 0x1000, TouchKind::Read),
            (2, 0x1008, TouchKind::Read),
            (1, 0x1040, TouchKind::Write),
            (1, 0x1048, TouchKind::Write),
            (1, 0x1080, TouchKind::Read),
            (2, 0x10b8, TouchKind::Rmw),
        ] {
            lines.add(at(address), &access(address, 8, kind), thread, 0);
        }
        let found: Vec<u64> = lines.ranked().map(|l| l.0.address).collect();
        assert_eq!(found, [0x1080]);
        assert_eq!(lines.get(at(0x1080)).unwrap().words(), [0, 7]);
    }

    /// Each step: CPU, task.
    fn of_steps(steps: impl Iterator<Item = (u32, u32)>) -> bool {
        let mut lines = Lines::new();
        for (cpu, task) in steps {
            lines.add(at(0x1000), &access(0x1000, 8, TouchKind::Write), cpu, 0);
            lines.ran(at(0x1008), task);
        }
        lines.get(at(0x1000)).unwrap().contended()
    }

    #[test]
    fn what_moves_with_its_task_is_no_fight_of_cpus() {
        assert!(!of_steps((0..100).map(|n| (n % 2, 7))), "one task alone");
        assert!(!of_steps((0..100).map(|n| (n / 50, n / 50))), "one after the other");
        assert!(of_steps((0..100).map(|n| (n % 2, n % 2))), "by turns");
        assert!(of_steps((0..100).map(|n| (n / 2 % 2, n / 2 % 2))), "two by two");
    }

    #[test]
    fn an_access_over_two_lines_counts_on_both() {
        let mut lines = Lines::new();
        lines.add(at(0x103c), &access(0x503c, 8, TouchKind::Write), 1, 0);
        let rows: Vec<(u64, u8, u8, u64)> = [0x1000, 0x1040]
            .iter()
            .flat_map(|a| lines.get(at(*a)).unwrap().rows.iter().map(|r| (*a, r.offset, r.size, r.address)))
            .collect();
        assert_eq!(rows, [(0x1000, 60, 4, 0x503c), (0x1040, 0, 4, 0x5040)]);
    }

    #[test]
    fn a_full_table_keeps_shared_lines_and_counts_what_it_drops() {
        let mut lines = Lines::with_room(100);
        for n in 0..10_000u64 {
            lines.add(at(n * 64), &access(n * 64, 8, TouchKind::Write), 1, 0);
            if n < 10 {
                lines.add(at(n * 64), &access(n * 64, 8, TouchKind::Write), 2, 0);
            }
        }
        assert_eq!(lines.ranked().count(), 10);
        let kept = lines.all().count() as u64;
        assert!(kept <= 100);
        assert_eq!(lines.dropped_lines + kept, 10_000);
        assert_eq!(lines.dropped_samples, lines.dropped_lines);
    }

    #[test]
    fn rows_of_one_line_are_bounded() {
        let mut lines = Lines::new();
        for code in 0..1000 {
            lines.add(at(0), &access(0, 8, TouchKind::Write), 1, code);
        }
        let line = lines.get(at(0)).unwrap();
        assert_eq!(
            (line.rows.len(), line.samples, lines.rows_lost),
            (ROWS_MAX, 1000, 1000 - ROWS_MAX as u64)
        );
    }
}
