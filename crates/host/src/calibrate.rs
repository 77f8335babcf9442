//! Measures what moving a cache line and waking a thread cost on this machine, in short bursts, and fits a machine
//! profile to it.

mod curve;
mod fit;
mod load;

pub use fit::fit;
pub use load::{Load, Reading};

use crate::threads::{bind, cpus, real_time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tussle_sim::Curve;

/// The last bursts of a measurement, of which all but one have to agree; their median counts.
const BURSTS: usize = 5;
/// So far from their median.
const AGREE: f64 = 0.1;
/// Bursts after which a measurement has not settled.
const BURSTS_MAX: usize = 25;
/// Rounds of one burst of ping-pong: some milliseconds.
const ROUNDS: u64 = 20_000;
/// Operations of one burst of additions.
const ADDS: u64 = 200_000;
/// Pairs measured at most.
const PAIRS_MAX: usize = 64;
/// Sleeping hand-overs of one burst.
const WAKES: usize = 200;
/// Rests between two of them: longer than an idle CPU polls before it sleeps.
const REST: Duration = Duration::from_micros(300);

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
    /// Others were running, or the hypervisor took CPUs away.
    #[error(
        "{0} while measuring: not measured. Try again on a quiet machine, or take it all the same with --noisy"
    )]
    Noisy(Load),
    /// Bursts do not agree.
    #[error(
        "{0} did not settle in {BURSTS_MAX} bursts: not measured. Try again on a quiet machine, or take it all the \
             same with --noisy"
    )]
    Unsteady(String),
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
    /// A pause of a spin loop, ns.
    pub pause_ns: f64,
    /// Waking a sleeping thread: what it costs whoever wakes, ns.
    pub wake_cost_ns: f64,
    /// From the call that wakes until the sleeper runs, ns.
    pub wake_ns: f64,
    /// CPU time that others and the hypervisor had; `None` where the system does not tell.
    pub load: Option<Load>,
    /// Bursts ran at real-time priority.
    pub real_time: bool,
    /// What is hidden of a line's way behind work.
    pub curve: Curve,
    /// Bursts of the curve that did not settle, of so many.
    pub curve_unsteady: (usize, usize),
    /// Why these figures are not to be trusted, where they were taken all the same.
    pub noisy: Option<String>,
}

/// A word alone on its lines.
#[repr(align(256))]
#[derive(Default)]
struct Word(AtomicU64);

fn median(mut xs: Vec<f64>) -> f64 {
    xs.sort_unstable_by(f64::total_cmp);
    xs.get(xs.len() / 2).copied().unwrap_or(0.0)
}

