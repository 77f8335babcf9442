//! Which bytes of a line a run's counts are about.

use crate::lines::{AccessRun, Use};

/// First byte of a range in its line, or word, and the byte after its last.
pub(crate) type Span = (u64, u64);
/// Reads, writes, read-modify-writes.
pub(crate) type Counts = (u64, u64, u64);

/// Which share of the accesses to its words a range stands for; the others are other ranges'.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kinds {
    pub reads: f64,
    /// Writes and read-modify-writes.
    pub stores: f64,
}

impl Kinds {
    /// Nothing is left out.
    pub const ALL: Kinds = Kinds { reads: 1.0, stores: 1.0 };
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

/// Bytes of a word that follow each other, each such range by itself: a thread that leaves out those between two fields
/// of its own does so because they are another one's. How often each was used was not counted: all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    mask: u8,
    word: u8,
}

impl Parts {
    /// Of a line's bytes. A count without its bytes is an access that began in this word and was cut off: the word.
    fn of(line: u64, word: usize) -> Parts {
        let mask = (line >> (word * 8)) as u8;
        Parts { mask: if mask == 0 { 0xff } else { mask }, word: word as u8 }
    }

    fn each(self) -> impl Iterator<Item = Span> {
        let (mut left, mut at) = (self.mask, u64::from(self.word) * 8);
        std::iter::from_fn(move || {
            let gap = (left != 0).then(|| left.trailing_zeros())?;
            left = left.checked_shr(gap).unwrap_or(0);
            let bytes = left.trailing_ones();
            left = left.checked_shr(bytes).unwrap_or(0);
            let from = at + u64::from(gap);
            at = from + u64::from(bytes);
            Some((from, at))
        })
    }

    fn count(self) -> u64 {
        self.each().count() as u64
    }

    /// The range's part of a count, 0 if it is none of these.
    fn part(self, of: Span, count: u64) -> u64 {
        let n = self.count();
        let share = |k: u64| count * (k + 1) / n - count * k / n;
        self.each().zip(0..).find(|(span, _)| *span == of).map_or(0, |(_, k)| share(k))
    }

    fn share(self, of: Span) -> f64 {
        if self.each().any(|span| span == of) { 1.0 / self.count() as f64 } else { 0.0 }
    }
}

/// The words of a line as one thread used them.
pub(crate) struct Words {
    /// Bytes of each word that were read, and stored to.
    reads: [Parts; 8],
    stores: [Parts; 8],
    /// Bit `w`: one place in code touched the words `w - 1` and `w`.
    together: u8,
    /// Of the latest run: ranges, their counts, and of how many words they are.
    joined: Vec<(Span, Counts, u64)>,
}

impl Words {
    /// Of everything that a thread did to a line.
    pub fn new(u: &Use) -> Words {
        let words = u.touches.iter().map(|s| (s >> 32) as u8);
        Words {
            reads: std::array::from_fn(|w| Parts::of(u.rmask, w)),
            stores: std::array::from_fn(|w| Parts::of(u.wmask, w)),
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
            for (range, counts) in self.ranges(run, w) {
                self.join(range, counts);
            }
        }
    }

    /// What a range of [`Words::joined`] stands for: of a word that is read at other bytes than it is stored to, one of
    /// the two; of one that is used in several parts, one of these.
    pub fn kinds(&self, (lo, hi): Span) -> Kinds {
        let w = (lo / 8) as usize;
        if hi.div_ceil(8) as usize > w + 1 || self.reads[w] == self.stores[w] && self.reads[w].count() == 1 {
            return Kinds::ALL;
        }
        Kinds { reads: self.reads[w].share((lo, hi)), stores: self.stores[w].share((lo, hi)) }
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
    fn ranges(&self, run: &AccessRun, w: usize) -> impl Iterator<Item = (Span, Counts)> + use<> {
        let (r, s, m) = (u64::from(run.reads[w]), u64::from(run.writes[w]), u64::from(run.rmws[w]));
        let (reads, stores) = (self.reads[w], self.stores[w]);
        let read = reads.each().filter(move |_| r > 0);
        let stored =
            stores.each().filter(move |span| s + m > 0 && (r == 0 || !reads.each().any(|o| o == *span)));
        let counts = move |span| (reads.part(span, r), stores.part(span, s), stores.part(span, m));
        read.chain(stored).map(move |span| (span, counts(span))).filter(|(_, c)| c.0 + c.1 + c.2 > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Parts, touched};

    #[test]
    fn a_copy_is_told_at_once_and_anything_else_word_by_word() {
        let told = |words, each| touched(words, each).collect::<Vec<_>>();
        assert_eq!(told(0b1110_0011, None), [(0, 16), (40, 64)]);
        assert_eq!(told(0xff, None), [(0, 64)]);
        assert_eq!(told(0b101, Some((4, 4))), [(4, 8), (20, 24)]);
        assert_eq!(told(0, None), []);
    }

    #[test]
    fn bytes_with_gaps_between_them_are_ranges_of_their_own() {
        let each = |line, word| Parts::of(line, word).each().collect::<Vec<_>>();
        assert_eq!(each(0b0101_0101, 0), [(0, 1), (2, 3), (4, 5), (6, 7)]);
        assert_eq!(each(0xf3 << 8, 1), [(8, 10), (12, 16)]);
        assert_eq!(each(0xff, 0), [(0, 8)]);
        assert_eq!(each(0, 7), [(56, 64)], "no bytes were told");
        let parts = Parts::of(0b0101_0001, 0);
        assert_eq!([(0, 1), (4, 5), (6, 7), (1, 2)].map(|of| parts.part(of, 100)), [33, 33, 34, 0]);
        assert_eq!([(0, 1), (0, 8)].map(|of| parts.share(of)), [1.0 / 3.0, 0.0]);
    }
}
