//! The modern reader-writer semaphore: one count with a writer bit, a waiters bit, a hand-off bit and a reader count;
//! an owner word for spinning; optimistic spinning by writers, for readers only a while; lock stealing; hand-off to a
//! starving waiter.

use super::SleepWords;
use super::osq::Osq;
use super::spin::Queued;
use super::wait::{READER, WRITER, WaitList};
use crate::nodes::Nodes;
use tussle_sim::{Env, Note, Spin, SpinEnd};

/// A writer holds it.
const WRITER_LOCKED: u64 = 1;
/// There are waiters.
const WAITERS: u64 = 2;
/// The first waiter is next.
const HANDOFF: u64 = 4;
/// One reader.
const READER_BIAS: u64 = 1 << 8;
/// Held by anyone.
const LOCK_MASK: u64 = WRITER_LOCKED | !(READER_BIAS - 1);
/// In the owner word: some reader holds it.
const READER_OWNED: u64 = 1;
/// In the owner word: a writer has spun for readers long enough, nobody spins until a writer has held the lock.
const NONSPINNABLE: u64 = 2;
/// How long a writer spins while readers hold the lock, ns, and how much longer for each of them, up to a number of
/// readers: 10 to 25 µs. Linux since 5.3, from the comments of kernel/locking/rwsem.c: long enough for readers that
/// hold it as long as most do, short enough that a stream of readers does not keep a writer from sleeping, which is
/// how it comes to be handed the lock.
const READER_SPIN_NS: u64 = 10_000;
const READER_SPIN_EACH_NS: u64 = 500;
const READER_SPIN_MAX: u64 = 30;
/// How long the first waiter is passed over before it asks for hand-off, ns.
const PATIENCE_NS: u64 = 4_000_000;

/// The semaphore.
#[derive(Clone, Debug)]
pub struct Rwsem {
    /// Its words.
    pub words: SleepWords,
    /// Nodes of the tasks.
    pub nodes: Nodes,
    /// Writers spin while the owner runs.
    pub spin: bool,
    /// A writer that comes may take a free lock before those who spin or sleep for it.
    pub steal: bool,
}

fn owner(task: u32) -> u64 {
    (u64::from(task) + 1) << 2
}

/// How long a writer that sees this count may spin for its readers, ns.
fn reader_spin_ns(count: u64) -> u64 {
    READER_SPIN_NS + READER_SPIN_EACH_NS * (count / READER_BIAS).min(READER_SPIN_MAX)
}

impl Rwsem {
    fn wait_lock(&self) -> Queued {
        Queued { word: self.words.wait_lock, nodes: self.nodes.clone() }
    }

