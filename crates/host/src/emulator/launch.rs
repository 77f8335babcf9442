//! What an emulator is started with: its files, its command line, and what of both a snapshot depends on.
//!
//! All files are anonymous ones that the emulator opens by `/dev/fd`: whatever ends us, the kernel frees them.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::disk::Disk;
use super::newc::{Entry, archive};
use super::root::through;
use super::{Boot, Emulator, EmulatorError, Equipment};

/// Bytes that the guest's init is given its words in, always as many: firmware remembers sizes, and a snapshot serves
/// every workload.
pub(super) const WORDS_BYTES: usize = 4096;

/// What is the same for all runs of one boot.
pub(super) struct Launch<'a> {
    emulator: &'a Emulator,
    equipment: &'a Equipment,
    boot: &'a Boot,
    initramfs: Vec<u8>,
}

/// Open files of one emulator.
pub(super) struct Files {
    /// Guest memory.
    pub memory: File,
    /// The plugin's stream.
    pub stream: File,
    /// State of the devices.
    pub state: File,
    disk: Option<Disk>,
    initrd: File,
    hooks: File,
    words: File,
}

#[cfg(test)]
impl Files {
    /// Files with nothing in them.
    pub(super) fn empty(memory_bytes: u64) -> Files {
        let file = || anonymous("test").unwrap();
        let files = Files {
            memory: file(),
            stream: file(),
            state: file(),
            disk: None,
            initrd: file(),
            hooks: file(),
            words: file(),
        };
        files.memory.set_len(memory_bytes).unwrap();
        files
    }
}

/// How a guest starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Boots and works.
    Boot,
    /// Boots, and stops before it is told what to do.
    Hold,
    /// Begins where another stopped.
    Restore,
}

