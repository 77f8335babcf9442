//! Words that threads wait for by themselves: what the recorder inside of programs sees of atomics that are called,
//! from accesses, and from what QEMU's functions for atomic instructions are given and find (`qemu/emulate/atomics.c`).
//!
//! A word is *marked* once an atomic instruction changed it, or a thread read it twice with one instruction and nothing
//! between, or read it and gave the CPU away. Atomic instructions are told before and after they run. A plain store is
//! told after it ran: the one who finds a lock free that way waits until it is told.

use crate::cpu::{Cpu, POLLED, enter, live};
use crate::functions::{is_go, is_quiet};
use crate::system;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};
use tussle_rt_core::arena::recording;
use tussle_rt_core::sys::yield_cpu;
use tussle_rt_core::takes;
use tussle_rt_core::waits::{self, How};
use tussle_rt_core::{guards, polled};

const MARKS: usize = 4096;
static MARKED: [AtomicU8; MARKS] = [const { AtomicU8::new(0) }; MARKS];
/// In [`MARKED`]: accesses are told; an instruction that adds has made it smaller.
const TOLD_OF: u8 = 1;
const COUNTED_DOWN: u8 = 2;
/// Changes that all others may know of, of all words with one hash.
static TOLD: [AtomicU32; MARKS] = [const { AtomicU32::new(0) }; MARKS];

unsafe extern "C" {
    /// What the store at `pc` has stored, as far as it is a register's or the instruction's own number.
    fn tussle_emulator_stored(pc: u64, bytes: u64, to: *mut u64) -> bool;
}

fn hash(addr: u64) -> usize {
    (addr >> 2 ^ addr >> 14) as usize % MARKS
}

/// Accesses of this word, or of one with its hash, are to be told to [`read`] and [`stored`].
#[inline(always)]
pub fn marked(addr: u64) -> bool {
    MARKED[hash(addr)].load(Relaxed) & TOLD_OF != 0
}

fn mark(addr: u64) {
    MARKED[hash(addr)].fetch_or(TOLD_OF, Relaxed);
}

/// Nodes that may be those of a queue of threads, at most, and bytes in which their words lie.
const NODES_MAX: u32 = 256;
const NODE: u64 = 64;
static NODES: AtomicU32 = AtomicU32::new(0);

