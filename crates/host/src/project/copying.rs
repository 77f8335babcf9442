//! Copies of single files: no larger on the disk than what they are copies of, and none that leaves the disk full.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Smaller files are copied without a question, bytes.
const ASKED_FROM: u64 = 64 << 20;

/// What a copy leaves free for the builds in it, bytes.
const LEFT_FREE: u64 = 256 << 20;

/// Copies a file that may be read only into one that may be patched. Holes stay holes.
pub(crate) fn writable_copy(from: &Path, to: &Path) -> io::Result<()> {
    let file = fs::metadata(from)?;
    if file.len() >= ASKED_FROM {
        fits(bytes_on_disk(&file), to.parent().map(crate::record::room).filter(|free| *free > 0))?;
    }
    if bytes_on_disk(&file) < file.len() {
        without_holes(from, to, file.len())?;
        fs::set_permissions(to, file.permissions())?;
    } else {
        fs::copy(from, to)?;
    }
    let mode = fs::metadata(to)?.permissions().mode();
    fs::set_permissions(to, fs::Permissions::from_mode(mode | 0o200))
}

fn bytes_on_disk(file: &Metadata) -> u64 {
    file.blocks().saturating_mul(512)
}

/// # Errors
/// It is known that not so many bytes are free.
fn fits(bytes: u64, free: Option<u64>) -> io::Result<()> {
    let Some(free) = free.filter(|f| bytes.saturating_add(LEFT_FREE) > *f) else { return Ok(()) };
    let mib = |b: u64| b >> 20;
    let what = format!(
        "it has {} MiB, and the folder of temporary files {} MiB free; TMPDIR names another one",
        mib(bytes),
        mib(free)
    );
    Err(io::Error::new(io::ErrorKind::StorageFull, what))
}

/// Copies what a file of `len` bytes holds data at; the rest is a hole of the copy, too.
fn without_holes(from: &Path, to: &Path, len: u64) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = File::create(to)?;
    target.set_len(len)?;
    let mut at = 0;
    while let Some(start) = next(&source, at, libc::SEEK_DATA)? {
        let end = next(&source, start, libc::SEEK_HOLE)?.unwrap_or(len);
        source.seek(SeekFrom::Start(start))?;
        target.seek(SeekFrom::Start(start))?;
        io::copy(&mut (&source).take(end.saturating_sub(start)), &mut target)?;
        at = end;
    }
    Ok(())
}

/// Where the next data or the next hole begins; `None` behind the last data.
fn next(file: &File, at: u64, whence: libc::c_int) -> io::Result<Option<u64>> {
    let Ok(at) = libc::off_t::try_from(at) else { return Ok(None) };
    // SAFETY: lseek takes no pointer, and the descriptor is open.
    let found = unsafe { libc::lseek(file.as_raw_fd(), at, whence) };
    match u64::try_from(found) {
        Ok(found) => Ok(Some(found)),
        Err(_) => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            e => Err(e),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn holes_are_not_filled_and_data_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("disk"), dir.path().join("copy"));
        let mut file = File::create(&from).unwrap();
        file.set_len(1 << 40).unwrap();
        for at in [0, 5 << 20, (1 << 40) - 3] {
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(b"abc").unwrap();
        }
        drop(file);
        fs::set_permissions(&from, fs::Permissions::from_mode(0o500)).unwrap();
        writable_copy(&from, &to).unwrap();
        let copy = fs::metadata(&to).unwrap();
        assert_eq!((copy.len(), copy.permissions().mode() & 0o777), (1 << 40, 0o700));
        assert!(bytes_on_disk(&copy) < 1 << 20, "{}", bytes_on_disk(&copy));
        let mut copy = File::open(&to).unwrap();
        for (at, expected) in [(0, b"abc"), (5 << 20, b"abc"), (7 << 20, b"\0\0\0"), ((1 << 40) - 3, b"abc")]
        {
            let mut found = [1; 3];
            copy.seek(SeekFrom::Start(at)).unwrap();
            copy.read_exact(&mut found).unwrap();
            assert_eq!(&found, expected, "{at}");
        }
    }

    #[test]
    fn a_file_that_would_fill_the_disk_is_refused_before_it_is_copied() {
        fits(1 << 30, Some(2 << 30)).unwrap();
        fits(1 << 30, None).unwrap();
        let said = fits(2 << 30, Some(2 << 30)).unwrap_err().to_string();
        assert!(said.contains("2048 MiB") && said.contains("TMPDIR"), "{said}");
    }
}
