//! `perf_mem_data_src`: where a load was served from.
//!
//! Bit positions from `union perf_mem_data_src` in `include/uapi/linux/perf_event.h`.

/// The packed word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataSrc(pub u64);

/// What the instruction did.
#[allow(missing_docs)]
pub mod op {
    pub const NA: u64 = 1;
    pub const LOAD: u64 = 2;
    pub const STORE: u64 = 4;
    pub const PREFETCH: u64 = 8;
    pub const EXEC: u64 = 16;
}

/// Level of the hierarchy, old encoding.
#[allow(missing_docs)]
pub mod level {
    pub const NA: u64 = 1;
    pub const HIT: u64 = 2;
    pub const MISS: u64 = 4;
    pub const L1: u64 = 8;
    pub const LFB: u64 = 0x10;
    pub const L2: u64 = 0x20;
    pub const L3: u64 = 0x40;
    pub const LOCAL_RAM: u64 = 0x80;
    pub const REMOTE_RAM1: u64 = 0x100;
    pub const REMOTE_RAM2: u64 = 0x200;
    pub const REMOTE_CACHE1: u64 = 0x400;
    pub const REMOTE_CACHE2: u64 = 0x800;
    pub const IO: u64 = 0x1000;
    pub const UNCACHED: u64 = 0x2000;
}

/// Snoop result.
#[allow(missing_docs)]
pub mod snoop {
    pub const NA: u64 = 1;
    pub const NONE: u64 = 2;
    pub const HIT: u64 = 4;
    pub const MISS: u64 = 8;
    pub const HITM: u64 = 0x10;
}

/// Snoop result, extension.
#[allow(missing_docs)]
pub mod snoopx {
    pub const FORWARD: u64 = 1;
    pub const PEER: u64 = 2;
}

/// TLB access.
#[allow(missing_docs)]
pub mod tlb {
    pub const NA: u64 = 1;
    pub const HIT: u64 = 2;
    pub const MISS: u64 = 4;
    pub const L1: u64 = 8;
    pub const L2: u64 = 0x10;
    pub const WALKER: u64 = 0x20;
    pub const OS: u64 = 0x40;
}

/// Locked access.
pub const LOCKED: u64 = 2;
/// Blocked by data (store forwarding).
pub const BLOCKED_DATA: u64 = 2;
/// Blocked by an address conflict.
pub const BLOCKED_ADDR: u64 = 4;

impl DataSrc {
    fn field(self, shift: u32, bits: u32) -> u64 {
        (self.0 >> shift) & ((1 << bits) - 1)
    }

    /// See [`op`].
    pub fn op(self) -> u64 {
        self.field(0, 5)
    }

    /// See [`level`].
    pub fn level(self) -> u64 {
        self.field(5, 14)
    }

    /// See [`snoop`].
    pub fn snoop(self) -> u64 {
        self.field(19, 5)
    }

    /// See [`LOCKED`].
    pub fn lock(self) -> u64 {
        self.field(24, 2)
    }

    /// See [`tlb`].
    pub fn tlb(self) -> u64 {
        self.field(26, 7)
    }

    /// Level, new encoding (1 to 4 for L1 to L4, 0xc line fill buffer, 0xd RAM, 0xf unknown).
    pub fn level_number(self) -> u64 {
        self.field(33, 4)
    }

    /// Served remotely.
    pub fn remote(self) -> bool {
        self.field(37, 1) != 0
    }

    /// See [`snoopx`].
    pub fn snoopx(self) -> u64 {
        self.field(38, 2)
    }

    /// See [`BLOCKED_DATA`].
    pub fn blocked(self) -> u64 {
        self.field(40, 3)
    }

    /// How far away (1: another core of the node, ...).
    pub fn hops(self) -> u64 {
        self.field(43, 3)
    }

    /// The data came modified from another core's cache.
    pub fn hitm(self) -> bool {
        self.op() & op::LOAD != 0 && self.snoop() & snoop::HITM != 0
    }
}
