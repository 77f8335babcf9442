//! An augmented search tree: intervals ordered by their start, each subtree knowing its largest end. It serves as
//! `i_mmap`, as an anon_vma's tree and as a tree of memory areas.
//!
//! A treap (Seidel and Aragon, 1996) with priorities hashed from the node's identity: as balanced as the red-black
//! tree
//! of the kernel within a small factor, with rotations in few lines. Every walk is bounded, so a reader that races
//! with a
//! writer under RCU may miss a node but always ends.

use tussle_sim::{Cell, Words};

/// Where a node's fields lie, as indices from its object's first cell.
#[derive(Clone, Copy, Debug)]
pub struct NodeFields {
    /// Parent pointer.
    pub parent: u32,
    /// Left child.
    pub left: u32,
    /// Right child.
    pub right: u32,
    /// First value of the interval.
    pub start: u32,
    /// Last value of the interval.
    pub last: u32,
    /// Largest `last` in the subtree.
    pub max: u32,
}

/// Steps of one walk; a tree that needs more is broken or being changed under a reader.
const STEPS_MAX: usize = 512;

/// A tree: its root word and, if cached, its leftmost word.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    /// Pointer to the root node.
    pub root: Cell,
    /// Pointer to the leftmost node; [`Cell::NULL`] when not cached.
    pub leftmost: Cell,
    /// Fields of the nodes.
    pub fields: NodeFields,
}

