// What functions do that are known by their symbols; included by the recorder in the emulator and by `tussle-rt`.

pub const MALLOC: u32 = 1;
pub const CALLOC: u32 = 2;
pub const REALLOC: u32 = 3;
pub const REALLOCARRAY: u32 = 4;
pub const ALIGNED_ALLOC: u32 = 5;
pub const MEMALIGN: u32 = 6;
pub const POSIX_MEMALIGN: u32 = 7;
/// Whole pages.
pub const VALLOC: u32 = 8;
/// Go's allocator: size and type.
pub const GO_MALLOC: u32 = 9;
pub const FREE: u32 = 10;
pub const MUTEX_LOCK: u32 = 11;
pub const MUTEX_TRY: u32 = 12;
pub const MUTEX_UNLOCK: u32 = 13;
pub const RW_READ: u32 = 14;
pub const RW_WRITE: u32 = 15;
pub const RW_UNLOCK: u32 = 16;
pub const SPIN_LOCK: u32 = 17;
pub const SPIN_UNLOCK: u32 = 18;
/// What was known of a lock's address is over.
pub const FORGET: u32 = 19;
pub const COND_WAIT: u32 = 20;
pub const COND_SIGNAL: u32 = 21;
pub const COND_BROADCAST: u32 = 22;
pub const BARRIER_INIT: u32 = 23;
pub const BARRIER_WAIT: u32 = 24;
pub const SEM_WAIT: u32 = 25;
pub const SEM_POST: u32 = 26;
pub const JOIN: u32 = 27;
/// A goroutine (second argument) may run.
pub const GO_READY: u32 = 28;
/// A goroutine (first argument) runs.
pub const GO_RUN: u32 = 29;
/// The stack becomes another goroutine's.
pub const GO_SWITCH: u32 = 30;
/// No function to watch, but code between the program and the allocator.
pub const BETWEEN_CODE: u32 = 31;
/// A semaphore is taken, or not, without waiting.
pub const SEM_TRY: u32 = 33;
/// A thread is created: its third argument is where it starts.
pub const CREATE: u32 = 32;
/// Something is done by whoever comes first: `pthread_once`, `call_once`.
pub const ONCE: u32 = 34;
/// The same for a static variable of a function; who gets 1 does it.
pub const GUARD_ACQUIRE: u32 = 35;
/// It is done.
pub const GUARD_RELEASE: u32 = 36;
/// gcc's OpenMP: the unnamed critical section begins and ends.
pub const OMP_CRITICAL: u32 = 37;
pub const OMP_CRITICAL_END: u32 = 38;
/// A part that is done in order.
pub const OMP_ORDERED: u32 = 39;
pub const OMP_ORDERED_END: u32 = 40;
/// A lock, or a critical section with a name: its first argument.
pub const OMP_LOCK: u32 = 41;
pub const OMP_UNLOCK: u32 = 42;
/// All of the team wait for each other.
pub const OMP_BARRIER: u32 = 43;
/// The next part of a loop that is done in order: waits for it, as [`OMP_ORDERED`] does, by the same code.
pub const OMP_NEXT: u32 = 44;
/// A team runs what the first argument is.
pub const OMP_PARALLEL: u32 = 45;

pub const ALLOCATIONS: core::ops::RangeInclusive<u32> = MALLOC..=GO_MALLOC;
/// Functions that take or leave a lock, which is their first argument.
pub const LOCKS: core::ops::RangeInclusive<u32> = MUTEX_LOCK..=SPIN_UNLOCK;
/// Functions of gcc's OpenMP that take or give a lock, or wait for others.
pub const OMP_WAITS: core::ops::RangeInclusive<u32> = OMP_CRITICAL..=OMP_NEXT;
