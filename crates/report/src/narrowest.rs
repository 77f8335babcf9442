//! Which of many byte ranges of an object an access means.

use crate::by_object::BLOCK;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// Blocks that are looked for at most before ranges are.
const BLOCKS_MAX: u64 = 16;

/// Byte ranges of one object, each with a number. Asking costs a search per *width* that occurs, of which there are
/// few, however many ranges there are.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// By width, then by where they begin.
    widths: BTreeMap<u64, BTreeMap<u64, usize>>,
    /// Blocks in which there are any: most accesses to a large object are to others.
    blocks: HashSet<u64>,
}

impl Ranges {
    /// `width` bytes from `start` have this number; of equal ranges the first one's stays.
    pub(super) fn add(&mut self, start: u64, width: u64, number: usize) {
        self.widths.entry(width).or_default().entry(start).or_insert(number);
        self.blocks.extend(blocks(start, start.saturating_add(width)));
    }

    /// Whether there may be a range in one of these blocks.
    pub(super) fn in_blocks(&self, mut blocks: Range<u64>) -> bool {
        blocks.end - blocks.start > BLOCKS_MAX || blocks.any(|b| self.blocks.contains(&b))
    }

    /// The narrowest range that holds the bytes from `start` to before `end`, else the narrowest that has one of them:
    /// copies and clears span several.
    pub(super) fn of(&self, start: u64, end: u64) -> Option<usize> {
        let met = blocks(start, end);
        if !self.in_blocks(*met.start()..met.end().saturating_add(1)) {
            return None;
        }
        let holding = |(&width, starts): (&u64, &BTreeMap<u64, usize>)| {
            first(starts, end.saturating_sub(width), start.saturating_add(1))
        };
        let touching = |(&width, starts): (&u64, &BTreeMap<u64, usize>)| {
            first(starts, start.saturating_add(1).saturating_sub(width), end)
        };
        let mut wide_enough = self.widths.range(end.saturating_sub(start)..);
        wide_enough.find_map(holding).or_else(|| self.widths.iter().find_map(touching))
    }
}

/// Blocks that the bytes from `start` to before `end` lie in.
fn blocks(start: u64, end: u64) -> std::ops::RangeInclusive<u64> {
    start / BLOCK..=end.max(start.saturating_add(1)).saturating_sub(1) / BLOCK
}

/// Number of the first that begins at `low` or later, before `high`.
fn first(starts: &BTreeMap<u64, usize>, low: u64, high: u64) -> Option<usize> {
    if low >= high {
        return None;
    }
    starts.range(low..high).next().map(|(_, &number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by looking at every range.
    fn by_all(ranges: &[(u64, u64)], start: u64, end: u64) -> Option<(bool, u64)> {
        let over = ranges.iter().filter(|(s, w)| *s < end && start < s + w);
        over.map(|(s, w)| (*s > start || s + w < end, *w)).min()
    }

    #[test]
    fn the_narrowest_range_around_an_access_else_the_narrowest_that_it_meets() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let list: Vec<(u64, u64)> = (0..random(12)).map(|_| (random(60), 1 + random(20))).collect();
            let mut ranges = Ranges::default();
            list.iter().enumerate().for_each(|(n, (start, width))| ranges.add(*start, *width, n));
            for _ in 0..40 {
                let start = random(70);
                let end = start + 1 + random(20);
                let key = |n: usize| (list[n].0 > start || list[n].0 + list[n].1 < end, list[n].1);
                assert_eq!(
                    ranges.of(start, end).map(key),
                    by_all(&list, start, end),
                    "{start}..{end} {list:?}"
                );
            }
        }
    }

    #[test]
    fn ends_of_the_address_space_are_no_trouble() {
        let mut ranges = Ranges::default();
        ranges.add(u64::MAX - 8, 8, 1);
        ranges.add(0, 8, 2);
        assert_eq!((ranges.of(u64::MAX - 8, u64::MAX), ranges.of(0, 1)), (Some(1), Some(2)));
        assert_eq!((ranges.of(8, 16), ranges.of(5, 5)), (None, Some(2)));
    }
}
