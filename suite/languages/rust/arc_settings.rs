//! Layout: every thread clones an Arc for each request and drops it again, and reads `rate` and `burst` behind it 20
//! times in between. They lie right behind the Arc's counts, so each clone and drop takes the others' copy of them. (A
//! block of this size is mapped by malloc: the counts begin 16 bytes into a line. The program asserts it.)
//! Fixed: same. The settings have lines of their own, to which nobody stores; the count is still everybody's.
use std::sync::{Arc, Barrier};
use std::{env, thread};

const REQUESTS: u64 = 6_000;
const ITEMS: u64 = 20;
const KINDS: usize = 40_000;

#[repr(C)]
#[cfg_attr(fixed, repr(align(64)))]
struct Settings {
    rate: u64,
    burst: u64,
    prices: [u32; KINDS],
}

impl Settings {
    #[inline(never)]
    fn price(&self, item: u64) -> u64 {
        item.min(self.burst) * self.rate + u64::from(self.prices[item as usize % KINDS])
    }
}

fn serve(shared: &Arc<Settings>) -> u64 {
    let mut sum = 0;
    for request in 0..REQUESTS {
        let settings = Arc::clone(shared);
        for item in 0..ITEMS {
            sum += settings.price(request + item);
        }
    }
    sum
}

fn main() {
    let settings = Arc::new(Settings { rate: 3, burst: 10, prices: [1; KINDS] });
    let at = Arc::as_ptr(&settings) as usize;
    assert_eq!((at - 16) / 64 == at / 64, !cfg!(fixed));
    let threads = env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4).clamp(2, 64);
    let start = Arc::new(Barrier::new(threads));
    let all: Vec<_> = (0..threads)
        .map(|_| {
            let (settings, start) = (Arc::clone(&settings), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                serve(&settings)
            })
        })
        .collect();
    let price = |item: u64| 3 * item.min(10) + 1;
    let wanted: u64 = (0..REQUESTS).map(|first| (first..first + ITEMS).map(price).sum::<u64>()).sum();
    for one in all {
        assert_eq!(one.join().unwrap(), wanted);
    }
    println!("stores {}", 2 * REQUESTS * threads as u64);
}
