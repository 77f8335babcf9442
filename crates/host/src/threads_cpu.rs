//! CPU time by thread of a program that runs, read from `/proc` while it does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks. What a thread does after the last one is not seen.
const PAUSE: Duration = Duration::from_millis(3);
/// Processes and threads looked at in one round.
const LOOKED_MAX: usize = 1_000;

/// Runs `work`, which starts a program and waits for it, and says how long every thread of its busiest process ran, in
/// the order in which they were created, s. Empty where the system does not tell.
pub fn watch<T>(work: impl FnOnce() -> T) -> (T, Vec<f64>) {
    // SAFETY: no arguments, cannot fail.
    let me = unsafe { libc::gettid() };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen: Seen = BTreeMap::new();
            while !over.load(Ordering::Acquire) {
                look(me, &mut seen);
                std::thread::sleep(PAUSE);
            }
            busiest(&seen)
        });
        let done = work();
        over.store(true, Ordering::Release);
        (done, watcher.join().unwrap_or_default())
    })
}

/// Nanoseconds by process and thread.
type Seen = BTreeMap<i32, BTreeMap<i32, u64>>;

/// Looks at everything that a thread of ours has started.
fn look(me: i32, seen: &mut Seen) {
    let mut open = children(std::process::id() as i32, me);
    let mut looked = 0;
    while let Some(process) = open.pop() {
        for thread in tasks(process) {
            looked += 1;
            if looked > LOOKED_MAX {
                return;
            }
            if let Some(ns) = on_cpu_ns(process, thread) {
                let known = seen.entry(process).or_default().entry(thread).or_default();
                *known = ns.max(*known);
            }
            open.extend(children(process, thread));
        }
    }
}

fn task(process: i32, thread: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/task/{thread}"))
}

fn children(process: i32, thread: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(task(process, thread).join("children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn tasks(process: i32) -> Vec<i32> {
    let entries = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

fn on_cpu_ns(process: i32, thread: i32) -> Option<u64> {
    let text = std::fs::read_to_string(task(process, thread).join("schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn busiest(seen: &Seen) -> Vec<f64> {
    let total = |threads: &&BTreeMap<i32, u64>| threads.values().sum::<u64>();
    let most = seen.values().max_by_key(total);
    most.into_iter().flat_map(|t| t.values()).map(|ns| *ns as f64 * 1e-9).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_program_is_seen_at_work() {
        if !std::path::Path::new("/proc/self/schedstat").exists() {
            return tussle_testkit::skip("this kernel does not tell the CPU time of threads");
        }
        let line = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let (status, threads) = watch(|| Command::new("/bin/sh").args(["-c", line]).status());
        assert!(status.is_ok_and(|s| s.success()));
        assert!(threads.len() == 1 && threads[0] > 0.01, "{threads:?}");
    }
}
