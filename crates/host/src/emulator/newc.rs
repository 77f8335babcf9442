//! An initramfs in the "newc" format (`Documentation/driver-api/early-userspace/buffer-format.rst` of Linux).

use std::collections::BTreeSet;

/// A file of the initramfs.
#[derive(Clone, Debug)]
pub enum Entry {
    /// Executable file with these bytes.
    File(Vec<u8>),
    /// Character device, major and minor.
    Device(u32, u32),
    /// Symbolic link.
    Link(String),
}

/// Largest file: its size must fit eight hexadecimal digits, and the guest's memory is small.
const FILE_BYTES_MAX: usize = 1 << 30;

/// Builds the archive; folders of the names are made first, in order. `None` when a file is too large.
pub fn archive(entries: &[(String, Entry)]) -> Option<Vec<u8>> {
    let mut folders = BTreeSet::new();
    for (name, _) in entries {
        let mut at = name.as_str();
        while let Some((folder, _)) = at.rsplit_once('/') {
            folders.insert(folder.to_string());
            at = folder;
        }
    }
    let mut out = Vec::new();
    for folder in &folders {
        record(&mut out, folder, 0o40755, &[], (0, 0));
    }
    let mut seen = BTreeSet::new();
    for (name, entry) in entries.iter().filter(|(name, _)| seen.insert(name.clone())) {
        match entry {
            Entry::File(bytes) if bytes.len() > FILE_BYTES_MAX => return None,
            Entry::File(bytes) => record(&mut out, name, 0o100755, bytes, (0, 0)),
            Entry::Link(target) => record(&mut out, name, 0o120777, target.as_bytes(), (0, 0)),
            Entry::Device(major, minor) => record(&mut out, name, 0o20600, &[], (*major, *minor)),
        }
    }
    record(&mut out, "TRAILER!!!", 0, &[], (0, 0));
    Some(out)
}

fn record(out: &mut Vec<u8>, name: &str, mode: u32, data: &[u8], device: (u32, u32)) {
    // inode, mode, uid, gid, links, mtime, size, device, device of a node, name's length, checksum
    let fields = [0, mode, 0, 0, 1, 0, data.len() as u32, 0, 0, device.0, device.1, name.len() as u32 + 1, 0];
    out.extend(b"070701");
    fields.iter().for_each(|f| out.extend(format!("{f:08x}").bytes()));
    out.extend(name.bytes());
    out.push(0);
    pad(out);
    out.extend(data);
    pad(out);
}

/// To the next multiple of four.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_110_bytes_and_everything_is_aligned() {
        let entries = [
            ("init".to_string(), Entry::File(b"abcde".to_vec())),
            ("dev/console".to_string(), Entry::Device(5, 1)),
            ("init".to_string(), Entry::File(b"again".to_vec())),
        ];
        let bytes = archive(&entries).unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let mut at = 0;
        let mut names = Vec::new();
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let head = at;
            let field = |i: usize| {
                let text = std::str::from_utf8(&bytes[head + 6 + 8 * i..head + 14 + 8 * i]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            let name = &bytes[at + 110..at + 110 + field(11) - 1];
            names.push(String::from_utf8_lossy(name).into_owned());
            at = (at + 110 + field(11)).next_multiple_of(4);
            at = (at + field(6)).next_multiple_of(4);
        }
        assert_eq!(names, ["dev", "init", "dev/console", "TRAILER!!!"]);
    }
}
