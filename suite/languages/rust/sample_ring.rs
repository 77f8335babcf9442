//! Layout: rings between two threads each. The producer makes a byte of 64 samples, the consumer 64 samples of a byte.
//! `write` and `read` are told once per batch of 256 bytes; but `taken` and `given`, which lie beside them, are stored
//! at every sample, each by one side only.
//! Fixed: quiet, all four apart. A batch is four whole lines; they and both indices go from thread to thread twelve
//! times. Who finds nothing polls an index that is stored twelve times in all.
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicU8, AtomicUsize};
use std::{env, sync::Barrier, thread};

const PER_BYTE: usize = 64;
const BATCH: usize = 256;
const SIZE: usize = 4 * BATCH;
const BYTES: usize = 12 * BATCH;

#[cfg_attr(fixed, repr(align(64)))]
struct Apart<T>(T);

#[repr(align(64))]
struct Slots([AtomicU8; SIZE]);

struct Ring {
    slots: Slots,
    write: Apart<AtomicUsize>,
    read: Apart<AtomicUsize>,
    taken: Apart<AtomicU64>,
    given: Apart<AtomicU64>,
}

fn count(own: &AtomicU64) {
    own.store(own.load(Relaxed) + 1, Relaxed);
}

impl Ring {
    fn new() -> Ring {
        Ring {
            slots: Slots([const { AtomicU8::new(0) }; SIZE]),
            write: Apart(AtomicUsize::new(0)),
            read: Apart(AtomicUsize::new(0)),
            taken: Apart(AtomicU64::new(0)),
            given: Apart(AtomicU64::new(0)),
        }
    }

    fn produce(&self) {
        for at in (0..BYTES).step_by(BATCH) {
            while at + BATCH - self.read.0.load(Acquire) > SIZE {
                thread::yield_now();
            }
            for slot in at..at + BATCH {
                let mut sum = 0;
                for sample in 0..PER_BYTE {
                    sum += (slot + sample) % 128;
                    count(&self.taken.0);
                }
                self.slots.0[slot % SIZE].store((sum / PER_BYTE) as u8, Relaxed);
            }
            self.write.0.store(at + BATCH, Release);
        }
    }

    fn consume(&self) {
        let mut sum = 0;
        for at in (0..BYTES).step_by(BATCH) {
            while self.write.0.load(Acquire) == at {
                thread::yield_now();
            }
            for slot in at..at + BATCH {
                let value = u64::from(self.slots.0[slot % SIZE].load(Relaxed));
                for sample in 0..PER_BYTE as u64 {
                    sum += value ^ sample;
                    count(&self.given.0);
                }
            }
            self.read.0.store(at + BATCH, Release);
        }
        assert!(sum > 0);
    }
}

fn main() {
    // An odd number of threads is rounded up: there are always two to a ring.
    let threads: usize = env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4).clamp(2, 64);
    let rings: Vec<Ring> = (0..threads.div_ceil(2)).map(|_| Ring::new()).collect();
    let start = Barrier::new(2 * rings.len());
    thread::scope(|scope| {
        for ring in &rings {
            scope.spawn(|| {
                start.wait();
                ring.produce();
            });
            scope.spawn(|| {
                start.wait();
                ring.consume();
            });
        }
    });
    let stores: u64 = rings.iter().map(|r| r.taken.0.load(Relaxed) + r.given.0.load(Relaxed)).sum();
    assert_eq!(stores, (2 * BYTES * PER_BYTE * rings.len()) as u64);
    println!("stores {stores}");
}
