//! The two-thread grid on this machine: real runs in short bursts beside their simulation under a stored profile.

use crate::calibrate::{Load, Reading};
use crate::threads::{bind, cpus, map, real_time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tussle_scenarios::atomic::run_threads;
use tussle_scenarios::duel::{Compared, Conditions, Duel, Point, grid, simulated};
use tussle_sim::{Machine, SimError};

/// Bursts per point; their median counts.
const BURSTS: usize = 5;
/// Length of a burst.
const BURST: Duration = Duration::from_millis(3);
/// Between two bursts, so that real-time tasks do not use up their share of the CPUs.
const REST: Duration = Duration::from_millis(1);
/// Attempts at a point while the hypervisor takes CPU time away.
const ATTEMPTS: usize = 4;

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// Two threads need two CPUs.
    #[error("the grid needs two CPUs, this process may use {0}")]
    TooFew(u32),
    /// The profile does not simulate.
    #[error(transparent)]
    Simulation(#[from] SimError),
    /// A real run went wrong.
    #[error("{point:?}: {what}")]
    Run {
        /// Where.
        point: Point,
        /// What.
        what: String,
    },
}

/// Runs the whole grid on CPUs 0 and 1 and simulates it under `machine`. `step` takes every n-th point only; `done` is
/// told how many real points are finished.
///
/// # Errors
/// See [`GridError`].
pub fn compare(
    machine: &Machine,
    step: usize,
    done: impl Fn(usize, usize),
) -> Result<(Vec<Compared>, Conditions), GridError> {
    if cpus() < 2 {
        return Err(GridError::TooFew(cpus()));
    }
    let points: Vec<Point> = grid().into_iter().step_by(step.max(1)).collect();
    let results = map(&points, |p| simulated(*p, machine), |_| {});
    let results = results.into_iter().collect::<Result<Vec<f64>, _>>()?;
    let permitted = AtomicBool::new(true);
    let before = Reading::now();
    let mut compared = Vec::with_capacity(points.len());
    for (point, simulated) in points.iter().zip(results) {
        let real = measure(*point, &permitted)?;
        compared.push(Compared { point: *point, real, simulated });
        done(compared.len(), points.len());
    }
    let load = Load::between(before.as_ref(), Reading::now().as_ref());
    let conditions = Conditions {
        profile: format!("{}{}", machine.name, if machine.unsourced { " (unsourced)" } else { "" }),
        bursts: BURSTS,
        burst_ms: BURST.as_millis() as u64,
        real_time: permitted.into_inner(),
        steal: load.map(|l| l.steal),
    };
    Ok((compared, conditions))
}

/// Median of the bursts of one point. `None` when CPU time was stolen in every attempt, or nobody can tell: one tick of
/// `/proc/stat` is more than 1% of a point's bursts.
fn measure(point: Point, permitted: &AtomicBool) -> Result<Option<f64>, GridError> {
    for _ in 0..ATTEMPTS {
        let before = Reading::now();
        let mut rates = Vec::with_capacity(BURSTS);
        for seed in 0..BURSTS as u64 {
            rates.push(burst(point, seed, permitted).map_err(|what| GridError::Run { point, what })?);
            std::thread::sleep(REST);
        }
        let (Some(before), Some(after)) = (before, Reading::now()) else { return Ok(None) };
        if after.stolen_since(&before) == 0 {
            rates.sort_unstable_by(f64::total_cmp);
            return Ok(rates.get(BURSTS / 2).copied());
        }
    }
    Ok(None)
}

/// One burst: a conductor that outranks the two threads starts and stops them.
fn burst(point: Point, seed: u64, permitted: &AtomicBool) -> Result<f64, String> {
    let duel = Duel::new(point).map_err(|e| e.to_string())?;
    let begin = |_, cpu: Option<u32>| {
        let fine = bind(cpu.unwrap_or(0)) && real_time(10);
        permitted.fetch_and(fine, Ordering::Relaxed);
    };
    let conduct = || {
        real_time(20);
        run_threads(&duel, 2, BURST, seed, begin)
    };
    let run = std::thread::scope(|scope| scope.spawn(conduct).join());
    run.map_err(|_| "the run panicked".to_string())?.map(|r| r.throughput())
}
