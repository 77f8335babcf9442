//! Spinlocks: test-and-set, ticket, MCS, and a queued lock in one word as Linux has it. All run with preemption off.

use crate::nodes::Nodes;
use tussle_sim::{Cell, Env, Op, Spin};

const NEXT: u32 = 0;
const LOCKED: u32 = 1;

/// Any of the spinlocks.
#[derive(Clone, Debug)]
pub enum SpinLock {
    /// Test and test-and-set.
    TestAndSet(TestAndSet),
    /// Tickets.
    Ticket(Ticket),
    /// A queue of nodes.
    Mcs(Mcs),
    /// A queue in one word.
    Queued(Queued),
}

impl SpinLock {
    /// Names of all kinds.
    pub const NAMES: [&'static str; 4] = ["test-and-set", "ticket", "mcs", "queued"];

    /// By name, on two cells of an object.
    pub fn new(name: &str, cell: Cell, nodes: &Nodes) -> Option<SpinLock> {
        let nodes = nodes.clone();
        Some(match name {
            "test-and-set" => SpinLock::TestAndSet(TestAndSet { word: cell }),
            "ticket" => SpinLock::Ticket(Ticket { next: cell, serving: cell.field(1) }),
            "mcs" => SpinLock::Mcs(Mcs { tail: cell, nodes }),
            "queued" => SpinLock::Queued(Queued { word: cell, nodes }),
            _ => return None,
        })
    }

    /// Takes it.
    pub async fn lock<E: Env>(&self, e: &E) {
        match self {
            SpinLock::TestAndSet(l) => l.lock(e).await,
            SpinLock::Ticket(l) => l.lock(e).await,
            SpinLock::Mcs(l) => l.lock(e).await,
            SpinLock::Queued(l) => l.lock(e).await,
        }
    }

    /// Gives it up.
    pub async fn unlock<E: Env>(&self, e: &E) {
        match self {
            SpinLock::TestAndSet(l) => l.unlock(e).await,
            SpinLock::Ticket(l) => l.unlock(e).await,
            SpinLock::Mcs(l) => l.unlock(e).await,
            SpinLock::Queued(l) => l.unlock(e).await,
        }
    }
}

/// Test and test-and-set.
#[derive(Clone, Copy, Debug)]
pub struct TestAndSet {
    /// 0 free, 1 taken.
    pub word: Cell,
}

impl TestAndSet {
    /// Takes it.
    pub async fn lock<E: Env>(&self, e: &E) {
        e.op(Op::PreemptOff).await;
        while e.swap(self.word, 1).await != 0 {
            e.spin(Spin::on(self.word, 1)).await;
        }
    }

    /// Gives it up.
    pub async fn unlock<E: Env>(&self, e: &E) {
        e.store(self.word, 0).await;
        e.op(Op::PreemptOn).await;
    }
}

/// First come, first served, all spinning on one word.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Next ticket to hand out.
    pub next: Cell,
    /// Ticket being served.
    pub serving: Cell,
}

impl Ticket {
    /// Takes it.
    pub async fn lock<E: Env>(&self, e: &E) {
        e.op(Op::PreemptOff).await;
        let mine = e.add(self.next, 1).await;
        loop {
            let serving = e.load(self.serving).await;
            if serving == mine {
                return;
            }
            e.spin(Spin::on(self.serving, serving)).await;
        }
    }

    /// Gives it up.
    pub async fn unlock<E: Env>(&self, e: &E) {
        let serving = e.load(self.serving).await;
        e.store(self.serving, serving + 1).await;
        e.op(Op::PreemptOn).await;
    }
}

/// Mellor-Crummey and Scott's queue lock (1991): every waiter spins on its own line.
#[derive(Clone, Debug)]
pub struct Mcs {
    /// Last in the queue.
    pub tail: Cell,
    /// Nodes of the tasks.
    pub nodes: Nodes,
}

impl Mcs {
    /// Takes it.
    pub async fn lock<E: Env>(&self, e: &E) {
        e.op(Op::PreemptOff).await;
        let me = u64::from(e.me()) + 1;
        e.store(self.nodes.cell(me, NEXT), 0).await;
        e.store(self.nodes.cell(me, LOCKED), 0).await;
        let prev = e.swap(self.tail, me).await;
        if prev != 0 {
            e.store(self.nodes.cell(prev, NEXT), me).await;
            e.spin(Spin::on(self.nodes.cell(me, LOCKED), 0)).await;
        }
    }

