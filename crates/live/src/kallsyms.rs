//! `/proc/kallsyms`: names of the kernel's functions and variables, of its modules, too.

use std::ops::Range;

/// No variable is larger: behind the last one of a section other things begin.
const VARIABLE_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    start: u64,
    is_code: bool,
    name: Box<str>,
}

/// A function or a variable, up to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// First byte.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// As the kernel calls it.
    pub name: &'a str,
}

/// All of them by address.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    rows: Vec<Row>,
}

impl Symbols {
    /// Reads lines of `address type name [module]`. Empty where the kernel hides the addresses.
    pub fn read(text: &str) -> Symbols {
        let line = |l: &str| -> Option<Row> {
            let mut words = l.split_whitespace();
            let start = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            let is_code = matches!(kind, "t" | "T" | "w" | "W");
            Some(Row { start, is_code, name: words.next()?.into() })
        };
        let mut rows: Vec<Row> = text.lines().filter_map(line).collect();
        if rows.iter().all(|r| r.start == 0) {
            rows.clear();
        }
        rows.sort_by_key(|r| r.start);
        Symbols { rows }
    }

    /// Addresses are hidden, or there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Address of a symbol.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.rows.iter().find(|r| *r.name == *name).map(|r| r.start)
    }

    /// Link addresses of per-CPU variables.
    pub fn per_cpu(&self) -> Option<Range<u64>> {
        Some(self.address("__per_cpu_start")?..self.address("__per_cpu_end")?)
    }

    /// The function that holds an address.
    pub fn function(&self, address: u64) -> Option<Named<'_>> {
        self.find(address, true)
    }

    /// The variable that holds an address.
    pub fn variable(&self, address: u64) -> Option<Named<'_>> {
        self.find(address, false).filter(|v| address - v.start < VARIABLE_BYTES_MAX)
    }

    /// Of several at one place the first in the file.
    fn find(&self, address: u64, is_code: bool) -> Option<Named<'_>> {
        let behind = self.rows.partition_point(|r| r.start <= address);
        let start = self.rows.get(behind.checked_sub(1)?)?.start;
        let end = self.rows.get(behind)?.start;
        let first = self.rows.partition_point(|r| r.start < start);
        let row = self.rows[first..behind].iter().find(|r| r.is_code == is_code && !is_mark(&r.name))?;
        Some(Named { start, end, name: &row.name })
    }
}

/// Bounds of sections lie where their first symbol does.
fn is_mark(name: &str) -> bool {
    matches!(
        name,
        "_text" | "_stext" | "_sdata" | "_edata" | "_etext" | "__per_cpu_start" | "__bss_start" | "_end"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
0000000000000000 D __per_cpu_start
0000000000000000 D fixed_percpu_data
0000000000001000 D cpu_debug_store
0000000000002000 D __per_cpu_end
ffffffff81000000 T _text
ffffffff81000000 T first
ffffffff81000040 t second
ffffffff81000080 D jiffies
ffffffff81000100 b hidden\t[module]
not a line
ffffffff81000200 T last
";

    #[test]
    fn what_holds_an_address_has_its_name() {
        let s = Symbols::read(TEXT);
        let f = s.function(0xffff_ffff_8100_003f).unwrap();
        assert_eq!((f.name, f.start & 0xff, f.end & 0xff), ("first", 0, 0x40));
        assert_eq!(s.function(0xffff_ffff_8100_0080), None, "a variable");
        assert_eq!(s.variable(0xffff_ffff_8100_0101).unwrap().name, "hidden");
        assert_eq!(s.function(0xffff_ffff_8100_0200), None, "where the last one ends is not known");
        assert_eq!((s.per_cpu(), s.variable(0x1ff8).unwrap().name), (Some(0..0x2000), "cpu_debug_store"));
        assert!(Symbols::read("0000000000000000 T _text\n0000000000000000 D jiffies\n").is_empty());
    }
}
