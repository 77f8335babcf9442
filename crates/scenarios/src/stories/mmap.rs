//! Scenario `mmap_lock`: threads of one process map and unmap memory, as will-it-scale's mmap1 does.

use super::{ScenarioError, Setup, bump, think};
use crate::locks::{SleepWords, rwsem::Rwsem};
use crate::nodes::Nodes;
use crate::objects::tree::{NodeFields, Tree};
use std::sync::Arc;
use tussle_sim::{Cell, Env, MemoryMap, Note, Program, Shape, Words};

/// Nominal times, ns: from mmap's unlocking to munmap's locking (a system call's exit and entry: a null call takes
/// some
/// 70 ns on these processors, and a few checks) and from munmap's to mmap's (freeing the area as well); in mmap's
/// section; in munmap's before and after the
/// downgrade.
const AFTER_MAP_NS: u32 = 90;
const AFTER_UNMAP_NS: u32 = 200;
const MAP_NS: u32 = 300;
const UNMAP_NS: u32 = 200;
const ZAP_NS: u32 = 300;

// Fields of the mm behind the six of its lock.
const RB: u32 = 6;
const BASE: u32 = 7;
const TASK_SIZE: u32 = 8;
const PGD: u32 = 9;
const MM_COUNT: u32 = 10;
const PGTABLES: u32 = 11;
const MAP_COUNT: u32 = 12;
const TOTAL_VM: u32 = 13;
const DATA_VM: u32 = 14;

const AREA: NodeFields = NodeFields { start: 0, last: 1, parent: 2, left: 3, right: 4, max: 5 };
const VM_MM: u32 = 6;
const VM_FLAGS: u32 = 7;
const PAGES: i64 = 32_768;
/// Areas that every process has: binary, libraries, stack, heap.
const RESIDENT: u32 = 20;

/// The scenario.
#[derive(Clone, Debug)]
pub struct Mmap {
    memory: MemoryMap,
    tasks: u32,
    lock: Rwsem,
    mm: Cell,
    tree: Tree,
    areas: Vec<Cell>,
    think: f64,
    work: f64,
}

impl Mmap {
    /// With this layout of `mm_struct`.
    ///
    /// # Errors
    /// Layouts that are too large.
    pub fn new(mm: Shape, setup: &Setup) -> Result<Mmap, ScenarioError> {
        let tasks = setup.task_count(setup.cpus)?;
        let mut memory = MemoryMap::new();
        // mm_struct is line-aligned by its slab.
        let mm = memory.object(&Arc::new(mm), 0)?;
        let area = Arc::new(crate::layouts::area_5_10());
        let areas = memory.slab(&area, tasks + RESIDENT, setup.phase_of(1))?;
        let nodes = Nodes::new(&mut memory, tasks as usize)?;
        let lock = Rwsem { words: SleepWords::at(mm), nodes, spin: setup.spin, steal: setup.steal };
        let tree = Tree { root: mm.field(RB), leftmost: Cell::NULL, fields: AREA };
        Ok(Mmap { memory, tasks, lock, mm, tree, areas, think: setup.think, work: setup.work })
    }

    fn ns(&self, ns: u32) -> u32 {
        (f64::from(ns) * self.work) as u32
    }

    fn map(&self, w: &mut dyn Words, me: u32) {
        let (mm, area) = (self.mm, self.areas[me as usize]);
        w.work(self.ns(MAP_NS) / 2);
        let size = w.get(mm.field(TASK_SIZE));
        let base = w.get(mm.field(BASE));
        // Each thread has its own place below the base, as get_unmapped_area would find it.
        let start = base.min(size) + u64::from(me) * (PAGES as u64) * 4096;
        self.tree.find(w, start);
        w.set(area.field(AREA.start), start);
        w.set(area.field(AREA.last), start + PAGES as u64 * 4096 - 1);
        w.set(area.field(VM_MM), mm.pointer());
        w.set(area.field(VM_FLAGS), 0x73);
        w.work(self.ns(MAP_NS) / 4);
        self.tree.insert(w, area);
        bump(w, mm.field(MAP_COUNT), 1);
        w.work(self.ns(MAP_NS) / 4);
        bump(w, mm.field(TOTAL_VM), PAGES);
        bump(w, mm.field(DATA_VM), PAGES);
    }

    fn unmap(&self, w: &mut dyn Words, me: u32) {
        let (mm, area) = (self.mm, self.areas[me as usize]);
        w.work(self.ns(UNMAP_NS) / 2);
        let start = w.get(area.field(AREA.start));
        let found = self.tree.find(w, start);
        debug_assert_eq!(found, area.pointer(), "the tree lost an area");
        self.tree.remove(w, area);
        bump(w, mm.field(MAP_COUNT), -1);
        bump(w, mm.field(TOTAL_VM), -PAGES);
        bump(w, mm.field(DATA_VM), -PAGES);
        w.work(self.ns(UNMAP_NS) / 2);
    }

    /// Walks page tables and flushes, under the downgraded lock.
    fn zap(&self, w: &mut dyn Words) {
        w.get(self.mm.field(PGD));
        w.work(self.ns(ZAP_NS) / 2);
        w.get(self.mm.field(MM_COUNT));
        w.get(self.mm.field(PGTABLES));
        w.work(self.ns(ZAP_NS) / 2);
    }
}

impl Program for Mmap {
    fn tasks(&self) -> usize {
        self.tasks as usize
    }

    fn memory(&self) -> &MemoryMap {
        &self.memory
    }

    fn init(&self, w: &mut dyn Words) {
        w.set(self.mm.field(BASE), 1 << 30);
        w.set(self.mm.field(TASK_SIZE), 1 << 47);
        for (i, &area) in self.areas.iter().skip(self.tasks as usize).enumerate() {
            w.set(area.field(AREA.start), i as u64 * 4096 * 4);
            w.set(area.field(AREA.last), i as u64 * 4096 * 4 + 4095);
            self.tree.insert(w, area);
        }
    }

    async fn run<E: Env>(&self, e: &E) {
        let me = e.me();
        while !e.stopping() {
            think(e, AFTER_UNMAP_NS, self.think).await;
            e.note(Note::LockWait);
            self.lock.write_lock(e).await;
            e.note(Note::LockHeld);
            e.work(|w| self.map(w, me)).await;
            e.note(Note::LockFree);
            self.lock.write_unlock(e).await;
            think(e, AFTER_MAP_NS, self.think).await;
            e.note(Note::LockWait);
            self.lock.write_lock(e).await;
            e.note(Note::LockHeld);
            e.work(|w| self.unmap(w, me)).await;
            self.lock.downgrade(e).await;
            e.work(|w| self.zap(w)).await;
            self.lock.read_unlock(e).await;
            e.note(Note::Done);
        }
    }

    fn check(&self, w: &mut dyn Words) -> Result<(), String> {
        let n = self.tree.check(w, self.areas.len())?;
        let counts = [MAP_COUNT, TOTAL_VM, DATA_VM].map(|f| w.get(self.mm.field(f)) as u32);
        if n != RESIDENT as usize || counts != [0; 3] {
            return Err(format!("{n} areas of {RESIDENT} left, accounting is {counts:?}"));
        }
        Ok(())
    }
}
