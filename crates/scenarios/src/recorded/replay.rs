//! The program that repeats recorded operations.

use super::lock::Lock;
use super::place::{Arranged, Arrangement, arrange};
use super::{OperationShape, RecordedError, Recording, Step, THINK_SEEN_NS, Think, Visit};
use crate::stories::{Setup, spread};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use tussle_sim::{Cell, Curve, Env, MemoryMap, Note, Pattern, Program, Words};

/// The least between two operations, ns.
const LOOP_NS: u32 = 2;

/// Recorded operations on one layout, as a program.
///
/// Task *t* repeats the operations of actor *t* modulo the number of actors; with fewer tasks than actors a task does
/// those of several. With more tasks than actors, bytes that one actor alone touched are each task's own, in a further
/// copy of the object; bytes that several touched are shared by all.
#[derive(Clone, Debug)]
pub struct Replay {
    recording: Arc<Recording>,
    tasks: usize,
    arranged: Arranged,
    /// Shapes by actor, or by task where there are fewer tasks.
    shapes: Vec<Vec<u32>>,
    think: f64,
    work: f64,
    ahead: Option<(Arc<Curve>, f64)>,
}

fn access(words: &mut dyn Words, cell: Cell, write: bool) {
    match write {
        true => words.set(cell, 1),
        false => _ = words.get(cell),
    }
}

/// A lock that is taken or given back within an operation.
async fn inner_lock<E: Env>(e: &E, locks: &[Lock], step: &Step) {
    let of = |l: u32| locks.get(l as usize);
    match *step {
        Step::Lock(l, shared) => {
            if let Some(lock) = of(l) {
                lock.lock(e, shared).await;
            }
        }
        Step::Unlock(l, shared) => {
            if let Some(lock) = of(l) {
                lock.unlock(e, shared).await;
            }
        }
        Step::Visit(_) => {}
    }
}

/// How a line may be asked for before it is used.
struct Ahead<'a> {
    curve: &'a Curve,
    /// How much of the work is a chain, from 0 to 1.
    chained: f64,
    /// Within a lock that was taken.
    locked: bool,
}

impl Ahead<'_> {
    /// Work of so many ns, then an access: what comes of it.
    async fn work<E: Env>(&self, e: &E, ns: u32, cell: Option<Cell>, own: bool, patterns: &[Pattern]) {
        let ahead = self.curve.ahead_ns(patterns, f64::from(ns), self.chained) as u32;
        match cell.filter(|_| ahead > 0) {
            None => drop(e.compute(ns).await),
            Some(cell) => {
                e.compute(ns - ahead).await;
                e.ask(cell, own).await;
                e.compute(ahead).await;
            }
        }
    }

    /// What an access may be in the table: whether the work after a load waits for it was not recorded.
    fn patterns(&self, v: &Visit) -> &'static [Pattern] {
        match (v.atomic, v.write, self.locked) {
            (true, _, false) => &[Pattern::Rmw],
            (true, _, true) => &[Pattern::LockedRmw],
            (false, true, false) => &[Pattern::Store],
            (false, true, true) => &[Pattern::LockedStore],
            (false, false, false) => &[Pattern::Load, Pattern::LoadChain],
            (false, false, true) => &[Pattern::LockedLoad, Pattern::LockedLoadChain],
        }
    }
}

impl Replay {
    /// A recording in one layout.
    ///
    /// # Errors
    /// See [`RecordedError`].
    pub fn new(
        recording: &Arc<Recording>,
        how: Arrangement<'_>,
        setup: &Setup,
    ) -> Result<Replay, RecordedError> {
        let tasks = setup.tasks.unwrap_or(setup.cpus).clamp(1, 65_000) as usize;
        let arranged = arrange(recording, how, tasks, setup)?;
        let parts = recording.actors.min(tasks).max(1);
        let mut shapes = vec![Vec::new(); parts];
        for (i, s) in recording.shapes.iter().enumerate() {
            shapes[s.actor % parts].push(i as u32);
        }
        let recording = recording.clone();
        let ahead = setup.ahead.clone();
        Ok(Replay { recording, tasks, arranged, shapes, think: setup.think, work: setup.work, ahead })
    }

    /// Reads and writes of one operation; locked operations and locks in between are ones here, too.
    async fn steps<E: Env>(&self, e: &E, shape: &OperationShape, cells: &[Cell], locks: &[Lock]) {
        let ns = |accesses: u32| (f64::from(accesses) * shape.access_ns * self.work) as u32;
        let cell = |v: &Visit| v.spot.and_then(|i| cells.get(i as usize)).copied();
        let plain = |s: &Step| matches!(s, Step::Visit(v) if !v.atomic);
        for part in shape.steps.chunk_by(|a, b| plain(a) && plain(b)) {
            match part {
                [step @ (Step::Lock(..) | Step::Unlock(..))] => inner_lock(e, locks, step).await,
                [Step::Visit(v)] if v.atomic => {
                    e.compute(ns(v.gap)).await;
                    if let Some(c) = cell(v) {
                        e.add(c, 1).await;
                    }
                }
                _ => {
                    e.work(|w| {
                        for step in part {
                            let Step::Visit(v) = step else { continue };
                            w.work(ns(v.gap));
                            if let Some(c) = cell(v) {
                                access(w, c, v.write);
                            }
                        }
                    })
                    .await;
                }
            }
        }
    }

