//! Memory that several processes map, or one at several addresses: which bytes are the same.

use crate::lines::{Lines, Span, fight};
use crate::raw::RawFile;
use crate::wire::*;
use std::collections::{BTreeMap, BTreeSet};
use tussle_evidence::{Backing, Mapped, Region};

/// A shared mapping of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mapping {
    pub start: u64,
    pub end: u64,
    /// Device and inode.
    pub file: (u64, u64),
    /// Byte in the file at `start`.
    pub offset: u64,
    pub writable: bool,
}

impl Mapping {
    fn end_offset(&self) -> u64 {
        self.offset.saturating_add(self.end - self.start)
    }

    fn meets(&self, other: &Mapping) -> bool {
        self.file == other.file && self.offset < other.end_offset() && other.offset < self.end_offset()
    }
}

/// What processes did to one line.
#[derive(Default)]
struct Used {
    /// Each process's address of it.
    lines: Vec<(usize, u64)>,
    spans: Vec<Span>,
}

/// Memory with several addresses, of processes or in one. Of those of a byte the first one in the first process counts.
#[derive(Default)]
pub(crate) struct Shared {
    of: Vec<Vec<Mapping>>,
    /// Mappings that processes share at addresses where another one lay before.
    pub not_followed: u64,
}

impl Shared {
    /// Looks at all processes of a session; `parents` are their positions where one was forked from another.
    pub fn new(files: &[&RawFile<'_>], parents: &[Option<usize>]) -> Shared {
        let mut all: Vec<Vec<Mapping>> = vec![Vec::new(); files.len()];
        let mut late: BTreeSet<(usize, Mapping)> = BTreeSet::new();
        for (i, file) in files.iter().enumerate() {
            for (k, text) in file.maps().into_iter().enumerate() {
                for m in mappings(&String::from_utf8_lossy(&text)) {
                    // What a child is born with its parent has, too.
                    let parent = parents[i].filter(|_| k == 0);
                    late.extend(
                        std::iter::once(i).chain(parent).filter(|&p| !add(&mut all[p], m)).map(|p| (p, m)),
                    );
                }
            }
        }
        let several = |i: usize, m: &Mapping| {
            // One process may map memory twice: a ring without an end.
            let mine = |k: usize, o: &Mapping| k == i && (o.start, o.end) == (m.start, m.end);
            let others = all.iter().enumerate().flat_map(|(k, of)| of.iter().map(move |o| (k, o)));
            let others = others.filter(|(k, o)| !mine(*k, o)).map(|(_, o)| o);
            let mut same = others.filter(|o| o.meets(m)).peekable();
            same.peek().is_some() && (m.writable || same.any(|o| o.writable))
        };
        let kept = |(i, of): (usize, &Vec<Mapping>)| of.iter().filter(|m| several(i, m)).copied().collect();
        let not_followed = late.iter().filter(|(i, m)| several(*i, m)).count() as u64;
        Shared { of: all.iter().enumerate().map(kept).collect(), not_followed }
    }

    pub fn is_empty(&self) -> bool {
        self.of.iter().all(Vec::is_empty)
    }

    /// Process and address that stand for a byte of memory which processes share; `None` for other memory.
    pub fn canonical(&self, process: usize, address: u64) -> Option<(usize, u64)> {
        let m = self.of.get(process)?.iter().find(|m| (m.start..m.end).contains(&address))?;
        let byte = m.offset + (address - m.start);
        self.of.iter().enumerate().find_map(|(i, of)| {
            let first = of.iter().find(|o| o.file == m.file && (o.offset..o.end_offset()).contains(&byte))?;
            Some((i, first.start + (byte - first.offset)))
        })
    }

    /// What all processes did to the lines of shared memory.
    fn uses(&self, files: &[&RawFile<'_>]) -> BTreeMap<(usize, u64), Used> {
        let mut out: BTreeMap<(usize, u64), Used> = BTreeMap::new();
        for (i, file) in files.iter().enumerate().filter(|(i, _)| !self.of[*i].is_empty()) {
            let lines = Lines::new(file, &file.threads());
            for line in self.of[i].iter().flat_map(|m| lines.within(m.start, m.end)) {
                let Some(at) = self.canonical(i, line) else { continue };
                let used = out.entry(at).or_default();
                used.lines.push((i, line));
                used.spans.extend(lines.spans(line, i << 32));
            }
        }
        out
    }

    /// Lines of each process in shared memory that threads of any processes fight for, and their neighbours.
    pub fn fought(&self, files: &[&RawFile<'_>]) -> Vec<BTreeSet<u64>> {
        let mut out = vec![BTreeSet::new(); files.len()];
        let uses = self.uses(files);
        for (&(process, line), used) in &uses {
            let next = uses.get(&(process, line + LINE));
            let beside = next.map_or(&[][..], |n| &n.spans[..]);
            if !fight(used.spans.iter().chain(beside).copied().collect()) {
                continue;
            }
            for &(i, l) in used.lines.iter().chain(next.iter().flat_map(|n| &n.lines)) {
                out[i].extend([l.wrapping_sub(LINE), l, l.wrapping_add(LINE)]);
            }
        }
        out
    }

    /// Rows for the evidence.
    pub fn regions(&self) -> Vec<Region> {
        let row = |process: usize, m: &Mapping| Region {
            process: process as u32,
            start: m.start,
            end: m.end,
            backing: Some(Backing::File),
            device: Some(m.file.0),
            inode: Some(m.file.1),
            offset: Some(m.offset),
            parent: None,
        };
        self.of.iter().enumerate().flat_map(|(i, of)| of.iter().map(move |m| row(i, m))).collect()
    }
}

/// Adds a mapping unless another one has its addresses: of mappings that came one after another at an address, the
/// first counts. Whether it is there now.
fn add(to: &mut Vec<Mapping>, m: Mapping) -> bool {
    match to.iter_mut().find(|o| o.start < m.end && m.start < o.end) {
        // The kernel shows neighbours of one file as one mapping, and parts with other permissions as several.
        Some(o) if o.file == m.file && m.start.wrapping_sub(o.start) == m.offset.wrapping_sub(o.offset) => {
            (o.start, o.offset) = (o.start.min(m.start), o.offset.min(m.offset));
            (o.end, o.writable) = (o.end.max(m.end), o.writable || m.writable);
        }
        Some(_) => return false,
        None => to.push(m),
    }
    true
}

/// Shared mappings of a `/proc/pid/maps` text, without the recorder's own.
fn mappings(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(mapping).collect()
}

/// One such line. Memory without a file has an inode, too.
fn mapping(line: &str) -> Option<Mapping> {
    let m = Mapped::parse(line)?;
    if !m.shared() || m.file().ends_with(".raw") {
        return None;
    }
    // As glibc's makedev(3) packs small numbers.
    let (major, minor) = m.device;
    let device = (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12;
    // The first System V segment has inode 0. Beyond 2^56 lies damage.
    let sound = (device, m.inode) != (0, 0) && m.end.max(m.offset) <= 1 << 56;
    let file = (device, m.inode);
    sound.then_some(Mapping { start: m.start, end: m.end, file, offset: m.offset, writable: m.writable() })
}

#[cfg(test)]
#[path = "shared_tests.rs"]
mod tests;
