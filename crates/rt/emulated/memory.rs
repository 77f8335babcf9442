//! Accesses.

use crate::cpu::{Access, enter, live, thread};
use crate::{functions, words};
use tussle_rt_core::wire::*;
use tussle_rt_core::{quick, record, waits};

/// An access: see [`Access::new`].
///
/// # Safety
/// The calling thread has this number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_memory(cpu: u32, info: u32, addr: u64, pc: u64) {
    let (thread, access) = (thread(cpu), Access::new(info, addr, pc));
    let repeated = thread.repeats(access);
    if repeated && access.kind() == READ {
        return again(cpu, access);
    }
    // SAFETY: the state is the calling thread's.
    if words::marked(addr) || !unsafe { quick::counted(thread.table(), addr, access.bytes(), access.kind()) } {
        seldom(cpu, access);
    }
}

/// The thread reads what it read just before: it may wait for that.
#[inline(never)]
fn again(cpu: u32, access: Access) {
    if !functions::is_quiet(cpu) && noted(cpu, access) {
        words::read(cpu, access.addr, access.bytes());
    }
}

#[inline(never)]
fn seldom(cpu: u32, access: Access) {
    if functions::is_quiet(cpu) {
        return;
    }
    let (addr, n, kind) = (access.addr, access.bytes(), access.kind());
    // What the compiler keeps on the stack may share a word's hash: there the word itself must be known.
    let marked = || words::marked(addr) && (!thread(cpu).on_stack(addr) || waits::is_known(addr));
    let waited = kind != RMW && marked();
    if waited && kind == WRITE {
        words::stored(cpu, addr, n, access.pc());
    }
    if noted(cpu, access) {
        match waited {
            true if kind == READ => words::read(cpu, addr, n),
            true => {}
            false => words::works(cpu),
        }
    }
}

/// True if the thread is recorded, and so the access now is.
fn noted(cpu: u32, access: Access) -> bool {
    let Some(entered) = enter(cpu) else { return false };
    record::note(&entered, access.addr, access.bytes(), access.kind(), access.pc(), false);
    true
}

/// The thread lets others run: it waits for what it has read last.
pub fn yielding(cpu: u32) {
    let Some(last) = thread(cpu).last().filter(|_| !functions::is_quiet(cpu)) else { return };
    if last.kind() == READ {
        words::read(cpu, last.addr, last.bytes());
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
