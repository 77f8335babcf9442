//! System calls: threads, processes, sleeping and waking, memory.

use crate::cpu::{self, Cpu, ended, enter};
use crate::{functions, memory, words};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use tussle_rt_core::wire::*;
use tussle_rt_core::{arena, channels, heap, sleepers, sync};

/// A system call that means something here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Nothing here.
    Other,
    /// A thread or a process comes to be.
    Clone,
    Fork,
    Exec,
    Exit,
    ExitGroup,
    Futex,
    Mmap,
    Munmap,
    /// Sets the thread's pointer.
    ArchPrctl,
    /// Reads into, or writes from, the second argument.
    Read,
    Write,
    /// Lets others run.
    Yield,
}

use Call::*;

/// Numbers of x86-64: `arch/x86/entry/syscalls/syscall_64.tbl` of Linux.
const X86_64: [(i64, Call); 16] = [
    (0, Read),
    (1, Write),
    (9, Mmap),
    (11, Munmap),
    (17, Read),
    (24, Yield),
    (18, Write),
    (44, Write),
    (45, Read),
    (56, Clone),
    (57, Fork),
    (58, Fork),
    (59, Exec),
    (60, Exit),
    (158, ArchPrctl),
    (202, Futex),
];
const X86_64_EXIT_GROUP: i64 = 231;
const X86_64_EXECVEAT: i64 = 322;

/// Numbers that newer architectures share: `include/uapi/asm-generic/unistd.h` of Linux.
const GENERIC: [(i64, Call); 15] = [
    (63, Read),
    (64, Write),
    (67, Read),
    (68, Write),
    (93, Exit),
    (94, ExitGroup),
    (98, Futex),
    (124, Yield),
    (206, Write),
    (207, Read),
    (215, Munmap),
    (220, Clone),
    (221, Exec),
    (222, Mmap),
    (281, Exec),
];

fn of_number(generic: bool, number: i64) -> Call {
    let table: &[(i64, Call)] = if generic { &GENERIC } else { &X86_64 };
    match number {
        X86_64_EXIT_GROUP if !generic => ExitGroup,
        X86_64_EXECVEAT if !generic => Exec,
        _ => table.iter().find(|c| c.0 == number).map_or(Other, |c| c.1),
    }
}

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_SETTLS: u64 = 0x80000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const ARCH_SET_FS: u64 = 0x1002;
const MAP_SHARED: u64 = 0x1;
const MAP_ANONYMOUS: u64 = 0x20;

/// The machine is one of those that share their numbers.
static GENERIC_MACHINE: AtomicBool = AtomicBool::new(false);

/// The program's machine is none of the old ones, as far as a system call has told: not x86-64.
pub fn is_generic() -> bool {
    GENERIC_MACHINE.load(Relaxed)
}

/// Where glibc and musl describe a thread, by its pointer (`TLS_TCB_AT_TP` and `TLS_DTV_AT_TP` of glibc): from there on
/// on x86-64, before it elsewhere. The program's own variables lie on the other side.
pub fn descriptor(pointer: u64) -> core::ops::Range<u64> {
    const BEHIND_BYTES: u64 = 1024;
    // 1,856 in glibc 2.36; before it are the first frames of the thread, none of which is the program's.
    const BEFORE_BYTES: u64 = 2048;
    match GENERIC_MACHINE.load(Relaxed) {
        true => pointer.saturating_sub(BEFORE_BYTES)..pointer,
        false => pointer..pointer.saturating_add(BEHIND_BYTES),
    }
}

/// Memory maps that are written down for shared mappings, in one process at most.
const SHARED_MAPPINGS_MAX: u32 = 64;
static SHARED_MAPPINGS: AtomicU32 = AtomicU32::new(0);

/// Writes down what is mapped now: other processes may map the same memory elsewhere.
fn shared(cpu: u32) {
    if let Some(_inside) = enter(cpu)
        && SHARED_MAPPINGS.fetch_add(1, Relaxed) < SHARED_MAPPINGS_MAX
    {
        // SAFETY: the header of a process that records is mapped.
        unsafe { arena::snapshot_maps() };
    }
}

