//! The tables of an evidence file as Rust structs. Column names are field names; `docs/evidence.md` explains them.
//!
//! Ids are indices into their table (row 0 has id 0). Virtual time (`vt`) counts accesses: each actor's clock advances
//! by its own accesses and is joined with others at create, join, barrier, condition and contended mutex only.

use serde::{Deserialize, Serialize};
use tussle_model::{TypeId, TypeTable};

/// Everything known about one run.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// What ran, where, and what the source could see.
    pub run: Run,
    /// Processes of the run.
    pub processes: Vec<Process>,
    /// Mapped executables and libraries.
    pub modules: Vec<Module>,
    /// Threads, CPUs.
    pub actors: Vec<Actor>,
    /// Types of objects: only what objects need, so that the file explains itself.
    pub types: TypeTable,
    /// Memory that was touched.
    pub objects: Vec<Object>,
    /// Code addresses that touched or allocated it, and their callers.
    pub code: Vec<Code>,
    /// Who touched which bytes, how often, when.
    pub accesses: Vec<Access>,
    /// Which code touched which bytes.
    pub touches: Vec<Touch>,
    /// Operations: visits of fields in order, if the source sees them.
    pub operations: Option<Vec<Operation>>,
    /// Accesses of all actors in one order, if the source has one.
    pub order: Option<Vec<Turn>>,
    /// What samples of a performance monitoring unit found, if the source has one.
    pub samples: Option<Vec<Sampled>>,
    /// What was merged or lost, and how much.
    pub losses: Vec<Loss>,
}

impl Evidence {
    /// No tables yet, only what ran.
    pub fn empty(run: Run) -> Evidence {
        Evidence {
            run,
            processes: Vec::new(),
            modules: Vec::new(),
            actors: Vec::new(),
            types: TypeTable::new(8),
            objects: Vec::new(),
            code: Vec::new(),
            accesses: Vec::new(),
            touches: Vec::new(),
            operations: None,
            order: None,
            samples: None,
            losses: Vec::new(),
        }
    }
}

/// Which tool produced the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `tussle record`.
    Recorder,
    /// `tussle record-kernel`.
    KernelRecorder,
    /// `tussle import`.
    Perf,
    /// `tussle predict`.
    Simulator,
}

/// What a source can see. `false` means unknown, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sees {
    /// Loads.
    pub reads: bool,
    /// Stores.
    pub writes: bool,
    /// Atomic read-modify-writes told apart from stores.
    pub rmws: bool,
    /// True object addresses, hence phases.
    pub phases: bool,
    /// Call chains.
    pub chains: bool,
    /// Lock operations.
    pub locks: bool,
    /// Times of accesses.
    pub time: bool,
}

impl Sees {
    /// Every access with its kind, place, time and callers; locks are accesses like others.
    pub const ACCESSES: Sees =
        Sees { reads: true, writes: true, rmws: true, phases: true, chains: true, locks: false, time: true };
}

/// Header of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Version of the file format.
    pub format_version: u32,
    /// Version of tussle that wrote it.
    pub tool_version: String,
    /// Producer.
    pub source: Source,
    /// Unit of counts: `accesses` or `HITM samples`.
    pub unit: String,
    /// Command and arguments.
    pub command: Vec<String>,
    /// Start, seconds since the epoch; `None` where determinism forbids it.
    pub started_unix_s: Option<f64>,
    /// Wall-clock length in seconds.
    pub duration_s: Option<f64>,
    /// Architecture (`x86_64`).
    pub arch: String,
    /// CPU model and number of CPUs the run could use.
    pub cpu_model: String,
    /// Number of CPUs that the run could use.
    pub cpus: u32,
    /// Cache line of that machine in bytes.
    pub line_bytes: u32,
    /// Window of virtual time in which accesses of different actors count as concurrent.
    pub window_vt: u64,
    /// What this source sees.
    pub sees: Sees,
    /// False when the writer was cut off.
    pub complete: bool,
}

impl Run {
    /// A complete run on an x86-64 machine with one CPU and 64-byte lines that counts accesses, of which nothing else
    /// is known; this version of tussle writes it. `window_vt` as the field has it.
    pub fn new(source: Source, window_vt: u64, sees: Sees) -> Run {
        Run {
            format_version: crate::file::MAJOR,
            tool_version: env!("CARGO_PKG_VERSION").into(),
            source,
            unit: "accesses".into(),
            command: Vec::new(),
            started_unix_s: None,
            duration_s: None,
            arch: "x86_64".into(),
            cpu_model: String::new(),
            cpus: 1,
            line_bytes: 64,
            window_vt,
            sees,
            complete: true,
        }
    }
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Operating system's id.
    pub pid: u32,
    /// Id of the process that forked it.
    pub parent: Option<u32>,
    /// Executable.
    pub exe: String,
    /// Build-id of the executable, hex.
    pub build_id: Option<String>,
    /// `exited`, `killed`, `exec`, `cut off`, ...
    pub end: String,
}

/// One mapped file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// Process id (index).
    pub process: u32,
    /// Path.
    pub path: String,
    /// Build-id, hex.
    pub build_id: Option<String>,
    /// First mapped address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Run-time address minus address in the file's debug information.
    pub bias: u64,
}

/// What an actor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A thread.
    Thread,
    /// A CPU.
    Cpu,
    /// Not known.
    Unknown,
}

/// Who accesses memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Actor {
    /// Process id (index).
    pub process: Option<u32>,
    /// Thread or CPU.
    pub kind: ActorKind,
    /// Thread id or CPU number.
    pub number: u32,
    /// Thread name.
    pub name: Option<String>,
    /// Actor that created it.
    pub creator: Option<u32>,
    /// Start routine (code id).
    pub start: Option<u32>,
    /// Virtual time of its first and last access.
    pub vt0: u64,
    /// End.
    pub vt1: u64,
}

