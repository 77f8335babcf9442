//! Layout: one counter, split into shards so that threads do not meet, but eight shards lie in a line. Each thread
//! takes the next shard when it first counts and keeps it.
//! Fixed: quiet, each shard has a line. Shared is then `NEXT`, which each thread adds to once, and the barrier.
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::{env, sync::Barrier, thread};

const SHARDS: usize = 64;
const EVENTS: u64 = 300_000;

#[cfg_attr(fixed, repr(align(64)))]
struct Shard {
    hits: AtomicU64,
}

#[repr(align(64))]
struct Counter {
    shards: [Shard; SHARDS],
}

static COUNTER: Counter = Counter { shards: [const { Shard { hits: AtomicU64::new(0) } }; SHARDS] };
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: usize = NEXT.fetch_add(1, Relaxed) % SHARDS;
}

impl Counter {
    fn hit(&self) {
        MINE.with(|&mine| self.shards[mine].hits.fetch_add(1, Relaxed));
    }

    fn total(&self) -> u64 {
        self.shards.iter().map(|shard| shard.hits.load(Relaxed)).sum()
    }
}

fn main() {
    let threads = env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4).clamp(2, SHARDS);
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                start.wait();
                for _ in 0..EVENTS {
                    COUNTER.hit();
                }
            });
        }
    });
    assert_eq!(COUNTER.total(), EVENTS * threads as u64);
    println!("stores {}", COUNTER.total());
}
