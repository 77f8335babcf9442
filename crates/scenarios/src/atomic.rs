//! Real threads on real atomics: the same programs, on memory laid out by the same map.
//!
//! Futures never wait here: every operation is performed at once by the thread that polls it, so a task is an ordinary
//! thread running the lock's code straight through.

use std::cell::RefCell;
use std::future::{Future, ready};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use tussle_sim::{Cell, Env, MemoryMap, Note, Op, Program, Spin, Words};
use tussle_stats::Rng;

/// Spins this long before it lets others have the CPU.
const SPIN_MAX: Duration = Duration::from_micros(20);

/// Zeroed memory, aligned to a page, addressed as the map says.
struct Arena {
    words: Vec<AtomicU64>,
    skip: usize,
    places: Vec<(u32, u8)>,
}

impl Arena {
    fn new(map: &MemoryMap) -> Arena {
        let count = map.bytes() as usize / 8 + 16 + 512;
        let words: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let skip = words.as_ptr().align_offset(4096).min(511);
        let place = |i| map.at(Cell(i as u32));
        Arena { words, skip, places: (0..map.cells()).map(|i| (place(i).addr, place(i).size)).collect() }
    }

    /// Address and size of a cell; unknown cells are the null cell.
    fn at(&self, cell: Cell) -> (*const u8, u8) {
        let (addr, size) = self.places.get(cell.0 as usize).copied().unwrap_or((0, 8));
        debug_assert!((addr as usize + 8).div_ceil(8) + self.skip <= self.words.len());
        // SAFETY: addresses come from the map that `words` was sized for, with a page to spare.
        (unsafe { self.words.as_ptr().add(self.skip).cast::<u8>().add(addr as usize) }, size)
    }
}

/// Calls a method of the atomic of a cell's width.
macro_rules! atomic {
    ($arena:expr, $cell:expr, $a:ident, $t:ident => $do:expr) => {{
        let (p, size) = $arena.at($cell);
        // SAFETY: the pointer lies inside the arena for its whole life, is aligned to its size (layouts with
        // unaligned fields are refused), and cells do not overlap, so all accesses to it are atomic of one size.
        unsafe {
            match size {
                1 => {
                    #[allow(dead_code)]
                    type $t = u8;
                    let $a = &*p.cast::<AtomicU8>();
                    $do
                }
                2 => {
                    #[allow(dead_code)]
                    type $t = u16;
                    let $a = &*p.cast::<AtomicU16>();
                    $do
                }
                4 => {
                    #[allow(dead_code)]
                    type $t = u32;
                    let $a = &*p.cast::<AtomicU32>();
                    $do
                }
                _ => {
                    #[allow(dead_code)]
                    type $t = u64;
                    let $a = &*p.cast::<AtomicU64>();
                    $do
                }
            }
        }
    }};
}

#[allow(clippy::unnecessary_cast, dead_code)]
impl Arena {
    fn load(&self, cell: Cell, order: Ordering) -> u64 {
        atomic!(self, cell, a, T => a.load(order) as u64)
    }

    fn store(&self, cell: Cell, value: u64, order: Ordering) {
        atomic!(self, cell, a, T => a.store(value as T, order))
    }

    fn cas(&self, cell: Cell, old: u64, new: u64) -> u64 {
        atomic!(self, cell, a, T => {
            let r = a.compare_exchange(old as T, new as T, Ordering::SeqCst, Ordering::SeqCst);
            match r { Ok(v) | Err(v) => v as u64 }
        })
    }

    fn add(&self, cell: Cell, by: u64) -> u64 {
        atomic!(self, cell, a, T => a.fetch_add(by as T, Ordering::SeqCst) as u64)
    }

    fn swap(&self, cell: Cell, value: u64) -> u64 {
        atomic!(self, cell, a, T => a.swap(value as T, Ordering::SeqCst) as u64)
    }

    fn clear(&self, cell: Cell, mask: u64) {
        atomic!(self, cell, a, T => { a.fetch_and(!(mask as T), Ordering::Release); })
    }
}

impl Words for &Arena {
    fn get(&mut self, cell: Cell) -> u64 {
        self.load(cell, Ordering::Relaxed)
    }

    fn set(&mut self, cell: Cell, value: u64) {
        self.store(cell, value, Ordering::Relaxed);
    }

    fn work(&mut self, ns: u32) {
        compute(ns);
    }
}

