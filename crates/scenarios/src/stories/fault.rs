//! Scenario `vma_lock`: threads of one process fault pages of one area in, under the area's own lock, while now and
//! then a writer changes, removes and re-creates areas.

use super::{ScenarioError, Setup, think};
use crate::locks::SleepWords;
use crate::locks::rwsem::Rwsem;
use crate::locks::seqcount::SeqCount;
use crate::locks::vma::{Kind, RefLock, VmaLock};
use crate::nodes::Nodes;
use crate::objects::tree::{NodeFields, Tree};
use std::sync::Arc;
use tussle_sim::{Cell, Env, MemoryMap, Note, Op, Program, Shape, Words};

/// One fault inside the area's lock (page, page table, accounting) and outside of it, ns; together the 1.97 us of the
/// seed's row for one CPU.
const FAULT_NS: u32 = 1_750;
const USER_NS: u32 = 180;
/// Between two changes by the writer.
const WRITER_NS: u32 = 500_000;
/// What a change takes.
const CHANGE_NS: u32 = 2_000;
/// Areas: the first is the one that is faulted; the writer changes the others and sometimes the first.
const AREAS: u32 = 24;
/// Objects beyond the areas in use, for types freed by grace period.
const SPARE: u32 = 40;

const START: u32 = 0;
const END: u32 = 1;
const MM: u32 = 2;
const PROT: u32 = 3;
const FLAGS: u32 = 4;
const SEQ: u32 = 5;
const DETACHED: u32 = 6;
const LOCK: u32 = 7;
const MERGED: u32 = 8;

const NODE: NodeFields = NodeFields { parent: 0, left: 1, right: 2, start: 3, last: 4, max: 5 };
const NODE_AREA: u32 = 6;

/// Bytes of an area's address range.
const RANGE: u64 = 1 << 30;

/// The scenario.
#[derive(Clone, Debug)]
pub struct Fault {
    memory: MemoryMap,
    kind: Kind,
    tasks: u32,
    mmap_lock: Rwsem,
    mm_seq: SeqCount,
    waiter: Cell,
    bad: Cell,
    tree: Tree,
    areas: Vec<Cell>,
    locks: Vec<VmaLock>,
    nodes: Vec<Cell>,
    think: f64,
    work: f64,
}

/// Layouts of what faults touch.
#[derive(Clone, Debug)]
pub struct Layouts {
    /// `mm_struct`, as [`crate::layouts::fault_mm`] orders it.
    pub mm: Shape,
    /// `vm_area_struct`, as [`crate::layouts::area_locked`] orders it.
    pub area: Shape,
}

impl Fault {
    /// With this kind of lock in these layouts.
    ///
    /// # Errors
    /// Too many tasks.
    pub fn new(kind: Kind, layouts: Layouts, setup: &Setup) -> Result<Fault, ScenarioError> {
        let tasks = setup.task_count(setup.cpus)?;
        let mut memory = MemoryMap::new();
        let counted = layouts.mm.index("bad").ok();
        let mm = memory.object(&Arc::new(layouts.mm), 0)?;
        let count = AREAS + SPARE;
        let area_shape = Arc::new(layouts.area);
        let phase = if kind == Kind::Split { setup.phase_of(1) } else { setup.phase_of(1) / 64 * 64 };
        let areas = memory.slab(&area_shape, count, phase)?;
        let sems = memory.slab(&Arc::new(crate::layouts::vma_lock()), count, setup.phase_of(2))?;
        let node = Shape::new(
            "maple_node",
            64,
            &[
                ("parent", 0, 8),
                ("left", 8, 8),
                ("right", 16, 8),
                ("min", 24, 8),
                ("max", 32, 8),
                ("gap", 40, 8),
                ("slot", 48, 8),
            ],
        );
        let tree_nodes = memory.slab(&Arc::new(node), count, 0)?;
        let nodes = Nodes::new(&mut memory, tasks as usize + 1)?;
        let bad = match counted {
            Some(i) => mm.field(i),
            None => memory.object(&Arc::new(Shape::new("check", 8, &[("bad", 0, 8)])), 0)?,
        };
        let rwsem = |words| Rwsem { words, nodes: nodes.clone(), spin: setup.spin, steal: setup.steal };
        let lock = |i: usize| {
            let a = areas[i];
            let sem = |words, pointer| VmaLock::Sem {
                sem: rwsem(words),
                pointer,
                seq: a.field(SEQ),
                detached: a.field(DETACHED),
            };
            match kind {
                Kind::Split => sem(SleepWords::at(sems[i]), Some(a.field(LOCK))),
                Kind::Merged => sem(SleepWords::at(a.field(MERGED)), None),
                Kind::Count => {
                    let lock = RefLock { word: a.field(LOCK), waiter: mm.field(8) };
                    VmaLock::Count { lock, seq: a.field(SEQ) }
                }
            }
        };
        let locks = (0..count as usize).map(lock).collect();
        Ok(Fault {
            mmap_lock: rwsem(SleepWords::at(mm)),
            mm_seq: SeqCount { word: mm.field(6) },
            waiter: mm.field(8),
            bad,
            tree: Tree { root: mm.field(7), leftmost: Cell::NULL, fields: NODE },
            kind,
            tasks,
            areas,
            locks,
            nodes: tree_nodes,
            memory,
            think: setup.think,
            work: setup.work,
        })
    }

