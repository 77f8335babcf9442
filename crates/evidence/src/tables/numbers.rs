//! Numbers of four kinds, each with a table of its own: modelled transfers, samples of a PMU, rates measured natively,
//! and totals. They are never added to each other. Recorded accesses are in [`super::Access`].

use super::TouchKind;
use serde::{Deserialize, Serialize};

/// Transfers of a line between actors in a model of coherence: nobody measured them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Object id.
    pub object: u32,
    /// First byte, from the object's start.
    pub offset: u64,
    /// Bytes.
    pub size: u32,
    /// Code id, if known.
    pub code: Option<u32>,
    /// Actor that got the line, if known.
    pub actor: Option<u32>,
    /// What it wanted the line for.
    pub kind: TouchKind,
    /// Transfers.
    pub transfers: u64,
    /// Those of them that found the line modified elsewhere.
    pub dirty: u64,
    /// Schedule id, where the file holds several.
    #[serde(default)]
    pub schedule: Option<u32>,
}

/// Samples of a performance monitoring unit: what one actor's code found at one place. Counts are samples, not
/// accesses; `None` means that this unit cannot tell, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// Object id.
    pub object: u32,
    /// Byte, from the object's start.
    pub offset: u64,
    /// Bytes; 1 where the unit tells the address only.
    pub size: u32,
    /// Code id, if known.
    pub code: Option<u32>,
    /// Actor id, if known.
    pub actor: Option<u32>,
    /// All samples of this row.
    pub records: u64,
    /// Loads that found the line modified in another cache of the same node.
    pub hitm_local: Option<u64>,
    /// The same in another node.
    pub hitm_remote: Option<u64>,
    /// Loads served by a peer cache, modified or not (Arm).
    pub peer: Option<u64>,
    /// Loads.
    pub loads: Option<u64>,
    /// Stores that hit the first level.
    pub store_l1_hit: Option<u64>,
    /// Stores that missed the first level.
    pub store_l1_miss: Option<u64>,
    /// Stores of which the unit does not tell the level.
    pub store_no_level: Option<u64>,
    /// Sum of the weights (load latencies) of the HITM or peer samples, cycles.
    pub latency_cycles: Option<u64>,
    /// CPUs that took part.
    pub cpus: Option<u32>,
    /// Sum of the samples' periods: events that they stand for.
    #[serde(default)]
    pub period: Option<u64>,
    /// Samples of locked instructions.
    #[serde(default)]
    pub locked: Option<u64>,
    /// Loads that waited for the data of an earlier store.
    #[serde(default)]
    pub blocked_data: Option<u64>,
    /// Loads that waited because an earlier store's address clashed.
    #[serde(default)]
    pub blocked_address: Option<u64>,
    /// Samples that missed the TLB.
    #[serde(default)]
    pub tlb_miss: Option<u64>,
    /// Physical address, where all samples have the same.
    #[serde(default)]
    pub phys_addr: Option<u64>,
    /// Size of the page, bytes.
    #[serde(default)]
    pub page_bytes: Option<u64>,
    /// Samples whose address was rebuilt from the registers after the instruction.
    #[serde(default)]
    pub rebuilt: Option<u64>,
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateOf {
    /// Loads.
    Reads,
    /// Stores.
    Writes,
    /// Atomic read-modify-writes.
    Rmws,
    /// Accesses of any kind.
    Accesses,
    /// Times that one actor stored where another had accessed since.
    Conflicts,
}

/// A rate measured while the program ran at its own speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Object id.
    pub object: u32,
    /// First byte, from the object's start.
    pub offset: u64,
    /// Bytes.
    pub size: u32,
    /// Actor id, if known.
    pub actor: Option<u32>,
    /// Code id, if known.
    pub code: Option<u32>,
    /// What is counted.
    pub of: RateOf,
    /// Begin of the stretch, seconds since the run's start.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Events that were seen in it.
    pub events: u64,
    /// Events per second that they stand for.
    pub per_s: f64,
    /// Lower end of its 95% interval.
    pub low_per_s: Option<f64>,
    /// Upper end.
    pub high_per_s: Option<f64>,
    /// First event, seconds since the run's start.
    pub first_s: Option<f64>,
}

/// What a [`Mark`] is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// Units of the program's work.
    Operation,
    /// Stretches of its run outside of which nothing was counted.
    Region,
}

/// What the program told of itself (`tussle.h`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Process id.
    pub process: Option<u32>,
    /// What it is.
    pub kind: MarkKind,
    /// Its name in the program.
    pub name: String,
    /// Operations that ended, regions that began.
    pub count: u64,
}

/// A part of the run in which accesses were counted; between two of them none were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Process id.
    pub process: Option<u32>,
    /// Virtual time that none of its accesses is earlier than, and all of the stretch before are.
    pub vt0: u64,
    /// Where it ends, if that is known.
    pub vt1: Option<u64>,
}

/// How much a field is used, whoever uses it: about, from saturating logarithmic counters, or exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    /// Object id.
    pub object: u32,
    /// First byte, from the object's start.
    pub offset: u64,
    /// Bytes.
    pub size: u32,
    /// Loads.
    pub reads: u64,
    /// Stores, read-modify-writes included.
    pub writes: u64,
    /// The true numbers are at most so many times larger or smaller; 1 is exact, `None` where unbounded.
    pub within: Option<f64>,
}
