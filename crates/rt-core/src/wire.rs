// The layout of a raw recording, shared by the runtime (no_std) and the reader by `include!`.
//
// One file per process. All structures start on multiples of 64 bytes; a *reference* (`u32`) counts 64-byte units from
// the start of the file, 0 means none. Everything is written in place into a shared mapping, so that a file is as
// complete as the process was when it died. `docs/recorder.md` describes the life of each structure.

/// First eight bytes of every raw file, once its process has set it up.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TUSSLE\x01\x00");
/// Version of these structures; raw files are read only by the tussle that wrote them.
pub const VERSION: u32 = 7;
/// Window of virtual time, accesses. Synchronisation rounds clocks up to a multiple of it.
pub const WINDOW_VT: u64 = 65_536;
/// Bytes of a reference unit.
pub const UNIT: u64 = 64;
/// Entries of a thread's table of recently used lines.
pub const ENTRIES: usize = 512;
/// Bytes of a cache line in the recording, whatever the machine has.
pub const LINE: u64 = 64;
/// Pages of which a thread has the leaf at hand.
pub const PAGES_AT_HAND: usize = 256;
/// Touches of which a thread has the slot at hand.
pub const TOUCHES_AT_HAND: usize = 64;
/// Frames kept of a shadow call stack before it wraps.
pub const FRAMES: usize = 512;
/// Callers in a call chain.
pub const CHAIN: usize = 8;
/// Codes per chunk.
pub const CODES_PER_CHUNK: usize = 16;
/// `Entry::rec` bit: the entry has counts in `Live::rmw`.
pub const RMW_FLAG: u32 = 0x8000_0000;
/// No thread.
pub const NONE: u32 = u32::MAX;
/// Shards of the heap table.
pub const HEAP_SHARDS: usize = 64;
/// `Entry::key` bit of all entries while the thread's critical section is traced: no address matches then.
pub const HIDDEN: u64 = 1 << 63;
/// Locks that a thread is known to hold at the same time.
pub const HELD: usize = 8;
/// Visits of a traced section; what comes after is counted as cut.
pub const VISITS: usize = 192;
/// `Live::open` while a window is traced.
pub const WINDOW: u32 = 2;
/// Windows of accesses under no lock are sections of a lock at this address, where nothing can be.
pub const NO_LOCK: u64 = 1;
/// Visits per block.
pub const VISITS_PER_BLOCK: usize = 3;
/// Value of a counter that has not counted: it turns negative after `COUNT_SPAN` steps.
pub const COUNT_START: u16 = 0x8000 - COUNT_SPAN;
/// Accesses that a counter of an entry takes before it is emptied.
pub const COUNT_SPAN: u16 = 512;

/// How a process ended, as far as it could write it down.
pub const END_RUNNING: u32 = 0;
/// It ran its exit handlers.
pub const END_EXITED: u32 = 1;
/// It called `_exit`.
pub const END_UNDERSCORE_EXIT: u32 = 2;
/// It executed another program, of which nothing is recorded.
pub const END_REPLACED: u32 = 3;

/// Counters of what was lost, indices into [`Header::losses`].
pub const LOST_NO_MEMORY: usize = 0;
/// Stretches of virtual time merged because a line had too many.
pub const LOST_PIECES: usize = 1;
/// Accesses by signal handlers that interrupted the recorder.
pub const LOST_REENTRANT: usize = 2;
/// Code samples dropped because a line had too many.
pub const LOST_TOUCHES: usize = 3;
/// Allocations that found no room in the heap table.
pub const LOST_OBJECTS: usize = 4;
/// Address reuses merged into one object.
pub const LOST_GENERATIONS: usize = 5;
/// Calls of hooks that record nothing (Java, fibers, ...).
pub const LOST_UNSUPPORTED: usize = 6;
/// Code addresses beyond the limit.
pub const LOST_CODES: usize = 7;
/// Threads that could not be recorded.
pub const LOST_THREADS: usize = 8;
/// Accesses in signal handlers or after the thread's end.
pub const LOST_AFTER_END: usize = 9;
/// Critical sections under locks that had no room to be counted.
pub const LOST_LOCKS: usize = 10;
/// Traced sections that were cut, or dropped for want of memory.
pub const LOST_SECTIONS: usize = 11;
/// Locks, conditions and semaphores that had to be forgotten for others: their next join may be missed.
pub const LOST_SLOTS: usize = 12;
/// Forked children for which there was neither a file nor room.
pub const LOST_CHILDREN: usize = 13;
/// Rings through which the kernel writes memory unseen.
pub const LOST_KERNEL: usize = 14;
/// 1 when the recorder makes no system call any more, because the program took them away.
pub const LOST_SANDBOX: usize = 15;
/// Times that counting could not be stopped or begun, because the system does not let code be changed.
pub const LOST_SWITCHES: usize = 16;
/// How many counters there are.
pub const LOST_COUNT: usize = 17;

