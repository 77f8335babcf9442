//! Bounded reading of integers in either byte order.

/// A cursor over bytes that never reads beyond them.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    data: &'a [u8],
    at: usize,
    swap: bool,
}

impl<'a> Bytes<'a> {
    /// Starts at the beginning. `swap`: the file is big endian.
    pub fn new(data: &'a [u8], swap: bool) -> Bytes<'a> {
        Bytes { data, at: 0, swap }
    }

    /// Bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    /// Position from the start.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(n)?;
        let out = self.data.get(self.at..end)?;
        self.at = end;
        Some(out)
    }

    /// Passes over `n` bytes.
    pub fn skip(&mut self, n: usize) -> Option<()> {
        self.take(n).map(|_| ())
    }

    /// Next 16 bits.
    pub fn u16(&mut self) -> Option<u16> {
        let b: [u8; 2] = self.take(2)?.try_into().ok()?;
        Some(if self.swap { u16::from_be_bytes(b) } else { u16::from_le_bytes(b) })
    }

    /// Next 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        let b: [u8; 4] = self.take(4)?.try_into().ok()?;
        Some(if self.swap { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) })
    }

    /// Next 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        let b: [u8; 8] = self.take(8)?.try_into().ok()?;
        Some(if self.swap { u64::from_be_bytes(b) } else { u64::from_le_bytes(b) })
    }

    /// Text up to the first NUL of the next `n` bytes.
    pub fn text(&mut self, n: usize) -> Option<String> {
        let raw = self.take(n)?;
        let end = raw.iter().position(|&b| b == 0).unwrap_or(raw.len());
        Some(String::from_utf8_lossy(&raw[..end]).into_owned())
    }

    /// Text up to the first NUL of everything that is left.
    pub fn text_rest(&mut self) -> String {
        let n = self.rest().len();
        self.text(n).unwrap_or_default()
    }
}
