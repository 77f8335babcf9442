//! Predictions from recorded operations: every task repeats the operations of a recorded actor, as often as they were
//! seen, under the locks that were held, on the fields where they lay or where another layout puts them.

mod bursts;
mod fields;
mod lock;
pub mod measured;
pub mod measured_view;
pub mod native;
mod place;
mod plan;
mod replay;
mod replicas;
mod view;

pub use lock::{Found, Model};
pub use native::NativeError;
pub use place::{Arrangement, Relocation};
pub use replay::Replay;
pub(crate) use view::assumptions;

use crate::predict::PredictError;
use crate::stories::Side;
use std::collections::{BTreeMap, BTreeSet};
use tussle_evidence::tables::Evidence;
use tussle_model::TypeId;
use tussle_sim::LayoutError;

/// Why nothing can be predicted from an evidence.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordedError {
    /// The source did not see operations.
    #[error(
        "this evidence holds no operations (its source sees neither critical sections nor the order of accesses, or \
         no thread touched what others touch in what was sampled): \
         `tussle report` shows its contention, `tussle predict mmap_lock` a scenario instead"
    )]
    NoOperations,
    /// Nothing to contend with.
    #[error(
        "the recorded operations (visits of locks that are fought over) are all of one thread or CPU: what \
         `tussle report` shows beside them cannot be predicted; if one CPU was all that ran, record with two at least"
    )]
    OneActor,
    /// No operation refers to objects and actors that exist.
    #[error("none of the {0} operations refers to objects and actors of this evidence")]
    Dangling(usize),
    /// Too much to lay out.
    #[error("{cells} fields for {tasks} tasks are more than {CELLS_MAX}: ask for fewer CPUs")]
    TooMany {
        /// Cells of one copy.
        cells: usize,
        /// Tasks.
        tasks: usize,
    },
    /// A layout without a field that was recorded.
    #[error("{label}: {error}")]
    Layout {
        /// Which layout.
        label: String,
        /// What is missing.
        error: LayoutError,
    },
    /// A layout that has none of the recorded types.
    #[error("{label} has none of the recorded types: {types}")]
    NoType {
        /// Which layout.
        label: String,
        /// Types that were recorded.
        types: String,
    },
    /// Objects do not fit.
    #[error(transparent)]
    Memory(#[from] LayoutError),
}

/// Operations with more repeats come first; beyond this many shapes they are left out.
pub const OPERATIONS_MAX: usize = 20_000;
/// Visits of one operation beyond this many are left out.
pub const VISITS_MAX: usize = 4_096;
/// Cells of all copies of all objects.
pub const CELLS_MAX: usize = 200_000;
/// Nominal time of an access that hits, and of the instructions around it, ns: some three instructions at 3 GHz.
pub const ACCESS_NS: f64 = 1.0;
/// Nominal time of an instruction, ns: one per cycle at 3 GHz.
pub const INSTRUCTION_NS: f64 = 0.35;
/// Least nominal time between two operations where only accesses tell it, ns: what a loop around them takes at least.
pub const THINK_SEEN_NS: f64 = 10.0;
/// Nominal time of a locked operation on a line that is here already, ns: some twenty cycles (Schweizer, Besta,
/// Hoefler, *Evaluating the cost of atomic operations on modern architectures*, 2015).
const LOCKED_NS: f64 = 6.0;
/// Nominal time of taking or giving up a lock inside of an operation, ns.
const INNER_NS: f64 = 10.0;
/// Least and greatest factor that a measured time may put on a recorded one: beyond it the program did something else.
const TIMED: (f64, f64) = (0.05, 10_000.0);
/// Nominal time between two operations of an actor where the recording does not tell, ns.
pub const THINK_NS: f64 = 1_000.0;

/// A field, or a word of untyped memory, that operations touch.
#[derive(Clone, Debug, PartialEq)]
struct Spot {
    object: usize,
    offset: u64,
    size: u8,
    name: String,
    /// The only actor that touches it; `None` when several do.
    owner: Option<usize>,
}

