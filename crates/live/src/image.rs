//! A mapped file as far as sampling needs it: where its code lies and where functions begin.

use tussle_debuginfo::{Bytes, Elf, function_ranges, loads};

/// The loader maps whole pages.
const PAGE: u64 = 4096;

/// A loaded part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    file_offset: u64,
    svma: u64,
    file_size: u64,
}

/// One file.
pub struct Image {
    bytes: Bytes,
    segments: Vec<Segment>,
    /// First address and one past the last, in order.
    functions: Vec<(u64, u64)>,
    /// Hex.
    pub build_id: Option<String>,
    /// Code of 32-bit x86.
    pub is_32_bit: bool,
}

impl Image {
    /// Reads an ELF file; `None` for anything else.
    pub fn read(bytes: Bytes) -> Option<Image> {
        let elf = Elf::parse((*bytes).as_ref()).ok()?;
        let segment = |(svma, file_offset, file_size)| Segment { file_offset, svma, file_size };
        let segments = loads(&elf).into_iter().map(segment).collect();
        let functions = function_ranges(&elf);
        let build_id = elf.build_id().map(|id| id.iter().map(|b| format!("{b:02x}")).collect());
        let is_32_bit = elf.pointer_size() == 4;
        drop(elf);
        Some(Image { segments, functions, build_id, is_32_bit, bytes })
    }

    /// Run-time address minus address in the file's own terms, for a mapping of these bytes of the file to `start`.
    /// Segments may share pages of the file: the mapping is that of the segment that begins on its first page, or,
    /// where it was split later, of the one with most bytes in it.
    pub fn bias(&self, start: u64, file_offset: u64, bytes: u64) -> Option<u64> {
        let overlap = |s: &Segment| {
            let end = s.file_offset.saturating_add(s.file_size).min(file_offset.saturating_add(bytes));
            end.saturating_sub(s.file_offset.max(file_offset))
        };
        let begins = |s: &Segment| s.file_offset / PAGE * PAGE == file_offset;
        let s = self.segments.iter().filter(|s| overlap(s) > 0).max_by_key(|s| (begins(s), overlap(s)))?;
        Some(start.wrapping_sub(file_offset).wrapping_sub(s.svma.wrapping_sub(s.file_offset)))
    }

    /// Bytes at an address of the file, up to `size`.
    pub fn code(&self, svma: u64, size: u64) -> Option<&[u8]> {
        let s = self.segments.iter().find(|s| s.svma <= svma && svma - s.svma < s.file_size)?;
        let inside = svma - s.svma;
        let start = usize::try_from(s.file_offset.checked_add(inside)?).ok()?;
        let size = usize::try_from(size.min(s.file_size - inside)).ok()?;
        let all = (*self.bytes).as_ref().get(start..)?;
        Some(&all[..size.min(all.len())])
    }

    /// The function that holds an address: its first and one past its last.
    pub fn function(&self, svma: u64) -> Option<(u64, u64)> {
        let end = self.functions.partition_point(|f| f.0 <= svma);
        self.functions[..end].iter().rev().take(4).find(|f| svma < f.1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// As lld and gold lay out files: segments share pages of the file and have a page of their own in memory.
    #[test]
    fn mappings_belong_to_the_segment_that_begins_in_them() {
        let segment = |file_offset, svma, file_size| Segment { file_offset, svma, file_size };
        let image = Image {
            bytes: Arc::new(Vec::new()),
            segments: vec![
                segment(0, 0, 0x6e3c),
                segment(0x6e40, 0x7e40, 0x44000),
                segment(0x4ae40, 0x4ce40, 0x2000),
            ],
            functions: Vec::new(),
            build_id: None,
            is_32_bit: false,
        };
        let base = 0x5500_0000_0000;
        for (address, offset, bytes) in
            [(0, 0, 0x7000), (0x7000, 0x6000, 0x45000), (0x4c000, 0x4a000, 0x3000)]
        {
            assert_eq!(image.bias(base + address, offset, bytes), Some(base), "{offset:#x}");
        }
        // Made read-only after relocation, the data's mapping is two.
        assert_eq!(image.bias(base + 0x4d000, 0x4b000, 0x2000), Some(base));
        assert_eq!(image.bias(base, 0x100_0000, 0x1000), None);
    }
}
