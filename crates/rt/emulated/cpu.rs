//! The program's threads by the numbers that the emulator gives them.

use crate::functions::Pending;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use tussle_rt_core::arena::{self, Settings, lost, recording};
use tussle_rt_core::thread::{self as threads, Birth, Entered};
use tussle_rt_core::wire::*;
use tussle_rt_core::{record, sync, sys};

/// Threads at the same time.
const CPUS: usize = 4096;
/// Functions with a result that wait in each other.
pub const PENDING_MAX: usize = 8;

/// What threads use that are not recorded (yet): every access misses.
struct Dummy(UnsafeCell<MaybeUninit<Live>>);
// SAFETY: nobody writes it: it has no lines, and nobody enters with it.
unsafe impl Sync for Dummy {}
static DUMMY: Dummy = Dummy(UnsafeCell::new(MaybeUninit::zeroed()));

/// What every access of a thread looks at.
#[repr(align(64))]
struct Hot {
    /// Its state; null while it is not recorded.
    live: AtomicPtr<Live>,
    /// The same, null while every access is to be looked at.
    table: AtomicPtr<Live>,
    /// Its last access outside of its stack: the compiler keeps what it looks for there.
    outside: Last,
    /// Its last access, if that was on its stack.
    inside: Last,
    stack_lo: AtomicU64,
    stack_bytes: AtomicU64,
}

/// One access.
struct Last {
    /// What it was, and the instruction: see [`Access::what`].
    what: AtomicU64,
    addr: AtomicU64,
}

impl Last {
    const fn new() -> Last {
        Last { what: AtomicU64::new(0), addr: AtomicU64::new(0) }
    }

    #[inline(always)]
    fn is(&self, access: Access) -> bool {
        self.addr.load(Relaxed) == access.addr && self.what.load(Relaxed) == access.what
    }

    #[inline(always)]
    fn set(&self, access: Access) {
        self.what.store(access.what, Relaxed);
        self.addr.store(access.addr, Relaxed);
    }
}

/// An access as QEMU tells it.
#[derive(Clone, Copy)]
pub struct Access {
    /// The instruction's address plus one; from bit 48 on the logarithm of the bytes, from bit 60 on 1 if it reads and
    /// 2 if it writes.
    what: u64,
    pub addr: u64,
}

impl Access {
    /// `info` holds the logarithm of the bytes in bits 4 to 6, and reading or writing in bits 16 and 17: the plugin
    /// checks that this is so.
    #[inline(always)]
    pub fn new(info: u32, addr: u64, pc: u64) -> Access {
        Access { what: u64::from(info & 0x3_0070) << 44 | pc, addr }
    }

    #[inline(always)]
    pub fn bytes(self) -> u64 {
        1 << (self.what >> 48 & 7)
    }

    /// Atomic instructions do both at once.
    #[inline(always)]
    pub fn kind(self) -> u32 {
        ((self.what >> 60) as u32).saturating_sub(1)
    }

    /// Recorded addresses are those behind an instruction.
    pub fn pc(self) -> u64 {
        self.what & ((1 << 48) - 1)
    }
}

impl Hot {
    const fn new() -> Hot {
        let none = core::ptr::null_mut();
        let (live, table) = (AtomicPtr::new(none), AtomicPtr::new(none));
        let (stack_lo, stack_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Hot { live, table, outside: Last::new(), inside: Last::new(), stack_lo, stack_bytes }
    }

    fn set(&self, t: *mut Live) {
        self.live.store(t, Relaxed);
        self.table.store(t, Relaxed);
    }
}

/// The last one is for threads beyond, of which nothing is recorded.
static HOT: [Hot; CPUS + 1] = [const { Hot::new() }; CPUS + 1];

/// A thread on its way through an access.
pub struct Thread {
    pub cpu: u32,
    hot: &'static Hot,
}

/// The thread with this number.
#[inline(always)]
pub fn thread(cpu: u32) -> Thread {
    Thread { cpu, hot: HOT.get(cpu as usize).unwrap_or(&HOT[CPUS]) }
}

fn recorded(at: *mut Live) -> *mut Live {
    if at.is_null() { DUMMY.0.get().cast() } else { at }
}

impl Thread {
    /// Its state, or zeroes while every access is to be looked at.
    #[inline(always)]
    pub fn table(&self) -> *mut Live {
        recorded(self.hot.table.load(Relaxed))
    }

