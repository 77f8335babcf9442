//! Layout: the flag `cancelled`, which every thread reads at every item and nobody sets, lies in the same 16
//! bytes as `progress`, which the first thread stores at every item. Each store takes the others' copy of the flag.
//! Fixed: quiet, both apart: nobody stores to the flag's line, and only the first thread uses that of `progress` (main
//! reads it once at the end). Shared are then the barrier and what starts and ends a thread.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::{env, sync::Barrier, thread};

const ITEMS: u64 = 200_000;

#[cfg_attr(fixed, repr(align(64)))]
struct Apart<T>(T);

struct Job {
    cancelled: Apart<AtomicBool>,
    progress: Apart<AtomicU64>,
}

/// Every item counts in a table on this thread's stack. Returns how many were done.
fn search(job: &Job, tells: bool) -> u64 {
    let mut ends = [0u64; 64];
    for item in 0..ITEMS {
        if job.cancelled.0.load(Relaxed) {
            break;
        }
        ends[(item * item % 64) as usize] += 1;
        if tells {
            job.progress.0.store(item + 1, Relaxed);
        }
    }
    ends.iter().sum()
}

fn main() {
    let threads = env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4).clamp(2, 64);
    let (cancelled, progress) = (Apart(AtomicBool::new(false)), Apart(AtomicU64::new(0)));
    let job: &'static Job = Box::leak(Box::new(Job { cancelled, progress }));
    let start = Barrier::new(threads);
    let done: u64 = thread::scope(|scope| {
        let begin = |me| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                search(job, me == 0)
            })
        };
        let all: Vec<_> = (0..threads).map(begin).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(done, ITEMS * threads as u64);
    println!("stores {}", job.progress.0.load(Relaxed));
}
