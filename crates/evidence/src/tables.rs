//! The tables of an evidence file as Rust structs. Column names are field names; `docs/evidence.md` explains them.
//!
//! Ids are indices into their table (row 0 has id 0). Virtual time (`vt`) counts accesses: each actor's clock advances
//! by its own accesses and is joined with others at create, join, barrier, condition and contended mutex only.

mod numbers;
mod order;
mod words;

pub use numbers::{Heat, Mark, MarkKind, Rate, RateOf, Sampled, Stretch, Transfer};
pub use order::{InnerLock, Operation, OperationKind, Schedule, Turn, WorkKind};
pub use words::{Basis, ELSEWHERE, OTHER_PROGRAMS, Role, Source, UNREAD, Unit};

use serde::{Deserialize, Serialize};
use tussle_model::{TypeId, TypeTable, is_fetched};

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
    /// What lies behind mappings, if the source looks: which memory of several processes is the same.
    pub regions: Option<Vec<Region>>,
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
    /// Lengths of the turns that actors took, if the source decides them.
    pub schedules: Option<Vec<Schedule>>,
    /// Accesses of all actors in one order, if the source has one.
    pub order: Option<Vec<Turn>>,
    /// Transfers of lines in a model of coherence, if the source has one.
    pub transfers: Option<Vec<Transfer>>,
    /// What samples of a performance monitoring unit found, if the source has one.
    pub samples: Option<Vec<Sampled>>,
    /// What was measured while the program ran natively, if the source does.
    pub rates: Option<Vec<Rate>>,
    /// Totals of every object's fields, also of those whose accesses are not kept, if the source counts them.
    pub heat: Option<Vec<Heat>>,
    /// What the program told of itself by name, if it told anything.
    pub marks: Option<Vec<Mark>>,
    /// Parts of the run in which accesses were counted, if not all were.
    pub stretches: Option<Vec<Stretch>>,
    /// What was merged or lost, and how much.
    pub losses: Vec<Loss>,
    /// The same work recorded again with turns of other lengths, each complete in itself and without others of its own.
    /// How long an actor goes on is nobody's choice on a machine: numbers of two are never added, nor is there a mean.
    pub others: Vec<Evidence>,
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
            regions: None,
            objects: Vec::new(),
            code: Vec::new(),
            accesses: Vec::new(),
            touches: Vec::new(),
            operations: None,
            schedules: None,
            order: None,
            transfers: None,
            samples: None,
            rates: None,
            heat: None,
            marks: None,
            stretches: None,
            losses: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Instructions of a turn, where the source decides them; `None` where that is not known.
    pub fn turn_instructions(&self) -> Option<u64> {
        Some(self.schedules.as_ref()?.first()?.turn_instructions)
    }

    /// This and [`Evidence::others`].
    pub fn turn_lengths(&self) -> impl Iterator<Item = &Evidence> {
        std::iter::once(self).chain(&self.others)
    }
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
    /// What calls that read and receive put into the program's memory is among the accesses, and no other way in
    /// (rings, devices) was noticed. Small results of other calls and futexes are never seen.
    #[serde(default)]
    pub kernel_writes: bool,
    /// Accesses to different bytes of a word of 8 are counted each by themselves, not told apart by samples.
    #[serde(default)]
    pub word_parts: bool,
}

impl Sees {
    /// Every access with its kind, place, time and callers; locks are accesses like others.
    pub const ACCESSES: Sees = Sees {
        reads: true,
        writes: true,
        rmws: true,
        phases: true,
        chains: true,
        locks: false,
        time: true,
        kernel_writes: false,
        word_parts: false,
    };

    /// Nothing: all is unknown.
    pub const NOTHING: Sees = Sees {
        reads: false,
        writes: false,
        rmws: false,
        phases: false,
        chains: false,
        locks: false,
        time: false,
        kernel_writes: false,
        word_parts: false,
    };
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
    /// What the counts of `accesses` and `samples` are.
    pub unit: Unit,
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
    /// Options with which the recording was made, as given.
    #[serde(default)]
    pub flags: Option<Vec<String>>,
    /// Compiler of the program, with its version.
    #[serde(default)]
    pub compiler: Option<String>,
    /// Seed of whatever the source drew at random.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Hash of the program's input, hex, with its kind (`crc32:89abcdef`).
    #[serde(default)]
    pub input_hash: Option<String>,
    /// All accesses that the source saw, those to memory whose rows are not kept included; `None` where it does not
    /// count.
    #[serde(default)]
    pub accesses: Option<u64>,
    /// Counts are estimates: about one of so many parts of the run was counted (table `stretches`). `None`: all of it.
    #[serde(default)]
    pub sample_every: Option<u32>,
}

