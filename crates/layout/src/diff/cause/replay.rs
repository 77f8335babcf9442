//! The compiler's layout of a few members, replayed with some of the changes: which of them explain a shift.

use super::flat::Flat;
use crate::diff::Side;
use tussle_model::TypeTable;

/// With more changes than these no smaller set is looked for.
const STEPS_MAX: usize = 64;

/// What a member needs, in bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    align_bits: u64,
    size_bits: u64,
    /// The unit that a bit-field must not leave.
    unit_bits: Option<u64>,
}

impl Need {
    pub fn of(f: &Flat<'_>, side: Side<'_>) -> Need {
        let unit = |table: &TypeTable| table.size(f.ty).unwrap_or(1).max(1).saturating_mul(8);
        let size_bits = f.bits.map_or(f.size.saturating_mul(8), u64::from);
        let align_bits = f.alignment(side).max(1).saturating_mul(8);
        Need { align_bits, size_bits, unit_bits: f.bits.map(|_| unit(side.table)) }
    }

    /// It is aligned differently.
    pub fn is_realigned(&self, other: &Need) -> bool {
        match (self.unit_bits, other.unit_bits) {
            (None, None) => self.align_bits != other.align_bits,
            (x, y) => x != y,
        }
    }

    /// Its first bit, where what precedes it ends at bit `end`: the rule of the System V ABI, which gcc and clang
    /// follow.
    fn place(&self, end: u64) -> Option<u64> {
        let Some(unit) = self.unit_bits else { return end.checked_next_multiple_of(self.align_bits) };
        let last = end.checked_add(self.size_bits.max(1))? - 1;
        if self.size_bits > 0 && end / unit == last / unit {
            return Some(end);
        }
        end.checked_next_multiple_of(unit)
    }
}

/// A member as it was and as it is. One that only one build has here, and a step, came or went with that step; one
/// that both have changed with its step, or not at all.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub old: Option<Need>,
    pub new: Option<Need>,
    /// Which change.
    pub step: Option<usize>,
}

/// Members from one that stayed to the first that moved, which is the last of them.
pub(super) struct Replay {
    /// Where the one that stayed ends, bits.
    pub start: u64,
    pub rows: Vec<Row>,
    /// First bit of the last member in the old and in the new build.
    pub first_bits: (u64, u64),
    /// How many changes there are.
    pub steps: usize,
}

impl Replay {
    /// The first bit of the last member when only these changes were made.
    fn place(&self, done: &[bool]) -> Option<u64> {
        let (mut end, mut at) = (self.start, None);
        for row in &self.rows {
            let is_new = row.step.is_none_or(|s| done[s]);
            let Some(need) = (if is_new { row.new } else { row.old }) else { continue };
            let first = need.place(end)?;
            (end, at) = (first.checked_add(need.size_bits)?, Some(first));
        }
        at
    }

    /// The changes that explain where the last member lies: the only one that does alone, else a set of which none can
    /// be left out. `None` when these members were not laid out by the rule (packed, or aligned by something that is
    /// not known).
    pub fn least(&self) -> Option<Vec<usize>> {
        let explains = |done: &[bool]| self.place(done) == Some(self.first_bits.1);
        let all = vec![true; self.steps];
        if self.place(&vec![false; self.steps]) != Some(self.first_bits.0) || !explains(&all) {
            return None;
        }
        if self.steps > STEPS_MAX {
            return Some((0..self.steps).collect());
        }
        let only = |i: usize| explains(&(0..self.steps).map(|k| k == i).collect::<Vec<_>>());
        let alone: Vec<usize> = (0..self.steps).filter(|&i| only(i)).collect();
        if alone.len() == 1 {
            return Some(alone);
        }
        let mut done = all;
        for i in 0..self.steps {
            done[i] = false;
            done[i] = !explains(&done);
        }
        Some((0..self.steps).filter(|&i| done[i]).collect())
    }
}
