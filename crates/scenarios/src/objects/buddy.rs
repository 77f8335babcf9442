//! A binary buddy allocator over an array of page objects, as the zone that per-CPU lists are filled from.

use super::list;
use tussle_sim::{Cell, Words};

/// Orders 0 to 10, as in the kernel.
pub const ORDERS: u32 = 11;

/// State word of a page that is neither free in the zone nor the head of a free block.
pub const ALLOCATED: u64 = 0;
/// Added to the order of a free block's first page.
const FREE: u64 = 1 << 8;
/// The page lies on a per-CPU list.
pub const CACHED: u64 = 1 << 16;

/// The zone: list heads per order, and pages of three fields (`lru.next`, `lru.prev`, `private`).
#[derive(Clone, Debug)]
pub struct Zone {
    /// First of [`ORDERS`] list heads, two cells each.
    pub heads: Cell,
    /// Number of free pages.
    pub free: Cell,
    /// Pages in order of address.
    pub pages: std::sync::Arc<[Cell]>,
}

impl Zone {
    fn head(&self, order: u32) -> Cell {
        self.heads.field(order * 2)
    }

    fn index(&self, page: Cell) -> usize {
        // Pages are laid out in order, three cells each.
        ((page.0 - self.pages[0].0) / 3) as usize
    }

    /// State word of a page.
    pub fn state(page: Cell) -> Cell {
        page.field(2)
    }

    /// Puts all pages into the zone. Their number must be a multiple of the largest block.
    pub fn init(&self, w: &mut dyn Words) {
        (0..ORDERS).for_each(|o| list::init(w, self.head(o)));
        w.set(self.free, 0);
        let block = 1usize << (ORDERS - 1);
        for first in (0..self.pages.len() / block * block).step_by(block) {
            self.give(w, self.pages[first], ORDERS - 1);
        }
    }

    /// Frees a block, joining it with its buddies.
    pub fn give(&self, w: &mut dyn Words, page: Cell, mut order: u32) {
        let mut at = self.index(page);
        let freed = w.get(self.free) + (1 << order);
        w.set(self.free, freed);
        while order + 1 < ORDERS {
            let buddy = at ^ (1 << order);
            let Some(&other) = self.pages.get(buddy) else { break };
            if w.get(Zone::state(other)) != FREE + u64::from(order) {
                break;
            }
            list::remove(w, other);
            w.set(Zone::state(other), ALLOCATED);
            at &= buddy;
            order += 1;
        }
        let page = self.pages[at];
        w.set(Zone::state(page), FREE + u64::from(order));
        list::push(w, self.head(order), page);
    }

    /// Takes a block of `order`, splitting a larger one.
    pub fn take(&self, w: &mut dyn Words, order: u32) -> Option<Cell> {
        let found = (order..ORDERS).find(|&o| !list::is_empty(w, self.head(o)))?;
        let page = list::pop(w, self.head(found))?;
        let at = self.index(page);
        for o in (order..found).rev() {
            let upper = self.pages[at + (1 << o)];
            w.set(Zone::state(upper), FREE + u64::from(o));
            list::push(w, self.head(o), upper);
        }
        w.set(Zone::state(page), ALLOCATED);
        let left = w.get(self.free) - (1 << order);
        w.set(self.free, left);
        Some(page)
    }

    /// Free pages by their lists; checks that every block says what it is and none overlaps another.
    ///
    /// # Errors
    /// What is broken.
    pub fn check(&self, w: &mut dyn Words) -> Result<usize, String> {
        let mut seen = vec![false; self.pages.len()];
        for order in 0..ORDERS {
            let head = self.head(order);
            list::count(w, head, self.pages.len()).ok_or(format!("list of order {order} is broken"))?;
            let mut at = Cell::from_pointer(w.get(head));
            while at != head {
                if w.get(Zone::state(at)) != FREE + u64::from(order) {
                    return Err(format!("a block of order {order} says it is something else"));
                }
                let first = self.index(at);
                for page in seen.iter_mut().skip(first).take(1 << order) {
                    if std::mem::replace(page, true) {
                        return Err(format!("page {first} is free twice"));
                    }
                }
                at = Cell::from_pointer(w.get(at));
            }
        }
        let n = seen.iter().filter(|s| **s).count();
        let counted = w.get(self.free) as usize;
        if n == counted { Ok(n) } else { Err(format!("{n} pages on lists, {counted} counted")) }
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

    proptest! {
        #[test]
        fn nothing_is_lost_and_everything_joins_again(orders in proptest::collection::vec(0u32..6, 1..60)) {
            let pages: Vec<Cell> = (0..2048).map(|i| Cell(100 + i * 3)).collect();
            let zone = Zone { heads: Cell(1), free: Cell(50), pages: pages.into() };
            let mut w = Plain(vec![0; 100 + 2048 * 3]);
            zone.init(&mut w);
            prop_assert_eq!(zone.check(&mut w), Ok(2048));
            let taken: Vec<(Cell, u32)> =
                orders.iter().filter_map(|&o| zone.take(&mut w, o).map(|p| (p, o))).collect();
            let out: usize = taken.iter().map(|(_, o)| 1usize << o).sum();
            prop_assert_eq!(zone.check(&mut w), Ok(2048 - out));
            for (page, order) in taken {
                zone.give(&mut w, page, order);
            }
            prop_assert_eq!(zone.check(&mut w), Ok(2048));
            prop_assert_eq!(list::count(&mut w, zone.head(ORDERS - 1), 10), Some(2));
        }
    }
}
