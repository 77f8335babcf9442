//! The queue of optimistic spinners: an MCS queue whose members can leave when their CPU is wanted.

use crate::nodes::Nodes;
use std::future::Future;
use tussle_sim::{Cell, Env, Op, Spin, SpinEnd};

const NEXT: u32 = 2;
const PREV: u32 = 3;
const LOCKED: u32 = 4;

/// The queue: whoever is at its head spins on the lock itself.
#[derive(Clone, Debug)]
pub struct Osq {
    /// Last in the queue, 0 when empty.
    pub tail: Cell,
    /// Nodes of the tasks.
    pub nodes: Nodes,
}

impl Osq {
    /// Tries to take a lock as the head of the queue, with preemption off; false when that failed or the CPU was
    /// wanted.
    pub async fn one_at_a_time<E: Env>(&self, e: &E, attempt: impl Future<Output = bool>) -> bool {
        e.op(Op::PreemptOff).await;
        let got = if self.lock(e).await {
            let got = attempt.await;
            self.unlock(e).await;
            got
        } else {
            false
        };
        e.op(Op::PreemptOn).await;
        got
    }

    /// Waits for the head of the queue; false when the CPU was wanted before.
    pub async fn lock<E: Env>(&self, e: &E) -> bool {
        let me = u64::from(e.me()) + 1;
        let n = &self.nodes;
        e.store(n.cell(me, LOCKED), 0).await;
        e.store(n.cell(me, NEXT), 0).await;
        let prev = e.swap(self.tail, me).await;
        if prev == 0 {
            return true;
        }
        e.store(n.cell(me, PREV), prev).await;
        e.store(n.cell(prev, NEXT), me).await;
        if e.spin(Spin::on(n.cell(me, LOCKED), 0).or_resched()).await == SpinEnd::Changed {
            return true;
        }
        self.leave(e, me, prev).await
    }

    /// Takes this node out of the middle of the queue; true when the head was handed over meanwhile.
    async fn leave<E: Env>(&self, e: &E, me: u64, mut prev: u64) -> bool {
        let n = &self.nodes;
        // Undo the predecessor's pointer, so that it can neither hand over nor leave past us.
        loop {
            if e.cas(n.cell(prev, NEXT), me, 0).await == me {
                break;
            }
            if e.load(n.cell(me, LOCKED)).await == 1 {
                return true;
            }
            e.spin(Spin::on(n.cell(me, LOCKED), 0).or_change(n.cell(me, PREV), prev)).await;
            prev = e.load(n.cell(me, PREV)).await;
        }
        // Stabilise our own successor, then join the two.
        let next = self.wait_next(e, me, prev).await;
        if next != 0 {
            e.store(n.cell(next, PREV), prev).await;
            e.store(n.cell(prev, NEXT), next).await;
        }
        false
    }

    /// Takes the successor away from our node, or makes `old` the tail when there is none.
    async fn wait_next<E: Env>(&self, e: &E, me: u64, old: u64) -> u64 {
        let next = self.nodes.cell(me, NEXT);
        loop {
            let tail = e.load(self.tail).await;
            if tail == me && e.cas(self.tail, me, old).await == me {
                return 0;
            }
            if e.load(next).await != 0 {
                let who = e.swap(next, 0).await;
                if who != 0 {
                    return who;
                }
            }
            e.spin(Spin::on(next, 0).or_change(self.tail, tail)).await;
        }
    }

    /// Lets the next spinner come to the head.
    pub async fn unlock<E: Env>(&self, e: &E) {
        let me = u64::from(e.me()) + 1;
        if e.cas(self.tail, me, 0).await == me {
            return;
        }
        let n = &self.nodes;
        let mut who = e.swap(n.cell(me, NEXT), 0).await;
        if who == 0 {
            who = self.wait_next(e, me, 0).await;
        }
        if who != 0 {
            e.store(n.cell(who, LOCKED), 1).await;
        }
    }
}
