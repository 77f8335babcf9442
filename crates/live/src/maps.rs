//! What is mapped where: `/proc/PID/maps`, kept up to date by the kernel's records.

use std::collections::BTreeMap;
use tussle_evidence::Mapped;

/// One mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Byte of the file at `start`.
    pub offset: u64,
    /// Device of the file, `major << 32 | minor`.
    pub device: u64,
    /// Inode; 0 when there is no file.
    pub inode: u64,
    /// Path, `[heap]`, `[stack]`, or empty.
    pub path: String,
    /// Writes are seen by every process that maps it.
    pub shared: bool,
    /// Holds code.
    pub code: bool,
    /// Nobody may touch it: the guard below a stack, for instance.
    pub barred: bool,
}

/// Bytes in which a thread is asked for its stack: the mapping around its stack pointer.
const PATH_BYTES_MAX: usize = 4096;

/// Reads one line of `/proc/PID/maps`.
pub fn parse(line: &str) -> Option<Mapping> {
    let m = Mapped::parse(line)?;
    Some(Mapping {
        start: m.start,
        end: m.end,
        offset: m.offset,
        device: m.device.0 << 32 | m.device.1,
        inode: m.inode,
        path: m.file().chars().take(PATH_BYTES_MAX).collect(),
        shared: m.shared(),
        code: m.code(),
        barred: m.barred(),
    })
}

/// The mappings of one process by their first address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps {
    by_start: BTreeMap<u64, Mapping>,
}

impl Maps {
    /// From the text of `/proc/PID/maps`; lines that make no sense are left out.
    pub fn read(text: &str) -> Maps {
        let mut out = Maps::default();
        out.replace(text);
        out
    }

    /// A newer text. Mappings that are gone stay as long as nothing else is there: their names are needed at the end.
    pub fn replace(&mut self, text: &str) {
        text.lines().filter_map(parse).for_each(|m| self.add(m));
    }

    /// Adds a mapping over whatever was there.
    pub fn add(&mut self, new: Mapping) {
        let under: Vec<u64> = self
            .by_start
            .range(..new.end)
            .rev()
            .take_while(|(_, m)| m.end > new.start)
            .map(|m| *m.0)
            .collect();
        for start in under {
            let Some(old) = self.by_start.remove(&start) else { continue };
            if old.end > new.end {
                let rest =
                    Mapping { start: new.end, offset: old.offset + (new.end - old.start), ..old.clone() };
                self.by_start.insert(rest.start, rest);
            }
            if old.start < new.start {
                self.by_start.insert(old.start, Mapping { end: new.start, ..old });
            }
        }
        self.by_start.insert(new.start, new);
    }

    /// The mapping that holds an address.
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        self.by_start.range(..=address).next_back().map(|m| m.1).filter(|m| address < m.end)
    }

    /// All, by address.
    pub fn all(&self) -> impl Iterator<Item = &Mapping> {
        self.by_start.values()
    }

    /// Nothing is known.
    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 fe:01 42 /bin/with a space
55d0c0001000-55d0c0003000 r-xp 00001000 fe:01 42 /bin/with a space
55d0c0003000-55d0c0004000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000001000 rw-s 00002000 00:01 7 /dev/zero (deleted)
nonsense
7f0000003000-7f0000002000 rw-s 00002000 00:01 7 backwards
";

    #[test]
    fn lines_of_the_kernel_are_read() {
        let maps = Maps::read(TEXT);
        assert_eq!(maps.all().count(), 4);
        let code = maps.find(0x55d0_c000_2fff).unwrap();
        assert_eq!(
            (code.path.as_str(), code.offset, code.code, code.inode),
            ("/bin/with a space", 0x1000, true, 42)
        );
        let shared = maps.find(0x7f00_0000_0000).unwrap();
        assert_eq!((shared.path.as_str(), shared.shared, shared.device), ("/dev/zero", true, 1));
        assert_eq!(maps.find(0x7f00_0000_1000), None);
    }

    #[test]
    fn a_new_mapping_lies_over_old_ones() {
        let mut maps = Maps::read(TEXT);
        let new = Mapping {
            start: 0x55d0_c000_2000,
            end: 0x55d0_c000_3800,
            path: "new".into(),
            ..Mapping::default()
        };
        maps.add(new);
        let at = |a: u64| maps.find(a).map(|m| (m.path.clone(), m.offset));
        assert_eq!(at(0x55d0_c000_1fff), Some(("/bin/with a space".into(), 0x1000)));
        assert_eq!(at(0x55d0_c000_2fff).unwrap().0, "new");
        assert_eq!(at(0x55d0_c000_3800), Some(("[heap]".into(), 0x800)));
    }
}
