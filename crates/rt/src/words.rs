//! Which bytes of a line a run's counts are about.

use crate::lines::{AccessRun, Use};
use crate::wire::slot;

/// First byte of a range in its line, or word, and the byte after its last.
pub(crate) type Span = (u64, u64);
/// Reads, writes, read-modify-writes.
pub(crate) type Counts = (u64, u64, u64);

/// Which share of the accesses to its words a range stands for; the others are other ranges'.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kinds {
    pub reads: f64,
    /// Plain ones.
    pub writes: f64,
    pub rmws: f64,
}

impl Kinds {
    /// Nothing is left out.
    pub const ALL: Kinds = Kinds { reads: 1.0, writes: 1.0, rmws: 1.0 };
    /// No reads.
    pub const STORES: Kinds = Kinds { reads: 0.0, ..Kinds::ALL };
    /// No stores.
    pub fn only_reads(self) -> Kinds {
        Kinds { reads: self.reads, writes: 0.0, rmws: 0.0 }
    }
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

/// Two fields meet in a word where at most one of so many accesses goes across.
const ACROSS_MAX: u64 = 20;

/// What one kind of access is to the bytes of a word.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The word's bytes that it was about.
    bytes: u8,
    /// Bit `b`: one began or ended before byte `b`.
    ends: u8,
    /// Bit `b`: one place in code touches bytes on both sides of it: those are an array's.
    array: u8,
    /// Samples of accesses from each byte on, and of all.
    from: [u64; 8],
    all: u64,
    /// Samples of accesses to the bytes on both sides of each byte's beginning.
    across: [u64; 8],
}

impl Seen {
    fn add(&mut self, bytes: u8, samples: u64) {
        let (first, end) = (bytes.trailing_zeros(), 8 - bytes.leading_zeros());
        self.bytes |= bytes;
        self.ends |= bit(first) | bit(end);
        self.from[first as usize] += samples;
        self.all += samples;
        (first + 1..end).for_each(|b| self.across[b as usize] += samples);
    }

    /// Ranges of those bytes with the samples of each. Between two of them there is a gap (a thread that leaves out the
    /// bytes between two fields of its own does so because they are another one's), or accesses end and others begin.
    fn parts(&self, mask: u8) -> impl Iterator<Item = ((u32, u32), u64)> {
        let (seen, mut at) = (*self, 0_u32);
        let cut = move |b: u32| {
            (seen.ends & !seen.array) & bit(b) != 0 && seen.across[b as usize] * ACROSS_MAX <= seen.all
        };
        std::iter::from_fn(move || {
            at += (mask.checked_shr(at).filter(|left| *left != 0)?).trailing_zeros();
            let (first, gap) = (at, at + (mask >> at).trailing_ones());
            at = (first + 1..gap).find(|b| cut(*b)).unwrap_or(gap);
            let samples = seen.from[first as usize..at as usize].iter().sum();
            Some(((first, at), samples))
        })
    }
}

/// The bit of a byte of a word; none behind its last one.
fn bit(b: u32) -> u8 {
    1_u8.checked_shl(b).unwrap_or(0)
}

/// A range's part of the accesses of one kind to its word: from one sample up to another one, of all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Part {
    from: u64,
    to: u64,
    all: u64,
}

impl Part {
    fn of(self, count: u64) -> u64 {
        let up_to = |n: u64| (u128::from(count) * u128::from(n) / u128::from(self.all.max(1))) as u64;
        up_to(self.to) - up_to(self.from)
    }

    fn share(self) -> f64 {
        (self.to - self.from) as f64 / self.all.max(1) as f64
    }
}

/// Bytes of a line that a thread used as one, and its part of the reads, writes and atomics of their word.
type Range = (Span, [Part; 3]);
/// Places in there.
const READS: usize = 0;
const WRITES: usize = 1;
const RMWS: usize = 2;

/// The words of a line as one thread used them.
pub(crate) struct Words {
    /// In order of their words.
    ranges: Vec<Range>,
    /// Bit `w`: one place in code touched the words `w - 1` and `w`.
    together: u8,
    /// Of the latest run: ranges, their counts, and of how many words they are.
    joined: Vec<(Span, Counts, u64)>,
}

