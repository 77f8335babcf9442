//! What the machine says about itself: CPU time of everybody, load, frequency.

use std::fs;

/// CPU seconds since boot, all CPUs together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuTime {
    /// User, nice, system, interrupts.
    pub busy_s: f64,
    /// Given to other guests by the hypervisor.
    pub steal_s: f64,
}

/// Reads the first line of `/proc/stat`; `None` where it is missing or not as expected.
pub fn cpu_time() -> Option<CpuTime> {
    parse_stat(&fs::read_to_string("/proc/stat").ok()?, ticks_per_s())
}

/// `cpu user nice system idle iowait irq softirq steal guest guest_nice` in ticks; guest time is part of user time.
fn parse_stat(text: &str, ticks_per_s: f64) -> Option<CpuTime> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().map_while(|t| t.parse().ok()).collect();
    let at = |i: usize| ticks.get(i).copied();
    let busy = at(0)? + at(1)? + at(2)? + at(5)? + at(6)?;
    Some(CpuTime { busy_s: busy / ticks_per_s, steal_s: at(7)? / ticks_per_s })
}

fn ticks_per_s() -> f64 {
    // SAFETY: takes and returns integers only.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

/// Load average of the last minute.
pub fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// Logical CPUs that are online; 0 when unknown.
pub fn cpus() -> usize {
    // SAFETY: takes and returns integers only.
    let n = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(n).unwrap_or(0)
}

/// Frequency governor of CPU 0.
pub fn governor() -> Option<String> {
    let text = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok()?;
    Some(text.trim().to_string())
}

/// Current frequency of CPU 0.
pub fn frequency_khz() -> Option<u64> {
    fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_time_is_not_counted_twice() {
        let text = "cpu  1000 10 200 5000 30 5 15 70 900 0\ncpu0 1 2 3\n";
        assert_eq!(parse_stat(text, 100.0), Some(CpuTime { busy_s: 12.3, steal_s: 0.7 }));
        assert_eq!(parse_stat("cpu  1 2 3", 100.0), None);
        assert_eq!(parse_stat("", 100.0), None);
    }
}
