//! Functions and lines of Go's own table, which programs keep without symbols and debug information: their runtime
//! walks stacks with it.
//!
//! Format: `pcHeader`, `functab`, `_func` and `pcvalue` of Go's `src/runtime/symtab.go` and `runtime2.go`, `moduledata`
//! of the same, constants of `src/internal/abi/symtab.go`; as Go 1.18 to 1.26 write it. Where code begins stands in the
//! header, since Go 1.26 in the module's own data alone.

use object::{Object, ObjectSection};

use crate::elf::Elf;

/// Of Go 1.18 and 1.19, of Go 1.20 and later.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Numbers of the header behind its first 8 bytes: functions, files, first code; then where tables begin.
const COUNT_AT: usize = 8;
const TEXT_AT: usize = 24;
const NAMES_AT: usize = 32;
const UNITS_AT: usize = 40;
const FILES_AT: usize = 48;
const VALUES_AT: usize = 56;
const FUNCTIONS_AT: usize = 64;
/// In a function's record.
const NAME: usize = 4;
const FILE_VALUES: usize = 20;
const LINE_VALUES: usize = 24;
const MORE_COUNT: usize = 28;
const UNIT: usize = 32;
/// Where its further tables begin: Go 1.20 has the first line there.
const MORE: [usize; 2] = [40, 44];
/// The further table that says which call was inlined; -1 where none was.
const INLINED: usize = 2;
/// Where the module's own data hold the address of the table, and of the first code.
const MODULE_TEXT: usize = 176;
/// Steps of one function's lines, at most.
const STEPS_MAX: usize = 1 << 20;

/// One program's table.
#[derive(Debug)]
pub struct GoTable {
    bytes: Vec<u8>,
    /// Version in [`MAGICS`].
    version: usize,
    /// Address of the first code.
    text: u64,
    /// Bytes that all instructions are a multiple of.
    quantum: u64,
    count: usize,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoFunction {
    /// Package and name: `main.(*Pool).get`.
    pub name: String,
    /// First address in the file's numbering, and the one behind the last.
    pub range: (u64, u64),
}

impl GoTable {
    /// The table of a 64-bit little-endian program, `None` if it has none that can be read.
    pub fn read(elf: &Elf) -> Option<GoTable> {
        let file = elf.object();
        let section = file.section_by_name(".gopclntab").or(file.section_by_name(".data.rel.ro.gopclntab"))?;
        let bytes = elf.section(section.name().ok()?).ok()?.into_owned();
        let header = (u32_at(&bytes, 0)?, bytes.get(4..8)?);
        let version = MAGICS.iter().position(|m| *m == header.0)?;
        let [0, 0, quantum @ 1..=4, 8] = *header.1 else { return None };
        let (text, count) = (u64_at(&bytes, TEXT_AT)?, usize::try_from(u64_at(&bytes, COUNT_AT)?).ok()?);
        let mut table = GoTable { bytes, version, text, quantum: quantum.into(), count };
        let last = table.part(FUNCTIONS_AT)?.get(count.checked_mul(8)?..)?;
        (last.len() >= 4).then_some(())?;
        if text == 0 {
            table.text = table.first_code(elf, section.address())?;
        }
        Some(table)
    }

    /// Where the program's own code begins if the header does not say it: what the module's data say; else the section,
    /// if the program begins with its runtime and the runtime there.
    fn first_code(&self, elf: &Elf, table: u64) -> Option<u64> {
        let file = elf.object();
        if let Ok(module) = elf.section(".go.module")
            && u64_at(&module, 0) == Some(table)
        {
            return u64_at(&module, MODULE_TEXT);
        }
        let text = file.section_by_name(".text")?.address();
        let begins =
            |f: &GoFunction| f.name.starts_with("_rt0_") && text.checked_add(f.range.0) == Some(file.entry());
        self.functions().any(|f| begins(&f)).then_some(text)
    }

    /// All functions in order of address.
    pub fn functions(&self) -> impl Iterator<Item = GoFunction> {
        (0..self.count).filter_map(|k| self.function(k))
    }

    /// Source file and line of an instruction. Those of inlined code are not told: the function here is not theirs.
    pub fn line(&self, address: u64) -> Option<(String, u32)> {
        let at = u32::try_from(address.checked_sub(self.text)?).ok()?;
        let table = self.part(FUNCTIONS_AT)?;
        let start = |k: usize| u32_at(table, 8 * k).unwrap_or(u32::MAX);
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if start(middle) <= at { low = middle + 1 } else { high = middle }
        }
        let k = low.checked_sub(1)?;
        let (record, pc) = (self.record(k)?, u64::from(at - start(k)));
        if self.is_inlined(record, pc) {
            return None;
        }
        let value = |field: usize| self.value(u32_at(record, field)?, pc);
        let line = u32::try_from(value(LINE_VALUES)?).ok()?;
        let file = u32_at(record, UNIT)?.checked_add(u32::try_from(value(FILE_VALUES)?).ok()?)?;
        let name = u32_at(self.part(UNITS_AT)?, 4 * file as usize)?;
        Some((text_at(self.part(FILES_AT)?, name)?, line))
    }

