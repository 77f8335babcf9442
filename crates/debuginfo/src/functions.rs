//! Where functions begin and end, without reading debug information: symbol tables and unwind tables.

use gimli::UnwindSection;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};

use crate::elf::Elf;

/// Functions read of one file at most.
const FUNCTIONS_MAX: usize = 4 << 20;

/// First address and one past the last of every function that the symbol tables or `.eh_frame` know, in order. Stripped
/// C, C++ and Rust programs keep the latter.
pub fn function_ranges(elf: &Elf) -> Vec<(u64, u64)> {
    let file = elf.object();
    let code = |s: &object::Symbol| s.kind() == object::SymbolKind::Text && !s.is_undefined() && s.size() > 0;
    let mut out: Vec<(u64, u64)> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(code)
        .map(|s| (s.address(), s.address().saturating_add(s.size())))
        .take(FUNCTIONS_MAX)
        .collect();
    out.extend(unwound(elf).unwrap_or_default());
    out.sort_unstable();
    out.dedup();
    out
}

/// Functions with an entry in the unwind table.
fn unwound(elf: &Elf) -> Option<Vec<(u64, u64)>> {
    let section = elf.object().section_by_name(".eh_frame")?;
    let data = elf.section(".eh_frame").ok()?;
    let frames = gimli::EhFrame::new(&data, elf.endian());
    let bases = gimli::BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = frames.entries(&bases);
    let mut out = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(gimli::EhFrame::cie_from_offset) else { continue };
        let start = fde.initial_address();
        out.push((start, start.saturating_add(fde.len())));
        if out.len() >= FUNCTIONS_MAX {
            break;
        }
    }
    Some(out)
}

/// Loaded segments: address, offset in the file, bytes in the file.
pub fn loads(elf: &Elf) -> Vec<(u64, u64, u64)> {
    let of = |s: object::Segment| (s.address(), s.file_range().0, s.file_range().1);
    elf.object().segments().map(of).collect()
}