/// What kind of memory an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// `malloc`, `new`, ...
    Heap,
    /// A global or static variable.
    Global,
    /// Thread-local storage.
    Tls,
    /// A thread's stack.
    Stack,
    /// `mmap`.
    Mapped,
    /// Kernel slab object.
    Slab,
    /// Kernel per-CPU variable.
    PerCpu,
    /// Not known; the object is then a page.
    Unknown,
}

/// A contiguous piece of memory with a life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Object {
    /// Process id (index).
    pub process: u32,
    /// Kind of memory.
    pub kind: ObjectKind,
    /// First byte's address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Variable name of globals; cache name of slab objects.
    pub name: Option<String>,
    /// Type of the object, or of its elements when `count` is above 1.
    pub ty: Option<TypeId>,
    /// Elements of that type, side by side.
    pub count: u64,
    /// How sure the type is, 0 to 1; 1 for debug information of a variable.
    pub confidence: f32,
    /// Why: `variable's type`, `sizeof at the allocation`, `vote of 12 of 13 code lines`.
    pub why: String,
    /// Alignment that its allocator guarantees, bytes; phases follow from it.
    pub align: u64,
    /// Allocation function (`malloc`).
    pub allocator: Option<String>,
    /// Code id of the allocation (its chain are the callers).
    pub alloc_code: Option<u32>,
    /// Actor that allocated it.
    pub alloc_actor: Option<u32>,
    /// Birth in virtual time.
    pub vt0: u64,
    /// Death; `None` while alive.
    pub vt1: Option<u64>,
    /// Objects of the same allocation site that were alive at most at the same time: what padding costs.
    pub live_max: u64,
}

impl Object {
    /// Memory of which only the place is known: no name, no type, alive for the whole run.
    pub fn unnamed(process: u32, kind: ObjectKind, base: u64, size: u64) -> Object {
        Object {
            process,
            kind,
            base,
            size,
            name: None,
            ty: None,
            count: 1,
            confidence: 0.0,
            why: String::new(),
            align: 1,
            allocator: None,
            alloc_code: None,
            alloc_actor: None,
            vt0: 0,
            vt1: None,
            live_max: 1,
        }
    }
}

/// A place in code, inlined frames included.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Function, demangled.
    pub function: String,
    /// Source file.
    pub file: String,
    /// 1-based, 0 when unknown.
    pub line: u32,
    /// 1-based, 0 when unknown.
    pub column: u32,
}

/// A code address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Code {
    /// Process id (index).
    pub process: u32,
    /// Module id.
    pub module: Option<u32>,
    /// Run-time address of the instruction (return address minus one for calls).
    pub address: u64,
    /// Innermost (inlined) function first; empty when it could not be named.
    pub frames: Vec<Frame>,
    /// Callers as code ids, nearest first, at most 8.
    pub chain: Vec<u32>,
}

/// Accesses of one actor to one byte range in one stretch of virtual time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// Object id.
    pub object: u32,
    /// First byte, from the object's start.
    pub offset: u64,
    /// Bytes.
    pub size: u32,
    /// Actor id.
    pub actor: u32,
    /// First access.
    pub vt0: u64,
    /// One past the last.
    pub vt1: u64,
    /// Loads.
    pub reads: u64,
    /// Plain and atomic stores.
    pub writes: u64,
    /// Atomic read-modify-writes (each both reads and writes; not contained in the other two).
    pub rmws: u64,
}

/// How code touches bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TouchKind {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Atomic read-modify-write.
    Rmw,
}

/// Code that touches a byte range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Touch {
    /// Object id.
    pub object: u32,
    /// First byte, from the object's start.
    pub offset: u64,
    /// Bytes.
    pub size: u32,
    /// Code id.
    pub code: u32,
    /// Actor id, if known.
    pub actor: Option<u32>,
    /// Read, write or RMW.
    pub kind: TouchKind,
    /// Times seen; a sample, not a count, for the recorder.
    pub samples: u64,
    /// Field that the expression in the source names here (`stats.hits`), where it could be read; filled by naming,
    /// `None` in raw recordings. It decides between members of a union. In parentheses instead: what the bytes were
    /// used for when they were no field at all, see [`Touch::role`].
    #[serde(default)]
    pub field: Option<String>,
}

impl Touch {
    /// `(freelist word)`, `(zeroed on allocation)`, `(RCU head)`: the allocator or RCU touched the bytes, not the
    /// code that owns the field.
    pub fn role(&self) -> Option<&str> {
        self.field.as_deref().filter(|f| f.starts_with('('))
    }
}

/// A lock taken and released inside of an operation: first visit under it, one past the last, object and offset of the
/// lock, shared with others (`None`: unknown).
pub type InnerLock = (u32, u32, u32, u64, Option<bool>);

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
}

/// Accesses of one actor that no access of another one interrupts, in order: one row of the ordered log. What repeats
/// itself while no other actor comes near (see `docs/evidence.md`) is there once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Actor id.
    pub actor: u32,
    /// In order: (object, offset, size, kind).
    pub visits: Vec<(u32, u64, u32, TouchKind)>,
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
}

/// Something merged, capped or lost while recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Process id (index), if it concerns one.
    pub process: Option<u32>,
    /// `pieces merged`, `memory cap`, `unsupported hook`, ...
    pub what: String,
    /// How many.
    pub count: u64,
    /// Bound on the effect, for people.
    pub note: String,
}