/// A system call begins; `args` are its six arguments, addresses among them not yet the emulator's: `base` is to be
/// added.
///
/// # Safety
/// The calling thread has this number; there are six arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_system(
    cpu: u32,
    generic: bool,
    number: i64,
    args: *const u64,
    base: u64,
) {
    // SAFETY: the caller's promise.
    unsafe {
        GENERIC_MACHINE.store(generic, Relaxed);
        let call = of_number(generic, number);
        let a = [*args, *args.add(1), *args.add(2), *args.add(3), *args.add(4), *args.add(5)];
        let me = Cpu::of(cpu);
        me.system = call;
        match call {
            Clone if a[0] & (CLONE_VM | CLONE_VFORK) == CLONE_VM => creates(cpu, generic, &a, base),
            Clone | Fork => {
                me.system = Fork;
                cpu::before_fork(cpu);
            }
            Exec => {
                cpu::before_fork(cpu);
                arena::mark_end(END_REPLACED, 0);
            }
            ExitGroup => {
                cpu::before_fork(cpu);
                arena::mark_end(END_UNDERSCORE_EXIT, a[0] as u32);
            }
            Futex => futex(cpu, &a, base),
            Yield => memory::yielding(cpu),
            Write => {
                if let Some(entered) = enter(cpu) {
                    channels::sending(&entered, a[0] as i32);
                }
            }
            // The kernel may give it to somebody else at once.
            Munmap => {
                if let Some(entered) = enter(cpu) {
                    heap::dead(&entered, a[0] + base);
                }
            }
            _ => {}
        }
    }
}

fn creates(cpu: u32, generic: bool, a: &[u64; 6], base: u64) {
    // Stack, then the words of parent and child, of which x86-64 has the thread pointer last.
    let (pointer, word) = if generic { (a[3], a[4]) } else { (a[4], a[3]) };
    let pointer = if a[0] & CLONE_SETTLS != 0 { pointer + base } else { 0 };
    let word = if a[0] & CLONE_CHILD_CLEARTID != 0 { word + base } else { 0 };
    cpu::creates(cpu, a[1] + base, pointer, word);
}

const WAIT: u64 = 0;
const WAKE: u64 = 1;
const REQUEUE: u64 = 3;
const CMP_REQUEUE: u64 = 4;
const WAKE_OP: u64 = 5;
const WAIT_BITSET: u64 = 9;
const WAKE_BITSET: u64 = 10;
const COMMAND: u64 = 0x7f;

/// Threads sleep and are woken.
fn futex(cpu: u32, a: &[u64; 6], base: u64) {
    let word = a[0] + base;
    match a[1] & COMMAND {
        WAIT | WAIT_BITSET => {
            let own = enter(cpu).is_some_and(|entered| functions::sleeping(cpu, &entered, word));
            if !own && sleepers::hands_on(word, a[2]) {
                words::sleeping(cpu, word);
                let Some(entered) = enter(cpu) else { return };
                let before = sleepers::sleeps(&entered, word, a[2]);
                // SAFETY: the calling thread has this number.
                unsafe { Cpu::of(cpu).sleeps = before.map(|before| (word, before)) };
            }
        }
        // What the thread library's functions order is told by them.
        WAKE | WAKE_BITSET | REQUEUE | CMP_REQUEUE | WAKE_OP if !functions::is_quiet(cpu) => {
            if let Some(entered) = enter(cpu)
                && !functions::waking(cpu, &entered, word)
            {
                sleepers::wakes(&entered, word, a[2] as u32 > 1);
            }
        }
        _ => {}
    }
}

/// The system call has ended with this result.
///
/// # Safety
/// The calling thread has this number; `args` are those that the call began with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_system_end(cpu: u32, result: i64, args: *const u64, base: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        let a = [*args, *args.add(1), *args.add(2), *args.add(3)];
        match core::mem::replace(&mut Cpu::of(cpu).system, Other) {
            Fork if result == 0 => cpu::forked(cpu),
            Exec => arena::mark_end(END_RUNNING, 0),
            Futex => woken(cpu, result),
            Mmap if result > 0 && a[3] & MAP_SHARED != 0 => shared(cpu),
            Mmap if result > 0 && a[3] & MAP_ANONYMOUS != 0 && !functions::allocating(cpu) => {
                if let Some(entered) = enter(cpu) {
                    functions::mapped(&entered, result as u64 + base, a[1]);
                }
            }
            ArchPrctl if result == 0 && a[0] == ARCH_SET_FS => cpu::has_pointer(cpu, a[1] + base),
            Read if result > 0 => {
                if let Some(entered) = enter(cpu) {
                    channels::received(&entered, a[0] as i32);
                }
                memory::by_system(cpu, a[1] + base, result as u64, WRITE)
            }
            Write if result > 0 => memory::by_system(cpu, a[1] + base, result as u64, READ),
            _ => {}
        }
    }
}

/// A sleeper goes on: another thread woke it, or ended.
fn woken(cpu: u32, result: i64) {
    // SAFETY: the calling thread has this number.
    let Some((word, before)) = (unsafe { Cpu::of(cpu).sleeps.take() }) else { return };
    let Some(entered) = enter(cpu) else { return };
    sleepers::woken(&entered, word, before, result == 0);
    if let Some(vt) = ended(word, 1) {
        sync::joined(&entered, vt);
    }
}
