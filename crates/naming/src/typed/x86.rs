//! x86-64: the memory operand of an instruction, and what the registers point to when it runs.
//!
//! DWARF says which variable a register holds at an address. Between two such statements types are followed through
//! copies, loads of pointer members, constant sums and returned values, inside of one extended basic block. What is
//! not understood makes a register unknown.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions,
    Mnemonic, OpAccess, OpKind, Register,
};
use tussle_debuginfo::symbols::{Location, Placed};
use tussle_model::leaf::{Arrays, leaf_at, leaves};
use tussle_model::{Type, TypeId};

use crate::image::Image;
use crate::nest;

/// Longer functions are not decoded.
const FUNCTION_BYTES_MAX: u64 = 1 << 18;

/// General registers; also the number of DWARF's first ones.
const REGISTERS: usize = 16;

/// DWARF's numbers by the CPU's (System V ABI for x86-64, figure 3.36).
const DWARF: [usize; REGISTERS] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// DWARF's number of the frame pointer.
const RBP: usize = 6;

/// Registers that a call does not keep, DWARF's numbers.
const LOST_BY_CALLS: [usize; 9] = [0, 1, 2, 4, 5, 8, 9, 10, 11];

/// A register points into a struct.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pointer {
    /// The struct.
    pub ty: TypeId,
    /// Byte of it that the register holds the address of.
    pub offset: i64,
    /// What says so.
    pub why: String,
}

/// A memory access.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Operand {
    /// DWARF's number.
    pub base: Option<usize>,
    /// DWARF's number and factor.
    pub index: Option<(usize, u64)>,
    pub displacement: i64,
    /// Bytes.
    pub size: u64,
    /// In the segment of the CPU's (kernel) or thread's data.
    pub gs: bool,
    /// The instruction overwrites base or index, so sampled registers are of no use.
    pub overwritten: bool,
    /// What the base may point to.
    pub pointers: Vec<Pointer>,
}

type State = [Vec<Pointer>; REGISTERS];

/// The access of the instruction at `svma`, with what its base register points to.
pub(crate) fn operand(image: &Image, svma: u64) -> Option<Operand> {
    let own = decode_one(image, svma)?;
    let mut out = access(&own)?;
    let base = out.base.filter(|b| *b != 7)?;
    let function = image.symbols.function(svma);
    let mut track = Track { image, state: State::default(), frame_pointer: false };
    let length = function.map_or(0, |f| f.end - f.start);
    if let Some(f) = function.filter(|_| length <= FUNCTION_BYTES_MAX)
        && let Some(start) = track.block(f.start, f.end, svma)
    {
        track.run(start, svma);
    }
    track.seed(svma);
    out.pointers = std::mem::take(&mut track.state[base]);
    Some(out)
}

/// The access alone, for operands without a base register.
pub(crate) fn plain(image: &Image, svma: u64) -> Option<Operand> {
    access(&decode_one(image, svma)?)
}

fn decode_one(image: &Image, svma: u64) -> Option<Instruction> {
    let code = image.code(svma, 15)?;
    let instruction = Decoder::with_ip(64, code, svma, DecoderOptions::NONE).decode();
    (instruction.code() != Code::INVALID).then_some(instruction)
}

fn dwarf(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| DWARF[full.number()])
}

