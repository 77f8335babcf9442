//! Words of the tables that programs act upon: never compare the texts.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Which tool produced the numbers. It is said to people; what a view shows depends on the tables that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `tussle record`.
    Recorder,
    /// `tussle record-kernel`.
    KernelRecorder,
    /// `tussle import`.
    Perf,
    /// `tussle predict`.
    Simulator,
    /// `tussle live`.
    Live,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Recorder => "recorded by tussle",
            Source::KernelRecorder => "recorded in an emulated kernel",
            Source::Perf => "imported from perf",
            Source::Simulator => "simulated",
            Source::Live => "sampled while it ran",
        })
    }
}

/// [`super::Loss::what`] of programs that a recorded process went on as, which are not recorded.
pub const OTHER_PROGRAMS: &str = "other programs";

/// [`super::Loss::what`] of samples that no row has: shares are of these and the rows' together.
pub const ELSEWHERE: &str = "samples elsewhere";

/// Loss of samples of which nothing is known but the function.
pub const UNREAD: &str = "samples with code that cannot be read";

/// What counts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Loads, stores and read-modify-writes.
    Accesses,
    /// Samples of loads that found the line modified in another cache.
    #[serde(alias = "HITM samples")]
    HitmSamples,
    /// Samples of loads that another cache served, modified or not.
    #[serde(alias = "peer samples")]
    PeerSamples,
    /// Samples of a clock that stood on code that touches the place: time there, not events.
    ClockSamples,
    /// Samples of loads and stores with the address that the processor itself told.
    PreciseSamples,
}

impl Unit {
    /// Samples that `tussle live` took: their shares say something, their number only how much is behind it.
    pub fn by_share(self) -> bool {
        matches!(self, Unit::ClockSamples | Unit::PreciseSamples)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Accesses => "accesses",
            Unit::HitmSamples => "HITM samples",
            Unit::PeerSamples => "peer samples",
            Unit::ClockSamples => "clock samples",
            Unit::PreciseSamples => "samples of precise loads and stores",
        })
    }
}

/// What an object's type rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Debug information of the variable.
    Variable,
    /// The allocation asks for `sizeof` the type: it grows with it.
    Sizeof,
    /// The allocation names the type: `new`, a cast, the allocator's element, the slab cache.
    Allocation,
    /// Code that touches it.
    Code,
    /// What registers held when samples were taken.
    Registers,
    /// The kernel's array of `struct page`.
    PageArray,
}

/// What bytes were used for when they were no field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The link to the next free object of a slab, in the bytes of a free one.
    FreelistWord,
    /// Cleared by the allocator before anybody had it.
    ZeroedOnAllocation,
    /// Link or function of a callback that waits for readers.
    RcuHead,
    /// What a page holds for others: the memory of a program, a file's bytes, a packet's. No layout places it.
    PageContents,
    /// An entry of a page table.
    PageTableEntry,
}

impl Role {
    /// A place as good as any other in its page: where in the page it is says nothing.
    pub fn is_anywhere(self) -> bool {
        matches!(self, Role::PageContents | Role::PageTableEntry)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::FreelistWord => "(freelist word)",
            Role::ZeroedOnAllocation => "(zeroed on allocation)",
            Role::RcuHead => "(RCU head)",
            Role::PageContents => "(contents)",
            Role::PageTableEntry => "(page table entry)",
        })
    }
}
