//! The five stories: each a workload over real objects, in two variants that a prediction compares.

pub mod anon;
pub mod fault;
pub mod i_mmap;
pub mod mmap;
pub mod pcp;

use crate::locks;
use tussle_model::TypeTable;
use tussle_sim::{Env, LayoutError, MemoryMap, Program, Shape, Words};

/// Why a scenario cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// No such scenario.
    #[error("no scenario `{0}`: there are 000 001 002 003 004")]
    Unknown(String),
    /// No such variant.
    #[error("scenario {story} has no variant `{name}`: {known}")]
    Variant {
        /// Scenario.
        story: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The scenario compares locks, so a file says nothing.
    #[error("scenario {0} compares locks: give the name of one, not a file")]
    NoFile(&'static str),
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
    /// 000: writers of `mmap_lock`.
    Mmap,
    /// 001: insert and remove in `i_mmap`.
    IMmap,
    /// 002: page faults by per-area locks.
    Fault,
    /// 003: per-CPU page lists.
    Pcp,
    /// 004: fork and exit under the anon_vma lock.
    Anon,
}

/// Facts about a scenario, for help and checks.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its number.
    pub id: &'static str,
    /// One line.
    pub title: &'static str,
    /// Variant compared from.
    pub before: &'static str,
    /// Variant compared with.
    pub after: &'static str,
    /// Variants by name.
    pub variants: &'static [&'static str],
    /// Other layouts can come from files.
    pub files: bool,
    /// Machine of the published figures.
    pub machine: &'static str,
    /// CPUs of the published figures.
    pub cpus: u32,
    /// Simulated time of one run, ns.
    pub run_ns: u64,
}

const LOCKS: &[&str] =
    &["mutex", "mutex-3.10", "rwsem", "rwsem-fair", "rwsem-3.10", "rwsem-spin", "rwsem-skip"];

impl Story {
    /// All of them.
    pub const ALL: [Story; 5] = [Story::Mmap, Story::IMmap, Story::Fault, Story::Pcp, Story::Anon];

    /// By number.
    ///
    /// # Errors
    /// [`ScenarioError::Unknown`].
    pub fn find(id: &str) -> Result<Story, ScenarioError> {
        Story::ALL.into_iter().find(|s| s.about().id == id).ok_or_else(|| ScenarioError::Unknown(id.into()))
    }

