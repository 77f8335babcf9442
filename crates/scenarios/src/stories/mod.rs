//! The five stories: each a workload over real objects, in two variants that a prediction compares.

mod about;
pub mod anon;
pub mod fault;
pub mod i_mmap;
pub mod mmap;
pub mod pcp;

use crate::layouts;
use crate::locks;
use crate::recorded::Relocation;
use std::sync::Arc;
use tussle_model::TypeTable;
use tussle_sim::{Curve, Env, LayoutError, MemoryMap, Program, Shape, Words};

/// Why a scenario cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// No such scenario.
    #[error("no scenario `{0}`: there are mmap_lock, i_mmap, vma_lock, pcp_lists and anon_vma (000 to 004)")]
    Unknown(String),
    /// No such variant.
    #[error("scenario {story} has no variant `{name}`: {known}, or a file with the types")]
    Variant {
        /// Scenario.
        story: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A build's types tell no lock that the scenario knows.
    #[error(
        "{label}: {ty} has no {fields}, so scenario {story} cannot tell its lock; locks by name: {known}"
    )]
    NoLock {
        /// The build.
        label: String,
        /// Scenario.
        story: &'static str,
        /// Type that was looked at.
        ty: &'static str,
        /// Fields that would tell.
        fields: &'static str,
        /// Variants.
        known: String,
    },
    /// A build's layout does not fit.
    #[error("{label}: {error}")]
    Build {
        /// The build.
        label: String,
        /// What is missing.
        error: LayoutError,
    },
    /// A layout of something else.
    #[error("scenario {0} takes the name of a variant or a file with the types, not {1}")]
    Foreign(&'static str, String),
    /// A layout does not fit.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// More tasks than the locks' queues can name.
    #[error("{0} tasks asked for, at most 65,000 can be had")]
    Tasks(u64),
}

/// The scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Story {
    /// `mmap_lock`: writers of one address space.
    Mmap,
    /// `i_mmap`: insert and remove in a file's tree of mappings.
    IMmap,
    /// `vma_lock`: page faults by per-area locks.
    Fault,
    /// `pcp_lists`: per-CPU page lists.
    Pcp,
    /// `anon_vma`: fork and exit under the anon_vma lock.
    Anon,
}

/// Facts about a scenario, for help and checks.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// Its number, an alias of the name.
    pub number: &'static str,
    /// Whose report or patch it retells, and when.
    pub origin: &'static str,
    /// One line.
    pub title: &'static str,
    /// Variant compared from.
    pub before: &'static str,
    /// Variant compared with.
    pub after: &'static str,
    /// Variants by name.
    pub variants: &'static [&'static str],
    /// Types that a build's file gives it; the first is the one that is compared.
    pub types: &'static [&'static str],
    /// Fields of it that tell which lock a build has; empty where there is only one.
    pub lock_fields: &'static str,
    /// Machine of the published figures.
    pub machine: &'static str,
    /// CPUs of the published figures.
    pub cpus: u32,
    /// Simulated time of one run, ns.
    pub run_ns: u64,
}

impl Story {
    /// All of them.
    pub const ALL: [Story; 5] = [Story::Mmap, Story::IMmap, Story::Fault, Story::Pcp, Story::Anon];

    /// By name or number.
    ///
    /// # Errors
    /// [`ScenarioError::Unknown`].
    pub fn find(name: &str) -> Result<Story, ScenarioError> {
        let named = |s: &Story| s.about().name == name || s.about().number == name;
        Story::ALL.into_iter().find(named).ok_or_else(|| ScenarioError::Unknown(name.into()))
    }

    /// What it is.
    pub fn about(self) -> About {
        match self {
            Story::Mmap => about::MMAP_LOCK,
            Story::IMmap => about::I_MMAP,
            Story::Fault => about::VMA_LOCK,
            Story::Pcp => about::PCP_LISTS,
            Story::Anon => about::ANON_VMA,
        }
    }
}

/// What varies from draw to draw; 1 is nominal.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// CPUs that tasks are spread over.
    pub cpus: u32,
    /// Tasks; `None` takes what the story has (usually one per CPU).
    pub tasks: Option<u32>,
    /// Factor on time between operations.
    pub think: f64,
    /// Factor on computing inside critical sections.
    pub work: f64,
    /// Where objects without line alignment begin, a random number.
    pub phase: u64,
    /// Writers may overtake those who wait (an ablation when false).
    pub steal: bool,
    /// Waiters may spin before they sleep, where the lock does so (an ablation when false).
    pub spin: bool,
    /// What a processor hides behind work, where the machine has a table of it, and how much of the work is a chain,
    /// from 0 to 1. Recorded operations alone heed it.
    pub ahead: Option<(Arc<Curve>, f64)>,
}