    /// Keeps the access as the last one. True if the thread did the same in the one before, or in the one before
    /// outside of its stack.
    #[inline(always)]
    pub fn repeats(&self, access: Access) -> bool {
        let hot = self.hot;
        let last = if self.on_stack(access.addr) {
            &hot.inside
        } else {
            hot.inside.addr.store(0, Relaxed);
            &hot.outside
        };
        let same = last.is(access);
        last.set(access);
        same
    }

    /// Its last access outside of its stack, or its last one.
    pub fn last(&self) -> Option<Access> {
        let of = |last: &Last| Access { what: last.what.load(Relaxed), addr: last.addr.load(Relaxed) };
        [of(&self.hot.outside), of(&self.hot.inside)].into_iter().find(|a| a.addr != 0)
    }

    /// The address lies on the thread's own stack.
    #[inline(always)]
    pub fn on_stack(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.hot.stack_lo.load(Relaxed)) < self.hot.stack_bytes.load(Relaxed)
    }

    /// Has every access looked at from now on, or not.
    pub fn look_at_all(&self, on: bool) {
        let t = if on { core::ptr::null_mut() } else { self.hot.live.load(Relaxed) };
        self.hot.table.store(t, Relaxed);
    }
}

/// Words of which a thread remembers what it read there: who waits in C++'s library looks at three by turns.
pub const POLLED: usize = 8;

/// What is known of a thread beside its state. Used by the thread itself, and by its creator before it runs.
pub struct Cpu {
    /// What it begins with, once its creator has said so.
    pub birth: Birth,
    /// Word that the system clears when the thread ends; 0 if none.
    pub ends_at: u64,
    /// What it gives a thread that it is creating.
    pub child: Option<(u64, u64, u64)>,
    /// Where the next thread that it creates starts, and the call that creates it.
    pub starts: (u64, u64),
    /// Functions that it is in, whose result matters.
    pub pending: [Pending; PENDING_MAX],
    pub pending_count: usize,
    /// Words that it read last of those that threads wait for, what they held, and the changes told by then.
    pub polled: [(u64, u64, u32); POLLED],
    /// It lets others look at what it has taken, before it goes on; and whether it took it by counting, as threads do,
    /// too, that arrive somewhere.
    pub lets_look: bool,
    pub counted: bool,
    /// The word that it sleeps at, and the wake-ups before.
    pub sleeps: Option<(u64, u64)>,
    /// The parallel region of OpenMP that it was seen in last, and the barriers that it has come to there.
    pub team: (u64, u64),
    /// Result of the system call that it is in matters.
    pub system: crate::system::Call,
    /// Nothing of it can be recorded.
    refused: bool,
}

/// Cells of zeroes until they are used, so that they take no room in a file.
struct Cpus([(AtomicU32, UnsafeCell<MaybeUninit<Cpu>>); CPUS]);
// SAFETY: a cell is used by one thread at a time: its creator's, then its own.
unsafe impl Sync for Cpus {}
static STATES: Cpus = Cpus([const { (AtomicU32::new(0), UnsafeCell::new(MaybeUninit::zeroed())) }; CPUS]);

impl Cpu {
    fn new() -> Cpu {
        Cpu {
            birth: Birth::unknown(),
            ends_at: 0,
            child: None,
            starts: (0, 0),
            pending: [Pending::NONE; PENDING_MAX],
            pending_count: 0,
            polled: [(0, 0, 0); POLLED],
            lets_look: false,
            counted: false,
            sleeps: None,
            team: (0, 0),
            system: crate::system::Call::Other,
            refused: false,
        }
    }

