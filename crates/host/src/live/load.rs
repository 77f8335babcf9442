//! What the watched threads did: time that they ran, and how often one of them came to run. Each time the kernel takes
//! their clock down and sets it up again, which costs more than the samples where threads sleep and wake all the time.

use std::collections::HashMap;
use std::fs;
use tussle_live::session::Session;

/// Threads are read so often at most, nanoseconds; more for many of them.
const PAUSE_NS: u64 = 50_000_000;
const PAUSE_PER_THREAD_NS: u64 = 500_000;

/// Sums over threads since each was seen first.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Time that they ran; `None` where the kernel does not tell.
    pub ran_ns: Option<u64>,
    /// As much of it while the clock was on.
    pub on_ns: u64,
    /// Times that they came to run while the clock was on.
    pub switches: u64,
    last: HashMap<u32, (u64, u64)>,
    next_ns: u64,
}

impl Load {
    /// Reads what the kernel tells of the threads, if it is time; `on`: their clock was.
    pub fn read(&mut self, session: &Session, now_ns: u64, on: bool) {
        if now_ns < self.next_ns {
            return;
        }
        let alive = session.threads.iter().filter(|t| !t.ended);
        let mut threads = 0;
        for t in alive {
            threads += 1;
            let Some(pid) = session.processes.get(t.process as usize).map(|p| p.pid) else { continue };
            let text = fs::read_to_string(format!("/proc/{pid}/task/{}/schedstat", t.tid)).unwrap_or_default();
            if let Some(told) = parse(&text) {
                self.add(t.tid, told, on);
            }
        }
        self.next_ns = now_ns + PAUSE_NS.max(threads * PAUSE_PER_THREAD_NS);
    }

    fn add(&mut self, tid: u32, told: (u64, u64), on: bool) {
        let before = self.last.insert(tid, told).unwrap_or(told);
        let ran = told.0.saturating_sub(before.0);
        *self.ran_ns.get_or_insert(0) += ran;
        if on {
            self.on_ns += ran;
            self.switches += told.1.saturating_sub(before.1);
        }
    }
}

/// Nanoseconds on a CPU, and times that it came to run (`Documentation/scheduler/sched-stats.rst`).
fn parse(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace();
    Some((words.next()?.parse().ok()?, words.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happens_while_the_clock_is_on_costs() {
        let mut load = Load::default();
        let steps = [("1000 5 10", true), ("2000 5 30", true), ("5000 6 90", false), ("5500 6 92", true)];
        steps.iter().for_each(|(text, on)| load.add(7, parse(text).unwrap(), *on));
        assert_eq!((load.ran_ns, load.on_ns, load.switches), (Some(4500), 1500, 22));
        assert_eq!(parse("nonsense"), None);
    }
}
