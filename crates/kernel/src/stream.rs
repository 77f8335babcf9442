//! The stream that the emulator's plugin writes (`qemu/stream.md`), decoded.
//!
//! A record is a little-endian word with the tag in the top byte and the payload's length below, then the payload.

/// One cell of accesses: an instruction of one vCPU at one address within one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Virtual address of the first byte.
    pub address: u64,
    /// Index into [`Stream::instructions`].
    pub instruction: u32,
    /// Window of virtual time, from 0.
    pub window: u32,
    /// Accesses.
    pub count: u32,
    /// Of these, accesses that found the line modified by another vCPU.
    pub dirty: u32,
    /// Loads that another vCPU's clean copy served.
    pub clean: u32,
    /// Stores that took the line from others that only read it.
    pub invalidated: u32,
    /// Load, store or locked read-modify-write.
    pub kind: AccessKind,
    /// Bytes.
    pub size: u8,
    /// vCPU.
    pub vcpu: u16,
    /// Number of the slab object's life ([`Life`]); 0: it lived at the start marker, or is no slab object.
    pub born: u32,
}

impl Access {
    /// Transfers of the line between vCPUs.
    pub fn transfers(&self) -> u64 {
        u64::from(self.dirty) + u64::from(self.clean) + u64::from(self.invalidated)
    }
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AccessKind {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Locked read-modify-write.
    Rmw,
}

/// The stack at one access, for unwinding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Index into [`Stream::instructions`].
    pub instruction: u32,
    /// Address that was accessed.
    pub address: u64,
    /// Window.
    pub window: u32,
    /// As [`Access::born`].
    pub born: u32,
    /// Stack pointer.
    pub rsp: u64,
    /// Frame pointer register, whatever the code uses it for.
    pub rbp: u64,
    /// Bytes from the stack pointer upwards.
    pub stack: Vec<u8>,
}

/// Why a hook spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookKind {
    /// An allocator returned memory: `a` is the object, `b` the return address in the caller.
    Alloc,
    /// A slab's pages are given back: `a` is the cache, `b` the slab.
    Free,
}

/// One call of a hooked function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// What happened.
    pub kind: HookKind,
    /// Number of the function as the host gave it.
    pub function: u32,
    /// First argument or result.
    pub a: u64,
    /// Second argument or return address.
    pub b: u64,
    /// Accesses recorded before, all vCPUs together; 0 before the start marker.
    pub accesses: u64,
    /// Bytes that were asked for; 0 where unknown.
    pub bytes: u32,
    /// vCPU.
    pub vcpu: u16,
}

/// A slot of a slab changes hands. Its next life begins when it is freed, so that the link in the free list and the
/// clearing on allocation are part of that life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// First byte of the object.
    pub object: u64,
    /// Accesses recorded before, all vCPUs together.
    pub accesses: u64,
    /// Number of the life, from 1.
    pub number: u32,
    /// Bytes of the slot.
    pub bytes: u32,
    /// Allocated (again), not freed.
    pub allocated: bool,
    /// vCPU.
    pub vcpu: u16,
}

/// What one task did between taking the outermost of its hot locks and releasing it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Address of the lock.
    pub lock: u64,
    /// Accesses of all vCPUs before it.
    pub began: u64,
    /// And before its end.
    pub ended: u64,
    /// The task's instructions since its previous section, where known.
    pub think: Option<u64>,
    /// The task's instructions inside, where known.
    pub instructions: Option<u64>,
    /// Acquiring function, as the host numbered it.
    pub function: u32,
    /// As [`Access::born`], of the lock.
    pub born: u32,
    /// Sections of this lock that this one stands for.
    pub stands_for: u32,
    /// Visits and marks in all; more than [`Section::steps`] when it was cut.
    pub total: u32,
    /// vCPU that took the lock.
    pub vcpu: u16,
    /// In order.
    pub steps: Vec<SectionStep>,
}

