//! Functions of the program that allocate, lock or switch stacks, known by their symbols: entered with arguments, left
//! with a result.

use crate::calls::{self, caller_at};
use crate::cpu::{Cpu, PENDING_MAX, ended, enter, live, thread};
use crate::openmp;
use crate::system;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use tussle_rt_core::thread::{Entered, vt_of};
use tussle_rt_core::wire::{RMW, WRITE};
use tussle_rt_core::{heap, monitors, once, record, sections, sync};

#[allow(dead_code)]
mod kinds {
    include!("kinds.rs");
}
use kinds::*;

/// Positions in [`tussle_rt_core::wire::ALLOCATORS`].
const MMAP: u16 = 15;
const GO: u16 = 17;

/// A function whose result is waited for.
#[derive(Clone, Copy)]
pub struct Pending {
    kind: u32,
    /// The shadow stack's depth while it runs.
    depth: u32,
    args: [u64; 3],
    /// What was known when it began, or when it began to wait.
    before: Option<u64>,
}

impl Pending {
    pub const NONE: Pending = Pending { kind: 0, depth: 0, args: [0; 3], before: None };
}

fn innermost(me: &mut Cpu) -> Option<&mut Pending> {
    me.pending.get_mut(me.pending_count.checked_sub(1)?)
}

/// Functions of the thread library: what they do to their objects is told when they begin, as where a recorder stands
/// in front of them, and not access by access.
fn library(kind: u32) -> bool {
    let threads = LOCKS.contains(&kind) || (COND_WAIT..=JOIN).contains(&kind);
    threads || [SEM_TRY, CREATE].contains(&kind) || OMP_WAITS.contains(&kind)
}

/// The thread is inside of the thread library.
pub fn is_quiet(cpu: u32) -> bool {
    // SAFETY: the calling thread has this number.
    unsafe { innermost(Cpu::of(cpu)).is_some_and(|p| library(p.kind)) }
}

/// Which accesses are looked at follows from the functions that the thread is in.
fn settle(cpu: u32) {
    thread(cpu).look_at_all(is_quiet(cpu));
}

/// The thread is about to sleep at a word: true if a function that it is in will tell what that orders.
pub fn sleeping(cpu: u32, entered: &Entered, word: u64) -> bool {
    // SAFETY: the calling thread has this number.
    let Some(p) = (unsafe { innermost(Cpu::of(cpu)) }) else { return false };
    match p.kind {
        k if LOCKS.contains(&k) && p.before.is_none() => p.before = Some(sync::lock_contended(entered, p.args[0])),
        SEM_WAIT => awaits_post(entered, p),
        JOIN => sync::joining(entered),
        // Somebody else does it.
        ONCE if p.args[0] == word => p.before = None,
        k if OMP_WAITS.contains(&k) && p.before.is_none() => {
            p.before = openmp::taken(k, p.args[0]).map(|lock| sync::lock_contended(entered, lock));
        }
        _ => {}
    }
    let once = p.kind == ONCE && p.args[0] == word;
    let waits = LOCKS.contains(&p.kind) || OMP_WAITS.contains(&p.kind);
    once || waits || [SEM_WAIT, COND_WAIT, BARRIER_WAIT, JOIN].contains(&p.kind)
}

/// The thread is about to wake who sleeps at a word: true if that is told here. What was to be done once is done.
pub fn waking(cpu: u32, entered: &Entered, word: u64) -> bool {
    // SAFETY: the calling thread has this number.
    let p = unsafe { innermost(Cpu::of(cpu)) };
    let Some(p) = p.filter(|p| p.kind == ONCE && p.args[0] == word) else { return false };
    if p.before.take().is_some() {
        once::ends(entered, word);
    }
    true
}

/// The first word of one of the thread library's objects.
///
/// # Safety
/// `at` is the address of such an object of the program.
unsafe fn first_word(at: u64) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { (at as *const u32).read_volatile() }
}

/// Somebody has the lock that the thread wants, by what glibc keeps in its first word: a mutex its owner, a lock for
/// readers their number and the writer's bit; a spin lock of x86-64 is 1 when it is free, others are 0.
///
/// # Safety
/// `lock` is such a lock of the program.
unsafe fn is_held(kind: u32, lock: u64) -> bool {
    const OWNER: u32 = 0x3fff_ffff;
    /// Not whose phase it is, nor that readers wait.
    const READERS_OR_WRITER: u32 = !0b101;
    // SAFETY: the caller's promise.
    let word = unsafe { first_word(lock) };
    match kind {
        MUTEX_LOCK => word & OWNER != 0,
        RW_WRITE => word & READERS_OR_WRITER != 0,
        SPIN_LOCK => word != u32::from(!system::is_generic()),
        _ => false,
    }
}

