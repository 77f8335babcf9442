//! One boot from start to end, bounded in time and space, leaving nothing behind.
//!
//! Guest memory, initramfs and hooks are anonymous files that the emulator opens by `/dev/fd`: whatever ends us, the
//! kernel frees them, and the emulator dies with its parent.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use memmap2::Mmap;

use super::newc::{Entry, archive};
use super::{Boot, Emulator, EmulatorError, Equipment};

/// Console lines kept.
const CONSOLE_BYTES_MAX: usize = 1 << 20;
/// Lines shown with an error.
const SAID_LINES: usize = 6;
/// What init says when everything is ready.
const READY: &str = "tussle-init: ";
/// What the plugin says when the stream's disk is full.
const UNWRITTEN: &str = "tussle: cannot write the stream: ";

/// How far the guest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The kernel boots.
    Booting,
    /// The workload runs.
    Working,
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

/// Boots, waits for the stop marker, hands over memory and stream. `progress` is called about once a second.
///
/// # Errors
/// Everything in [`EmulatorError`] that has to do with running.
pub fn run(
    emulator: &Emulator,
    equipment: &Equipment,
    boot: &Boot,
    progress: &mut dyn FnMut(Phase, Duration),
) -> Result<Guest, EmulatorError> {
    let memory = anonymous("guest memory")?;
    memory.set_len(boot.memory_mib << 20).map_err(EmulatorError::io("guest memory"))?;
    let initrd = filled("initramfs", &initramfs(equipment, boot)?)?;
    let hooks = filled("hooks", boot.hooks.as_bytes())?;
    let stream = stream_file(boot.stream_bytes_max)?;
    let mut command = command(emulator, equipment, boot, [&memory, &initrd, &hooks, &stream]);
    let child = command.spawn().map_err(EmulatorError::io(emulator.program.display().to_string()))?;
    let mut running = Running { child };
    let said = running.listen();
    let mut console = String::new();
    let status = running.wait(boot, &said, &mut console, progress)?;
    while let Ok(text) = said.recv() {
        keep(&mut console, &text);
    }
    verdict(status, &console)?;
    let map = |file: &File, what: &str| {
        // SAFETY: anonymous files of our own; the emulator that wrote them has ended.
        unsafe { Mmap::map(file) }.map_err(EmulatorError::io(what))
    };
    Ok(Guest { memory: map(&memory, "guest memory")?, stream: map(&stream, "stream")?, console })
}

/// The process, ended when this goes out of scope.
struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
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

    fn wait(
        &mut self,
        boot: &Boot,
        said: &Receiver<String>,
        console: &mut String,
        progress: &mut dyn FnMut(Phase, Duration),
    ) -> Result<ExitStatus, EmulatorError> {
        let started = Instant::now();
        let mut shown = Duration::ZERO;
        loop {
            while let Ok(text) = said.recv_timeout(Duration::from_millis(20)) {
                keep(console, &text);
            }
            if let Some(status) = self.child.try_wait().map_err(EmulatorError::io("the emulator"))? {
                return Ok(status);
            }
            let phase = if console.contains(READY) { Phase::Working } else { Phase::Booting };
            if started.elapsed() - shown > Duration::from_secs(1) {
                shown = started.elapsed();
                progress(phase, shown);
            }
            if console.contains("Kernel panic") {
                // It reboots, which ends the emulator; a moment for the rest of its words.
                std::thread::sleep(Duration::from_millis(300));
                said.try_iter().for_each(|text| keep(console, &text));
                return Err(EmulatorError::Panic { said: from(console, "Kernel panic") });
            }
            if started.elapsed() > boot.timeout {
                let phase = if phase == Phase::Working { "working" } else { "booting" };
                let seconds = boot.timeout.as_secs();
                return Err(EmulatorError::Timeout { phase, seconds, said: last_lines(console) });
            }
        }
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
        Some(66) => Err(EmulatorError::Workload { said: failure(console) }),
        _ => Err(EmulatorError::Ended { status: status.to_string(), said: last_lines(console) }),
    }
}

fn failure(console: &str) -> String {
    after(console, "tussle-init: failed: ")
}

/// The rest of the last line that holds these words.
fn after(console: &str, words: &str) -> String {
    let line = console.lines().rev().find_map(|l| l.split(words).nth(1));
    line.unwrap_or("it did not say why").trim().into()
}

