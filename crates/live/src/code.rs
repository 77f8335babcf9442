//! The instruction at a sampled address, and the one before it.
//!
//! x86 code cannot be read backwards. The instruction before an address is known when the function that holds the
//! address is decoded from its start, arrives at that address, and no jump leads there.

use crate::address::{overwritten, writes_memory};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};

/// No x86 instruction is longer.
pub const INSTRUCTION_BYTES_MAX: usize = 15;

/// Longer functions (tables of generated code) are not decoded.
pub const FUNCTION_BYTES_MAX: u64 = 256 << 10;

/// Instructions after the sampled one that are looked at for stores.
const AHEAD_MAX: usize = 8;

/// Bytes that these can have.
pub const AHEAD_BYTES_MAX: usize = (AHEAD_MAX + 1) * INSTRUCTION_BYTES_MAX;

/// A store that follows without a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Following {
    /// The store.
    pub instruction: Instruction,
    /// Registers that change before it runs.
    pub overwritten: Vec<Register>,
}

/// A place in code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// The instruction at the address; `None` when the bytes are none.
    pub at: Option<Instruction>,
    /// The one that ran just before it, if that is sure.
    pub before: Option<Instruction>,
    /// Stores that run next, whatever happens: compilers make `n++` a load, on which threads wait, and a store, on
    /// which they do not.
    pub ahead: Vec<Following>,
    /// Of the kernel's code: interrupts are off up to here.
    pub interrupts_were_off: bool,
}

/// Stores in the code that runs after the instruction at the begin of `bytes`, up to the first jump or call.
pub fn ahead(bytes: &[u8], ip: u64) -> Vec<Following> {
    let mut decoder = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE);
    let (mut out, mut changed) = (Vec::new(), Vec::new());
    for n in 0..=AHEAD_MAX {
        if !decoder.can_decode() {
            break;
        }
        let i = decoder.decode();
        if i.code() == Code::INVALID || i.flow_control() != FlowControl::Next {
            break;
        }
        if n > 0 && writes_memory(&i) {
            out.push(Following { instruction: i, overwritten: changed.clone() });
        }
        changed.extend(overwritten(&i));
    }
    out
}

/// Interrupts were switched on right before `ip` in a function of these bytes that begins at `start`. A timer that
/// struck while they were off is heeded there: how long ago, and in whose code, it does not say.
pub fn interrupts_were_off(function: &[u8], start: u64, ip: u64) -> bool {
    let mut last = [Mnemonic::INVALID; 2];
    for i in
        Decoder::with_ip(64, function, start, DecoderOptions::NONE).into_iter().take_while(|i| i.ip() <= ip)
    {
        if i.ip() == ip {
            // The instruction behind `sti` runs before any interrupt.
            return last[1] == Mnemonic::Popfq || last[0] == Mnemonic::Sti;
        }
        last = [last[1], i.mnemonic()];
    }
    false
}

/// Decodes the instruction that begins with `bytes`.
pub fn one(bytes: &[u8], ip: u64) -> Option<Instruction> {
    let i = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
    (i.code() != Code::INVALID).then_some(i)
}

/// The instruction right before `ip` in a function of these bytes that begins at `start`. `None` when `ip` can be
/// reached in another way: a jump leads there, or the function has jumps whose targets cannot be told.
pub fn before(function: &[u8], start: u64, ip: u64) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(64, function, start, DecoderOptions::NONE);
    let (mut previous, mut found) = (None, None);
    while decoder.can_decode() {
        let i = decoder.decode();
        if i.code() == Code::INVALID {
            // Data between code: a jump behind it may be missed.
            return None;
        }
        if i.ip() == ip {
            found = previous;
        }
        match i.flow_control() {
            FlowControl::IndirectBranch => return None,
            FlowControl::ConditionalBranch
            | FlowControl::UnconditionalBranch
            | FlowControl::XbeginXabortXend
                if i.near_branch_target() == ip =>
            {
                return None;
            }
            _ => {}
        }
        previous = Some(i);
    }
    found.filter(|i| i.flow_control() == FlowControl::Next)
}
