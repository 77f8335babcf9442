//! One run of one command: start, limit, wait, account.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tussle_bench::design::Slot;
use tussle_bench::metric::Extractor;
use tussle_bench::sample::{Sample, Status};

use super::counters::{self, Channel, Counters};
use super::machine::{self, CpuTime};
use super::{Plan, Program};

/// Most output kept of a run; the end is kept.
const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// How long to wait for output after the end of a process whose children keep the pipe open.
const LINGER: Duration = Duration::from_millis(200);

/// Runs one slot of a plan. The text is what an error message should quote.
pub(super) fn run_once(plan: &Plan, slot: Slot, position: usize, extractor: &Extractor) -> (Sample, String) {
    let mut sample = blank(slot, position);
    let before = machine::cpu_time();
    let started = Instant::now();
    let ended = match start(plan, slot.arm) {
        Ok((child, counters)) => {
            let ended = finish(child, plan.timeout);
            sample.counters = counters.read();
            ended
        }
        Err(e) => {
            sample.status = Status::NotStarted(e.to_string());
            return (sample, String::new());
        }
    };
    sample.wall_s = ended.at.duration_since(started).as_secs_f64();
    account(&mut sample, &ended, before, machine::cpu_time());
    sample.frequency_khz = machine::frequency_khz();
    sample.status = ended.status.clone();
    if sample.status == Status::Ok {
        let value = extractor.value(sample.wall_s, sample.cpu_s(), &ended.stdout);
        // Some benchmarks print their result on stderr.
        match value.or_else(|e| extractor.value(sample.wall_s, sample.cpu_s(), &ended.stderr).map_err(|_| e))
        {
            Ok(value) => sample.value = Some(value),
            Err(e) => sample.status = Status::NoMetric(e.to_string()),
        }
    }
    let said = if ended.stderr.trim().is_empty() { &ended.stdout } else { &ended.stderr };
    (sample, last_lines(said))
}

fn blank(slot: Slot, position: usize) -> Sample {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Sample {
        warmup: slot.warmup,
        started_s: since.as_secs_f64(),
        load: machine::load(),
        ..Sample::new(slot.pair, slot.arm, position, Status::Ok)
    }
}

fn account(sample: &mut Sample, ended: &Ended, before: Option<CpuTime>, after: Option<CpuTime>) {
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    let Some(usage) = &ended.usage else { return };
    let (user, system) = (seconds(usage.ru_utime), seconds(usage.ru_stime));
    sample.user_s = Some(user);
    sample.system_s = Some(system);
    let count = |n: libc::c_long| u64::try_from(n).ok();
    sample.switches_voluntary = count(usage.ru_nvcsw);
    sample.switches_forced = count(usage.ru_nivcsw);
    sample.faults_minor = count(usage.ru_minflt);
    sample.faults_major = count(usage.ru_majflt);
    if let (Some(before), Some(after)) = (before, after) {
        // Ticks of /proc/stat are coarser than rusage. A short run may come out below zero; cutting that off would make
        // the mean of many runs too large.
        sample.foreign_s = Some(after.busy_s - before.busy_s - user - system);
        sample.steal_s = Some((after.steal_s - before.steal_s).max(0.0));
    }
}

fn start(plan: &Plan, arm: usize) -> io::Result<(process::Child, Counters)> {
    let arm = &plan.arms[arm];
    let mut command = match &arm.program {
        Program::Shell(line) => {
            let mut sh = process::Command::new("/bin/sh");
            sh.arg("-c").arg(line);
            sh
        }
        Program::Argv(argv) => {
            let mut command = process::Command::new(&argv[0]);
            command.args(&argv[1..]);
            command
        }
    };
    if let Some(folder) = &arm.folder {
        command.current_dir(folder);
    }
    command.envs(arm.environment.iter().map(|(k, v)| (k, v)));
    let stdout = if plan.metric.needs_output() { Stdio::piped() } else { Stdio::null() };
    command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).process_group(0);
    let set = plan.cpus.as_deref().map(cpu_set).transpose()?;
    let fixed = plan.fixed_addresses;
    let channel = if plan.counters { Some(Channel::new()?) } else { None };
    let socket = channel.as_ref().map(Channel::child_end);
    let before_exec = move || {
        prepare(set.as_ref(), fixed)?;
        if let Some(socket) = socket {
            counters::open_in_child(socket);
        }
        Ok(())
    };
    // SAFETY: the closure calls async-signal-safe system calls only and touches no memory but its own copies.
    unsafe { command.pre_exec(before_exec) };
    let child = crate::interrupted::spawn(&mut command)?;
    Ok((child, channel.map(Channel::receive).unwrap_or_default()))
}

fn cpu_set(cpus: &[usize]) -> io::Result<libc::cpu_set_t> {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::other(format!("there is no CPU {cpu}")));
        }
        // SAFETY: the index was checked against the size of the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    Ok(set)
}

