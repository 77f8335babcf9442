//! The lock-free parts of the recorder under every interleaving of two or three threads.
//!
//! The module is compiled a second time here, made of loom's cells.

mod atomic {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

#[path = "../src/lockfree.rs"]
#[allow(dead_code)]
mod lockfree;

use atomic::{AtomicU32, AtomicU64, Ordering::*};
use lockfree::Bounds;
use loom::sync::Arc;
use loom::thread;

/// Runs `f` under every interleaving with up to three forced switches, which finds all that these sizes have.
fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(3);
    b.check(f);
}

/// Runs `f(0)` and `f(1)` in two threads; what they returned.
fn two<T: 'static>(f: impl Fn(u32) -> T + Send + Sync + 'static) -> [T; 2] {
    let f = Arc::new(f);
    let g = f.clone();
    let other = thread::spawn(move || g(1));
    let mine = f(0);
    [mine, other.join().expect("no panic")]
}

struct Arena {
    used: AtomicU64,
    ready: AtomicU64,
    cap: AtomicU64,
}

impl Arena {
    fn new(ready: u64, cap: u64) -> Arc<Arena> {
        Arc::new(Arena { used: AtomicU64::new(0), ready: AtomicU64::new(ready), cap: AtomicU64::new(cap) })
    }
    fn bounds(&self) -> Bounds<'_> {
        Bounds { used: &self.used, ready: &self.ready, cap: &self.cap }
    }
}

#[test]
fn an_arena_gives_nothing_twice_and_only_what_is_backed() {
    model(|| {
        let a = Arena::new(64, 256);
        let b = a.clone();
        let got = two(move |_| lockfree::take(&b.bounds(), 64, |_, end| Some(end)).expect("there is room"));
        assert_ne!(got[0], got[1]);
        assert!(got.iter().all(|from| from + 64 <= a.ready.load(Relaxed)), "{got:?}");
        assert_eq!(a.used.load(Relaxed), 128);
    });
}

#[test]
fn an_arena_that_cannot_grow_stays_usable_up_to_its_end() {
    model(|| {
        let a = Arena::new(64, 256);
        let b = a.clone();
        let got = two(move |_| lockfree::take(&b.bounds(), 64, |_, _| None));
        assert_eq!(got.iter().flatten().collect::<Vec<_>>(), [&0]);
        assert_eq!(a.cap.load(Relaxed), 64);
    });
}

#[test]
fn a_list_keeps_every_node() {
    model(|| {
        let head = Arc::new(AtomicU32::new(0));
        let links = Arc::new([AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)]);
        let (h, l) = (head.clone(), links.clone());
        two(move |k| lockfree::prepend(&h, k + 1, &l[k as usize + 1]));
        let first = head.load(Acquire);
        let second = links[first as usize].load(Relaxed);
        assert_eq!((first.min(second), first.max(second)), (1, 2));
        assert_eq!(links[second as usize].load(Relaxed), 0);
    });
}

/// One thread pops; the other pops two and pushes the first again: the same head, another rest.
#[test]
fn a_stack_gives_no_node_twice() {
    model(|| {
        let head = Arc::new(AtomicU64::new(0));
        let links: Arc<Vec<AtomicU64>> = Arc::new((0..3).map(|_| AtomicU64::new(0)).collect());
        lockfree::push(&head, 1, &links[1]);
        lockfree::push(&head, 2, &links[2]);
        let (h, l) = (head.clone(), links.clone());
        let got = two(move |k| {
            let next = |n: u32| &l[n as usize];
            let first = lockfree::pop(&h, next);
            if k == 0 {
                return vec![first];
            }
            let second = lockfree::pop(&h, next);
            if first == 0 {
                return vec![second];
            }
            lockfree::push(&h, first, &l[first as usize]);
            vec![second]
        });
        let mut all = got.concat();
        loop {
            match lockfree::pop(&head, |n| &links[n as usize]) {
                0 => break,
                n => all.push(n),
            }
        }
        all.retain(|&n| n != 0);
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

#[test]
fn one_key_has_one_cell() {
    model(|| {
        let cells = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let c = cells.clone();
        let got = two(move |_| lockfree::claim(2, |k| &c[k], 7));
        assert_eq!(got, [Some(0), Some(0)]);
        assert_eq!(cells[1].load(Relaxed), 0);
    });
}

#[test]
fn two_keys_have_two_cells() {
    model(|| {
        let cells = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let c = cells.clone();
        let got = two(move |n| lockfree::claim(2, |k| &c[k], 7 + n as u64).expect("there is room"));
        assert_ne!(got[0], got[1]);
        assert_eq!(lockfree::claim(2, |k| &cells[k], 9), None);
    });
}

/// Whoever is the last to come to a barrier, both leave with the later clock, generation after generation.
#[test]
fn a_barrier_has_one_clock() {
    model(|| {
        let arrivals = Arc::new(AtomicU64::new(0));
        let ring: Arc<Vec<AtomicU64>> = Arc::new((0..2).map(|_| AtomicU64::new(0)).collect());
        let came = Arc::new(AtomicU32::new(0));
        let (a, r, n) = (arrivals.clone(), ring.clone(), came.clone());
        let left = two(move |k| {
            let generation = lockfree::arrive(&a, &r, 2, 10 + k as u64);
            // The program's own barrier.
            n.fetch_add(1, AcqRel);
            while n.load(Acquire) < 2 {
                thread::yield_now();
            }
            (generation, lockfree::latest(&r, generation))
        });
        assert_eq!(left, [(0, 11), (0, 11)]);
    });
}
