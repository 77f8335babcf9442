//! What a prediction is about: a scenario, or recorded operations. Both have two sides that are built and simulated.

use crate::predict::{CHAIN, PredictError, UNKNOWNS, Unknown};
use crate::recorded::{RecordedError, Recording, Replay, THINK_SEEN_NS, Think, place_of};
use crate::stories::{Setup, Side, Story, World};
use std::sync::Arc;
use tussle_sim::{Config, Machine, SimError, Simulated, simulate};

/// What is compared with itself in two layouts or under two locks.
#[derive(Clone, Debug)]
pub enum Subject {
    /// One of the five stories.
    Story(Story),
    /// Operations of an evidence.
    Recording(Arc<Recording>),
}

/// Factor on the time between recorded operations that the recording does not tell: 100 ns to 10 µs.
const THINK_UNKNOWN: (f64, f64) = (0.1, 10.0);
/// Work without accesses that may lie between two operations, ns: a recorder of accesses does not see it. Sections of
/// code between two operations of real programs take up to some microseconds.
const HIDDEN_NS: f64 = 1_000.0;
/// Factor on times that were recorded in accesses: how long an access takes.
const ACCESSES: (f64, f64) = (0.5, 2.0);
/// Factor on times that were measured on this machine, for another one built within some years of it.
const MEASURED: (f64, f64) = (0.67, 1.5);

impl Subject {
    /// `mmap_lock`, or `recorded`.
    pub fn name(&self) -> &'static str {
        match self {
            Subject::Story(s) => s.about().name,
            Subject::Recording(_) => "recorded",
        }
    }

    /// One line for people.
    pub fn title(&self) -> String {
        match self {
            Subject::Story(s) => s.about().title.into(),
            Subject::Recording(r) => {
                let command = if r.command().is_empty() { "" } else { ": " };
                format!("operations of {} actors{command}{}", r.actors(), r.command())
            }
        }
    }

    /// Share of the accesses to its objects that it repeats; `None` where nothing is left out or nothing is known.
    pub fn seen_share(&self) -> Option<f64> {
        match self {
            Subject::Story(_) => None,
            Subject::Recording(r) => r.coverage(),
        }
    }

    /// What is not known exactly about it. A recording's unknowns follow from how its times are known.
    pub fn unknowns(&self, machine: &Machine) -> Vec<Unknown> {
        let mut all = UNKNOWNS.to_vec();
        let Subject::Recording(r) = self else { return all };
        for u in &mut all {
            match u.key {
                "think" if r.think() == Think::Unknown => u.range = THINK_UNKNOWN,
                "think" if r.think() == Think::Accesses => {
                    let seen = r.think_ns().max(THINK_SEEN_NS);
                    u.range = (ACCESSES.0, ACCESSES.1 + HIDDEN_NS / seen);
                }
                "think" if r.think() == Think::Measured => u.range = MEASURED,
                "think" | "work" => u.range = ACCESSES,
                _ => {}
            }
        }
        all.extend(machine.curve.is_some().then_some(CHAIN));
        all
    }

    /// Simulated time of one run unless told otherwise, ns.
    pub fn run_ns(&self, cpus: u32) -> u64 {
        match self {
            Subject::Story(s) => s.about().run_ns,
            Subject::Recording(r) => r.run_ns(cpus),
        }
    }

    /// Changes of the model that mean something for it on a machine.
    pub fn ablations(&self, machine: &Machine, after: &Side) -> Vec<Ablation> {
        let mut all = match self {
            Subject::Story(Story::Pcp | Story::Anon) => vec![Ablation::NoEarlyRequest],
            Subject::Story(Story::Fault) => {
                vec![Ablation::NoStealing, Ablation::NoEarlyRequest, Ablation::FreeOwner]
            }
            Subject::Story(_) => {
                vec![
                    Ablation::NoStealing,
                    Ablation::NoSpinning,
                    Ablation::NoEarlyRequest,
                    Ablation::FreeOwner,
                ]
            }
            Subject::Recording(r) => {
                let mut all = vec![Ablation::NoEarlyRequest];
                if r.has_owner() {
                    all.extend([Ablation::NoStealing, Ablation::FreeOwner]);
                }
                if r.spins() {
                    all.push(Ablation::NoSpinning);
                }
                all
            }
        };
        if machine.adjacent_pairs {
            all.push(Ablation::NoPairs);
        }
        let ideal = match self {
            Subject::Story(s) => s.about().variants.contains(&"ideal"),
            Subject::Recording(_) => true,
        };
        if ideal && after.label() != "ideal" {
            all.push(Ablation::IdealSplit);
        }
        all
    }

    /// Simulates `side`.
    pub(crate) fn simulate(
        &self,
        side: &Side,
        setup: &Setup,
        machine: &Machine,
        config: &Config,
    ) -> Result<Result<Simulated, SimError>, PredictError> {
        match self {
            Subject::Story(story) => Ok(simulate(&World::build(*story, side, setup)?, machine, config)),
            Subject::Recording(r) => {
                let replay = Replay::new(r, place_of(side)?, setup)?;
                Ok(simulate(&replay, machine, config))
            }
        }
    }

    /// Builds `side` once, so that a wrong name or layout is told before anything runs.
    ///
    /// # Errors
    /// Unknown variants, layouts that do not fit.
    pub fn check(&self, side: &Side) -> Result<(), PredictError> {
        let setup = Setup::new(2);
        match self {
            Subject::Story(story) => drop(World::build(*story, side, &setup)?),
            Subject::Recording(r) => drop(Replay::new(r, place_of(side)?, &setup)?),
        }
        Ok(())
    }
}

impl From<RecordedError> for PredictError {
    fn from(e: RecordedError) -> PredictError {
        PredictError::Recorded(e)
    }
}

/// A change of the model itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ablation {
    /// None: the prediction itself.
    None,
    /// Writers do not overtake those who wait.
    NoStealing,
    /// Waiters sleep at once.
    NoSpinning,
    /// The load before a compare-and-swap does not ask for the line exclusively.
    NoEarlyRequest,
    /// Stores to owner words cost nothing.
    FreeOwner,
    /// Neighbouring lines are not fetched together.
    NoPairs,
    /// Every field of the after side on its own line.
    IdealSplit,
}

impl Ablation {
    /// A mechanism of the machine that no published or own measurement gives for it, unlike what a lock does, which
    /// is known, or a layout that is asked for.
    pub fn unmeasured(self) -> bool {
        matches!(self, Ablation::NoEarlyRequest | Ablation::NoPairs)
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Ablation::None => "as predicted",
            Ablation::NoStealing => "without lock stealing",
            Ablation::NoSpinning => "without optimistic spinning",
            Ablation::NoEarlyRequest => "without the early exclusive request",
            Ablation::FreeOwner => "with free stores to the owner word",
            Ablation::NoPairs => "without adjacent-line pairs",
            Ablation::IdealSplit => "after: every field on its own line",
        }
    }
}