    /// What it is.
    pub fn about(self) -> About {
        match self {
            Story::Mmap => About {
                id: "000",
                title: "mmap and munmap in one process: writers of mmap_lock",
                before: "regressed",
                after: "fixed",
                variants: &["regressed", "fixed", "ideal"],
                files: true,
                machine: "2s-icelake-sp-96",
                cpus: 48,
                run_ns: 1_000_000,
            },
            Story::IMmap => About {
                id: "001",
                title: "exec and exit: insert and remove in i_mmap under its rwsem, with sleepers",
                before: "shared",
                after: "exchanged",
                variants: &["shared", "exchanged", "padded", "upstream", "ideal"],
                files: true,
                machine: "2s-sapphirerapids-224",
                cpus: 224,
                run_ns: 2_000_000,
            },
            Story::Fault => About {
                id: "002",
                title: "page faults in one area under its own lock, with an occasional writer",
                before: "rwsem-split",
                after: "refcount",
                variants: &["rwsem-split", "rwsem-merged", "refcount"],
                files: false,
                machine: "2s-broadwell-56",
                cpus: 21,
                run_ns: 1_000_000,
            },
            Story::Pcp => About {
                id: "003",
                title: "per-CPU page lists over a buddy allocator, drained now and then",
                before: "local",
                after: "spinlock-irq",
                variants: &["local", "spinlock-irq", "spinlock"],
                files: false,
                machine: "1s-zen4-32",
                cpus: 8,
                run_ns: 4_000_000,
            },
            Story::Anon => About {
                id: "004",
                title: "fork and exit: insert and remove in anon_vma trees under their lock",
                before: "mutex-3.10",
                after: "rwsem-3.10",
                variants: LOCKS,
                files: false,
                machine: "4s-westmere-ex-80",
                cpus: 40,
                run_ns: 10_000_000,
            },
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
}

impl Setup {
    /// Nominal values on `cpus` CPUs.
    pub fn new(cpus: u32) -> Setup {
        Setup { cpus, tasks: None, think: 1.0, work: 1.0, phase: 0, steal: true }
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
    /// Types of a build, with a label.
    Types(String, Box<TypeTable>),
}

impl Side {
    /// What to call it.
    pub fn label(&self) -> &str {
        match self {
            Side::Name(n) => n,
            Side::Types(label, _) => label,
        }
    }
}

pub(crate) fn unknown(story: Story, name: &str) -> ScenarioError {
    let a = story.about();
    ScenarioError::Variant { story: a.id, name: name.into(), known: a.variants.join(" ") }
}

/// A scenario that can run.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum World {
    /// 000.
    Mmap(mmap::Mmap),
    /// 001.
    IMmap(i_mmap::IMmap),
    /// 002.
    Fault(fault::Fault),
    /// 003.
    Pcp(pcp::Pcp),
    /// 004.
    Anon(anon::Anon),
}

impl World {
    /// Builds one side of a story.
    ///
    /// # Errors
    /// Unknown variants, layouts without the fields that are needed, too many tasks.
    pub fn build(story: Story, side: &Side, setup: &Setup) -> Result<World, ScenarioError> {
        let name = match side {
            Side::Name(n) => n.as_str(),
            Side::Types(..) if !story.about().files => return Err(ScenarioError::NoFile(story.about().id)),
            Side::Types(..) => "",
        };
        Ok(match story {
            Story::Mmap => World::Mmap(mmap::Mmap::new(mm_shape(side)?, setup)?),
            Story::IMmap => World::IMmap(i_mmap::IMmap::new(mapping_shape(side)?, setup)?),
            Story::Fault => {
                let kind = locks::vma::Kind::parse(name).ok_or_else(|| unknown(story, name))?;
                World::Fault(fault::Fault::new(kind, setup)?)
            }
            Story::Pcp => {
                let kind = locks::percpu::Kind::parse(name).ok_or_else(|| unknown(story, name))?;
                World::Pcp(pcp::Pcp::new(kind, setup)?)
            }
            Story::Anon => {
                let kind = locks::Kind::parse(name).ok_or_else(|| unknown(story, name))?;
                World::Anon(anon::Anon::new(kind, setup)?)
            }
        })
    }
}

fn mm_shape(side: &Side) -> Result<Shape, ScenarioError> {
    Ok(match side {
        Side::Types(_, t) => crate::layouts::mm_from(t)?,
        Side::Name(n) => match n.as_str() {
            "regressed" => crate::layouts::mm(128),
            "fixed" => crate::layouts::mm(120),
            "ideal" => crate::layouts::mm(120).split(),
            other => return Err(unknown(Story::Mmap, other)),
        },
    })
}

fn mapping_shape(side: &Side) -> Result<Shape, ScenarioError> {
    Ok(match side {
        Side::Types(_, t) => crate::layouts::mapping_from(t)?.with_stride(1128),
        Side::Name(n) if n == "ideal" => {
            crate::layouts::mapping("shared").ok_or_else(|| unknown(Story::IMmap, n))?.split()
        }
        Side::Name(n) => crate::layouts::mapping(n).ok_or_else(|| unknown(Story::IMmap, n))?,
    })
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
    (whole / 2 + (u128::from(e.random()) * u128::from(whole + 1) >> 64) as u64) as u32
}

/// Adds to a cell.
pub(crate) fn bump(w: &mut dyn Words, cell: tussle_sim::Cell, by: i64) {
    let v = w.get(cell);
    w.set(cell, v.wrapping_add(by as u64));
}
