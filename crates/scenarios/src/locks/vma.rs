//! The lock of one memory area, as scenario `vma_lock` has it: a semaphore in an object of its own, the same
//! semaphore merged into the area, or a reference count with a writer bit, a limit and a detached state.

use super::rwsem::Rwsem;
use tussle_sim::{Cell, Env, Spin};

/// Which per-area lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Semaphore in its own object, found through a pointer.
    Split,
    /// Semaphore inside the area.
    Merged,
    /// Reference count inside the area.
    Count,
}

impl Kind {
    /// All kinds with their names on the command line.
    pub const NAMES: [(&'static str, Kind); 3] =
        [("rwsem-split", Kind::Split), ("rwsem-merged", Kind::Merged), ("refcount", Kind::Count)];

    /// By its name on the command line.
    pub fn parse(name: &str) -> Option<Kind> {
        Kind::NAMES.iter().find(|(n, _)| *n == name).map(|(_, k)| *k)
    }
}

/// A reference count that is a lock: 0 detached, 1 attached, more with readers; the top bit is the writer's.
#[derive(Clone, Copy, Debug)]
pub struct RefLock {
    /// The count, 4 bytes.
    pub word: Cell,
    /// Task + 1 of the writer that waits for readers to leave, in the mm.
    pub waiter: Cell,
}

/// The writer is in, or waits for readers to leave.
pub const WRITER: u64 = 1 << 30;
/// More references than this are refused.
pub const LIMIT: u64 = WRITER - 2;

impl RefLock {
    /// Attaches the area: readers may come from now on. Needs the area's write side excluded (the mm's lock).
    pub async fn attach<E: Env>(&self, e: &E) {
        e.store(self.word, 1).await;
    }

    /// A reader tries to enter; false when detached, full, or a writer is there.
    pub async fn try_read<E: Env>(&self, e: &E) -> bool {
        let mut seen = e.load_for_cas(self.word).await;
        loop {
            if seen == 0 || seen >= LIMIT {
                return false;
            }
            let old = e.cas(self.word, seen, seen + 1).await;
            if old == seen {
                return true;
            }
            seen = old;
        }
    }

    /// A reader leaves and wakes a writer that waits for it.
    pub async fn put<E: Env>(&self, e: &E) {
        let now = e.add(self.word, -1).await - 1;
        if now & WRITER != 0 && now & !WRITER <= 1 {
            let who = e.load(self.waiter).await;
            if who != 0 {
                e.unpark(who as u32 - 1).await;
            }
        }
    }

    /// The writer bars readers and waits until those inside are gone. Needs the mm's write lock.
    pub async fn write_enter<E: Env>(&self, e: &E) {
        // A swap, not a store: the bit must not be set before others can see whom to wake.
        e.swap(self.waiter, u64::from(e.me()) + 1).await;
        e.add(self.word, WRITER as i64).await;
        while e.load(self.word).await & !WRITER > 1 {
            e.park().await;
        }
    }

    /// Readers may come again.
    pub async fn write_leave<E: Env>(&self, e: &E) {
        e.add(self.word, -(WRITER as i64)).await;
        e.store(self.waiter, 0).await;
    }

    /// The writer, inside, detaches the area: no reader will enter it again before it is attached anew.
    pub async fn detach<E: Env>(&self, e: &E) {
        let now = e.add(self.word, -(WRITER as i64) - 1).await as i64 - WRITER as i64 - 1;
        // Readers that came while the bit was set saw it and left; a late one may still hold a reference.
        let mut seen = now as u64;
        while seen != 0 {
            e.spin(Spin::on(self.word, seen)).await;
            seen = e.load(self.word).await;
        }
        e.store(self.waiter, 0).await;
    }
}

/// The lock of one area, of any kind.
#[derive(Clone, Debug)]
pub enum VmaLock {
    /// A semaphore and, when it lies elsewhere, the pointer to it; the sequence in the area that a writer sets.
    Sem {
        /// The semaphore.
        sem: Rwsem,
        /// The area's pointer to it.
        pointer: Option<Cell>,
        /// The area's copy of the mm's sequence while it is being written.
        seq: Cell,
        /// The area is no longer in the tree.
        detached: Cell,
    },
    /// A reference count.
    Count {
        /// The lock.
        lock: RefLock,
        /// The area's copy of the mm's sequence while it is being written.
        seq: Cell,
    },
}

impl VmaLock {
    /// A page fault tries to enter. `mm_seq` is the mm's sequence as read before.
    pub async fn try_read<E: Env>(&self, e: &E, mm_seq: u64) -> bool {
        match self {
            VmaLock::Sem { sem, pointer, seq, detached } => {
                if e.load(*seq).await == mm_seq {
                    return false;
                }
                if let Some(p) = pointer {
                    e.load(*p).await;
                }
                if !sem.try_read_lock(e).await {
                    return false;
                }
                if e.load(*seq).await == mm_seq || e.load(*detached).await != 0 {
                    sem.read_unlock(e).await;
                    return false;
                }
                true
            }
            VmaLock::Count { lock, seq } => {
                if e.load(*seq).await == mm_seq || !lock.try_read(e).await {
                    return false;
                }
                if e.load(*seq).await == mm_seq {
                    lock.put(e).await;
                    return false;
                }
                true
            }
        }
    }

    /// The page fault leaves.
    pub async fn read_unlock<E: Env>(&self, e: &E) {
        match self {
            VmaLock::Sem { sem, pointer, .. } => {
                if let Some(p) = pointer {
                    e.load(*p).await;
                }
                sem.read_unlock(e).await;
            }
            VmaLock::Count { lock, .. } => lock.put(e).await,
        }
    }

    /// A writer marks the area as being written until the mm's sequence moves on: waits for readers, then lets later
    /// ones fail by the sequence. Needs the mm's write lock.
    pub async fn write<E: Env>(&self, e: &E, mm_seq: u64) {
        match self {
            VmaLock::Sem { sem, seq, .. } => {
                sem.write_lock(e).await;
                e.store(*seq, mm_seq).await;
                sem.write_unlock(e).await;
            }
            VmaLock::Count { lock, seq } => {
                lock.write_enter(e).await;
                e.store(*seq, mm_seq).await;
                lock.write_leave(e).await;
            }
        }
    }

    /// A writer takes the area out of use; it is marked as written already.
    pub async fn detach<E: Env>(&self, e: &E) {
        match self {
            VmaLock::Sem { detached, .. } => drop(e.store(*detached, 1).await),
            VmaLock::Count { lock, .. } => {
                lock.write_enter(e).await;
                lock.detach(e).await;
            }
        }
    }

    /// The area comes into use.
    pub async fn attach<E: Env>(&self, e: &E) {
        match self {
            VmaLock::Sem { detached, .. } => drop(e.store(*detached, 0).await),
            VmaLock::Count { lock, .. } => lock.attach(e).await,
        }
    }
}
