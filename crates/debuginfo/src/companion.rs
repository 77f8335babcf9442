//! Companion files: debug information that lies beside the executable. The host opens them; this crate only asks.

pub use crate::elf::Bytes;
use crate::elf::Elf;

/// A file that debug information points at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompanionRequest {
    /// The separate debug file of an executable with this build-id (`/usr/lib/debug/.build-id/ab/cdef.debug`).
    BuildId(Vec<u8>),
    /// The separate debug file by name and CRC-32 of its contents (`.gnu_debuglink`).
    Debuglink {
        /// File name without a folder.
        name: String,
        /// CRC-32 (IEEE) of the whole file.
        crc: u32,
    },
    /// A dwz multifile (`.gnu_debugaltlink`, `.debug_sup`).
    Alternate {
        /// Path, absolute or relative to the file that names it.
        name: String,
        /// Its build-id.
        build_id: Vec<u8>,
    },
    /// A split-DWARF object.
    Dwo {
        /// Folder of the compilation.
        comp_dir: String,
        /// Path, absolute or relative to `comp_dir`.
        name: String,
        /// Id that the object must carry.
        id: u64,
    },
    /// The package of all split objects, `<file>.dwp`.
    Package,
    /// The BTF of the kernel that a module belongs to (`/sys/kernel/btf/vmlinux` or a `vmlinux`).
    BaseBtf,
}

/// Opens companion files.
pub trait Companions {
    /// The contents of the file, or `None` when it is nowhere to be found.
    fn open(&mut self, request: &CompanionRequest) -> Option<Bytes>;

    /// Of files that lay where one was looked for and are not what was asked for: which, and why not.
    fn passed_over(&self) -> &[String] {
        &[]
    }
}

/// The separate debug file of an executable, by its build-id first, then by name; and what it was found by.
pub fn separate(elf: &Elf<'_>, companions: &mut dyn Companions) -> Option<(Bytes, &'static str)> {
    let by_id = elf.build_id().map(|id| (CompanionRequest::BuildId(id.to_vec()), "build-id"));
    let link = elf.debuglink().map(|(name, crc)| CompanionRequest::Debuglink { name, crc });
    let by_link = link.map(|request| (request, ".gnu_debuglink"));
    by_id.into_iter().chain(by_link).find_map(|(request, how)| Some((companions.open(&request)?, how)))
}

/// No companion files at all.
pub struct NoCompanions;

impl Companions for NoCompanions {
    fn open(&mut self, _: &CompanionRequest) -> Option<Bytes> {
        None
    }
}