/// First 4,096 bytes of a file.
#[repr(C, align(64))]
pub struct Header {
    pub magic: u64,
    pub version: u32,
    pub pid: u32,
    pub ppid: u32,
    /// Sequence number among files of one pid (exec keeps the pid).
    pub seq: u32,
    /// Set in forked children: the pid and sequence number of the parent's file.
    pub parent_pid: u32,
    pub parent_seq: u32,
    /// Where the file is mapped.
    pub base: u64,
    /// Size of the mapping in bytes.
    pub cap: u64,
    /// Bytes handed out.
    pub used: u64,
    /// Bytes known to be backed by memory or disk.
    pub ready: u64,
    pub window_vt: u64,
    pub end: u32,
    pub end_status: u32,
    /// First of a list of [`ThreadInfo`].
    pub threads: u32,
    pub threads_count: u32,
    /// First of a list of [`Text`] blocks with `/proc/self/maps`.
    pub maps: u32,
    /// [`Text`] with the executable's path, then the command line.
    pub exe: u32,
    pub cmdline: u32,
    /// Slots in heap shards (log2) and references to them.
    pub heap_bits: [u8; HEAP_SHARDS],
    pub heap: [u32; HEAP_SHARDS],
    pub losses: [u64; LOST_COUNT],
    /// Name of the first unsupported hook that was called, zero-terminated.
    pub unsupported: [u8; 64],
    /// Parent's virtual time at fork.
    pub fork_vt: u64,
    /// Starts of objects that had been alive at fork lie in the parent's file.
    pub forked: u32,
    /// 1 if critical sections are sampled.
    pub operations: u32,
    /// First of a list of [`Site`].
    pub sites: u32,
    pub sites_count: u32,
    /// Memory of pieces, bytes.
    pub piece_bytes: u64,
    /// Address of the function that starts threads: part of every thread's call chain, and no news.
    pub thread_start: u64,
    /// Memory of locks, sections and visits, bytes.
    pub section_bytes: u64,
    /// First of a list of [`Nested`]: children that lie in this file.
    pub nested: u32,
    /// Inode of the namespace that `pid` is of; 0 if unknown.
    pub pid_namespace: u32,
    /// [`Text`] with the mappings of the emulator that runs the program; 0 if there is none.
    pub emulator: u32,
    /// 1 if only what happens in marked regions is counted.
    pub regions_marked: u32,
    /// Regions that began, and the name of the first one, zero-terminated.
    pub regions_begun: u64,
    pub region: [u8; 64],
    /// First of a list of [`NameTold`]s, and how many there are.
    pub marks: u32,
    pub marks_count: u32,
    /// First of a list of [`Stretch`]es.
    pub stretches: u32,
    /// 1 if it was asked that counting be off for a part of the run.
    pub told: u32,
    /// Stretches are a sample of the run: about one of so many parts of it was counted. 0 if they are all of it.
    pub sample_every: u32,
    pub pad: u32,
}

/// A stretch of the run in which accesses were counted because that was asked.
#[repr(C, align(64))]
pub struct Stretch {
    pub next: u32,
    pub pad: u32,
    /// No access of it is earlier, none of the one before is later.
    pub vt0: u64,
}

/// A name that the program told: of types, or of operations, with how many of them ended, all threads together.
#[repr(C, align(64))]
pub struct NameTold {
    pub next: u32,
    /// [`Text`] with the name.
    pub name: u32,
    pub count: u64,
}

/// Set in [`HeapSlot::descriptor`] where the program told the name of the type: the reference of a [`NameTold`].
pub const TOLD: u64 = 1 << 63;
/// Set in [`HeapSlot::base`] of a part of an object, which the program told of: it may begin where the object does.
pub const PART: u64 = 1 << 62;

/// A forked child's recording inside of its parent's file, for want of a file of its own: a [`Header`] follows.
#[repr(C, align(64))]
pub struct Nested {
    pub next: u32,
    pub pad: u32,
    pub bytes: u64,
}

