//! Where the addresses of a mapped file's debug information lie at run time.

use crate::bytes::Bytes;
use crate::tables::KERNEL_PROCESS;
use std::collections::HashMap;
use tussle_evidence::Evidence;

/// A `PT_LOAD` header: file offset, address, bytes in the file, executable.
type Load = (u64, u64, u64, bool);

/// Program headers read at most.
const HEADERS_MAX: usize = 1024;

/// Loadable segments of a little-endian 64-bit ELF file; empty for anything else.
fn loads(data: &[u8]) -> Vec<Load> {
    let mut out = Vec::new();
    if !data.starts_with(b"\x7fELF\x02\x01") {
        return out;
    }
    let at = |offset: usize| data.get(offset..).map(|d| Bytes::new(d, false));
    let Some(table) = at(32).and_then(|mut b| b.u64()).and_then(|v| usize::try_from(v).ok()) else {
        return out;
    };
    let Some((size, count)) = at(54).and_then(|mut b| Some((b.u16()?, b.u16()?))) else { return out };
    for i in 0..usize::from(count).min(HEADERS_MAX) {
        let header = table.checked_add(i * usize::from(size)).and_then(at);
        let one = header.and_then(|mut b| {
            let (kind, flags, offset, address) = (b.u32()?, b.u32()?, b.u64()?, b.u64()?);
            b.skip(8)?;
            (kind == 1).then_some((offset, address, b.u64()?, flags & 1 != 0))
        });
        out.extend(one);
    }
    out
}

/// Corrects the bias of every module that `open` can read. `kernel` is the file to take for the kernel itself, whose
/// mapping names no file.
pub fn set_biases(e: &mut Evidence, kernel: Option<String>, open: &mut dyn FnMut(&str) -> Option<Vec<u8>>) {
    let mut known: HashMap<String, Vec<Load>> = HashMap::new();
    let kernel_process = e.processes.iter().position(|p| p.exe == KERNEL_PROCESS);
    for m in &mut e.modules {
        let in_kernel = Some(m.process as usize) == kernel_process;
        let core = in_kernel && m.path.starts_with("[kernel");
        if core && let Some(file) = &kernel {
            m.path.clone_from(file);
        }
        let path = m.path.clone();
        if path.starts_with('[') || path.starts_with("//") {
            continue;
        }
        let loads =
            known.entry(path.clone()).or_insert_with(|| open(&path).map_or(Vec::new(), |d| loads(&d)));
        let file_offset = m.start.wrapping_sub(m.bias);
        let text = loads.iter().find(|l| l.3);
        let holds = |l: &&Load| l.0 / 4096 * 4096 <= file_offset && file_offset < l.0.saturating_add(l.2);
        if core {
            m.bias = text.map_or(m.bias, |l| m.start.wrapping_sub(l.1));
        } else if let Some(l) = loads.iter().find(holds) {
            // The mapping begins at the page of the segment.
            m.bias = m.start.wrapping_sub(file_offset).wrapping_sub(l.1.wrapping_sub(l.0));
        }
    }
}
