//! Which bytes of a line a run's counts are about.

use crate::lines::{AccessRun, Use};

/// First byte of a range in its line, or word, and the byte after its last.
pub(crate) type Span = (u64, u64);
/// Reads, writes, read-modify-writes.
pub(crate) type Counts = (u64, u64, u64);

/// Which accesses to its words a range stands for; the others are another range's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub reads: bool,
    /// Writes and read-modify-writes.
    pub stores: bool,
}

impl Kinds {
    /// Nothing is left out.
    pub const ALL: Kinds = Kinds { reads: true, stores: true };
}

/// What a place in code touched of a line: of a copy the words that follow each other at once, of anything else (first
/// byte in its word, and bytes) each by itself.
pub(crate) fn touched(words: u8, each: Option<(u64, u64)>) -> impl Iterator<Item = Span> {
    let mut left = words;
    std::iter::from_fn(move || {
        let first = u64::from((left != 0).then(|| left.trailing_zeros())?);
        let count = if each.is_none() { (left >> first).trailing_ones() } else { 1 };
        left &= !((((1u16 << count) - 1) << first) as u8);
        let (from, bytes) = each.unwrap_or((0, 8 * u64::from(count)));
        Some((8 * first + from, 8 * first + from + bytes))
    })
}

/// The words of a line as one thread used them.
pub(crate) struct Words {
    /// Bytes of each word that were read, and stored to.
    reads: [Span; 8],
    stores: [Span; 8],
    /// Bit `w`: one place in code touched the words `w - 1` and `w`.
    together: u8,
    /// Of the latest run: ranges, their counts, and of how many words they are.
    joined: Vec<(Span, Counts, u64)>,
}

impl Words {
    /// Of everything that a thread did to a line.
    pub fn new(u: &Use) -> Words {
        let span = |mask: u64, w: usize| {
            let m = (mask >> (w * 8)) as u8;
            // A count without its bytes is an access that began in this word and was cut off: take the word.
            let (lo, hi) = if m == 0 {
                (0, 8)
            } else {
                (u64::from(m.trailing_zeros()), 8 - u64::from(m.leading_zeros()))
            };
            (w as u64 * 8 + lo, w as u64 * 8 + hi)
        };
        let words = u.touches.iter().map(|s| (s >> 32) as u8);
        Words {
            reads: std::array::from_fn(|w| span(u.rmask, w)),
            stores: std::array::from_fn(|w| span(u.wmask, w)),
            together: words.map(|w| w & w << 1).fold(0, |all, w| all | w),
            joined: Vec::new(),
        }
    }

    /// Ranges of the line with their counts in the latest run, and of how many words they are.
    pub fn joined(&self) -> &[(Span, Counts, u64)] {
        &self.joined
    }

    /// Finds them in a run. Neighbouring words make one range if they were used alike and one place in code touched
    /// both: an array then, not two fields.
    pub fn join_all(&mut self, run: &AccessRun) {
        self.joined.clear();
        for w in 0..8 {
            for (range, counts) in self.ranges(run, w).into_iter().flatten() {
                self.join(range, counts);
            }
        }
    }

    /// What a range of [`Words::joined`] stands for: of a word that is read at other bytes than it is stored to, one of
    /// the two.
    pub fn kinds(&self, (lo, hi): Span) -> Kinds {
        let w = (lo / 8) as usize;
        let parted = hi.div_ceil(8) as usize == w + 1 && self.reads[w] != self.stores[w];
        match parted {
            true if self.reads[w] == (lo, hi) => Kinds { reads: true, stores: false },
            true => Kinds { reads: false, stores: true },
            false => Kinds::ALL,
        }
    }

    fn join(&mut self, (lo, hi): Span, c: Counts) {
        let near = |a: u64, b: u64| a.abs_diff(b) * 8 <= a.max(b);
        let together = self.together >> (lo / 8) & 1 == 1;
        match self.joined.last_mut() {
            Some(((from, end), d, n))
                if *end == lo
                    && together
                    && lo % 8 == 0
                    && hi % 8 == 0
                    && *from % 8 == 0
                    && near(d.0 / *n, c.0)
                    && near(d.1 / *n, c.1)
                    && near(d.2 / *n, c.2) =>
            {
                *end = hi;
                *d = (d.0 + c.0, d.1 + c.1, d.2 + c.2);
                *n += 1;
            }
            _ => self.joined.push(((lo, hi), c, 1)),
        }
    }

    /// Byte ranges of a word with their counts: reads and stores apart where they touch different bytes.
    fn ranges(&self, run: &AccessRun, w: usize) -> [Option<(Span, Counts)>; 2] {
        let (r, s, m) = (u64::from(run.reads[w]), u64::from(run.writes[w]), u64::from(run.rmws[w]));
        let (reads, stores) = (self.reads[w], self.stores[w]);
        match (r > 0, s + m > 0) {
            (false, false) => [None, None],
            (true, true) if reads == stores => [Some((reads, (r, s, m))), None],
            (true, true) => [Some((reads, (r, 0, 0))), Some((stores, (0, s, m)))],
            (true, false) => [Some((reads, (r, 0, 0))), None],
            (false, true) => [Some((stores, (0, s, m))), None],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::touched;

    #[test]
    fn a_copy_is_told_at_once_and_anything_else_word_by_word() {
        let told = |words, each| touched(words, each).collect::<Vec<_>>();
        assert_eq!(told(0b1110_0011, None), [(0, 16), (40, 64)]);
        assert_eq!(told(0xff, None), [(0, 64)]);
        assert_eq!(told(0b101, Some((4, 4))), [(4, 8), (20, 24)]);
        assert_eq!(told(0, None), []);
    }
}
