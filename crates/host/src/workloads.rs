//! The workloads of the kernel stories, one implementation of each: what will-it-scale, PFT, UnixBench and a
//! forking mail
//! server do to the kernel, written anew from their descriptions.
//!
//! Tasks (threads of one process, or processes) repeat one operation; the rate is what they did between a warm-up
//! and the end. The guest of `tussle record-kernel` does the same operations under the same names
//! (`qemu/tussle-init.c`), a fixed number of them: keep both alike.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::machine;
use crate::threads;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Maps and unmaps an anonymous region (will-it-scale `mmap1`).
    Mmap1,
    /// Touches every page of an own anonymous region, then unmaps it (will-it-scale `page_fault1`).
    PageFault1,
    /// Writes every page of an own private mapping of a file (will-it-scale `page_fault2`).
    PageFault2,
    /// Touches its share of one region in small pages, then gives the pages back (the page fault test); one address
    /// space when the tasks are threads.
    Pft,
    /// Forks, executes `/bin/true` and waits for it (UnixBench's shell scripts).
    ExecStorm,
    /// Forks a child that maps and writes a few pages, and waits for it (a mail server that forks for every message).
    ForkStorm,
    /// Takes and releases a System V semaphore of one set (an IPC scaling test).
    SemOps,
}

/// All of them with their names.
pub const ALL: [(&str, Workload); 7] = [
    ("mmap1", Workload::Mmap1),
    ("page_fault1", Workload::PageFault1),
    ("page_fault2", Workload::PageFault2),
    ("pft", Workload::Pft),
    ("exec_storm", Workload::ExecStorm),
    ("fork_storm", Workload::ForkStorm),
    ("sem_ops", Workload::SemOps),
];

impl Workload {
    /// The workload of this name.
    pub fn by_name(name: &str) -> Option<Workload> {
        ALL.iter().find(|(known, _)| *known == name).map(|(_, w)| *w)
    }
}

/// How a workload runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Tasks, from 1 to [`TASKS_MAX`].
    pub tasks: usize,
    /// Processes instead of threads.
    pub processes: bool,
    /// Time before counting begins.
    pub warmup: Duration,
    /// Time counted.
    pub measure: Duration,
    /// Size of a mapped region in bytes, a multiple of the page size.
    pub region_bytes: usize,
}

impl Default for Setting {
    fn default() -> Setting {
        let (warmup, measure) = (Duration::from_millis(200), Duration::from_secs(1));
        Setting { tasks: 1, processes: false, warmup, measure, region_bytes: 128 << 20 }
    }
}

/// Most tasks.
pub const TASKS_MAX: usize = 4096;

/// What a run did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Operations per second, all tasks together.
    pub operations_per_s: f64,
    /// Operations per own CPU second; absent when the clock is too coarse.
    pub operations_per_cpu_s: Option<f64>,
}

const PAGE: usize = 4096;

/// Pages that a forked child writes.
const FORK_PAGES: usize = 16;

/// One counter per task in a line pair of its own: the counters must not be what is measured.
#[repr(align(128))]
struct Counter(AtomicU64);

/// Memory that processes share with their parent.
struct Shared {
    counters: *const Counter,
    stop: *const AtomicBool,
    bytes: usize,
}