    /// The same on a machine that asks for lines ahead. `think` is the work before the first step.
    async fn steps_ahead<E: Env>(
        &self,
        e: &E,
        shape: &OperationShape,
        (cells, locks): (&[Cell], &[Lock]),
        (think, mut how): (u32, Ahead<'_>),
    ) {
        let mut work = think;
        for step in &shape.steps {
            match *step {
                Step::Lock(..) | Step::Unlock(..) => {
                    e.compute(std::mem::take(&mut work)).await;
                    how.locked |= matches!(step, Step::Lock(..));
                    inner_lock(e, locks, step).await;
                }
                Step::Visit(v) => {
                    let gap = (f64::from(v.gap) * shape.access_ns * self.work) as u32;
                    work = work.saturating_add(gap);
                    let Some(cell) = v.spot.and_then(|i| cells.get(i as usize)).copied() else { continue };
                    let (ns, own) = (std::mem::take(&mut work), v.write || v.atomic);
                    how.work(e, ns, Some(cell), own, how.patterns(&v)).await;
                    if v.atomic {
                        e.add(cell, 1).await;
                    } else {
                        e.work(|w| access(w, cell, v.write)).await;
                    }
                }
            }
        }
        e.compute(work).await;
    }

    async fn operation<E: Env>(&self, e: &E, shape: &OperationShape, copy: usize) {
        let seen = self.recording.think() == Think::Accesses;
        let least = if seen { THINK_SEEN_NS } else { 1.0 };
        let think = shape.think_ns.clamp(least, 1e8) as u32;
        // No operation takes no time at all: a loop around it takes some cycles.
        let think = spread(e, think, self.think).max(LOOP_NS);
        let (Some(cells), Some(locks)) = (self.arranged.cells.get(copy), self.arranged.locks.get(copy))
        else {
            e.compute(think).await;
            return;
        };
        let lock = shape.lock.and_then(|l| locks.get(l));
        let how = self.ahead.as_ref().map(|(curve, chained)| Ahead {
            curve,
            chained: *chained,
            locked: lock.is_some(),
        });
        match (&how, lock) {
            (Some(how), Some(l)) => how.work(e, think, l.word(), true, l.patterns()).await,
            (Some(_), None) => {}
            (None, _) => drop(e.compute(think).await),
        }
        if let Some(l) = lock {
            l.lock(e, shape.shared).await;
        }
        match how {
            None => self.steps(e, shape, cells, locks).await,
            Some(how) => {
                let left = if lock.is_some() { 0 } else { think };
                self.steps_ahead(e, shape, (cells, locks), (left, how)).await;
            }
        }
        if let Some(l) = lock {
            l.unlock(e, shape.shared).await;
        }
        e.note(Note::Done);
    }
}

/// Shapes interleaved evenly by how often they were seen: who has waited longest for its share comes next.
struct Turns {
    queue: BinaryHeap<Reverse<(u128, u32)>>,
    most: u64,
}

impl Turns {
    fn new(shapes: &[u32], repeats: impl Fn(u32) -> u64) -> Turns {
        let most = shapes.iter().map(|&s| repeats(s)).max().unwrap_or(1).max(1);
        let mut turns = Turns { queue: BinaryHeap::with_capacity(shapes.len()), most };
        for &s in shapes {
            // The first turn comes after half a round, so that rare shapes do not all come at the beginning.
            let half = turns.round(repeats(s)) / 2;
            turns.queue.push(Reverse((half, s)));
        }
        turns
    }

    /// Distance between two turns of a shape, in 1/2^16 of the most frequent one's.
    fn round(&self, repeats: u64) -> u128 {
        (u128::from(self.most) << 16) / u128::from(repeats.max(1))
    }

    fn next(&mut self, repeats: impl Fn(u32) -> u64) -> Option<u32> {
        let Reverse((at, s)) = self.queue.pop()?;
        self.queue.push(Reverse((at.saturating_add(self.round(repeats(s))), s)));
        Some(s)
    }
}

/// The first `count` turns of these shapes.
pub(super) fn turns(r: &Recording, shapes: &[u32], count: usize) -> Vec<u32> {
    let repeats = |s: u32| r.shapes.get(s as usize).map_or(1, |s| s.repeats);
    let mut turns = Turns::new(shapes, repeats);
    (0..count).map_while(|_| turns.next(repeats)).collect()
}

impl Program for Replay {
    fn tasks(&self) -> usize {
        self.tasks
    }

    fn memory(&self) -> &MemoryMap {
        &self.arranged.memory
    }

    fn init(&self, _: &mut dyn Words) {}

    async fn run<E: Env>(&self, e: &E) {
        let me = e.me() as usize;
        let Some(mine) = self.shapes.get(me % self.shapes.len().max(1)) else { return };
        let copy = me / self.recording.actors.max(1);
        let repeats = |s: u32| self.recording.shapes.get(s as usize).map_or(1, |s| s.repeats);
        let mut turns = Turns::new(mine, repeats);
        while !e.stopping() {
            let Some(shape) = turns.next(repeats).and_then(|s| self.recording.shapes.get(s as usize)) else {
                return;
            };
            self.operation(e, shape, copy).await;
        }
    }

    fn check(&self, _: &mut dyn Words) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_as_often_as_operations_were_seen_and_evenly() {
        let repeats = |s: u32| [1_000_000_000, 1, 500_000_000, 0][s as usize];
        let mut turns = Turns::new(&[0, 1, 2], repeats);
        let got: Vec<u32> = (0..9).filter_map(|_| turns.next(repeats)).collect();
        assert_eq!(got, [0, 2, 0, 0, 2, 0, 0, 2, 0]);
        let equal = |_| 1;
        let mut turns = Turns::new(&[5, 6, 7], equal);
        let got: Vec<u32> = (0..6).filter_map(|_| turns.next(equal)).collect();
        assert_eq!(got, [5, 6, 7, 5, 6, 7], "in the order of their virtual time");
    }
}
