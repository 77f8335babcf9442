//! A disk for the guest: an image with an empty file system, without a name, and how the emulator is told of it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::EmulatorError;
use super::launch::{by_number, filled, inherit};

/// Program of e2fsprogs; where it lies on systems whose users do not have it in PATH.
const MKE2FS: &str = "mke2fs";
const ELSEWHERE: [&str; 2] = ["/usr/sbin/mke2fs", "/sbin/mke2fs"];
/// Size of the image; what nobody writes takes no room.
const BYTES: u64 = 2 << 30;
/// Names the file system and salts the hashes of its folders.
const ID: &str = "00000000-0000-4000-8000-746573736c65";
/// When it was made: when the guest's clock starts.
const MADE_AT: &str = "1704067200";
/// What today's ext4 has, whatever the settings of this machine say.
const FEATURES: &str = "none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,\
                        huge_file,dir_nlink,extra_isize,metadata_csum";

/// A file system that a guest's disk can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileSystem {
    /// Linux's usual one.
    Ext4,
}

impl FileSystem {
    /// As `mount` calls it.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
        }
    }

    /// Functions of the kernel that read such a disk, with what they belong to and how that is configured.
    pub fn needs(self) -> [(&'static str, &'static str, &'static str); 2] {
        let FileSystem::Ext4 = self;
        [
            ("nvme_queue_rq", "driver for NVMe disks", "CONFIG_BLK_DEV_NVME=y"),
            ("ext4_fill_super", "ext4", "CONFIG_EXT4_FS=y"),
        ]
    }
}

/// Open files of a disk.
pub(super) struct Disk {
    /// Named in the descriptor.
    _image: File,
    descriptor: File,
}

impl Disk {
    /// A disk with this file system, inherited by the emulator.
    pub(super) fn new(file_system: FileSystem) -> Result<Disk, EmulatorError> {
        let image = image(file_system)?;
        let sectors = BYTES / 512;
        let text = format!(
            "# Disk DescriptorFile\nversion=1\nCID=00000001\nparentCID=ffffffff\ncreateType=\"monolithicFlat\"\n\
             RW {sectors} FLAT \"{}\" 0\nddb.adapterType = \"ide\"\nddb.geometry.cylinders = \"4161\"\n\
             ddb.geometry.heads = \"16\"\nddb.geometry.sectors = \"63\"\n",
            by_number(&image)
        );
        Ok(Disk { descriptor: filled("disk", text.as_bytes())?, _image: image })
    }

    /// The emulator's words for it. Of an image in this format it reads and writes one piece after the other: so what
    /// the guest asked for at once is done in the order in which it asked. Every command is told by a register
    /// (`dbcs=off`), which the plugin sees.
    pub(super) fn arguments(&self) -> [String; 4] {
        [
            "-blockdev".into(),
            format!(
                "driver=vmdk,node-name=disk,cache.no-flush=on,file.driver=file,file.filename={}",
                by_number(&self.descriptor)
            ),
            "-device".into(),
            "nvme,drive=disk,serial=tussle,dbcs=off".into(),
        ]
    }
}

/// An image with this file system, always the same bytes.
fn image(_: FileSystem) -> Result<File, EmulatorError> {
    let folder = std::env::temp_dir();
    let io = || EmulatorError::io(folder.display().to_string());
    let file = tempfile::tempfile_in(&folder).map_err(io())?;
    file.set_len(BYTES).map_err(io())?;
    inherit(&file);
    let extended = format!("hash_seed={ID},lazy_itable_init=0,nodiscard,root_owner=0:0");
    let output = Command::new(program().ok_or(EmulatorError::NoMke2fs)?)
        .args(["-q", "-F", "-b", "4096", "-I", "256", "-N", "65536", "-m", "0", "-J", "size=32"])
        .args(["-O", FEATURES, "-U", ID, "-E", &extended, &by_number(&file)])
        .env("MKE2FS_CONFIG", "/dev/null")
        // The first for those since 1.47.1, the other one for those before.
        .envs([("SOURCE_DATE_EPOCH", MADE_AT), ("E2FSPROGS_FAKE_TIME", MADE_AT)])
        .stdin(Stdio::null())
        .output()
        .map_err(EmulatorError::io(MKE2FS))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
        return Err(EmulatorError::Mke2fs { status: output.status.to_string(), said });
    }
    Ok(file)
}

fn program() -> Option<PathBuf> {
    let elsewhere = || ELSEWHERE.iter().map(PathBuf::from).find(|p| p.is_file());
    crate::cc::search(Path::new(MKE2FS).as_os_str()).or_else(elsewhere)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn every_image_is_the_same() {
        if program().is_none() {
            return;
        }
        let sums: Vec<u32> = (0..2)
            .map(|n| {
                std::thread::sleep(std::time::Duration::from_millis(1100 * n));
                let file = image(FileSystem::Ext4).unwrap();
                let meta = file.metadata().unwrap();
                assert_eq!((meta.len(), meta.nlink()), (BYTES, 0), "of this size, without a name");
                assert!(meta.blocks() * 512 < BYTES / 16, "what is empty takes no room");
                let mut start = vec![0; 1 << 20];
                file.read_exact_at(&mut start, 0).unwrap();
                assert_eq!(start[1080..1082], [0x53, 0xef], "the file system's own number");
                crc32fast::hash(&start)
            })
            .collect();
        assert_eq!(sums[0], sums[1]);
    }
}
