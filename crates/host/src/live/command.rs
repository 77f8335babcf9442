//! Starts a command that waits until its clock is open.

use super::error::LiveError;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// A process that has not begun to run its program.
pub(super) struct Waiting {
    pub pid: u32,
    ours: UnixStream,
    spawning: std::thread::JoinHandle<std::io::Result<Child>>,
    name: String,
}

impl Waiting {
    /// Forks; the child tells its number and waits for [`Waiting::run`].
    ///
    /// # Errors
    /// The command cannot be started.
    pub fn new(command: &[OsString]) -> Result<Waiting, LiveError> {
        let name = command.first().map(|c| c.to_string_lossy().into_owned()).unwrap_or_default();
        let wrong = |e| LiveError::Spawn(name.clone(), e);
        let (mut ours, theirs) = UnixStream::pair().map_err(wrong)?;
        let mut c = Command::new(command.first().cloned().unwrap_or_default());
        c.args(command.iter().skip(1));
        let fd = theirs.as_raw_fd();
        // SAFETY: only getpid, write and read, between fork and exec.
        unsafe {
            c.pre_exec(move || {
                let pid = (libc::getpid() as u32).to_ne_bytes();
                let mut go = 0u8;
                let told = libc::write(fd, pid.as_ptr().cast(), 4) == 4;
                let may = told && libc::read(fd, (&raw mut go).cast(), 1) == 1;
                if may { Ok(()) } else { Err(std::io::Error::from_raw_os_error(libc::ECANCELED)) }
            });
        }
        // `spawn` comes back when the program runs, or cannot.
        let spawning = std::thread::spawn(move || {
            let child = c.spawn();
            drop(theirs);
            child
        });
        let mut pid = [0; 4];
        if ours.read_exact(&mut pid).is_err() {
            let error = spawning.join().map_or_else(
                |_| std::io::Error::other("lost"),
                |r| r.err().unwrap_or_else(|| std::io::Error::other("lost")),
            );
            return Err(LiveError::Spawn(name, error));
        }
        Ok(Waiting { pid: u32::from_ne_bytes(pid), ours, spawning, name })
    }

    /// Lets it run.
    ///
    /// # Errors
    /// The program cannot be executed.
    pub fn run(mut self) -> Result<Child, LiveError> {
        let lost = || std::io::Error::other("the process ended before it ran its program");
        let wrote = self.ours.write_all(&[1]);
        let joined = self.spawning.join().unwrap_or_else(|_| Err(lost()));
        joined.and_then(|c| wrote.map(|()| c)).map_err(|e| LiveError::Spawn(self.name, e))
    }
}
