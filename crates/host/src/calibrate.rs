//! Measures what moving a cache line costs on this machine, in short bursts, and fits a machine profile to it.

use crate::threads::{bind, cpus};
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tussle_sim::machine::{Core, Latency, Machine, Sched};

/// Bursts per measurement; their median counts.
const BURSTS: usize = 5;
/// Rounds of one burst of ping-pong: some milliseconds.
const ROUNDS: u64 = 20_000;
/// Operations of one burst of additions.
const ADDS: u64 = 200_000;
/// Pairs measured at most.
const PAIRS_MAX: usize = 64;
/// A share of CPU time stolen or used by others above which a measurement is refused.
const NOISE_MAX: f64 = 0.25;
/// And above which it is warned of.
const NOISE_WARN: f64 = 0.01;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// One CPU has nobody to send a line to.
    #[error("calibrating needs at least two CPUs, this process may use {0}")]
    TooFew(u32),
    /// Threads cannot be bound.
    #[error("threads cannot be bound to CPUs here")]
    Bind,
    /// Others were running.
    #[error(
        "{percent:.0}% of CPU time went to others or to the hypervisor while measuring: not measured. \
         Try again on a quiet machine, or take it all the same with --noisy"
    )]
    Noisy {
        /// Share in percent.
        percent: f64,
    },
}

/// One measured pair.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// First CPU (index among the usable ones).
    pub a: u32,
    /// Second.
    pub b: u32,
    /// One way by compare-and-swap, ns.
    pub cas_ns: f64,
    /// One way by load and store, ns.
    pub load_store_ns: f64,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Pairs, in order.
    pub pairs: Vec<Pair>,
    /// A fetch-and-add by two CPUs on one line, ns per operation of the pair.
    pub add_shared_ns: f64,
    /// The same on lines of their own, ns per operation of one CPU.
    pub add_own_ns: f64,
    /// Mean length of runs of consecutive results that one CPU drew.
    pub run_length: f64,
    /// Share of the CPU time that went to others or was stolen.
    pub noise: f64,
    /// Bursts ran at real-time priority.
    pub real_time: bool,
}

/// A word alone on its lines.
#[repr(align(256))]
#[derive(Default)]
struct Word(AtomicU64);

fn median(mut xs: Vec<f64>) -> f64 {
    xs.sort_by(f64::total_cmp);
    xs.get(xs.len() / 2).copied().unwrap_or(0.0)
}

/// Real-time priority for the calling thread, while a burst lasts. False where it is not allowed.
fn real_time(on: bool) -> bool {
    let (policy, priority) = if on { (libc::SCHED_FIFO, 10) } else { (libc::SCHED_OTHER, 0) };
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: changes the calling thread only; the structure is plain data.
    unsafe { libc::sched_setscheduler(0, policy, &param) == 0 }
}

/// Runs `body(index)` on two bound threads at once, at real-time priority if allowed; returns ns of the longer one.
fn burst(cpus: [u32; 2], body: impl Fn(usize) + Sync) -> (f64, bool) {
    let (barrier, body) = (&Barrier::new(2), &body);
    let run = move |i: usize| {
        let bound = bind(cpus[i]);
        let rt = real_time(true);
        barrier.wait();
        let start = Instant::now();
        body(i);
        let ns = start.elapsed().as_nanos() as f64;
        if rt {
            real_time(false);
        }
        (ns, bound && rt)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(move || run(1));
        let mine = scope.spawn(move || run(0));
        let (a, b) = (mine.join().unwrap_or_default(), other.join().unwrap_or_default());
        (a.0.max(b.0), a.1 && b.1)
    })
}

fn ping_pong(cpus: [u32; 2], cas: bool) -> f64 {
    let word = Word::default();
    let one = |i: usize| {
        for round in 0..ROUNDS {
            let mine = round * 2 + i as u64;
            if cas {
                while word.0.compare_exchange(mine, mine + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    std::hint::spin_loop();
                }
            } else {
                while word.0.load(Ordering::Acquire) != mine {
                    std::hint::spin_loop();
                }
                word.0.store(mine + 1, Ordering::Release);
            }
        }
    };
    burst(cpus, one).0 / (2 * ROUNDS) as f64
}

