//! One door for every kind of file that holds layouts.

use tussle_model::TypeTable;

use crate::companion::{CompanionRequest, Companions};
use crate::dwarf::{self, Want};
use crate::elf::{Elf, is_elf};
use crate::error::{Damage, Damages, Error};
use crate::{btf, snapshot};

/// Reads the wanted types of a snapshot, raw BTF, or an ELF file with DWARF (preferred) or a `.BTF` section.
///
/// A name that is not there is no error: [`TypeTable::find`] tells.
///
/// # Errors
/// [`Error::NoDebugInfo`] for an ELF without types, [`Error::Format`] for anything else, [`Error::Malformed`] for
/// damage that leaves nothing to read.
pub fn open(
    bytes: &[u8],
    want: &Want<'_>,
    companions: &mut dyn Companions,
) -> Result<(TypeTable, Vec<Damage>), Error> {
    if is_elf(bytes) {
        return open_elf(&Elf::parse(bytes)?, want, companions).map(bounded);
    }
    if btf::is_btf(bytes) {
        return open_btf(bytes, None, want, 8, companions).map(bounded);
    }
    if snapshot::is_snapshot(bytes) {
        return snapshot::read(bytes);
    }
    match known_format(bytes) {
        Some(what) => Err(Error::Unsupported { section: "file".into(), what: what.into() }),
        None => Err(Error::Format { start: bytes.iter().take(8).copied().collect() }),
    }
}

/// What debug information says, within the bounds of [`TypeTable::checked`].
fn bounded((table, problems): (TypeTable, Vec<Damage>)) -> (TypeTable, Vec<Damage>) {
    let (table, damage) = table.checked();
    let mut all = Damages(problems);
    for d in damage {
        all.add("types", 0, format!("{}: {}", table.name(d.ty), d.what));
    }
    (table, all.0)
}

fn open_elf(
    elf: &Elf<'_>,
    want: &Want<'_>,
    companions: &mut dyn Companions,
) -> Result<(TypeTable, Vec<Damage>), Error> {
    match dwarf::read_types(elf, want, companions) {
        Err(Error::NoDebugInfo { .. }) if elf.has(".BTF") => {
            let own = elf.section(".BTF")?;
            let base = elf.section(".BTF.base")?;
            let base = (!base.is_empty()).then_some(&*base);
            open_btf(&own, base, want, elf.pointer_size(), companions)
        }
        other => other,
    }
}

/// A module's BTF continues that of the kernel.
fn open_btf(
    bytes: &[u8],
    base: Option<&[u8]>,
    want: &Want<'_>,
    pointer_size: u8,
    companions: &mut dyn Companions,
) -> Result<(TypeTable, Vec<Damage>), Error> {
    if base.is_some() || !btf::is_split(bytes) {
        return btf::read_types(bytes, base, want, pointer_size);
    }
    let Some(base) = companions.open(&CompanionRequest::BaseBtf) else {
        return Err(Error::Unsupported {
            section: "BTF".into(),
            what: "this is a module's BTF, which continues that of its kernel; give the kernel's with --btf-base"
                .into(),
        });
    };
    let base = (*base).as_ref();
    if !is_elf(base) {
        return btf::read_types(bytes, Some(base), want, pointer_size);
    }
    let base = Elf::parse(base)?.section(".BTF")?;
    btf::read_types(bytes, Some(&base), want, pointer_size)
}

/// Formats that people try, with what to do instead.
fn known_format(bytes: &[u8]) -> Option<&'static str> {
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    if bytes.is_empty() {
        return Some("the file is empty");
    }
    if bytes.get(0x202..0x206) == Some(b"HdrS") {
        return Some("a compressed kernel image; use its vmlinux, or /sys/kernel/btf/vmlinux");
    }
    if starts(b"!<arch>\n") || starts(b"!<thin>\n") {
        return Some("an archive; extract the objects with `ar x`");
    }
    if starts(b"BC\xc0\xde") {
        return Some("LLVM bitcode; link it first");
    }
    if starts(b"\xfd7zXZ") || starts(b"\x1f\x8b") || starts(b"\x28\xb5\x2f\xfd") {
        return Some("a compressed file; decompress it first");
    }
    if starts(b"MZ") || starts(b"\xcf\xfa\xed\xfe") {
        return Some("not an ELF file: Windows and macOS binaries are not read");
    }
    None
}
