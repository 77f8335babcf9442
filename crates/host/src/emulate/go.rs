//! Types that Go's allocator was told: names of its own descriptions of types.
//!
//! `abi.Type` and `abi.Name` of Go's `src/internal/abi/type.go`: the description holds, at 20, flags, and at 40, where
//! its name lies after `runtime.types`: a byte of flags, the length as a variable-length number, the text.

use object::{Object, ObjectSegment, ObjectSymbol};
use std::collections::HashMap;
use std::path::Path;
use tussle_evidence::Evidence;

const FLAGS_AT: u64 = 20;
/// The name begins with a star that is not the type's.
const EXTRA_STAR: u8 = 2;
const NAME_AT: u64 = 40;
const NAME_BYTES_MAX: usize = 1024;

/// Names of the types of objects, of `described` objects with the addresses of their types' descriptions.
pub(crate) fn names(evidence: &Evidence, described: &[(u32, u64)]) -> Vec<(u32, String)> {
    let mut programs: HashMap<u32, Option<Program>> = HashMap::new();
    let mut known: HashMap<(u32, u64), Option<String>> = HashMap::new();
    let mut name = |&(object, at): &(u32, u64)| {
        let process = evidence.objects.get(object as usize)?.process;
        let program = programs.entry(process).or_insert_with(|| Program::of(evidence, process));
        let text = known.entry((process, at)).or_insert_with(|| program.as_ref()?.name(at));
        text.clone().map(|n| (object, n))
    };
    described.iter().filter_map(&mut name).collect()
}

/// A Go program's file.
struct Program {
    bytes: Vec<u8>,
    bias: u64,
    types: u64,
}

impl Program {
    fn of(evidence: &Evidence, process: u32) -> Option<Program> {
        let exe = &evidence.processes.get(process as usize)?.exe;
        let bias = evidence.modules.iter().find(|m| m.process == process && m.path == *exe)?.bias;
        let bytes = std::fs::read(Path::new(exe)).ok()?;
        let types = {
            let file = object::File::parse(&*bytes).ok()?;
            let symbol = file.symbols().find(|s| s.name() == Ok("runtime.types"))?;
            symbol.address()
        };
        Some(Program { bytes, bias, types })
    }

    /// `bytes` bytes at an address of the file.
    fn at(&self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        let file = object::File::parse(&*self.bytes).ok()?;
        let inside = |s: &object::Segment<'_, '_>| {
            s.data_range(address, bytes as u64).ok().flatten().map(<[u8]>::to_vec)
        };
        file.segments().find_map(|s| inside(&s))
    }

    fn name(&self, descriptor: u64) -> Option<String> {
        let at = descriptor.wrapping_sub(self.bias);
        let flags = *self.at(at + FLAGS_AT, 1)?.first()?;
        let offset = u32::from_le_bytes(self.at(at + NAME_AT, 4)?.try_into().ok()?);
        let name = self.types.checked_add(u64::from(offset))?.checked_add(1)?;
        let (mut length, mut digits) = (0usize, 0u64);
        loop {
            let byte = *self.at(name + digits, 1)?.first()?;
            length |= usize::from(byte & 0x7f) << (7 * digits);
            digits += 1;
            if byte < 0x80 || digits > 2 {
                break;
            }
        }
        let text = self.at(name + digits, length.min(NAME_BYTES_MAX))?;
        let text = String::from_utf8(text).ok()?;
        Some(match flags & EXTRA_STAR {
            0 => text,
            _ => text.strip_prefix('*')?.to_string(),
        })
    }
}
