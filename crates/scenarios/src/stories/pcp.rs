//! Scenario `pcp_lists`: faults take pages from their CPU's lists, exits give them back, and now and then somebody
//! has all lists drained.

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
/// First of the list heads. Lists are numbered by order and, within an order, by migratetype.
const LISTS: u32 = 4;
const TYPES: u32 = 3;
const UNMOVABLE: u32 = 0;
const MOVABLE: u32 = 1;
/// Orders that have lists of their own (up to "costly" in the kernel); older builds have lists of single pages only.
const LIST_ORDERS: u32 = 4;
/// All lists, the one of huge pages included, which nobody here asks for.
const LISTS_ALL: u32 = LIST_ORDERS * TYPES + 1;
/// One page table is filled by this many faults.
const TABLE_EVERY: u64 = 512;
/// Every so many faults a slab needs a new block of order 1 to 3, for what faults and exits allocate besides pages.
const SLAB_EVERY: u64 = 64;

/// A block out of the lists: its first page, and its list.
#[derive(Clone, Copy, Debug)]
struct Block {
    page: Cell,
    list: u32,
}

/// Order of a list's blocks.
fn order(list: u32) -> u32 {
    list / TYPES
}

/// The scenario.
#[derive(Clone, Debug)]
pub struct Pcp {
    memory: MemoryMap,
    kind: Kind,
    cpus: u32,
    lists: Vec<Cell>,
    /// Orders that have lists.
    orders: u32,
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
        let at = |i: u32| pages.index(&format!("lists[{i}].next")).map(|f| pages.fields[f as usize].offset);
        // A build with fewer lists has all others at the place of the first.
        let orders = if at(LISTS_ALL - 1)? == at(0)? { 1 } else { LIST_ORDERS };
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
            orders,
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

    fn head(&self, cpu: usize, list: u32) -> Cell {
        self.lists[cpu].field(LISTS + list * 2)
    }

    /// Lists that are in use.
    fn used(&self) -> std::ops::Range<u32> {
        0..self.orders * TYPES
    }

    fn push(&self, w: &mut dyn Words, cpu: usize, block: Block) {
        w.set(Zone::state(block.page), buddy::CACHED);
        list::push(w, self.head(cpu, block.list), block.page);
        bump(w, self.lists[cpu].field(COUNT), 1 << order(block.list));
    }

    /// Takes the first block of a CPU's list.
    fn pop(&self, w: &mut dyn Words, cpu: usize, list: u32) -> Option<Block> {
        let page = list::pop(w, self.head(cpu, list))?;
        bump(w, self.lists[cpu].field(COUNT), -(1 << order(list)));
        w.set(Zone::state(page), buddy::ALLOCATED);
        Some(Block { page, list })
    }

    fn refill(&self, w: &mut dyn Words, cpu: usize, list: u32) {
        for _ in 0..(BATCH >> order(list)).max(2) {
            let Some(page) = self.zone.take(w, order(list)) else { break };
            self.push(w, cpu, Block { page, list });
        }
    }

    /// Gives up to `most` pages back to the zone, from all lists in turn.
    fn drain(&self, w: &mut dyn Words, cpu: usize, most: u64) {
        let mut given = 0;
        loop {
            let before = given;
            for list in self.used() {
                if given >= most {
                    return;
                }
                if let Some(block) = self.pop(w, cpu, list) {
                    self.zone.give(w, block.page, order(list));
                    given += 1 << order(list);
                }
            }
            if given == before {
                return;
            }
        }
    }

    async fn allocate<E: Env>(&self, e: &E, cpu: usize, list: u32) -> Option<Block> {
        if !self.locks[cpu].enter(e).await {
            self.zone_lock.lock(e).await;
            let page = e.work(|w| self.zone.take(w, order(list))).await;
            self.zone_lock.unlock(e).await;
            return page.map(|page| Block { page, list });
        }
        let take = |w: &mut dyn Words| {
            w.work(TAKE_NS);
            self.pop(w, cpu, list)
        };
        let mut block = e.work(take).await;
        if block.is_none() {
            self.zone_lock.lock(e).await;
            e.work(|w| self.refill(w, cpu, list)).await;
            self.zone_lock.unlock(e).await;
            block = e.work(take).await;
        }
        self.locks[cpu].leave(e).await;
        block
    }

    async fn free<E: Env>(&self, e: &E, cpu: usize, blocks: &[Block]) {
        if !self.locks[cpu].enter(e).await {
            self.zone_lock.lock(e).await;
            e.work(|w| blocks.iter().for_each(|b| self.zone.give(w, b.page, order(b.list)))).await;
            self.zone_lock.unlock(e).await;
            return;
        }
        let full = e
            .work(|w| {
                for &block in blocks {
                    w.work(FREE_NS);
                    self.push(w, cpu, block);
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

    /// What the `n`-th fault needs besides its page: now and then a page table, now and then a block for a slab.
    fn besides(&self, n: u64) -> Option<u32> {
        if n.is_multiple_of(TABLE_EVERY) {
            Some(UNMOVABLE)
        } else if n.is_multiple_of(SLAB_EVERY) && self.orders > 1 {
            Some((1 + (n / SLAB_EVERY) as u32 % (self.orders - 1)) * TYPES + UNMOVABLE)
        } else {
            None
        }
    }

    async fn faults<E: Env>(&self, e: &E) {
        let cpu = e.me() as usize;
        let (mut held, mut n) = (Vec::with_capacity(HELD), 0u64);
        let work = (f64::from(FAULT_NS) * self.work) as u32;
        while !e.stopping() {
            think(e, work, self.think).await;
            n += 1;
            if let Some(list) = self.besides(n) {
                held.extend(self.allocate(e, cpu, list).await);
            }
            if let Some(block) = self.allocate(e, cpu, MOVABLE).await {
                held.push(block);
                e.note(Note::Done);
            }
            if held.len() >= HELD {
                for blocks in held.chunks(TOGETHER) {
                    self.free(e, cpu, blocks).await;
                }
                held.clear();
            }
        }
        for blocks in held.chunks(TOGETHER) {
            self.free(e, cpu, blocks).await;
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
        for cpu in 0..self.lists.len() {
            self.used().for_each(|list| list::init(w, self.head(cpu, list)));
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
        for (cpu, l) in self.lists.iter().enumerate() {
            let mut n = 0;
            for list in self.used() {
                let blocks = list::count(w, self.head(cpu, list), self.zone.pages.len());
                n += blocks.ok_or("a CPU's list is broken")? << order(list);
            }
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
