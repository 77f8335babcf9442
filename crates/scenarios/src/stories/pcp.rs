//! Seed 003: faults take pages from their CPU's lists, exits give them back, and now and then somebody has all lists
//! drained.

use super::{ScenarioError, Setup, bump, spread, think};
use crate::locks::percpu::{Kind, PerCpuLock};
use crate::locks::spin::Queued;
use crate::nodes::Nodes;
use crate::objects::buddy::{self, Zone};
use crate::objects::list;
use std::sync::Arc;
use tussle_sim::{Cell, Env, MemoryMap, Note, Op, Program, Shape, Words};

/// A fault apart from its page's allocation: the 1.13 us of the seed's row for one CPU less the allocation, ns.
const FAULT_NS: u32 = 1_080;
/// Taking a page from a list besides touching it, ns.
const TAKE_NS: u32 = 15;
/// Freeing a page at exit, ns.
const FREE_NS: u32 = 60;
/// Saving, disabling and restoring interrupts, ns: some 25 cycles.
const IRQ_NS: u32 = 9;
/// Pages that a task holds before it frees them all.
const HELD: usize = 256;
/// Pages freed under one hold of the lock.
const TOGETHER: usize = 32;
/// The kernel's batch and high mark of a zone with plenty of memory.
const BATCH: u64 = 63;
const HIGH: u64 = 378;
/// Between two drains of all CPUs.
const DRAIN_NS: u32 = 2_000_000;

const COUNT: u32 = 1;
/// First of the list heads; lists are indexed by order and migratetype, movable pages of order 0 are index 1.
const LISTS: u32 = 4;
const MOVABLE: u32 = LISTS + 2;

/// The scenario.
#[derive(Clone, Debug)]
pub struct Pcp {
    memory: MemoryMap,
    kind: Kind,
    cpus: u32,
    lists: Vec<Cell>,
    locks: Vec<PerCpuLock>,
    zone: Zone,
    zone_lock: Queued,
    drained: Cell,
    wanted: Vec<Cell>,
    think: f64,
    work: f64,
}

impl Pcp {
    /// With this kind of lock in this layout of `per_cpu_pages`.
    ///
    /// # Errors
    /// Too many CPUs for the memory.
    pub fn new(kind: Kind, pages: Shape, setup: &Setup) -> Result<Pcp, ScenarioError> {
        let cpus = setup.task_count(setup.cpus)?;
        let mut memory = MemoryMap::new();
        let shape = Arc::new(pages);
        let lists = memory.slab(&shape, cpus, 0)?;
        let heads: Vec<(String, u32, u8)> = (0..buddy::ORDERS * 2)
            .map(|i| {
                (format!("free_area[{}].{}", i / 2, if i % 2 == 0 { "next" } else { "prev" }), 64 + i * 8, 8)
            })
            .chain([("free_pages".into(), 0, 8), ("lock".into(), 8, 4)])
            .collect();
        let rows: Vec<(&str, u32, u8)> = heads.iter().map(|(n, o, s)| (n.as_str(), *o, *s)).collect();
        let zone = memory.object(&Arc::new(Shape::new("zone", 320, &rows)), 0)?;
        let page = Shape::new("page", 24, &[("lru.next", 0, 8), ("lru.prev", 8, 8), ("private", 16, 8)])
            .with_stride(64);
        let block = 1 << (buddy::ORDERS - 1);
        let pages = memory.slab(&Arc::new(page), (cpus * 1024).next_multiple_of(block) + block, 0)?;
        let drain = memory.object(&Arc::new(Shape::new("drain", 8, &[("done", 0, 8)])), 0)?;
        let flag = Arc::new(Shape::new("work", 64, &[("wanted", 0, 8)]));
        let wanted = memory.slab(&flag, cpus, 0)?;
        let nodes = Nodes::new(&mut memory, cpus as usize * 2 + 1)?;
        let spin = |word| Queued { word, nodes: nodes.clone() };
        let locks = lists.iter().map(|&l| PerCpuLock { kind, spin: spin(l), irq_ns: IRQ_NS }).collect();
        let free = zone.field(buddy::ORDERS * 2);
        Ok(Pcp {
            kind,
            cpus,
            lists,
            locks,
            zone: Zone { heads: zone, free, pages: pages.into() },
            zone_lock: spin(free.field(1)),
            drained: drain,
            wanted,
            memory,
            think: setup.think,
            work: setup.work,
        })
    }

    /// Takes the first page of a CPU's list.
    fn pop(&self, w: &mut dyn Words, cpu: usize) -> Option<Cell> {
        w.work(TAKE_NS);
        let page = list::pop(w, self.lists[cpu].field(MOVABLE))?;
        bump(w, self.lists[cpu].field(COUNT), -1);
        w.set(Zone::state(page), buddy::ALLOCATED);
        Some(page)
    }

    fn refill(&self, w: &mut dyn Words, cpu: usize) {
        for _ in 0..BATCH {
            let Some(page) = self.zone.take(w, 0) else { break };
            w.set(Zone::state(page), buddy::CACHED);
            list::push(w, self.lists[cpu].field(MOVABLE), page);
            bump(w, self.lists[cpu].field(COUNT), 1);
        }
    }

    fn drain(&self, w: &mut dyn Words, cpu: usize, most: u64) {
        for _ in 0..most {
            let Some(page) = list::pop(w, self.lists[cpu].field(MOVABLE)) else { break };
            bump(w, self.lists[cpu].field(COUNT), -1);
            self.zone.give(w, page, 0);
        }
    }

