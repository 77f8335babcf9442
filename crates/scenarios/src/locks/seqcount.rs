//! A sequence counter: writers make it odd, readers try again when it was odd or has changed.

use tussle_sim::{Cell, Env, Spin};

/// The counter. Writers must exclude each other by other means.
#[derive(Clone, Copy, Debug)]
pub struct SeqCount {
    /// Odd while a writer is active.
    pub word: Cell,
}

impl SeqCount {
    /// Waits until no writer is active; returns what [`SeqCount::changed`] needs.
    pub async fn begin<E: Env>(&self, e: &E) -> u64 {
        loop {
            let seen = e.load(self.word).await;
            if seen & 1 == 0 {
                return seen;
            }
            e.spin(Spin::on(self.word, seen)).await;
        }
    }

    /// What was read since may be torn: try again.
    pub async fn changed<E: Env>(&self, e: &E, begun: u64) -> bool {
        e.load(self.word).await != begun
    }

    /// A writer begins. The add orders it before the writes that follow.
    pub async fn write_begin<E: Env>(&self, e: &E) {
        e.add(self.word, 1).await;
    }

    /// A writer ends.
    pub async fn write_end<E: Env>(&self, e: &E) {
        let seen = e.load(self.word).await;
        e.store(self.word, seen.wrapping_add(1)).await;
    }
}
