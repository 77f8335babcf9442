//! What a waiting task keeps on its own lines: queue nodes of spinlocks, of the spinners' queue, of wait lists.

use std::sync::Arc;
use tussle_sim::{Cell, LayoutError, MemoryMap, Shape};

/// Nodes of every task. Pointers to a task are its number plus one, so that zero is nobody.
#[derive(Clone, Debug)]
pub struct Nodes {
    first: Arc<[Cell]>,
}

/// Fields of one task's nodes.
pub const FIELDS: [(&str, u32, u8); 9] = [
    // A per-CPU spinlock node.
    ("mcs.next", 0, 8),
    ("mcs.locked", 8, 4),
    // A per-CPU node of the optimistic spinners' queue, on its own line.
    ("osq.next", 128, 8),
    ("osq.prev", 136, 8),
    ("osq.locked", 144, 4),
    // A waiter on the stack.
    ("waiter.next", 256, 8),
    ("waiter.prev", 264, 8),
    ("waiter.kind", 272, 4),
    ("waiter.granted", 276, 4),
];

impl Nodes {
    /// Nodes for `tasks` tasks.
    ///
    /// # Errors
    /// [`LayoutError::TooLarge`].
    pub fn new(memory: &mut MemoryMap, tasks: usize) -> Result<Nodes, LayoutError> {
        let shape = Arc::new(Shape::new("task", 384, &FIELDS));
        let first = memory.slab(&shape, tasks.max(1) as u32, 0)?;
        Ok(Nodes { first: first.into() })
    }

    /// Field `index` of the node that pointer `who` (task + 1) names.
    pub fn cell(&self, who: u64, index: u32) -> Cell {
        let task = (who as usize).wrapping_sub(1);
        self.first.get(task).map_or(Cell::NULL, |c| c.field(index))
    }
}