/// Text of any length; `next` chains snapshots of the same thing, newest first.
#[repr(C, align(64))]
pub struct Text {
    pub next: u32,
    pub len: u32,
    /// Reference of the block with what follows; 0 at the text's end.
    pub more: u32,
    pub pad: u32,
    // bytes follow
}

/// A thread, kept after its end.
#[repr(C, align(64))]
pub struct ThreadInfo {
    pub next: u32,
    pub index: u32,
    pub tid: u32,
    pub creator: u32,
    /// Start routine.
    pub start: u64,
    /// Return address of the `pthread_create` call.
    pub create_pc: u64,
    pub vt0: u64,
    pub vt1: u64,
    /// 0 once it ended.
    pub live: u32,
    /// Hash table of pages and its size (log2).
    pub pages: u32,
    pub pages_bits: u32,
    pub pages_count: u32,
    /// Hash table of codes, its size (log2), number of codes, first chunk (in order of ids).
    pub codes: u32,
    pub codes_bits: u32,
    pub codes_count: u32,
    pub chunks: u32,
    pub last_chunk: u32,
    /// Hash table of [`Lock`]s, its size (log2), locks in it.
    pub locks: u32,
    pub locks_bits: u32,
    pub locks_count: u32,
    pub stack_lo: u64,
    pub stack_hi: u64,
    /// Thread pointer (fs base).
    pub tp: u64,
    /// Accesses that were passed over because counting was off.
    pub skipped: u64,
    pub name: [u8; 16],
    /// How often it had waited when it created its latest thread. 1 if nobody joins it.
    pub waits: u64,
    pub detached: u32,
}

/// A recently used line.
#[repr(C, align(64))]
pub struct Entry {
    /// Address of the line; 0 when empty.
    pub key: u64,
    /// Bytes that this thread has ever read or written in it.
    pub rmask: u64,
    pub wmask: u64,
    /// Low half of the thread's clock when the entry was filled.
    pub vt0: u32,
    /// Reference of its [`Record`], and [`RMW_FLAG`].
    pub rec: u32,
    /// Reads of eight words, then writes; from [`COUNT_START`] up.
    pub cnt: [u16; 16],
}

/// Frame of a shadow call stack.
#[repr(C)]
pub struct Frame {
    /// Return address; in the upper 16 bits, how many inlined functions with hooks of their own have begun in it.
    pub pc: u64,
    pub sp: u64,
}

impl Frame {
    /// Return address alone.
    #[inline(always)]
    pub fn caller(&self) -> u64 {
        self.pc << 16 >> 16
    }
}

/// Shortcut from code address and caller to a code id.
#[repr(C)]
pub struct CodeCache {
    pub pc: u64,
    pub top: u64,
    pub depth: u32,
    pub code: u32,
}

/// Shortcut from page to leaf.
#[repr(C)]
pub struct PageCache {
    pub page: u64,
    pub leaf: u64,
}