/// Goroutines have run: their scheduler says what comes after what, and words of the threads below do not.
static GOROUTINES: AtomicU32 = AtomicU32::new(0);

/// The program is Go's, and its symbols are there.
pub fn is_go() -> bool {
    GOROUTINES.load(Relaxed) != 0
}

/// A function begins whose address was given with `kind`; `args` are its first four arguments.
///
/// # Safety
/// The calling thread has this number; there are four arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_function(cpu: u32, kind: u32, args: *const u64) {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b, c) = (*args, *args.add(1), *args.add(2));
        if kind == GO_SWITCH {
            GOROUTINES.store(1, Relaxed);
            return calls::forget(cpu);
        }
        let me = Cpu::of(cpu);
        if kind == CREATE {
            me.starts = (c, calls::caller(live(cpu)));
        }
        let depth = (*live(cpu)).depth;
        // Left by a longjmp or an exception.
        while innermost(me).is_some_and(|p| p.depth > depth) {
            me.pending_count -= 1;
        }
        // A loop that begins where the function does (`pthread_spin_lock`), or an alias that it goes on as: there will
        // be one return.
        if innermost(me).is_some_and(|p| (p.kind, p.depth, p.args[0]) == (kind, depth, a)) {
            return;
        }
        let inside = innermost(me).is_some_and(|p| ALLOCATIONS.contains(&p.kind) || p.kind == OMP_NEXT);
        if inside || me.pending_count >= PENDING_MAX {
            return;
        }
        let Some(entered) = enter(cpu) else { return };
        let mut p = Pending { kind, depth, args: [a, b, c], before: None };
        touched(&entered, &p, calls::caller(live(cpu)));
        if begun(&entered, me, &mut p) && depth > calls::STEP {
            me.pending[me.pending_count] = p;
            me.pending_count += 1;
        }
        drop(entered);
        settle(cpu);
    }
}

/// What the thread library does to its objects (glibc's: the lock word at 0, a mutex's owner at 8).
fn touched(entered: &Entered, p: &Pending, pc: u64) {
    let [a, b, _] = p.args;
    let word = |at: u64| record::of_lock(entered, at, 4, RMW, pc);
    let mutex = |at: u64| {
        word(at);
        record::of_lock(entered, at + 8, 8, WRITE, pc);
    };
    match p.kind {
        MUTEX_LOCK | MUTEX_TRY | MUTEX_UNLOCK => mutex(a),
        SPIN_UNLOCK => record::of_lock(entered, a, 4, WRITE, pc),
        k if LOCKS.contains(&k) || k == BARRIER_WAIT => word(a),
        COND_WAIT => {
            record::note(entered, a, 8, RMW, pc, false);
            mutex(b);
        }
        COND_SIGNAL | COND_BROADCAST | SEM_WAIT | SEM_TRY | SEM_POST => record::note(entered, a, 8, RMW, pc, false),
        _ => {}
    }
}

/// What the beginning of a function means; true if its result is wanted.
fn begun(entered: &Entered, me: &mut Cpu, p: &mut Pending) -> bool {
    let [a, b, _] = p.args;
    match p.kind {
        FREE => {
            if a != 0 {
                heap::dead(entered, a);
            }
            return false;
        }
        REALLOC | REALLOCARRAY if a != 0 => heap::dead(entered, a),
        MUTEX_UNLOCK | RW_UNLOCK | SPIN_UNLOCK => left(entered, a),
        // SAFETY: a lock of the program, which the thread is about to take.
        MUTEX_LOCK | RW_WRITE | SPIN_LOCK if unsafe { is_held(p.kind, a) } => {
            p.before = Some(sync::lock_contended(entered, a));
        }
        ONCE => return begins_once(entered, p),
        GUARD_RELEASE => {
            once::ends(entered, a);
            return false;
        }
        FORGET => {
            sync::forget(entered, a);
            return false;
        }
        COND_WAIT => {
            monitors::waiting(entered, b);
            left(entered, b);
            p.before = Some(sync::cond_wait_begin(entered, a));
        }
        COND_SIGNAL | COND_BROADCAST => sync::cond_wake(entered, a, p.kind == COND_BROADCAST),
        BARRIER_INIT => {
            sync::barrier_init(entered, a, p.args[2]);
            return false;
        }
        BARRIER_WAIT => p.before = Some(sync::barrier_arrive(entered, a)),
        // SAFETY: a semaphore of the program, whose first word says how often it can be taken.
        SEM_WAIT if unsafe { first_word(a) } == 0 => awaits_post(entered, p),
        SEM_POST => sync::sem_post(entered, a),
        OMP_BARRIER => p.before = openmp::arrives(entered, me),
        OMP_PARALLEL => openmp::opens(),
        k if OMP_WAITS.contains(&k) => openmp::given(k, a).into_iter().for_each(|lock| left(entered, lock)),
        GO_READY => {
            sync::sem_post(entered, b);
            return false;
        }
        GO_RUN => {
            sync::sem_wait_end(entered, a, 0, false);
            return false;
        }
        _ => {}
    }
    true
}

