//! What structs the registers of a kernel function point to, from the types of its parameters.
//!
//! A function's whole flow is followed: at each instruction a register points into a struct if it does on every way
//! there. Copies, sums with constants, and loads of pointers out of structs are followed; anything else is forgotten,
//! and a function with jumps whose targets cannot be told is not looked at.

use crate::address::overwritten;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use std::collections::HashMap;
use tussle_debuginfo::btf::code::{CodeTypes, PARAMETERS};

/// Longer functions are not followed.
const INSTRUCTIONS_MAX: usize = 8192;

/// Registers of parameters, in order.
const PASSED: [Register; PARAMETERS] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];

/// What calls leave as they are.
const KEPT: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

/// A struct and a byte of it.
pub type Inside = (u32, i64);

/// By number of the register.
type State = [Option<Inside>; 16];

/// What the code and the memory around it are called.
pub trait Names {
    /// The per-CPU variable at an address behind `gs`, and the byte of it.
    fn per_cpu(&self, address: u64) -> Option<(String, u64)>;
}

/// The place in a struct that each instruction's operand in memory is in, by the instruction's address.
pub fn operands(function: (&str, u64, &[u8]), types: &CodeTypes, names: &dyn Names) -> HashMap<u64, Inside> {
    let (name, start, bytes) = function;
    let code: Vec<Instruction> = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE)
        .into_iter()
        .take(INSTRUCTIONS_MAX + 1)
        .collect();
    let Some(parameters) = types.parameters(name).filter(|_| is_plain(&code)) else { return HashMap::new() };
    let mut entry: State = [None; 16];
    for (register, ty) in PASSED.iter().zip(parameters) {
        entry[register.number()] = ty.map(|t| (t, 0));
    }
    let flow =
        Flow { types, names, at: code.iter().enumerate().map(|(n, i)| (i.ip(), n)).collect(), code: &code };
    let states = flow.run(entry);
    let place = |(i, state): (&Instruction, &Option<State>)| Some((i.ip(), operand(i, state.as_ref()?)?));
    code.iter().zip(&states).filter_map(place).collect()
}

/// Every instruction is one, and every jump's target is known.
fn is_plain(code: &[Instruction]) -> bool {
    let known =
        |i: &Instruction| i.code() != Code::INVALID && i.flow_control() != FlowControl::IndirectBranch;
    code.len() <= INSTRUCTIONS_MAX && code.iter().all(known)
}

/// The place that the instruction's operand in memory is in.
fn operand(i: &Instruction, state: &State) -> Option<Inside> {
    let plain =
        i.memory_index() == Register::None && !matches!(i.segment_prefix(), Register::GS | Register::FS);
    let memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    let base = i.memory_base();
    let (ty, at) = (*state.get(base.number()).filter(|_| memory && plain && base.is_gpr64())?)?;
    Some((ty, at.wrapping_add(i.memory_displacement64() as i64)))
}

struct Flow<'a> {
    types: &'a CodeTypes<'a>,
    names: &'a dyn Names,
    at: HashMap<u64, usize>,
    code: &'a [Instruction],
}

impl Flow<'_> {
    fn run(&self, entry: State) -> Vec<Option<State>> {
        let mut states: Vec<Option<State>> = vec![None; self.code.len()];
        let mut open = vec![(0, entry)];
        while let Some((n, state)) = open.pop() {
            let Some(slot) = states.get_mut(n) else { continue };
            let met = slot.map_or(state, |known| meet(&known, &state));
            if *slot == Some(met) {
                continue;
            }
            *slot = Some(met);
            let i = &self.code[n];
            let after = self.after(i, met);
            if matches!(i.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch) {
                open.extend(self.at.get(&i.near_branch_target()).map(|to| (*to, after)));
            }
            let goes_on = matches!(
                i.flow_control(),
                FlowControl::Next
                    | FlowControl::ConditionalBranch
                    | FlowControl::Call
                    | FlowControl::IndirectCall
            );
            if goes_on {
                open.push((n + 1, after));
            }
        }
        states
    }

    fn after(&self, i: &Instruction, before: State) -> State {
        let mut out = before;
        if matches!(i.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            out = [None; 16];
            KEPT.iter().for_each(|r| out[r.number()] = before[r.number()]);
            return out;
        }
        for register in overwritten(i).into_iter().filter(|r| r.is_gpr64()) {
            out[register.number()] = None;
        }
        let to = i.op0_register();
        if to.is_gpr64() && i.op0_kind() == OpKind::Register {
            out[to.number()] = self.value(i, &before).or(out[to.number()]);
        }
        out
    }

    /// What the instruction puts into its first operand, a register.
    fn value(&self, i: &Instruction, state: &State) -> Option<Inside> {
        let own = |r: Register| if r.is_gpr64() { state[r.number()] } else { None };
        match (i.mnemonic(), i.op1_kind()) {
            (Mnemonic::Mov, OpKind::Register) => own(i.op1_register()),
            (Mnemonic::Mov, OpKind::Memory) => self.loaded(i, state).map(|ty| (ty, 0)),
            (Mnemonic::Lea, OpKind::Memory) => operand(i, state),
            (Mnemonic::Add | Mnemonic::Sub, OpKind::Register | OpKind::Memory) => None,
            (Mnemonic::Add, _) => {
                own(i.op0_register()).map(|(t, at)| (t, at.wrapping_add(i.immediate(1) as i64)))
            }
            (Mnemonic::Sub, _) => {
                own(i.op0_register()).map(|(t, at)| (t, at.wrapping_sub(i.immediate(1) as i64)))
            }
            _ => None,
        }
    }

    /// The struct that a loaded pointer points to.
    fn loaded(&self, i: &Instruction, state: &State) -> Option<u32> {
        let direct = i.memory_base() == Register::None || i.memory_base() == Register::RIP;
        if i.segment_prefix() == Register::GS && direct && i.memory_index() == Register::None {
            let (name, at) = self.names.per_cpu(i.memory_displacement64())?;
            return self.types.variable(&name, at);
        }
        let (ty, at) = operand(i, state)?;
        self.types.pointer_at(ty, u64::try_from(at).ok()?)
    }
}