// SAFETY: the memory is only used through atomics and lives until `Shared` is dropped, after all tasks have ended.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(tasks: usize) -> io::Result<Shared> {
        let bytes = (tasks + 1) * size_of::<Counter>();
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping; zero bytes are valid atomics.
        let at =
            unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let counters = at.cast::<Counter>().cast_const();
        // SAFETY: the last slot of the mapping is reserved for the flag.
        let stop = unsafe { counters.add(tasks) }.cast::<AtomicBool>();
        Ok(Shared { counters, stop, bytes })
    }

    fn counter(&self, task: usize) -> &AtomicU64 {
        // SAFETY: callers pass task < tasks.
        unsafe { &(*self.counters.add(task)).0 }
    }

    fn stop(&self) -> &AtomicBool {
        // SAFETY: inside the mapping, see `new`.
        unsafe { &*self.stop }
    }

    fn total(&self, tasks: usize) -> u64 {
        (0..tasks).map(|t| self.counter(t).load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` mapped.
        unsafe { libc::munmap(self.counters.cast_mut().cast(), self.bytes) };
    }
}

/// Runs a workload.
///
/// # Errors
/// When the system refuses memory, processes or semaphores, or the setting is out of range.
pub fn run(workload: Workload, setting: Setting) -> io::Result<Rates> {
    if !(1..=TASKS_MAX).contains(&setting.tasks) {
        return Err(io::Error::other(format!("from 1 to {TASKS_MAX} tasks, not {}", setting.tasks)));
    }
    if setting.region_bytes < PAGE || !setting.region_bytes.is_multiple_of(PAGE) {
        return Err(io::Error::other("the region is not a multiple of the page size"));
    }
    let shared = Shared::new(setting.tasks)?;
    let ground = Ground::new(workload, setting)?;
    let rates = if setting.processes {
        with_processes(&shared, &ground, setting)
    } else {
        with_threads(&shared, &ground, setting)
    };
    drop(ground);
    rates
}

fn with_threads(shared: &Shared, ground: &Ground, setting: Setting) -> io::Result<Rates> {
    thread::scope(|s| {
        let tasks: Vec<_> = (0..setting.tasks).map(|t| s.spawn(move || ground.task(shared, t))).collect();
        let rates = clock(shared, setting);
        shared.stop().store(true, Ordering::Relaxed);
        for task in tasks {
            task.join().map_err(|_| io::Error::other("a task died"))??;
        }
        Ok(rates)
    })
}

fn with_processes(shared: &Shared, ground: &Ground, setting: Setting) -> io::Result<Rates> {
    let mut children = Vec::new();
    for t in 0..setting.tasks {
        // SAFETY: this process has no other thread here; the child calls system calls and ends with _exit.
        match unsafe { libc::fork() } {
            -1 => {
                shared.stop().store(true, Ordering::Relaxed);
                break;
            }
            0 => {
                let code = i32::from(ground.task(shared, t).is_err());
                // SAFETY: ends the child without running the parent's destructors.
                unsafe { libc::_exit(code) };
            }
            child => children.push(child),
        }
    }
    let complete = children.len() == setting.tasks;
    let rates = clock(shared, setting);
    shared.stop().store(true, Ordering::Relaxed);
    let mut failed = !complete;
    for child in children {
        let mut status = 0;
        // SAFETY: waits for our own child.
        let got = unsafe { libc::waitpid(child, &mut status, 0) };
        failed |= got != child || !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != 0;
    }
    if failed { Err(io::Error::other("a task could not be started or failed")) } else { Ok(rates) }
}

/// Sleeps through warm-up and measurement and takes the difference.
fn clock(shared: &Shared, setting: Setting) -> Rates {
    thread::sleep(setting.warmup);
    let (before, cpu_before, started) = (shared.total(setting.tasks), machine::cpu_time(), Instant::now());
    thread::sleep(setting.measure);
    let done = shared.total(setting.tasks).wrapping_sub(before) as f64;
    let seconds = started.elapsed().as_secs_f64();
    let cpu = machine::cpu_time().zip(cpu_before).map(|(after, before)| after.busy_s - before.busy_s);
    let operations_per_cpu_s = cpu.filter(|&s| s > 0.05).map(|s| done / s);
    Rates { operations_per_s: done / seconds, operations_per_cpu_s }
}

/// What the tasks share besides counters: a region, a file, a semaphore.
struct Ground {
    workload: Workload,
    setting: Setting,
    file: Option<libc::c_int>,
    semaphore: Option<libc::c_int>,
    /// The region of the page fault test.
    region: Option<Region>,
    /// CPUs that this process may use.
    cpus: Vec<usize>,
}

/// A mapping that all tasks touch, each its own share.
struct Region(*mut u8);

// SAFETY: tasks write disjoint shares through the pointer; nobody reads.
unsafe impl Sync for Region {}

impl Ground {
    fn new(workload: Workload, setting: Setting) -> io::Result<Ground> {
        let mut ground =
            Ground { workload, setting, file: None, semaphore: None, region: None, cpus: threads::usable() };
        if workload == Workload::PageFault2 {
            // SAFETY: a constant name; the descriptor is owned by `ground`.
            let file = unsafe { libc::memfd_create(c"tussle".as_ptr(), libc::MFD_CLOEXEC) };
            ground.file = Some(check(file)?);
            // SAFETY: our own descriptor.
            check(unsafe { libc::ftruncate(file, setting.region_bytes as libc::off_t) })?;
        }
        if workload == Workload::SemOps {
            // SAFETY: integers only.
            let set = check(unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600 | libc::IPC_CREAT) })?;
            ground.semaphore = Some(set);
            // SAFETY: sets the only semaphore of our own set to 1.
            check(unsafe { libc::semctl(set, 0, libc::SETVAL, 1 as libc::c_int) })?;
        }
        if workload == Workload::Pft {
            let at = ground.map()?;
            ground.region = Some(Region(at));
            // Large pages would turn 512 faults into one.
            // SAFETY: advice about our own mapping.
            unsafe { libc::madvise(at.cast(), setting.region_bytes, libc::MADV_NOHUGEPAGE) };
        }
        Ok(ground)
    }

    /// Repeats the operation until told to stop.
    fn task(&self, shared: &Shared, task: usize) -> io::Result<()> {
        let counter = shared.counter(task);
        self.pin(task);
        while !shared.stop().load(Ordering::Relaxed) {
            match self.workload {
                Workload::Mmap1 => {
                    unmap(self.map()?, self.setting.region_bytes);
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                Workload::PageFault1 | Workload::PageFault2 => {
                    let at = self.map()?;
                    touch(at, self.setting.region_bytes, shared, counter);
                    unmap(at, self.setting.region_bytes);
                }
                Workload::Pft => self.touch_share(shared, task),
                Workload::ExecStorm => {
                    exec_once()?;
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                Workload::ForkStorm => {
                    fork_once()?;
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                Workload::SemOps => {
                    self.take_and_release()?;
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    fn map(&self) -> io::Result<*mut u8> {
        let (flags, file) = match self.file {
            Some(file) => (libc::MAP_PRIVATE, file),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping of our own.
        let at = unsafe { libc::mmap(ptr::null_mut(), self.setting.region_bytes, access, flags, file, 0) };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
    }

    /// Touches the pages of one task's share of the region and gives them back.
    fn touch_share(&self, shared: &Shared, task: usize) {
        let Some(Region(region)) = self.region else { return };
        let share = (self.setting.region_bytes / self.setting.tasks / PAGE * PAGE).max(PAGE);
        // More tasks than pages: some share a page.
        let offset = (task * share) % self.setting.region_bytes;
        // SAFETY: the share lies inside the mapping: offset and share are multiples of the page size, and their sum is
        // at most the size of the region.
        let at = unsafe { region.add(offset) };
        touch(at, share, shared, shared.counter(task));
        // SAFETY: our own pages; their content does not matter.
        unsafe { libc::madvise(at.cast(), share, libc::MADV_DONTNEED) };
    }

    /// Each task on a CPU of its own, in turn, as will-it-scale does it. The storms are left to the scheduler, like the
    /// programs that they stand for.
    fn pin(&self, task: usize) {
        if self.cpus.is_empty() || matches!(self.workload, Workload::ExecStorm | Workload::ForkStorm) {
            return;
        }
        threads::bind_to(self.cpus[task % self.cpus.len()]);
    }

    fn take_and_release(&self) -> io::Result<()> {
        let Some(set) = self.semaphore else { return Ok(()) };
        for change in [-1, 1] {
            let mut operation = libc::sembuf { sem_num: 0, sem_op: change, sem_flg: 0 };
            // SAFETY: one valid operation on our own set.
            check(unsafe { libc::semop(set, &mut operation, 1) })?;
        }
        Ok(())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // SAFETY: closes and removes what `new` made; children leave by _exit and never come here.
        unsafe {
            if let Some(Region(at)) = self.region {
                libc::munmap(at.cast(), self.setting.region_bytes);
            }
            if let Some(file) = self.file {
                libc::close(file);
            }
            if let Some(set) = self.semaphore {
                libc::semctl(set, 0, libc::IPC_RMID);
            }
        }
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: unmaps what `map` mapped.
    unsafe { libc::munmap(at.cast(), bytes) };
}

/// Writes the first byte of each page; one operation per page.
fn touch(at: *mut u8, bytes: usize, shared: &Shared, counter: &AtomicU64) {
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: callers own `bytes` bytes from `at` on.
        unsafe { at.add(offset).write_volatile(1) };
        counter.fetch_add(1, Ordering::Relaxed);
        if shared.stop().load(Ordering::Relaxed) {
            break;
        }
    }
}

/// The child maps a few fresh pages, writes them and ends.
fn fork_once() -> io::Result<()> {
    // SAFETY: the child makes system calls only and writes memory that it mapped itself.
    let child = check(unsafe { libc::fork() })?;
    if child == 0 {
        let (flags, bytes) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, FORK_PAGES * PAGE);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping of this size; every write is inside of it.
        unsafe {
            let at = libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0);
            if at == libc::MAP_FAILED {
                libc::_exit(1);
            }
            for offset in (0..bytes).step_by(PAGE) {
                at.cast::<u8>().add(offset).write_volatile(1);
            }
            libc::_exit(0);
        }
    }
    await_child(child)
}

/// Forks in earnest (not vfork, as the standard library would), because copying the address space is the point.
fn exec_once() -> io::Result<()> {
    let path = c"/bin/true".as_ptr();
    // SAFETY: the child makes system calls only; the arguments are constants.
    let child = check(unsafe { libc::fork() })?;
    if child == 0 {
        // SAFETY: both arrays end in a null pointer.
        unsafe {
            libc::execve(path, [path, ptr::null()].as_ptr(), [ptr::null()].as_ptr());
            libc::_exit(127);
        }
    }
    await_child(child)
}

fn await_child(child: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: waits for our own child.
    check(unsafe { libc::waitpid(child, &mut status, 0) })?;
    match libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        true => Ok(()),
        false => Err(io::Error::other("a child failed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where other programs take the CPUs, no task may get its turn in a short measurement.
    fn works(workload: Workload, setting: Setting) -> bool {
        let longer = Setting { measure: Duration::from_secs(3), ..setting };
        [setting, longer].into_iter().any(|s| run(workload, s).unwrap().operations_per_s > 0.0)
    }

    #[test]
    fn every_workload_runs_as_threads() {
        for (name, workload) in ALL {
            let setting = Setting {
                tasks: 2,
                warmup: Duration::from_millis(5),
                measure: Duration::from_millis(60),
                region_bytes: 1 << 20,
                ..Setting::default()
            };
            assert!(works(workload, setting), "{name}");
            // More tasks than pages of the region.
            assert!(
                works(workload, Setting { tasks: 3, region_bytes: 2 * PAGE, ..setting }),
                "{name}, crowded"
            );
            assert_eq!(Workload::by_name(name), Some(workload));
        }
        assert_eq!(Workload::by_name("mmap2"), None);
    }

    /// The guest of the kernel recorder knows the same workloads and no others.
    #[test]
    fn the_guest_has_the_same_workloads() {
        let source = include_str!("../qemu/tussle-init.c");
        let mut there: Vec<&str> = source
            .split("strcmp(workload, \"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .filter(|name| !["run", "threads"].contains(name)) // a command of the user's
            .collect();
        there.sort_unstable();
        there.dedup();
        let mut here: Vec<&str> = ALL.iter().map(|w| w.0).collect();
        here.sort_unstable();
        assert_eq!(there, here);
        assert!(source.contains(&format!("PAGE = {PAGE}, FORK_PAGES = {FORK_PAGES}")));
    }

    #[test]
    fn settings_without_sense_are_refused() {
        let run =
            |tasks, region_bytes| run(Workload::Mmap1, Setting { tasks, region_bytes, ..Setting::default() });
        assert!(run(0, PAGE).is_err() && run(1, 5).is_err() && run(TASKS_MAX + 1, PAGE).is_err());
    }
}
