//! Callers by the kernel's own unwind tables (ORC, `Documentation/arch/x86/orc-unwinder.rst`), from a sampled stack.

use tussle_debuginfo::Elf;

/// Callers kept.
pub const CALLERS_MAX: usize = 8;

/// Registers that an entry may compute from (`arch/x86/include/asm/orc_types.h`); others end the walk.
const REG_PREV_SP: u16 = 1;
const REG_BP: u16 = 4;
const REG_SP: u16 = 5;

/// One entry of the table, valid from its address to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    start: u64,
    sp_offset: i16,
    bp_offset: i16,
    sp_reg: u16,
    bp_reg: u16,
    /// An ordinary call frame: the return address lies just below the caller's stack pointer.
    call: bool,
}

/// The unwind table of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orc {
    entries: Vec<Entry>,
}

impl Orc {
    /// Reads `.orc_unwind_ip` and `.orc_unwind`; empty when the kernel has none.
    pub fn read(elf: &Elf) -> Orc {
        use object::{Object, ObjectSection};
        let address = |name: &str| elf.object().section_by_name(name).map(|s| s.address());
        let (Some(base), Ok(ips), Ok(data)) =
            (address(".orc_unwind_ip"), elf.section(".orc_unwind_ip"), elf.section(".orc_unwind"))
        else {
            return Orc::default();
        };
        // Linux 6.4 added the section .orc_header, and with it type numbers that begin with "undefined".
        Orc::from_bytes(base, &ips, &data, address(".orc_header").is_some())
    }

    fn from_bytes(base: u64, ips: &[u8], data: &[u8], numbered_from_undefined: bool) -> Orc {
        let (ips, data) = (ips.as_chunks::<4>().0, data.as_chunks::<6>().0);
        let mut entries = Vec::with_capacity(ips.len().min(data.len()));
        for ((i, ip), d) in ips.iter().enumerate().zip(data) {
            let at = base.wrapping_add(4 * i as u64);
            let bits = u16::from_le_bytes([d[4], d[5]]);
            let call = match numbered_from_undefined {
                true => bits >> 8 & 7 == 2,
                false => bits >> 8 & 3 == 0,
            };
            entries.push(Entry {
                start: at.wrapping_add_signed(i64::from(i32::from_le_bytes(*ip))),
                sp_offset: i16::from_le_bytes([d[0], d[1]]),
                bp_offset: i16::from_le_bytes([d[2], d[3]]),
                sp_reg: bits & 15,
                bp_reg: bits >> 4 & 15,
                call,
            });
        }
        entries.sort_by_key(|e| e.start);
        Orc { entries }
    }

    fn entry(&self, pc: u64) -> Option<&Entry> {
        let end = self.entries.partition_point(|e| e.start <= pc);
        self.entries[..end].last()
    }

    /// Return addresses of the callers of `pc`, nearest first; stops where the sample of the stack does.
    pub fn callers(&self, pc: u64, rsp: u64, rbp: u64, stack: &[u8]) -> Vec<u64> {
        let load = |address: u64| {
            let at = usize::try_from(address.checked_sub(rsp)?).ok()?;
            Some(u64::from_le_bytes(stack.get(at..at.checked_add(8)?)?.try_into().ok()?))
        };
        let (mut pc, mut sp, mut bp) = (pc, rsp, rbp);
        let mut out = Vec::new();
        while out.len() < CALLERS_MAX {
            let Some(e) = self.entry(pc).filter(|e| e.call) else { break };
            let frame = match e.sp_reg {
                REG_SP => sp,
                REG_BP => bp,
                _ => break,
            }
            .wrapping_add_signed(i64::from(e.sp_offset));
            let Some(back) = load(frame.wrapping_sub(8)) else { break };
            // A return address points behind its call, which belongs to the caller.
            if back < 0xffff_ffff_8000_0000 || frame <= sp {
                break;
            }
            bp = match e.bp_reg {
                REG_PREV_SP => load(frame.wrapping_add_signed(i64::from(e.bp_offset))).unwrap_or(0),
                REG_BP => load(bp.wrapping_add_signed(i64::from(e.bp_offset))).unwrap_or(0),
                _ => bp,
            };
            (pc, sp) = (back.wrapping_sub(1), frame);
            out.push(back);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_frames() {
        let ip =
            |i: u64, to: u64| ((to as i64 - (0xffff_ffff_8200_0000u64 + 4 * i) as i64) as i32).to_le_bytes();
        let (leaf, middle) = (0xffff_ffff_8100_0000u64, 0xffff_ffff_8100_0100u64);
        let ips = [ip(0, leaf), ip(1, middle)].concat();
        // leaf: return address at the stack pointer; middle: 16 more bytes of its own
        let data = [[8u8, 0, 0, 0, 5, 2], [24, 0, 0, 0, 5, 2]].concat();
        let orc = Orc::from_bytes(0xffff_ffff_8200_0000, &ips, &data, true);
        let mut stack = Vec::new();
        for word in [middle + 5, 1, 2, 0xffff_ffff_8000_1234, 9] {
            stack.extend(word.to_le_bytes());
        }
        assert_eq!(orc.callers(leaf, 0x1000, 0, &stack), [middle + 5, 0xffff_ffff_8000_1234]);
        assert_eq!(orc.callers(leaf, 0x1000, 0, &stack[..8]), [middle + 5]);
        assert!(Orc::default().callers(leaf, 0, 0, &[]).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(ips: Vec<u8>, data: Vec<u8>, pc: u64, rsp: u64, rbp: u64, stack: Vec<u8>) {
            let _ = Orc::from_bytes(0, &ips, &data, true).callers(pc, rsp, rbp, &stack);
        }
    }
}