/// Whoever waits in a queue waits for a word of its own, which another one changes once, with a plain store.
fn mark_node(at: u64) {
    if !(marked(at) && marked(at + NODE - 4)) && NODES.fetch_add(1, Relaxed) < NODES_MAX {
        (0..NODE).step_by(4).for_each(|k| mark(at + k));
    }
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

/// The thread has stored to a marked word with the instruction before `pc`.
#[cold]
pub fn stored(cpu: u32, addr: u64, n: u64, pc: u64) {
    if is_go() || in_descriptor(cpu, addr) {
        return;
    }
    let mut to = 0;
    // SAFETY: the instruction has just run; the state is the calling thread's.
    unsafe {
        if !tussle_emulator_stored(pc, n, &mut to) {
            to = value(addr, n);
        }
        // Another one has taken meanwhile what this thread gives back, and may have given it back, too.
        let superseded = value(addr, n) != to || takes::brings_back(live(cpu), addr, false, to);
        let late = superseded && seems_held(cpu, addr, to);
        if !late && matters(cpu, addr) {
            polled::changing(|| enter(cpu), addr, (None, to), How::Sets);
        }
        polled::storing(live(cpu), addr, to);
        polled::stored(|| enter(cpu), addr);
    }
    TOLD[hash(addr)].fetch_add(1, Release);
}

/// The thread is about to sleep until a word of four bytes changes.
pub fn sleeping(cpu: u32, addr: u64) {
    if is_go() {
        return;
    }
    mark(addr);
    read(cpu, addr, 4);
    if let Some(entered) = enter(cpu) {
        waits::asleep_for(&entered, addr);
    }
}

/// The thread has read a word that others change: it may wait for it.
#[cold]
pub fn read(cpu: u32, addr: u64, n: u64) {
    /// As [`PATIENCE`], for who may have nothing to wait for.
    const SOME: u32 = 64;
    if is_go() {
        return;
    }
    mark(addr);
    let now = value(addr, n);
    // SAFETY: the calling thread has this number.
    let me = unsafe { Cpu::of(cpu) };
    let told = || TOLD[hash(addr)].load(Acquire);
    // It has arrived somewhere and waits; a lock's ticket lets it go to work.
    me.lets_look &= !me.counted;
    let Some(polled) = me.polled.get_mut(hash(addr) % POLLED) else { return };
    let (word, before, known) = *polled;
    let mut left = if word == addr && before != now && waits::watched(addr) { SOME } else { 0 };
    while left > 0 && told() == known {
        yield_cpu();
        left -= 1;
    }
    let gives = || enter(cpu).is_some_and(|e| guards::seems_held(&e, addr, now));
    left = SOME;
    while left > 0 && gives() {
        yield_cpu();
        left -= 1;
    }
    *polled = (addr, now, told());
    // SAFETY: the state is the calling thread's.
    unsafe { polled::looked(live(cpu), || enter(cpu), addr, now) }
}

/// A change of this word is to be told before it is done. What nobody has waited for tells nothing here: every word of
/// the thread library is seen, too, and who ends a thread changes some that the next one's creator looks at.
fn matters(cpu: u32, addr: u64) -> bool {
    // SAFETY: the state is the calling thread's.
    waits::watched(addr) || unsafe { guards::may_give(live(cpu), addr) }
}

fn is_told(cpu: u32, addr: u64) -> bool {
    recording() && !is_go() && !is_quiet(cpu) && !in_descriptor(cpu, addr)
}

/// The word is one by which the thread library describes the calling thread: glibc before 2.37 marks there, at each
/// call that may wait, that the thread may be cancelled. That is brought back as a lock is, and held for all of the
/// thread's work between two calls.
fn in_descriptor(cpu: u32, addr: u64) -> bool {
    // SAFETY: the calling thread has this number.
    let pointer = unsafe { Cpu::of(cpu).birth.pointer };
    pointer != 0 && system::descriptor(pointer).contains(&addr)
}

/// Threads that are at an atomic instruction of a watched word, by the word's hash: one at a time, so that what is told
/// before it runs comes true. Its number plus one, or 0.
static TURNS: [AtomicU32; MARKS] = [const { AtomicU32::new(0) }; MARKS];
/// Looks for as long another thread may not have said what it did.
const PATIENCE: u32 = 1 << 16;

/// Nobody waits for ever: an instruction that faults leaves its turn to the next one that tries for long.
fn take_turn(cpu: u32, addr: u64) {
    let turn = &TURNS[hash(addr)];
    let mut left = PATIENCE;
    while left > 0 && turn.compare_exchange(0, cpu + 1, Acquire, Relaxed).is_err() {
        yield_cpu();
        left -= 1;
    }
    if left == 0 {
        turn.store(cpu + 1, Relaxed);
    }
}

/// An atomic instruction is about to change a word: what it will find there matters
/// ([`tussle_emulated_changing`]).
///
/// # Safety
/// The calling thread has this number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_may_change(cpu: u32, addr: u64) -> bool {
    if !is_told(cpu, addr) {
        return false;
    }
    if waits::watched(addr) {
        take_turn(cpu, addr);
    }
    matters(cpu, addr)
}

/// See [`tussle_emulated_may_change`].
///
/// # Safety
/// The calling thread has this number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_changing(cpu: u32, addr: u64, from: u64, to: u64) {
    polled::changing(|| enter(cpu), addr, (Some(from), to), How::Sets);
}

