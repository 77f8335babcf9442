//! Predictions from recorded operations: every actor repeats its own operations, in order, under the locks that were
//! held, with the fields where they were and with every contended word on a line of its own.

use crate::locks::spin::Queued;
use crate::nodes::Nodes;
use crate::predict::{Measured, Sample, point};
use crate::stories::spread;
use std::collections::BTreeMap;
use std::sync::Arc;
use tussle_evidence::tables::{Evidence, TouchKind};
use tussle_render::{Cell as Text, Fact, Node, Span, View};
use tussle_sim::{
    Cell, Config, Env, LayoutError, Machine, MemoryMap, Note, Program, Shape, SimError, Words, simulate,
};
use tussle_stats::Rng;

/// Why nothing can be predicted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordedError {
    /// The source did not see operations.
    #[error("this evidence holds no operations (its source does not see locks): run a scenario instead")]
    NoOperations,
    /// Layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The run.
    #[error(transparent)]
    Sim(#[from] SimError),
}

/// Visits beyond this many are left out of one operation.
const VISITS_MAX: usize = 4_096;
/// Words beyond this many are not laid out.
const WORDS_MAX: usize = 100_000;
/// Time of an access between two visits, ns.
const ACCESS_NS: u32 = 1;

struct Step {
    lock: Option<Queued>,
    visits: Vec<(Cell, bool, u32)>,
}

struct Recorded {
    memory: MemoryMap,
    steps: Vec<Vec<Step>>,
    think: f64,
}

type Key = (u32, u64);

impl Recorded {
    fn new(
        ev: &Evidence,
        tasks: usize,
        split: bool,
        phase: u32,
        think: f64,
    ) -> Result<Recorded, RecordedError> {
        let operations =
            ev.operations.as_deref().filter(|o| !o.is_empty()).ok_or(RecordedError::NoOperations)?;
        let mut words: BTreeMap<Key, Cell> = BTreeMap::new();
        for op in operations {
            let lock = op.lock_object.zip(op.lock_offset);
            let seen = op.visits.iter().take(VISITS_MAX).map(|v| (v.0, v.1)).chain(lock);
            for (object, offset) in seen.take(WORDS_MAX.saturating_sub(words.len())) {
                words.insert((object, offset / 8 * 8), Cell::NULL);
            }
        }
        let mut memory = MemoryMap::new();
        let mut by_object: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        words.keys().for_each(|(o, w)| by_object.entry(*o).or_default().push(*w));
        for (object, offsets) in by_object {
            let name =
                ev.objects.get(object as usize).and_then(|o| o.name.clone()).unwrap_or("object".into());
            let first = offsets.first().copied().unwrap_or(0) / 128 * 128;
            let place = |(i, w): (usize, &u64)| if split { i as u64 * 128 } else { w - first };
            let names: Vec<String> = offsets.iter().map(|w| format!("{w}")).collect();
            let at: Vec<u64> = offsets.iter().enumerate().map(place).collect();
            let size = at.iter().max().map_or(8, |m| m + 8).min(1 << 24) as u32;
            let fields: Vec<(&str, u32, u8)> =
                names.iter().zip(&at).map(|(n, a)| (n.as_str(), (*a).min(1 << 24) as u32, 8)).collect();
            let cell = memory.object(&Arc::new(Shape::new(&name, size, &fields)), phase)?;
            for (i, w) in offsets.iter().enumerate() {
                words.insert((object, *w), cell.field(i as u32));
            }
        }
        let nodes = Nodes::new(&mut memory, tasks)?;
        let cell =
            |object: u32, offset: u64| words.get(&(object, offset / 8 * 8)).copied().unwrap_or(Cell::NULL);
        let mut steps: Vec<Vec<Step>> = (0..tasks).map(|_| Vec::new()).collect();
        let actors = ev.actors.len().max(1);
        for op in operations {
            let lock = op
                .lock_object
                .zip(op.lock_offset)
                .map(|(o, w)| Queued { word: cell(o, w), nodes: nodes.clone() });
            let visit = |v: &(u32, u64, u32, TouchKind, u64)| {
                (cell(v.0, v.1), v.3 != TouchKind::Read, v.4.min(10_000) as u32 * ACCESS_NS)
            };
            let visits: Vec<_> = op.visits.iter().take(VISITS_MAX).map(visit).collect();
            // More CPUs than actors: further tasks repeat the actors in turn.
            for t in (0..tasks).filter(|t| t % actors == op.actor as usize % actors) {
                steps[t].push(Step { lock: lock.clone(), visits: visits.clone() });
            }
        }
        Ok(Recorded { memory, steps, think })
    }
}

