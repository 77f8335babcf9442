//! Scenario `anon_vma`: a mail server forks for every message; every child enters its areas into its ancestors'
//! anon_vma trees and leaves them at exit.

use super::{ScenarioError, Setup, bump, spread, think};
use crate::locks::{Kind, SleepLock, SleepWords};
use crate::nodes::Nodes;
use crate::objects::tree::{NodeFields, Tree};
use std::sync::Arc;
use tussle_sim::{Cell, Env, MemoryMap, Note, Op, Program, Shape, Words};

/// Areas of the server that its children inherit, each with a root lock of its own.
const ROOTS: u32 = 16;
/// Copying one area's page tables at fork, and dropping them at exit, ns.
const FORK_NS: u32 = 1_500;
const EXIT_NS: u32 = 700;
/// Computing inside a section besides the tree, ns.
const SECTION_NS: u32 = 120;
/// Handling a message, and waiting for the spool or the client, ns: with 40 cores at 86% this makes some 70,000 forks
/// a second and leaves the idle share of the seed's vmstat.
const MESSAGE_NS: u32 = 350_000;
const WAIT_NS: u32 = 60_000;

const REFCOUNT: u32 = 6;
const ROOT: u32 = 7;
const CHAIN: NodeFields = NodeFields { parent: 0, left: 1, right: 2, start: 3, last: 4, max: 5 };

/// The scenario.
#[derive(Clone, Debug)]
pub struct Anon {
    memory: MemoryMap,
    tasks: u32,
    roots: Vec<(Cell, SleepLock, Tree)>,
    chains: Vec<Cell>,
    think: f64,
    work: f64,
}

impl Anon {
    /// With this kind of lock in this layout of `anon_vma`.
    ///
    /// # Errors
    /// Too many tasks.
    pub fn new(kind: Kind, layout: Shape, setup: &Setup) -> Result<Anon, ScenarioError> {
        let tasks = setup.task_count(setup.cpus)?;
        let mut memory = MemoryMap::new();
        let places = memory.slab(&Arc::new(layout), ROOTS, setup.phase_of(1))?;
        let chains = memory.slab(&Arc::new(crate::layouts::chain()), tasks * ROOTS, 0)?;
        let nodes = Nodes::new(&mut memory, tasks as usize)?;
        let root = |c: Cell| {
            let tree = Tree { root: c.field(ROOT), leftmost: Cell::NULL, fields: CHAIN };
            (c, SleepLock::new(kind, SleepWords::at(c), &nodes), tree)
        };
        let roots = places.into_iter().map(root).collect();
        Ok(Anon { memory, tasks, roots, chains, think: setup.think, work: setup.work })
    }

    async fn change<E: Env>(&self, e: &E, i: usize, insert: bool) {
        let (root, lock, tree) = &self.roots[i];
        let chain = self.chains[e.me() as usize * ROOTS as usize + i];
        let section = (f64::from(SECTION_NS) * self.work) as u32;
        lock.lock(e).await;
        e.work(|w| {
            w.work(section);
            if insert {
                w.set(chain.field(CHAIN.start), i as u64 * 100);
                w.set(chain.field(CHAIN.last), i as u64 * 100 + 99);
                tree.insert(w, chain);
                bump(w, root.field(REFCOUNT), 1);
            } else {
                tree.remove(w, chain);
                bump(w, root.field(REFCOUNT), -1);
            }
        })
        .await;
        lock.unlock(e).await;
    }
}

impl Program for Anon {
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
        e.compute(spread(e, MESSAGE_NS, self.think) / 2).await;
        while !e.stopping() {
            for i in 0..ROOTS as usize {
                think(e, FORK_NS, self.think).await;
                self.change(e, i, true).await;
            }
            think(e, MESSAGE_NS, self.think).await;
            e.op(Op::Sleep(spread(e, WAIT_NS, self.think))).await;
            for i in 0..ROOTS as usize {
                think(e, EXIT_NS, self.think).await;
                self.change(e, i, false).await;
            }
            e.note(Note::Done);
        }
    }

    fn check(&self, w: &mut dyn Words) -> Result<(), String> {
        for (root, _, tree) in &self.roots {
            let left = tree.check(w, self.chains.len())?;
            let count = w.get(root.field(REFCOUNT)) as u32;
            if left != 0 || count != 0 {
                return Err(format!("{left} chains and {count} references left"));
            }
        }
        Ok(())
    }
}
