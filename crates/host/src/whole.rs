//! Files that are read whole, under names that somebody gave.

use std::fs::{File, FileType};
use std::io::{Error, Read, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

/// Most that is read from a pipe or socket, bytes.
pub const STREAM_BYTES_MAX: u64 = 1 << 30;

/// How long a named pipe may be without a writer.
const WRITER_WAIT: Duration = Duration::from_secs(5);

/// `/dev/null` on Linux: major 1, minor 3.
const NULL_DEVICE: u64 = 0x103;

/// Before a file is opened: what it is.
///
/// # Errors
/// Devices are refused: a terminal waits for somebody, `/dev/zero` never ends. Only `/dev/null` passes, which is empty.
/// Else what the file system says.
pub fn check(path: &Path) -> Result<FileType> {
    let about = std::fs::metadata(path)?;
    let kind = about.file_type();
    if (kind.is_char_device() && about.rdev() != NULL_DEVICE) || kind.is_block_device() {
        return Err(Error::other("it is a device, not a file"));
    }
    Ok(kind)
}

/// What is in a regular file, or comes out of a pipe.
///
/// # Errors
/// Those of [`check`]; a pipe with more than [`STREAM_BYTES_MAX`], or that nobody writes into; else what the file
/// system says.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    read_within(path, WRITER_WAIT)
}

fn read_within(path: &Path, wait: Duration) -> Result<Vec<u8>> {
    if !check(path)?.is_fifo() {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    open_pipe(path, wait)?.take(STREAM_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > STREAM_BYTES_MAX {
        return Err(Error::other(format!("more than {} MiB come out of the pipe", STREAM_BYTES_MAX >> 20)));
    }
    Ok(bytes)
}

/// Opens a pipe once somebody has opened it for writing. It is a thread that waits: no call waits for so long only.
fn open_pipe(path: &Path, wait: Duration) -> Result<File> {
    let (to, from) = std::sync::mpsc::channel();
    let wanted = path.to_path_buf();
    std::thread::spawn(move || to.send(File::open(wanted)));
    let nobody = |_| Error::other(format!("nobody wrote into this pipe for {} s", wait.as_secs()));
    from.recv_timeout(wait).map_err(nobody)?
}

/// As [`read`], as text.
///
/// # Errors
/// Those of [`read`]; bytes that are no UTF-8.
pub fn read_to_string(path: &Path) -> Result<String> {
    String::from_utf8(read(path)?).map_err(|e| Error::new(std::io::ErrorKind::InvalidData, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_refused_and_pipes_are_read() {
        for device in ["/dev/zero", "/dev/full", "/dev/tty", "/dev/urandom"] {
            let Ok(about) = std::fs::metadata(device) else { continue };
            assert!(about.file_type().is_char_device());
            assert!(read(Path::new(device)).unwrap_err().to_string().contains("a device"), "{device}");
        }
        assert_eq!(read(Path::new("/dev/null")).unwrap(), b"");
        let (from, mut to) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut to, b"all of it").unwrap();
        drop(to);
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&from));
        assert_eq!(read_to_string(Path::new(&name)).unwrap(), "all of it");
    }

    #[test]
    fn a_pipe_without_a_writer_is_given_up() {
        if !tussle_testkit::need("mkfifo") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let pipe = |name: &str| {
            let path = dir.path().join(name);
            assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
            path
        };
        let refused = read_within(&pipe("silent"), Duration::from_millis(50)).unwrap_err();
        assert!(refused.to_string().contains("nobody wrote"), "{refused}");
        let path = pipe("written");
        let writer = {
            let path = path.clone();
            std::thread::spawn(move || std::fs::write(path, b"later").unwrap())
        };
        assert_eq!(read(&path).unwrap(), b"later");
        writer.join().unwrap();
    }
}