/// What both ways agree about.
fn meet(a: &State, b: &State) -> State {
    let mut out = [None; 16];
    out.iter_mut().enumerate().for_each(|(n, slot)| *slot = a[n].filter(|_| a[n] == b[n]));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Names for Nothing {
        fn per_cpu(&self, address: u64) -> Option<(String, u64)> {
            (address == 0x100).then(|| ("counters".into(), 8))
        }
    }

    fn of(code: &[u8]) -> Vec<(u64, Inside)> {
        let btf = crate::kernel::tests::types(false);
        let types = CodeTypes::read(&btf).unwrap();
        let mut all: Vec<_> = operands(("work", 0, code), &types, &Nothing).into_iter().collect();
        all.sort_unstable();
        all
    }

    const PAIR: u32 = 2;

    #[test]
    fn pointers_are_followed_where_every_way_agrees() {
        let code = [
            &[0x48, 0x89, 0xfb][..],   // 0: mov rbx, rdi
            &[0xe8, 0, 0, 0, 0],       // 3: call
            &[0x48, 0x89, 0x03],       // 8: mov [rbx], rax
            &[0x48, 0x89, 0x07],       // b: mov [rdi], rax: the call may have changed rdi
            &[0x48, 0x8b, 0x5b, 0x08], // e: mov rbx, [rbx+8]: another one
            &[0x48, 0x83, 0xc3, 0x08], // 12: add rbx, 8
            &[0x48, 0x89, 0x03],       // 16: mov [rbx], rax
            &[0x75, 0x03],             // 19: jne 1e
            &[0x48, 0x31, 0xdb],       // 1b: xor rbx, rbx
            &[0x48, 0x89, 0x03, 0xc3], // 1e: mov [rbx], rax: one way or the other
        ]
        .concat();
        assert_eq!(of(&code), [(0x8, (PAIR, 0)), (0xe, (PAIR, 8)), (0x16, (PAIR, 8))]);
    }

    #[test]
    fn loops_end_and_unknown_jumps_tell_nothing() {
        // mov rax, [rdi]; add rdi, 16; jmp back: it points to another byte each time
        let looped = [0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x10, 0xeb, 0xf7];
        assert_eq!(of(&looped), []);
        // mov [rdi], rax; jmp rax
        assert_eq!(of(&[0x48, 0x89, 0x07, 0xff, 0xe0]), []);
        assert_eq!(of(&[0x48, 0x89, 0x07, 0xc3]), [(0, (PAIR, 0))]);
        // An index may lead anywhere: mov [rdi+rax*8], rax
        assert_eq!(of(&[0x48, 0x89, 0x04, 0xc7, 0xc3]), []);
    }

    /// `mov rbx, gs:[0x100]; mov [rbx], rax; mov [rip+..], rax; ret`.
    #[test]
    fn a_cpus_own_pointer_is_a_variables() {
        let code =
            [0x65, 0x48, 0x8b, 0x1c, 0x25, 0, 1, 0, 0, 0x48, 0x89, 0x03, 0x48, 0x89, 0x05, 1, 0, 0, 0, 0xc3];
        assert_eq!(of(&code), [(9, (PAIR, 0))]);
    }
}
