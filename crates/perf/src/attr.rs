//! `perf_event_attr`: what an event's samples contain.

use crate::bytes::Bytes;

/// Bits of `sample_type` in the order in which samples carry them (`enum perf_event_sample_format`).
#[allow(missing_docs)]
pub mod bit {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const WEIGHT: u64 = 1 << 14;
    pub const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const TRANSACTION: u64 = 1 << 17;
    pub const REGS_INTR: u64 = 1 << 18;
    pub const PHYS_ADDR: u64 = 1 << 19;
    pub const AUX: u64 = 1 << 20;
    pub const CGROUP: u64 = 1 << 21;
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// The parts of an event's attributes that decide how its records are laid out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// `PERF_TYPE_*` or a dynamic PMU number.
    pub kind: u32,
    /// Event of that PMU.
    pub config: u64,
    /// Period or frequency.
    pub period_or_freq: u64,
    /// See [`bit`].
    pub sample_type: u64,
    /// `PERF_FORMAT_*`.
    pub read_format: u64,
    /// The flag word (`disabled`, `inherit`, ...).
    pub flags: u64,
    /// `PERF_SAMPLE_BRANCH_*`.
    pub branch_sample_type: u64,
    /// User registers in samples.
    pub sample_regs_user: u64,
    /// Registers at the interrupt in samples.
    pub sample_regs_intr: u64,
    /// Ids of this event in samples.
    pub ids: Vec<u64>,
    /// Name, from the file's event descriptions.
    pub name: Option<String>,
}

impl Attr {
    /// Reads one attribute of `size` bytes; older, shorter ones lack the last fields, newer ones have more.
    pub fn read(data: &[u8], swap: bool) -> Option<Attr> {
        let mut b = Bytes::new(data, swap);
        let kind = b.u32()?;
        let _size = b.u32()?;
        let config = b.u64()?;
        let period_or_freq = b.u64()?;
        let sample_type = b.u64()?;
        let read_format = b.u64()?;
        let flags = flag_word(b.u64()?, swap);
        let mut attr =
            Attr { kind, config, period_or_freq, sample_type, read_format, flags, ..Attr::default() };
        // wakeup_events, bp_type, bp_addr/config1, bp_len/config2
        if b.skip(24).is_some() {
            attr.branch_sample_type = b.u64().unwrap_or(0);
            attr.sample_regs_user = b.u64().unwrap_or(0);
            let _ = b.skip(8); // sample_stack_user, clockid
            attr.sample_regs_intr = b.u64().unwrap_or(0);
        }
        Some(attr)
    }

    /// Records other than samples end with identifying fields.
    pub fn sample_id_all(&self) -> bool {
        self.flags & (1 << 18) != 0
    }

    /// `period_or_freq` is a frequency in samples per second.
    pub fn freq(&self) -> bool {
        self.flags & (1 << 10) != 0
    }
}

/// Bit-fields are numbered from the other end of each byte on machines of the other byte order.
fn flag_word(word: u64, swap: bool) -> u64 {
    if !swap {
        return word;
    }
    word.swap_bytes().to_le_bytes().iter().rev().fold(0, |w, b| (w << 8) | u64::from(b.reverse_bits()))
}
