//! One guest from start to end, bounded in time and space, leaving nothing behind: the emulator dies with its parent.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use memmap2::Mmap;

use super::launch::{Files, Launch, Start, by_number};
use super::monitor::Monitor;
use super::snapshot::Snapshot;
use super::{Boot, Emulator, EmulatorError, Equipment};

/// What is kept of the console: its beginning, where the guest says how far it is, and its end.
const CONSOLE_BYTES_MAX: usize = 1 << 20;
const BEGINNING_BYTES: usize = 1 << 18;
/// Lines shown with an error.
const SAID_LINES: usize = 12;
/// Longest record that the plugin writes before the start marker.
const BOOT_RECORD_BYTES_MAX: u64 = 4096;
/// What init says first.
const READY: &str = "tussle-init: ";
/// What init says before the marker at which a snapshot is taken.
const UP: &str = "tussle-init: up";
/// What init says when the workload failed.
const FAILED: &str = "tussle-init: failed: ";
/// And behind it, when the disk was the reason.
const DISK: &str = "disk: ";
/// What the plugin says when the stream's disk is full.
const UNWRITTEN: &str = "tussle: cannot write the stream: ";

/// How far the guest is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The kernel has been booting for so long.
    Booting(Duration),
    /// The workload runs; so long since the start.
    Working(Duration),
    /// The booted guest was kept as a snapshot.
    Kept {
        /// Where.
        folder: PathBuf,
        /// Size.
        bytes: u64,
    },
    /// The guest begins as a snapshot.
    Restored {
        /// From here.
        folder: PathBuf,
    },
    /// There is a snapshot, but it does not serve.
    Damaged {
        /// Where it was.
        folder: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// No snapshot could be kept.
    NotKept {
        /// Why.
        why: String,
    },
}

/// What a finished guest leaves.
#[derive(Debug)]
pub struct Guest {
    /// Its memory.
    pub memory: Mmap,
    /// The plugin's stream.
    pub stream: Mmap,
    /// Console and messages.
    pub console: String,
}

/// Boots or restores a snapshot, waits for the stop marker, hands over memory and stream. `tell` is called about once a
/// second, and when something happens.
///
/// # Errors
/// Everything in [`EmulatorError`] that has to do with running.
pub fn run(
    emulator: &Emulator,
    equipment: &Equipment,
    boot: &Boot,
    tell: &mut dyn FnMut(Event),
) -> Result<Guest, EmulatorError> {
    let launch = Launch::new(emulator, equipment, boot)?;
    // The emulator cannot save the state of its disks.
    if !boot.snapshot || boot.disk.is_some() {
        return Attempt::begin(&launch, boot, Start::Boot)?.finish(None, tell);
    }
    let snapshot = Snapshot::new(&boot.build_id, launch.key()?)?;
    let folder = snapshot.folder().to_path_buf();
    match restored(&launch, boot, &snapshot) {
        Ok(None) => {}
        Ok(Some(attempt)) => {
            tell(Event::Restored { folder });
            return attempt.finish(None, tell);
        }
        Err(why) => {
            tell(Event::Damaged { folder, why });
            snapshot.remove();
        }
    }
    Attempt::begin(&launch, boot, Start::Hold)?.finish(Some(&snapshot), tell)
}

/// A guest that goes on from the snapshot; `None` when there is none, an error in words when it does not serve.
fn restored<'b>(launch: &Launch, boot: &'b Boot, snapshot: &Snapshot) -> Result<Option<Attempt<'b>>, String> {
    let files = launch.files().map_err(|e| e.to_string())?;
    // One whose stream a boot would have cut is of no use here; another limit may have kept it.
    if !snapshot.load(&files)? || cut(&files, boot).map_err(|e| e.to_string())? {
        return Ok(None);
    }
    let mut attempt = Attempt::spawn(launch, boot, Start::Restore, files).map_err(|e| e.to_string())?;
    let from = by_number(&attempt.files.state);
    match attempt.monitor.as_mut().map(|m| m.greet().and_then(|()| m.restore(&from)).and_then(|()| m.go_on()))
    {
        Some(Err(why)) => Err(attempt.with_last_words(why)),
        _ => Ok(Some(attempt)),
    }
}

/// The boot's stream may lack records because of the limit. How many is not part of a snapshot.
fn cut(files: &Files, boot: &Boot) -> std::io::Result<bool> {
    Ok(files.stream.metadata()?.len() + BOOT_RECORD_BYTES_MAX > boot.stream_bytes_max)
}

