//! Per-thread counters, a lock beside the data that others read, and a queue of one producer and one consumer.
//! The same program as ../c/jobs.c and ../cxx/jobs.cc.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex};
use std::thread;

const THREADS: usize = 4;
const ROUNDS: i64 = 40_000;
const SLOTS: usize = 256;

#[derive(Default)]
struct Counter {
    done: AtomicI64,
    failed: AtomicI64,
}

#[derive(Default)]
struct Entries {
    count: i64,
    changes: i64,
}

#[derive(Default)]
#[repr(C)]
struct Table {
    lock: Mutex<Entries>,
    limit: AtomicI64,
}

#[repr(C)]
struct Queue {
    head: AtomicI64,
    tail: AtomicI64,
    slots: Vec<AtomicI64>,
}

fn work(own: &Counter) {
    for i in 0..ROUNDS {
        let count = if i % 3 != 0 { &own.done } else { &own.failed };
        count.store(count.load(Relaxed) + 1, Relaxed);
    }
}

fn change(table: &Table) {
    for i in 0..ROUNDS {
        let mut entries = table.lock.lock().unwrap();
        entries.count += 1;
        entries.changes += i & 1;
    }
}

fn look(table: &Table) -> i64 {
    (0..4 * ROUNDS).map(|_| table.limit.load(Relaxed)).sum()
}

fn produce(queue: &Queue) {
    for i in 0..ROUNDS {
        queue.slots[i as usize % SLOTS].store(i, Relaxed);
        queue.tail.store(i + 1, Release);
    }
}

fn consume(queue: &Queue) {
    for i in 0..ROUNDS {
        queue.head.store(i + 1, Release);
    }
}

fn main() {
    let counters: Arc<[Counter]> = (0..THREADS).map(|_| Counter::default()).collect();
    let threads: Vec<_> = (0..THREADS)
        .map(|n| {
            let counters = counters.clone();
            thread::spawn(move || work(&counters[n]))
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    let table = Arc::new(Table::default());
    let (one, other) = (table.clone(), table.clone());
    let changer = thread::spawn(move || change(&one));
    let looker = thread::spawn(move || look(&other));
    changer.join().unwrap();
    let sum = looker.join().unwrap();
    let slots = (0..SLOTS).map(|_| AtomicI64::new(0)).collect();
    let queue = Arc::new(Queue { head: AtomicI64::new(0), tail: AtomicI64::new(0), slots });
    let (one, other) = (queue.clone(), queue.clone());
    let producer = thread::spawn(move || produce(&one));
    let consumer = thread::spawn(move || consume(&other));
    producer.join().unwrap();
    consumer.join().unwrap();
    let total = |f: fn(&Counter) -> &AtomicI64| counters.iter().map(|c| f(c).load(Relaxed)).sum::<i64>();
    let entries = table.lock.lock().unwrap();
    println!(
        "{} {} {} {} {}",
        total(|c| &c.done),
        total(|c| &c.failed),
        entries.count + sum,
        queue.tail.load(Relaxed),
        queue.head.load(Relaxed)
    );
}