    fn function(&self, k: usize) -> Option<GoFunction> {
        let table = self.part(FUNCTIONS_AT)?;
        let address = |k: usize| self.text.checked_add(u32_at(table, 8 * k)?.into());
        let name = text_at(self.part(NAMES_AT)?, u32_at(self.record(k)?, NAME)?)?;
        let range = (address(k)?, address(k + 1)?);
        (!name.is_empty() && range.0 < range.1).then_some(GoFunction { name, range })
    }

    fn record(&self, k: usize) -> Option<&[u8]> {
        let table = self.part(FUNCTIONS_AT)?;
        table.get(u32_at(table, 8 * k + 4)? as usize..)
    }

    fn is_inlined(&self, record: &[u8], pc: u64) -> bool {
        let known = u32_at(record, MORE_COUNT).is_some_and(|n| n as usize > INLINED);
        let values = u32_at(record, MORE[self.version] + 4 * INLINED).filter(|v| known && *v != 0);
        values.and_then(|v| self.value(v, pc)).is_some_and(|call| call >= 0)
    }

    /// What a table of values says of an instruction so far behind the function's first: pairs of differences, of the
    /// value and of the instruction up to which it holds.
    fn value(&self, table: u32, pc: u64) -> Option<i32> {
        let mut bytes = self.part(VALUES_AT)?.get(table as usize..)?.iter();
        let (mut value, mut end) = (-1i32, 0u64);
        for step in 0..STEPS_MAX {
            let difference = number(&mut bytes)?;
            if difference == 0 && step > 0 {
                return None;
            }
            // The sign is the lowest bit.
            value = value.wrapping_add((difference >> 1) as i32 ^ -((difference & 1) as i32));
            end = end.checked_add(u64::from(number(&mut bytes)?) * self.quantum)?;
            if pc < end {
                return Some(value);
            }
        }
        None
    }

    /// The table that begins where the header says.
    fn part(&self, at: usize) -> Option<&[u8]> {
        self.bytes.get(usize::try_from(u64_at(&self.bytes, at)?).ok()?..)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn text_at(table: &[u8], at: u32) -> Option<String> {
    let text = table.get(at as usize..)?.split(|b| *b == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// A number of seven bits per byte, the lowest first.
fn number(bytes: &mut std::slice::Iter<'_, u8>) -> Option<u32> {
    let mut out = 0u32;
    for shift in (0..32).step_by(7) {
        let byte = *bytes.next()?;
        out |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(out);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `main.hit` of 32 bytes from 0x1000 on: lines 7, from 8 on 9, from 16 on 3 of another function, inlined.
    fn table() -> GoTable {
        const HEADER: usize = 72;
        let mut parts: [Vec<u8>; 5] = [
            b"main.hit\0".to_vec(),
            [0u32, 8].iter().flat_map(|n| n.to_le_bytes()).collect(),
            b"main.go\0low.go\0".to_vec(),
            // A zero byte, as no table begins at 0; lines +8, +2, -6; files +1, +1; calls that were inlined +0, +1.
            vec![0, 16, 8, 4, 8, 11, 16, 0, 2, 16, 2, 16, 0, 0, 16, 2, 16, 0],
            Vec::new(),
        ];
        parts[4].extend([0u32, 16, 32].iter().flat_map(|n| n.to_le_bytes()));
        parts[4].resize(16, 0);
        // Entry, name, arguments, deferred, stack, files, lines, further tables, unit, first line, flags, tables.
        let record = [0u32, 0, 0, 0, 0, 8, 1, 3, 0, 6, 0, 0, 0, 13];
        parts[4].extend(record.iter().flat_map(|n| n.to_le_bytes()));
        let mut bytes = [&MAGICS[1].to_le_bytes()[..], &[0, 0, 1, 8]].concat();
        let mut at = HEADER;
        let places = parts.iter().map(|p| {
            at += p.len();
            at - p.len()
        });
        let header: Vec<u64> = [1, 2, 0x1000].into_iter().chain(places.map(|p| p as u64)).collect();
        bytes.extend(header.iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend(parts.concat());
        GoTable { bytes, version: 1, text: 0x1000, quantum: 1, count: 1 }
    }

    #[test]
    fn functions_and_lines_are_read() {
        let t = table();
        let hit = GoFunction { name: "main.hit".into(), range: (0x1000, 0x1020) };
        assert_eq!(t.functions().collect::<Vec<_>>(), [hit]);
        assert_eq!(t.line(0x1000), Some(("main.go".into(), 7)));
        assert_eq!(t.line(0x100f), Some(("main.go".into(), 9)));
        assert_eq!(t.line(0x1010), None, "inlined");
        assert_eq!((t.line(0xfff), t.line(0x1020)), (None, None));
    }

    #[test]
    fn a_cut_off_table_says_nothing_and_ends() {
        let whole = table();
        for n in 0..whole.bytes.len() {
            let t = GoTable { bytes: whole.bytes[..n].to_vec(), ..table() };
            let _ = (t.functions().count(), t.line(0x1008));
        }
    }
}