/// What is done once is done, or is about to be; true if its end is to be told. glibc's control word is 0 before it
/// begins, and 2 when it is done (musl's, too).
fn begins_once(entered: &Entered, p: &mut Pending) -> bool {
    const DONE: u32 = 2;
    let control = p.args[0];
    // SAFETY: the program's control word, which the thread library is about to look at.
    match unsafe { first_word(control) } {
        0 => {
            once::begins(entered, control);
            p.before = Some(0);
        }
        DONE => {
            once::passes(entered, control);
            return false;
        }
        _ => {}
    }
    true
}

/// The thread waits for a semaphore that is not free.
fn awaits_post(entered: &Entered, p: &mut Pending) {
    if p.before.is_none() {
        p.before = Some(sync::sem_wait_begin(entered, p.args[0]));
    }
}

/// A lock is about to be released.
fn left(entered: &Entered, lock: u64) {
    sections::releasing(entered, lock);
    sync::unlocking(entered, lock);
    // SAFETY: the thread is inside the recorder: its state is its own.
    if unsafe { monitors::has(entered.live(), lock) } {
        monitors::left(entered, lock, 0);
    }
}

/// The call whose frame was at `depth` has returned: true if it was one that is waited for.
pub fn returned_to(cpu: u32, depth: u32) -> bool {
    // SAFETY: the calling thread has this number.
    unsafe {
        let me = Cpu::of(cpu);
        let had = me.pending_count;
        while innermost(me).is_some_and(|p| p.depth > depth) {
            me.pending_count -= 1;
        }
        if me.pending_count != had {
            settle(cpu);
        }
        innermost(me).is_some_and(|p| p.depth == depth)
    }
}

/// The result of the function that has returned just now.
///
/// # Safety
/// The calling thread has this number; [`calls::tussle_emulated_landed`] asked for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_result(cpu: u32, result: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        let me = Cpu::of(cpu);
        let Some(p) = innermost(me).copied() else { return };
        me.pending_count -= 1;
        settle(cpu);
        let Some(entered) = enter(cpu) else { return };
        match p.kind {
            k if ALLOCATIONS.contains(&k) => allocated(&entered, &p, result),
            _ => ended_with(&entered, &p, result as u32),
        }
    }
}

fn allocated(entered: &Entered, p: &Pending, result: u64) {
    let [a, b, c] = p.args;
    let (at, size, allocator, align) = match p.kind {
        CALLOC => (result, a.saturating_mul(b), 1, 16),
        REALLOC => (result, b, 2, 16),
        REALLOCARRAY => (result, b.saturating_mul(c), 8, 16),
        ALIGNED_ALLOC => (result, b, 3, a),
        MEMALIGN => (result, b, 5, a),
        // SAFETY: the function has just written there.
        POSIX_MEMALIGN if result as u32 == 0 => (unsafe { *(a as *const u64) }, c, 4, b),
        POSIX_MEMALIGN => return,
        VALLOC => (result, a, 6, 4096),
        GO_MALLOC => (result, a, GO, go_align(a)),
        _ => (result, a, 0, 16),
    };
    if at == 0 || size == 0 {
        if matches!(p.kind, REALLOC | REALLOCARRAY) && a != 0 && size != 0 {
            heap::revived(entered, a);
        }
        return;
    }
    let align = align.clamp(1, 1 << 30) as u32;
    let descriptor = if p.kind == GO_MALLOC { b } else { 0 };
    // SAFETY: the thread is inside the recorder: its frames are its own.
    unsafe { asked(entered, |pc| heap::described(entered, at, size, (allocator, align), descriptor, pc)) };
}

/// What Go's allocator guarantees: objects up to 512 bytes lie one after the other in spans of one size, which begin
/// with a page; longer ones may have a header before them (`runtime/sizeclasses.go`, `malloc.go`, Go 1.22 and later).
fn go_align(size: u64) -> u64 {
    let class = match size {
        0..=32 => size.next_multiple_of(8),
        33..=256 => size.next_multiple_of(16),
        257..=512 => size.next_multiple_of(32),
        _ => 8,
    };
    1 << class.trailing_zeros().min(9)
}

