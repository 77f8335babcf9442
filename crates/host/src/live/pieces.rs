//! Work in pieces: what disturbs it shows in the CPU time of a piece.

use super::event::thread_ns;

/// Pieces of work, and the CPU time that they took.
#[derive(Clone, Copy, Default)]
pub(super) struct Done {
    pieces: u64,
    pub ns: u64,
}

impl Done {
    /// One piece more.
    pub fn add(&mut self, piece: impl FnOnce()) {
        let begin = thread_ns();
        piece();
        *self = Done { pieces: self.pieces + 1, ns: self.ns + thread_ns() - begin };
    }

    /// Other pieces, too.
    pub fn join(&mut self, other: Done) {
        *self = Done { pieces: self.pieces + other.pieces, ns: self.ns + other.ns };
    }

    /// By how much it took longer than as many pieces that were left alone; `None` where there were none.
    pub fn lost_ns(self, free: Done) -> Option<u64> {
        let expected = u128::from(free.ns) * u128::from(self.pieces);
        Some(self.ns.saturating_sub(expected.checked_div(u128::from(free.pieces))? as u64))
    }
}