fn adds(cpus: [u32; 2], shared: bool) -> (f64, f64, bool) {
    let words = [Word::default(), Word::default()];
    let runs = [AtomicU64::new(0), AtomicU64::new(0)];
    let (ns, rt) = burst(cpus, |i| {
        let word = &words[if shared { 0 } else { i }];
        let (mut last, mut changes) = (u64::MAX - 1, 0);
        for _ in 0..ADDS {
            let got = word.0.fetch_add(1, Ordering::AcqRel);
            changes += u64::from(got != last.wrapping_add(1));
            last = got;
        }
        runs[i].store(changes, Ordering::Relaxed);
    });
    let changes = runs.iter().map(|r| r.load(Ordering::Relaxed)).sum::<u64>().max(1);
    let total = if shared { 2 * ADDS } else { ADDS };
    (ns / total as f64, (2 * ADDS) as f64 / changes as f64, rt)
}

/// CPU time of the whole machine in ticks: (all, idle, stolen).
fn cpu_ticks() -> Option<(u64, u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    Some((fields.iter().take(8).sum(), fields.get(3)? + fields.get(4)?, *fields.get(7)?))
}

/// CPU time of this process in ticks.
fn own_ticks() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let rest = text.rsplit_once(')')?.1;
    let f: Vec<&str> = rest.split_whitespace().collect();
    Some(f.get(11)?.parse::<u64>().ok()? + f.get(12)?.parse::<u64>().ok()?)
}

/// Measures this machine. Takes some hundred ms per pair of CPUs.
///
/// # Errors
/// See [`CalibrateError`]; a noisy machine is refused unless `noisy`.
pub fn measure(noisy: bool) -> Result<Measured, CalibrateError> {
    let n = cpus();
    if n < 2 {
        return Err(CalibrateError::TooFew(n));
    }
    if !std::thread::spawn(|| bind(0)).join().unwrap_or(false) {
        return Err(CalibrateError::Bind);
    }
    let before = (cpu_ticks(), own_ticks());
    let five = |f: &dyn Fn() -> f64| median((0..BURSTS).map(|_| f()).collect());
    let chosen: Vec<(u32, u32)> = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect();
    let step = chosen.len().div_ceil(PAIRS_MAX).max(1);
    let pairs = chosen
        .iter()
        .step_by(step)
        .map(|&(a, b)| Pair {
            a,
            b,
            cas_ns: five(&|| ping_pong([a, b], true)),
            load_store_ns: five(&|| ping_pong([a, b], false)),
        })
        .collect();
    let shared: Vec<(f64, f64, bool)> = (0..BURSTS).map(|_| adds([0, 1], true)).collect();
    let add_shared_ns = median(shared.iter().map(|s| s.0).collect());
    let run_length = median(shared.iter().map(|s| s.1).collect());
    let add_own_ns = five(&|| adds([0, 1], false).0);
    let after = (cpu_ticks(), own_ticks());
    let measured = Measured {
        pairs,
        add_shared_ns,
        add_own_ns,
        run_length,
        noise: noise(before, after),
        real_time: shared[0].2,
    };
    if measured.noise > NOISE_MAX && !noisy {
        return Err(CalibrateError::Noisy { percent: measured.noise * 100.0 });
    }
    Ok(measured)
}

type Ticks = (Option<(u64, u64, u64)>, Option<u64>);

/// Share of all CPU time between two readings that was neither idle nor ours.
fn noise(before: Ticks, after: Ticks) -> f64 {
    let (Some(b), Some(a), Some(own0), Some(own1)) = (before.0, after.0, before.1, after.1) else {
        return 0.0;
    };
    let all = a.0.saturating_sub(b.0).max(1);
    let busy = all.saturating_sub(a.1.saturating_sub(b.1));
    busy.saturating_sub(own1.saturating_sub(own0)) as f64 / all as f64
}