/// In the child, before exec: die with tussle, pin, fix addresses.
fn prepare(set: Option<&libc::cpu_set_t>, fixed_addresses: bool) -> io::Result<()> {
    // SAFETY: plain system calls with valid arguments.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if let Some(set) = set
            && libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) != 0
        {
            return Err(io::Error::last_os_error());
        }
        if fixed_addresses && libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

struct Ended {
    status: Status,
    at: Instant,
    usage: Option<libc::rusage>,
    stdout: String,
    stderr: String,
}

fn finish(mut child: process::Child, timeout: Option<Duration>) -> Ended {
    let exited = Arc::new(AtomicBool::new(false));
    let stdout = child.stdout.take().map(|pipe| collect(pipe, &exited));
    let stderr = child.stderr.take().map(|pipe| collect(pipe, &exited));
    let pid = child.id() as libc::pid_t;
    let watchdog = timeout.map(|limit| Watchdog::start(pid, limit));
    wait_without_reaping(pid);
    let at = Instant::now();
    let timed_out = watchdog.is_some_and(Watchdog::stop);
    let (raw, usage) = reap(pid);
    exited.store(true, Ordering::Release);
    let text =
        |reader: Option<thread::JoinHandle<String>>| reader.and_then(|r| r.join().ok()).unwrap_or_default();
    let status = match raw {
        _ if timed_out => Status::Timeout,
        Some(s) if libc::WIFSIGNALED(s) => Status::Signal(libc::WTERMSIG(s)),
        Some(s) if libc::WIFEXITED(s) && libc::WEXITSTATUS(s) != 0 => Status::Exit(libc::WEXITSTATUS(s)),
        Some(_) => Status::Ok,
        None => Status::NotStarted("its status could not be read".into()),
    };
    Ended { status, at, usage, stdout: text(stdout), stderr: text(stderr) }
}

/// Blocks until the child has ended but leaves it a zombie, so that its id cannot be reused while the watchdog may
/// kill it.
fn wait_without_reaping(pid: libc::pid_t) {
    loop {
        // SAFETY: siginfo_t is plain data that the call fills.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is valid for the call.
        let rc =
            unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, libc::WEXITED | libc::WNOWAIT) };
        if rc == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

fn reap(pid: libc::pid_t) -> (Option<libc::c_int>, Option<libc::rusage>) {
    let mut status = 0;
    // SAFETY: rusage is plain data that the call fills; both pointers are valid.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::wait4(pid, &mut status, 0, &mut usage) == pid {
            (Some(status), Some(usage))
        } else {
            (None, None)
        }
    }
}

/// Kills a process group when its time is over.
struct Watchdog {
    done: Arc<(Mutex<bool>, Condvar)>,
    thread: thread::JoinHandle<bool>,
}

impl Watchdog {
    fn start(pid: libc::pid_t, limit: Duration) -> Watchdog {
        let done = Arc::new((Mutex::new(false), Condvar::new()));
        let shared = Arc::clone(&done);
        let thread = thread::spawn(move || {
            let (lock, signal) = &*shared;
            let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = signal.wait_timeout_while(guard, limit, |done| !*done);
            let (done, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if !*done {
                // SAFETY: the leader is not reaped before `done` is set under this lock: the id is still ours.
                unsafe { libc::kill(-pid, libc::SIGKILL) };
            }
            !*done
        });
        Watchdog { done, thread }
    }

    /// Whether it had to kill.
    fn stop(self) -> bool {
        let (lock, signal) = &*self.done;
        *lock.lock().unwrap_or_else(PoisonError::into_inner) = true;
        signal.notify_all();
        self.thread.join().unwrap_or(false)
    }
}

/// Reads a pipe to its end, or, once the process has ended, until it stays silent for [`LINGER`].
fn collect(
    mut pipe: impl Read + AsRawFd + Send + 'static,
    exited: &Arc<AtomicBool>,
) -> thread::JoinHandle<String> {
    let exited = Arc::clone(exited);
    thread::spawn(move || {
        let mut kept: Vec<u8> = Vec::new();
        let mut chunk = [0; 16384];
        loop {
            let mut poll = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd.
            let ready = unsafe { libc::poll(&mut poll, 1, LINGER.as_millis() as libc::c_int) };
            if ready == 0 && exited.load(Ordering::Acquire) {
                break;
            }
            if ready <= 0 {
                continue;
            }
            match pipe.read(&mut chunk) {
                Ok(0) | Err(_) => break,
                Ok(n) => kept.extend_from_slice(&chunk[..n]),
            }
            if kept.len() > 2 * OUTPUT_BYTES_MAX {
                kept.drain(..kept.len() - OUTPUT_BYTES_MAX);
            }
        }
        String::from_utf8_lossy(&kept).into_owned()
    })
}

/// The last three lines with anything in them, short enough for a message.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(3)..].join(" / ");
    tail.chars().take(300).collect()
}
