//! One line of Linux's `/proc/PID/maps` (proc(5)), as every source that names memory reads it.

/// `start-end rwxp offset major:minor inode path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped<'t> {
    /// First address.
    pub start: u64,
    /// One past the last; above `start`.
    pub end: u64,
    /// `rwxp`, or `s` at the end.
    permissions: [u8; 4],
    /// Byte of the file at `start`.
    pub offset: u64,
    /// Major and minor number of the file's device.
    pub device: (u64, u64),
    /// Inode; 0 when there is no file.
    pub inode: u64,
    /// Path with its remark ` (deleted)`, `[heap]`, or empty, as the kernel writes it.
    pub path: &'t str,
}

impl<'t> Mapped<'t> {
    /// Reads a line; `None` when it makes no sense.
    pub fn parse(line: &'t str) -> Option<Mapped<'t>> {
        let hex = |s: &str| u64::from_str_radix(s, 16).ok();
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let permissions = words.next()?.as_bytes().try_into().ok()?;
        let offset = hex(words.next()?)?;
        let (major, minor) = words.next()?.split_once(':')?;
        let device = (hex(major)?, hex(minor)?);
        let inode = words.next()?.parse().ok()?;
        let path = words.next().unwrap_or("").trim();
        Some(Mapped { start: hex(start)?, end: hex(end)?, permissions, offset, device, inode, path })
            .filter(|m| m.start < m.end)
    }

    /// Its program may write there.
    pub fn writable(&self) -> bool {
        self.permissions[1] == b'w'
    }

    /// Nobody may touch it, as the guard below a stack.
    pub fn barred(&self) -> bool {
        self.permissions[..3] == *b"---"
    }

    /// Holds code.
    pub fn code(&self) -> bool {
        self.permissions[2] == b'x'
    }

    /// Writes are seen by every process that maps it.
    pub fn shared(&self) -> bool {
        self.permissions[3] == b's'
    }

    /// The path alone: the kernel adds ` (deleted)` to that of a file which is gone.
    pub fn file(&self) -> &'t str {
        self.path.strip_suffix(" (deleted)").unwrap_or(self.path)
    }

    /// The path as open(2) takes it: the kernel writes a line feed as `\012`, and nothing else so.
    pub fn opened(&self) -> String {
        self.path.replace("\\012", "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_and_nonsense_is_not() {
        let m =
            Mapped::parse("7f00-7f10 rw-s 00002000 fe:01 7         /tmp/a b (deleted)").expect("a mapping");
        assert_eq!((m.start, m.end, m.offset, m.device, m.inode), (0x7f00, 0x7f10, 0x2000, (0xfe, 1), 7));
        assert_eq!((m.path, m.file()), ("/tmp/a b (deleted)", "/tmp/a b"));
        assert!(m.writable() && m.shared() && !m.code());
        let m = Mapped::parse("7f00-7f10 r-xp 0 fe:01 7  /tmp/a\\012b").expect("a mapping");
        assert_eq!(m.opened(), "/tmp/a\nb");
        for bad in [
            "",
            "nonsense",
            "1-2",
            "2-1 r--p 0 0:0 0",
            "1-2 r--p x 0:0 0",
            "1-2 r- 0 0:0 0",
            "1-2 r--p 0 0 0",
        ] {
            assert_eq!(Mapped::parse(bad), None, "{bad}");
        }
        assert_eq!(Mapped::parse("1-2 r-xp 0 0:0 0").map(|m| (m.path, m.code())), Some(("", true)));
    }
}
