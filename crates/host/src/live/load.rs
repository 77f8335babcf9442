//! What the watched threads did: time that they ran, and how often one of them came to run. Each time the kernel takes
//! their clock down and sets it up again, which costs more than the samples where threads sleep and wake all the time.

use std::collections::HashMap;
use std::fs;
use tussle_live::session::Session;

/// Many threads are read so much less often, nanoseconds for each.
const PAUSE_PER_THREAD_NS: u64 = 500_000;

/// What a clock does to a thread that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticking {
    /// Times that it interrupts it per second.
    pub rate_hz: u64,
    /// What it costs when the thread comes to run.
    pub switch_ns: u64,
}

/// Sums over threads since each was seen first.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Time that they ran; `None` where the kernel does not tell.
    pub ran_ns: Option<u64>,
    /// Times that the clock interrupted them meanwhile.
    pub ticks: f64,
    /// Times that they came to run while the clock was on.
    pub switches: u64,
    /// What these cost.
    pub switches_ns: u64,
    last: HashMap<u32, (u64, u64)>,
    next_ns: u64,
}

impl Load {
    /// Reads what the kernel tells of the threads, if it is time: `pause_ns` at least after the time before. `clock`:
    /// what theirs did, if it was on.
    pub fn read(&mut self, session: &Session, (now_ns, pause_ns): (u64, u64), clock: Option<Ticking>) {
        if now_ns < self.next_ns {
            return;
        }
        let alive = session.threads.iter().filter(|t| !t.ended);
        let mut threads = 0;
        for t in alive {
            threads += 1;
            let Some(pid) = session.processes.get(t.process as usize).map(|p| p.pid) else { continue };
            if let Some(told) = of_thread(pid, t.tid) {
                self.add(t.tid, told, clock);
            }
        }
        self.next_ns = now_ns + pause_ns.max(threads * PAUSE_PER_THREAD_NS);
    }

    fn add(&mut self, tid: u32, told: (u64, u64), clock: Option<Ticking>) {
        let before = self.last.insert(tid, told).unwrap_or(told);
        let ran = told.0.saturating_sub(before.0);
        *self.ran_ns.get_or_insert(0) += ran;
        if let Some(clock) = clock {
            let switches = told.1.saturating_sub(before.1);
            self.ticks += ran as f64 * clock.rate_hz as f64 / 1e9;
            self.switches += switches;
            self.switches_ns += switches * clock.switch_ns;
        }
    }
}

/// Nanoseconds that a thread was on a CPU, and times that it came to run.
pub(super) fn of_thread(pid: u32, tid: u32) -> Option<(u64, u64)> {
    parse(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?)
}

/// `Documentation/scheduler/sched-stats.rst`.
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
        let (slow, fast) =
            (Ticking { rate_hz: 1_000_000, switch_ns: 7 }, Ticking { rate_hz: 4_000_000, switch_ns: 0 });
        let steps = [
            ("1000 5 10", Some(slow)),
            ("2000 5 30", Some(slow)),
            ("5000 6 90", None),
            ("5500 6 92", Some(fast)),
        ];
        steps.iter().for_each(|(text, clock)| load.add(7, parse(text).unwrap(), *clock));
        assert_eq!((load.ran_ns, load.ticks), (Some(4500), 3.0));
        assert_eq!((load.switches, load.switches_ns), (22, 140));
        assert_eq!(parse("nonsense"), None);
    }
}
