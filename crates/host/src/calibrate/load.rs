//! How much CPU time others had while something was measured, from `/proc/stat` and `/proc/self/stat`.

use std::fmt;

/// A share of stolen time above which a measurement is refused.
const STEAL_MAX: f64 = 0.05;
/// A share that other processes had above which it is refused.
const OTHERS_MAX: f64 = 0.25;
/// Shares above which either is warned of.
const WARN: f64 = 0.01;

/// Counters at one moment, ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    all: u64,
    idle: u64,
    stolen: u64,
    own: u64,
}

impl Reading {
    /// The counters now; `None` where the system does not tell.
    pub fn now() -> Option<Reading> {
        let read = |path| std::fs::read_to_string(path).ok();
        Reading::parse(&read("/proc/stat")?, &read("/proc/self/stat")?)
    }

    /// From the text of `/proc/stat` and of the process's own `stat`; `None` when a field is missing.
    pub fn parse(stat: &str, own: &str) -> Option<Reading> {
        let mut words = stat.lines().next()?.split_whitespace();
        if words.next()? != "cpu" {
            return None;
        }
        let f: Vec<u64> = words.map(|w| w.parse().ok()).collect::<Option<_>>()?;
        let rest = own.rsplit_once(')')?.1;
        let mine: Vec<&str> = rest.split_whitespace().collect();
        let sum = |xs: &[u64]| xs.iter().try_fold(0u64, |a, &x| a.checked_add(x));
        // User and system time, and those of children that it waited for.
        let own: Vec<u64> = mine.get(11..15)?.iter().map(|w| w.parse().ok()).collect::<Option<_>>()?;
        let own = sum(&own)?;
        Some(Reading { all: sum(f.get(..8)?)?, idle: sum(f.get(3..5)?)?, stolen: *f.get(7)?, own })
    }

    /// Ticks that the hypervisor took since `earlier`.
    pub fn stolen_since(&self, earlier: &Reading) -> u64 {
        self.stolen.saturating_sub(earlier.stolen)
    }
}

/// Shares of all CPUs' time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Used by other processes and the kernel.
    pub others: f64,
}

impl Load {
    /// Between two readings; `None` when either is unknown or no time has passed.
    pub fn between(before: Option<&Reading>, after: Option<&Reading>) -> Option<Load> {
        let (b, a) = (before?, after?);
        let all = a.all.checked_sub(b.all).filter(|n| *n > 0)?;
        let used = all.saturating_sub(a.idle.saturating_sub(b.idle));
        let (stolen, own) = (a.stolen_since(b), a.own.saturating_sub(b.own));
        let share = |ticks: u64| ticks as f64 / all as f64;
        Some(Load { steal: share(stolen), others: share(used.saturating_sub(stolen).saturating_sub(own)) })
    }

    /// Too much for a measurement.
    pub fn refused(&self) -> bool {
        self.steal > STEAL_MAX || self.others > OTHERS_MAX
    }

    /// Worth a warning.
    pub fn warned(&self) -> bool {
        self.steal > WARN || self.others > WARN
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |x: f64| x * 100.0;
        write!(
            f,
            "the hypervisor took {:.1}% of CPU time and other processes {:.1}%",
            percent(self.steal),
            percent(self.others)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "42 (a) b) R 1 1 1 0 -1 0 0 0 0 0 60 40 0 0 20 0 1 0";

    fn reading(user: u64, idle: u64, steal: u64, own: u64) -> Option<Reading> {
        let stat = format!("cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2 3\n");
        Reading::parse(&stat, &format!("42 (a) b) R 1 1 1 0 -1 0 0 0 0 0 {own} 0 0 0"))
    }

    fn load(user: u64, idle: u64, steal: u64, own: u64) -> Load {
        let before = reading(1_000, 1_000, 10, 100);
        let after = reading(1_000 + user, 1_000 + idle, 10 + steal, 100 + own);
        Load::between(before.as_ref(), after.as_ref()).unwrap()
    }

    #[test]
    fn a_quiet_machine_a_busy_loop_and_a_greedy_hypervisor() {
        let quiet = load(100, 100, 0, 100);
        assert_eq!(quiet, Load { steal: 0.0, others: 0.0 });
        assert!(!quiet.warned() && !quiet.refused());
        // Somebody's busy loop had half of the machine.
        let busy = load(200, 0, 0, 100);
        assert_eq!(busy.others, 0.5);
        assert!(busy.refused());
        assert!(busy.to_string().contains("other processes 50.0%"));
        let stolen = load(90, 98, 12, 90);
        assert_eq!((stolen.steal, stolen.others), (0.06, 0.0));
        assert!(stolen.refused());
        let little = load(96, 100, 4, 96);
        assert!(little.warned() && !little.refused());
    }

    #[test]
    fn children_are_not_others() {
        let stat = |user: u64| format!("cpu  {user} 0 0 1000 0 0 0 0 0 0");
        let own = |n: u64| format!("42 (a) R 1 1 1 0 -1 0 0 0 0 0 10 0 {n} {n} 20 0 1 0");
        let (before, after) = (Reading::parse(&stat(1_000), &own(0)), Reading::parse(&stat(1_100), &own(50)));
        assert_eq!(Load::between(before.as_ref(), after.as_ref()), Some(Load { steal: 0.0, others: 0.0 }));
    }

    #[test]
    fn what_the_system_does_not_tell_is_unknown() {
        assert!(Reading::parse("cpu  1 2 3 4 5 6 7 8", OWN).is_some());
        for (stat, own) in [
            ("", OWN),
            ("cpu  1 2 3", OWN),
            ("intr 1 2 3 4 5 6 7 8", OWN),
            ("cpu  1 2 x 4 5 6 7 8", OWN),
            ("cpu  1 2 3 4 5 6 7 18446744073709551615", OWN),
            ("cpu  1 2 3 4 5 6 7 8", "42 (a) R 1"),
            ("cpu  1 2 3 4 5 6 7 8", ""),
        ] {
            assert_eq!(Reading::parse(stat, own), None, "{stat:?} {own:?}");
        }
        assert_eq!(Load::between(None, reading(1, 1, 1, 1).as_ref()), None);
        assert_eq!(Load::between(reading(1, 1, 1, 1).as_ref(), reading(1, 1, 1, 1).as_ref()), None);
    }
}
