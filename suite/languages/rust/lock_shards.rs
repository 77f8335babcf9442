//! Layout: the shards of a table, a RwLock each, lie side by side in a Vec, 24 bytes each. Every thread uses a shard of
//! its own, nine times of ten to read; but taking and leaving a lock stores to it, wherever the neighbours' lie.
//! Fixed: quiet, each shard has 128 bytes to itself. Shared are then the barrier and what starts and ends a thread.
use std::sync::{Barrier, RwLock};
use std::{env, thread};

const LOOKUPS: u64 = 50_000;

#[cfg_attr(fixed, repr(align(128)))]
struct Shard {
    entries: RwLock<u64>,
}

impl Shard {
    /// Returns the stores that it made: two to the lock each time, and one to the entry if it changed.
    fn work(&self) -> u64 {
        let (mut stores, mut sum) = (0, 0);
        for lookup in 0..LOOKUPS {
            if lookup % 10 == 0 {
                *self.entries.write().unwrap() += 1;
                stores += 3;
            } else {
                sum += *self.entries.read().unwrap();
                stores += 2;
            }
        }
        assert!(sum > 0);
        stores
    }
}

fn main() {
    let threads = env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4).clamp(2, 64);
    let shards: Vec<Shard> = (0..threads).map(|_| Shard { entries: RwLock::new(0) }).collect();
    let start = Barrier::new(threads);
    let stores: u64 = thread::scope(|scope| {
        let begin = |shard| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                Shard::work(shard)
            })
        };
        let all: Vec<_> = shards.iter().map(begin).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert!(shards.iter().all(|shard| *shard.entries.read().unwrap() == LOOKUPS / 10));
    println!("stores {stores}");
}