/// State of a running thread. The hooks in assembly know the offsets of `entries`, `rmw`, `frames` and `depth`.
#[repr(C, align(64))]
pub struct Live {
    pub entries: [Entry; ENTRIES],
    /// Read-modify-writes per entry and word.
    pub rmw: [[u16; 8]; ENTRIES],
    pub frames: [Frame; FRAMES],
    /// Top of the shadow stack, in bytes from `frames`; 0 where nothing is recorded. The frame at one is the bottom.
    pub depth: u32,
    /// While hooks pass accesses over: how many more until they tell; it turns negative then.
    pub skip: i32,
    /// 1 unless the thread is inside the recorder (signals are then deferred) or not recorded.
    pub free: core::sync::atomic::AtomicU32,
    /// Not 0 while a critical section is traced and all keys are hidden; 2 while a lock's own words are accessed.
    pub traced: u32,
    /// 1 while a section is to be written down at its end, [`WINDOW`] while a window of accesses under no lock is.
    pub open: u32,
    /// Virtual time: accesses flushed so far, plus what synchronisation added. Other threads look at it.
    pub vt: core::sync::atomic::AtomicU64,
    /// Counts synchronisation; runs of different epochs merge only if they look alike.
    pub epoch: u32,
    /// Reference of the [`ThreadInfo`].
    pub info: u32,
    /// Clock at the last synchronisation.
    pub sync_vt: u64,
    /// Start of the current burst of thread creation.
    pub burst_vt: u64,
    /// Next cell boundary at which stale entries are flushed.
    pub sweep_vt: u64,
    /// Free space for records.
    pub slab: u64,
    pub slab_end: u64,
    pub fills: u64,
    /// Line that came into the table last.
    pub latest: u64,
    /// The processor that it was seen on last, from 1, and how often it has waited.
    pub processor: u32,
    pub waited: u32,
    /// Entries in use.
    pub used: [u64; ENTRIES / 64],
    pub code_cache: [CodeCache; 32],
    pub page_cache: [PageCache; PAGES_AT_HAND],
    /// Address, as the mapping sees it, of the `ThreadInfo`.
    pub info_at: u64,
    /// Reference of the next free `Live`.
    pub next_free: core::sync::atomic::AtomicU64,
    pub dither: u32,
    /// Locks held, in the order in which they were taken.
    pub held_count: u32,
    pub held: [Held; HELD],
    pub lock_cache: [LockCache; 16],
    /// The open section: its [`Lock`]'s address, its number, start, accesses, and those since the latest visit began.
    pub section_lock: u64,
    pub section_number: u64,
    pub section_vt0: u64,
    pub section_accesses: u64,
    /// Virtual time from which on the next window of accesses under no lock may begin.
    pub window_vt: u64,
    pub section_gap: u32,
    pub section_shared: u32,
    pub visits_count: u32,
    /// 1 if the thread tells of its operations (`tussle.h`): windows of accesses under no lock are whole ones then.
    pub tells_operations: u32,
    pub regions_begun: u32,
    /// What `skip` began at.
    pub skip_from: i32,
    /// Accesses that were passed over, but for those that `skip` counts now.
    pub skipped: u64,
    /// Of a sampled run: 1 while it is in a stretch that is counted, which ends at this clock, or when `skip` is less.
    pub within: u32,
    pub skip_end: i32,
    pub stretch_end: u64,
    pub visits: [Visit; VISITS],
    /// Dropped [`Section`]s and [`VisitBlock`]s, to be used again.
    pub free_sections: u32,
    pub free_blocks: u32,
    /// Sections kept of all locks.
    pub sections_kept: u32,
    /// 1 while a signal waits until the thread leaves the recorder; all signals are blocked then.
    pub deferred: core::sync::atomic::AtomicU32,
    /// The signals blocked before that.
    pub signal_mask: core::sync::atomic::AtomicU64,
    /// 1 if the thread can be cancelled at any instruction: it blocks signals whenever it enters; 2 while inside.
    pub asynchronous: core::sync::atomic::AtomicU32,
    /// A queueing signal that was deferred and comes before others of its number; 0 if none. Its `siginfo_t`.
    pub saved_signal: u32,
    pub saved: [u32; 32],
    /// Atomic words that the thread looked at, see `waits`.
    pub looks: [Look; LOOKS],
    /// The one that it looked at last; 0 if none.
    pub looked: u64,
    /// The one that it changed last with one instruction, 0 if none; the last few, and which of these came last.
    pub took: u64,
    pub takes: [Take; TAKES],
    pub last_take: u64,
    /// How it came in to a word, see `readers`.
    pub came: Came,
    /// The lock that it seemed to have when it went to sleep for something else, 0 if none, see `sleepers`.
    pub slept_with: u64,
    /// The word that it counted down last, 0 if none, and its looks at it since, see `latches`.
    pub counted: u64,
    pub counted_looks: u64,
    /// Since when it has had locks.
    pub since: [Since; HELD],
    pub since_next: u64,
    /// Words of which it told others, see `waits`.
    pub told: [Told; LOOKS],
    pub guard: Guard,
    pub monitor: Monitor,
    /// A lock that it tried in vain, and for how long that had been held before.
    pub tried: u64,
    pub tried_before: u64,
    /// See `standing`: its place from 1, its clock when last joined, 1 if it has done nothing since it began.
    pub standing: u32,
    pub step_vt: u64,
    pub fresh: u64,
    /// What it is about to do once, see the runtime's `once.rs`.
    pub once: u64,
    /// Words that may be locks, and how many of their sections it ended, see `early`.
    pub early: [[u64; 2]; LOOKS],
    pub touch_cache: [TouchCache; TOUCHES_AT_HAND],
    /// Lines that others use, too, see `company`.
    pub watched: [Watched; WATCHED],
    /// Of them those that it came to since it last gave anything away.
    pub stays: [Watched; STAYS],
    pub stays_count: u32,
    /// Counts of lines that nobody else uses so far.
    pub nobody: u64,
    /// What it knows of others, see `order`.
    pub order: Ordered,
}

