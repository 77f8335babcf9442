//! A mutex: owner word with flags, optimistic spinning behind a queue of spinners, hand-off to a waiter that was
//! passed over.

use super::SleepWords;
use super::osq::Osq;
use super::spin::Queued;
use super::wait::{WRITER, WaitList};
use crate::nodes::Nodes;
use tussle_sim::{Env, Spin, SpinEnd};

/// There are waiters.
const WAITERS: u64 = 1;
/// The first waiter wants the lock handed to it.
const HANDOFF: u64 = 2;
/// Handed over, not yet picked up.
const PICKUP: u64 = 4;
const FLAGS: u64 = 7;

/// The mutex. Its owner word is [`SleepWords::count`], as the first word of a mutex is its owner.
#[derive(Clone, Debug)]
pub struct Mutex {
    /// Its words; `owner` is not used.
    pub words: SleepWords,
    /// Nodes of the tasks.
    pub nodes: Nodes,
    /// Spin while the owner runs.
    pub spin: bool,
    /// A waiter that was passed over has the lock handed to it (since Linux 4.10).
    pub handoff: bool,
}

fn owner(task: u32) -> u64 {
    (u64::from(task) + 1) << 3
}

impl Mutex {
    fn wait_lock(&self) -> Queued {
        Queued { word: self.words.wait_lock, nodes: self.nodes.clone() }
    }

    fn list(&self) -> WaitList<'_> {
        WaitList { words: &self.words, nodes: &self.nodes }
    }

    /// Takes it.
    pub async fn lock<E: Env>(&self, e: &E) {
        if e.cas(self.words.count, 0, owner(e.me())).await == 0 {
            return;
        }
        if self.spin && self.optimistic(e).await {
            return;
        }
        self.sleep(e).await;
    }

    /// Takes the lock if it has no owner, or if it was handed to us.
    async fn try_lock<E: Env>(&self, e: &E) -> bool {
        let mine = owner(e.me());
        let mut seen = e.load_for_cas(self.words.count).await;
        loop {
            let holder = seen & !FLAGS;
            let handed = holder == mine && seen & PICKUP != 0;
            if holder != 0 && !handed {
                return false;
            }
            if holder == 0 && seen & PICKUP != 0 {
                return false;
            }
            let old = e.cas(self.words.count, seen, mine | seen & WAITERS).await;
            if old == seen {
                return true;
            }
            seen = old;
        }
    }

    async fn optimistic<E: Env>(&self, e: &E) -> bool {
        let osq = Osq { tail: self.words.osq, nodes: self.nodes.clone() };
        osq.one_at_a_time(e, self.spin_on_owner(e)).await
    }

    async fn spin_on_owner<E: Env>(&self, e: &E) -> bool {
        loop {
            if self.try_lock(e).await {
                return true;
            }
            if e.need_resched() {
                return false;
            }
            let seen = e.load(self.words.count).await;
            let Some(holder) = ((seen >> 3) as u32).checked_sub(1) else { continue };
            if holder == e.me() {
                continue;
            }
            if !e.on_cpu(holder) {
                return false;
            }
            let spin = Spin::on(self.words.count, seen).or_resched().while_running(holder);
            if e.spin(spin).await != SpinEnd::Changed {
                return false;
            }
        }
    }

    async fn sleep<E: Env>(&self, e: &E) {
        let (lock, list) = (self.wait_lock(), self.list());
        let me = u64::from(e.me()) + 1;
        lock.lock(e).await;
        list.push(e, WRITER).await;
        if list.first(e).await == me {
            self.set_flags(e, WAITERS).await;
        }
        let mut woken = false;
        while !self.try_lock(e).await {
            if self.handoff && woken && list.first(e).await == me {
                // Passed over once: ask for the lock to be handed to us, unless it is free by now.
                self.set_flags(e, HANDOFF | WAITERS).await;
                if self.try_lock(e).await {
                    break;
                }
            }
            lock.unlock(e).await;
            e.park().await;
            woken = true;
            lock.lock(e).await;
        }
        list.remove(e, me).await;
        if list.first(e).await == 0 {
            self.clear_flags(e, FLAGS).await;
        }
        lock.unlock(e).await;
    }

    async fn set_flags<E: Env>(&self, e: &E, flags: u64) {
        let mut seen = e.load_for_cas(self.words.count).await;
        loop {
            let old = e.cas(self.words.count, seen, seen | flags).await;
            if old == seen {
                return;
            }
            seen = old;
        }
    }

    async fn clear_flags<E: Env>(&self, e: &E, flags: u64) {
        let mut seen = e.load_for_cas(self.words.count).await;
        loop {
            let old = e.cas(self.words.count, seen, seen & !flags).await;
            if old == seen {
                return;
            }
            seen = old;
        }
    }

    /// Gives it up; with waiters, wakes the first, or hands the lock to it.
    pub async fn unlock<E: Env>(&self, e: &E) {
        let mine = owner(e.me());
        let mut seen = e.cas(self.words.count, mine, 0).await;
        if seen == mine {
            return;
        }
        while seen & HANDOFF == 0 {
            let old = e.cas(self.words.count, seen, seen & FLAGS).await;
            if old == seen {
                break;
            }
            seen = old;
        }
        let (lock, list) = (self.wait_lock(), self.list());
        lock.lock(e).await;
        let first = list.first(e).await;
        if seen & HANDOFF != 0 {
            let to = if first == 0 { 0 } else { owner(first as u32 - 1) | PICKUP };
            loop {
                let waiters = if first == 0 { 0 } else { WAITERS };
                let old = e.cas(self.words.count, seen, to | waiters).await;
                if old == seen {
                    break;
                }
                seen = old;
            }
        }
        lock.unlock(e).await;
        if first != 0 {
            e.unpark(first as u32 - 1).await;
        }
    }
}
