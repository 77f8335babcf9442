//! The reader-writer semaphore of Linux 3.10 and its neighbours: one signed count whose low half counts active tasks
//! and whose high half goes negative while tasks wait or a writer is active.

use super::SleepWords;
use super::osq::Osq;
use super::spin::Queued;
use super::wait::{READER, WRITER, WaitList};
use crate::nodes::Nodes;
use tussle_sim::{Env, Spin, SpinEnd};

const ACTIVE: i64 = 1;
const ACTIVE_MASK: i64 = 0xffff_ffff;
const WAITING: i64 = -(1 << 32);
const WRITE: i64 = WAITING + ACTIVE;

/// The semaphore.
#[derive(Clone, Debug)]
pub struct OldRwsem {
    /// Its words; `owner` and `osq` only matter with `spin`.
    pub words: SleepWords,
    /// Nodes of the tasks.
    pub nodes: Nodes,
    /// Any writer may take a lock that is free though others wait (3.10); otherwise it is granted in order.
    pub steal: bool,
    /// Writers spin while the owner runs (the first tweak of the mail behind scenario `anon_vma`).
    pub spin: bool,
    /// A writer that sees the lock active does not add its bias first (the second tweak).
    pub skip_bias: bool,
}

impl OldRwsem {
    fn wait_lock(&self) -> Queued {
        Queued { word: self.words.wait_lock, nodes: self.nodes.clone() }
    }

