//! Names of code made at run time, as JIT compilers write them: `/tmp/perf-PID.map` (`perf help record`, "JIT") and
//! `jit-PID.dump` (Linux, `tools/perf/Documentation/jitdump-specification.txt`), which they map so that it can be
//! found.

/// Functions kept of one file.
const FUNCTIONS_MAX: usize = 1 << 20;

/// Code made at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// As the compiler calls it.
    pub name: String,
}

/// Names by address; of two at one place the later one counts.
#[derive(Clone, Debug, Default)]
pub struct Names {
    functions: Vec<Function>,
}

impl Names {
    /// Reads lines of `start size name`, both numbers hexadecimal; others are left out.
    pub fn read(text: &str) -> Names {
        let line = |l: &str| -> Option<Function> {
            let mut words = l.splitn(3, ' ');
            let number = |w: &str| u64::from_str_radix(w.trim_start_matches("0x"), 16).ok();
            let (start, size) = (number(words.next()?)?, number(words.next()?)?);
            let name = words.next()?.trim().to_string();
            (size > 0 && !name.is_empty()).then_some(Function { start, size, name })
        };
        let mut functions: Vec<Function> = text.lines().filter_map(line).take(FUNCTIONS_MAX).collect();
        functions.sort_by_key(|f| f.start);
        Names { functions }
    }

    /// Adds what a dump says; one that was cut short says as much as it holds.
    pub fn add_dump(&mut self, bytes: &[u8]) {
        const MAGIC: u32 = 0x4a69_5444;
        if word(bytes, 0) != Some(MAGIC) {
            return;
        }
        let mut at = word(bytes, 8).unwrap_or(0) as usize;
        while let Some(size) = word(bytes, at.saturating_add(4)).filter(|&s| s >= RECORD_BYTES) {
            let end = at.saturating_add(size as usize);
            let Some(record) = bytes.get(at..end) else { break };
            self.functions.extend(loaded(record).or_else(|| self.moved(record)));
            if self.functions.len() >= FUNCTIONS_MAX {
                break;
            }
            at = end;
        }
        self.functions.sort_by_key(|f| f.start);
    }

    /// A record that says that code lies elsewhere now: process, thread, an address, whence, where to, bytes, number.
    fn moved(&self, record: &[u8]) -> Option<Function> {
        const CODE_MOVED: u32 = 1;
        if word(record, 0)? != CODE_MOVED {
            return None;
        }
        let (from, start) = (number(record, 32)?, number(record, 40)?);
        let old = self.functions.iter().rev().find(|f| f.start == from)?;
        Some(Function { start, ..old.clone() })
    }

    /// The function that holds an address.
    pub fn find(&self, address: u64) -> Option<&Function> {
        let end = self.functions.partition_point(|f| f.start <= address);
        self.functions[..end].iter().rev().take(16).find(|f| address - f.start < f.size)
    }
}

/// Bytes that each record of a dump begins with: what it is, its bytes, when.
const RECORD_BYTES: u32 = 16;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let cell = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(cell.try_into().ok()?))
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(word(bytes, at)?) | u64::from(word(bytes, at.checked_add(4)?)?) << 32)
}

/// Whether a mapped file is a dump.
pub fn is_dump(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with("jit-") && name.ends_with(".dump")
}

/// A record that says where code was put: process, thread, two addresses, bytes, number, and its name.
fn loaded(record: &[u8]) -> Option<Function> {
    const CODE_LOADED: u32 = 0;
    const NAME_AT: usize = 56;
    if word(record, 0)? != CODE_LOADED {
        return None;
    }
    let (start, size) = (number(record, 32)?, number(record, 40)?);
    let name = record.get(NAME_AT..)?.split(|&b| b == 0).next()?;
    let name = String::from_utf8_lossy(name).into_owned();
    (size > 0 && !name.is_empty()).then_some(Function { start, size, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_address() {
        let names =
            Names::read("1000 20 LazyCompile:~add /srv/x.js:3\nbad line\n1000 10 newer\n2000 0 empty\n");
        assert_eq!(names.find(0x1005).unwrap().name, "newer");
        assert_eq!(names.find(0x1015).unwrap().name, "LazyCompile:~add /srv/x.js:3");
        assert_eq!((names.find(0x1020), names.find(0xfff), names.find(0x2000)), (None, None, None));
        assert_eq!(["/x/jit-7.dump", "/x/jit-7.so", "/jit-1.dump/x"].map(is_dump), [true, false, false]);
    }

    #[test]
    fn dumps_are_read_as_far_as_they_go() {
        let mut dump = [0x4a69_5444u32, 1, 40].map(u32::to_le_bytes).concat();
        dump.resize(40, 0);
        for (kind, name) in [(0u32, "first"), (2, "no code"), (0, "second")] {
            let bytes = 56 + name.len() as u32 + 1;
            dump.extend([kind, bytes, 0, 0, 7, 7].map(u32::to_le_bytes).concat());
            dump.extend([0u64, 0x5000 + dump.len() as u64, 16, 1].map(u64::to_le_bytes).concat());
            dump.extend([name.as_bytes(), &[0]].concat());
        }
        let mut names = Names::default();
        names.add_dump(&dump);
        let all: Vec<&str> = names.functions.iter().map(|f| &*f.name).collect();
        assert_eq!(all, ["first", "second"]);
        let first = names.functions[0].start;
        assert_eq!(names.find(first + 15).unwrap().name, "first");
        names = Names::default();
        names.add_dump(&dump[..dump.len() - 1]);
        assert_eq!(names.functions.len(), 1);
        names.add_dump(b"no dump");
        assert_eq!(names.functions.len(), 1);
        let bytes = 16 + 48;
        dump.extend([1, bytes, 0, 0, 7, 7].map(u32::to_le_bytes).concat());
        dump.extend([0, first, 0x9000, 16, 1].map(u64::to_le_bytes).concat());
        let mut names = Names::default();
        names.add_dump(&dump);
        assert_eq!(names.find(0x900f).unwrap().name, "first");
        assert_eq!(names.functions.len(), 3);
    }
}
