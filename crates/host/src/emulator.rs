//! The emulator of `tussle record-kernel`: found, checked, equipped with our plugin, run for a bounded time.

mod disk;
mod files;
mod launch;
mod monitor;
pub mod newc;
mod root;
mod run;
mod snapshot;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub use disk::FileSystem;
pub use files::{Equipment, equipment};
pub use root::Root;
pub use run::{Event, Guest, run};

/// Environment variable that names another emulator.
pub const VARIABLE: &str = "TUSSLE_QEMU";

/// Oldest version that works: earlier ones lack parts of the plugin interface.
pub const VERSION_MIN: (u32, u32) = (10, 0);

/// Why a kernel could not be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// Not installed.
    #[error(
        "no emulator: `{0}` is not in PATH. Debian 12 has a new enough one in its backports: \
         scripts/install-emulator.sh installs it, or name one in {VARIABLE}"
    )]
    Missing(String),
    /// Too old.
    #[error(
        "{program} is version {found}, but 10.0 is needed (its plugin interface). Debian 12 has one in its \
         backports: scripts/install-emulator.sh installs it, or name one in {VARIABLE}"
    )]
    Old {
        /// Which program.
        program: String,
        /// What it says.
        found: String,
    },
    /// The plugin or the guest's init could not be compiled.
    #[error("{what} does not compile (a C compiler and a static C library are needed): {output}")]
    Compile {
        /// File.
        what: &'static str,
        /// Compiler's words.
        output: String,
    },
    /// The plugin and the guest's init cannot be kept.
    #[error(transparent)]
    Cache(#[from] crate::cache::CacheError),
    /// A file or process.
    #[error("{what}: {why}")]
    Io {
        /// What was tried.
        what: String,
        /// Why not; said here, and so no cause of its own.
        why: std::io::Error,
    },
    /// Too little room for the recording.
    #[error(
        "{folder} has {free_mib} MiB left, but a recording may need {needed_mib}: set TMPDIR to another folder"
    )]
    Room {
        /// Folder.
        folder: String,
        /// Free.
        free_mib: u64,
        /// Wanted.
        needed_mib: u64,
    },
    /// The recording could not be written, mostly because the disk filled up.
    #[error(
        "the recording could not be written to {folder} ({said}): make room, set TMPDIR to another folder, or \
         record less (--ops)"
    )]
    Unwritten {
        /// Folder of temporary files.
        folder: String,
        /// The system's word.
        said: String,
    },
    /// Nothing makes the disk's file system.
    #[error("no `mke2fs`, which makes the file system of the guest's disk: install e2fsprogs")]
    NoMke2fs,
    /// It did not work.
    #[error("mke2fs could not make the file system of the guest's disk ({status}): {said}")]
    Mke2fs {
        /// Exit status.
        status: String,
        /// What it said.
        said: String,
    },
    /// The guest took too long.
    #[error("the guest was still {phase} after {stuck} and was ended. It said last:\n{said}")]
    Timeout {
        /// `booting` or `working`.
        phase: &'static str,
        /// After what, in words.
        stuck: String,
        /// Last lines of its console.
        said: String,
    },
    /// The kernel panicked.
    #[error("the guest's kernel panicked:\n{said}")]
    Panic {
        /// Its console from there on.
        said: String,
    },
    /// The guest's disk is of no use to it.
    #[error(
        "the guest cannot use its disk ({said}): its kernel must have the driver for NVMe disks and the file system \
         built in, as Debian's cloud kernels do (scripts/fetch-kernel.sh)"
    )]
    Disk {
        /// What init said.
        said: String,
    },
    /// The workload failed.
    #[error("the workload failed in the guest: {said}")]
    Workload {
        /// What init said.
        said: String,
    },
    /// Anything else that ended the emulator.
    #[error("the emulator ended with status {status} before the workload did. It said:\n{said}")]
    Ended {
        /// Exit status.
        status: String,
        /// Console and stderr.
        said: String,
    },
}

impl EmulatorError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> EmulatorError {
        let what = what.into();
        move |why| EmulatorError::Io { what, why }
    }
}

/// An emulator that is new enough.
#[derive(Clone, Debug)]
pub struct Emulator {
    /// Program.
    pub program: PathBuf,
    /// `QEMU 10.0.2`.
    pub version: String,
}

