//! Which bytes an instruction accesses, from the registers before it or after it.
//!
//! An address is exact (the instruction is about to run, with these registers) or rebuilt (it has just run, and did not
//! change the registers of its operand, or changed them by a known amount). Anything else is unknown and counted.

use crate::registers::Registers;
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, Register,
    UsedMemory,
};
use tussle_evidence::TouchKind;

/// How an address came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum How {
    /// The registers are those with which the instruction is about to run.
    Exact,
    /// The instruction has just run; its operand's registers are unchanged or were changed by a known amount.
    Rebuilt,
    /// A debug register told.
    Watched,
    /// The processor's own sampling of loads and stores told.
    Told,
}

/// Bytes that an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First byte.
    pub address: u64,
    /// Bytes, at least 1.
    pub size: u32,
    /// Read, write, or both in one.
    pub kind: TouchKind,
    /// The bus is locked: `lock`, or `xchg` with memory.
    pub locked: bool,
    /// See [`How`].
    pub how: How,
    /// Registers of the operand with their values then: base and index, as perf numbers them.
    pub operand: [Option<(u32, u64)>; 2],
}

/// Accesses of one instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Those whose address is known.
    pub known: Vec<Access>,
    /// Operands of which it is not, or of which it is not known whether they are accessed at all.
    pub unknown: u32,
}

/// What the instruction is about to access.
pub fn before_it_runs(i: &Instruction, registers: &Registers) -> Accesses {
    accesses(i, registers, How::Exact)
}

/// What an instruction that has just run, and nothing after it, accessed.
pub fn after_it_ran(i: &Instruction, registers: &Registers) -> Accesses {
    if i.flow_control() != FlowControl::Next {
        return Accesses { known: Vec::new(), unknown: u32::from(touches_memory(i)) };
    }
    accesses(i, &undone(i, registers), How::Rebuilt)
}

/// Whether the instruction has an operand in memory, implied ones included.
pub fn touches_memory(i: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(i, InstructionInfoOptions::NO_REGISTER_USAGE);
    info.used_memory().iter().any(|m| m.access() != OpAccess::NoMemAccess)
}

/// An operand in memory, wherever it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Bytes, at least 1.
    pub size: u32,
    /// Read, write, or both in one.
    pub kind: TouchKind,
    /// The bus is locked.
    pub locked: bool,
    /// The register (in perf's numbers) that points there, and what is added to it, where there is nothing else.
    pub base: Option<(u32, u64)>,
}

/// The instruction's operands in memory, but for those that a mask decides about.
pub fn operands(i: &Instruction) -> Vec<Operand> {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(i, InstructionInfoOptions::NO_REGISTER_USAGE);
    let flat =
        |m: &UsedMemory| !matches!(m.segment(), Register::FS | Register::GS) && m.index() == Register::None;
    let operand = |m: &UsedMemory| {
        let kind = kind(i, m.access(), i.has_rep_prefix() || i.has_repne_prefix())?;
        let size = u32::try_from(element(i, m)).ok().filter(|s| *s > 0)?;
        let base = Registers::perf_number(m.base()).filter(|_| flat(m)).map(|r| (r, m.displacement()));
        Some(Operand { size, kind, locked: is_locked(i, kind), base })
    };
    info.used_memory().iter().filter_map(operand).collect()
}

/// Bytes of an access.
fn element(i: &Instruction, m: &UsedMemory) -> usize {
    match m.memory_size().size() {
        // One element; how many follow depends on the processor.
        0 if i.is_string_instruction() => i.memory_size().size(),
        size => size,
    }
}

fn is_locked(i: &Instruction, kind: TouchKind) -> bool {
    i.has_lock_prefix() || (i.mnemonic() == Mnemonic::Xchg && kind == TouchKind::Rmw)
}

/// Whether the instruction always writes memory when it runs.
pub fn writes_memory(i: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(i, InstructionInfoOptions::NO_REGISTER_USAGE);
    let writes = |a: OpAccess| matches!(a, OpAccess::Write | OpAccess::ReadWrite | OpAccess::ReadCondWrite);
    !i.is_string_instruction() && !is_masked(i) && info.used_memory().iter().any(|m| writes(m.access()))
}

/// Whether the instruction may write memory.
pub fn stores_somewhere(i: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(i, InstructionInfoOptions::NO_REGISTER_USAGE);
    info.used_memory().iter().any(|m| changes(m.access()))
}

/// General registers that the instruction changes, or may.
pub fn overwritten(i: &Instruction) -> Vec<Register> {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(i, InstructionInfoOptions::NO_MEMORY_USAGE);
    let changed = info.used_registers().iter().filter(|u| changes(u.access()));
    changed.map(|u| u.register().full_register()).collect()
}

fn changes(a: OpAccess) -> bool {
    matches!(a, OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite)
}

