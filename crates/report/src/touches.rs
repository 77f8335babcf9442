//! Touches by object: every section of a report asks for those of a few.

use tussle_evidence::{Evidence, Touch};

/// Positions of touches, those of one object side by side in their order.
pub(crate) struct ByObject<'a> {
    touches: &'a [Touch],
    order: Vec<u32>,
}

impl<'a> ByObject<'a> {
    /// Of all touches of the evidence.
    pub fn new(e: &'a Evidence) -> ByObject<'a> {
        let mut order: Vec<u32> = (0u32..).take(e.touches.len()).collect();
        order.sort_by_key(|&i| e.touches[i as usize].object);
        ByObject { touches: &e.touches, order }
    }

    /// Those of an object.
    pub fn of(&self, object: u32) -> impl Iterator<Item = &'a Touch> {
        let touches = self.touches;
        let from = self.order.partition_point(|&i| touches[i as usize].object < object);
        let to = self.order.partition_point(|&i| touches[i as usize].object <= object);
        self.order[from..to].iter().map(move |&i| &touches[i as usize])
    }
}
