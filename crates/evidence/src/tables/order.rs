//! What happened in order: operations, turns, and how turns were cut.

use super::TouchKind;
use serde::{Deserialize, Serialize};

/// A lock taken and released inside of an operation: first visit under it, one past the last, object and offset of the
/// lock, shared with others (`None`: unknown).
pub type InnerLock = (u32, u32, u32, u64, Option<bool>);

/// What begins and ends an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// Taking and releasing a lock.
    Section,
    /// A stretch of plain accesses under no lock, sampled.
    Window,
    /// What the program marks as one operation.
    Marked,
}

/// How work depends on what was loaded before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// It needs the loaded value: a miss delays it.
    Dependent,
    /// It does not: a miss overlaps with it.
    Independent,
    /// Not known.
    Unknown,
}

/// Visits of fields between the start and end of one operation (a critical section).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Actor id.
    pub actor: u32,
    /// Object of the lock that was held, if any.
    pub lock_object: Option<u32>,
    /// Offset of that lock.
    pub lock_offset: Option<u64>,
    /// Start.
    pub vt0: u64,
    /// End.
    pub vt1: u64,
    /// In order: (object, offset, size, kind, accesses since the previous visit).
    pub visits: Vec<(u32, u64, u32, TouchKind, u64)>,
    /// How many operations of this shape this row stands for.
    pub repeats: u64,
    /// The lock was held together with other readers; `None` where the source cannot tell.
    #[serde(default)]
    pub shared: Option<bool>,
    /// Instructions of the same task between its previous operation and this one, user mode included: think time. Mean
    /// of those known; `None` where unknown.
    #[serde(default)]
    pub think_instructions: Option<u64>,
    /// Instructions of the task inside the operation; mean of those known.
    #[serde(default)]
    pub instructions: Option<u64>,
    /// Locks held inside of it; `None` where the source does not tell. Their own words are not among the visits, as
    /// those of the lock itself are not.
    #[serde(default)]
    pub inner: Option<Vec<InnerLock>>,
    /// What begins and ends it; `None` where unknown.
    #[serde(default)]
    pub kind: Option<OperationKind>,
    /// Before each visit, the work since the one before: its kind and its length in instructions.
    #[serde(default)]
    pub work: Option<Vec<(WorkKind, u64)>>,
}

/// Accesses of one actor that no access of another one interrupts, in order: one row of the ordered log. What repeats
/// itself while no other actor comes near (see `docs/evidence.md`) is there once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Actor id.
    pub actor: u32,
    /// In order: (object, offset, size, kind).
    pub visits: Vec<(u32, u64, u32, TouchKind)>,
    /// Schedule id, where the file holds several.
    #[serde(default)]
    pub schedule: Option<u32>,
}

/// How long actors went on before the next one came, in one part of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Instructions of a turn.
    pub turn_instructions: u64,
    /// Instructions of its next turns that an actor loses with every transfer; 0 where contention does not shape the
    /// run.
    pub feedback_instructions: Option<u64>,
    /// Seed of the order in which actors came.
    pub seed: Option<u64>,
}
