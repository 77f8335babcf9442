//! Two threads, two counters, and the distance between them: what a shared line costs on this machine.

use crate::threads;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Distances of the two counters, bytes. Lines have 64 bytes on x86, 128 on some others.
pub const DISTANCES_BYTES: [usize; 7] = [8, 16, 32, 56, 64, 128, 256];

/// Words of a block: room for the largest distance.
const WORDS: usize = 64;

/// Memory for both counters; it begins a line whatever the line's size.
#[repr(align(512))]
struct Block([AtomicU64; WORDS]);

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Bytes from the first counter to the second.
    pub distance_bytes: usize,
    /// Atomic additions of both threads together.
    pub additions_per_s: f64,
}

/// Why nothing was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DemoError {
    /// Threads take turns on one processor, and never fight for a line.
    #[error("this process may use one CPU only; two threads have to run at once to fight for a line")]
    OneCpu,
}

/// Runs every distance `rounds` times, in another order in each round, each run `length` long. `done` is told the
/// share that is over, 0 to 1.
///
/// # Errors
/// [`DemoError::OneCpu`].
pub fn measure(rounds: usize, length: Duration, done: &mut dyn FnMut(f64)) -> Result<Vec<Speed>, DemoError> {
    if threads::cpus() < 2 {
        return Err(DemoError::OneCpu);
    }
    let block = Block([const { AtomicU64::new(0) }; WORDS]);
    let all = rounds * DISTANCES_BYTES.len();
    let mut out = Vec::with_capacity(all);
    for round in 0..rounds {
        for i in 0..DISTANCES_BYTES.len() {
            // 3 and 7 have no common divisor: another order in each round, every distance once
            let distance_bytes = DISTANCES_BYTES[(i * 3 + round) % DISTANCES_BYTES.len()];
            out.push(Speed { distance_bytes, additions_per_s: run(&block, distance_bytes, length) });
            done(out.len() as f64 / all as f64);
        }
    }
    Ok(out)
}

/// Additions per second of two threads, each with a counter of its own.
fn run(block: &Block, distance_bytes: usize, length: Duration) -> f64 {
    let stop = AtomicBool::new(false);
    let start = Barrier::new(3);
    let worker = |index: u32, counter: &AtomicU64| {
        threads::bind(index);
        start.wait();
        let mut n = 0u64;
        while !stop.load(Ordering::Relaxed) {
            // the flag is looked at rarely: its line is only read
            for _ in 0..256 {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            n += 256;
        }
        n
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| worker(0, &block.0[0]));
        let second = scope.spawn(|| worker(1, &block.0[distance_bytes / size_of::<AtomicU64>()]));
        start.wait();
        let begin = Instant::now();
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        let lasted = begin.elapsed().as_secs_f64();
        let done = [first, second].map(|t| t.join().unwrap_or(0)).iter().sum::<u64>();
        done as f64 / lasted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distance_is_measured_as_often_and_fits() {
        assert!(DISTANCES_BYTES.iter().all(|d| d % 8 == 0 && d / 8 < WORDS));
        assert_eq!(std::mem::align_of::<Block>(), 512);
        let mut share = 0.0;
        match measure(2, Duration::from_millis(2), &mut |s| share = s) {
            Err(DemoError::OneCpu) => assert!(threads::cpus() < 2),
            Ok(runs) => {
                for d in DISTANCES_BYTES {
                    let of: Vec<&Speed> = runs.iter().filter(|r| r.distance_bytes == d).collect();
                    assert!(of.len() == 2 && of.iter().all(|r| r.additions_per_s > 0.0), "{d}: {of:?}");
                }
                assert_eq!(share, 1.0);
            }
        }
    }
}
