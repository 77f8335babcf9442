//! Layout: workers lie side by side in a Vec, 24 bytes each, and every thread updates its own in place. The last field
//! of one and the first of the next share a line wherever the Vec begins; both are stored to at every job. (Three
//! fields a job are counted; the compiler may store two of them at once.)
//! Fixed: quiet, each worker fills a line of its own. Shared are then the barrier and what starts and ends a thread,
//! a few words each, used once per thread.
use std::{env, sync::Barrier, thread};

const JOBS: u64 = 65_000;

#[derive(Default)]
#[cfg_attr(fixed, repr(align(64)))]
struct Worker {
    jobs: u64,
    bytes: u64,
    last: u64,
}

impl Worker {
    #[inline(never)]
    fn handle(&mut self, size: u64) {
        self.jobs += 1;
        self.bytes += size;
        self.last = size;
    }
}

fn main() {
    let threads = env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4).clamp(2, 64);
    let mut workers: Vec<Worker> = (0..threads).map(|_| Worker::default()).collect();
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        for worker in &mut workers {
            scope.spawn(|| {
                start.wait();
                for job in 0..JOBS {
                    worker.handle(job % 100);
                }
            });
        }
    });
    let expected = JOBS / 100 * 4_950;
    assert!(workers.iter().all(|w| w.jobs == JOBS && w.bytes == expected && w.last == 99));
    println!("stores {}", 3 * workers.iter().map(|w| w.jobs).sum::<u64>());
}