/// The one memory operand that is read or written; none for address computations, stacks and string instructions.
fn access(i: &Instruction) -> Option<Operand> {
    let memory = (0..i.op_count()).filter(|n| i.op_kind(*n) == OpKind::Memory).count();
    if memory != 1 || matches!(i.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) {
        return None;
    }
    let mut out = Operand { size: i.memory_size().size() as u64, ..Operand::default() };
    out.gs = i.segment_prefix() == Register::GS;
    if out.size == 0 || i.segment_prefix() == Register::FS {
        return None;
    }
    if i.is_ip_rel_memory_operand() {
        out.displacement = i.ip_rel_memory_address() as i64;
        return Some(out);
    }
    out.displacement = i.memory_displacement64() as i64;
    out.base = dwarf(i.memory_base());
    out.index = dwarf(i.memory_index()).map(|r| (r, u64::from(i.memory_index_scale())));
    let wrong_base = i.memory_base() != Register::None && out.base.is_none();
    let wrong_index = i.memory_index() != Register::None && out.index.is_none();
    if wrong_base || wrong_index {
        return None;
    }
    let written = written(i);
    let hit = |r: Option<usize>| r.is_some_and(|r| written.contains(&r));
    out.overwritten = hit(out.base) || hit(out.index.map(|i| i.0));
    Some(out)
}

/// General registers that an instruction writes, DWARF's numbers.
fn written(i: &Instruction) -> Vec<usize> {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(i, InstructionInfoOptions::NO_MEMORY_USAGE);
    let writes = |a: OpAccess| {
        matches!(a, OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite)
    };
    info.used_registers().iter().filter(|u| writes(u.access())).filter_map(|u| dwarf(u.register())).collect()
}

struct Track<'i> {
    image: &'i Image,
    state: State,
    /// The function keeps a frame pointer: `push rbp; mov rbp, rsp`.
    frame_pointer: bool,
}

