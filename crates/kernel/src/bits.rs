//! Which bits of the bytes that it accesses an instruction is about. Compilers load or change whole bytes of
//! bit-fields; masks, shifts and bit tests around the access tell the field. Only the straight line of code from the
//! function's beginning is followed; what is not understood means all bits.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

/// Longer functions are not decoded, bytes.
const FUNCTION_BYTES_MAX: usize = 1 << 16;

/// Instructions before and after an access that are looked at.
const STEPS_MAX: usize = 32;

/// The bits, from the access's first byte on, that the instruction at `at` uses or changes; all that it accesses where
/// nothing narrower shows. `function` is the code of its function, which begins at `start`. `None`: no such access.
pub fn touched(function: &[u8], start: u64, at: u64) -> Option<u64> {
    let code = function.get(..function.len().min(FUNCTION_BYTES_MAX))?;
    let all: Vec<Instruction> = Decoder::with_ip(64, code, start, DecoderOptions::NONE).into_iter().collect();
    let n = all.binary_search_by_key(&at, Instruction::ip).ok()?;
    let i = all.get(n)?;
    let whole = ones(bytes_of(i)? * 8);
    let mask = match (i.op0_kind(), i.mnemonic()) {
        (OpKind::Memory, Mnemonic::Test | Mnemonic::Or | Mnemonic::Xor) => operand(&all, n),
        (OpKind::Memory, Mnemonic::And) => operand(&all, n).map(|m| !m),
        (OpKind::Memory, Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc) => bit(i),
        (OpKind::Memory, Mnemonic::Mov) => load_before(&all, n).and_then(|load| used(&all, load)),
        (OpKind::Register, Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Xor) => {
            used(&all, n)
        }
        _ => None,
    };
    Some(mask.map_or(whole, |m| m & whole))
}

/// Bits of so many.
fn ones(bits: u64) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Bytes that an instruction accesses in memory; `None` without a memory operand, or for more than eight.
fn bytes_of(i: &Instruction) -> Option<u64> {
    let memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    let bytes = i.memory_size().size() as u64;
    (memory && (1..=8).contains(&bytes)).then_some(bytes)
}

fn is_constant(kind: OpKind) -> bool {
    !matches!(kind, OpKind::Register | OpKind::Memory | OpKind::NearBranch64)
}

/// The second operand if it is constant; of a register what it holds if it was just masked.
fn operand(all: &[Instruction], n: usize) -> Option<u64> {
    let i = &all[n];
    if is_constant(i.op1_kind()) {
        return Some(i.immediate(1));
    }
    let register = (i.op1_kind() == OpKind::Register).then(|| i.op1_register().full_register())?;
    let mut shift = 0;
    for before in all[..n].iter().rev().take(STEPS_MAX) {
        if before.flow_control() != FlowControl::Next {
            return None;
        }
        if !writes(before, register) {
            continue;
        }
        let constant = is_constant(before.op1_kind()).then(|| before.immediate(1))?;
        match before.mnemonic() {
            Mnemonic::And => return Some(constant << shift),
            Mnemonic::Shl => shift = (shift + constant).min(63),
            _ => return None,
        }
    }
    None
}

fn bit(i: &Instruction) -> Option<u64> {
    is_constant(i.op1_kind()).then(|| 1 << (i.immediate(1) & 63))
}

/// What the instruction does to a register, all its parts together.
fn accesses(i: &Instruction, register: Register) -> Vec<OpAccess> {
    let mut info = InstructionInfoFactory::new();
    let used = info.info(i).used_registers().iter();
    used.filter(|u| u.register().full_register() == register).map(|u| u.access()).collect()
}