/// The function that has returned was no allocation.
fn ended_with(entered: &Entered, p: &Pending, result: u32) {
    const OWNER_DIED: u32 = 130;
    let [a, b, _] = p.args;
    let got = result == 0 || result == OWNER_DIED;
    match p.kind {
        MUTEX_LOCK | RW_WRITE | SPIN_LOCK if got => sync::locked(entered, a, p.before),
        MUTEX_TRY if got => sync::locked_by_try(entered, a),
        MUTEX_TRY => sync::tried(entered, a),
        RW_READ if got => sections::taken(entered, a, true),
        COND_WAIT => {
            sync::cond_wait_end(entered, a, p.before.unwrap_or(0), result == 0);
            sync::locked(entered, b, None);
        }
        BARRIER_WAIT => sync::barrier_leave(entered, a, p.before.unwrap_or(0)),
        OMP_BARRIER => p.before.into_iter().for_each(|number| openmp::leaves(entered, number)),
        OMP_PARALLEL => openmp::closes(),
        ONCE if p.before.is_some() => once::ends(entered, a),
        ONCE => once::passes(entered, a),
        GUARD_ACQUIRE if result == 0 => once::passes(entered, a),
        GUARD_ACQUIRE => once::begins(entered, a),
        SEM_WAIT | SEM_TRY if result == 0 => {
            // SAFETY: a semaphore of the program.
            let more = unsafe { first_word(a) } != 0;
            match p.before {
                Some(before) => sync::sem_wait_end(entered, a, before, more),
                None => sync::sem_taken(entered, a, more),
            }
        }
        JOIN if result == 0 => {
            // glibc's descriptor of a thread holds the word that the system clears.
            const DESCRIPTOR_BYTES: u64 = 4096;
            let by_word = ended(a, DESCRIPTOR_BYTES);
            // SAFETY: the thread is inside the recorder.
            let vt = by_word.unwrap_or_else(|| unsafe { vt_of(a) });
            sync::joined(entered, vt);
        }
        k if OMP_WAITS.contains(&k) => {
            openmp::taken(k, a).into_iter().for_each(|lock| sync::locked(entered, lock, p.before));
        }
        _ => {}
    }
}

/// Code between the program's and the allocator: ranges in order, two numbers each.
static BETWEEN: AtomicPtr<u64> = AtomicPtr::new(core::ptr::null_mut());
static BETWEEN_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Says which code stands between the program and the allocator (operators, runtimes, containers): `count` ranges, in
/// order, apart from each other.
///
/// # Safety
/// The ranges stay where they are for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_between(ranges: *const u64, count: usize) {
    BETWEEN_COUNT.store(0, Release);
    BETWEEN.store(ranges.cast_mut(), Release);
    BETWEEN_COUNT.store(count, Release);
}

fn is_between(pc: u64) -> bool {
    let (at, n) = (BETWEEN.load(Acquire), BETWEEN_COUNT.load(Acquire));
    if at.is_null() {
        return false;
    }
    // SAFETY: as many ranges as were given.
    let ranges = unsafe { core::slice::from_raw_parts(at.cast::<[u64; 2]>(), n) };
    let after = ranges.partition_point(|r| r[0] < pc);
    after.checked_sub(1).and_then(|k| ranges.get(k)).is_some_and(|r| pc <= r[1])
}

/// Calls `note` with the innermost code of the program itself that waits for the allocator, under its callers. The
/// allocator's own frame has been taken off the shadow stack by its return, and lies above the top.
///
/// # Safety
/// The thread is inside the recorder.
unsafe fn asked(entered: &Entered, note: impl FnOnce(u64)) {
    const FRAMES_MAX: u32 = 24;
    // SAFETY: the caller's promise.
    unsafe {
        let t = entered.live();
        let depth = (*t).depth;
        (*t).depth = depth + calls::STEP;
        let all = (0..FRAMES_MAX).map(|k| (k, caller_at(t, k))).take_while(|f| f.1 != 0);
        let found = all.clone().find(|f| !is_between(f.1)).or(all.clone().next());
        let (k, pc) = found.unwrap_or((0, 0));
        (*t).depth = depth.saturating_sub(k * calls::STEP).max(calls::STEP);
        note(pc);
        (*t).depth = depth;
    }
}

/// The program got memory from the system itself.
pub fn mapped(entered: &Entered, at: u64, size: u64) {
    // SAFETY: the thread is inside the recorder.
    let pc = unsafe { calls::caller(entered.live()) };
    heap::born(entered, at, size, MMAP, 4096, pc);
}

/// The thread is in an allocation, or creates a thread: memory from the system is the allocator's, or a stack.
pub fn allocating(cpu: u32) -> bool {
    // SAFETY: the calling thread has this number.
    unsafe { innermost(Cpu::of(cpu)).is_some_and(|p| ALLOCATIONS.contains(&p.kind) || p.kind == CREATE) }
}
