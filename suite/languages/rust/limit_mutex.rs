//! Layout: a mutex and the log inside of it lie in one line with `limit`, which all others read without the lock. Only
//! the first thread takes the lock, and its stores (lock, two sums, unlock) take the others' copy of the line. (Four a
//! section are counted; the compiler may store both sums at once.)
//! Fixed: quiet. Only the first thread uses the log's line, and nobody stores to that of `limit`. Shared are then the
//! barrier and the Arcs' counts, a few times per thread.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::{env, thread};

const SECTIONS: u64 = 40_000;
const CHECKS: u64 = 120_000;

struct Log {
    lines: u64,
    bytes: u64,
}

#[cfg_attr(fixed, repr(align(64)))]
struct Apart<T>(T);

#[repr(align(64))]
struct Server {
    log: Apart<Mutex<Log>>,
    limit: Apart<AtomicU64>,
}

impl Server {
    fn write_log(&self) -> u64 {
        for line in 0..SECTIONS {
            let mut log = self.log.0.lock().unwrap();
            log.lines += 1;
            log.bytes += line % 80;
        }
        0
    }

    /// Every limit that is read counts in a table on this thread's stack.
    fn check(&self) -> u64 {
        let mut sizes = [0u64; 256];
        for request in 0..CHECKS {
            let size = request * 7 % 256;
            sizes[size as usize] += u64::from(size < self.limit.0.load(Relaxed));
        }
        sizes.iter().sum()
    }
}

fn main() {
    let threads = env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4).clamp(2, 64);
    let log = Apart(Mutex::new(Log { lines: 0, bytes: 0 }));
    let server = Arc::new(Server { log, limit: Apart(AtomicU64::new(1_000)) });
    let start = Arc::new(Barrier::new(threads));
    let all: Vec<_> = (0..threads)
        .map(|me| {
            let (server, start) = (Arc::clone(&server), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                if me == 0 {
                    server.write_log()
                } else {
                    server.check()
                }
            })
        })
        .collect();
    let admitted: u64 = all.into_iter().map(|one| one.join().unwrap()).sum();
    let log = server.log.0.lock().unwrap();
    assert_eq!(admitted, CHECKS * (threads as u64 - 1));
    assert_eq!((log.lines, log.bytes), (SECTIONS, SECTIONS / 80 * 3_160));
    println!("stores {}", 4 * log.lines);
}
