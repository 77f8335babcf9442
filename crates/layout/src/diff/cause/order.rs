//! Which members changed their order: the least set of them that explains the new one.

/// A member of both builds: its position in the old order, and whether it lies where it lay.
pub(super) type OldPosition = (usize, bool);

/// Whether each member, in the new order, kept its place among the others: it is part of a longest sequence that both
/// orders have. Of several such sequences the one in which most members lie where they lay; then, of two neighbours
/// that changed places, the one that stood in front has moved.
pub(super) fn kept(members: &[OldPosition]) -> Vec<bool> {
    if members.windows(2).all(|w| w[0].0 < w[1].0) {
        return vec![true; members.len()];
    }
    let mut best = Best::new(members.iter().map(|m| m.0 + 1).max().unwrap_or(0));
    let mut before = Vec::with_capacity(members.len());
    for (i, &(old, stayed)) in members.iter().enumerate() {
        let (weight, _, last) = best.below(old);
        before.push(last);
        best.put(old, (weight + (1 << 32) + u64::from(stayed), old, Some(i)));
    }
    let mut kept = vec![false; members.len()];
    let mut at = best.below(best.0.len() - 1).2;
    while let Some(i) = at {
        kept[i] = true;
        at = before[i];
    }
    kept
}

/// Weight of a sequence, old position and index of its last member.
type Sequence = (u64, usize, Option<usize>);

/// The heaviest sequence that ends below a position (P. M. Fenwick, "A new data structure for cumulative frequency
/// tables", 1994, with maxima for sums).
struct Best(Vec<Sequence>);

impl Best {
    fn new(positions: usize) -> Best {
        Best(vec![(0, 0, None); positions + 1])
    }

    fn below(&self, mut position: usize) -> Sequence {
        let mut best = (0, 0, None);
        while position > 0 {
            best = best.max(self.0[position]);
            position &= position - 1;
        }
        best
    }

    fn put(&mut self, position: usize, sequence: Sequence) {
        let mut at = position + 1;
        while at < self.0.len() {
            self.0[at] = self.0[at].max(sequence);
            at += at & at.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::kept;

    #[test]
    fn the_fewest_members_moved() {
        let places = |list: &[usize]| list.iter().map(|&at| (at, false)).collect::<Vec<_>>();
        let moved = |list: &[(usize, bool)]| {
            let kept = kept(list);
            list.iter().zip(kept).filter(|(_, k)| !k).map(|(m, _)| m.0).collect::<Vec<_>>()
        };
        assert!(moved(&places(&[0, 1, 2, 3])).is_empty());
        assert_eq!(moved(&places(&[0, 3, 1, 2])), [3]);
        assert_eq!(moved(&places(&[1, 2, 3, 0])), [0]);
        assert_eq!(moved(&places(&[0, 2, 1, 3])), [1]);
        // of three that could stay the one that lies where it lay
        assert_eq!(moved(&[(2, false), (1, true), (0, false), (3, true)]), [2, 0]);
        assert!(moved(&[]).is_empty());
    }
}
