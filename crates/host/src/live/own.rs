//! What tussle itself takes from the watched programs: the CPU time of its own thread, while no CPU is idle.

use super::event::thread_ns;

/// CPU time of the calling thread, looked at each time that it wakes up.
pub(super) struct Own {
    cpus: usize,
    /// Whether all CPUs had something else to run when it last woke up.
    busy: bool,
    last_ns: u64,
    taken_ns: u64,
}

impl Own {
    pub fn new() -> Own {
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
        Own { cpus, busy: false, last_ns: thread_ns(), taken_ns: 0 }
    }

    /// The thread has just woken up.
    pub fn woke(&mut self) {
        self.look(thread_ns(), others());
    }

    /// What it ran since the look before counts by what others wanted then.
    fn look(&mut self, now_ns: u64, others: Option<usize>) {
        let ran_ns = now_ns.saturating_sub(std::mem::replace(&mut self.last_ns, now_ns));
        self.taken_ns += if self.busy { ran_ns } else { 0 };
        // Where the kernel does not tell, nothing was idle.
        self.busy = others.is_none_or(|n| n >= self.cpus);
    }

    /// Nanoseconds that others could have had, up to the last waking up.
    pub fn ns(&self) -> u64 {
        self.taken_ns
    }
}

/// Threads of the machine that could run now, but for this one.
fn others() -> Option<usize> {
    parse(&std::fs::read_to_string("/proc/loadavg").ok()?)
}

/// `0.31 1.06 1.72 3/78 19892`, `proc_loadavg(5)`: three can run, this one among them.
fn parse(text: &str) -> Option<usize> {
    let running: usize = text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()?;
    running.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_that_others_could_have_had_counts() {
        let mut own = Own { cpus: 2, busy: false, last_ns: 100, taken_ns: 0 };
        let mut step = |ns, others: usize| {
            own.look(ns, Some(others));
            own.ns()
        };
        assert_eq!([step(150, 2), step(170, 5), step(200, 0), step(900, 0)], [0, 20, 50, 50]);
    }

    #[test]
    fn the_kernel_counts_this_thread_too() {
        assert_eq!(parse("0.31 1.06 1.72 3/78 19892"), Some(2));
        assert_eq!(parse("0.31 1.06 1.72 0/78 19892"), None);
        assert_eq!(parse("nonsense"), None);
        assert!(others().is_some());
    }
}