impl Run {
    /// A complete run on an x86-64 machine with one CPU and 64-byte lines that counts accesses, of which nothing else
    /// is known; this version of tussle writes it. `window_vt` as the field has it.
    pub fn new(source: Source, window_vt: u64, sees: Sees) -> Run {
        Run {
            format_version: crate::file::MAJOR,
            tool_version: env!("CARGO_PKG_VERSION").into(),
            source,
            unit: Unit::Accesses,
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
            flags: None,
            compiler: None,
            seed: None,
            input_hash: None,
            accesses: None,
            sample_every: None,
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

/// What is behind a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backing {
    /// This process alone; pages after a fork are other lines although their addresses are the same.
    Private,
    /// A file's pages, those of shared-memory objects included: device, inode and offset tell which.
    File,
    /// Shared memory without a file that a process has from its parent: `parent` tells which.
    Inherited,
    /// Shared memory without a file, made by this process.
    Anonymous,
}

/// One mapping of one process. Bytes of two processes are the same memory when they have the same device, inode and
/// offset in the file, or when one mapping is inherited from the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// Process id (index).
    pub process: u32,
    /// First mapped address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// What is behind it; `None` where unknown.
    pub backing: Option<Backing>,
    /// Device of the file, as `stat` numbers it.
    pub device: Option<u64>,
    /// Inode of the file.
    pub inode: Option<u64>,
    /// Byte in the file at `start`.
    pub offset: Option<u64>,
    /// Region id (index) of the process that it was inherited from.
    pub parent: Option<u32>,
}

/// Alignment of what `malloc` gives without being asked for more, bytes (glibc on x86-64 and aarch64, musl).
pub const MALLOC_ALIGN: u64 = 16;

/// A heap object with a fight in it is kept as a whole up to this size, bytes, and counts as a whole: another layout
/// may bring any two of its fields together.
pub const WHOLE_BYTES: u64 = 4096;
/// Of anything larger, and of variables, this many bytes on both sides of a fight.
pub const NEAR_BYTES: u64 = 512;

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
    /// What the type rests on.
    #[serde(default)]
    pub basis: Option<Basis>,
    /// The same in words, for people only: `sizeof at the allocation, 12 of 13 code lines agree`.
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
    /// Region id: the mapping in which it lies.
    #[serde(default)]
    pub region: Option<u32>,
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
            basis: None,
            why: String::new(),
            align: 1,
            allocator: None,
            alloc_code: None,
            alloc_actor: None,
            vt0: 0,
            vt1: None,
            live_max: 1,
            region: None,
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

/// Where compilers and systems keep headers; C++'s library also elsewhere, below a folder of this name.
const SYSTEM_HEADERS: [&str; 3] = ["/usr/include/", "/usr/lib/gcc/", "/usr/lib/llvm-"];
const CXX_HEADERS: &str = "/include/c++/";

impl Frame {
    /// Code of a system header: a container's, a smart pointer's.
    pub fn is_of_system_header(&self) -> bool {
        is_of_system(&self.file)
    }
}

/// A source file that came with the system: the C library's or the C++ library's.
pub fn is_of_system(file: &str) -> bool {
    SYSTEM_HEADERS.iter().any(|h| file.starts_with(h)) || file.contains(CXX_HEADERS)
}

/// A source file that is nobody's to change: the system's, the Rust library's, a crate's that cargo fetched.
pub fn is_of_library(file: &str) -> bool {
    const COMPILED: [&str; 2] = ["/rustc/", "/rust/deps/"];
    let rust = COMPILED.iter().any(|r| file.starts_with(r)) || file.contains("/rustlib/src/");
    rust || is_fetched(file) || is_of_system(file)
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

/// Where threads were seen to take turns at a line of 64 bytes, and not why, this byte of the line stands for what
/// orders them in [`Access::held`]: no lock of several bytes begins there.
pub const TURN_BYTE: u64 = 1;

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
    /// The lock under which all of these accesses happened, where that is known.
    #[serde(default)]
    pub held: Option<Held>,
}

impl Access {
    /// Accesses of all kinds.
    pub fn total(&self) -> u64 {
        self.reads.saturating_add(self.writes).saturating_add(self.rmws)
    }
}

/// A lock that was held: its object, its offset there, the critical sections in which these bytes were accessed, and
/// those of them that stored to these bytes.
pub type Held = (u32, u64, u64, u64);

/// How code touches bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// `None` in raw recordings. It decides between members of a union. In kernel objects without a type it is the
    /// member of the struct that the code takes these bytes for, with the type (`struct pcpu_chunk.free_bytes`).
    #[serde(default)]
    pub field: Option<String>,
    /// What the bytes were used for when they were no field at all; then `field` is `None`.
    #[serde(default)]
    pub role: Option<Role>,
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