/// One thing that happened in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionStep {
    /// An access, and how many that are left out came before it.
    Visit {
        /// First byte.
        address: u64,
        /// As [`Access::born`].
        born: u32,
        /// Accesses since the previous step.
        gap: u16,
        /// Load, store or locked read-modify-write.
        kind: AccessKind,
        /// Bytes.
        size: u8,
    },
    /// Another hot lock was taken by the numbered function.
    Acquired {
        /// Its address.
        lock: u64,
        /// As [`Access::born`].
        born: u32,
        /// As [`Section::function`].
        function: u8,
    },
    /// And released.
    Released {
        /// Its address.
        lock: u64,
    },
}

/// One access in the order of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// First byte.
    pub address: u64,
    /// As [`Access::born`].
    pub born: u32,
    /// Window of virtual time.
    pub window: u32,
    /// Load, store or locked read-modify-write.
    pub kind: AccessKind,
    /// Bytes.
    pub size: u8,
    /// vCPU.
    pub vcpu: u8,
}

/// Totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Instructions between forced vCPU changes.
    pub quantum: u64,
    /// Accesses per window.
    pub window: u64,
    /// Windows begun.
    pub windows: u64,
    /// Guest instructions, user mode included.
    pub instructions: u64,
    /// Forced vCPU changes.
    pub switches: u64,
    /// Accesses looked at.
    pub accesses: u64,
    /// Left out: the kernel accessing user addresses.
    pub user: u64,
    /// Left out: kernel stacks and other vmalloc memory.
    pub stack: u64,
    /// Left out: CPU entry areas and fixed mappings.
    pub entry: u64,
    /// Transfers between vCPUs.
    pub transfers: u64,
    /// Records that did not fit.
    pub lost: u64,
    /// Guest's monotonic clock at the start marker, ns.
    pub started_ns: i64,
    /// And at the stop marker.
    pub ended_ns: i64,
    /// Entries that the ordered log has no room for.
    pub order_lost: u64,
    /// Sections written.
    pub sections: u64,
    /// Sections given up, because another task released the lock.
    pub sections_lost: u64,
    /// Regions that programs of the guest began (`tussle.h`); 0 where they were not asked for.
    pub regions: u64,
    /// Kernel accesses left out because no region was open.
    pub outside: u64,
}

/// The whole stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Addresses of instructions by number; 0 where the stream never named one.
    pub instructions: Vec<u64>,
    /// Access cells in the order in which they were written.
    pub accesses: Vec<Access>,
    /// Stack samples.
    pub chains: Vec<Chain>,
    /// Hooks in order.
    pub hooks: Vec<Hook>,
    /// Slab objects allocated and freed, in order.
    pub lives: Vec<Life>,
    /// Sampled critical sections in order of their ends.
    pub sections: Vec<Section>,
    /// The ordered log.
    pub order: Vec<Ordered>,
    /// The start marker was met.
    pub started: bool,
    /// Totals at the end; `None` when the stream was cut off.
    pub end: Option<Summary>,
}

/// Why a stream cannot be read at all.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// Another file, or none of ours.
    #[error("the emulator's stream begins with no `tussle02`: the plugin did not start")]
    Format,
}

/// Something in the stream that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamProblem {
    /// Byte offset.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for StreamProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "emulator's stream, offset {:#x}: {}", self.offset, self.what)
    }
}

/// Instructions are numbered below this: the kernel has fewer.
const INSTRUCTIONS_MAX: u32 = 1 << 24;
/// Problems kept.
const PROBLEMS_MAX: usize = 20;

/// Decodes a stream; what is damaged is left out and said.
///
/// # Errors
/// [`StreamError::Format`] when it is no stream.
pub fn decode(bytes: &[u8]) -> Result<(Stream, Vec<StreamProblem>), StreamError> {
    let mut stream = Stream::default();
    let mut problems = Vec::new();
    let mut at = 0;
    while let Some(head) = word(bytes, at) {
        let (tag, length) = ((head >> 24) as u8, (head & 0xff_ffff) as usize);
        let Some(payload) = bytes.get(at + 4..at + 4 + length) else {
            note(&mut problems, at, "cut off");
            break;
        };
        if at == 0 && (tag, payload) != (b'V', b"tussle02".as_slice()) {
            return Err(StreamError::Format);
        }
        if stream.record(tag, payload).is_none() {
            note(&mut problems, at, &format!("record `{}` of {length} bytes", tag.escape_ascii()));
        }
        at += 4 + length;
    }
    if at == 0 { Err(StreamError::Format) } else { Ok((stream, problems)) }
}