/// It may change the register.
pub(crate) fn writes(i: &Instruction, register: Register) -> bool {
    let kept = |a: &OpAccess| matches!(a, OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
    !accesses(i, register).iter().all(kept)
}

/// The load of what this instruction stores back, if between them only registers change.
fn load_before(all: &[Instruction], n: usize) -> Option<usize> {
    let i = &all[n];
    if i.op1_kind() != OpKind::Register {
        return None;
    }
    for (k, before) in all[..n].iter().enumerate().rev().take(STEPS_MAX) {
        if before.flow_control() != FlowControl::Next
            && before.flow_control() != FlowControl::ConditionalBranch
        {
            return None;
        }
        let loads = matches!(before.mnemonic(), Mnemonic::Mov | Mnemonic::Movzx);
        if loads && before.op0_kind() == OpKind::Register && same_place(before, i) {
            return Some(k);
        }
        if [i.memory_base(), i.memory_index()].into_iter().any(|r| writes(before, r.full_register())) {
            return None;
        }
    }
    None
}

/// Both operands are the same memory, as long as their registers hold what they held.
fn same_place(a: &Instruction, b: &Instruction) -> bool {
    let place = |i: &Instruction| {
        let registers = [i.memory_base(), i.memory_index(), i.segment_prefix()];
        (registers, i.memory_displacement64(), i.memory_index_scale(), i.memory_size().size())
    };
    (0..a.op_count()).any(|n| a.op_kind(n) == OpKind::Memory) && place(a) == place(b)
}

/// A register with bits of what was loaded.
struct Held {
    register: Register,
    /// How far they were shifted down, or up if negative.
    down: i64,
    /// A mask that the register was given: used if it goes no further, kept if it is stored back.
    masked: Option<u64>,
}

impl Held {
    /// Bits of the loaded bytes for bits of the register.
    fn loaded(&self, bits: u64) -> u64 {
        let by = self.down.unsigned_abs().min(63) as u32;
        if self.down >= 0 { bits << by } else { bits >> by }
    }
}

/// The bits of what the load at `n` reads that are used until its register is overwritten.
fn used(all: &[Instruction], n: usize) -> Option<u64> {
    let load = &all[n];
    let mut held = Held { register: load.op0_register().full_register(), down: 0, masked: None };
    let place = [load.memory_base(), load.memory_index()].map(Register::full_register);
    let (mut mask, mut moved) = (0, place.iter().any(|r| writes(load, *r)));
    for i in all[n + 1..].iter().take(STEPS_MAX) {
        if !matches!(i.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch) {
            break;
        }
        let first = i.op0_kind() == OpKind::Register && i.op0_register().full_register() == held.register;
        let second = i.op1_kind() == OpKind::Register && i.op1_register().full_register() == held.register;
        let constant = (i.op_count() > 1 && is_constant(i.op1_kind())).then(|| i.immediate(1));
        let width = i.op0_register().size() as u64 * 8;
        match (i.mnemonic(), constant) {
            (Mnemonic::Test, Some(c)) if first => mask |= held.loaded(c & ones(width)),
            (Mnemonic::Bt, Some(c)) if first => mask |= held.loaded(1 << (c & 63)),
            (Mnemonic::And, Some(c)) if first => {
                let before = held.masked.unwrap_or(u64::MAX);
                held.masked = Some(before & held.loaded(c & ones(width)));
            }
            (Mnemonic::Not, _) if first => {}
            (Mnemonic::Shr | Mnemonic::Sar, Some(c)) if first => held.down += c as i64,
            (Mnemonic::Shl, Some(c)) if first => held.down -= c as i64,
            // What is put in beside the bits that were kept.
            (Mnemonic::Or, _) if first && held.masked.is_some() => {}
            (Mnemonic::Or, None) if second && held.masked.is_some() => {
                held.register = i.op0_register().full_register();
            }
            (Mnemonic::Or | Mnemonic::Xor, Some(c)) if first && held.down == 0 => mask |= c & ones(width),
            (Mnemonic::Mov, _) if second && i.op0_kind() == OpKind::Memory => {
                // Stored back: what the mask took out is what was changed.
                if moved || !same_place(load, i) {
                    return None;
                }
                let changed = held.masked.map_or(0, |m| !m);
                return nonzero(mask | changed);
            }
            (Mnemonic::Mov | Mnemonic::Movzx, None) if second && !first => {
                held.register = i.op0_register().full_register();
            }
            (Mnemonic::Test | Mnemonic::Cmp, None) if first || second => {
                // A value of its own by now, or all of it.
                held.masked?;
                break;
            }
            _ => match accesses(i, held.register) {
                none if none.is_empty() => {}
                // Used as it is, and not just overwritten.
                all if held.masked.is_none() && all.iter().any(|a| *a != OpAccess::Write) => return None,
                _ => break,
            },
        }
        moved |= place.iter().any(|r| writes(i, *r));
    }
    nonzero(mask | held.masked.unwrap_or(0))
}

fn nonzero(mask: u64) -> Option<u64> {
    (mask != 0).then_some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of code that begins with the access.
    fn first(code: &[u8]) -> Option<u64> {
        touched(code, 0x1000, 0x1000)
    }

    #[test]
    fn masks_in_the_instruction_itself() {
        assert_eq!(first(&[0xf6, 0x43, 0x10, 0x04]), Some(0x04), "test byte [rbx+16], 4");
        assert_eq!(first(&[0x80, 0x4b, 0x10, 0x08]), Some(0x08), "or byte [rbx+16], 8");
        assert_eq!(first(&[0x80, 0x63, 0x10, 0xfe]), Some(0x01), "and byte [rbx+16], 0xfe");
        assert_eq!(first(&[0x0f, 0xba, 0x63, 0x10, 0x03]), Some(0x08), "bt dword [rbx+16], 3");
        assert_eq!(first(&[0xc6, 0x43, 0x10, 0x01]), Some(0xff), "mov byte [rbx+16], 1: all of it");
        assert_eq!(first(&[0x89, 0xc3]), None, "no memory");
        assert_eq!(
            touched(&[0xf6, 0x43, 0x10, 0x04], 0x1000, 0x1001),
            None,
            "no beginning of an instruction"
        );
    }

    #[test]
    fn what_is_loaded_is_followed() {
        // movzx eax, byte [rbx+16]; shr al, 3; and eax, 1; ret
        assert_eq!(first(&[0x0f, 0xb6, 0x43, 0x10, 0xc0, 0xe8, 3, 0x83, 0xe0, 1, 0xc3]), Some(0x08));
        // movzx eax, byte [rbx+16]; test al, 2; je +0; test al, 0x10; ret
        assert_eq!(first(&[0x0f, 0xb6, 0x43, 0x10, 0xa8, 2, 0x74, 0, 0xa8, 0x10, 0xc3]), Some(0x12));
        // movzx eax, byte [rbx+16]; mov ecx, eax; and ecx, 4; ret
        assert_eq!(first(&[0x0f, 0xb6, 0x43, 0x10, 0x89, 0xc1, 0x83, 0xe1, 4, 0xc3]), Some(0x04));
        // movzx eax, byte [rbx+16]; mov [rdi], eax: copied as it is
        assert_eq!(first(&[0x0f, 0xb6, 0x43, 0x10, 0x89, 0x07, 0xc3]), Some(0xff));
        // movzx eax, byte [rbx+16]; add ecx, eax
        assert_eq!(first(&[0x0f, 0xb6, 0x43, 0x10, 0x01, 0xc1, 0xc3]), Some(0xff));
        // movzx eax, byte [rbx+16]; xor eax, eax: not used at all
        assert_eq!(first(&[0x0f, 0xb6, 0x43, 0x10, 0x31, 0xc0, 0xc3]), Some(0xff));
    }

    #[test]
    fn what_is_put_in_is_what_the_mask_took_out() {
        // movzx eax, byte [rbx+16]; and eax, 0xfffffffe; or eax, ecx; mov [rbx+16], al
        let code = [0x0f, 0xb6, 0x43, 0x10, 0x83, 0xe0, 0xfe, 0x09, 0xc8, 0x88, 0x43, 0x10, 0xc3];
        assert_eq!(first(&code), Some(0x01));
        assert_eq!(touched(&code, 0x1000, 0x1009), Some(0x01), "the store says the same");
        // movzx ecx, byte [rbx+16]; and ecx, 0xfffffffd; and edx, 2; or edx, ecx; mov [rbx+16], dl
        let code =
            [0x0f, 0xb6, 0x4b, 0x10, 0x83, 0xe1, 0xfd, 0x83, 0xe2, 2, 0x09, 0xca, 0x88, 0x53, 0x10, 0xc3];
        assert_eq!(first(&code), Some(0x02));
        // and ecx, 1; shl ecx, 2; or [rbx+16], cl
        let code = [0x83, 0xe1, 1, 0xc1, 0xe1, 2, 0x08, 0x4b, 0x10, 0xc3];
        assert_eq!(touched(&code, 0x1000, 0x1006), Some(0x04));
        // mov [rbx+16], al: nobody knows from where
        assert_eq!(first(&[0x88, 0x43, 0x10, 0xc3]), Some(0xff));
        // movzx eax, byte [rbx+16]; and eax, 0xfe; mov rbx, rdi; mov [rbx+16], al: somewhere else
        let code = [0x0f, 0xb6, 0x43, 0x10, 0x83, 0xe0, 0xfe, 0x48, 0x89, 0xfb, 0x88, 0x43, 0x10, 0xc3];
        assert_eq!(touched(&code, 0x1000, 0x100a), Some(0xff));
    }
}
