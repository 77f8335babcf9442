//! Rows of a table by object: every section of a report asks for those of a few, and mostly of a few of their bytes.

use std::ops::Range;
use tussle_evidence::{Access, Touch};

/// Bytes of an object that are told apart: sources write what they saw line by line, mostly.
pub(crate) const BLOCK: u64 = 64;

/// A row that tells of bytes of an object.
pub(crate) trait OfObject {
    /// Its number, the first byte, and how many.
    fn bytes(&self) -> (u32, u64, u32);
}

impl OfObject for Touch {
    fn bytes(&self) -> (u32, u64, u32) {
        (self.object, self.offset, self.size)
    }
}

impl OfObject for Access {
    fn bytes(&self) -> (u32, u64, u32) {
        (self.object, self.offset, self.size)
    }
}

/// Rows one behind the other that begin in one block of one object.
struct Run {
    first: u64,
    /// The last block that any of them reaches.
    last: u64,
    rows: Range<usize>,
}

/// Where the rows of each object are, in their order.
pub(crate) struct ByObject<'a, T> {
    rows: &'a [T],
    runs: Vec<Run>,
    /// Runs of one object, one behind the other; an object may have several such.
    objects: Vec<(u32, Range<usize>)>,
}

impl<'a, T: OfObject> ByObject<'a, T> {
    /// Of all of them.
    pub fn new(rows: &'a [T]) -> ByObject<'a, T> {
        let mut runs: Vec<Run> = Vec::new();
        let mut objects: Vec<(u32, Range<usize>)> = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            let (object, offset, size) = row.bytes();
            let (first, last) = (offset / BLOCK, offset.saturating_add(u64::from(size.max(1)) - 1) / BLOCK);
            let same = objects.last().is_some_and(|o| o.0 == object);
            if !same {
                objects.push((object, runs.len()..runs.len()));
            }
            match runs.last_mut().filter(|r| same && r.first == first) {
                Some(run) => (run.last, run.rows.end) = (run.last.max(last), i + 1),
                None => runs.push(Run { first, last, rows: i..i + 1 }),
            }
            objects.last_mut().into_iter().for_each(|o| o.1.end = runs.len());
        }
        objects.sort_by_key(|o| o.0);
        ByObject { rows, runs, objects }
    }

    /// Those of an object that may meet these bytes, and some others.
    pub fn near(&self, object: u32, bytes: Range<u64>) -> impl Iterator<Item = &'a T> {
        let (first, last) = (bytes.start / BLOCK, bytes.end.saturating_sub(1) / BLOCK);
        self.among(object, move |blocks| blocks.start <= last && first < blocks.end)
    }

    /// Those of an object that begin in blocks of which `wanted` may want one.
    pub fn among(&self, object: u32, wanted: impl Fn(Range<u64>) -> bool) -> impl Iterator<Item = &'a T> {
        let from = self.objects.partition_point(|o| o.0 < object);
        let to = self.objects.partition_point(|o| o.0 <= object);
        let rows = self.rows;
        let runs = self.objects[from..to].iter().flat_map(|o| &self.runs[o.1.clone()]);
        let runs = runs.filter(move |r| wanted(r.first..r.last.saturating_add(1)));
        runs.flat_map(move |r| &rows[r.rows.clone()])
    }
}