    fn ns(&self, ns: u32) -> u32 {
        (f64::from(ns) * self.work) as u32
    }

    /// Looks an area up under RCU: the answer may be stale.
    fn lookup(&self, w: &mut dyn Words, address: u64) -> u64 {
        let node = self.tree.find(w, address);
        if node == 0 { 0 } else { w.get(Cell::from_pointer(node).field(NODE_AREA)) }
    }

    fn put_in(&self, w: &mut dyn Words, object: usize, slot: u64) {
        let (area, node) = (self.areas[object], self.nodes[object]);
        w.set(area.field(START), slot * RANGE);
        w.set(area.field(END), (slot + 1) * RANGE);
        w.set(node.field(NODE.start), slot * RANGE);
        w.set(node.field(NODE.last), (slot + 1) * RANGE - 1);
        w.set(node.field(NODE_AREA), area.pointer());
        self.tree.insert(w, node);
    }

    /// The area is the right one and does not change while it is locked.
    fn inside(&self, w: &mut dyn Words, area: Cell, address: u64) -> bool {
        let fits = |w: &mut dyn Words| {
            let (start, end) = (w.get(area.field(START)), w.get(area.field(END)));
            start <= address && address < end
        };
        if !fits(w) {
            return false;
        }
        for f in [MM, PROT, FLAGS] {
            w.get(area.field(f));
        }
        w.work(self.ns(FAULT_NS));
        if !fits(w) {
            let n = w.get(self.bad);
            w.set(self.bad, n + 1);
        }
        true
    }

    async fn fault<E: Env>(&self, e: &E, address: u64) {
        let seq = e.load(self.mm_seq.word).await;
        let found = e.work(|w| self.lookup(w, address)).await;
        let object = self.areas.iter().position(|a| a.pointer() == found);
        if let (Some(i), 0) = (object, seq & 1) {
            // An odd sequence means: the areas that carry it are being written.
            if self.locks[i].try_read(e, seq + 1).await {
                // The object may have been recycled since the lookup: check what it is now.
                let done = e.work(|w| self.inside(w, self.areas[i], address)).await;
                self.locks[i].read_unlock(e).await;
                if done {
                    return;
                }
            }
        }
        self.mmap_lock.read_lock(e).await;
        e.work(|w| {
            self.lookup(w, address);
            w.work(self.ns(FAULT_NS));
        })
        .await;
        self.mmap_lock.read_unlock(e).await;
    }

    async fn write<E: Env>(&self, e: &E, spare: &mut Vec<usize>, live: &mut [usize]) {
        let first = e.random().is_multiple_of(8);
        let which = if first { 0 } else { 1 + (e.random() % u64::from(AREAS - 1)) as usize };
        self.mmap_lock.write_lock(e).await;
        self.mm_seq.write_begin(e).await;
        let seq = e.load(self.mm_seq.word).await;
        let object = live[which];
        self.locks[object].write(e, seq).await;
        e.compute(self.ns(CHANGE_NS)).await;
        if !first {
            // Unmap, and map another area at the same place. A type-stable object comes back at once, others after a
            // grace period: the spare objects are enough for it to pass.
            self.locks[object].detach(e).await;
            e.work(|w| self.tree.remove(w, self.nodes[object])).await;
            let new = if self.kind == Kind::Count { object } else { spare.remove(0) };
            spare.push(object);
            e.work(|w| self.put_in(w, new, which as u64)).await;
            self.locks[new].attach(e).await;
            live[which] = new;
        }
        self.mm_seq.write_end(e).await;
        self.mmap_lock.write_unlock(e).await;
    }
}

impl Program for Fault {
    fn tasks(&self) -> usize {
        self.tasks as usize + 1
    }

    fn memory(&self) -> &MemoryMap {
        &self.memory
    }

    fn init(&self, w: &mut dyn Words) {
        for slot in 0..AREAS as usize {
            self.put_in(w, slot, slot as u64);
            if self.kind == Kind::Count {
                w.set(self.areas[slot].field(LOCK), 1);
            }
        }
    }

    async fn run<E: Env>(&self, e: &E) {
        if e.me() == self.tasks {
            let mut live: Vec<usize> = (0..AREAS as usize).collect();
            let mut spare: Vec<usize> = (AREAS as usize..(AREAS + SPARE) as usize).collect();
            while !e.stopping() {
                e.op(Op::Sleep(super::spread(e, WRITER_NS, 1.0))).await;
                self.write(e, &mut spare, &mut live).await;
            }
            return;
        }
        let mut page = u64::from(e.me()) << 12;
        while !e.stopping() {
            think(e, USER_NS, self.think).await;
            // Each thread has its own pages of the one area.
            self.fault(e, page % RANGE).await;
            page = page.wrapping_add(u64::from(self.tasks) << 12);
            e.note(Note::Done);
        }
    }

    fn check(&self, w: &mut dyn Words) -> Result<(), String> {
        let n = self.tree.check(w, self.areas.len())?;
        let bad = w.get(self.bad);
        if n != AREAS as usize || bad != 0 || w.get(self.waiter) != 0 {
            return Err(format!("{n} areas of {AREAS}, {bad} changed under a reader"));
        }
        Ok(())
    }
}