    fn list(&self) -> WaitList<'_> {
        WaitList { words: &self.words, nodes: &self.nodes }
    }

    async fn set_reader_owned<E: Env>(&self, e: &E) {
        // Further readers do not make it spinnable again.
        let kept = e.load(self.words.owner).await & NONSPINNABLE;
        e.store(self.words.owner, owner(e.me()) | READER_OWNED | kept).await;
    }

    /// Takes it exclusively.
    pub async fn write_lock<E: Env>(&self, e: &E) {
        let polite = !self.steal && e.load(self.words.osq).await != 0;
        if !polite && e.cas(self.words.count, 0, WRITER_LOCKED).await == 0 {
            e.store(self.words.owner, owner(e.me())).await;
            return;
        }
        if self.spin && self.can_spin(e).await && self.optimistic(e).await {
            return;
        }
        self.write_sleep(e).await;
    }

    async fn can_spin<E: Env>(&self, e: &E) -> bool {
        let seen = e.load(self.words.owner).await;
        let spinnable = seen & NONSPINNABLE == 0;
        spinnable
            && !e.need_resched()
            && (seen == 0 || seen & READER_OWNED != 0 || e.on_cpu((seen >> 2) as u32 - 1))
    }

    async fn optimistic<E: Env>(&self, e: &E) -> bool {
        let osq = Osq { tail: self.words.osq, nodes: self.nodes.clone() };
        osq.one_at_a_time(e, self.spin_on_owner(e)).await
    }

    /// Spins while the owner does not change, then tries to steal; for readers until their time is over.
    async fn spin_on_owner<E: Env>(&self, e: &E) -> bool {
        let mut until = None;
        loop {
            let holder = e.load(self.words.owner).await;
            if holder & NONSPINNABLE != 0 {
                return false;
            }
            if holder != 0 && holder & READER_OWNED == 0 {
                until = None;
                let task = (holder >> 2) as u32 - 1;
                if !e.on_cpu(task) {
                    return false;
                }
                let spin = Spin::on(self.words.owner, holder).or_resched().while_running(task);
                if e.spin(spin).await != SpinEnd::Changed {
                    return false;
                }
            }
            let mut seen = e.load_for_cas(self.words.count).await;
            while seen & (LOCK_MASK | HANDOFF) == 0 {
                let old = e.cas(self.words.count, seen, seen | WRITER_LOCKED).await;
                if old == seen {
                    e.store(self.words.owner, owner(e.me())).await;
                    return true;
                }
                seen = old;
            }
            let holder = e.load(self.words.owner).await;
            let mut spin = Spin::on(self.words.count, seen).or_change(self.words.owner, holder).or_resched();
            if holder & READER_OWNED != 0 {
                let over = *until.get_or_insert_with(|| e.now_ns() + reader_spin_ns(seen));
                spin = spin.until(over);
            } else if holder != 0 {
                continue;
            } else {
                until = None;
            }
            // Changes may come faster than a spin can wait for its end: look at the time for each.
            let end =
                if until.is_some_and(|u| e.now_ns() >= u) { SpinEnd::Expired } else { e.spin(spin).await };
            match end {
                SpinEnd::Changed => {}
                SpinEnd::Expired => {
                    self.set_nonspinnable(e).await;
                    return false;
                }
                _ => return false,
            }
        }
    }

    /// Says that nobody is to spin for the readers that hold it.
    async fn set_nonspinnable<E: Env>(&self, e: &E) {
        let mut seen = e.load_for_cas(self.words.owner).await;
        while seen & READER_OWNED != 0 && seen & NONSPINNABLE == 0 {
            let old = e.cas(self.words.owner, seen, seen | NONSPINNABLE).await;
            if old == seen {
                return;
            }
            seen = old;
        }
    }

    async fn write_sleep<E: Env>(&self, e: &E) {
        let (lock, list) = (self.wait_lock(), self.list());
        let me = u64::from(e.me()) + 1;
        lock.lock(e).await;
        if list.push(e, WRITER).await {
            e.add(self.words.count, WAITERS as i64).await;
        } else if e.load(self.words.count).await & LOCK_MASK == 0 {
            self.wake_first(e, &list, false).await;
        }
        let since = e.now_ns();
        while !self.try_write(e, &list, me, e.now_ns() - since >= PATIENCE_NS).await {
            lock.unlock(e).await;
            e.park().await;
            lock.lock(e).await;
        }
        list.remove(e, me).await;
        e.store(self.words.owner, owner(e.me())).await;
        lock.unlock(e).await;
    }

    /// A waiter tries to become the writer; the first one may ask for hand-off.
    async fn try_write<E: Env>(&self, e: &E, list: &WaitList<'_>, me: u64, starving: bool) -> bool {
        let first = list.first(e).await == me;
        let alone = list.alone(e, me).await;
        let mut seen = e.load_for_cas(self.words.count).await;
        loop {
            let handed = seen & HANDOFF != 0;
            if handed && !first {
                return false;
            }
            let new = if seen & LOCK_MASK != 0 {
                if handed || !first || !starving {
                    return false;
                }
                seen | HANDOFF
            } else {
                let taken = (seen | WRITER_LOCKED) & !HANDOFF;
                if alone { taken & !WAITERS } else { taken }
            };
            let old = e.cas(self.words.count, seen, new).await;
            if old == seen {
                return new & WRITER_LOCKED != 0 && seen & LOCK_MASK == 0;
            }
            seen = old;
        }
    }

    /// Wakes the first waiter: a writer tries for itself, readers are granted together. Needs the wait lock. With
    /// `readers_only` (a downgrade) a writer sleeps on.
    async fn wake_first<E: Env>(&self, e: &E, list: &WaitList<'_>, readers_only: bool) {
        let first = list.first(e).await;
        if first == 0 {
            return;
        }
        if list.kind(e, first).await == WRITER {
            if !readers_only {
                e.unpark(first as u32 - 1).await;
            }
            return;
        }
        if !readers_only {
            // A writer may steal the lock before we grant it: take a share first.
            let old = e.add(self.words.count, READER_BIAS as i64).await;
            if old & WRITER_LOCKED != 0 {
                e.add(self.words.count, -(READER_BIAS as i64)).await;
                return;
            }
        }
        let mut readers = Vec::new();
        let mut who = first;
        while who != 0 {
            let next = list.next(e, who).await;
            if list.kind(e, who).await == READER {
                list.grant(e, who).await;
                readers.push(who);
            }
            who = next;
        }
        let mut change = READER_BIAS as i64 * readers.len() as i64;
        if !readers_only {
            change -= READER_BIAS as i64;
        }
        if list.first(e).await == 0 {
            change -= WAITERS as i64;
        }
        if e.load(self.words.count).await & HANDOFF != 0 {
            change -= HANDOFF as i64;
        }
        if change != 0 {
            e.add(self.words.count, change).await;
        }
        for who in readers {
            e.unpark(who as u32 - 1).await;
        }
    }

    async fn wake<E: Env>(&self, e: &E, readers_only: bool) {
        let (lock, list) = (self.wait_lock(), self.list());
        lock.lock(e).await;
        self.wake_first(e, &list, readers_only).await;
        lock.unlock(e).await;
    }

    /// Gives up an exclusive hold.
    pub async fn write_unlock<E: Env>(&self, e: &E) {
        e.store(self.words.owner, 0).await;
        let old = e.add(self.words.count, -(WRITER_LOCKED as i64)).await;
        if old & WAITERS != 0 {
            self.wake(e, false).await;
        }
    }

    /// Takes it shared.
    pub async fn read_lock<E: Env>(&self, e: &E) {
        let seen = e.add(self.words.count, READER_BIAS as i64).await;
        if seen & (WRITER_LOCKED | WAITERS | HANDOFF) == 0 {
            self.set_reader_owned(e).await;
            return;
        }
        // Stealing past waiting writers, unless one of them is next or many readers are in already.
        if seen & (WRITER_LOCKED | HANDOFF) == 0 && seen / READER_BIAS == 0 {
            self.set_reader_owned(e).await;
            return;
        }
        self.read_sleep(e).await;
    }

    async fn read_sleep<E: Env>(&self, e: &E) {
        let (lock, list) = (self.wait_lock(), self.list());
        lock.lock(e).await;
        let mut change = -(READER_BIAS as i64);
        if list.first(e).await == 0 {
            if e.load(self.words.count).await & (WRITER_LOCKED | HANDOFF) == 0 {
                lock.unlock(e).await;
                self.set_reader_owned(e).await;
                return;
            }
            change += WAITERS as i64;
        }
        list.push(e, READER).await;
        let now = e.add(self.words.count, change).await.wrapping_add(change as u64);
        if now & LOCK_MASK == 0 {
            self.wake_first(e, &list, false).await;
        }
        lock.unlock(e).await;
        while !list.granted(e).await {
            e.park().await;
        }
        self.set_reader_owned(e).await;
    }

    /// Takes it shared if no writer holds it or waits.
    pub async fn try_read_lock<E: Env>(&self, e: &E) -> bool {
        let mut seen = 0;
        while seen & (WRITER_LOCKED | WAITERS | HANDOFF) == 0 {
            let old = e.cas(self.words.count, seen, seen + READER_BIAS).await;
            if old == seen {
                self.set_reader_owned(e).await;
                return true;
            }
            seen = old;
        }
        false
    }

    /// Gives up a shared hold.
    pub async fn read_unlock<E: Env>(&self, e: &E) {
        let old = e.add(self.words.count, -(READER_BIAS as i64)).await;
        let new = old.wrapping_sub(READER_BIAS);
        if new & (LOCK_MASK | WAITERS) == WAITERS {
            self.wake(e, false).await;
        }
    }

    /// Turns an exclusive hold into a shared one.
    pub async fn downgrade<E: Env>(&self, e: &E) {
        e.note(Note::LockFree);
        self.set_reader_owned(e).await;
        let old = e.add(self.words.count, READER_BIAS as i64 - WRITER_LOCKED as i64).await;
        if old & WAITERS != 0 {
            self.wake(e, true).await;
        }
    }
}
