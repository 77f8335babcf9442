//! Whether threads use a line at the same time or in long turns: a line that moves every other second is no fight,
//! whatever the samples of all the time together look like.
//!
//! Time is cut into slots, and each keeps which threads were seen in it. Threads that do not care for each other meet
//! in as many slots as chance gives (n₁·n₂/N for two threads in n₁ and n₂ of N slots); threads that take turns in far
//! fewer.

/// Slots of 2^26 ns, 67 ms: several times what a scheduler lets a thread run before another one's turn on its CPU.
const SLOT_BITS: u32 = 26;
/// Slots kept; then two become one.
const SLOTS_MAX: usize = 1024;
/// Threads told apart on one line; with more nothing is said.
const THREADS_MAX: usize = 16;
/// So many meetings chance must give before fewer mean something.
const MEETINGS_MIN: f64 = 7.0;
/// Turns meet less than once for so many meetings by chance.
const FEWER: f64 = 5.0;

/// The slots of one line.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    threads: Vec<u32>,
    /// First slot, in units of the present length.
    base: u64,
    /// Doublings of a slot's length.
    doubled: u32,
    /// Bit per thread.
    slots: Vec<u16>,
    crowded: bool,
}

impl Turns {
    /// A thread was seen at this time.
    pub fn add(&mut self, thread: u32, time_ns: u64) {
        let Some(bit) = self.bit(thread) else { return };
        if self.slots.is_empty() {
            // Other threads' samples of a little earlier may come later.
            self.base = (time_ns >> SLOT_BITS).saturating_sub(64);
        }
        loop {
            let Some(at) = (time_ns >> (SLOT_BITS + self.doubled)).checked_sub(self.base) else { return };
            let at = at as usize;
            if at < SLOTS_MAX {
                if at >= self.slots.len() {
                    self.slots.resize(at + 1, 0);
                }
                self.slots[at] |= 1 << bit;
                return;
            }
            self.slots = halved(&self.slots, self.base);
            (self.base, self.doubled) = (self.base / 2, self.doubled + 1);
        }
    }

    fn bit(&mut self, thread: u32) -> Option<usize> {
        let known = self.threads.iter().position(|t| *t == thread);
        if known.is_none() && self.threads.len() < THREADS_MAX {
            self.threads.push(thread);
            return Some(self.threads.len() - 1);
        }
        self.crowded |= known.is_none();
        known
    }

    /// Its threads meet far less often than chance would have it, at one length of a slot at least.
    pub fn are_long(&self) -> bool {
        if self.crowded || self.threads.len() < 2 {
            return false;
        }
        let (mut slots, mut base) = (self.slots.clone(), self.base);
        while slots.len() >= 4 {
            let (met, by_chance) = meetings(&slots, self.threads.len());
            if by_chance >= MEETINGS_MIN && met * FEWER < by_chance {
                return true;
            }
            slots = halved(&slots, base);
            base /= 2;
        }
        false
    }
}

/// Two slots become one, as their numbers do.
fn halved(slots: &[u16], base: u64) -> Vec<u16> {
    let lead = (base % 2) as usize;
    let mut out = vec![0; (slots.len() + lead).div_ceil(2)];
    slots.iter().enumerate().for_each(|(i, mask)| out[(i + lead) / 2] |= mask);
    out
}

/// Pairs of so many threads seen in one slot, and how many there would be by chance, between the first and the last
/// slot in which somebody was seen.
fn meetings(slots: &[u16], threads: usize) -> (f64, f64) {
    let used = |mask: &u16| *mask != 0;
    let (Some(first), Some(last)) = (slots.iter().position(used), slots.iter().rposition(used)) else {
        return (0.0, 0.0);
    };
    let slots = &slots[first..=last];
    let met: u32 = slots.iter().map(|m| m.count_ones() * m.count_ones().saturating_sub(1) / 2).sum();
    let seen: Vec<f64> =
        (0..threads).map(|t| slots.iter().filter(|m| **m & 1 << t != 0).count() as f64).collect();
    let (sum, squares) = seen.iter().fold((0.0, 0.0), |(s, q), n| (s + n, q + n * n));
    (f64::from(met), (sum * sum - squares) / 2.0 / slots.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn turns(of: impl Fn(u64) -> Option<u32>, ms: u64, step: usize) -> Turns {
        let mut out = Turns::default();
        for t in (0..ms).step_by(step) {
            if let Some(thread) = of(t) {
                out.add(thread, (5_000 + t) * MS);
            }
        }
        out
    }

    #[test]
    fn turns_of_seconds_are_no_fight() {
        assert!(turns(|t| Some(u32::from(t / 2000 % 2 == 0)), 10_000, 5).are_long());
        assert!(turns(|t| Some((t / 1000 % 3) as u32), 30_000, 20).are_long());
        // More than there are slots, and a line with few samples.
        assert!(turns(|t| Some((t / 3000 % 2) as u32), 120_000, 10).are_long());
        assert!(turns(|t| Some((t / 2000 % 2) as u32), 40_000, 250).are_long());
    }

    #[test]
    fn threads_that_meet_fight() {
        assert!(!turns(|t| Some((t / 5 % 2) as u32), 10_000, 5).are_long(), "by lot");
        assert!(!turns(|t| Some((t / 30 % 2) as u32), 10_000, 5).are_long(), "turns of a scheduler");
        let rare = |t: u64| Some(u32::from(t % 97 == 0));
        assert!(!turns(rare, 10_000, 1).are_long(), "one of them seldom");
        assert!(!turns(|t| Some((t / 5 % 20) as u32), 10_000, 5).are_long(), "too many to tell");
        assert!(!turns(|t| Some(u32::from(t > 5000)), 10_000, 500).are_long(), "too few samples");
        assert!(!turns(|_| Some(1), 10_000, 5).are_long());
        assert!(!Turns::default().are_long());
    }

    /// Rings are read one after the other.
    #[test]
    fn the_order_in_which_samples_come_does_not_matter() {
        let mut late = Turns::default();
        for batch in 0..100u64 {
            for thread in [0, 1] {
                (0..20).for_each(|i| late.add(thread, (5_000 + batch * 100 + i * 5) * MS));
            }
        }
        assert!(!late.are_long());
    }
}