/// Looks for the emulator and asks it for its version.
///
/// # Errors
/// [`EmulatorError::Missing`] or [`EmulatorError::Old`].
pub fn find() -> Result<Emulator, EmulatorError> {
    let program = std::env::var_os(VARIABLE).unwrap_or_else(|| OsString::from("qemu-system-x86_64"));
    let program = PathBuf::from(program);
    let shown = program.display().to_string();
    let output = Command::new(&program).arg("--version").output();
    let output = output.map_err(|_| EmulatorError::Missing(shown.clone()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match version(&text) {
        Some((major, minor, full)) if (major, minor) >= VERSION_MIN => {
            Ok(Emulator { program, version: format!("QEMU {full}") })
        }
        Some((_, _, full)) => Err(EmulatorError::Old { program: shown, found: full }),
        None => {
            let found = text.lines().next().unwrap_or("unknown").into();
            Err(EmulatorError::Old { program: shown, found })
        }
    }
}

/// Major, minor and the whole number out of `QEMU emulator version 10.0.2 (Debian ...)`.
pub(crate) fn version(text: &str) -> Option<(u32, u32, String)> {
    let full = text.split("version ").nth(1)?.split_whitespace().next()?;
    let mut parts = full.split('.').map(|p| p.parse().ok());
    Some((parts.next()??, parts.next()??, full.into()))
}

/// One boot.
#[derive(Clone, Debug)]
pub struct Boot {
    /// What is booted: an ELF vmlinux or a bzImage.
    pub kernel: PathBuf,
    /// The kernel's build-id or whatever names it; part of the snapshot's name.
    pub build_id: String,
    /// Begin where a snapshot of the same boot stopped, and keep one where there is none.
    pub snapshot: bool,
    /// vCPUs, 1 to 64.
    pub vcpus: u32,
    /// Memory, MiB; below 2048, where the guest's memory begins to have holes.
    pub memory_mib: u64,
    /// Instructions between forced changes of the vCPU.
    pub quantum: u32,
    /// Instructions of its turn that a vCPU loses with every transfer; 0 for none.
    pub feedback: u32,
    /// Accesses per window.
    pub window: u32,
    /// Count only while a program has a region of `tussle.h` open.
    pub regions: bool,
    /// Watch accesses; false only runs the workload, for comparison.
    pub record: bool,
    /// CPU time of the emulator for everything.
    pub timeout: Duration,
    /// The stream's limit in bytes.
    pub stream_bytes_max: u64,
    /// Words for init: workload, tasks, operations, pages, command.
    pub init: Vec<String>,
    /// Further files for the initramfs, `name in the guest → file here`.
    pub files: Vec<(String, PathBuf)>,
    /// Links in the initramfs, `name in the guest → what it says`.
    pub links: Vec<(String, String)>,
    /// All files lie on a disk with this file system, instead of in memory.
    pub disk: Option<FileSystem>,
    /// Lines for the plugin, from the kernel's symbol table.
    pub hooks: String,
    /// Further words on the kernel's command line.
    pub append: String,
}

/// A program for the guest together with the libraries that it loads, as the dynamic linker here finds them.
///
/// # Errors
/// The file cannot be read.
pub fn with_libraries(file: &Path, name: &str) -> Result<Vec<(String, PathBuf)>, EmulatorError> {
    let mut out = vec![(name.trim_start_matches('/').to_string(), file.to_path_buf())];
    let output = Command::new("ldd").arg(file).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    for path in text.split_whitespace().filter(|w| w.starts_with('/')) {
        out.push((path.trim_start_matches('/').into(), PathBuf::from(path)));
    }
    let io = EmulatorError::io(file.display().to_string());
    match file.metadata() {
        Ok(m) if m.is_dir() => Err(io(std::io::Error::other("it is a folder (--root takes one)"))),
        Ok(_) => Ok(out),
        Err(why) => Err(io(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions() {
        let read = |t: &str| version(t).map(|(a, b, full)| (a, b, full));
        let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright";
        assert_eq!(read(debian), Some((10, 0, "10.0.2".into())));
        assert_eq!(read("QEMU emulator version 7.2.17 (Debian)"), Some((7, 2, "7.2.17".into())));
        assert_eq!(read("something else"), None);
    }
}