impl Words {
    /// Of everything that a thread did to a line.
    pub fn new(u: &Use) -> Words {
        let words = |t: &u64| (t >> 32) as u8;
        let together = u.touches.iter().map(words).fold(0, |all, w| all | w & w << 1);
        // Who uses whole words uses nothing else of them.
        let is_part = |t: &&u64| bytes((**t & slot::KEY) >> 24) != 0xff;
        let in_parts = u.touches.iter().filter(is_part).map(words).fold(0, |all, w| all | w);
        let mut words = Words { ranges: Vec::with_capacity(8), together, joined: Vec::new() };
        for w in 0..8 {
            let seen = if in_parts >> w & 1 == 1 { seen(&u.touches, w) } else { Default::default() };
            words.add_word(w, ((u.rmask >> (w * 8)) as u8, (u.wmask >> (w * 8)) as u8), &seen);
        }
        words
    }

    /// Ranges of the line with their counts in the latest run, and of how many words they are.
    pub fn joined(&self) -> &[(Span, Counts, u64)] {
        &self.joined
    }

    /// Finds them in a run. Neighbouring words make one range if they were used alike and one place in code touched
    /// both: an array then, not two fields.
    pub fn join_all(&mut self, run: &AccessRun) {
        self.joined.clear();
        for i in 0..self.ranges.len() {
            let (span, parts) = self.ranges[i];
            let w = (span.0 / 8) as usize;
            let counts = |of: &[u32; 8], kind: usize| parts[kind].of(u64::from(of[w]));
            let counts = (counts(&run.reads, READS), counts(&run.writes, WRITES), counts(&run.rmws, RMWS));
            if counts.0 + counts.1 + counts.2 > 0 {
                self.join(span, counts);
            }
        }
    }

    /// What a range of [`Words::joined`] stands for of its word, if it is of one: of a word that is read at other bytes
    /// than it is stored to, one of the two; of one that is used in several parts, one of these.
    pub fn kinds(&self, (lo, hi): Span) -> Kinds {
        self.kinds_of(hi.div_ceil(8) - lo / 8 == 1, |span| span == (lo, hi))
    }

    /// What the ranges that a byte of the line is in stand for of its word.
    pub fn kinds_at(&self, byte: u64) -> Kinds {
        self.kinds_of(true, |(lo, hi)| (lo..hi).contains(&byte))
    }

    fn kinds_of(&self, one_word: bool, is: impl Fn(Span) -> bool) -> Kinds {
        let own = || self.ranges.iter().filter(|r| is(r.0));
        let share = |kind: usize| own().map(|(_, parts)| parts[kind].share()).sum();
        match one_word {
            true => Kinds { reads: share(READS), writes: share(WRITES), rmws: share(RMWS) },
            false => Kinds::ALL,
        }
    }

