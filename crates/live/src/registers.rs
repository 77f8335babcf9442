//! General registers of a sampled thread.

use iced_x86::Register;

/// Bits of `sample_regs_user`: every general register of 64-bit x86, the instruction pointer and the flags
/// (`enum perf_event_x86_regs`; the segment selectors between them tell nothing).
pub const SAMPLED: u64 = 0x00ff_03ff;

/// Perf's numbers of the registers that x86 numbers 0 to 7; 8 to 15 are 16 to 23.
const PERF: [u32; 16] = [0, 2, 3, 1, 7, 6, 4, 5, 16, 17, 18, 19, 20, 21, 22, 23];

/// Perf's numbers of the instruction pointer and of the flags.
const PERF_IP: u32 = 8;
const PERF_FLAGS: u32 = 9;

/// String instructions count downwards.
const DIRECTION: u64 = 1 << 10;

/// What is known of a thread's registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    values: [u64; 16],
    /// Bit n: register n (in x86's numbers) is known.
    known: u16,
    /// Instruction pointer.
    pub ip: u64,
    flags: Option<u64>,
    /// Address at which the thread's `fs` segment begins, if known.
    pub fs_base: Option<u64>,
    /// In the kernel: address at which the CPU's own variables begin (`gs`), if known.
    pub gs_base: Option<u64>,
}

impl Registers {
    /// All general registers, in x86's order (rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 ...).
    pub fn new(values: [u64; 16], ip: u64, flags: u64) -> Registers {
        Registers { values, known: u16::MAX, ip, flags: Some(flags), fs_base: None, gs_base: None }
    }

    /// Those of a sample: (number in perf's list, value).
    pub fn of_sample(sampled: impl Iterator<Item = (u32, u64)>) -> Registers {
        let mut out = Registers::default();
        for (number, value) in sampled {
            match number {
                PERF_IP => out.ip = value,
                PERF_FLAGS => out.flags = Some(value),
                _ => {
                    if let Some(n) = PERF.iter().position(|p| *p == number) {
                        out.values[n] = value;
                        out.known |= 1 << n;
                    }
                }
            }
        }
        out
    }

    /// Value of a general register, cut to its width, if known.
    pub fn get(&self, register: Register) -> Option<u64> {
        let full = register.full_register();
        if !full.is_gpr64() || self.known & (1 << full.number()) == 0 {
            return None;
        }
        let value = self.values[full.number()];
        match register.size() {
            8 => Some(value),
            4 => Some(value & 0xffff_ffff),
            2 => Some(value & 0xffff),
            // Bytes are no part of addresses, but for `xlat`.
            1 if register == Register::AL => Some(value & 0xff),
            _ => None,
        }
    }

    /// Number of a register in perf's list.
    pub fn perf_number(register: Register) -> Option<u32> {
        let full = register.full_register();
        full.is_gpr64().then(|| PERF[full.number()])
    }

    /// Forgets a register.
    pub fn forget(&mut self, register: Register) {
        let full = register.full_register();
        if full.is_gpr64() {
            self.known &= !(1 << full.number());
        }
    }

    /// Adds to a register that is known.
    pub fn add(&mut self, register: Register, n: i64) {
        let full = register.full_register();
        if full.is_gpr64() {
            let value = &mut self.values[full.number()];
            *value = value.wrapping_add_signed(n);
        }
    }

    /// Whether string instructions count downwards; `None` when the flags are not known.
    pub fn downwards(&self) -> Option<bool> {
        self.flags.map(|f| f & DIRECTION != 0)
    }
}