impl Track<'_> {
    /// Where to begin so that every instruction up to `svma` is reached from the one before only. `None` when the
    /// function has jumps to places that cannot be told.
    fn block(&mut self, start: u64, end: u64, svma: u64) -> Option<u64> {
        let code = self.image.code(start, usize::try_from(end - start).ok()?)?;
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let (mut begin, mut previous) = (start, Code::INVALID);
        let mut hit = false;
        let mut targets = Vec::new();
        while decoder.can_decode() {
            let i = decoder.decode();
            hit |= i.ip() == svma;
            if previous == Code::Push_r64 && i.ip() < start + 16 {
                self.frame_pointer |= i.mnemonic() == Mnemonic::Mov
                    && i.op0_register() == Register::RBP
                    && i.op1_register() == Register::RSP;
            }
            previous = i.code();
            let after = i.next_ip();
            match i.flow_control() {
                FlowControl::IndirectBranch => return None,
                FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
                    targets.push(i.near_branch_target());
                }
                FlowControl::UnconditionalBranch => targets.extend([i.near_branch_target(), after]),
                FlowControl::Return | FlowControl::Exception => targets.push(after),
                _ => {}
            }
        }
        // The address must be the start of an instruction of this decoding.
        hit.then_some(())?;
        for t in targets.into_iter().filter(|t| (start..=svma).contains(t)) {
            begin = begin.max(t);
        }
        Some(begin)
    }

    fn run(&mut self, start: u64, svma: u64) {
        let Some(code) = self.image.code(start, (svma - start) as usize) else { return };
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        while decoder.can_decode() {
            let i = decoder.decode();
            self.seed(i.ip());
            self.step(&i);
        }
    }

    /// What DWARF says of the registers at an address.
    fn seed(&mut self, svma: u64) {
        for v in self.image.symbols.placed(svma) {
            let (register, offset) = match v.place {
                Location::Register(r) => (usize::from(r), 0),
                Location::Sum(r, sum) => (usize::from(r), sum.saturating_neg()),
                _ => continue,
            };
            let Some(ty) = self.pointee(self.image.ty(v.ty)) else { continue };
            let Some(list) = self.state.get_mut(register) else { continue };
            if !list.iter().any(|p| p.ty == ty && p.offset == offset) {
                list.push(Pointer { ty, offset, why: format!("a register holds `{}`", v.name) });
            }
        }
    }

    /// The complete struct that a pointer type points to, by the name that it has.
    fn pointee(&self, ty: Option<TypeId>) -> Option<TypeId> {
        let types = &self.image.types;
        let to = match types.get(types.strip(ty?)) {
            Type::Pointer { to, .. } | Type::Reference { to, .. } => nest::plain(types, *to),
            _ => return None,
        };
        let a = types.aggregate(to)?;
        if a.declaration {
            let name = format!("{} {}", a.kind.keyword(), a.name.as_deref()?);
            return match self.image.named(&name) {
                [one] => Some(types.strip(*one)),
                _ => None,
            };
        }
        (a.size > 0).then_some(to)
    }

    fn step(&mut self, i: &Instruction) {
        let target = dwarf(i.op0_register()).filter(|_| i.op0_kind() == OpKind::Register);
        let wide = i.op0_register().is_gpr64();
        let result = match (target, i.mnemonic()) {
            (Some(_), Mnemonic::Mov) if wide => self.moved(i),
            (Some(_), Mnemonic::Lea) if wide && i.memory_index() == Register::None => {
                let base = dwarf(i.memory_base()).map_or(&[][..], |b| &self.state[b]);
                shifted(base, i.memory_displacement64() as i64)
            }
            (Some(t), Mnemonic::Add | Mnemonic::Sub) if wide && is_constant(i.op1_kind()) => {
                let n = i.immediate(1) as i64;
                let n = if i.mnemonic() == Mnemonic::Sub { n.saturating_neg() } else { n };
                shifted(&self.state[t], n)
            }
            (_, Mnemonic::Call) => {
                LOST_BY_CALLS.iter().for_each(|r| self.state[*r].clear());
                self.state[0] = self.returned(i);
                return;
            }
            _ => Vec::new(),
        };
        written(i).into_iter().for_each(|r| self.state[r].clear());
        if let Some(t) = target {
            self.state[t] = result;
        }
    }

    /// The value of `mov register, ...`.
    fn moved(&self, i: &Instruction) -> Vec<Pointer> {
        match i.op1_kind() {
            OpKind::Register => dwarf(i.op1_register()).map_or(Vec::new(), |r| self.state[r].clone()),
            OpKind::Memory => self.loaded(i),
            _ => Vec::new(),
        }
    }

    fn returned(&self, i: &Instruction) -> Vec<Pointer> {
        if i.op0_kind() != OpKind::NearBranch64 {
            return Vec::new();
        }
        let f = self.image.symbols.function(i.near_branch_target());
        let f = f.filter(|f| f.start == i.near_branch_target());
        let ty = f.and_then(|f| self.pointee(self.image.ty(f.ret)));
        let why = || "returned by the function called before".to_string();
        ty.into_iter().map(|ty| Pointer { ty, offset: 0, why: why() }).collect()
    }

    /// A pointer read from memory: a member, a variable in its place on the stack, or a global one.
    fn loaded(&self, i: &Instruction) -> Vec<Pointer> {
        let Some(o) = access(i).filter(|o| o.size == 8) else { return Vec::new() };
        let found = |ty: Option<TypeId>, why: String| -> Vec<Pointer> {
            self.pointee(ty).into_iter().map(|ty| Pointer { ty, offset: 0, why: why.clone() }).collect()
        };
        let Some(base) = o.base else {
            let at = o.displacement as u64;
            let variables = self.image.symbols.static_variables();
            let first = variables.partition_point(|v| v.svma < at);
            let Some(v) = variables.get(first).filter(|v| v.svma == at && o.index.is_none()) else {
                return Vec::new();
            };
            return found(self.image.ty(v.ty), format!("read from `{}`", v.name));
        };
        let places = self.image.symbols.placed(i.ip());
        let slot = places.iter().find(|v| o.index.is_none() && self.is_slot(v, base, o.displacement));
        if let Some(v) = slot {
            return found(self.image.ty(v.ty), format!("read from `{}`", v.name));
        }
        let mut out = Vec::new();
        for p in &self.state[base] {
            let Some(at) = p.offset.checked_add(o.displacement).and_then(|n| u64::try_from(n).ok()) else {
                continue;
            };
            if let Some((ty, path)) = self.pointer_member(p.ty, at, o.index.is_some()) {
                out.extend(found(Some(ty), format!("{}, its `{path}` was followed", p.why)));
            }
        }
        out
    }

    /// Is this memory the place of a variable?
    fn is_slot(&self, v: &Placed, base: usize, displacement: i64) -> bool {
        match v.place {
            Location::Memory(r, offset) => usize::from(r) == base && offset == displacement,
            // The return address and the caller's frame pointer lie between.
            Location::Frame(offset) => {
                self.frame_pointer && base == RBP && offset.saturating_add(16) == displacement
            }
            _ => false,
        }
    }

    /// The pointer at a byte of a struct, if it is no matter of opinion (a union), and its path.
    fn pointer_member(&self, ty: TypeId, at: u64, indexed: bool) -> Option<(TypeId, String)> {
        let types = &self.image.types;
        let all = self.image.leaves(ty);
        let leaf = leaf_at(&all, at).filter(|l| !l.overlaps && l.bits.is_none())?;
        match types.get(types.strip(leaf.ty)) {
            Type::Pointer { .. } if leaf.offset == at && !indexed => Some((leaf.ty, leaf.path.clone())),
            Type::Array { elem, .. } if (at - leaf.offset).is_multiple_of(8) => {
                let pointers = matches!(types.get(types.strip(*elem)), Type::Pointer { .. });
                pointers.then(|| (*elem, leaf.path.clone()))
            }
            _ => None,
        }
    }
}

