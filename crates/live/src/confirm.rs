//! Who touches which word, told by debug registers, and how often.
//!
//! A word is armed at a random moment and the first touch of one thread disarms it. Hits are never counted while the
//! word stays armed: that would measure the trap (about 25 µs in a virtual machine). Times to the first hit, over many
//! armings, are a censored exponential sample: the rate is hits over the time armed. Only time in which the thread runs
//! counts, so rates are per second of its CPU time, however busy the machine is.

use crate::lines::LineId;
use std::collections::BTreeMap;
use tussle_evidence::TouchKind;

/// A first hit within so many nanoseconds says "at least": interrupting the thread's CPU to load its debug registers
/// takes part of the time. Hits of stores in a tight loop came after 10 to 70 µs on a virtual machine.
pub const ARMING_NS: u64 = 100_000;

/// Words watched at a time: x86 has four debug registers.
pub const WATCHED_MAX: usize = 4;

/// What an armed word waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Waits {
    /// Stores.
    Stores,
    /// Loads and stores: x86 cannot wait for loads alone.
    Any,
}

/// What was watched: a word of a line, for one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Watch {
    /// The line.
    pub line: LineId,
    /// Eight-byte word of it, 0 to 7.
    pub word: u8,
    /// Number of the thread.
    pub thread: u32,
    /// What for.
    pub waits: Waits,
}

/// What came of all armings of one [`Watch`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Times armed.
    pub armed: u64,
    /// Of them: hit before it was disarmed.
    pub hits: u64,
    /// Time that the thread ran while the word was armed, until the hit if there was one, nanoseconds.
    pub exposed_ns: u64,
    /// Hits within [`ARMING_NS`].
    pub at_once: u64,
    /// Address of the word in the thread's process.
    pub address: u64,
    /// Code of the hits, by number, with what it does there if that is known.
    pub codes: BTreeMap<(u32, Option<TouchKind>), u64>,
    /// First arming and last disarming, nanoseconds since the session's start.
    pub from_ns: u64,
    /// See `from_ns`.
    pub to_ns: u64,
}

/// Events per second with what is sure about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Most likely value; with `at_least`, a lower bound.
    pub per_s: f64,
    /// 95% interval.
    pub low_per_s: f64,
    /// 95% interval; `None` where arming dominates.
    pub high_per_s: Option<f64>,
    /// Hits came as fast as words can be armed.
    pub at_least: bool,
}

impl Tally {
    /// One arming from `from_ns` to `to_ns` in which the thread ran for `ran_ns`, up to the hit if there was one.
    pub fn add(&mut self, (from_ns, to_ns): (u64, u64), ran_ns: u64, hit: bool) {
        if self.armed == 0 {
            self.from_ns = from_ns;
        }
        self.armed += 1;
        self.to_ns = self.to_ns.max(to_ns);
        self.hits += u64::from(hit);
        self.at_once += u64::from(hit && ran_ns <= ARMING_NS);
        self.exposed_ns += ran_ns;
    }

    /// The rate; `None` when it was never armed for any time.
    pub fn rate(&self) -> Option<Rate> {
        let seconds = self.exposed_ns as f64 / 1e9;
        if self.exposed_ns == 0 {
            return None;
        }
        let n = self.hits as f64;
        let at_least = self.hits > 0 && 2 * self.at_once > self.hits;
        let (low, high) = poisson_interval(n);
        Some(Rate {
            per_s: n / seconds,
            low_per_s: low / seconds,
            high_per_s: (!at_least).then_some(high / seconds),
            at_least,
        })
    }
}

/// 95% interval of a Poisson mean of which `n` events were seen: Wilson and Hilferty's cube-root approximation of the
/// exact (Garwood) limits, right to 1% (Biometrics 20 (1964), 495, table of Haight).
fn poisson_interval(n: f64) -> (f64, f64) {
    const Z: f64 = 1.959_964;
    let cube = |m: f64, z: f64| m * (1.0 - 1.0 / (9.0 * m) + z / (3.0 * m.sqrt())).powi(3);
    let low = if n > 0.0 { cube(n, -Z).max(0.0) } else { 0.0 };
    (low, cube(n + 1.0, Z))
}

/// All that was watched.
#[derive(Clone, Debug, Default)]
pub struct Confirmed {
    /// By what was watched.
    pub tallies: BTreeMap<Watch, Tally>,
}

impl Confirmed {
    /// Whether any thread was caught touching this line.
    pub fn hit(&self, line: LineId) -> bool {
        self.of(line).any(|(_, t)| t.hits > 0)
    }

    /// Whether this line was watched at all.
    pub fn watched(&self, line: LineId) -> bool {
        self.of(line).next().is_some()
    }

    /// Watches of one line.
    pub fn of(&self, line: LineId) -> impl Iterator<Item = (&Watch, &Tally)> {
        self.tallies.iter().filter(move |(w, _)| w.line == line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_tables() {
        // Exact limits: Garwood (1936).
        for (n, low, high) in
            [(0.0, 0.0, 3.689), (1.0, 0.0253, 5.572), (10.0, 4.795, 18.39), (100.0, 81.36, 121.63)]
        {
            let (l, h) = poisson_interval(n);
            assert!((l - low).abs() < 0.03 * low + 0.02, "{n}: {l} for {low}");
            assert!((h - high).abs() < 0.03 * high, "{n}: {h} for {high}");
        }
    }

    /// Exponential times to the first hit, cut off, give back their rate.
    #[test]
    fn the_rate_comes_back_from_first_hits() {
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        for true_per_s in [20.0, 500.0, 4_000.0] {
            let mut t = Tally::default();
            for n in 0..2_000 {
                let ns = (-uniform().ln() / true_per_s * 1e9) as u64;
                t.add((n, n + 2_000_000), ns.min(2_000_000), ns < 2_000_000);
            }
            let rate = t.rate().unwrap();
            assert!((0.8..1.25).contains(&(rate.per_s / true_per_s)), "{true_per_s}: {rate:?}");
            assert!(!rate.at_least && rate.low_per_s < rate.per_s);
        }
    }

    #[test]
    fn hits_at_once_are_a_lower_bound_and_no_hit_is_an_upper_one() {
        let mut t = Tally::default();
        (0..50).for_each(|n| t.add((n, n), 300, true));
        let rate = t.rate().unwrap();
        assert!(rate.at_least && rate.high_per_s.is_none());
        assert!((rate.per_s - 1e9 / 300.0).abs() < 1.0);
        let mut t = Tally::default();
        (0..50).for_each(|n| t.add((n, n), 1_000_000, false));
        let rate = t.rate().unwrap();
        assert_eq!((rate.per_s, rate.at_least), (0.0, false));
        assert!(rate.high_per_s.unwrap() < 80.0);
        assert_eq!(Tally::default().rate(), None);
    }
}
