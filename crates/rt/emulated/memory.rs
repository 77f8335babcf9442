//! Accesses.

use crate::cpu::{Thread, enter, live, thread};
use crate::{functions, words};
use tussle_rt_core::wire::*;
use tussle_rt_core::{quick, record, waits};

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
    let thread = thread(cpu);
    let repeated = kind == READ && thread.repeats(pc, addr);
    // SAFETY: the state is the calling thread's.
    let quick = !repeated && !words::marked(addr) && unsafe { quick::counted(thread.table(), addr, n, kind) };
    if !quick {
        slow(&thread, addr, n, kind, pc, repeated);
    }
    thread.set_last(pc, addr, n | (kind as u64) << 8);
}

#[cold]
fn slow(thread: &Thread, addr: u64, n: u64, kind: u32, pc: u64, repeated: bool) {
    if functions::is_quiet(thread.cpu) {
        return;
    }
    // What the compiler keeps on the stack may share a word's hash: there the word itself must be known.
    let marked = || words::marked(addr) && (!thread.on_stack(addr) || waits::is_known(addr));
    let waited = repeated || (kind != RMW && marked());
    if waited && kind == WRITE {
        words::stored(thread.cpu, addr, n, pc);
    }
    let Some(entered) = enter(thread.cpu) else { return };
    record::note(&entered, addr, n, kind, pc, false);
    drop(entered);
    match waited {
        true if kind == READ => words::read(thread.cpu, addr, n),
        true => {}
        false => words::works(thread.cpu),
    }
}

/// The thread lets others run: it waits for what it has read last.
pub fn yielding(cpu: u32) {
    let (addr, what) = thread(cpu).last();
    if addr == 0 || functions::is_quiet(cpu) {
        return;
    }
    if what >> 8 == READ as u64 {
        words::read(cpu, addr, what & 0xff);
    }
    if let Some(entered) = enter(cpu) {
        waits::yielding(&entered);
    }
}

/// The system read or wrote memory for the program.
pub fn by_system(cpu: u32, addr: u64, len: u64, kind: u32) {
    const MOST: u64 = 1 << 24;
    if let Some(entered) = enter(cpu) {
        // SAFETY: the thread is inside the recorder: its frames are its own.
        let pc = unsafe { crate::calls::caller(live(cpu)) };
        record::range(&entered, addr, len.min(MOST), kind, pc);
    }
}