/// Keeps the CPU busy for about this many ns: computing, so it does not pause.
fn compute(ns: u32) {
    let clock = clock();
    if clock.ticks_per_ns > 0.0 {
        let start = now_ticks();
        let ticks = ((f64::from(ns) * clock.ticks_per_ns) as u64).saturating_sub(clock.overhead);
        while now_ticks().wrapping_sub(start) < ticks {}
    } else {
        let start = Instant::now();
        while start.elapsed() < Duration::from_nanos(u64::from(ns)) {
            std::hint::spin_loop();
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn now_ticks() -> u64 {
    // SAFETY: every x86-64 processor has a time-stamp counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn now_ticks() -> u64 {
    0
}

/// The counter behind [`compute`].
struct Clock {
    /// Ticks of [`now_ticks`] per ns; 0 where there is no counter.
    ticks_per_ns: f64,
    /// What [`compute`] takes beyond the ticks that it waits for: half a reading before the first, half a one after
    /// the last, and on average half a one too much.
    overhead: u64,
}

/// Measured once, over 5 ms.
fn clock() -> &'static Clock {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    CLOCK.get_or_init(|| {
        let (start, from) = (Instant::now(), now_ticks());
        let mut reading = u64::MAX;
        while start.elapsed() < Duration::from_millis(5) {
            let first = now_ticks();
            (0..16).for_each(|_| _ = std::hint::black_box(now_ticks()));
            reading = reading.min((now_ticks() - first) / 17);
        }
        let ticks_per_ns = (now_ticks() - from) as f64 / start.elapsed().as_nanos() as f64;
        Clock { ticks_per_ns, overhead: reading * 3 / 2 }
    })
}

/// What all threads of a run share.
struct Common {
    arena: Arena,
    stop: AtomicBool,
    /// Per task: a wake-up has come, the thread to wake, and whether it is awake.
    tokens: Vec<AtomicBool>,
    threads: Vec<OnceLock<Thread>>,
    awake: Vec<AtomicBool>,
    crowded: bool,
    start: Instant,
}

/// A task's world on a real thread.
pub struct AtomicEnv<'a> {
    common: &'a Common,
    task: u32,
    cpu: u32,
    rng: RefCell<Rng>,
    done: std::cell::Cell<u64>,
}

impl AtomicEnv<'_> {
    fn park(&self) {
        let me = self.task as usize;
        let c = self.common;
        c.awake[me].store(false, Ordering::SeqCst);
        while !c.tokens[me].swap(false, Ordering::SeqCst) {
            std::thread::park();
        }
        c.awake[me].store(true, Ordering::SeqCst);
    }

    fn spin(&self, s: Spin) -> u64 {
        let a = &self.common.arena;
        let mut since: Option<Instant> = None;
        for i in 0u64.. {
            let also = s.also.0 != Cell::NULL && a.load(s.also.0, Ordering::Acquire) != s.also.1;
            if a.load(s.cell, Ordering::Acquire) != s.value || also {
                return 0;
            }
            let awake = |t: u32| self.common.awake.get(t as usize).is_none_or(|b| b.load(Ordering::Acquire));
            if s.holder != u32::MAX && !awake(s.holder) {
                return 2;
            }
            if s.until_ns != u64::MAX && i % 16 == 15 && self.now_ns() >= s.until_ns {
                return 3;
            }
            std::hint::spin_loop();
            // More threads than CPUs: whoever holds the lock may need this one.
            if self.common.crowded
                && i % 64 == 63
                && since.get_or_insert_with(Instant::now).elapsed() > SPIN_MAX
            {
                if s.resched {
                    return 1;
                }
                std::thread::yield_now();
                since = None;
            }
        }
        0
    }

    fn perform(&self, op: Op) -> u64 {
        let a = &self.common.arena;
        match op {
            Op::Load(c) | Op::LoadForCas(c) => a.load(c, Ordering::Acquire),
            Op::Store(c, v) => {
                a.store(c, v, Ordering::Release);
                0
            }
            Op::Clear(c, mask) => {
                a.clear(c, mask);
                0
            }
            Op::Cas(c, old, new) => a.cas(c, old, new),
            Op::Add(c, by) => a.add(c, by),
            Op::Swap(c, v) => a.swap(c, v),
            Op::Spin(s) => self.spin(s),
            Op::Compute(ns) => {
                compute(ns);
                0
            }
            Op::Park => {
                self.park();
                0
            }
            Op::Sleep(ns) => {
                std::thread::sleep(Duration::from_nanos(u64::from(ns)));
                0
            }
            Op::Unpark(t) => {
                if let (Some(token), Some(thread)) =
                    (self.common.tokens.get(t as usize), self.common.threads.get(t as usize))
                {
                    token.store(true, Ordering::SeqCst);
                    if let Some(thread) = thread.get() {
                        thread.unpark();
                    }
                }
                0
            }
            Op::Yield => {
                std::thread::yield_now();
                0
            }
            // Nothing corresponds to these in a process.
            Op::Visits | Op::PreemptOff | Op::PreemptOn | Op::Interrupt(_) | Op::Ask(..) => 0,
        }
    }
}

