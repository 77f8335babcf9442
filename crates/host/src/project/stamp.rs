//! By what a file is told from what it was.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

/// Inode, size, and time of the last change of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) inode: u64,
    pub(super) bytes: u64,
    pub(super) modified: SystemTime,
}

impl Stamp {
    pub(super) fn of(m: &Metadata) -> Stamp {
        Stamp { inode: m.ino(), bytes: m.size(), modified: m.modified().unwrap_or(SystemTime::UNIX_EPOCH) }
    }
}
