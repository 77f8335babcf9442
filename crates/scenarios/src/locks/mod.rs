//! The locks, each written once against [`Env`](tussle_sim::Env): the same code runs simulated, in the explorer of all
//! interleavings, and on real atomics. Written from published descriptions, no kernel code.

pub mod mutex;
pub mod osq;
pub mod percpu;
pub mod rwsem;
pub mod rwsem_old;
pub mod seqcount;
pub mod spin;
pub mod vma;
pub mod wait;

use crate::nodes::Nodes;
use tussle_sim::{Cell, Env, Note};

/// Words of a sleeping lock inside an object: five fields that a mutex and a reader-writer semaphore both have.
#[derive(Clone, Copy, Debug)]
pub struct SleepWords {
    /// The semaphore's count; for a mutex its owner word.
    pub count: Cell,
    /// Who holds it.
    pub owner: Cell,
    /// Tail of the queue of optimistic spinners.
    pub osq: Cell,
    /// Spinlock of the wait list.
    pub wait_lock: Cell,
    /// First waiter.
    pub head: Cell,
    /// Last waiter.
    pub tail: Cell,
}

impl SleepWords {
    /// Names of the fields, in the order in which [`SleepWords::at`] expects their indices.
    pub const FIELDS: [&'static str; 6] =
        ["count", "owner", "osq", "wait_lock", "wait_list.next", "wait_list.prev"];

    /// Six consecutive fields of an object.
    pub fn at(first: Cell) -> SleepWords {
        let f = |i| first.field(i);
        SleepWords { count: f(0), owner: f(1), osq: f(2), wait_lock: f(3), head: f(4), tail: f(5) }
    }
}

/// A lock that lets its waiters sleep, of any kind, taken for writing.
#[derive(Clone, Debug)]
pub enum SleepLock {
    /// Mutex with optimistic spinning.
    Mutex(mutex::Mutex),
    /// Modern reader-writer semaphore.
    Rwsem(rwsem::Rwsem),
    /// Semaphore of Linux 3.10 in one of its generations.
    Old(rwsem_old::OldRwsem),
}

/// Which lock to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Mutex with optimistic spinning and hand-off.
    Mutex,
    /// Mutex with optimistic spinning, before hand-off was invented.
    Mutex310,
    /// Semaphore with hand-off and reader ownership.
    Rwsem,
    /// Semaphore of 3.10 without stealing, owner and spinning.
    RwsemFair,
    /// With stealing by writers: what 3.10 shipped.
    Rwsem310,
    /// And an owner on which writers spin.
    RwsemSpin,
    /// And no bias added while the lock is active.
    RwsemSkip,
}

impl Kind {
    /// All kinds with their names on the command line.
    pub const NAMES: [(&'static str, Kind); 7] = [
        ("mutex", Kind::Mutex),
        ("mutex-3.10", Kind::Mutex310),
        ("rwsem", Kind::Rwsem),
        ("rwsem-fair", Kind::RwsemFair),
        ("rwsem-3.10", Kind::Rwsem310),
        ("rwsem-spin", Kind::RwsemSpin),
        ("rwsem-skip", Kind::RwsemSkip),
    ];

    /// By its name on the command line.
    pub fn parse(name: &str) -> Option<Kind> {
        Kind::NAMES.iter().find(|(n, _)| *n == name).map(|(_, k)| *k)
    }
}

impl SleepLock {
    /// A lock of a kind on these words; `nodes` hold what its waiters put on their stacks.
    pub fn new(kind: Kind, words: SleepWords, nodes: &Nodes) -> SleepLock {
        let n = nodes.clone();
        let old = |steal, spin, skip_bias| {
            SleepLock::Old(rwsem_old::OldRwsem { words, nodes: nodes.clone(), steal, spin, skip_bias })
        };
        match kind {
            Kind::Mutex => SleepLock::Mutex(mutex::Mutex { words, nodes: n, spin: true, handoff: true }),
            Kind::Mutex310 => SleepLock::Mutex(mutex::Mutex { words, nodes: n, spin: true, handoff: false }),
            Kind::Rwsem => SleepLock::Rwsem(rwsem::Rwsem { words, nodes: n, spin: true, steal: true }),
            Kind::RwsemFair => old(false, false, false),
            Kind::Rwsem310 => old(true, false, false),
            Kind::RwsemSpin => old(true, true, false),
            Kind::RwsemSkip => old(true, true, true),
        }
    }

    /// Takes the lock exclusively.
    pub async fn lock<E: Env>(&self, e: &E) {
        e.note(Note::LockWait);
        match self {
            SleepLock::Mutex(l) => l.lock(e).await,
            SleepLock::Rwsem(l) => l.write_lock(e).await,
            SleepLock::Old(l) => l.write_lock(e).await,
        }
        e.note(Note::LockHeld);
    }

    /// Gives it up.
    pub async fn unlock<E: Env>(&self, e: &E) {
        e.note(Note::LockFree);
        match self {
            SleepLock::Mutex(l) => l.unlock(e).await,
            SleepLock::Rwsem(l) => l.write_unlock(e).await,
            SleepLock::Old(l) => l.write_unlock(e).await,
        }
    }

    /// Takes it shared (a mutex: exclusively).
    pub async fn lock_shared<E: Env>(&self, e: &E) {
        match self {
            SleepLock::Mutex(l) => l.lock(e).await,
            SleepLock::Rwsem(l) => l.read_lock(e).await,
            SleepLock::Old(l) => l.read_lock(e).await,
        }
    }

    /// Gives up a shared hold.
    pub async fn unlock_shared<E: Env>(&self, e: &E) {
        match self {
            SleepLock::Mutex(l) => l.unlock(e).await,
            SleepLock::Rwsem(l) => l.read_unlock(e).await,
            SleepLock::Old(l) => l.read_unlock(e).await,
        }
    }
}