/// One emulator and its files.
struct Attempt<'b> {
    boot: &'b Boot,
    files: Files,
    monitor: Option<Monitor>,
    running: Running,
    said: Receiver<String>,
    console: String,
}

impl<'b> Attempt<'b> {
    fn begin(launch: &Launch, boot: &'b Boot, start: Start) -> Result<Attempt<'b>, EmulatorError> {
        let files = launch.files()?;
        Attempt::spawn(launch, boot, start, files)
    }

    fn spawn(
        launch: &Launch,
        boot: &'b Boot,
        start: Start,
        files: Files,
    ) -> Result<Attempt<'b>, EmulatorError> {
        let pair = match start {
            Start::Boot => None,
            Start::Hold | Start::Restore => Some(Monitor::pair().map_err(EmulatorError::io("a socket"))?),
        };
        let (monitor, theirs) = pair.unzip();
        let mut command = launch.command(&files, start, theirs.as_ref());
        let shown = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(EmulatorError::io(shown))?;
        let mut running = Running { child };
        let said = running.listen();
        Ok(Attempt { boot, files, monitor, running, said, console: String::new() })
    }

    /// Until the stop marker.
    fn finish(
        mut self,
        snapshot: Option<&Snapshot>,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Guest, EmulatorError> {
        let status = self.wait(snapshot, tell)?;
        while let Ok(text) = self.said.recv() {
            keep(&mut self.console, &text);
        }
        verdict(status, &self.console)?;
        let map = |file: &File, what: &str| {
            // SAFETY: anonymous files of our own; the emulator that wrote them has ended.
            unsafe { Mmap::map(file) }.map_err(EmulatorError::io(what))
        };
        let memory = map(&self.files.memory, "guest memory")?;
        Ok(Guest { memory, stream: map(&self.files.stream, "stream")?, console: self.console })
    }

    fn wait(
        &mut self,
        mut snapshot: Option<&Snapshot>,
        tell: &mut dyn FnMut(Event),
    ) -> Result<ExitStatus, EmulatorError> {
        let started = Instant::now();
        let mut limit = Limit::new(self.boot.timeout);
        let mut shown = Duration::ZERO;
        loop {
            while let Ok(text) = self.said.recv_timeout(Duration::from_millis(20)) {
                keep(&mut self.console, &text);
            }
            if let Some(status) = self.running.child.try_wait().map_err(EmulatorError::io("the emulator"))? {
                return Ok(status);
            }
            if let Some(snapshot) = snapshot.take_if(|_| self.console.contains(UP)) {
                tell(self.keep(snapshot)?);
            }
            let working = self.console.contains(READY);
            if started.elapsed() - shown > Duration::from_secs(1) {
                shown = started.elapsed();
                tell(if working { Event::Working(shown) } else { Event::Booting(shown) });
            }
            if self.console.contains("Kernel panic") {
                // It reboots, which ends the emulator; a moment for the rest of its words.
                std::thread::sleep(Duration::from_millis(300));
                self.said.try_iter().for_each(|text| keep(&mut self.console, &text));
                return Err(EmulatorError::Panic { said: from(&self.console, "Kernel panic") });
            }
            if let Some(stuck) = limit.over(cpu_time(self.running.child.id()), started.elapsed()) {
                let phase = if working { "working" } else { "booting" };
                return Err(EmulatorError::Timeout { phase, stuck, said: last_lines(&self.console) });
            }
        }
    }

    /// The guest stands still at its marker: keeps it, and lets it go on.
    fn keep(&mut self, snapshot: &Snapshot) -> Result<Event, EmulatorError> {
        let Some(monitor) = &mut self.monitor else { return Ok(Event::NotKept { why: "no monitor".into() }) };
        let to = by_number(&self.files.state);
        let stopped = monitor.greet().and_then(|()| monitor.await_stop());
        let kept = stopped.clone().and_then(|()| monitor.save(&to));
        let kept = kept.and_then(|()| match cut(&self.files, self.boot) {
            Ok(true) => Err("the recording is at its limit already".into()),
            Ok(false) => snapshot.keep(&self.files).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        });
        match stopped.and_then(|()| monitor.go_on()) {
            Ok(()) => {}
            Err(why) => {
                let said = self.with_last_words(why);
                return Err(EmulatorError::Ended { status: "unknown".into(), said });
            }
        }
        let folder = snapshot.folder().to_path_buf();
        Ok(match kept {
            Ok(bytes) => Event::Kept { folder, bytes },
            Err(why) => Event::NotKept { why: format!("{}: {why}", folder.display()) },
        })
    }

    /// Ends the emulator; what it said goes behind these words.
    fn with_last_words(&mut self, why: String) -> String {
        self.running.end();
        while let Ok(text) = self.said.recv() {
            keep(&mut self.console, &text);
        }
        match last_lines(&self.console) {
            said if said.is_empty() => why,
            said => format!("{why}: {said}"),
        }
    }
}

/// When a guest has had enough time. What it gets done follows the emulator's CPU time, whatever else this machine does
/// meanwhile; an emulator that gets nothing done at all stands still.
struct Limit {
    cpu: Duration,
    seen: Duration,
    /// Wall time at which the CPU time last grew.
    grew: Duration,
}

/// Wall time in which even an overloaded machine lets an emulator run for a moment.
const STILL_MAX: Duration = Duration::from_secs(60);

impl Limit {
    fn new(cpu: Duration) -> Limit {
        Limit { cpu, seen: Duration::ZERO, grew: Duration::ZERO }
    }

