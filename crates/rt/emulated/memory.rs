//! Accesses.

use crate::cpu::{enter, live};
use crate::functions;
use tussle_rt_core::{quick, record};

/// An access as QEMU describes it: `info` holds the size's logarithm in bits 4 to 6 and reading or writing in bits 16
/// and 17 (the plugin checks that this is so); an atomic instruction does both at once. `pc` is the instruction's
/// address plus one: recorded addresses are those behind an instruction.
///
/// # Safety
/// The calling thread has this number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_memory(cpu: u32, info: u32, addr: u64, pc: u64) {
    let n = 1 << (info >> 4 & 7);
    let kind = (info >> 16 & 3).saturating_sub(1);
    // SAFETY: the state is the calling thread's.
    if !unsafe { quick::counted(live(cpu), addr, n, kind) } {
        slow(cpu, addr, n, kind, pc);
    }
}

#[cold]
fn slow(cpu: u32, addr: u64, n: u64, kind: u32, pc: u64) {
    let Some(entered) = enter(cpu) else { return };
    if functions::in_lock(cpu) {
        record::of_lock(&entered, addr, n, kind, pc);
    } else {
        record::note(&entered, addr, n, kind, pc, false);
    }
}

/// The system read or wrote memory for the program.
pub fn by_system(cpu: u32, addr: u64, len: u64, kind: u32) {
    const MOST: u64 = 1 << 24;
    if let Some(entered) = enter(cpu) {
        // SAFETY: the thread is inside the recorder: its frames are its own.
        let pc = unsafe { crate::calls::caller(entered.live()) };
        record::range(&entered, addr, len.min(MOST), kind, pc);
    }
}