    /// Gives it up.
    pub async fn unlock<E: Env>(&self, e: &E) {
        let me = u64::from(e.me()) + 1;
        let next = self.nodes.cell(me, NEXT);
        let mut who = e.load(next).await;
        if who == 0 {
            if e.cas(self.tail, me, 0).await == me {
                e.op(Op::PreemptOn).await;
                return;
            }
            e.spin(Spin::on(next, 0)).await;
            who = e.load(next).await;
        }
        e.store(self.nodes.cell(who, LOCKED), 1).await;
        e.op(Op::PreemptOn).await;
    }
}

/// A queued spinlock in one 32-bit word: a locked byte, a pending byte for the first waiter, the tail of an MCS queue.
#[derive(Clone, Debug)]
pub struct Queued {
    /// Locked in bits 0–7, pending in 8–15, tail (task + 1) above.
    pub word: Cell,
    /// Nodes of the tasks.
    pub nodes: Nodes,
}

const PENDING: u64 = 1 << 8;
const LOCKED_MASK: u64 = 0xff;
const BUSY_MASK: u64 = 0xffff;

impl Queued {
    /// Takes it if it is free.
    pub async fn try_lock<E: Env>(&self, e: &E) -> bool {
        e.op(Op::PreemptOff).await;
        let got = e.load_for_cas(self.word).await == 0 && e.cas(self.word, 0, 1).await == 0;
        if !got {
            e.op(Op::PreemptOn).await;
        }
        got
    }

    /// Takes it.
    pub async fn lock<E: Env>(&self, e: &E) {
        e.op(Op::PreemptOff).await;
        let mut seen = e.cas(self.word, 0, 1).await;
        if seen == 0 {
            return;
        }
        while seen & !LOCKED_MASK == 0 {
            // Nobody waits yet: wait in the word itself.
            let old = e.cas(self.word, seen, seen | PENDING).await;
            if old != seen {
                seen = old;
                continue;
            }
            self.wait_clear(e, LOCKED_MASK).await;
            e.add(self.word, 1 - PENDING as i64).await;
            return;
        }
        self.queue(e).await;
    }

    /// Waits until the bits of `mask` are clear; returns the word.
    async fn wait_clear<E: Env>(&self, e: &E, mask: u64) -> u64 {
        loop {
            let seen = e.load(self.word).await;
            if seen & mask == 0 {
                return seen;
            }
            e.spin(Spin::on(self.word, seen)).await;
        }
    }

    async fn queue<E: Env>(&self, e: &E) {
        let me = u64::from(e.me()) + 1;
        e.store(self.nodes.cell(me, LOCKED), 0).await;
        e.store(self.nodes.cell(me, NEXT), 0).await;
        let mut seen = e.load_for_cas(self.word).await;
        loop {
            let old = e.cas(self.word, seen, seen & BUSY_MASK | me << 16).await;
            if old == seen {
                break;
            }
            seen = old;
        }
        let prev = seen >> 16;
        if prev != 0 {
            e.store(self.nodes.cell(prev, NEXT), me).await;
            e.spin(Spin::on(self.nodes.cell(me, LOCKED), 0)).await;
        }
        let seen = self.wait_clear(e, BUSY_MASK).await;
        if seen >> 16 == me && e.cas(self.word, seen, 1).await == seen {
            return;
        }
        // Others queue behind: the head of the queue owns the locked byte, only the tail changes under it.
        e.add(self.word, 1).await;
        let next = self.nodes.cell(me, NEXT);
        let mut who = e.load(next).await;
        if who == 0 {
            e.spin(Spin::on(next, 0)).await;
            who = e.load(next).await;
        }
        e.store(self.nodes.cell(who, LOCKED), 1).await;
    }

    /// Gives it up: a store of the locked byte.
    pub async fn unlock<E: Env>(&self, e: &E) {
        e.clear(self.word, LOCKED_MASK).await;
        e.op(Op::PreemptOn).await;
    }
}
