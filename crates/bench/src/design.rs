//! The order of runs.

use serde::{Deserialize, Serialize};
use tussle_stats::Rng;

/// How runs of the arms are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Every round runs each arm once, in an order drawn anew for each round. The only order under which the sign of
    /// each difference is a fair coin when the arms are equal.
    #[default]
    RandomWithinPairs,
    /// All runs of the first arm, then all of the next: drift of the machine looks like a difference. For comparison.
    Blocked,
    /// Not known, or measured in separate sessions.
    Unknown,
}

/// One planned run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Round, from 0; warm-up rounds count separately.
    pub pair: usize,
    /// Index of the arm.
    pub arm: usize,
    /// Whether its result is thrown away.
    pub warmup: bool,
}

/// The runs of one round. The order depends on the seed and the round only, so that a plan can go on for as long as it
/// must and be repeated exactly.
pub fn round(seed: u64, pair: usize, arms: usize, warmup: bool) -> Vec<Slot> {
    let salt = if warmup { 0x5741_524d } else { 0 };
    let mut rng = Rng::new(seed ^ salt ^ (pair as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut order: Vec<usize> = (0..arms).collect();
    rng.shuffle(&mut order);
    order.into_iter().map(|arm| Slot { pair, arm, warmup }).collect()
}

/// All runs of a plan with a fixed number of rounds.
pub fn plan(order: Order, seed: u64, arms: usize, warmup: usize, pairs: usize) -> Vec<Slot> {
    let rounds = |count: usize, warm: bool| -> Vec<Slot> {
        match order {
            Order::Blocked => (0..arms)
                .flat_map(|arm| (0..count).map(move |pair| Slot { pair, arm, warmup: warm }))
                .collect(),
            _ => (0..count).flat_map(|pair| round(seed, pair, arms, warm)).collect(),
        }
    };
    let mut all = rounds(warmup, true);
    all.extend(rounds(pairs, false));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_runs_every_arm_once_and_both_orders_occur() {
        let slots = plan(Order::RandomWithinPairs, 1, 2, 1, 400);
        assert_eq!(slots.len(), 802);
        assert!(slots[..2].iter().all(|s| s.warmup));
        let measured = &slots[2..];
        let first: usize = measured.chunks(2).filter(|c| c[0].arm == 0).count();
        assert!(measured.chunks(2).all(|c| c[0].arm != c[1].arm && c[0].pair == c[1].pair));
        assert!((160..240).contains(&first), "{first}");
    }

    #[test]
    fn blocked_runs_one_arm_after_the_other() {
        let arms: Vec<usize> = plan(Order::Blocked, 1, 2, 0, 3).iter().map(|s| s.arm).collect();
        assert_eq!(arms, [0, 0, 0, 1, 1, 1]);
    }
}