/// When a thread took a lock that it may still have; 0 if none.
#[repr(C)]
pub struct Since {
    pub lock: u64,
    /// Its clock, less the time in which it was set forward as nobody's work.
    pub vt: u64,
}

/// A word of which a thread told others; 0 if none.
#[repr(C)]
pub struct Told {
    pub addr: u64,
    /// Its clock when it changed the word last.
    pub vt: u64,
}

/// Shortcut from a record (reference, high half) and a touch's key to the address of its slot.
#[repr(C)]
pub struct TouchCache {
    pub what: u64,
    pub slot: u64,
}

include!("words.rs");

/// A lock that the thread holds, and how often.
#[repr(C)]
pub struct Held {
    pub addr: u64,
    pub times: u32,
    /// 1 if it was taken together with other readers.
    pub shared: u32,
}

/// Shortcut from a lock's address to its [`Lock`].
#[repr(C)]
pub struct LockCache {
    pub addr: u64,
    pub at: u64,
}

/// Set in the address of a [`Lock`] that stands for sections which several readers may be in.
pub const LOCK_SHARED: u64 = 1 << 63;

/// A lock as one thread used it: sections under it as the outermost lock held, and a sample of them.
#[repr(C, align(64))]
pub struct Lock {
    /// Address; 0 when free.
    pub addr: u64,
    /// Sections begun.
    pub count: u64,
    /// Number of the section to trace next.
    pub next: u64,
    /// First of a list of [`Section`]s, newest first, and how many.
    pub sections: u32,
    pub kept: u32,
    /// One section is traced of every two to the power of this.
    pub shift: u32,
    /// 1 if the word at its address tells of it: code that is not recorded may take and give it, too.
    pub by_word: u32,
}

/// A traced critical section.
#[repr(C, align(64))]
pub struct Section {
    pub next: u32,
    /// First of a list of [`VisitBlock`]s, and the number of visits.
    pub blocks: u32,
    pub visits: u32,
    /// 1 if it had more accesses or visits than are traced.
    pub cut: u32,
    /// 1 if the lock was taken together with other readers.
    pub shared: u32,
    pub pad: u32,
    /// Which stretch of the lock's sections it stands for, see [`Lock::shift`].
    pub stratum: u64,
    pub vt0: u64,
    pub vt1: u64,
}

/// Consecutive visits of a section.
#[repr(C, align(64))]
pub struct VisitBlock {
    pub next: u32,
    pub pad: u32,
    pub visits: [Visit; VISITS_PER_BLOCK],
}

/// Accesses to one word, or a range of a line, in a row; or an inner lock taken or about to be released.
#[repr(C)]
pub struct Visit {
    /// Address (48 bits), size in bytes (8 bits), kind (8 bits): of access, or [`TAKEN`] and its neighbours.
    pub what: u64,
    /// Accesses since the previous visit began, the first one of that visit not counted.
    pub gap: u64,
}

/// Slot of a thread's page table.
#[repr(C)]
pub struct PageSlot {
    /// Page number plus 1; 0 when free.
    pub page: u64,
    /// Reference of 64 references to [`Record`]s.
    pub leaf: u32,
    pub pad: u32,
}

/// What one thread did to one line: one cache line, as long as it did little there.
#[repr(C, align(64))]
pub struct Record {
    /// Start of the current run; `u64::MAX` before the first one.
    pub vt0: u64,
    pub rmask: u64,
    pub wmask: u64,
    /// First touch, see [`slot`].
    pub touch0: u64,
    /// Length of the run, virtual time.
    pub span: u32,
    pub epoch: u32,
    /// Reference of a [`More`].
    pub more: u32,
    /// Reference of the last of its [`PieceBlock`]s, to have it at hand.
    pub last: u32,
    /// Reads of eight words, then writes.
    pub small: [u8; 16],
}