    /// The ranges of a word, of which some bytes were read and some stored to. If it is not known how often each was
    /// used, then all alike.
    fn add_word(&mut self, word: u64, (read, stored): (u8, u8), seen: &[Seen; 3]) {
        if read | stored == 0 {
            let all = Part { from: 0, to: 1, all: 1 };
            return self.ranges.push(((word * 8, word * 8 + 8), [all; 3]));
        }
        // A count without its bytes is an access that began in this word and was cut off: the word.
        let known = |mask: u8| if mask == 0 { 0xff } else { mask };
        // Without what is stored to in the other way alone, as far as is known.
        let but = |other: usize, own: usize| match seen[own].all {
            0 => known(stored),
            _ => known(stored & !(seen[other].bytes & !seen[own].bytes)),
        };
        let masks = [known(read), but(RMWS, WRITES), but(WRITES, RMWS)];
        let first = self.ranges.len();
        for (kind, (mask, seen)) in masks.into_iter().zip(seen).enumerate() {
            let parts = || seen.parts(mask).map(|(span, n)| (span, if seen.all == 0 { 1 } else { n }));
            let (mut from, all) = (0, parts().map(|p| p.1).sum());
            for ((lo, hi), n) in parts() {
                let span = (word * 8 + u64::from(lo), word * 8 + u64::from(hi));
                let at = self.ranges[first..].iter().position(|r| r.0 == span).unwrap_or_else(|| {
                    self.ranges.push((span, Default::default()));
                    self.ranges.len() - 1 - first
                });
                self.ranges[first + at].1[kind] = Part { from, to: from + n, all };
                from += n;
            }
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
}

/// What was seen of the reads, writes and atomics of a line's word: the touches, see [`slot`].
fn seen(touches: &[u64], word: u64) -> [Seen; 3] {
    let mut seen = [Seen::default(); 3];
    let of_word = || touches.iter().filter(|t| (*t >> 32 >> word) & 1 == 1);
    let code = |t: u64| t & 0xff_ffff;
    for &t in of_word() {
        let (key, samples) = ((t & slot::KEY) >> 24, t >> 40);
        let Some(of_kind) = seen.get_mut((key >> 6) as usize) else { continue };
        let own = bytes(key);
        of_kind.add(own, samples.div_ceil(u64::from(((t >> 32) as u8).count_ones())).max(1));
        // Where the same place in code touches others, too, up to there.
        let same =
            of_word().filter(|o| code(**o) == code(t)).fold(0, |all, o| all | bytes((o & slot::KEY) >> 24));
        let (first, end) = (same.trailing_zeros(), 8 - same.leading_zeros());
        of_kind.array |= (first + 1..end).filter(|b| own >> b == 0).map(bit).fold(0, |all, b| all | b);
    }
    seen
}

/// The bytes of a word that a touch is about; of a copy the whole word.
fn bytes(key: u64) -> u8 {
    let (byte, size) = (key & 7, (key >> 3 & 7) as u32);
    match size {
        0..3 => (((1_u16 << (1 << size)) - 1) << byte) as u8,
        _ => 0xff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_told_at_once_and_anything_else_word_by_word() {
        let told = |words, each| touched(words, each).collect::<Vec<_>>();
        assert_eq!(told(0b1110_0011, None), [(0, 16), (40, 64)]);
        assert_eq!(told(0xff, None), [(0, 64)]);
        assert_eq!(told(0b101, Some((4, 4))), [(4, 8), (20, 24)]);
        assert_eq!(told(0, None), []);
    }

    /// Ranges of the first word of a line, and which share of its stores each has.
    fn stored(wmask: u64, touches: &[u64]) -> Vec<(Span, f64)> {
        let words = Words::new(&Use { wmask, touches: touches.to_vec(), ..Use::none() });
        let parts =
            words.ranges.iter().filter(|r| r.0.0 < 8).map(|(span, parts)| (*span, parts[WRITES].share()));
        parts.filter(|part| part.1 > 0.0).collect()
    }

    /// Of the first word: samples of stores of some size (its code) to a byte by a place in code.
    fn touch(code: u32, byte: u32, size: u32, samples: u64) -> u64 {
        slot::key(code, byte, size, crate::wire::WRITE) | 1 << 32 | samples << 40
    }

    #[test]
    fn bytes_with_gaps_between_them_are_ranges_of_their_own() {
        let third = 1.0 / 3.0;
        assert_eq!(stored(0b0101_0001, &[]), [((0, 1), third), ((4, 5), third), ((6, 7), third)]);
        assert_eq!(stored(0xf3, &[]), [((0, 2), 0.5), ((4, 8), 0.5)]);
        assert_eq!(stored(0, &[]), [((0, 8), 1.0)], "no bytes were told");
        let words = Words::new(&Use { rmask: 0xff << 8, ..Use::none() });
        assert_eq!([(8, 16), (8, 12)].map(|of| words.kinds(of).reads), [1.0, 0.0]);
    }

    #[test]
    fn fields_meet_where_accesses_end_and_begin() {
        let halves = [touch(1, 0, 2, 30), touch(2, 4, 2, 10)];
        assert_eq!(stored(0xff, &halves), [((0, 4), 0.75), ((4, 8), 0.25)]);
        let whole = [touch(1, 0, 2, 30), touch(2, 4, 2, 10), touch(3, 0, 3, 10)];
        assert_eq!(stored(0xff, &whole), [((0, 8), 1.0)], "now and then as one");
        let once = [touch(1, 0, 2, 30), touch(2, 4, 2, 10), touch(3, 0, 3, 1)];
        assert_eq!(stored(0xff, &once).len(), 2, "as one at the beginning");
        let array = [touch(1, 0, 2, 20), touch(1, 4, 2, 20)];
        assert_eq!(stored(0xff, &array), [((0, 8), 1.0)], "one place in code walks over both");
    }

    #[test]
    fn what_is_taken_by_atomics_is_told_from_what_is_stored_beside_it() {
        let taken = slot::key(1, 0, 2, crate::wire::RMW) | 1 << 32 | 20 << 40;
        let words = Words::new(&Use { wmask: 0xff, touches: vec![taken, touch(2, 4, 2, 10)], ..Use::none() });
        let of = |k: Kinds| (k.writes, k.rmws);
        assert_eq!([words.kinds((0, 4)), words.kinds_at(4)].map(of), [(0.0, 1.0), (1.0, 0.0)]);
    }

    #[test]
    fn parts_of_a_count_are_all_of_it() {
        let parts = [(0, 3), (3, 4), (4, 7)].map(|(from, to)| Part { from, to, all: 7 }.of(100));
        assert_eq!(parts, [42, 15, 43]);
    }
}
