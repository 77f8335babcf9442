//! Where bytes come from: a file is read in pieces, so that its size does not decide how much memory is needed.

use std::io;

/// Bytes at offsets. Implemented for byte slices here and for files by whoever does I/O.
pub trait Input {
    /// Bytes in all.
    fn size(&self) -> u64;

    /// Fills as much of `buffer` as there is from `offset` on and returns the number of bytes; 0 at the end.
    ///
    /// # Errors
    /// Those of the medium.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl Input for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let n = buffer.len().min(self.len() - start);
        buffer[..n].copy_from_slice(&self[start..start + n]);
        Ok(n)
    }
}

/// A section of at most `max` bytes as one piece; shorter where the input ends or cannot be read.
pub(crate) fn section(input: &dyn Input, offset: u64, size: u64, max: usize) -> Vec<u8> {
    let left = input.size().saturating_sub(offset).min(size);
    let mut out = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(max)];
    let n = fill(input, offset, &mut out).unwrap_or(0);
    out.truncate(n);
    out
}

/// Reads until `buffer` is full or the input ends.
///
/// # Errors
/// Those of [`Input::read_at`], when nothing could be read before.
pub(crate) fn fill(input: &dyn Input, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match input.read_at(offset.saturating_add(n as u64), &mut buffer[n..]) {
            Ok(0) => break,
            Ok(more) => n += more.min(buffer.len() - n),
            Err(e) if n == 0 => return Err(e),
            Err(_) => break,
        }
    }
    Ok(n)
}