impl Setup {
    /// Nominal values on `cpus` CPUs.
    pub fn new(cpus: u32) -> Setup {
        Setup { cpus, tasks: None, think: 1.0, work: 1.0, phase: 0, steal: true, spin: true, ahead: None }
    }

    pub(crate) fn task_count(&self, own: u32) -> Result<u32, ScenarioError> {
        let n = self.tasks.unwrap_or(own).max(1);
        if n > 65_000 { Err(ScenarioError::Tasks(u64::from(n))) } else { Ok(n) }
    }

    pub(crate) fn phase_of(&self, object: u32) -> u32 {
        (self.phase.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(object * 5 % 64) >> 40) as u32 % 16 * 8
    }
}

/// One side of a comparison.
#[derive(Clone, Debug)]
pub enum Side {
    /// A variant by name.
    Name(String),
    /// Types of a build.
    Build(Build),
    /// Recorded types in another layout.
    Moved(Arc<Relocation>),
}

/// Types of a build, as one side.
#[derive(Clone, Debug)]
pub struct Build {
    /// What to call it.
    pub label: String,
    /// Its types.
    pub types: Arc<TypeTable>,
    /// Lock by the name of a variant; none where the scenario has one lock only.
    pub lock: Option<String>,
}

impl Build {
    /// Types of a build for a scenario. Without a lock by name it is the one that the types tell.
    ///
    /// # Errors
    /// A lock that the scenario does not have, and types that do not tell theirs.
    pub fn new(
        story: Story,
        label: &str,
        types: TypeTable,
        lock: Option<&str>,
    ) -> Result<Build, ScenarioError> {
        let about = story.about();
        let told = match story {
            Story::Mmap | Story::IMmap if lock.is_some() => {
                let what = format!("a lock in the layout of {label}");
                return Err(ScenarioError::Foreign(about.name, what));
            }
            Story::Mmap | Story::IMmap => None,
            _ if lock.is_some() => lock,
            Story::Fault => layouts::area_lock_of(&types).and_then(|k| name_of(&locks::vma::Kind::NAMES, k)),
            Story::Pcp => {
                use locks::percpu::Kind;
                // Whether interrupts are off is not told by the layout: they are not since 6.2.
                let kind = if layouts::pages_have_lock(&types) { Kind::Spin } else { Kind::Local };
                name_of(&Kind::NAMES, kind)
            }
            Story::Anon => layouts::anon_lock_of(&types).and_then(|k| name_of(&locks::Kind::NAMES, k)),
        };
        if told.is_none() && !about.lock_fields.is_empty() {
            return Err(ScenarioError::NoLock {
                label: label.into(),
                story: about.name,
                ty: about.types.first().copied().unwrap_or_default(),
                fields: about.lock_fields,
                known: about.variants.join(" "),
            });
        }
        let label = told.filter(|_| lock.is_none()).map_or(label.into(), |l| format!("{label} ({l})"));
        Ok(Build { label, types: Arc::new(types), lock: told.map(String::from) })
    }
}

fn name_of<K: PartialEq>(names: &'static [(&'static str, K)], kind: K) -> Option<&'static str> {
    names.iter().find(|(_, k)| *k == kind).map(|(n, _)| *n)
}

impl Side {
    /// What to call it.
    pub fn label(&self) -> &str {
        match self {
            Side::Name(n) => n,
            Side::Build(b) => &b.label,
            Side::Moved(m) => &m.label,
        }
    }
}

pub(crate) fn unknown(story: Story, name: &str) -> ScenarioError {
    let a = story.about();
    ScenarioError::Variant { story: a.name, name: name.into(), known: a.variants.join(" ") }
}

/// A scenario that can run.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum World {
    /// `mmap_lock`.
    Mmap(mmap::Mmap),
    /// `i_mmap`.
    IMmap(i_mmap::IMmap),
    /// `vma_lock`.
    Fault(fault::Fault),
    /// `pcp_lists`.
    Pcp(pcp::Pcp),
    /// `anon_vma`.
    Anon(anon::Anon),
}