/// A recorded object that operations touch.
#[derive(Clone, Debug, PartialEq)]
struct TouchedObject {
    label: String,
    /// Its type and bytes of one element of it.
    ty: Option<(TypeId, u64)>,
    /// Elements of the type, side by side.
    count: u64,
    /// Recorded address of its first byte.
    base: u64,
    /// Bytes between the places where it may begin; `None` where it lies at its address.
    step: Option<u64>,
    /// Its address was recorded.
    known: bool,
    /// Objects of one group share lines, as recorded.
    group: usize,
}

/// A lock that operations held.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    object: usize,
    found: Found,
    owner: Option<usize>,
    /// Operations under it, repeats counted.
    operations: u64,
}

/// Locks of one place for people.
#[derive(Clone, Debug, PartialEq)]
pub struct LockRow<'a> {
    /// Object and offset.
    pub at: String,
    /// What was found out about it.
    pub found: &'a Found,
    /// How many there are.
    pub count: u64,
    /// Operations under them, repeats counted.
    pub operations: u64,
}

/// One step of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// An access.
    Visit(Visit),
    /// A further lock is taken, shared or not.
    Lock(u32, bool),
    /// It is given up.
    Unlock(u32, bool),
}

/// An access of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Visit {
    /// Accesses to memory of its own before it.
    gap: u32,
    /// What it touches; `None` for own memory.
    spot: Option<u32>,
    write: bool,
    atomic: bool,
}

impl Visit {
    /// So many accesses to own memory.
    fn own(gap: u32) -> Visit {
        Visit { gap, spot: None, write: false, atomic: false }
    }
}

/// One shape of an operation.
#[derive(Clone, Debug, PartialEq)]
struct OperationShape {
    actor: usize,
    lock: Option<usize>,
    shared: bool,
    steps: Vec<Step>,
    repeats: u64,
    /// Nominal time of one of its accesses, with the instructions around it, ns.
    access_ns: f64,
    /// Nominal time before it, ns.
    think_ns: f64,
}

impl OperationShape {
    /// Nominal time of the operation when nobody is in its way, ns.
    fn own_ns(&self) -> f64 {
        self.accesses_ns() + self.inner() as f64 * INNER_NS
    }

    /// Locks and unlocks within it.
    fn inner(&self) -> usize {
        self.steps.iter().filter(|s| !matches!(s, Step::Visit(_))).count()
    }

    fn accesses_ns(&self) -> f64 {
        let accesses = |s: &Step| if let Step::Visit(v) = s { f64::from(v.gap) + 1.0 } else { 0.0 };
        self.steps.iter().map(accesses).sum::<f64>() * self.access_ns
    }

    /// Nominal time of its accesses and of what lies before it, ns.
    fn nominal_ns(&self) -> f64 {
        self.accesses_ns() + self.think_ns
    }

    /// Nominal time that its locks take by themselves, ns.
    fn locks_ns(&self) -> f64 {
        (self.inner() + 2 * usize::from(self.lock.is_some())) as f64 * LOCKED_NS
    }
}

/// How the time between operations is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// The program itself was timed, without instrumentation.
    Measured,
    /// Instructions were counted.
    Instructions,
    /// Accesses were counted: what of an actor's virtual time its operations leave.
    Accesses,
    /// Not at all.
    Unknown,
}

impl Think {
    /// The time between operations was neither measured nor counted in instructions.
    pub fn guessed(self) -> bool {
        !matches!(self, Think::Instructions | Think::Measured)
    }
}

/// Recorded operations, ready to be repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    actors: usize,
    /// Their numbers in the evidence.
    actor_ids: Vec<u32>,
    shapes: Vec<OperationShape>,
    spots: Vec<Spot>,
    places: Vec<TouchedObject>,
    locks: Vec<Held>,
    think: Think,
    /// Inner locks that are left out, because another operation takes them the other way round.
    crossed: usize,
    command: String,
    /// Operations in the evidence, and of these the ones that are repeated, repeats counted.
    operations: (u64, u64),
    /// Accesses recorded to the objects of operations, and of these the ones in operations.
    accesses: (u64, u64),
    /// Why further tasks cannot repeat what the recorded actors did.
    no_replicas: Option<&'static str>,
}

