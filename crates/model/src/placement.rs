//! Where in a line an object can begin.
//!
//! An allocator that aligns objects to less than a line gives them several *phases*: the offset of the object's first
//! byte within its line. Almost every question about sharing has one answer per phase.

use crate::line::LineSize;

/// Alignment and stride of the places where objects of one kind begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Placement {
    /// Alignment of every object in bytes, a power of two.
    pub align: u64,
    /// Distance from one object to the next in bytes, if they lie in an array or slab.
    pub stride: Option<u64>,
    /// Offset of the first object from a line boundary, bytes, when `stride` is given.
    pub first: u64,
}

impl Placement {
    /// Objects aligned to `align` bytes, nothing else known.
    pub fn aligned(align: u64) -> Placement {
        Placement { align: align.max(1).next_power_of_two(), stride: None, first: 0 }
    }

    /// Objects in an array that starts at `first` bytes past a line boundary.
    pub fn array(stride: u64, first: u64) -> Placement {
        let align = 1u64 << stride.max(1).trailing_zeros();
        Placement { align, stride: Some(stride), first }
    }

    /// Possible phases in ascending order, in bytes. Never empty; at most one per byte of a line.
    pub fn phases(&self, line: LineSize) -> Vec<u64> {
        let line = line.bytes();
        let step = match self.stride {
            Some(s) => gcd(s, line),
            None => self.align.min(line),
        };
        let start = self.first % step.max(1);
        (0..line / step.max(1)).map(|i| start + i * step).collect()
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_alignment_and_stride() {
        assert_eq!(Placement::aligned(64).phases(LineSize::L64), [0]);
        assert_eq!(Placement::aligned(8).phases(LineSize::L64).len(), 8);
        assert_eq!(Placement::aligned(16).phases(LineSize::L128).len(), 8);
        // ext4_inode_cache: stride 1128 = 8 * 141, so every phase occurs.
        assert_eq!(Placement::array(1128, 0).phases(LineSize::L64).len(), 8);
        assert_eq!(Placement::array(192, 0).phases(LineSize::L64), [0]);
        assert_eq!(Placement::array(104, 0).phases(LineSize::L64).len(), 8);
    }
}
