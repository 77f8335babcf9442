//! Circular doubly linked lists as in the kernel: a head and nodes of two pointers each. A pointer is the cell of a
//! `next` word; the `prev` word is the cell behind it.

use tussle_sim::{Cell, Words};

/// Makes an empty list.
pub fn init(w: &mut dyn Words, head: Cell) {
    w.set(head, head.pointer());
    w.set(head.field(1), head.pointer());
}

/// The list has no nodes.
pub fn is_empty(w: &mut dyn Words, head: Cell) -> bool {
    w.get(head) == head.pointer()
}

/// Inserts behind the head.
pub fn push(w: &mut dyn Words, head: Cell, node: Cell) {
    let next = Cell::from_pointer(w.get(head));
    w.set(next.field(1), node.pointer());
    w.set(node, next.pointer());
    w.set(node.field(1), head.pointer());
    w.set(head, node.pointer());
}

/// Takes a node out.
pub fn remove(w: &mut dyn Words, node: Cell) {
    let (next, prev) = (Cell::from_pointer(w.get(node)), Cell::from_pointer(w.get(node.field(1))));
    w.set(next.field(1), prev.pointer());
    w.set(prev, next.pointer());
}

/// Takes the first node.
pub fn pop(w: &mut dyn Words, head: Cell) -> Option<Cell> {
    let first = Cell::from_pointer(w.get(head));
    if first == head {
        return None;
    }
    remove(w, first);
    Some(first)
}

/// Number of nodes; `None` when the links are broken or there are more than `limit`.
pub fn count(w: &mut dyn Words, head: Cell, limit: usize) -> Option<usize> {
    let (mut at, mut n) = (Cell::from_pointer(w.get(head)), 0);
    while at != head {
        let next = Cell::from_pointer(w.get(at));
        if n >= limit || w.get(next.field(1)) != at.pointer() {
            return None;
        }
        n += 1;
        at = next;
    }
    Some(n)
}