/// What a line has that was used again later or much, by several places in code, or by atomic operations.
#[repr(C, align(64))]
pub struct More {
    /// End of the latest earlier run.
    pub vt1: u64,
    /// Reference of eight `u32`: read-modify-writes of the run.
    pub rmw: u32,
    pub touches: u32,
    /// Last gap between visits, in virtual time.
    pub gap: u32,
    /// Earlier runs, and their bytes (`pieces.rs`): the first of them here, the others in a list of [`PieceBlock`]s.
    pub pieces: u32,
    pub bytes: u32,
    pub next: u32,
    /// Reference of 16 `u32`: what the run counted beside [`Record::small`].
    pub words: u32,
    /// Reference of a [`Company`].
    pub company: u32,
    pub first: [u8; PIECE_BYTES_FIRST],
}

/// Bytes of earlier runs in a [`More`], and in each [`PieceBlock`].
pub const PIECE_BYTES_FIRST: usize = 24;
pub const PIECE_BYTES: usize = 60;

/// More bytes of earlier runs.
#[repr(C, align(64))]
pub struct PieceBlock {
    pub next: u32,
    pub bytes: [u8; PIECE_BYTES],
}

/// More touches of a record.
#[repr(C, align(64))]
pub struct Touches {
    pub next: u32,
    pub pad: u32,
    pub slots: [u64; 7],
}

/// A code address with its callers.
#[repr(C)]
pub struct CodeRow {
    pub pc: u64,
    pub count: u64,
    pub chain: [u64; CHAIN],
}

/// Codes of a thread in order of their ids (from 1).
#[repr(C, align(64))]
pub struct CodeChunk {
    pub next: u32,
    pub pad: u32,
    pub hash: [u32; 14],
    pub rows: [CodeRow; CODES_PER_CHUNK],
}

/// A heap object; older objects at the same address hang on `older`.
#[repr(C, align(64))]
pub struct HeapSlot {
    /// Address; 0 when free.
    pub base: u64,
    pub size: u64,
    pub vt0: u64,
    /// `u64::MAX` while alive.
    pub vt1: u64,
    /// Code id in the table of `thread`.
    pub code: u32,
    /// Index of the allocating thread.
    pub thread: u32,
    /// Reference of an older `HeapSlot`.
    pub older: u32,
    /// Index of the allocation function in [`ALLOCATORS`].
    pub allocator: u16,
    pub generations: u16,
    /// Reference of the [`Site`].
    pub site: u32,
    pub align: u32,
    /// Address of the type's description that the allocator was given (Go); 0 if none.
    pub descriptor: u64,
}

/// An allocation site of one thread: how many of its objects live.
#[repr(C, align(64))]
pub struct Site {
    pub next: u32,
    pub thread: u32,
    pub code: u32,
    /// How many of its objects other threads have freed.
    pub passed: u32,
    pub live: u64,
    pub live_max: u64,
    pub total: u64,
}

/// Names of allocation functions.
#[rustfmt::skip]
pub const ALLOCATORS: [&str; 19] = [
    "malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign", "valloc", "pvalloc", "reallocarray",
    "operator new", "operator new[]", "operator new(nothrow)", "operator new[](nothrow)", "operator new(align)",
    "operator new[](align)", "mmap", "operator new(align, nothrow)", "runtime.mallocgc", "tussle_type",
];

/// Position of what the program told, in [`ALLOCATORS`].
pub const ALLOCATOR_TOLD: u16 = 18;

/// Kinds of access.
pub const READ: u32 = 0;
pub const WRITE: u32 = 1;
pub const RMW: u32 = 2;
/// Kinds of visits that are no accesses: an inner lock was taken, taken together with other readers, is released.
pub const TAKEN: u32 = 3;
pub const TAKEN_SHARED: u32 = 4;
pub const RELEASED: u32 = 5;

/// A touch slot: code (24 bits), byte in the word (3), size code (3), kind (2), words (8), samples (24).
pub mod slot {
    /// Size code for pieces of ranges: whole words.
    pub const RANGE: u32 = 7;
    /// Bits that identify the touch.
    pub const KEY: u64 = 0xffff_ffff;
    /// The identifying bits.
    #[inline(always)]
    pub fn key(code: u32, byte: u32, size: u32, kind: u32) -> u64 {
        (code & 0xff_ffff) as u64 | (((byte & 7) | (size & 7) << 3 | (kind & 3) << 6) as u64) << 24
    }
    /// Adds a sample of a word.
    #[inline(always)]
    pub fn add(slot: u64, word: u32) -> u64 {
        let s = slot | 1 << (32 + (word & 7));
        if s >> 40 < 0xff_ffff { s + (1 << 40) } else { s }
    }
}
