//! One sample, decoded by its event's `sample_type`.

use crate::attr::{Attr, bit};
use crate::bytes::Bytes;
use crate::data_src::DataSrc;

/// Frames kept of a call chain; more are counted by perf but do not help naming.
pub const CHAIN_MAX: usize = 8;

/// Context marks in call chains (`PERF_CONTEXT_*`) are above this.
const CONTEXT_MIN: u64 = 0xffff_ffff_ffff_f000;

/// The fields of a sample that matter here. `None` where the event did not record them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample<'a> {
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
    /// Code page size in bytes.
    pub code_page_size: Option<u64>,
    /// Nanoseconds in which the event was counting, of its own thread's time (`PERF_FORMAT_TOTAL_TIME_RUNNING`).
    pub running_ns: Option<u64>,
    /// Call chain as recorded; see [`Sample::callers`].
    pub chain: Words<'a>,
    /// Registers of the process when the kernel was entered.
    pub regs_user: Registers<'a>,
    /// Registers at the sampled instruction.
    pub regs_intr: Registers<'a>,
}

/// 64-bit words in the file's byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Words<'a> {
    raw: &'a [u8],
    swap: bool,
}

impl<'a> Words<'a> {
    /// The words.
    pub fn iter(self) -> impl Iterator<Item = u64> + 'a {
        self.raw.chunks_exact(8).filter_map(move |c| Bytes::new(c, self.swap).u64())
    }

    /// None.
    pub fn is_empty(self) -> bool {
        self.raw.is_empty()
    }
}

/// Sampled registers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Registers<'a> {
    /// Bit n: register n of the architecture's list (`enum perf_event_x86_regs`) is there.
    pub mask: u64,
    /// Values in order of the bits.
    pub values: Words<'a>,
}

impl Registers<'_> {
    /// Number and value of each.
    pub fn each(self) -> impl Iterator<Item = (u32, u64)> {
        (0..64).filter(move |n| self.mask & (1 << n) != 0).zip(self.values.iter())
    }
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

impl<'a> Sample<'a> {
    /// Callers, nearest first, context marks left out, at most [`CHAIN_MAX`].
    pub fn callers(&self) -> impl Iterator<Item = u64> + 'a {
        // The first real entry is the sampled instruction itself.
        self.chain.iter().filter(|a| *a < CONTEXT_MIN).skip(1).take(CHAIN_MAX)
    }

    /// Decodes the payload (without the record header). `None` when it is shorter than its fields.
    #[inline]
    pub fn read(payload: &'a [u8], attr: &Attr, swap: bool) -> Option<Sample<'a>> {
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
            s.running_ns = read(&mut b, attr.read_format)?;
        }
        if has(bit::CALLCHAIN) {
            s.chain = chain(&mut b, swap)?;
        }
        if has(bit::RAW) {
            let size = b.u32()? as usize;
            b.skip(size)?;
        }
        if has(bit::BRANCH_STACK) {
            skip_branches(&mut b, attr.branch_sample_type)?;
        }
        if has(bit::REGS_USER) {
            s.regs_user = registers(&mut b, attr.sample_regs_user, swap)?;
        }
        if has(bit::STACK_USER) {
            let size = usize::try_from(b.u64()?).ok()?;
            if size > 0 {
                b.skip(size)?;
                b.skip(8)?;
            }
        }
        s.read_tail(&mut b, attr, swap)?;
        Some(s)
    }

    /// The fields behind the stacks, where those that matter for contention are.
    fn read_tail(&mut self, b: &mut Bytes<'a>, attr: &Attr, swap: bool) -> Option<()> {
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
            self.regs_intr = registers(b, attr.sample_regs_intr, swap)?;
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
            self.code_page_size = Some(b.u64()?);
        }
        if has(bit::AUX) {
            let size = usize::try_from(b.u64()?).ok()?;
            b.skip(size)?;
        }
        Some(())
    }
}

/// `PERF_SAMPLE_READ`: a value or a group of values, by `read_format`; the time that it was counted, if it is there.
fn read(b: &mut Bytes<'_>, format: u64) -> Option<Option<u64>> {
    const TIME_ENABLED: u64 = 1;
    const RUNNING: u64 = 2;
    const ID: u64 = 4;
    const GROUP: u64 = 8;
    const LOST: u64 = 16;
    let value = 8 * (1 + (format & ID != 0) as usize + (format & LOST != 0) as usize);
    let count = match format & GROUP {
        0 => b.skip(8).map(|()| 0)?,
        _ => usize::try_from(b.u64()?).ok()?,
    };
    if format & TIME_ENABLED != 0 {
        b.skip(8)?;
    }
    let running = if format & RUNNING != 0 { Some(b.u64()?) } else { None };
    let rest = if format & GROUP == 0 { value - 8 } else { count.checked_mul(value)? };
    b.skip(rest)?;
    Some(running)
}

fn chain<'a>(b: &mut Bytes<'a>, swap: bool) -> Option<Words<'a>> {
    let count = usize::try_from(b.u64()?).ok()?;
    Some(Words { raw: b.take(count.checked_mul(8)?)?, swap })
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

fn registers<'a>(b: &mut Bytes<'a>, mask: u64, swap: bool) -> Option<Registers<'a>> {
    let abi = b.u64()?;
    if abi == 0 {
        return Some(Registers::default());
    }
    let raw = b.take(mask.count_ones() as usize * 8)?;
    Some(Registers { mask, values: Words { raw, swap } })
}
