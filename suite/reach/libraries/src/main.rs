//! One program on four libraries. Planted: `Hits` (elements side by side, rayon), `Gauge` (two fields, crossbeam
//! threads), `Meter` (repr(C), two fields, tokio tasks). Contended, but not planted: `Mutex`es of std, parking_lot and
//! tokio.
use parking_lot::Mutex as PlMutex;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};

pub struct Hits {
    count: AtomicU64,
}

pub struct Gauge {
    sent: AtomicU64,
    received: AtomicU64,
}

#[repr(C)]
pub struct Meter {
    polls: AtomicU64,
    name: u64,
    wakes: AtomicU64,
    limit: u64,
}

const N: u64 = 60_000;

fn rayon_part() -> u64 {
    let hits: Vec<Hits> = (0..4).map(|_| Hits { count: AtomicU64::new(0) }).collect();
    (0..4usize).into_par_iter().for_each(|i| {
        for _ in 0..N {
            hits[i].count.fetch_add(1, Relaxed);
        }
    });
    hits.iter().map(|h| h.count.load(Relaxed)).sum()
}

fn crossbeam_part() -> (u64, u64) {
    let gauge = Arc::new(Gauge { sent: AtomicU64::new(0), received: AtomicU64::new(0) });
    let (tx, rx) = crossbeam::channel::bounded::<u64>(64);
    crossbeam::thread::scope(|s| {
        let g = gauge.clone();
        s.spawn(move |_| {
            for i in 0..N {
                g.sent.fetch_add(1, Relaxed);
                if i % 16 == 0 {
                    tx.send(i).unwrap();
                }
            }
        });
        let g = gauge.clone();
        s.spawn(move |_| {
            for _ in 0..N {
                g.received.fetch_add(1, Relaxed);
            }
            while rx.recv().is_ok() {}
        });
    })
    .unwrap();
    (gauge.sent.load(Relaxed), gauge.received.load(Relaxed))
}

fn tokio_part() -> (u64, u64, u64) {
    let meter = Arc::new(Meter { polls: AtomicU64::new(0), name: 7, wakes: AtomicU64::new(0), limit: 9 });
    let shared = Arc::new(tokio::sync::Mutex::new(0u64));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (m, s) = (meter.clone(), shared.clone());
        let a = tokio::spawn(async move {
            for i in 0..N {
                m.polls.fetch_add(1, Relaxed);
                if i % 64 == 0 {
                    *s.lock().await += 1;
                }
            }
        });
        let (m, s) = (meter.clone(), shared.clone());
        let b = tokio::spawn(async move {
            for i in 0..N {
                m.wakes.fetch_add(1, Relaxed);
                if i % 64 == 0 {
                    *s.lock().await += 1;
                }
            }
        });
        a.await.unwrap();
        b.await.unwrap();
    });
    let total = runtime.block_on(async { *shared.lock().await });
    (meter.polls.load(Relaxed) + meter.name, meter.wakes.load(Relaxed) + meter.limit, total)
}

struct Ledger {
    entries: u64,
    sum: u64,
}

fn locks_part() -> (u64, u64, bool) {
    let std_ledger = Arc::new((Mutex::new(Ledger { entries: 0, sum: 0 }), Condvar::new()));
    let pl_ledger = Arc::new(PlMutex::new(Ledger { entries: 0, sum: 0 }));
    let threads: Vec<_> = (0..2u64)
        .map(|t| {
            let (a, b) = (std_ledger.clone(), pl_ledger.clone());
            std::thread::spawn(move || {
                for i in 0..N / 4 {
                    let mut l = a.0.lock().unwrap();
                    l.entries += 1;
                    l.sum += i * t;
                    drop(l);
                    a.1.notify_one();
                    let mut l = b.lock();
                    l.entries += 1;
                    l.sum += i;
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    let (a, b) = (std_ledger.0.lock().unwrap(), pl_ledger.lock());
    (a.entries + b.entries, a.sum, b.sum > 0)
}

fn main() {
    rayon::ThreadPoolBuilder::new().num_threads(4).build_global().unwrap();
    println!("rayon {}", rayon_part());
    println!("crossbeam {:?}", crossbeam_part());
    println!("tokio {:?}", tokio_part());
    println!("locks {:?}", locks_part());
}
