//! By what a file is told from what it was.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

/// Device, inode, size, and time of the last change of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) bytes: u64,
    pub(super) modified: SystemTime,
}

impl Stamp {
    /// Of a file as it is now.
    pub fn of(m: &Metadata) -> Stamp {
        let modified = m.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Stamp { device: m.dev(), inode: m.ino(), bytes: m.size(), modified }
    }
}
