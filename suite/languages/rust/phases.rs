//! Quiet: blocks of one whole line. Between two barriers each thread changes one of them 33,000 times, and behind the
//! barrier the next one: every phase, each block has another owner. That is one hand-off for each block and phase.
//! Shared beside the blocks is the barrier, some ten stores for each thread and phase.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Barrier;
use std::{env, thread};

const PHASES: usize = 6;
const STEPS: usize = 33_000;

#[derive(Default)]
#[repr(align(64))]
struct Block {
    cells: [AtomicU64; 8],
}

impl Block {
    /// Only the owner changes a cell, so a load and a store will do.
    fn change(&self, step: usize) {
        let cell = &self.cells[step % 8];
        cell.store(cell.load(Relaxed) + 1, Relaxed);
    }
}

fn work(me: usize, blocks: &[Block], barrier: &Barrier) -> usize {
    let mut handoffs = 0;
    for phase in 0..PHASES {
        barrier.wait();
        let block = &blocks[(me + phase) % blocks.len()];
        for step in 0..STEPS {
            block.change(step);
        }
        handoffs += 1;
    }
    handoffs
}

fn main() {
    let threads = env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4).clamp(2, 12);
    let blocks: Vec<Block> = (0..threads).map(|_| Block::default()).collect();
    let barrier = Barrier::new(threads);
    let handoffs: usize = thread::scope(|scope| {
        let begin = |me| {
            let (blocks, barrier) = (&blocks, &barrier);
            scope.spawn(move || work(me, blocks, barrier))
        };
        let all: Vec<_> = (0..threads).map(begin).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    let changed = |block: &Block| block.cells.iter().map(|cell| cell.load(Relaxed)).sum::<u64>();
    assert!(blocks.iter().all(|block| changed(block) == (PHASES * STEPS) as u64));
    println!("handoffs {handoffs}");
}