fn note(problems: &mut Vec<StreamProblem>, at: usize, what: &str) {
    if problems.len() < PROBLEMS_MAX {
        problems.push(StreamProblem { offset: at as u64, what: what.into() });
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Takes fields off the front of a payload.
struct Fields<'p>(&'p [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|b| b[0])
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

impl Stream {
    /// Adds one record; `None` when it is not understood.
    fn record(&mut self, tag: u8, payload: &[u8]) -> Option<()> {
        let mut f = Fields(payload);
        match tag {
            b'V' => {}
            b'I' => {
                let (id, address) = (f.u32()?, f.u64()?);
                if id >= INSTRUCTIONS_MAX {
                    return None;
                }
                let slots = self.instructions.len().max(id as usize + 1);
                self.instructions.resize(slots, 0);
                self.instructions[id as usize] = address;
            }
            b'A' => self.accesses.push(access(&mut f)?),
            b'C' => self.chains.push(chain(&mut f)?),
            b'H' => self.hooks.extend(hook(&mut f)?),
            b'B' => self.lives.push(life(&mut f)?),
            b'O' => self.sections.push(section(&mut f)?),
            b'L' => ordered(&mut f, &mut self.order)?,
            b'S' => self.started = true,
            b'E' => self.end = Some(summary(&mut f)?),
            _ => return None,
        }
        Some(())
    }

    /// Address of an instruction.
    pub fn pc(&self, instruction: u32) -> u64 {
        self.instructions.get(instruction as usize).copied().unwrap_or(0)
    }
}

fn kind(number: u8) -> Option<AccessKind> {
    Some(match number {
        0 => AccessKind::Read,
        1 => AccessKind::Write,
        2 => AccessKind::Rmw,
        _ => return None,
    })
}

fn access(f: &mut Fields) -> Option<Access> {
    Some(Access {
        address: f.u64()?,
        instruction: f.u32().filter(|i| *i < INSTRUCTIONS_MAX)?,
        window: f.u32()?,
        count: f.u32()?,
        dirty: f.u32()?,
        clean: f.u32()?,
        invalidated: f.u32()?,
        born: f.u32()?,
        kind: kind(f.u8()?)?,
        size: f.u8().filter(|s| (1..=64).contains(s))?,
        vcpu: f.u16().filter(|c| *c < 64)?,
    })
}

fn chain(f: &mut Fields) -> Option<Chain> {
    let (address, rsp, rbp, instruction, window) = (f.u64()?, f.u64()?, f.u64()?, f.u32()?, f.u32()?);
    let born = f.u32()?;
    Some(Chain { instruction, address, window, born, rsp, rbp, stack: f.0.to_vec() })
}

/// The inner `None` is a kind that this version does not use.
fn hook(f: &mut Fields) -> Option<Option<Hook>> {
    let (a, b, accesses, function, bytes, vcpu) =
        (f.u64()?, f.u64()?, f.u64()?, f.u32()?, f.u32()?, f.u16()?);
    let kind = match f.u8()? {
        b'a' => HookKind::Alloc,
        b'f' => HookKind::Free,
        _ => return Some(None),
    };
    Some(Some(Hook { kind, function, a, b, accesses, bytes, vcpu }))
}

fn life(f: &mut Fields) -> Option<Life> {
    Some(Life {
        object: f.u64()?,
        accesses: f.u64()?,
        number: f.u32().filter(|n| *n > 0)?,
        bytes: f.u32()?,
        vcpu: f.u16()?,
        allocated: f.u8()? == 1,
    })
}

/// Flags of a section.
const THINK_KNOWN: u8 = 1;

fn section(f: &mut Fields) -> Option<Section> {
    let (lock, began, ended, think, instructions) = (f.u64()?, f.u64()?, f.u64()?, f.u64()?, f.u64()?);
    let (function, stands_for, total, born) = (f.u32()?, f.u32()?, f.u32()?, f.u32()?);
    let vcpu = f.u16().filter(|c| *c < 64)?;
    let (flags, _) = (f.u8()?, f.u8()?);
    let mut steps = Vec::with_capacity(f.0.len() / 16);
    while !f.0.is_empty() {
        let (address, born, gap, what, size) = (f.u64()?, f.u32()?, f.u16()?, f.u8()?, f.u8()?);
        steps.push(match what {
            3 => SectionStep::Acquired { lock: address, born, function: size },
            4 => SectionStep::Released { lock: address },
            _ => SectionStep::Visit { address, born, gap, kind: kind(what)?, size: size.clamp(1, 64) },
        });
    }
    Some(Section {
        lock,
        began,
        ended,
        think: (flags & THINK_KNOWN != 0).then_some(think),
        instructions: (instructions > 0).then_some(instructions),
        function,
        born,
        stands_for,
        total,
        vcpu,
        steps,
    })
}

/// Kernel addresses are sign-extended from 48 bits.
fn ordered(f: &mut Fields, out: &mut Vec<Ordered>) -> Option<()> {
    let window = f.u32()?;
    while !f.0.is_empty() {
        let (what, born) = (f.u64()?, f.u32()?);
        out.push(Ordered {
            address: what & 0xffff_ffff_ffff | 0xffff << 48,
            born,
            window,
            kind: kind((what >> 56 & 15) as u8)?,
            size: 1 << (what >> 60).min(6),
            vcpu: (what >> 48 & 63) as u8,
        });
    }
    Some(())
}

fn summary(f: &mut Fields) -> Option<Summary> {
    let _version = f.u64()?;
    Some(Summary {
        quantum: f.u64()?,
        window: f.u64()?,
        windows: f.u64()?,
        instructions: f.u64()?,
        switches: f.u64()?,
        accesses: f.u64()?,
        user: f.u64()?,
        stack: f.u64()?,
        entry: f.u64()?,
        transfers: f.u64()?,
        lost: f.u64()?,
        started_ns: f.u64()? as i64,
        ended_ns: f.u64()? as i64,
        order_lost: f.u64()?,
        sections: f.u64()?,
        sections_lost: f.u64()?,
        regions: f.u64()?,
        outside: f.u64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(tag: u8, payload: &[u8]) -> Vec<u8> {
        let head = u32::from(tag) << 24 | payload.len() as u32;
        [&head.to_le_bytes(), payload].concat()
    }

    fn sample() -> Vec<u8> {
        let mut access = Vec::new();
        access.extend(0xffff_8880_0000_1030u64.to_le_bytes());
        for field in [0u32, 3, 7, 2, 1, 0, 5] {
            access.extend(field.to_le_bytes());
        }
        access.extend([2, 8, 1, 0]);
        let insn = [&0u32.to_le_bytes()[..], &0xffff_ffff_8100_0000u64.to_le_bytes()].concat();
        [record(b'V', b"tussle02"), record(b'I', &insn), record(b'A', &access), record(b'E', &[0; 152])]
            .concat()
    }

    #[test]
    fn records_come_back() {
        let (stream, problems) = decode(&sample()).unwrap();
        assert_eq!(problems, []);
        assert_eq!(stream.pc(0), 0xffff_ffff_8100_0000);
        let a = stream.accesses[0];
        assert_eq!((a.kind, a.size, a.vcpu, a.window, a.count), (AccessKind::Rmw, 8, 1, 3, 7));
        assert_eq!((a.transfers(), a.born), (3, 5));
        assert!(stream.end.is_some());
    }

    #[test]
    fn damage_is_said_and_survived() {
        let bytes = sample();
        let (cut, problems) = decode(&bytes[..bytes.len() - 5]).unwrap();
        assert_eq!((cut.accesses.len(), cut.end, problems.len()), (1, None, 1));
        assert_eq!(decode(b"").unwrap_err(), StreamError::Format);
        assert_eq!(decode(b"\x7fELF\x02\x01\x01\0\0").unwrap_err(), StreamError::Format);
        let odd = [record(b'V', b"tussle02"), record(b'A', &[0; 8]), record(b'?', &[])].concat();
        assert_eq!(decode(&odd).unwrap().1.len(), 2);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(tail: Vec<u8>) {
            let _ = decode(&tail);
            let _ = decode(&[record(b'V', b"tussle02"), tail].concat());
        }
    }
}
