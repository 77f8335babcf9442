//! One sample, decoded by its event's `sample_type`.

use crate::attr::{Attr, bit};
use crate::bytes::Bytes;
use crate::data_src::DataSrc;

/// Frames kept of a call chain; more are counted by perf but do not help naming.
pub const CHAIN_MAX: usize = 8;

/// Context marks in call chains (`PERF_CONTEXT_*`) are above this.
const CONTEXT_MIN: u64 = 0xffff_ffff_ffff_f000;

/// The fields of a sample that matter here. `None` where the event did not record them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Code address.
    pub ip: Option<u64>,
    /// Process.
    pub pid: Option<u32>,
    /// Thread.
    pub tid: Option<u32>,
    /// Nanoseconds of perf's clock.
    pub time_ns: Option<u64>,
    /// Data address.
    pub addr: Option<u64>,
    /// Event id.
    pub id: Option<u64>,
    /// CPU.
    pub cpu: Option<u32>,
    /// Events that this sample stands for.
    pub period: Option<u64>,
    /// Latency in cycles.
    pub weight: Option<u32>,
    /// Second weight: instruction latency (Intel) or issue-to-retire.
    pub weight2: Option<u16>,
    /// Where the data came from.
    pub data_src: Option<DataSrc>,
    /// Physical data address.
    pub phys_addr: Option<u64>,
    /// Data page size in bytes.
    pub data_page_size: Option<u64>,
    /// Callers, nearest first, context marks left out, at most [`CHAIN_MAX`].
    pub chain: Vec<u64>,
}

/// Id of the event of a sample or other record, found without decoding all of it.
pub fn id_of(payload: &[u8], sample_type: u64, swap: bool) -> Option<u64> {
    let mut b = Bytes::new(payload, swap);
    if sample_type & bit::IDENTIFIER != 0 {
        return b.u64();
    }
    for skipped in [bit::IP, bit::TID, bit::TIME, bit::ADDR] {
        if sample_type & skipped != 0 {
            b.skip(8)?;
        }
    }
    if sample_type & bit::ID != 0 { b.u64() } else { None }
}

impl Sample {
    /// Decodes the payload (without the record header). `None` when it is shorter than its fields.
    pub fn read(payload: &[u8], attr: &Attr, swap: bool) -> Option<Sample> {
        let has = |b: u64| attr.sample_type & b != 0;
        let mut b = Bytes::new(payload, swap);
        let mut s = Sample::default();
        if has(bit::IDENTIFIER) {
            s.id = Some(b.u64()?);
        }
        if has(bit::IP) {
            s.ip = Some(b.u64()?);
        }
        if has(bit::TID) {
            s.pid = Some(b.u32()?);
            s.tid = Some(b.u32()?);
        }
        if has(bit::TIME) {
            s.time_ns = Some(b.u64()?);
        }
        if has(bit::ADDR) {
            s.addr = Some(b.u64()?);
        }
        if has(bit::ID) {
            s.id = Some(b.u64()?);
        }
        if has(bit::STREAM_ID) {
            b.skip(8)?;
        }
        if has(bit::CPU) {
            s.cpu = Some(b.u32()?);
            b.skip(4)?;
        }
        if has(bit::PERIOD) {
            s.period = Some(b.u64()?);
        }
        if has(bit::READ) {
            skip_read(&mut b, attr.read_format)?;
        }
        if has(bit::CALLCHAIN) {
            s.chain = chain(&mut b)?;
        }
        if has(bit::RAW) {
            let size = b.u32()? as usize;
            b.skip(size)?;
        }
        if has(bit::BRANCH_STACK) {
            skip_branches(&mut b, attr.branch_sample_type)?;
        }
        if has(bit::REGS_USER) {
            skip_registers(&mut b, attr.sample_regs_user)?;
        }
        if has(bit::STACK_USER) {
            let size = usize::try_from(b.u64()?).ok()?;
            if size > 0 {
                b.skip(size)?;
                b.skip(8)?;
            }
        }
        s.read_tail(&mut b, attr)?;
        Some(s)
    }

    /// The fields behind the stacks, where those that matter for contention are.
    fn read_tail(&mut self, b: &mut Bytes<'_>, attr: &Attr) -> Option<()> {
        let has = |bits: u64| attr.sample_type & bits != 0;
        if has(bit::WEIGHT_STRUCT) {
            let word = b.u64()?;
            self.weight = Some(word as u32);
            self.weight2 = Some((word >> 32) as u16);
        } else if has(bit::WEIGHT) {
            self.weight = Some(u32::try_from(b.u64()?).unwrap_or(u32::MAX));
        }
        if has(bit::DATA_SRC) {
            self.data_src = Some(DataSrc(b.u64()?));
        }
        if has(bit::TRANSACTION) {
            b.skip(8)?;
        }
        if has(bit::REGS_INTR) {
            skip_registers(b, attr.sample_regs_intr)?;
        }
        if has(bit::PHYS_ADDR) {
            self.phys_addr = Some(b.u64()?);
        }
        if has(bit::CGROUP) {
            b.skip(8)?;
        }
        if has(bit::DATA_PAGE_SIZE) {
            self.data_page_size = Some(b.u64()?);
        }
        if has(bit::CODE_PAGE_SIZE) {
            b.skip(8)?;
        }
        if has(bit::AUX) {
            let size = usize::try_from(b.u64()?).ok()?;
            b.skip(size)?;
        }
        Some(())
    }
}

/// `PERF_SAMPLE_READ`: a value or a group of values, by `read_format`.
fn skip_read(b: &mut Bytes<'_>, format: u64) -> Option<()> {
    const TIME_ENABLED: u64 = 1;
    const TIME_RUNNING: u64 = 2;
    const ID: u64 = 4;
    const GROUP: u64 = 8;
    const LOST: u64 = 16;
    let times = 8 * ((format & TIME_ENABLED != 0) as usize + (format & TIME_RUNNING != 0) as usize);
    let value = 8 * (1 + (format & ID != 0) as usize + (format & LOST != 0) as usize);
    if format & GROUP == 0 {
        return b.skip(value + times);
    }
    let count = usize::try_from(b.u64()?).ok()?;
    b.skip(times)?;
    b.skip(count.checked_mul(value)?)
}

fn chain(b: &mut Bytes<'_>) -> Option<Vec<u64>> {
    let count = usize::try_from(b.u64()?).ok()?;
    if count.checked_mul(8)? > b.rest().len() {
        return None;
    }
    let mut out = Vec::new();
    for _ in 0..count {
        let address = b.u64()?;
        // One more than is kept: the first real entry is the sampled instruction itself.
        if address < CONTEXT_MIN && out.len() <= CHAIN_MAX {
            out.push(address);
        }
    }
    if !out.is_empty() {
        out.remove(0);
    }
    Some(out)
}

fn skip_branches(b: &mut Bytes<'_>, branch_type: u64) -> Option<()> {
    const HW_INDEX: u64 = 1 << 17;
    const COUNTERS: u64 = 1 << 19;
    let count = usize::try_from(b.u64()?).ok()?;
    if branch_type & HW_INDEX != 0 {
        b.skip(8)?;
    }
    b.skip(count.checked_mul(24)?)?;
    if branch_type & COUNTERS != 0 {
        b.skip(count.checked_mul(8)?)?;
    }
    Some(())
}

fn skip_registers(b: &mut Bytes<'_>, mask: u64) -> Option<()> {
    let abi = b.u64()?;
    if abi == 0 { Some(()) } else { b.skip(mask.count_ones() as usize * 8) }
}