    /// Of a thread.
    ///
    /// # Safety
    /// The calling thread has this number, or creates the one that will.
    pub unsafe fn of<'a>(cpu: u32) -> &'a mut Cpu {
        // SAFETY: the caller's promise; the index is masked, and the cell is written before it is used.
        unsafe {
            let (used, cell) = STATES.0.get_unchecked(cpu as usize % CPUS);
            if used.load(Relaxed) == 0 {
                (*cell.get()).write(Cpu::new());
                used.store(1, Relaxed);
            }
            (*cell.get()).assume_init_mut()
        }
    }
}

/// The thread's state; zeroes while it is not recorded.
#[inline(always)]
pub fn live(cpu: u32) -> *mut Live {
    recorded(thread(cpu).hot.live.load(Relaxed))
}

/// Enters the recorder; `None` if the thread cannot be recorded.
#[inline(always)]
pub fn enter(cpu: u32) -> Option<Entered> {
    // SAFETY: the state is the calling thread's.
    match unsafe { Entered::enter(live(cpu)) } {
        None => enter_slowly(cpu),
        entered => entered,
    }
}

#[cold]
fn enter_slowly(cpu: u32) -> Option<Entered> {
    if !recording() {
        return None;
    }
    // SAFETY: the state is the calling thread's.
    unsafe {
        if arena::forked() {
            forked(cpu);
        }
        if thread(cpu).hot.live.load(Relaxed).is_null() && !register(cpu) {
            return None;
        }
        Entered::enter(live(cpu))
    }
}

/// Makes the calling thread a recorded one.
///
/// # Safety
/// The calling thread has this number.
unsafe fn register(cpu: u32) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let me = Cpu::of(cpu);
        if cpu as usize >= CPUS || !recording() || me.refused {
            lost(LOST_THREADS, (cpu as usize >= CPUS) as u64);
            return false;
        }
        let t = threads::register(&me.birth);
        me.refused = t.is_null();
        let (hot, (lo, hi)) = (thread(cpu).hot, me.birth.stack);
        hot.stack_lo.store(lo, Relaxed);
        hot.stack_bytes.store(hi.saturating_sub(lo), Relaxed);
        hot.set(t);
        !t.is_null()
    }
}

/// Index of the thread in the recording; [`NONE`] if it is not recorded.
fn index(cpu: u32) -> u32 {
    // SAFETY: the state is the calling thread's, or zeroes.
    unsafe {
        match (*live(cpu)).info_at as *const ThreadInfo {
            i if i.is_null() => NONE,
            i => (*i).index,
        }
    }
}

/// What a recording begins with; kept for forked children: program and mappings of the emulator beside the settings.
struct Kept(UnsafeCell<Option<(Settings, *const u8, *const u8)>>);
// SAFETY: written once, before the program's first instruction.
unsafe impl Sync for Kept {}
static KEPT: Kept = Kept(UnsafeCell::new(None));

/// Begins to record; false if that cannot be. `maps` were the emulator's mappings before it had the program's, the
/// stack is the main thread's.
///
/// # Safety
/// The texts are zero-terminated and stay; the calling thread is the program's only one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_begin(
    dir: *const u8,
    program: *const u8,
    maps: *const u8,
    mem_max: u64,
    operations: bool,
    stack_lo: u64,
    stack_hi: u64,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let settings = Settings { dir, mem_max, operations, thread_start: 0 };
        if !arena::open(&settings, 0, 0, 0) {
            return false;
        }
        arena::runs(program, maps);
        name_after(program);
        *KEPT.0.get() = Some((settings, program, maps));
        let me = Cpu::of(0);
        me.birth = Birth { vt: 0, stack: (stack_lo, stack_hi), ..Birth::unknown() };
        register(0)
    }
}

/// Threads have the name that the program's would have without the emulator.
///
/// # Safety
/// `program` is null or zero-terminated.
unsafe fn name_after(program: *const u8) {
    const PR_SET_NAME: usize = 15;
    // SAFETY: the caller's promise; the kernel reads up to the zero, at most 16 bytes.
    unsafe {
        let (mut name, mut at) = (program, program);
        while !at.is_null() && *at != 0 {
            at = at.add(1);
            if *at.sub(1) == b'/' {
                name = at;
            }
        }
        if !name.is_null() {
            sys::call3(sys::SYS_prctl, PR_SET_NAME, name as usize, 0);
        }
    }
}

