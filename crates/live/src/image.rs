//! A mapped file as far as sampling needs it: where its code lies and where functions begin.

use tussle_debuginfo::{Bytes, Elf, function_ranges, loads};

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

    /// Address in the file's own terms of a byte of the file.
    pub fn svma(&self, file_offset: u64) -> Option<u64> {
        let s = self.segments.iter().find(|s| {
            // A mapping begins at the page of the segment.
            let begin = s.file_offset / 4096 * 4096;
            begin <= file_offset && file_offset < s.file_offset.saturating_add(s.file_size)
        })?;
        Some(s.svma.wrapping_add(file_offset).wrapping_sub(s.file_offset))
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
