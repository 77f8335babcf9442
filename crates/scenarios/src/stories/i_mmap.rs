//! Scenario `i_mmap`: shell commands start and end, and each maps the same few files.

use super::{ScenarioError, Setup, spread, think};
use crate::locks::{SleepWords, rwsem::Rwsem};
use crate::nodes::Nodes;
use crate::objects::tree::{NodeFields, Tree};
use std::sync::Arc;
use tussle_sim::{Cell, Env, MemoryMap, Note, Op, Program, Shape, Words};

/// Computing between two operations on a file's mappings, ns; a fork, exec and exit of a small command take about
/// 1 ms and some fifty of them.
const BETWEEN_NS: u32 = 16_000;
/// Computing inside a section apart from the tree itself, ns.
const SECTION_NS: u32 = 40;
/// Waiting for a child, a pipe or a disk per command, ns.
const WAIT_NS: u32 = 60_000;
/// File of each mapping of a command: the C library, the loader, the program.
const FILES: [usize; 6] = [0, 0, 0, 1, 1, 2];

const ROOT: u32 = 6;
const LEFTMOST: u32 = 7;
const XA_HEAD: u32 = 8;
const NRPAGES: u32 = 9;
const A_OPS: u32 = 10;
const AREA: NodeFields = NodeFields { last: 0, parent: 1, left: 2, right: 3, max: 4, start: 5 };

/// The scenario.
#[derive(Clone, Debug)]
pub struct IMmap {
    memory: MemoryMap,
    tasks: u32,
    files: Vec<(Cell, Rwsem, Tree)>,
    areas: Vec<Cell>,
    think: f64,
    work: f64,
}

impl IMmap {
    /// With this layout of `address_space`; every file's phase is drawn, as their inodes' slabs give them all phases.
    ///
    /// # Errors
    /// Layouts that are too large.
    pub fn new(mapping: Shape, setup: &Setup) -> Result<IMmap, ScenarioError> {
        // More commands than CPUs: some wait for their children, and spinners see that their CPU is wanted.
        let tasks = setup.task_count(setup.cpus + setup.cpus / 2)?;
        let mut memory = MemoryMap::new();
        let shape = Arc::new(mapping);
        let mut files = Vec::new();
        let mut places = Vec::new();
        for file in 0..3 {
            places.push(memory.object(&shape, setup.phase_of(file))?);
        }
        let area = Arc::new(crate::layouts::area_shared());
        let areas = memory.slab(&area, tasks * FILES.len() as u32, 0)?;
        let nodes = Nodes::new(&mut memory, tasks as usize)?;
        for m in places {
            let lock = Rwsem {
                words: SleepWords::at(m),
                nodes: nodes.clone(),
                spin: setup.spin,
                steal: setup.steal,
            };
            let tree = Tree { root: m.field(ROOT), leftmost: m.field(LEFTMOST), fields: AREA };
            files.push((m, lock, tree));
        }
        Ok(IMmap { memory, tasks, files, areas, think: setup.think, work: setup.work })
    }

    async fn change<E: Env>(&self, e: &E, slot: usize, insert: bool) {
        think(e, BETWEEN_NS, self.think).await;
        let (mapping, lock, tree) = &self.files[FILES[slot]];
        // Faults on the file's pages look up the page cache.
        e.load(mapping.field(XA_HEAD)).await;
        e.load(mapping.field(A_OPS)).await;
        e.load(mapping.field(NRPAGES)).await;
        let area = self.areas[e.me() as usize * FILES.len() + slot];
        e.note(Note::LockWait);
        lock.write_lock(e).await;
        e.note(Note::LockHeld);
        let section = (f64::from(SECTION_NS) * self.work) as u32;
        e.work(|w| {
            w.work(section);
            if insert {
                w.set(area.field(AREA.start), slot as u64 * 16);
                w.set(area.field(AREA.last), slot as u64 * 16 + 15);
                tree.insert(w, area);
            } else {
                tree.remove(w, area);
            }
        })
        .await;
        e.note(Note::LockFree);
        lock.write_unlock(e).await;
        e.note(Note::Done);
    }
}

impl Program for IMmap {
    fn tasks(&self) -> usize {
        self.tasks as usize
    }

    fn memory(&self) -> &MemoryMap {
        &self.memory
    }

    fn init(&self, _: &mut dyn Words) {}

    fn pinned(&self, _: u32, _: u32) -> Option<u32> {
        None
    }

    async fn run<E: Env>(&self, e: &E) {
        // Commands are at different points of their lives when the run begins.
        let begin = spread(e, BETWEEN_NS * 12, self.think);
        e.compute(begin / 2).await;
        while !e.stopping() {
            for slot in 0..FILES.len() {
                self.change(e, slot, true).await;
            }
            let wait = spread(e, WAIT_NS, self.think);
            e.op(Op::Sleep(wait)).await;
            for slot in 0..FILES.len() {
                self.change(e, slot, false).await;
            }
        }
    }

    fn check(&self, w: &mut dyn Words) -> Result<(), String> {
        for (i, (_, _, tree)) in self.files.iter().enumerate() {
            let left = tree.check(w, self.areas.len())?;
            if left != 0 {
                return Err(format!("{left} mappings of file {i} left behind"));
            }
        }
        Ok(())
    }
}