fn priority(node: u64) -> u64 {
    let z = node.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

impl Tree {
    fn get(&self, w: &mut dyn Words, node: u64, field: u32) -> u64 {
        w.get(Cell::from_pointer(node).field(field))
    }

    fn set(&self, w: &mut dyn Words, node: u64, field: u32, value: u64) {
        w.set(Cell::from_pointer(node).field(field), value);
    }

    fn max_of(&self, w: &mut dyn Words, node: u64) -> u64 {
        if node == 0 { 0 } else { self.get(w, node, self.fields.max) }
    }

    /// Recomputes a node's augmentation; true when it changed.
    fn refresh(&self, w: &mut dyn Words, node: u64) -> bool {
        let f = self.fields;
        let (left, right) = (self.get(w, node, f.left), self.get(w, node, f.right));
        let last = self.get(w, node, f.last);
        let max = last.max(self.max_of(w, left)).max(self.max_of(w, right));
        let changed = self.get(w, node, f.max) != max;
        if changed {
            self.set(w, node, f.max, max);
        }
        changed
    }

    /// Makes `parent` (or the root word) point to `new` where it pointed to `old`.
    fn replace_child(&self, w: &mut dyn Words, parent: u64, old: u64, new: u64) {
        let f = self.fields;
        if parent == 0 {
            w.set(self.root, new);
        } else if self.get(w, parent, f.left) == old {
            self.set(w, parent, f.left, new);
        } else {
            self.set(w, parent, f.right, new);
        }
        if new != 0 {
            self.set(w, new, f.parent, parent);
        }
    }

    /// Rotates `node` above its parent.
    fn rotate_up(&self, w: &mut dyn Words, node: u64) {
        let f = self.fields;
        let parent = self.get(w, node, f.parent);
        let grand = self.get(w, parent, f.parent);
        let (near, far) =
            if self.get(w, parent, f.left) == node { (f.left, f.right) } else { (f.right, f.left) };
        let inner = self.get(w, node, far);
        self.set(w, parent, near, inner);
        if inner != 0 {
            self.set(w, inner, f.parent, parent);
        }
        self.replace_child(w, grand, parent, node);
        self.set(w, node, far, parent);
        self.set(w, parent, f.parent, node);
        self.refresh(w, parent);
        self.refresh(w, node);
    }

    /// Inserts a node whose `start` and `last` are set.
    pub fn insert(&self, w: &mut dyn Words, node: Cell) {
        let (f, node) = (self.fields, node.pointer());
        let (start, last) = (self.get(w, node, f.start), self.get(w, node, f.last));
        for (field, value) in [(f.left, 0), (f.right, 0), (f.max, last)] {
            self.set(w, node, field, value);
        }
        let (mut parent, mut at, mut leftmost, mut left) = (0, w.get(self.root), true, true);
        for _ in 0..STEPS_MAX {
            if at == 0 {
                break;
            }
            w.work(1);
            if self.get(w, at, f.max) < last {
                self.set(w, at, f.max, last);
            }
            left = start < self.get(w, at, f.start);
            leftmost &= left;
            parent = at;
            at = self.get(w, at, if left { f.left } else { f.right });
        }
        self.set(w, node, f.parent, parent);
        if parent == 0 {
            w.set(self.root, node);
        } else {
            self.set(w, parent, if left { f.left } else { f.right }, node);
        }
        if leftmost && self.leftmost != Cell::NULL {
            w.set(self.leftmost, node);
        }
        for _ in 0..STEPS_MAX {
            let parent = self.get(w, node, f.parent);
            if parent == 0 || priority(parent) >= priority(node) {
                break;
            }
            self.rotate_up(w, node);
        }
    }

    /// Takes a node out.
    pub fn remove(&self, w: &mut dyn Words, node: Cell) {
        let (f, node) = (self.fields, node.pointer());
        if self.leftmost != Cell::NULL && w.get(self.leftmost) == node {
            let next = self.next(w, node);
            w.set(self.leftmost, next);
        }
        for _ in 0..STEPS_MAX {
            w.work(1);
            let (left, right) = (self.get(w, node, f.left), self.get(w, node, f.right));
            if left == 0 || right == 0 {
                break;
            }
            self.rotate_up(w, if priority(left) > priority(right) { left } else { right });
        }
        let (left, right) = (self.get(w, node, f.left), self.get(w, node, f.right));
        let child = if left == 0 { right } else { left };
        let parent = self.get(w, node, f.parent);
        self.replace_child(w, parent, node, child);
        let mut at = parent;
        for _ in 0..STEPS_MAX {
            if at == 0 || !self.refresh(w, at) {
                break;
            }
            at = self.get(w, at, f.parent);
        }
    }

    /// In-order successor, 0 at the end.
    pub fn next(&self, w: &mut dyn Words, node: u64) -> u64 {
        let f = self.fields;
        let mut at = self.get(w, node, f.right);
        if at != 0 {
            return self.descend(w, at);
        }
        let mut child = node;
        at = self.get(w, node, f.parent);
        for _ in 0..STEPS_MAX {
            if at == 0 || self.get(w, at, f.left) == child {
                break;
            }
            child = at;
            at = self.get(w, at, f.parent);
        }
        at
    }

    fn descend(&self, w: &mut dyn Words, mut at: u64) -> u64 {
        for _ in 0..STEPS_MAX {
            let left = self.get(w, at, self.fields.left);
            if left == 0 {
                break;
            }
            at = left;
        }
        at
    }

    /// First node by order, 0 when empty.
    pub fn first(&self, w: &mut dyn Words) -> u64 {
        let root = w.get(self.root);
        if root == 0 { 0 } else { self.descend(w, root) }
    }

    /// A node whose interval contains `point`, walking by start: for intervals that do not overlap. 0 if there is
    /// none,
    /// or if a racing writer hid it.
    pub fn find(&self, w: &mut dyn Words, point: u64) -> u64 {
        let f = self.fields;
        let mut at = w.get(self.root);
        for _ in 0..STEPS_MAX {
            if at == 0 {
                break;
            }
            if point < self.get(w, at, f.start) {
                at = self.get(w, at, f.left);
            } else if point <= self.get(w, at, f.last) {
                return at;
            } else {
                at = self.get(w, at, f.right);
            }
        }
        0
    }

    /// The first interval by order that overlaps `[start, last]`, found by the augmentation.
    pub fn overlap(&self, w: &mut dyn Words, start: u64, last: u64) -> u64 {
        let f = self.fields;
        let (mut at, mut best) = (w.get(self.root), 0);
        for _ in 0..STEPS_MAX {
            if at == 0 {
                break;
            }
            let left = self.get(w, at, f.left);
            if left != 0 && self.get(w, left, f.max) >= start {
                at = left;
                continue;
            }
            if self.get(w, at, f.start) > last {
                break;
            }
            if self.get(w, at, f.last) >= start {
                best = at;
                break;
            }
            at = self.get(w, at, f.right);
        }
        best
    }

    /// Counts the nodes and checks order, parents, augmentation and the cached leftmost.
    ///
    /// # Errors
    /// What is broken.
    pub fn check(&self, w: &mut dyn Words, limit: usize) -> Result<usize, String> {
        let f = self.fields;
        let (mut at, mut n, mut before) = (self.first(w), 0, 0);
        if self.leftmost != Cell::NULL && w.get(self.leftmost) != at {
            return Err("the cached leftmost node is not the leftmost".into());
        }
        while at != 0 {
            n += 1;
            if n > limit {
                return Err(format!("more than {limit} nodes: a cycle"));
            }
            let start = self.get(w, at, f.start);
            if start < before {
                return Err(format!("node {at} is out of order"));
            }
            before = start;
            if self.refresh(w, at) {
                return Err(format!("node {at} does not know the end of its subtree"));
            }
            for side in [f.left, f.right] {
                let child = self.get(w, at, side);
                if child != 0 && self.get(w, child, f.parent) != at {
                    return Err(format!("child {child} does not know its parent {at}"));
                }
            }
            at = self.next(w, at);
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Plain(Vec<u64>);

    impl Words for Plain {
        fn get(&mut self, c: Cell) -> u64 {
            self.0[c.0 as usize]
        }
        fn set(&mut self, c: Cell, v: u64) {
            self.0[c.0 as usize] = v;
        }
        fn work(&mut self, _: u32) {}
    }

    const FIELDS: NodeFields = NodeFields { parent: 0, left: 1, right: 2, start: 3, last: 4, max: 5 };

    proptest! {
        #[test]
        fn against_a_list_of_intervals(ops in proptest::collection::vec((0u64..40, 0u64..1000, 0u64..50), 1..120)) {
            let tree = Tree { root: Cell(1), leftmost: Cell(2), fields: FIELDS };
            let mut w = Plain(vec![0; 8 + 40 * 6]);
            let mut model: Vec<(u64, u64, u64)> = Vec::new();
            for (slot, start, len) in ops {
                let node = Cell(8 + slot as u32 * 6);
                match model.iter().position(|m| m.0 == node.pointer()) {
                    Some(i) => {
                        tree.remove(&mut w, node);
                        model.remove(i);
                    }
                    None => {
                        w.set(node.field(3), start);
                        w.set(node.field(4), start + len);
                        tree.insert(&mut w, node);
                        model.push((node.pointer(), start, start + len));
                    }
                }
                prop_assert_eq!(tree.check(&mut w, 100), Ok(model.len()));
                let hit = tree.overlap(&mut w, start, start + 10);
                let want = model.iter().filter(|m| m.1 <= start + 10 && m.2 >= start).map(|m| m.1).min();
                prop_assert_eq!(model.iter().find(|m| m.0 == hit).map(|m| m.1), want);
            }
        }
    }
}
