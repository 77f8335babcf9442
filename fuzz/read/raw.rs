//! Raw files of the recorder, as a process that died anywhere leaves them.

use tussle_evidence::file;
use tussle_rt::convert::Keep;
use tussle_rt::wire::{MAGIC, VERSION};
use tussle_rt::{RawFile, convert};

/// The same file with the right magic and version, so that seeds outlive a new version and no try ends there.
pub fn current(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(head) = bytes.get_mut(..12) {
        head[..8].copy_from_slice(&MAGIC.to_le_bytes());
        head[8..].copy_from_slice(&VERSION.to_le_bytes());
    }
    bytes
}

pub fn read(bytes: &[u8]) {
    let bytes = current(bytes);
    let Ok(raw) = RawFile::new("fuzz".into(), &bytes) else { return };
    for keep in [Keep::Shared, Keep::All] {
        let e = convert(std::slice::from_ref(&raw), keep).evidence;
        let mut out = Vec::new();
        file::write(&e, &mut out).expect("an evidence can be written");
        file::read(&out).expect("what was written can be read");
    }
}