impl<'a> Launch<'a> {
    pub(super) fn new(
        emulator: &'a Emulator,
        equipment: &'a Equipment,
        boot: &'a Boot,
    ) -> Result<Launch<'a>, EmulatorError> {
        let initramfs = initramfs(equipment, boot)?;
        Ok(Launch { emulator, equipment, boot, initramfs })
    }

    /// Everything that decides how the guest is when it has booted, as text.
    pub(super) fn key(&self) -> Result<String, EmulatorError> {
        let sum = |bytes: &[u8]| format!("{} bytes, checksum {:08x}", bytes.len(), crc32fast::hash(bytes));
        let of = |path: &Path| {
            let io = || EmulatorError::io(path.display().to_string());
            let file = File::open(path).map_err(io())?;
            // SAFETY: read only; a file that shrinks meanwhile would end us, as any debugger.
            let bytes = unsafe { memmap2::Mmap::map(&file) }.map_err(io())?;
            Ok::<_, EmulatorError>(sum(&bytes))
        };
        let program =
            crate::cc::search(self.emulator.program.as_os_str()).and_then(|p| std::fs::metadata(p).ok());
        let program = program.map(|m| format!("{} bytes of {}", m.len(), m.mtime())).unwrap_or_default();
        let lines = [
            format!("emulator {} {program}", self.emulator.version),
            format!("machine {}", self.machine("guest").join(" ")),
            format!("arguments {}", self.kernel_arguments()),
            format!("kernel {} {}", self.boot.build_id, of(&self.boot.kernel)?),
            format!("initramfs {}", sum(&self.initramfs)),
            format!("hooks {}", sum(self.boot.hooks.as_bytes())),
            format!("plugin {}", of(&self.equipment.plugin)?),
        ];
        Ok(lines.join("\n"))
    }

    pub(super) fn files(&self) -> Result<Files, EmulatorError> {
        let memory = anonymous("guest memory")?;
        memory.set_len(self.boot.memory_mib << 20).map_err(EmulatorError::io("guest memory"))?;
        Ok(Files {
            memory,
            stream: stream_file(self.boot.stream_bytes_max)?,
            state: anonymous("device state")?,
            disk: self.boot.disk.map(Disk::new).transpose()?,
            initrd: filled("initramfs", &self.initramfs)?,
            hooks: filled("hooks", self.boot.hooks.as_bytes())?,
            words: filled("words for init", &self.words()?)?,
        })
    }

    fn words(&self) -> Result<Vec<u8>, EmulatorError> {
        let mut bytes = Vec::new();
        let disk = self.boot.disk.iter().flat_map(|file_system| ["disk", file_system.name()]);
        for word in disk.chain(self.boot.init.iter().map(String::as_str)) {
            bytes.extend(word.bytes());
            bytes.push(0);
        }
        if bytes.len() >= WORDS_BYTES {
            let why = std::io::Error::other(format!("longer than {WORDS_BYTES} bytes"));
            return Err(EmulatorError::io("the guest's command")(why));
        }
        bytes.resize(WORDS_BYTES, 0);
        Ok(bytes)
    }

    /// The recipe that makes two runs the same: one thread, a clock that counts instructions, no entropy, fixed start
    /// of time. `hypervisor=off` because Linux takes test-and-set instead of queued spinlocks under a hypervisor;
    /// `erms`/`fsrm` off because byte-wise string instructions make eight accesses out of one word.
    fn machine(&self, memory: &str) -> Vec<String> {
        let (mib, vcpus) = (self.boot.memory_mib, self.boot.vcpus);
        let words = format!(
            "-accel tcg,thread=single -icount shift=0,sleep=off -seed 1 -rtc base=2024-01-01T00:00:00,clock=vm \
             -cpu max,la57=off,rdrand=off,rdseed=off,hypervisor=off,erms=off,fsrm=off \
             -machine pc,usb=off,memory-backend=memory -smp {vcpus} -m {mib}M \
             -object memory-backend-file,id=memory,size={mib}M,mem-path={memory},share=on \
             -nodefaults -no-user-config -display none -no-reboot \
             -chardev stdio,id=console,signal=off -serial chardev:console"
        );
        words.split(' ').map(String::from).collect()
    }

    fn kernel_arguments(&self) -> String {
        format!(
            "nokaslr slab_nomerge mitigations=off cryptomgr.notests tsc=reliable \
             initcall_blacklist=jent_mod_init console=ttyS0 quiet panic=-1 {}",
            self.boot.append
        )
        .trim_end()
        .into()
    }

    fn plugin(&self, files: &Files, start: Start) -> String {
        let boot = self.boot;
        format!(
            "{},out={},record={},quantum={},feedback={},window={},bytes={},hooks={}{}{}{}",
            self.equipment.plugin.display(),
            by_number(&files.stream),
            if boot.record { "on" } else { "off" },
            boot.quantum,
            boot.feedback,
            boot.window,
            boot.stream_bytes_max,
            by_number(&files.hooks),
            if boot.regions { ",regions=on" } else { "" },
            if start == Start::Hold { ",hold=on" } else { "" },
            if files.disk.is_some() { ",disk=on" } else { "" }
        )
    }

    /// The command; `monitor` is the emulator's end of the connection for all but a plain boot.
    pub(super) fn command(&self, files: &Files, start: Start, monitor: Option<&OwnedFd>) -> Command {
        let mut command = Command::new(&self.emulator.program);
        command
            .args(self.machine(&by_number(&files.memory)))
            .arg("-kernel")
            .arg(&self.boot.kernel)
            .args(["-initrd", &by_number(&files.initrd), "-append", &self.kernel_arguments()])
            .args(["-fw_cfg", &format!("name=opt/tussle,file={}", by_number(&files.words))])
            .args(["-plugin", &self.plugin(files, start)])
            .args(files.disk.iter().flat_map(Disk::arguments))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        match monitor {
            None => command.args(["-monitor", "none"]),
            Some(fd) => command
                .args(["-chardev", &format!("socket,id=monitor,fd={}", fd.as_raw_fd())])
                .args(["-mon", "chardev=monitor,mode=control"]),
        };
        if start == Start::Restore {
            command.args(["-incoming", "defer"]);
        }
        // SAFETY: prctl is async-signal-safe; the emulator shall not outlive us.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        command
    }
}

/// How the emulator opens one of our files.
pub(super) fn by_number(file: &File) -> String {
    format!("/dev/fd/{}", file.as_raw_fd())
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

pub(super) fn filled(what: &'static str, bytes: &[u8]) -> Result<File, EmulatorError> {
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
    inherit(&file);
    Ok(file)
}

/// Programs that are started from now on have it, too.
pub(super) fn inherit(file: &impl AsRawFd) {
    // SAFETY: clears close-on-exec of our own descriptor.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) };
}

fn initramfs(equipment: &Equipment, boot: &Boot) -> Result<Vec<u8>, EmulatorError> {
    let read = |path: &Path| std::fs::read(path).map_err(EmulatorError::io(path.display().to_string()));
    let init = read(&equipment.init)?;
    let mut entries = vec![
        ("dev/console".to_string(), Entry::Device(5, 1)),
        ("bin/true".to_string(), Entry::File(init.clone())),
        ("init".to_string(), Entry::File(init)),
    ];
    for (name, path) in &boot.files {
        entries.push((name.clone(), Entry::File(read(path)?)));
    }
    let links = boot.links.iter().map(|(name, target)| (name.as_str(), target.as_str())).collect();
    entries.iter_mut().for_each(|(name, _)| *name = through(&links, name));
    entries.extend(boot.links.iter().map(|(name, target)| (name.clone(), Entry::Link(target.clone()))));
    archive(&entries)
        .ok_or_else(|| EmulatorError::io("initramfs")(std::io::Error::other("a file is too large")))
}