    fn list(&self) -> WaitList<'_> {
        WaitList { words: &self.words, nodes: &self.nodes }
    }

    async fn count<E: Env>(&self, e: &E) -> i64 {
        e.load(self.words.count).await as i64
    }

    /// Adds and returns the new count.
    async fn change<E: Env>(&self, e: &E, by: i64) -> i64 {
        (e.add(self.words.count, by).await as i64).wrapping_add(by)
    }

    async fn own<E: Env>(&self, e: &E) {
        if self.spin {
            e.store(self.words.owner, u64::from(e.me()) + 1).await;
        }
    }

    /// Takes it exclusively.
    pub async fn write_lock<E: Env>(&self, e: &E) {
        if self.skip_bias && self.count(e).await & ACTIVE_MASK != 0 {
            return self.write_slow(e, 0).await;
        }
        if self.change(e, WRITE).await == WRITE {
            return self.own(e).await;
        }
        self.write_slow(e, -WRITE).await;
    }

    /// `undo` takes back what the fast path has added.
    async fn write_slow<E: Env>(&self, e: &E, mut undo: i64) {
        if self.spin {
            if undo != 0 {
                self.change(e, undo).await;
                undo = 0;
            }
            if self.optimistic(e).await {
                return;
            }
        }
        let (lock, list) = (self.wait_lock(), self.list());
        let me = u64::from(e.me()) + 1;
        lock.lock(e).await;
        let was_empty = list.push(e, WRITER).await;
        let by = undo + if was_empty { WAITING } else { 0 };
        let count = if by == 0 { self.count(e).await } else { self.change(e, by).await };
        if self.steal {
            // Readers in front of us may go on if no writer is active.
            if count > WAITING && !was_empty {
                self.wake_first(e, &list, true).await;
            }
            while !self.try_steal(e, &list, me).await {
                lock.unlock(e).await;
                e.park().await;
                lock.lock(e).await;
            }
            list.remove(e, me).await;
            lock.unlock(e).await;
        } else {
            if count & ACTIVE_MASK == 0 {
                self.wake_first(e, &list, false).await;
            }
            lock.unlock(e).await;
            while !list.granted(e).await {
                e.park().await;
            }
        }
        self.own(e).await;
    }

    async fn try_steal<E: Env>(&self, e: &E, list: &WaitList<'_>, me: u64) -> bool {
        let alone = list.alone(e, me).await;
        let new = if alone { WRITE } else { WRITE + WAITING };
        self.count(e).await & ACTIVE_MASK == 0
            && e.cas(self.words.count, WAITING as u64, new as u64).await == WAITING as u64
    }

    async fn optimistic<E: Env>(&self, e: &E) -> bool {
        let osq = Osq { tail: self.words.osq, nodes: self.nodes.clone() };
        osq.one_at_a_time(e, self.spin_on_owner(e)).await
    }

    async fn spin_on_owner<E: Env>(&self, e: &E) -> bool {
        loop {
            let owner = e.load(self.words.owner).await;
            if owner != 0 {
                let task = owner as u32 - 1;
                if !e.on_cpu(task) {
                    return false;
                }
                let spin = Spin::on(self.words.owner, owner).or_resched().while_running(task);
                if e.spin(spin).await != SpinEnd::Changed {
                    return false;
                }
            }
            let seen = e.load_for_cas(self.words.count).await;
            if seen == 0 || seen as i64 == WAITING {
                if e.cas(self.words.count, seen, (seen as i64 + WRITE) as u64).await == seen {
                    self.own(e).await;
                    return true;
                }
                continue;
            }
            let owner = e.load(self.words.owner).await;
            if owner == 0 {
                // Between two owners, or readers: do not spin on readers for ever.
                let spin = Spin::on(self.words.count, seen).or_change(self.words.owner, 0).or_resched();
                if seen as i64 >= 0 || e.spin(spin).await == SpinEnd::Resched {
                    return false;
                }
            }
        }
    }

    /// Wakes the first waiter; needs the wait lock and no active task, unless `readers_only`.
    async fn wake_first<E: Env>(&self, e: &E, list: &WaitList<'_>, readers_only: bool) {
        let first = list.first(e).await;
        if first == 0 {
            return;
        }
        if list.kind(e, first).await == WRITER {
            if readers_only {
                return;
            }
            if self.steal {
                e.unpark(first as u32 - 1).await;
            } else {
                self.grant_writer(e, list, first).await;
            }
            return;
        }
        loop {
            let now = self.change(e, ACTIVE).await;
            if now - ACTIVE >= WAITING {
                break;
            }
            // A writer got in before us: it will wake them, unless it has gone already.
            if self.change(e, -ACTIVE).await & ACTIVE_MASK != 0 {
                return;
            }
        }
        let mut readers = Vec::new();
        let mut who = first;
        while who != 0 && list.kind(e, who).await == READER {
            let next = list.next(e, who).await;
            list.grant(e, who).await;
            readers.push(who);
            who = next;
        }
        let rest = if who == 0 { WAITING } else { 0 };
        let by = ACTIVE * (readers.len() as i64 - 1) - rest;
        if by != 0 {
            self.change(e, by).await;
        }
        for who in readers {
            e.unpark(who as u32 - 1).await;
        }
    }

    /// Without stealing the waker takes the lock on behalf of the first writer.
    async fn grant_writer<E: Env>(&self, e: &E, list: &WaitList<'_>, who: u64) {
        let by = if list.alone(e, who).await { WRITE - WAITING } else { WRITE };
        loop {
            let old = self.change(e, by).await - by;
            if old & ACTIVE_MASK == 0 {
                list.grant(e, who).await;
                e.unpark(who as u32 - 1).await;
                return;
            }
            if self.change(e, -by).await & ACTIVE_MASK != 0 {
                return;
            }
        }
    }

    async fn wake<E: Env>(&self, e: &E) {
        let (lock, list) = (self.wait_lock(), self.list());
        lock.lock(e).await;
        self.wake_first(e, &list, false).await;
        lock.unlock(e).await;
    }

    /// Gives up an exclusive hold.
    pub async fn write_unlock<E: Env>(&self, e: &E) {
        if self.spin {
            e.store(self.words.owner, 0).await;
        }
        let now = self.change(e, -WRITE).await;
        if now < 0 && now & ACTIVE_MASK == 0 {
            self.wake(e).await;
        }
    }

    /// Takes it shared.
    pub async fn read_lock<E: Env>(&self, e: &E) {
        if self.change(e, ACTIVE).await > 0 {
            return;
        }
        let (lock, list) = (self.wait_lock(), self.list());
        lock.lock(e).await;
        let was_empty = list.push(e, READER).await;
        let by = if was_empty { WAITING - ACTIVE } else { -ACTIVE };
        let count = self.change(e, by).await;
        // Nobody is active: the front of the queue may go. No writer is active and we are first: we may.
        if count == WAITING || (count > WAITING && was_empty) {
            self.wake_first(e, &list, false).await;
        }
        lock.unlock(e).await;
        while !list.granted(e).await {
            e.park().await;
        }
    }

    /// Gives up a shared hold.
    pub async fn read_unlock<E: Env>(&self, e: &E) {
        let now = self.change(e, -ACTIVE).await;
        if now < 0 && now & ACTIVE_MASK == 0 {
            self.wake(e).await;
        }
    }
}