/// A profile of this machine: latency from ping-pong, tenure from the runs of additions, the cost of a locked
/// operation
/// from additions on own lines. What this machine does not tell keeps its textbook value.
pub fn fit(m: &Measured, name: &str, description: &str) -> Machine {
    let n = cpus();
    let core = Core { rmw_ns: m.add_own_ns.max(0.2), ..Core::default() };
    // A hand-over by compare-and-swap is one transfer and one locked operation.
    let one_way = |p: &Pair| (p.cas_ns - core.rmw_ns).max(1.0);
    let socket = median(m.pairs.iter().map(one_way).collect());
    // While one CPU draws a run of numbers the line stays with it.
    let tenure_ns = (m.run_length * core.rmw_ns).clamp(0.0, 10_000.0);
    let worst = m.pairs.iter().map(|p| (one_way(p) / socket - 1.0).abs()).fold(0.0, f64::max);
    let predicted = (socket + tenure_ns) / m.run_length.max(1.0);
    let mut notes = BTreeMap::new();
    let mut note = |key: &str, value: String| notes.insert(key.to_string(), value);
    note("pairs", format!("{}", m.pairs.len()));
    note("pairs_worst_deviation", format!("{:.0}%", worst * 100.0));
    note(
        "load_store_one_way_ns",
        format!("{:.1}", median(m.pairs.iter().map(|p| p.load_store_ns).collect())),
    );
    note("add_same_line_ns", format!("{:.1}", m.add_shared_ns));
    note("add_same_line_residual", format!("{:+.0}%", (predicted / m.add_shared_ns.max(0.1) - 1.0) * 100.0));
    note("add_run_length", format!("{:.1}", m.run_length));
    note("others_and_steal", format!("{:.1}%", m.noise * 100.0));
    note("real_time_priority", format!("{}", m.real_time));
    Machine {
        name: name.into(),
        description: description.into(),
        unsourced: false,
        sockets: 1,
        clusters_per_socket: 1,
        cores_per_cluster: n,
        threads_per_core: 1,
        line_bytes: 64,
        adjacent_pairs: false,
        latency_ns: Latency {
            smt: None,
            cluster: None,
            socket,
            cross: None,
            memory: 90.0,
            source: format!(
                "tussle calibrate: median of {BURSTS} bursts of compare-and-swap ping-pong per pair"
            ),
        },
        core: Core { tenure_ns, ..core },
        sched: Sched::default(),
        measured: notes,
    }
}

/// Words about a noisy measurement.
pub fn warning(m: &Measured) -> Option<String> {
    (m.noise > NOISE_WARN).then(|| {
        format!("{:.0}% of CPU time went to others or to the hypervisor while measuring", m.noise * 100.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_fitted_to_what_was_measured() {
        let pairs = vec![Pair { a: 0, b: 1, cas_ns: 60.0, load_store_ns: 80.0 }];
        let m = Measured {
            pairs,
            add_shared_ns: 30.0,
            add_own_ns: 6.0,
            run_length: 3.0,
            noise: 0.5,
            real_time: true,
        };
        let machine = fit(&m, "1s-test-2", "test");
        assert_eq!(machine.latency_ns.socket, 54.0);
        assert_eq!(machine.core.tenure_ns, 18.0);
        machine.validate().unwrap();
        assert_eq!(Machine::from_toml(&machine.to_toml().unwrap()).unwrap(), machine);
        assert!(warning(&m).is_some());
    }

    #[test]
    fn noise_is_what_is_neither_idle_nor_ours() {
        let before = (Some((1000, 500, 0)), Some(100));
        let after = (Some((1200, 600, 10)), Some(160));
        assert_eq!(noise(before, after), 0.2);
        assert_eq!(noise((None, None), after), 0.0);
    }
}
