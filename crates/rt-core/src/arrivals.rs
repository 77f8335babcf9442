//! What a thread's exchanges are for: to take something and work with it, or to say that it has arrived somewhere and
//! wait there for the others. Who always waits after one, as threads at a barrier do, is on its way to wait, too, when
//! it has not come to look yet: it may have lost the CPU.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Accesses of who has arrived until it waits: what a library's barrier does until then.
pub const ACCESSES_MAX: u64 = 64;
/// Lines that it may have touched.
pub const LINES_MAX: u32 = 32;

/// What one thread did after its exchanges. Only that thread changes it.
pub struct Arrivals {
    /// Its count of accesses at its latest exchange, while nothing has told what that was for; else 0.
    exchanged: AtomicU64,
    then_waits: AtomicU64,
    then_works: AtomicU64,
}

impl Arrivals {
    pub const fn new() -> Arrivals {
        Arrivals {
            exchanged: AtomicU64::new(0),
            then_waits: AtomicU64::new(0),
            then_works: AtomicU64::new(0),
        }
    }

    /// Another thread begins here.
    pub fn reset(&self) {
        [&self.exchanged, &self.then_waits, &self.then_works].iter().for_each(|x| x.store(0, Relaxed));
    }

    /// The thread exchanges, with so many accesses so far; 0 if that is not known.
    pub fn exchanges(&self, count: u64) {
        self.exchanged.store(count, Relaxed);
    }

    /// It begins to wait, or (`waits` is false) changes something. `count` as in [`Arrivals::exchanges`]; it is asked
    /// for only after an exchange.
    pub fn goes_on(&self, count: impl FnOnce() -> u64, waits: bool) {
        let at = self.exchanged.load(Relaxed);
        if at == 0 {
            return;
        }
        self.exchanged.store(0, Relaxed);
        let count = count();
        if count == 0 {
            return;
        }
        if count > at + ACCESSES_MAX {
            self.then_works.fetch_add(1, Relaxed);
        } else if waits {
            self.then_waits.fetch_add(1, Relaxed);
        }
    }

    /// Its clock was set forward: it did nothing in that time.
    pub fn jumped(&self, by: u64) {
        let _ = self.exchanged.fetch_update(Relaxed, Relaxed, |at| (at != 0).then(|| at + by));
    }

    /// When it exchanges it arrives somewhere: then it waits, nearly always.
    pub fn are_usual(&self) -> bool {
        const WAITS_MIN: u64 = 2;
        const PER_WORK: u64 = 4;
        self.then_waits.load(Relaxed) >= WAITS_MIN.max(PER_WORK * self.then_works.load(Relaxed))
    }
}