    /// Why it is over; `used` is `None` where the system does not tell, and wall time counts.
    fn over(&mut self, used: Option<Duration>, elapsed: Duration) -> Option<String> {
        let seconds = self.cpu.as_secs();
        let Some(used) = used else {
            return (elapsed > self.cpu).then(|| format!("{seconds} s (--timeout allows more)"));
        };
        if used > self.seen {
            (self.seen, self.grew) = (used, elapsed);
        }
        if used > self.cpu {
            return Some(format!("{seconds} s of the emulator's CPU time (--timeout allows more)"));
        }
        let still = elapsed.saturating_sub(self.grew);
        (still > STILL_MAX.min(self.cpu)).then(|| format!("{} s in which it did nothing", still.as_secs()))
    }
}

/// CPU time of a process: the fields utime and stime of /proc/PID/stat (proc(5)), in ticks.
fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; utime is the 12th word behind it.
    let rest = stat.rsplit_once(')')?.1;
    let ticks: u64 = rest.split_whitespace().skip(11).take(2).map(|w| w.parse().unwrap_or(0u64)).sum();
    // SAFETY: asks for a constant of the system.
    let per_s = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|n| *n > 0)?;
    Some(Duration::from_millis(ticks.saturating_mul(1000) / per_s))
}

/// The process, ended when this goes out of scope.
struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

impl Running {
    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Console and stderr as they come.
    fn listen(&mut self) -> Receiver<String> {
        let (send, receive) = mpsc::channel();
        let out = self.child.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>);
        let err = self.child.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>);
        for mut stream in out.into_iter().chain(err) {
            let send = send.clone();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    let _ = send.send(String::from_utf8_lossy(&buffer[..n]).into_owned());
                }
            });
        }
        receive
    }
}

fn verdict(status: ExitStatus, console: &str) -> Result<(), EmulatorError> {
    if console.contains("Kernel panic") {
        return Err(EmulatorError::Panic { said: from(console, "Kernel panic") });
    }
    match status.code() {
        Some(0) if console.contains(READY) => Ok(()),
        // EX_IOERR in the plugin.
        Some(74) => {
            let folder = std::env::temp_dir().display().to_string();
            Err(EmulatorError::Unwritten { folder, said: after(console, UNWRITTEN) })
        }
        // EX_NOINPUT in the plugin: the failure marker.
        Some(66) => {
            let said = match before_failure(console) {
                before if before.is_empty() => failure(console),
                before => format!("{}. The guest said last:\n{before}", failure(console)),
            };
            Err(match said.strip_prefix(DISK) {
                Some(said) => EmulatorError::Disk { said: said.into() },
                None => EmulatorError::Workload { said },
            })
        }
        _ => Err(EmulatorError::Ended { status: status.to_string(), said: last_lines(console) }),
    }
}

fn failure(console: &str) -> String {
    after(console, FAILED)
}

/// What programs and the kernel said between the start of the workload and its failure, the last lines of it.
fn before_failure(console: &str) -> String {
    let end = console.rfind(FAILED).unwrap_or(console.len());
    let all: Vec<&str> = console[..end].lines().collect();
    let from = all.iter().rposition(|l| l.contains(READY)).map_or(0, |i| i + 1);
    last_lines(&all[from..].join("\n"))
}

/// The rest of the last line that holds these words.
fn after(console: &str, words: &str) -> String {
    let line = console.lines().rev().find_map(|l| l.split(words).nth(1));
    line.unwrap_or("it did not say why").trim().into()
}