impl Env for AtomicEnv<'_> {
    fn op(&self, op: Op) -> impl Future<Output = u64> {
        ready(self.perform(op))
    }

    fn work<R>(&self, code: impl FnOnce(&mut dyn Words) -> R) -> impl Future<Output = R> {
        ready(code(&mut &self.common.arena))
    }

    fn me(&self) -> u32 {
        self.task
    }

    fn cpu(&self) -> u32 {
        self.cpu
    }

    fn stopping(&self) -> bool {
        self.common.stop.load(Ordering::Relaxed)
    }

    fn on_cpu(&self, task: u32) -> bool {
        self.common.awake.get(task as usize).is_none_or(|a| a.load(Ordering::Acquire))
    }

    fn need_resched(&self) -> bool {
        false
    }

    fn preemption_excludes(&self) -> bool {
        false
    }

    fn now_ns(&self) -> u64 {
        self.common.start.elapsed().as_nanos() as u64
    }

    fn random(&self) -> u64 {
        self.rng.borrow_mut().next_u64()
    }

    fn note(&self, note: Note) {
        if note == Note::Done && !self.stopping() {
            self.done.set(self.done.get() + 1);
        }
    }
}

/// Result of a run on real threads.
#[derive(Clone, Debug)]
pub struct RealRun {
    /// Operations completed by each task.
    pub by_task: Vec<u64>,
    /// From the common start to the stop, s.
    pub seconds: f64,
}

impl RealRun {
    /// Operations per second of all tasks together.
    pub fn throughput(&self) -> f64 {
        self.by_task.iter().sum::<u64>() as f64 / self.seconds.max(1e-9)
    }
}

/// Runs every task of a program on a thread of its own for `duration`, then checks its objects. `begin` runs first on
/// each thread, with its task and CPU number, to bind it. `cpus` is the number of CPUs that threads share.
///
/// # Errors
/// What the program's check found wrong, or a task that panicked.
pub fn run_threads<P: Program + Sync>(
    program: &P,
    cpus: u32,
    duration: Duration,
    seed: u64,
    begin: impl Fn(u32, Option<u32>) + Sync,
) -> Result<RealRun, String> {
    let tasks = program.tasks();
    let common = Common {
        arena: Arena::new(program.memory()),
        stop: AtomicBool::new(false),
        tokens: (0..tasks).map(|_| AtomicBool::new(false)).collect(),
        threads: (0..tasks).map(|_| OnceLock::new()).collect(),
        awake: (0..tasks).map(|_| AtomicBool::new(true)).collect(),
        crowded: tasks > cpus as usize,
        start: Instant::now(),
    };
    program.init(&mut &common.arena);
    clock();
    let barrier = Barrier::new(tasks + 1);
    let (common, barrier, begin) = (&common, &barrier, &begin);
    let (by_task, seconds) = std::thread::scope(|scope| {
        let spawn = |task: u32| {
            scope.spawn(move || {
                let _ = common.threads[task as usize].set(std::thread::current());
                let pinned = program.pinned(task, cpus);
                begin(task, pinned);
                let mixed = seed ^ (u64::from(task) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let cpu = pinned.unwrap_or(task % cpus.max(1));
                let rng = RefCell::new(Rng::new(mixed));
                let env = AtomicEnv { common, task, cpu, rng, done: std::cell::Cell::new(0) };
                barrier.wait();
                let polled = pin!(program.run(&env)).poll(&mut Context::from_waker(Waker::noop()));
                assert!(matches!(polled, Poll::Ready(())), "an operation waited on a real thread");
                env.done.get()
            })
        };
        let handles: Vec<_> = (0..tasks as u32).map(spawn).collect();
        barrier.wait();
        let start = Instant::now();
        std::thread::sleep(duration);
        common.stop.store(true, Ordering::Relaxed);
        let seconds = start.elapsed().as_secs_f64();
        let counts: Vec<_> = handles.into_iter().map(|h| h.join()).collect();
        (counts, seconds)
    });
    let by_task: Result<Vec<u64>, _> = by_task.into_iter().collect();
    let by_task = by_task.map_err(|_| "a task panicked".to_string())?;
    program.check(&mut &common.arena)?;
    Ok(RealRun { by_task, seconds })
}