static FORK_VT: AtomicU64 = AtomicU64::new(0);

/// Before the program forks: what was counted so far is the parent's.
pub fn before_fork(cpu: u32) {
    if let Some(entered) = enter(cpu) {
        FORK_VT.store(sync::settle(&entered), Relaxed);
    }
}

/// In the child, which has one thread: a file of its own.
///
/// # Safety
/// The calling thread is the only one.
pub unsafe fn forked(cpu: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        let (pid, seq) = arena::session_pid_seq();
        threads::reset_after_fork();
        for h in &HOT {
            h.set(core::ptr::null_mut());
        }
        let Some((settings, program, maps)) = &*KEPT.0.get() else { return };
        let vt = FORK_VT.load(Relaxed);
        if arena::open(settings, pid, seq, vt) {
            arena::runs(*program, *maps);
            let me = Cpu::of(cpu);
            me.birth = Birth { vt, pointer: me.birth.pointer, stack: me.birth.stack, ..Birth::unknown() };
            register(cpu);
        }
    }
}

/// The calling thread is about to create one.
pub fn creates(cpu: u32, stack: u64, pointer: u64, ends_at: u64) {
    // SAFETY: the calling thread has this number.
    unsafe { Cpu::of(cpu).child = Some((stack, pointer, ends_at)) };
}

/// A thread gets its number, `creator` is the one that creates it; its stack is zeroes if that is not known.
///
/// # Safety
/// The calling thread is the creator; the created one does not run yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_created(creator: u32, cpu: u32, lo: u64, hi: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if cpu as usize >= CPUS || creator == cpu {
            return;
        }
        let vt = enter(creator).map_or(NONE as u64, |entered| sync::creation(&entered));
        let by = Cpu::of(creator);
        let (_, pointer, ends_at) = by.child.take().unwrap_or_default();
        let (start, create_pc) = core::mem::take(&mut by.starts);
        let me = Cpu::of(cpu);
        *me = Cpu::new();
        me.ends_at = ends_at;
        me.birth = Birth { creator: index(creator), start, create_pc, vt, stack: (lo, hi), pointer };
    }
}

/// Where the stack of the thread that is being created begins; 0 if no thread with a stack of its own is.
///
/// # Safety
/// The calling thread has this number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_child_stack(cpu: u32) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { Cpu::of(cpu).child.filter(|c| c.2 != 0).map_or(0, |c| c.0) }
}

/// The thread's own pointer is known now.
pub fn has_pointer(cpu: u32, pointer: u64) {
    if let Some(entered) = enter(cpu) {
        // SAFETY: the description is the calling thread's.
        unsafe { (*((*entered.live()).info_at as *mut ThreadInfo)).tp = pointer };
    }
}

/// Ended threads whose clocks are kept for those who join them.
const ENDED: usize = 256;
static ENDED_AT: [(AtomicU64, AtomicU64); ENDED] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; ENDED];
static ENDED_COUNT: AtomicU32 = AtomicU32::new(0);

/// Clock at which the latest thread ended whose word lies in `[from, from + bytes)`.
pub fn ended(from: u64, bytes: u64) -> Option<u64> {
    let within = ENDED_AT.iter().filter(|e| e.0.load(Acquire).wrapping_sub(from) < bytes);
    within.map(|e| e.1.load(Relaxed)).max()
}

/// The calling thread ends: its numbers stay in the file.
///
/// # Safety
/// The calling thread has this number and executes nothing any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tussle_emulated_ended(cpu: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        let hot = thread(cpu).hot;
        let t = hot.live.load(Relaxed);
        hot.set(core::ptr::null_mut());
        if t.is_null() || arena::forked() {
            return;
        }
        threads::shut(t);
        record::sweep(t);
        let me = Cpu::of(cpu);
        if me.ends_at != 0 {
            let k = ENDED_COUNT.fetch_add(1, Relaxed) as usize % ENDED;
            let (at, vt) = &ENDED_AT[k];
            vt.store(threads::now(t), Relaxed);
            at.store(me.ends_at, Release);
        }
        threads::end(t);
        *me = Cpu::new();
    }
}