fn keep(console: &mut String, text: &str) {
    console.push_str(text);
    if console.len() > CONSOLE_BYTES_MAX {
        let border = |from: usize| (from..console.len()).find(|i| console.is_char_boundary(*i));
        if let (Some(from), Some(to)) =
            (border(BEGINNING_BYTES), border(console.len() - CONSOLE_BYTES_MAX / 2))
        {
            console.drain(from..to);
        }
    }
}

fn last_lines(console: &str) -> String {
    let lines: Vec<&str> = console.lines().filter(|l| !l.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(SAID_LINES)..].join("\n")
}

fn from(console: &str, word: &str) -> String {
    let at = console.find(word).unwrap_or(0);
    console[at..].lines().take(SAID_LINES).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_has_its_own_message() {
        use std::os::unix::process::ExitStatusExt;
        let console = "tussle-init: mmap1\ntussle: cannot write the stream: No space left on device\n";
        let said = verdict(ExitStatus::from_raw(74 << 8), console).unwrap_err().to_string();
        assert!(said.contains("(No space left on device): make room, set TMPDIR"), "{said}");
        assert!(verdict(ExitStatus::from_raw(0), console).is_ok());
    }

    #[test]
    fn a_busy_machine_takes_no_time_from_a_guest() {
        let s = Duration::from_secs;
        let mut limit = Limit::new(s(240));
        assert_eq!(limit.over(Some(s(1)), s(50)), None);
        assert_eq!(limit.over(Some(s(2)), s(100)), None);
        assert_eq!(limit.over(Some(s(200)), s(2000)), None, "ten times slower");
        assert!(limit.over(Some(s(241)), s(2001)).unwrap().contains("240 s of the emulator's CPU time"));
        let mut limit = Limit::new(s(240));
        assert_eq!(limit.over(Some(s(1)), s(1)), None);
        assert_eq!(limit.over(Some(s(1)), s(60)), None);
        assert_eq!(limit.over(Some(s(1)), s(62)).unwrap(), "61 s in which it did nothing");
        assert!(Limit::new(s(5)).over(None, s(6)).is_some());
        let before = cpu_time(std::process::id()).unwrap();
        while cpu_time(std::process::id()).unwrap() == before {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn consoles() {
        let console = "a\n\n[ 1.0] Kernel panic - not syncing: no init\nmore\n";
        assert_eq!(from(console, "Kernel panic"), "Kernel panic - not syncing: no init\nmore");
        let many: String = (1..=SAID_LINES + 1).map(|n| format!("{n}\n\n")).collect();
        assert!(last_lines(&many).starts_with("2\n3\n"));
        let failed = "up\ntussle-init: up\ntussle-init: run with 1 tasks, 3 operations each\n\
                      server: cannot bind: in use\n\
                      tussle-init: failed: /bin/server exited with status 3\n";
        assert_eq!(before_failure(failed), "server: cannot bind: in use");
        assert_eq!(
            verdict(std::os::unix::process::ExitStatusExt::from_raw(66 << 8), failed)
                .unwrap_err()
                .to_string(),
            "the workload failed in the guest: /bin/server exited with status 3. The guest said last:\n\
             server: cannot bind: in use"
        );
        let said = verdict(
            std::os::unix::process::ExitStatusExt::from_raw(66 << 8),
            "tussle-init: up\nnvme nvme0: Device not ready\n\
             tussle-init: failed: disk: mounting /dev/nvme0n1: No such file",
        );
        assert_eq!(
            said.unwrap_err().to_string(),
            "the guest cannot use its disk (mounting /dev/nvme0n1: No such file. The guest said last:\n\
             nvme nvme0: Device not ready): its kernel must have the driver for NVMe disks and the file system built \
             in, as Debian's cloud kernels do (scripts/fetch-kernel.sh)"
        );
        assert_eq!(
            failure("x\ntussle-init: failed: mmap: Cannot allocate memory\n"),
            "mmap: Cannot allocate memory"
        );
        let mut long = String::new();
        keep(&mut long, READY);
        (0..3).for_each(|_| keep(&mut long, &"é".repeat(CONSOLE_BYTES_MAX / 2)));
        keep(&mut long, "last");
        assert!(long.len() <= CONSOLE_BYTES_MAX + 4);
        assert!(long.starts_with(READY) && long.ends_with("last"), "how far it is, and what it said last");
    }
}
