//! Records: header, kinds, and the ones that say what is mapped where.

use crate::attr::bit;
use crate::bytes::Bytes;

/// Kinds of records (`enum perf_event_type` and perf's own above 64).
#[allow(missing_docs)]
pub mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const KSYMBOL: u32 = 17;
    pub const HEADER_ATTR: u32 = 64;
    pub const TRACING_DATA: u32 = 66;
    pub const HEADER_BUILD_ID: u32 = 67;
    pub const AUXTRACE: u32 = 71;
    pub const EVENT_UPDATE: u32 = 78;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// One record with its header taken off.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// See [`kind`].
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`: the low three bits tell kernel, user, hypervisor, guest.
    pub misc: u16,
    /// What follows the header.
    pub payload: &'a [u8],
    /// Offset of the header in its stream.
    pub offset: u64,
}

/// `PERF_RECORD_MISC_CPUMODE_MASK` and its values.
pub mod mode {
    /// The bits.
    pub const MASK: u16 = 7;
    /// Host kernel.
    pub const KERNEL: u16 = 1;
    /// Kernel of a guest.
    pub const GUEST_KERNEL: u16 = 4;
    /// Process of a guest.
    pub const GUEST_USER: u16 = 5;
}

impl Record<'_> {
    /// Happened in a guest of a virtual machine.
    pub fn guest(&self) -> bool {
        matches!(self.misc & mode::MASK, mode::GUEST_KERNEL | mode::GUEST_USER)
    }
}

/// A file mapped into a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mmap {
    /// Process; `u32::MAX` for the kernel.
    pub pid: u32,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Offset in the file.
    pub file_offset: u64,
    /// Path or `[kernel.kallsyms]_text`.
    pub path: String,
    /// Build-id, if the record carries it.
    pub build_id: Option<Vec<u8>>,
    /// In kernel space.
    pub kernel: bool,
    /// Of a guest.
    pub guest: bool,
    /// When, nanoseconds of perf's clock; 0 for what was mapped before the recording.
    pub time_ns: u64,
}

/// A thread's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comm {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// The process runs another program from here on.
    pub exec: bool,
    /// When, nanoseconds.
    pub time_ns: u64,
}

/// A process or thread that another one started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fork {
    /// Process of the new thread.
    pub pid: u32,
    /// Process that started it.
    pub parent: u32,
    /// When, nanoseconds.
    pub time_ns: u64,
}

/// Code that the kernel made at run time (BPF programs, trampolines).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ksymbol {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Name.
    pub name: String,
    /// It was taken away.
    pub gone: bool,
}

/// Time of a record other than a sample: the identifying fields at its end have it, if the event asks for them.
pub fn time_of(payload: &[u8], sample_type: u64, swap: bool) -> u64 {
    let fields = [bit::TID, bit::TIME, bit::ID, bit::STREAM_ID, bit::CPU, bit::IDENTIFIER];
    let count = fields.iter().filter(|f| sample_type & **f != 0).count();
    if sample_type & bit::TIME == 0 {
        return 0;
    }
    let before = if sample_type & bit::TID != 0 { 8 } else { 0 };
    let at = payload.len().checked_sub(8 * count).map(|n| n + before);
    at.and_then(|at| Bytes::new(payload.get(at..)?, swap).u64()).unwrap_or(0)
}

/// Reads MMAP and MMAP2.
pub fn mmap(record: &Record<'_>, swap: bool) -> Option<Mmap> {
    const MISC_BUILD_ID: u16 = 1 << 14;
    let mut b = Bytes::new(record.payload, swap);
    let pid = b.u32()?;
    b.skip(4)?;
    let mut m = Mmap { pid, start: b.u64()?, len: b.u64()?, file_offset: b.u64()?, ..Mmap::default() };
    m.guest = record.guest();
    m.kernel = matches!(record.misc & mode::MASK, mode::KERNEL | mode::GUEST_KERNEL);
    if record.kind == kind::MMAP2 {
        if record.misc & MISC_BUILD_ID != 0 {
            let size = usize::from(b.take(1)?[0]).min(20);
            b.skip(3)?;
            m.build_id = Some(b.take(20)?[..size].to_vec());
        } else {
            b.skip(24)?;
        }
        b.skip(8)?; // prot, flags
    }
    m.path = b.text_rest();
    Some(m)
}

/// Reads COMM.
pub fn comm(record: &Record<'_>, swap: bool) -> Option<Comm> {
    const MISC_EXEC: u16 = 1 << 13;
    let mut b = Bytes::new(record.payload, swap);
    let exec = record.misc & MISC_EXEC != 0;
    Some(Comm { pid: b.u32()?, tid: b.u32()?, name: b.text_rest(), exec, time_ns: 0 })
}

/// Reads FORK.
pub fn fork(record: &Record<'_>, swap: bool) -> Option<Fork> {
    let mut b = Bytes::new(record.payload, swap);
    Some(Fork { pid: b.u32()?, parent: b.u32()?, time_ns: 0 })
}

/// Reads KSYMBOL.
pub fn ksymbol(record: &Record<'_>, swap: bool) -> Option<Ksymbol> {
    const GONE: u16 = 1;
    let mut b = Bytes::new(record.payload, swap);
    let (start, len) = (b.u64()?, u64::from(b.u32()?));
    b.skip(2)?;
    let gone = b.u16()? & GONE != 0;
    Some(Ksymbol { start, len, name: b.text_rest(), gone })
}
