//! How to find a function's caller: the unwind table of a loaded module (`.eh_frame`, as DWARF 5 section 6.4 and the
//! x86-64 psABI describe it), read for one address. Enough for what compilers emit for C and C++; for anything else
//! there is no rule. Nothing is allocated and no lock is taken, so this works in signal handlers.

/// Number of the registers that matter, in DWARF's numbering for x86-64.
const RBP: u64 = 6;
const RSP: u64 = 7;

/// Where the frame of a function lies at one of its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The frame's end (the caller's stack pointer after the return) is counted from rbp, not from rsp.
    pub from_rbp: bool,
    /// Distance to it, bytes.
    pub cfa_bytes: i64,
    /// Where the caller's rbp was saved, in bytes from the frame's end; `None` while it is still in the register.
    pub saved_rbp_bytes: Option<i64>,
    /// The function's first instruction.
    pub start: u64,
}

/// A cursor over the table's bytes.
struct Bytes {
    at: *const u8,
    end: *const u8,
}

impl Bytes {
    /// `N` bytes, or `None` at the end.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        if (self.end as usize).wrapping_sub(self.at as usize) < N || self.at > self.end {
            return None;
        }
        // SAFETY: in bounds; arrays of bytes need no alignment.
        let v = unsafe { self.at.cast::<[u8; N]>().read() };
        self.at = self.at.wrapping_add(N);
        Some(v)
    }
    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|b| b[0])
    }
    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
    fn uleb(&mut self) -> Option<u64> {
        let (mut v, mut shift) = (0u64, 0);
        loop {
            let b = self.u8()?;
            v |= u64::from(b & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if b & 0x80 == 0 {
                return Some(v);
            }
        }
    }
    fn sleb(&mut self) -> Option<i64> {
        let (mut v, mut shift) = (0i64, 0u32);
        loop {
            let b = self.u8()?;
            v |= i64::from(b & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if b & 0x80 == 0 {
                let sign = b & 0x40 != 0 && shift < 64;
                return Some(if sign { v | -1i64 << shift } else { v });
            }
        }
    }
    fn skip(&mut self, n: u64) -> Option<()> {
        let left = (self.end as usize).checked_sub(self.at as usize)?;
        (n <= left as u64).then(|| self.at = self.at.wrapping_add(n as usize))
    }
}

/// What an entry shares with others of its module.
struct Common {
    code_align: u64,
    data_align: i64,
    /// The length of augmentation data stands before instructions.
    augmented: bool,
    instructions: Bytes,
}

/// The rule at `pc` from the module's `.eh_frame_hdr`.
///
/// # Safety
/// `header` is the start of a loaded module's `.eh_frame_hdr`, or null, and the module stays loaded meanwhile.
pub unsafe fn rule(header: *const u8, pc: u64) -> Option<Rule> {
    if header.is_null() {
        return None;
    }
    // SAFETY: the caller's promise: the table and what it points to lie in the module.
    unsafe {
        let entry = find(header, pc)?;
        let mut e = record(entry)?;
        let id_at = e.at;
        let back = e.u32()?;
        if back == 0 {
            return None;
        }
        let common = common(id_at.wrapping_sub(back as usize))?;
        let at = e.at;
        let start = (at as u64).wrapping_add(i64::from(e.u32()? as i32) as u64);
        let length = u64::from(e.u32()?);
        if pc.wrapping_sub(start) >= length {
            return None;
        }
        if common.augmented {
            let n = e.uleb()?;
            e.skip(n)?;
        }
        run(common, e, start, pc)
    }
}

/// The bytes of one record behind its length.
///
/// # Safety
/// `at` is the start of a record in a `.eh_frame` that is loaded.
unsafe fn record(at: *const u8) -> Option<Bytes> {
    // SAFETY: `at` is a record's start, which has four bytes at least.
    let length = unsafe { at.cast::<u32>().read_unaligned() };
    let body = at.wrapping_add(4);
    // 64-bit records and the end of the table have no rule.
    (length != 0 && length != u32::MAX).then(|| Bytes { at: body, end: body.wrapping_add(length as usize) })
}

/// The record of the function that `pc` may lie in: binary search in the header's table.
///
/// # Safety
/// `header` is a `.eh_frame_hdr` that is loaded.
unsafe fn find(header: *const u8, pc: u64) -> Option<*const u8> {
    // Version 1; pointers are relative, of four bytes each: what every linker writes.
    const KNOWN: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    // SAFETY: the header has 12 bytes and the table that it counts.
    unsafe {
        if header.cast::<[u8; 4]>().read() != KNOWN {
            return None;
        }
        let count = header.add(8).cast::<u32>().read_unaligned() as usize;
        let pair = |i: usize| header.add(12 + i * 8).cast::<[i32; 2]>().read_unaligned();
        let address = |v: i32| (header as u64).wrapping_add(i64::from(v) as u64);
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if address(pair(middle)[0]) <= pc {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let found = low.checked_sub(1)?;
        Some(address(pair(found)[1]) as *const u8)
    }
}

/// # Safety
/// `at` is the start of a common record in a `.eh_frame` that is loaded.
unsafe fn common(at: *const u8) -> Option<Common> {
    // SAFETY: a record of the module.
    let mut c = unsafe { record(at)? };
    if c.u32()? != 0 {
        return None;
    }
    let version = c.u8()?;
    let mut letters = [0u8; 8];
    let mut n = 0;
    loop {
        match c.u8()? {
            0 => break,
            b => *letters.get_mut(n)? = b,
        }
        n += 1;
    }
    let (code_align, data_align) = (c.uleb()?, c.sleb()?);
    if version == 1 {
        c.u8()?;
    } else {
        c.uleb()?;
    }
    let augmented = letters[0] == b'z';
    if !augmented && n > 0 {
        return None;
    }
    if augmented {
        let length = c.uleb()?;
        let after = c.at.wrapping_add(length as usize);
        encodings(&mut c, letters.get(1..n)?)?;
        c.at = after;
    }
    Some(Common { code_align, data_align, augmented, instructions: c })
}

/// Checks that addresses are relative and have four bytes, and that this is no signal frame.
fn encodings(c: &mut Bytes, letters: &[u8]) -> Option<()> {
    const RELATIVE_I32: u8 = 0x1b;
    for l in letters {
        match l {
            b'R' if c.u8()? == RELATIVE_I32 => {}
            b'L' => drop(c.u8()?),
            b'P' => match c.u8()? & 0x0f {
                0x03 | 0x0b => drop(c.u32()?),
                0x00 | 0x04 | 0x0c => drop(c.take::<8>()?),
                _ => return None,
            },
            _ => return None,
        }
    }
    Some(())
}

/// State of the table's little machine.
#[derive(Clone, Copy)]
struct State {
    register: u64,
    cfa_bytes: i64,
    saved_rbp_bytes: Option<i64>,
    /// The frame's end is an expression, or rbp's place is: no rule.
    unknown: bool,
}

/// Remembered states at a time.
const REMEMBERED: usize = 4;

struct Machine {
    now: State,
    first: State,
    stack: [State; REMEMBERED],
    depth: usize,
    location: u64,
    code_align: u64,
    data_align: i64,
}

fn run(common: Common, instructions: Bytes, start: u64, pc: u64) -> Option<Rule> {
    let empty = State { register: RSP, cfa_bytes: 8, saved_rbp_bytes: None, unknown: false };
    let (code_align, data_align) = (common.code_align, common.data_align);
    let mut m = Machine {
        now: empty,
        first: empty,
        stack: [empty; REMEMBERED],
        depth: 0,
        location: start,
        code_align,
        data_align,
    };
    m.execute(common.instructions, u64::MAX)?;
    m.first = m.now;
    m.execute(instructions, pc)?;
    let from_rbp = match m.now.register {
        RBP => true,
        RSP => false,
        _ => return None,
    };
    let State { cfa_bytes, saved_rbp_bytes, .. } = m.now;
    (!m.now.unknown).then_some(Rule { from_rbp, cfa_bytes, saved_rbp_bytes, start })
}

impl Machine {
    /// Runs until the location is beyond `pc`.
    fn execute(&mut self, mut b: Bytes, pc: u64) -> Option<()> {
        while b.at < b.end {
            let op = b.u8()?;
            let low = u64::from(op & 0x3f);
            let advance = match op >> 6 {
                1 => Some(low),
                2 => {
                    let offset = b.uleb()? as i64;
                    self.saved(low, offset);
                    None
                }
                3 => {
                    self.restore(low);
                    None
                }
                _ => self.extended(op, &mut b)?,
            };
            if let Some(n) = advance {
                self.location = self.location.wrapping_add(n.wrapping_mul(self.code_align));
                if self.location > pc {
                    break;
                }
            }
        }
        Some(())
    }

    /// One instruction with a byte of its own; the advance if it is one.
    fn extended(&mut self, op: u8, b: &mut Bytes) -> Option<Option<u64>> {
        match op {
            0x00 => {}
            0x02 => return Some(Some(u64::from(b.u8()?))),
            0x03 => return Some(Some(u64::from(u16::from_le_bytes(b.take()?)))),
            0x04 => return Some(Some(u64::from(b.u32()?))),
            0x05 => {
                let (register, offset) = (b.uleb()?, b.uleb()? as i64);
                self.saved(register, offset);
            }
            0x06 => {
                let register = b.uleb()?;
                self.restore(register);
            }
            0x07 | 0x08 => drop(b.uleb()?),
            0x09 => drop((b.uleb()?, b.uleb()?)),
            0x0a => {
                *self.stack.get_mut(self.depth)? = self.now;
                self.depth += 1;
            }
            0x0b => {
                self.depth = self.depth.checked_sub(1)?;
                self.now = *self.stack.get(self.depth)?;
            }
            0x0c => {
                (self.now.register, self.now.cfa_bytes, self.now.unknown) =
                    (b.uleb()?, b.uleb()? as i64, false)
            }
            0x0d => self.now.register = b.uleb()?,
            0x0e => self.now.cfa_bytes = b.uleb()? as i64,
            0x0f => {
                let n = b.uleb()?;
                b.skip(n)?;
                self.now.unknown = true;
            }
            0x10 | 0x16 => {
                let (register, n) = (b.uleb()?, b.uleb()?);
                b.skip(n)?;
                self.now.unknown |= register == RBP;
            }
            0x11 => {
                let (register, offset) = (b.uleb()?, b.sleb()?);
                self.saved(register, offset);
            }
            0x12 => {
                (self.now.register, self.now.cfa_bytes) = (b.uleb()?, b.sleb()?.wrapping_mul(self.data_align))
            }
            0x13 => self.now.cfa_bytes = b.sleb()?.wrapping_mul(self.data_align),
            0x14 | 0x15 => drop((b.uleb()?, b.uleb()?)),
            // DW_CFA_GNU_args_size.
            0x2e => drop(b.uleb()?),
            _ => return None,
        }
        Some(None)
    }

    fn saved(&mut self, register: u64, offset: i64) {
        if register == RBP {
            self.now.saved_rbp_bytes = Some(offset.wrapping_mul(self.data_align));
        }
    }

    fn restore(&mut self, register: u64) {
        if register == RBP {
            self.now.saved_rbp_bytes = self.first.saved_rbp_bytes;
        }
    }
}