impl World {
    /// Builds one side of a story.
    ///
    /// # Errors
    /// Unknown variants, layouts without the fields that are needed, too many tasks.
    pub fn build(story: Story, side: &Side, setup: &Setup) -> Result<World, ScenarioError> {
        let (name, build) = match side {
            Side::Name(n) => (n.as_str(), None),
            Side::Build(b) => (b.lock.as_deref().unwrap_or_default(), Some(b)),
            Side::Moved(m) => return Err(ScenarioError::Foreign(story.about().name, m.label.clone())),
        };
        Ok(match story {
            Story::Mmap => World::Mmap(mmap::Mmap::new(mm_shape(name, build)?, setup)?),
            Story::IMmap => World::IMmap(i_mmap::IMmap::new(mapping_shape(name, build)?, setup)?),
            Story::Fault => {
                let kind = locks::vma::Kind::parse(name).ok_or_else(|| unknown(story, name))?;
                let shapes = fault::Layouts {
                    mm: shape(build, layouts::fault_mm, layouts::fault_mm_from)?,
                    area: shape(
                        build,
                        || layouts::area_locked(kind),
                        |t| layouts::area_locked_from(t, kind),
                    )?,
                };
                World::Fault(fault::Fault::new(kind, shapes, setup)?)
            }
            Story::Pcp => {
                let kind = locks::percpu::Kind::parse(name).ok_or_else(|| unknown(story, name))?;
                let own = || layouts::per_cpu_pages(kind.remote());
                let pages = shape(build, own, |t| layouts::per_cpu_pages_from(t, kind.remote()))?;
                World::Pcp(pcp::Pcp::new(kind, pages, setup)?)
            }
            Story::Anon => {
                let kind = locks::Kind::parse(name).ok_or_else(|| unknown(story, name))?;
                let layout = shape(build, layouts::anon_vma, |t| layouts::anon_vma_from(t, kind))?;
                World::Anon(anon::Anon::new(kind, layout, setup)?)
            }
        })
    }
}

/// A built-in layout, or a build's.
fn shape(
    build: Option<&Build>,
    own: impl Fn() -> Shape,
    from: impl Fn(&TypeTable) -> Result<Shape, LayoutError>,
) -> Result<Shape, ScenarioError> {
    match build {
        None => Ok(own()),
        Some(b) => from(&b.types).map_err(|error| ScenarioError::Build { label: b.label.clone(), error }),
    }
}

fn mm_shape(name: &str, build: Option<&Build>) -> Result<Shape, ScenarioError> {
    let own = match (name, build) {
        (_, Some(_)) | ("fixed", _) => layouts::mm(120),
        ("regressed", _) => layouts::mm(128),
        ("ideal", _) => layouts::mm(120).split(),
        (other, _) => return Err(unknown(Story::Mmap, other)),
    };
    shape(build, || own.clone(), layouts::mm_from)
}

fn mapping_shape(name: &str, build: Option<&Build>) -> Result<Shape, ScenarioError> {
    let named = |n: &str| layouts::mapping(n).ok_or_else(|| unknown(Story::IMmap, n));
    let own = match (name, build) {
        (_, Some(_)) => named("shared")?,
        ("ideal", _) => named("shared")?.split(),
        (n, _) => named(n)?,
    };
    let own = shape(build, || own.clone(), layouts::mapping_from)?;
    Ok(if build.is_some() { own.with_stride(1128) } else { own })
}

macro_rules! each {
    ($self:ident, $p:ident => $do:expr) => {
        match $self {
            World::Mmap($p) => $do,
            World::IMmap($p) => $do,
            World::Fault($p) => $do,
            World::Pcp($p) => $do,
            World::Anon($p) => $do,
        }
    };
}

impl Program for World {
    fn tasks(&self) -> usize {
        each!(self, p => p.tasks())
    }

    fn memory(&self) -> &MemoryMap {
        each!(self, p => p.memory())
    }

    fn init(&self, words: &mut dyn Words) {
        each!(self, p => p.init(words))
    }

    fn pinned(&self, task: u32, cpus: u32) -> Option<u32> {
        each!(self, p => p.pinned(task, cpus))
    }

    async fn run<E: Env>(&self, env: &E) {
        each!(self, p => p.run(env).await)
    }

    fn check(&self, words: &mut dyn Words) -> Result<(), String> {
        each!(self, p => p.check(words))
    }
}

/// Computes for about `ns` times `factor`: uniform between half and one and a half of it.
pub(crate) async fn think<E: Env>(e: &E, ns: u32, factor: f64) {
    let ns = spread(e, ns, factor);
    if ns > 0 {
        e.compute(ns).await;
    }
}

/// A random time around `ns` times `factor`.
pub(crate) fn spread<E: Env>(e: &E, ns: u32, factor: f64) -> u32 {
    let whole = (f64::from(ns) * factor) as u64;
    (whole / 2 + ((u128::from(e.random()) * u128::from(whole + 1)) >> 64) as u64) as u32
}

/// Adds to a cell.
pub(crate) fn bump(w: &mut dyn Words, cell: tussle_sim::Cell, by: i64) {
    let v = w.get(cell);
    w.set(cell, v.wrapping_add(by as u64));
}
