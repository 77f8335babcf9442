//! Means, intervals, tests, sequential stopping. Pure: no clock, no I/O, no hidden randomness.
//!
//! Everything random takes a [`Rng`] with a seed, so that every figure can be computed again. Formulas and sources
//! stand at each function. Functions return `None` where the question has no answer (too few values, a value that
//! is not finite, no spread): unknown is not zero.

pub mod bootstrap;
pub mod change;
pub mod dist;
pub mod eprocess;
pub mod multiple;
pub mod paired;
pub mod permutation;
pub mod power;
pub mod rank;
pub mod rng;
pub mod series;
pub mod special;
pub mod summary;
pub mod welch;

pub use paired::{LogRatio, log_ratios, paired_t};
pub use rng::Rng;
pub use summary::{mean, median, quantile, std_dev};

/// An interval with the probability that its rule covers the truth.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `x` lies inside, ends included.
    pub fn contains(&self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    /// Whether the whole interval lies strictly within `(-limit, limit)`.
    pub fn within(&self, limit: f64) -> bool {
        -limit < self.low && self.high < limit
    }
}