impl Recording {
    /// Takes the operations of an evidence. Bounded work and memory for any input.
    ///
    /// # Errors
    /// [`RecordedError`]: no operations, one actor, nothing that exists.
    pub fn new(evidence: &Evidence) -> Result<Recording, RecordedError> {
        plan::recording(evidence)
    }

    /// Actors with operations.
    pub fn actors(&self) -> usize {
        self.actors
    }

    /// Numbers of the actors in the evidence, in their order here.
    pub fn actor_ids(&self) -> &[u32] {
        &self.actor_ids
    }

    /// Operations of every actor, repeats counted.
    pub fn operations_of_actors(&self) -> Vec<u64> {
        let mut out = vec![0u64; self.actors];
        for s in &self.shapes {
            out[s.actor] = out[s.actor].saturating_add(s.repeats);
        }
        out
    }

    /// Share of every actor in the operations, repeats counted.
    pub fn shares(&self) -> Vec<f64> {
        let each = self.operations_of_actors();
        let all: f64 = each.iter().map(|n| *n as f64).sum();
        each.iter().map(|n| *n as f64 / all.max(1.0)).collect()
    }

    /// What ran.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// How the time between operations is known.
    pub fn think(&self) -> Think {
        self.think
    }

    /// Takes over how long operations take in the program itself, without instrumentation and on one CPU, where no line
    /// is on its way: an operation of every actor with the time before it, ns. How that time parts into sections and
    /// what lies between them is not seen: in the proportion that was recorded.
    pub fn timed(&mut self, each_ns: &[f64]) {
        let factor = |(actor, took): (usize, &f64)| {
            let mean = |of: fn(&OperationShape) -> f64| self.mean_of(|s| s.actor == actor, of);
            let factor = (took - mean(OperationShape::locks_ns)) / mean(OperationShape::nominal_ns);
            if factor.is_finite() { factor.clamp(TIMED.0, TIMED.1) } else { 1.0 }
        };
        let factors: Vec<f64> = each_ns.iter().enumerate().map(factor).collect();
        for s in &mut self.shapes {
            let factor = factors.get(s.actor).copied().unwrap_or(1.0);
            (s.access_ns, s.think_ns) = (s.access_ns * factor, s.think_ns * factor);
        }
        self.think = Think::Measured;
    }

