//! Windows of accesses under no lock become rows of `operations`: their period where they have one, else the whole
//! window.

use crate::operations::Reading;
use crate::operations::Where;
use crate::raw::TracedLock;
use std::collections::{HashMap, HashSet};
use tussle_evidence::{Access, Operation, OperationKind};

/// What a thread did again and again.
#[derive(Default)]
struct Stretch {
    /// Visits of one repetition, in order.
    visits: Vec<Where>,
    /// Mean accesses before each of them.
    gaps: Vec<u64>,
    /// Repetitions in the window; a window without a period is one.
    times: u64,
}

/// Windows of one shape.
struct Alike {
    gaps: Vec<u64>,
    /// Windows, and visits in them.
    windows: u64,
    visits: u64,
    vt0: u64,
    vt1: u64,
}

impl Reading<'_, '_> {
    /// Rows of one thread's windows. They stand for all accesses under no lock to the places that they visit, each in
    /// proportion to its visits.
    pub(crate) fn windows(&mut self, l: &TracedLock) -> Vec<Operation> {
        let mut index: HashMap<Vec<Where>, usize> = HashMap::new();
        let mut all: Vec<Alike> = Vec::new();
        let mut places: HashSet<(u32, u64)> = HashSet::new();
        for (s, visits) in l.sections.iter().rev().filter(|s| s.0.cut == 0) {
            let (wheres, gaps, _) = self.walk(s, visits);
            if wheres.is_empty() {
                continue;
            }
            places.extend(wheres.iter().map(|w| (w.0, w.1 / 8)));
            let one = stretch(wheres, &gaps);
            let next = all.len();
            let i = *index.entry(one.visits).or_insert(next);
            if i == next {
                let gaps = vec![0; one.gaps.len()];
                all.push(Alike { gaps, windows: 0, visits: 0, vt0: u64::MAX, vt1: 0 });
            }
            let a = &mut all[i];
            a.windows += 1;
            a.visits += one.times * one.gaps.len() as u64;
            a.gaps.iter_mut().zip(&one.gaps).for_each(|(sum, g)| *sum = sum.saturating_add(*g));
            (a.vt0, a.vt1) = (a.vt0.min(s.vt0), a.vt1.max(s.vt1));
        }
        let accesses = self.under_no_lock(&places);
        let visits: u64 = all.iter().map(|a| a.visits).sum();
        let mut shapes: Vec<(Vec<Where>, usize)> = index.into_iter().collect();
        shapes.sort_unstable_by_key(|s| s.1);
        let row = |(shape, i): (Vec<Where>, usize)| self.row(shape, &all[i], accesses, visits);
        shapes.into_iter().map(row).filter(|r| r.repeats > 0).collect()
    }

    /// Accesses of the thread under no lock to these places (object, word).
    fn under_no_lock(&self, places: &HashSet<(u32, u64)>) -> u64 {
        let actor = self.actor();
        let mine = self.reader.ev.accesses.iter().filter(|a| a.actor == actor && a.held.is_none());
        let there = mine.filter(|a| places.contains(&(a.object, a.offset / 8)));
        there.map(Access::total).fold(0, u64::saturating_add)
    }

    fn row(&self, shape: Vec<Where>, a: &Alike, accesses: u64, visits: u64) -> Operation {
        let share = u128::from(accesses.max(visits)) * u128::from(a.visits) / u128::from(visits.max(1));
        let repeats = (share / shape.len().max(1) as u128) as u64;
        let gap = |sum: &u64| sum.saturating_add(a.windows / 2) / a.windows.max(1);
        let visits = shape.iter().zip(&a.gaps).map(|(w, g)| (w.0, w.1, w.2, w.3, gap(g))).collect();
        Operation {
            actor: self.actor(),
            vt0: a.vt0,
            vt1: a.vt1,
            visits,
            repeats,
            inner: Some(Vec::new()),
            kind: Some(OperationKind::Window),
            ..Operation::default()
        }
    }
}

/// The repetition that a window is made of. Where it begins is chance: of all rotations of a period the least one is
/// taken, so that windows of one loop are alike. `gaps` has one more: the accesses after the last visit.
fn stretch(wheres: Vec<Where>, gaps: &[u64]) -> Stretch {
    let Some(period) = period(&wheres) else {
        let mut gaps = gaps.to_vec();
        let rest = gaps.pop().unwrap_or(0);
        if let Some(first) = gaps.first_mut() {
            *first = first.saturating_add(rest);
        }
        return Stretch { visits: wheres, gaps, times: 1 };
    };
    let rotated = |by: usize| (0..period).map(move |i| (i + by) % period);
    let of = |by: usize| rotated(by).map(|i| key(&wheres[i])).collect::<Vec<_>>();
    let best = (0..period).min_by_key(|by| of(*by)).unwrap_or(0);
    // Before the first visit of the window lie only some of the accesses.
    let mean = |phase: usize| {
        let all = (phase..wheres.len()).step_by(period).filter(|i| *i > 0);
        let (sum, count) = all.fold((0u64, 0u64), |(s, n), i| (s.saturating_add(gaps[i]), n + 1));
        sum.saturating_add(count / 2) / count.max(1)
    };
    Stretch {
        visits: rotated(best).map(|i| wheres[i]).collect(),
        gaps: rotated(best).map(mean).collect(),
        times: (wheres.len() / period) as u64,
    }
}

fn key(w: &Where) -> (u32, u64, u32, u8) {
    (w.0, w.1, w.2, w.3 as u8)
}

/// The least number of visits after which all repeat, at least once.
fn period(wheres: &[Where]) -> Option<usize> {
    (1..=wheres.len() / 2).find(|p| wheres.iter().skip(*p).zip(wheres).all(|(a, b)| a == b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_evidence::TouchKind;

    fn at(offset: u64, kind: TouchKind) -> Where {
        (0, offset, 8, kind)
    }

    #[test]
    fn a_loop_is_one_turn_of_it() {
        let (r, w) = (at(0, TouchKind::Read), at(0, TouchKind::Write));
        // Read, some work, write; the window begins within the work.
        let one = stretch(vec![w, r, w, r, w], &[1, 0, 4, 0, 4, 0]);
        assert_eq!((one.visits, one.gaps, one.times), (vec![r, w], vec![0, 4], 2));
    }

    #[test]
    fn what_does_not_repeat_stays_whole() {
        let all: Vec<Where> = (0..5).map(|i| at(i * 8, TouchKind::Rmw)).collect();
        let one = stretch(all.clone(), &[2, 0, 0, 1, 0, 3]);
        assert_eq!((one.visits, one.gaps, one.times), (all, vec![5, 0, 0, 1, 0], 1));
        let lone = stretch(vec![at(0, TouchKind::Rmw)], &[7, 2]);
        assert_eq!((lone.gaps, lone.times), (vec![9], 1));
    }
}