impl Program for Recorded {
    fn tasks(&self) -> usize {
        self.steps.len()
    }

    fn memory(&self) -> &MemoryMap {
        &self.memory
    }

    fn init(&self, _: &mut dyn Words) {}

    async fn run<E: Env>(&self, e: &E) {
        let steps = &self.steps[e.me() as usize];
        while !e.stopping() && !steps.is_empty() {
            for step in steps {
                e.compute(spread(e, 50, self.think)).await;
                if let Some(l) = &step.lock {
                    l.lock(e).await;
                }
                let lock = step.lock.as_ref().map(|l| l.word);
                e.work(|w| {
                    for &(cell, write, ns) in &step.visits {
                        w.work(ns);
                        if write && Some(cell) != lock {
                            w.set(cell, 1);
                        } else {
                            w.get(cell);
                        }
                    }
                })
                .await;
                if let Some(l) = &step.lock {
                    l.unlock(e).await;
                }
                e.note(Note::Done);
            }
        }
    }

    fn check(&self, _: &mut dyn Words) -> Result<(), String> {
        Ok(())
    }
}

/// Predicts what it would bring to give every recorded word a line of its own.
///
/// # Errors
/// See [`RecordedError`].
pub fn predict(
    ev: &Evidence,
    machine: &Machine,
    cpus: u32,
    draws: u32,
    seed: u64,
) -> Result<View, RecordedError> {
    let mut samples = Vec::new();
    for draw in 0..draws.max(1) {
        let mut rng = Rng::new(seed.wrapping_mul(1_000_003).wrapping_add(u64::from(draw)));
        let think = (0.3f64.ln() + rng.uniform() * (10.0f64 / 0.3).ln()).exp();
        let (phase, run_seed) = (rng.below(16) as u32 * 8, rng.next_u64());
        let run = |split: bool| -> Result<Measured, RecordedError> {
            let program = Recorded::new(ev, cpus as usize, split, phase, think)?;
            let run = simulate(&program, machine, &Config::new(cpus, 200_000, run_seed))?;
            Ok(Measured { throughput: run.throughput(), ..Measured::default() })
        };
        samples.push(Sample { factors: vec![think], before: run(false)?, after: run(true)? });
    }
    let p = point(cpus, &samples);
    let fact = |key: &str, label: &str, cell| Fact { key: key.into(), label: label.into(), cell };
    let text = format!(
        "{}: {}..{} of throughput if every recorded word had a line of its own, positive in {:.0}% of {draws} draws.",
        p.verdict.name(),
        crate::view::percent(p.low),
        crate::view::percent(p.high),
        p.positive_share * 100.0
    );
    let effect = serde_json::json!({
        "low": p.low, "median": p.median, "high": p.high, "positive_share": p.positive_share,
    });
    let nodes = vec![
        Node::Facts(vec![
            fact("machine", "Machine", Text::text(machine.name.clone())),
            fact("cpus", "CPUs", Text::count(u64::from(cpus))),
            fact("unit", "Numbers", Text::text("simulated")),
        ]),
        Node::Text(vec![Span::plain(text)]),
        Node::Data { key: "effect".into(), value: effect },
        Node::Data { key: "verdict".into(), value: p.verdict.name().into() },
    ];
    Ok(View { kind: "predict", schema_version: 1, nodes })
}
