//! Words that threads wait for by themselves: what `rt-core`'s `waits` does for atomics that are called, from accesses
//! alone.
//!
//! A word is *marked* once an atomic instruction changed it, or a thread read it twice with one instruction and nothing
//! between, or read it and gave the CPU away. An access is told after it happened, and with it what the word holds
//! then; what it held before is not known. So barriers, latches and flags are recognised, and locks are not.

use crate::cpu::{Cpu, live};
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};
use tussle_rt_core::sys::yield_cpu;
use tussle_rt_core::thread::Entered;
use tussle_rt_core::waits;
use tussle_rt_core::wire::*;

const MARKS: usize = 4096;
static MARKED: [AtomicU8; MARKS] = [const { AtomicU8::new(0) }; MARKS];
/// Changes that all others may know of, of all words with one hash.
static TOLD: [AtomicU32; MARKS] = [const { AtomicU32::new(0) }; MARKS];

fn hash(addr: u64) -> usize {
    (addr >> 2 ^ addr >> 14) as usize % MARKS
}

/// Accesses of this word, or of one with its hash, are to be told to [`seen`].
#[inline(always)]
pub fn marked(addr: u64) -> bool {
    MARKED[hash(addr)].load(Relaxed) != 0
}

/// What the word holds now: it was accessed just now, and so is mapped.
fn value(addr: u64, n: u64) -> u64 {
    // SAFETY: the instruction that has just run accessed these bytes; another one may change them.
    unsafe {
        match n {
            1 => (addr as *const u8).read_volatile() as u64,
            2 => (addr as *const u16).read_unaligned() as u64,
            4 => (addr as *const u32).read_unaligned() as u64,
            _ => (addr as *const u64).read_unaligned(),
        }
    }
}

/// An access that may mean something: of a marked word, an atomic one, or a read that repeats the one before.
#[cold]
pub fn seen(cpu: u32, entered: &Entered, addr: u64, n: u64, kind: u32, repeated: bool) {
    if crate::functions::is_go() {
        return;
    }
    if kind == RMW || repeated {
        MARKED[hash(addr)].store(1, Relaxed);
    }
    let now = value(addr, n);
    if kind == READ {
        return read(cpu, entered, addr, now);
    }
    if waits::watched(addr) {
        waits::changing(entered, addr, None, now);
    }
    TOLD[hash(addr)].fetch_add(1, Release);
}

/// The thread is about to sleep until a word of four bytes changes.
pub fn sleeping(cpu: u32, entered: &Entered, addr: u64) {
    if crate::functions::is_go() {
        return;
    }
    MARKED[hash(addr)].store(1, Relaxed);
    read(cpu, entered, addr, value(addr, 4));
    waits::asleep_for(entered, addr);
}

/// The thread reads a word that others change: it may wait for it.
fn read(cpu: u32, entered: &Entered, addr: u64, now: u64) {
    /// For as long another thread that has changed the word may not have said so.
    const PATIENCE: u32 = 64;
    // SAFETY: the calling thread has this number.
    let me = unsafe { Cpu::of(cpu) };
    let told = || TOLD[hash(addr)].load(Acquire);
    let (word, before, known) = me.polled;
    let mut left = if word == addr && before != now && waits::watched(addr) { PATIENCE } else { 0 };
    while left > 0 && told() == known {
        yield_cpu();
        left -= 1;
    }
    me.polled = (addr, now, told());
    // SAFETY: the state is the calling thread's.
    if unsafe { waits::look(live(cpu), addr, now) } {
        waits::seen(entered, addr);
    }
}