    /// Why nothing is known of more tasks than were recorded; `None` where further tasks can repeat what the recorded
    /// actors did.
    pub fn no_replicas(&self) -> Option<&'static str> {
        self.no_replicas
    }

    /// Mean over operations, repeats counted.
    fn mean(&self, of: impl Fn(&OperationShape) -> f64) -> f64 {
        self.mean_of(|_| true, of)
    }

    /// Mean over some operations, repeats counted.
    fn mean_of(&self, which: impl Fn(&OperationShape) -> bool, of: impl Fn(&OperationShape) -> f64) -> f64 {
        let some = || self.shapes.iter().filter(|s| which(s));
        let repeats: f64 = some().map(|s| s.repeats as f64).sum();
        some().map(|s| of(s) * s.repeats as f64).sum::<f64>() / repeats.max(1.0)
    }

    /// Mean nominal time between two operations, ns.
    pub fn think_ns(&self) -> f64 {
        self.mean(|s| s.think_ns)
    }

    /// Mean nominal time of an operation when nobody is in its way, ns.
    pub fn operation_ns(&self) -> f64 {
        self.mean(OperationShape::own_ns)
    }

    /// Some lock's waiters spin before they sleep.
    pub fn spins(&self) -> bool {
        self.locks.iter().any(|l| l.found.model.spins())
    }

    /// Some lock has an owner word beside its count.
    pub fn has_owner(&self) -> bool {
        self.locks.iter().any(|l| l.found.model == Model::Rwsem)
    }

    /// Operations in the evidence and those that are repeated, repeats counted.
    pub fn operations(&self) -> (u64, u64) {
        self.operations
    }

    /// Share of the accesses recorded to the objects of operations that lie in operations; `None` without any.
    pub fn coverage(&self) -> Option<f64> {
        let (all, inside) = self.accesses;
        (all > 0).then(|| (inside as f64 / all as f64).min(1.0))
    }

    /// Share of the operations that take a lock which other actors take, too.
    pub fn contending(&self) -> f64 {
        let shared = |l: usize| self.locks.get(l).is_some_and(|l| l.owner.is_none());
        let inner = |s: &Step| matches!(*s, Step::Lock(l, _) if shared(l as usize));
        self.mean(|s| f64::from(u8::from(s.lock.is_some_and(shared) || s.steps.iter().any(inner))))
    }

    /// Locks that were held, those at the same place of objects of one type together; most used first.
    pub fn locks(&self) -> Vec<LockRow<'_>> {
        let mut rows: BTreeMap<(String, Model), LockRow<'_>> = BTreeMap::new();
        for Held { object, found, operations, .. } in &self.locks {
            let place = self.places.get(*object).map_or("?", |p| p.label.as_str());
            let at = match &found.member {
                Some(m) => format!("{place}.{m}"),
                None if found.start == 0 => place.into(),
                None => format!("{place} at {} ({:#x})", found.start, found.start),
            };
            let new = LockRow { at: at.clone(), found, count: 0, operations: 0 };
            let row = rows.entry((at, found.model)).or_insert(new);
            row.count += 1;
            row.operations = row.operations.saturating_add(*operations);
        }
        let mut rows: Vec<LockRow<'_>> = rows.into_values().collect();
        rows.sort_by(|a, b| b.operations.cmp(&a.operations).then(a.at.cmp(&b.at)));
        rows
    }

    /// Offsets within one element that operations touch, by type: what another layout has to place.
    pub fn wanted(&self) -> BTreeMap<TypeId, BTreeSet<u64>> {
        let mut out: BTreeMap<TypeId, BTreeSet<u64>> = BTreeMap::new();
        let spots = self.spots.iter().map(|s| (s.object, s.offset));
        let words = self.locks.iter().flat_map(|l| l.found.words.iter().map(move |w| (l.object, w.0)));
        for (object, offset) in spots.chain(words) {
            let Some(place) = self.places.get(object) else { continue };
            let Some((ty, size)) = place.ty else { continue };
            let at = offset - fields::element(size, place.count, offset);
            if at < size {
                out.entry(ty).or_default().insert(at);
            }
        }
        out
    }

    /// Simulated time of one run, ns: some hundred operations of every task and some thousand of all if nobody were in
    /// anybody's way; within what simulates in about a second. Under contention fewer complete, and below
    /// [`OPERATIONS_MIN`](crate::predict::OPERATIONS_MIN) of them there is no verdict.
    pub fn run_ns(&self, cpus: u32) -> u64 {
        let (operation, think) = (self.operation_ns() + 20.0, self.think_ns());
        let steps = self.mean(|s| (s.steps.len() + 8) as f64);
        // Waiting for each other makes operations longer than that.
        let each = (5_000.0 / f64::from(cpus.max(1))).max(100.0);
        let wanted = each * (operation + think) + 20.0 * (operation + 200.0) * f64::from(cpus);
        let fits = 4e6 * (operation + think) / (steps * f64::from(cpus.max(1)));
        wanted.min(fits).clamp(50_000.0, 20_000_000.0) as u64
    }
}

/// Where a side of a comparison puts recorded fields.
pub(crate) fn place_of(side: &Side) -> Result<Arrangement<'_>, PredictError> {
    match side {
        Side::Moved(m) => Ok(Arrangement::Moved(m)),
        Side::Name(n) if n == "recorded" => Ok(Arrangement::Recorded),
        Side::Name(n) if n == "ideal" => Ok(Arrangement::Ideal),
        other => Err(PredictError::Variant(other.label().into())),
    }
}

#[cfg(test)]
mod tests;