fn is_constant(kind: OpKind) -> bool {
    matches!(kind, OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate64)
}

fn shifted(list: &[Pointer], by: i64) -> Vec<Pointer> {
    let sum = |p: &Pointer| Some(Pointer { offset: p.offset.checked_add(by)?, ..p.clone() });
    list.iter().filter_map(sum).collect()
}

impl Operand {
    /// The struct that is accessed and the byte of it, when all that is known agrees. `at` is the accessed byte if the
    /// base register holds that pointer; it may lie outside.
    pub fn choose(&self, image: &Image, at: &dyn Fn(&Pointer) -> u64) -> Option<(Pointer, u64)> {
        let mut fitting: Vec<(&Pointer, u64)> = Vec::new();
        for p in &self.pointers {
            let offset = at(p);
            if self.fits(image, p.ty, offset) {
                fitting.push((p, offset));
            } else if image.types.size(p.ty).is_some_and(|s| offset < s) {
                // A type that does not have such a field there: something is not as it seems.
                return None;
            }
        }
        fitting.sort_by_key(|(p, _)| std::cmp::Reverse(image.types.size(p.ty)));
        let (outer, offset) = *fitting.first()?;
        let inside = |(p, o): &(&Pointer, u64)| {
            offset.checked_sub(*o).is_some_and(|begin| nest::holds(&image.types, outer.ty, begin, p.ty))
        };
        fitting.iter().all(inside).then(|| (outer.clone(), offset))
    }

    /// The access begins in a field and does not begin in the middle of a scalar that is smaller than it.
    fn fits(&self, image: &Image, ty: TypeId, offset: u64) -> bool {
        let size = image.types.size(ty).unwrap_or(0);
        if offset.saturating_add(self.size) > size {
            return false;
        }
        let all = image.leaves(ty);
        let here = all.iter().filter(|l| l.offset <= offset && offset < l.end());
        here.into_iter().any(|l| {
            let scalar = !matches!(image.types.get(image.types.strip(l.ty)), Type::Array { .. });
            l.bits.is_some() || !scalar || offset.saturating_add(self.size) <= l.end() || l.offset == offset
        })
    }
}

/// Leaf fields for [`Image::leaves`].
pub(crate) fn flatten(image: &Image, ty: TypeId) -> Vec<tussle_model::leaf::Leaf> {
    leaves(&image.types, ty, Arrays::Whole)
}
