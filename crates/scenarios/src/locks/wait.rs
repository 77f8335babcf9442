//! The wait list of sleeping locks: doubly linked waiters, protected by the lock's own spinlock.

use super::SleepWords;
use crate::nodes::Nodes;
use tussle_sim::Env;

const NEXT: u32 = 5;
const PREV: u32 = 6;
const KIND: u32 = 7;
const GRANTED: u32 = 8;

/// A waiter that wants to write.
pub const WRITER: u64 = 1;
/// A waiter that wants to read.
pub const READER: u64 = 2;

/// The list of one lock. All functions need its `wait_lock`.
pub struct WaitList<'a> {
    /// Words of the lock.
    pub words: &'a SleepWords,
    /// Nodes of the tasks.
    pub nodes: &'a Nodes,
}

impl WaitList<'_> {
    /// First waiter (task + 1), 0 when empty.
    pub async fn first<E: Env>(&self, e: &E) -> u64 {
        e.load(self.words.head).await
    }

    /// `who` is the only waiter.
    pub async fn alone<E: Env>(&self, e: &E, who: u64) -> bool {
        e.load(self.words.head).await == who && e.load(self.words.tail).await == who
    }

    /// What a waiter wants.
    pub async fn kind<E: Env>(&self, e: &E, who: u64) -> u64 {
        e.load(self.nodes.cell(who, KIND)).await
    }

    /// The waiter behind `who`.
    pub async fn next<E: Env>(&self, e: &E, who: u64) -> u64 {
        e.load(self.nodes.cell(who, NEXT)).await
    }

    /// Appends the calling task; true when the list was empty.
    pub async fn push<E: Env>(&self, e: &E, kind: u64) -> bool {
        let me = u64::from(e.me()) + 1;
        let n = self.nodes;
        let tail = e.load(self.words.tail).await;
        e.store(n.cell(me, KIND), kind).await;
        e.store(n.cell(me, GRANTED), 0).await;
        e.store(n.cell(me, NEXT), 0).await;
        e.store(n.cell(me, PREV), tail).await;
        let behind = if tail == 0 { self.words.head } else { n.cell(tail, NEXT) };
        e.store(behind, me).await;
        e.store(self.words.tail, me).await;
        tail == 0
    }

    /// Takes a waiter out.
    pub async fn remove<E: Env>(&self, e: &E, who: u64) {
        let n = self.nodes;
        let next = e.load(n.cell(who, NEXT)).await;
        let prev = e.load(n.cell(who, PREV)).await;
        let front = if prev == 0 { self.words.head } else { n.cell(prev, NEXT) };
        let back = if next == 0 { self.words.tail } else { n.cell(next, PREV) };
        e.store(front, next).await;
        e.store(back, prev).await;
    }

    /// Gives a waiter what it wants, without waking it yet.
    pub async fn grant<E: Env>(&self, e: &E, who: u64) {
        self.remove(e, who).await;
        e.store(self.nodes.cell(who, GRANTED), 1).await;
    }

    /// The calling task was granted its wish.
    pub async fn granted<E: Env>(&self, e: &E) -> bool {
        e.load(self.nodes.cell(u64::from(e.me()) + 1, GRANTED)).await == 1
    }
}