    async fn allocate<E: Env>(&self, e: &E, cpu: usize) -> Option<Cell> {
        if !self.locks[cpu].enter(e).await {
            return self.from_zone(e).await;
        }
        let mut page = e.work(|w| self.pop(w, cpu)).await;
        if page.is_none() {
            self.zone_lock.lock(e).await;
            e.work(|w| self.refill(w, cpu)).await;
            self.zone_lock.unlock(e).await;
            page = e.work(|w| self.pop(w, cpu)).await;
        }
        self.locks[cpu].leave(e).await;
        page
    }

    async fn from_zone<E: Env>(&self, e: &E) -> Option<Cell> {
        self.zone_lock.lock(e).await;
        let page = e.work(|w| self.zone.take(w, 0)).await;
        self.zone_lock.unlock(e).await;
        page
    }

    async fn free<E: Env>(&self, e: &E, cpu: usize, pages: &[Cell]) {
        if !self.locks[cpu].enter(e).await {
            self.zone_lock.lock(e).await;
            e.work(|w| pages.iter().for_each(|&p| self.zone.give(w, p, 0))).await;
            self.zone_lock.unlock(e).await;
            return;
        }
        let head = self.lists[cpu].field(MOVABLE);
        let full = e
            .work(|w| {
                for &page in pages {
                    w.work(FREE_NS);
                    w.set(Zone::state(page), buddy::CACHED);
                    list::push(w, head, page);
                    bump(w, self.lists[cpu].field(COUNT), 1);
                }
                w.get(self.lists[cpu].field(COUNT)) >= HIGH
            })
            .await;
        if full {
            self.zone_lock.lock(e).await;
            e.work(|w| self.drain(w, cpu, BATCH)).await;
            self.zone_lock.unlock(e).await;
        }
        self.locks[cpu].leave(e).await;
    }

    async fn faults<E: Env>(&self, e: &E) {
        let cpu = e.me() as usize;
        let mut held = Vec::with_capacity(HELD);
        let work = (f64::from(FAULT_NS) * self.work) as u32;
        while !e.stopping() {
            think(e, work, self.think).await;
            if let Some(page) = self.allocate(e, cpu).await {
                held.push(page);
                e.note(Note::Done);
            }
            if held.len() >= HELD {
                for pages in held.chunks(TOGETHER) {
                    self.free(e, cpu, pages).await;
                }
                held.clear();
            }
        }
        for pages in held.chunks(TOGETHER) {
            self.free(e, cpu, pages).await;
        }
        if !self.kind.remote() {
            // The worker of this CPU ends with its task.
            e.swap(self.wanted[cpu], 2).await;
            e.unpark(self.cpus + 1 + cpu as u32).await;
        }
    }

    /// Asks for all lists to be drained: by itself, or by every CPU's worker.
    async fn drainer<E: Env>(&self, e: &E) {
        while !e.stopping() {
            e.op(Op::Sleep(spread(e, DRAIN_NS, 1.0))).await;
            for cpu in 0..self.cpus as usize {
                if self.kind.remote() {
                    self.locks[cpu].enter_remote(e).await;
                    self.drain_whole(e, cpu).await;
                    self.locks[cpu].leave_remote(e).await;
                } else if e.cas(self.wanted[cpu], 0, 1).await == 0 {
                    e.unpark(self.cpus + 1 + cpu as u32).await;
                }
            }
        }
    }

    async fn drain_whole<E: Env>(&self, e: &E, cpu: usize) {
        self.zone_lock.lock(e).await;
        e.work(|w| self.drain(w, cpu, HIGH * 2)).await;
        self.zone_lock.unlock(e).await;
    }

    /// A CPU's worker drains its own lists when asked.
    async fn worker<E: Env>(&self, e: &E, cpu: usize) {
        loop {
            match e.load(self.wanted[cpu]).await {
                0 => drop(e.park().await),
                1 => {
                    if self.locks[cpu].enter(e).await {
                        self.drain_whole(e, cpu).await;
                        self.locks[cpu].leave(e).await;
                    }
                    e.cas(self.wanted[cpu], 1, 0).await;
                    e.add(self.drained, 1).await;
                }
                _ => return,
            }
        }
    }
}

impl Program for Pcp {
    fn tasks(&self) -> usize {
        let workers = if self.kind.remote() { 0 } else { self.cpus };
        (self.cpus + 1 + workers) as usize
    }

    fn memory(&self) -> &MemoryMap {
        &self.memory
    }

    fn init(&self, w: &mut dyn Words) {
        self.zone.init(w);
        for &l in &self.lists {
            (0..13).for_each(|i| list::init(w, l.field(LISTS + i * 2)));
        }
    }

    fn pinned(&self, task: u32, cpus: u32) -> Option<u32> {
        match task {
            t if t < self.cpus => Some(t % cpus.max(1)),
            t if t == self.cpus => None,
            t => Some((t - self.cpus - 1) % cpus.max(1)),
        }
    }

    async fn run<E: Env>(&self, e: &E) {
        match e.me() {
            t if t < self.cpus => self.faults(e).await,
            t if t == self.cpus => self.drainer(e).await,
            t => self.worker(e, (t - self.cpus - 1) as usize).await,
        }
    }

    fn check(&self, w: &mut dyn Words) -> Result<(), String> {
        let mut cached = 0;
        for &l in &self.lists {
            let n =
                list::count(w, l.field(MOVABLE), self.zone.pages.len()).ok_or("a CPU's list is broken")?;
            let counted = w.get(l.field(COUNT)) as u32 as usize;
            if n != counted {
                return Err(format!("{n} pages on a list that counts {counted}"));
            }
            cached += n;
        }
        let free = self.zone.check(w)?;
        let all = self.zone.pages.len();
        if free + cached != all {
            return Err(format!("{free} free and {cached} cached pages of {all}"));
        }
        Ok(())
    }
}