fn keep(console: &mut String, text: &str) {
    console.push_str(text);
    if console.len() > CONSOLE_BYTES_MAX {
        let cut = (console.len() - CONSOLE_BYTES_MAX / 2..).find(|i| console.is_char_boundary(*i));
        console.drain(..cut.unwrap_or(0));
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

/// A file without a name, inherited by the emulator.
fn anonymous(what: &'static str) -> Result<File, EmulatorError> {
    // SAFETY: a constant name; the descriptor is owned by the file.
    let fd = unsafe { libc::memfd_create(c"tussle".as_ptr(), 0) };
    if fd < 0 {
        return Err(EmulatorError::io(what)(std::io::Error::last_os_error()));
    }
    // SAFETY: a fresh descriptor.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn filled(what: &'static str, bytes: &[u8]) -> Result<File, EmulatorError> {
    let mut file = anonymous(what)?;
    file.write_all(bytes).map_err(EmulatorError::io(what))?;
    Ok(file)
}

/// The stream may be larger than memory: a deleted file in the folder for temporary files, if there is room.
fn stream_file(needed: u64) -> Result<File, EmulatorError> {
    let folder = std::env::temp_dir();
    let shown = folder.display().to_string();
    let file = tempfile::tempfile_in(&folder).map_err(EmulatorError::io(shown.clone()))?;
    // SAFETY: zero is a valid value; the call fills it.
    let free = unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        match libc::fstatvfs(file.as_raw_fd(), &mut stat) {
            0 => stat.f_bavail.saturating_mul(stat.f_frsize),
            _ => u64::MAX,
        }
    };
    if free < needed {
        let (free_mib, needed_mib) = (free >> 20, needed >> 20);
        return Err(EmulatorError::Room { folder: shown, free_mib, needed_mib });
    }
    // SAFETY: clears close-on-exec of our own descriptor.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) };
    Ok(file)
}

fn initramfs(equipment: &Equipment, boot: &Boot) -> Result<Vec<u8>, EmulatorError> {
    let read =
        |path: &std::path::Path| std::fs::read(path).map_err(EmulatorError::io(path.display().to_string()));
    let init = read(&equipment.init)?;
    let mut entries = vec![
        ("dev/console".to_string(), Entry::Device(5, 1)),
        ("bin/true".to_string(), Entry::File(init.clone())),
        ("init".to_string(), Entry::File(init)),
    ];
    for (name, path) in &boot.files {
        entries.push((name.clone(), Entry::File(read(path)?)));
    }
    archive(&entries)
        .ok_or_else(|| EmulatorError::io("initramfs")(std::io::Error::other("a file is too large")))
}

/// The recipe that makes two runs the same: one thread, a clock that counts instructions, no entropy, fixed start
/// of time. `hypervisor=off` because Linux takes test-and-set instead of queued spinlocks under a hypervisor;
/// `erms`/`fsrm` off because byte-wise string instructions make eight accesses out of one word.
fn command(emulator: &Emulator, equipment: &Equipment, boot: &Boot, files: [&File; 4]) -> Command {
    let [memory, initrd, hooks, stream] = files.map(|f| format!("/dev/fd/{}", f.as_raw_fd()));
    let mib = boot.memory_mib;
    let append = format!(
        "nokaslr slab_nomerge mitigations=off cryptomgr.notests tsc=reliable initcall_blacklist=jent_mod_init \
         console=ttyS0 quiet panic=-1 {} -- tussle {}",
        boot.append,
        boot.init.join(" ")
    );
    let record = if boot.record { "on" } else { "off" };
    let plugin = format!(
        "{},out={stream},record={record},quantum={},window={},bytes={},hooks={hooks}",
        equipment.plugin.display(),
        boot.quantum,
        boot.window,
        boot.stream_bytes_max
    );
    let mut command = Command::new(&emulator.program);
    command
        .args(["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-seed", "1"])
        .args(["-rtc", "base=2024-01-01T00:00:00,clock=vm"])
        .args(["-cpu", "max,la57=off,rdrand=off,rdseed=off,hypervisor=off,erms=off,fsrm=off"])
        .args(["-machine", "pc,usb=off,memory-backend=memory", "-smp", &boot.vcpus.to_string()])
        .args(["-m", &format!("{mib}M"), "-object"])
        .arg(format!("memory-backend-file,id=memory,size={mib}M,mem-path={memory},share=on"))
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-no-reboot"])
        .args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"])
        .arg("-kernel")
        .arg(&boot.kernel)
        .args(["-initrd", &initrd, "-append", &append, "-plugin", &plugin])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: prctl is async-signal-safe; the emulator shall not outlive us.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    command
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
    fn consoles() {
        let console = "a\n\n[ 1.0] Kernel panic - not syncing: no init\nmore\n";
        assert_eq!(from(console, "Kernel panic"), "Kernel panic - not syncing: no init\nmore");
        assert_eq!(last_lines("1\n2\n\n3\n4\n5\n6\n7\n"), "2\n3\n4\n5\n6\n7");
        assert_eq!(
            failure("x\ntussle-init: failed: mmap: Cannot allocate memory\n"),
            "mmap: Cannot allocate memory"
        );
        let mut long = String::new();
        (0..3).for_each(|_| keep(&mut long, &"é".repeat(CONSOLE_BYTES_MAX / 2)));
        assert!(long.len() <= CONSOLE_BYTES_MAX);
    }
}
