//! Work in parts on all CPUs.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Parts for each CPU: some are longer than others.
const PARTS_PER_CPU: usize = 8;
/// Items for which a part is worth while.
const PART_MIN: usize = 4096;

/// Ranges of sorted `items` such that those of one key are in one of them; none is empty.
pub fn parts<T, K: PartialEq>(items: &[T], key: impl Fn(&T) -> K) -> Vec<Range<usize>> {
    let size = items.len().div_ceil(cpus() * PARTS_PER_CPU).max(PART_MIN);
    let mut out = Vec::new();
    let mut from = 0;
    while from < items.len() {
        let near = (from + size).min(items.len());
        let last = key(&items[near - 1]);
        let to = near + items[near..].partition_point(|i| key(i) == last);
        out.push(from..to);
        from = to;
    }
    out
}

/// `work` of every item, in their order, on all CPUs.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map_on(cpus(), items, work)
}

/// [`map`] on so many threads at most.
pub fn map_on<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let one = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, Relaxed);
            let Some(item) = items.get(i) else { return done };
            done.push((i, work(item)));
        }
    };
    let mut all: Vec<(usize, R)> = std::thread::scope(|s| {
        let running: Vec<_> = (0..threads).map(|_| s.spawn(one)).collect();
        let join = |t: std::thread::ScopedJoinHandle<'_, Vec<(usize, R)>>| match t.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        running.into_iter().flat_map(join).collect()
    });
    all.sort_unstable_by_key(|r| r.0);
    all.into_iter().map(|r| r.1).collect()
}

/// Asked once: the answer reads a dozen files of control groups.
fn cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_and_results_in_order() {
        let items: Vec<u64> = (0..100_000u64).map(|i| i / 7).collect();
        let parts = parts(&items, |i| *i);
        assert!(parts.len() > 1);
        assert_eq!((parts[0].start, parts[parts.len() - 1].end), (0, items.len()));
        for two in parts.windows(2) {
            assert_eq!(two[0].end, two[1].start);
            assert_ne!(items[two[0].end - 1], items[two[1].start]);
        }
        let sums = map(&parts, |p| items[p.clone()].iter().sum::<u64>());
        assert_eq!(sums, parts.iter().map(|p| items[p.clone()].iter().sum()).collect::<Vec<u64>>());
        assert!(map(&[] as &[u64], |i| *i).is_empty());
    }
}