/// An atomic instruction found `from` in a word and left `to`; `counts` if it adds.
///
/// # Safety
/// The calling thread has this number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_changed(cpu: u32, addr: u64, n: u64, from: u64, to: u64, counts: bool) {
    let how = if counts { How::Counts } else { How::Sets };
    changed(cpu, addr, n, (from, to), how, None)
}

/// An atomic instruction found `from` in a word, and has brought it to `to` if that was what it wanted to find. With
/// `half` it is the store of a loop, which may add: QEMU's way to store to what was reserved.
///
/// # Safety
/// The calling thread has this number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_compared(
    cpu: u32,
    addr: u64,
    n: u64,
    from: u64,
    wanted: u64,
    to: u64,
    half: bool,
) {
    let finds = from == wanted;
    let (how, in_vain) = match half {
        true => (How::Sets, None),
        false => (How::Compares, (!finds).then_some(wanted)),
    };
    changed(cpu, addr, n, (from, if finds { to } else { from }), how, in_vain)
}

/// What one instruction did; `wanted` if it did nothing for want of that.
fn changed(cpu: u32, addr: u64, n: u64, (from, to): (u64, u64), how: How, wanted: Option<u64>) {
    if !is_told(cpu, addr) {
        return;
    }
    mark(addr);
    if from != to {
        await_release(cpu, addr, from);
    }
    // SAFETY: the state is the calling thread's.
    unsafe {
        match wanted {
            Some(wanted) => polled::in_vain(live(cpu), || enter(cpu), addr, wanted, from),
            None => polled::exchanged(live(cpu), || enter(cpu), addr, n, (from, to), how),
        }
    }
    TOLD[hash(addr)].fetch_add(1, Release);
    let _ = TURNS[hash(addr)].compare_exchange(cpu + 1, 0, Release, Relaxed);
    if n == 8 && from != to {
        [from, to].into_iter().filter(|a| guards::is_address(*a)).for_each(mark_node);
    }
    // What is counted down again says how many there are, or are left; a ticket is never given back.
    let counts = how == How::Counts;
    if counts && to < from {
        MARKED[hash(addr)].fetch_or(COUNTED_DOWN, Relaxed);
    }
    if from != to && !(counts && MARKED[hash(addr)].load(Relaxed) & COUNTED_DOWN != 0) {
        let_others_look(cpu, addr, counts);
    }
}

/// Changes of a word after which others get the CPU. A thread that has it for all of its work meets nobody, and a lock
/// that nobody ever wants while it is held cannot be told from a count.
const OTHERS_LOOK: u8 = 64;
static LOOKED_FOR: [AtomicU8; MARKS] = [const { AtomicU8::new(0) }; MARKS];

/// When the thread comes to a line that it has not touched for some time. At once would be too early: who has got into
/// a queue has the lock only later.
fn let_others_look(cpu: u32, addr: u64, counts: bool) {
    let times = &LOOKED_FOR[hash(addr)];
    if times.load(Relaxed) < OTHERS_LOOK {
        times.fetch_add(1, Relaxed);
        // SAFETY: the calling thread has this number.
        let me = unsafe { Cpu::of(cpu) };
        (me.lets_look, me.counted) = (true, counts);
    }
}

/// The thread works at something that is no word for which threads wait.
pub fn works(cpu: u32) {
    // SAFETY: the calling thread has this number.
    if core::mem::take(unsafe { &mut Cpu::of(cpu).lets_look }) {
        yield_cpu();
    }
}

fn seems_held(cpu: u32, addr: u64, free: u64) -> bool {
    waits::watched(addr) && enter(cpu).is_some_and(|e| waits::seems_held(&e, addr, free))
}

/// Who finds a lock free lets the one who has stored that say so first.
fn await_release(cpu: u32, addr: u64, from: u64) {
    let mut left = PATIENCE;
    while left > 0 && seems_held(cpu, addr, from) {
        yield_cpu();
        left -= 1;
    }
}