fn accesses(i: &Instruction, registers: &Registers, how: How) -> Accesses {
    let mut out = Accesses::default();
    let repeats = i.is_string_instruction() && (i.has_rep_prefix() || i.has_repne_prefix());
    match (repeats, how, registers.get(Register::RCX)) {
        // Nothing is left to do.
        (true, How::Exact, Some(0)) => return out,
        (true, How::Exact, Some(_)) | (false, ..) => {}
        // Whether it did anything is not known.
        (true, ..) => return Accesses { known: Vec::new(), unknown: 1 },
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(i, InstructionInfoOptions::NO_REGISTER_USAGE);
    for m in info.used_memory() {
        if m.access() == OpAccess::NoMemAccess {
            continue;
        }
        match access(i, m, registers, how, repeats) {
            Some(a) => out.push(a),
            None => out.unknown += 1,
        }
    }
    out
}

impl Accesses {
    /// `push [rbx]` reads and writes two places, `add [rbx], eax` one.
    fn push(&mut self, a: Access) {
        let same = |k: &&mut Access| k.address == a.address && k.size == a.size;
        match self.known.iter_mut().find(same) {
            Some(k) if k.kind != a.kind => k.kind = TouchKind::Rmw,
            Some(_) => {}
            None => self.known.push(a),
        }
    }
}

fn access(i: &Instruction, m: &UsedMemory, registers: &Registers, how: How, repeats: bool) -> Option<Access> {
    let size = u32::try_from(element(i, m)).ok().filter(|s| *s > 0)?;
    let kind = kind(i, m.access(), repeats)?;
    let address = m.virtual_address(0, |r, _, _| value(r, registers))?;
    let locked = is_locked(i, kind);
    let named = |r: Register| Some((Registers::perf_number(r)?, registers.get(r)?));
    Some(Access { address, size, kind, locked, how, operand: [named(m.base()), named(m.index())] })
}

/// `None` where it depends on a mask whether memory is touched.
fn kind(i: &Instruction, access: OpAccess, repeats: bool) -> Option<TouchKind> {
    if is_masked(i) {
        return None;
    }
    match access {
        OpAccess::Read => Some(TouchKind::Read),
        OpAccess::Write => Some(TouchKind::Write),
        // A compare-and-swap that fails gets the line all the same.
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some(TouchKind::Rmw),
        OpAccess::CondRead if repeats || is_conditional_move(i) => Some(TouchKind::Read),
        OpAccess::CondWrite if repeats => Some(TouchKind::Write),
        _ => None,
    }
}

/// Elements are touched or not by a mask in a vector register.
fn is_masked(i: &Instruction) -> bool {
    use Mnemonic::{Maskmovdqu, Maskmovq, Vmaskmovdqu, Vmaskmovpd, Vmaskmovps, Vpmaskmovd, Vpmaskmovq};
    let moves = [Maskmovdqu, Maskmovq, Vmaskmovdqu, Vmaskmovpd, Vmaskmovps, Vpmaskmovd, Vpmaskmovq];
    i.op_mask() != Register::None || moves.contains(&i.mnemonic())
}

/// `cmovcc` reads its operand whatever the condition.
fn is_conditional_move(i: &Instruction) -> bool {
    use iced_x86::ConditionCode;
    i.condition_code() != ConditionCode::None && i.flow_control() == FlowControl::Next
}

fn value(register: Register, registers: &Registers) -> Option<u64> {
    match register {
        Register::None | Register::DS | Register::ES | Register::SS | Register::CS => Some(0),
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::RIP => Some(registers.ip),
        _ => registers.get(register),
    }
}

/// The registers before an instruction, from those after it. What cannot be told is forgotten.
fn undone(i: &Instruction, after: &Registers) -> Registers {
    let mut before = *after;
    let steps = steps(i, after);
    for register in overwritten(i) {
        match steps.iter().find(|s| s.0 == register) {
            Some((_, step)) => before.add(register, step.wrapping_neg()),
            None => before.forget(register),
        }
    }
    before
}

/// Registers that an instruction moves by a known amount.
fn steps(i: &Instruction, after: &Registers) -> Vec<(Register, i64)> {
    if i.is_string_instruction() {
        let Some(down) = after.downwards() else { return Vec::new() };
        let size = i.memory_size().size() as i64;
        let step = if down { -size } else { size };
        return vec![(Register::RSI, step), (Register::RDI, step)];
    }
    let into_stack_pointer = i.op0_register().full_register() == Register::RSP;
    match i.mnemonic() {
        Mnemonic::Push | Mnemonic::Pushfq | Mnemonic::Pop | Mnemonic::Popfq if !into_stack_pointer => {
            vec![(Register::RSP, i64::from(i.stack_pointer_increment()))]
        }
        _ => Vec::new(),
    }
}
