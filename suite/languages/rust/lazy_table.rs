//! Quiet: a table that is made once and then only read; pixels in one Vec, a chunk for each thread; sums that a thread
//! keeps to itself and adds to the common ones once. Two chunks meet in one line, whose 16 pixels are stored to four
//! times: that, the sixteen lines of the table and the two sums are all that passes between threads.
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, LazyLock};
use std::{env, thread};

const PASSES: usize = 4;
const CHUNK: usize = 50_000;

static TABLE: LazyLock<Vec<u32>> = LazyLock::new(|| (0..256).map(|level| level * 3 % 256).collect());
static PIXELS: AtomicU64 = AtomicU64::new(0);
static DARK: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

#[inline(never)]
fn brighten(pixel: &mut u32) -> bool {
    SEEN.set(SEEN.get() + 1);
    *pixel = TABLE[(*pixel as usize + 1) % 256];
    *pixel < 64
}

fn work(chunk: &mut [u32]) {
    let mut dark = 0;
    for _ in 0..PASSES {
        for pixel in chunk.iter_mut() {
            dark += u64::from(brighten(pixel));
        }
    }
    PIXELS.fetch_add(SEEN.get(), Relaxed);
    DARK.fetch_add(dark, Relaxed);
}

fn main() {
    let threads: usize = env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4).clamp(2, 12);
    let mut pixels = vec![0u32; CHUNK * threads];
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        for chunk in pixels.chunks_mut(CHUNK) {
            scope.spawn(|| {
                start.wait();
                work(chunk);
            });
        }
    });
    assert_eq!(PIXELS.load(Relaxed), (PASSES * CHUNK * threads) as u64);
    assert_eq!(DARK.load(Relaxed), (3 * CHUNK * threads) as u64);
    println!("handoffs {}", 16 * PASSES * (threads - 1) + 16 * (threads - 1) + 2 * threads);
}
