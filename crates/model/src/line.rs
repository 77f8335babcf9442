//! Cache lines as arithmetic.

/// A power-of-two line size in bytes: 64 on x86-64 and most Arm, 128 on Apple, POWER and as an adjacent-line pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct LineSize(u32);

impl LineSize {
    /// The common size.
    pub const L64: LineSize = LineSize(64);
    /// Line pairs and 128-byte machines.
    pub const L128: LineSize = LineSize(128);

    /// `None` unless a power of two from 8 to 65,536.
    pub fn new(bytes: u32) -> Option<LineSize> {
        (bytes.is_power_of_two() && (8..=65_536).contains(&bytes)).then_some(LineSize(bytes))
    }

    /// Bytes in a line.
    pub fn bytes(self) -> u64 {
        u64::from(self.0)
    }

    /// Index of the line that holds byte `at`.
    pub fn index(self, at: u64) -> u64 {
        at / self.bytes()
    }

    /// Offset of byte `at` inside its line.
    pub fn offset(self, at: u64) -> u64 {
        at % self.bytes()
    }

    /// Lines touched by `size` bytes from `at`. A size of 0 touches none.
    pub fn span(self, at: u64, size: u64) -> LineSpan {
        let first = self.index(at);
        let end = if size == 0 { first } else { self.index(at.saturating_add(size - 1)) + 1 };
        LineSpan { first, end }
    }
}

/// Half-open range of line indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineSpan {
    /// First line.
    pub first: u64,
    /// One past the last.
    pub end: u64,
}

impl LineSpan {
    /// Number of lines.
    pub fn lines(self) -> u64 {
        self.end - self.first
    }

    /// More than one line.
    pub fn straddles(self) -> bool {
        self.lines() > 1
    }

    /// At least one line in common.
    pub fn meets(self, other: LineSpan) -> bool {
        self.first < other.end && other.first < self.end
    }
}
