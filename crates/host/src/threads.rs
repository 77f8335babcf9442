//! Threads for simulated draws and for scenarios on real CPUs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tussle_scenarios::World;
use tussle_scenarios::atomic::{RealRun, run_threads};

/// Applies `f` to every item, on all CPUs; results are in the order of the items, whatever the number of CPUs.
/// `done` is told how many are finished, from any thread.
pub fn map<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync, done: impl Fn(usize) + Sync) -> Vec<R> {
    let finished = AtomicUsize::new(0);
    tussle_evidence::threads::map(items, |item| {
        let result = f(item);
        done(finished.fetch_add(1, Ordering::Relaxed) + 1);
        result
    })
}

/// CPUs that this process may use.
pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Numbers of the CPUs that the calling thread may use; empty where the system does not tell.
pub fn usable() -> Vec<usize> {
    // SAFETY: cpu_set_t is plain data, and the call is given its size.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), &mut allowed) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize).filter(|&c| libc::CPU_ISSET(c, &allowed)).collect()
    }
}

/// Number of the first CPU that this process may use.
pub fn first_cpu() -> Option<usize> {
    usable().first().copied()
}

/// Binds the calling thread to the `index`-th CPU that this process may use. False when that is not possible.
pub fn bind(index: u32) -> bool {
    let usable = usable();
    usable.get(index as usize % usable.len().max(1)).is_some_and(|cpu| bind_to(*cpu))
}

/// Binds the calling thread to the CPU of this number. False when that is not possible.
pub fn bind_to(cpu: usize) -> bool {
    if cpu >= libc::CPU_SETSIZE as usize {
        return false;
    }
    // SAFETY: cpu_set_t is plain data that has the number, and the call is given its size.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut one);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one) == 0
    }
}

/// Real-time priority (first in, first out) for the calling thread, or the normal one for 0. False where that is not
/// permitted.
pub fn real_time(priority: i32) -> bool {
    let policy = if priority > 0 { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    // SAFETY: changes the calling thread only; the structure is plain data, of which musl has more.
    unsafe {
        let mut param: libc::sched_param = std::mem::zeroed();
        param.sched_priority = priority;
        libc::sched_setscheduler(0, policy, &param) == 0
    }
}

/// Runs a scenario on real threads of this machine, bound as the scenario says, and checks its objects at the end.
///
/// # Errors
/// What is wrong with the objects.
pub fn run_scenario(world: &World, duration: Duration, seed: u64) -> Result<RealRun, String> {
    run_threads(world, cpus(), duration, seed, |_, cpu| {
        if let Some(cpu) = cpu {
            bind(cpu);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..200).collect();
        assert_eq!(map(&items, |x| x * 2, |_| {}), items.iter().map(|x| x * 2).collect::<Vec<_>>());
        assert!(map(&Vec::<u32>::new(), |x| *x, |_| {}).is_empty());
    }

    #[test]
    fn draws_are_the_same_on_any_number_of_cores() {
        use tussle_evidence::threads::map_on;
        use tussle_scenarios::Story;
        use tussle_scenarios::decide::Course;
        use tussle_scenarios::predict::{Comparison, run};
        for story in [Story::Mmap, Story::Anon] {
            let mut q = Comparison::of(story).unwrap();
            (q.draws, q.run_ns, q.cpus) = (Some(6), Some(60_000), vec![8]);
            let jobs = Course::new(&q).next();
            let on = |workers| map_on(workers, &jobs, |j| run(&q, j).unwrap());
            let one = on(1);
            assert_eq!(one, on(2));
            assert_eq!(one, on(5));
        }
    }
}