/// Runs `body(index)` on two bound threads at once, at real-time priority if allowed; returns ns of the longer one.
fn burst(cpus: [u32; 2], body: impl Fn(usize) + Sync) -> (f64, bool) {
    let (barrier, body) = (&Barrier::new(2), &body);
    let run = move |i: usize| {
        let bound = bind(cpus[i]);
        let rt = real_time(10);
        barrier.wait();
        let start = Instant::now();
        body(i);
        let ns = start.elapsed().as_nanos() as f64;
        real_time(0);
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
                // Without a pause, as the public figures were measured.
                while word.0.compare_exchange(mine, mine + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {}
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

/// Mean length of a pause of a spin loop, ns.
fn pause() -> f64 {
    let start = Instant::now();
    (0..ADDS).for_each(|_| std::hint::spin_loop());
    start.elapsed().as_nanos() as f64 / ADDS as f64
}

/// One thread wakes another that sleeps: medians of what the call costs and of the time until the sleeper runs, ns.
fn wakes(cpus: [u32; 2]) -> (f64, f64) {
    let (called, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    let (thread, start) = (OnceLock::new(), Instant::now());
    let now = || start.elapsed().as_nanos() as u64;
    let results = Mutex::new((Vec::new(), Vec::new()));
    burst(cpus, |i| {
        if i == 1 {
            let _ = thread.set(std::thread::current());
            for round in 1..=WAKES as u64 {
                while called.load(Ordering::Acquire) < round {
                    std::thread::park();
                }
                seen.store(now(), Ordering::Release);
            }
            return;
        }
        let sleeper: &std::thread::Thread = thread.wait();
        let mut both = (Vec::new(), Vec::new());
        for round in 1..=WAKES as u64 {
            seen.store(0, Ordering::Release);
            let rested = Instant::now();
            while rested.elapsed() < REST {}
            let from = now();
            called.store(round, Ordering::Release);
            sleeper.unpark();
            both.0.push((now() - from) as f64);
            let ran = loop {
                match seen.load(Ordering::Acquire) {
                    0 => std::hint::spin_loop(),
                    at => break at,
                }
            };
            both.1.push(ran.saturating_sub(from) as f64);
        }
        *results.lock().unwrap_or_else(|e| e.into_inner()) = both;
    });
    let (cost, latency) = results.into_inner().unwrap_or_else(|e| e.into_inner());
    (median(cost), median(latency))
}

/// The median of bursts that agree; `None` while they do not.
fn settled(all: &[f64]) -> Option<f64> {
    let last = &all[all.len().checked_sub(BURSTS)?..];
    let middle = median(last.to_vec());
    let near = last.iter().filter(|x| (**x / middle - 1.0).abs() <= AGREE).count();
    (near + 1 >= BURSTS).then_some(middle)
}

/// Repeats bursts until they agree; names in `unsteady` what does not.
fn steady(what: &str, unsteady: &mut Vec<String>, burst: &mut dyn FnMut() -> f64) -> f64 {
    let mut all = Vec::new();
    while all.len() < BURSTS_MAX {
        all.push(burst());
        if let Some(middle) = settled(&all) {
            return middle;
        }
    }
    if !unsteady.iter().any(|u| u == what) {
        unsteady.push(what.into());
    }
    median(all)
}

/// Measures this machine. Takes some hundred ms per pair of CPUs, and some seconds for what work hides.
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
    let before = Reading::now();
    let mut unsteady = Vec::new();
    let chosen: Vec<(u32, u32)> = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect();
    let step = chosen.len().div_ceil(PAIRS_MAX).max(1);
    let one = |&(a, b): &(u32, u32), unsteady: &mut Vec<String>| Pair {
        a,
        b,
        cas_ns: steady("ping-pong", unsteady, &mut || ping_pong([a, b], true)),
        load_store_ns: steady("ping-pong", unsteady, &mut || ping_pong([a, b], false)),
    };
    let pairs = chosen.iter().step_by(step).map(|pair| one(pair, &mut unsteady)).collect();
    let (mut runs, mut real_time) = (Vec::new(), true);
    let add_shared_ns = steady("additions on one line", &mut unsteady, &mut || {
        let (ns, run_length, rt) = adds([0, 1], true);
        runs.push(run_length);
        real_time &= rt;
        ns
    });
    let run_length = median(runs);
    let add_own_ns = steady("additions on own lines", &mut unsteady, &mut || adds([0, 1], false).0);
    let pause_ns = steady("a pause", &mut unsteady, &mut pause);
    let mut costs = Vec::new();
    let wake_ns = steady("a wake-up", &mut unsteady, &mut || {
        let (cost, latency) = wakes([0, 1]);
        costs.push(cost);
        latency
    });
    let (curve, curve_unsteady) = curve::measure(&mut unsteady);
    let load = Load::between(before.as_ref(), Reading::now().as_ref());
    let crowded = load.filter(Load::refused);
    let unsteady = unsteady.join(", ");
    match crowded {
        Some(load) if !noisy => return Err(CalibrateError::Noisy(load)),
        None if !noisy && !unsteady.is_empty() => return Err(CalibrateError::Unsteady(unsteady)),
        _ => {}
    }
    let settle = (!unsteady.is_empty()).then(|| format!("{unsteady} did not settle"));
    let unoptimised = cfg!(debug_assertions).then(|| "measured by an unoptimised build".to_string());
    let crowded = crowded.map(|l| l.to_string());
    let doubts: Vec<String> = crowded.into_iter().chain(settle).chain(unoptimised).collect();
    Ok(Measured {
        pairs,
        add_shared_ns,
        add_own_ns,
        run_length,
        pause_ns,
        wake_cost_ns: median(costs),
        wake_ns,
        load,
        real_time,
        curve,
        curve_unsteady,
        noisy: (!doubts.is_empty()).then(|| doubts.join("; ")),
    })
}

/// Pairs whose hand-over, ns, is as fast as few between two cores are.
const NEAR_NS: f64 = 30.0;

/// What the system says of a CPU's other threads of its core, such as `0-1`; `None` where it does not.
fn siblings(cpu: u32) -> Option<String> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    Some(std::fs::read_to_string(file).ok()?.trim().to_string())
}

/// What these pairs may be, in words: a hypervisor does not always tell which CPUs are threads of one core.
pub fn named(m: &Measured) -> String {
    let one = |p: &Pair| {
        let near = match p.cas_ns {
            ns if ns < fit::SMT_MAX_NS => "siblings of one core",
            ns if ns < NEAR_NS => "siblings of one core?",
            _ => return None,
        };
        Some(format!("CPUs {} and {}: {:.0} ns, {near}", p.a, p.b, p.cas_ns))
    };
    let near: Vec<String> = m.pairs.iter().filter_map(one).take(8).collect();
    let said = siblings(0).map_or("the system does not say which are".into(), |s| {
        let alone = !s.contains([',', '-']);
        if alone { "the system says that none are".into() } else { format!("the system says {s} are") }
    });
    match near.is_empty() {
        true => format!("no pair is as fast as siblings of one core; {said}"),
        false => format!("{}; {said}", near.join("; ")),
    }
}

/// What to say about the conditions; nothing where they were good.
pub fn warnings(m: &Measured) -> Vec<String> {
    let mut out: Vec<String> =
        m.noisy.iter().map(|why| format!("noisy: {why}; the profile says so")).collect();
    match m.load {
        None => out.push("the system does not tell how much CPU time others had: unknown".to_string()),
        // What refuses is noisy, which is said already.
        Some(load) if load.warned() && !load.refused() => out.push(format!("{load} while measuring")),
        Some(_) => {}
    }
    if !m.real_time {
        out.push("real-time priority is not permitted here: others may have run within bursts".into());
    }
    out
}
