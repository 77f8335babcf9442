//! ELF sections as bytes: decompressed, and with relocations applied where the file is relocatable.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, RelocationFlags, RelocationTarget};

use crate::error::Error;

/// Bytes of a companion file, usually a memory map.
pub type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Sections of one name that are joined at most.
const SECTIONS_MAX: usize = 1 << 16;

/// A section is never inflated beyond this.
const INFLATED_MAX: u64 = 1 << 33;

/// Nor to more than this times its packed size. Debug information packs 3 to 10 times.
const INFLATED_TIMES_MAX: u64 = 64;

/// Unless it stays below this, bytes.
const SMALL_INFLATED: u64 = 64 << 20;

/// A parsed ELF file over borrowed bytes. Nothing is copied unless it is compressed or relocated.
pub struct Elf<'d> {
    file: object::File<'d>,
    bytes: &'d [u8],
}

impl<'d> Elf<'d> {
    /// Parses the headers.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a cut-off or inconsistent file, [`Error::Format`] when it is no ELF at all.
    pub fn parse(bytes: &'d [u8]) -> Result<Elf<'d>, Error> {
        if !is_elf(bytes) {
            return Err(Error::Format { start: bytes.iter().take(8).copied().collect() });
        }
        let file = object::File::parse(bytes).map_err(|e| {
            Error::malformed(
                "ELF header",
                0,
                format!("{e}; the file is cut off or damaged ({} bytes)", bytes.len()),
            )
        })?;
        Ok(Elf { file, bytes })
    }

    /// True for little-endian files.
    pub fn little_endian(&self) -> bool {
        self.file.is_little_endian()
    }

    /// Byte order as gimli wants it.
    pub fn endian(&self) -> gimli::RunTimeEndian {
        if self.little_endian() { gimli::RunTimeEndian::Little } else { gimli::RunTimeEndian::Big }
    }

    /// Size of a pointer in bytes: 4 or 8.
    pub fn pointer_size(&self) -> u8 {
        if self.file.is_64() { 8 } else { 4 }
    }

    /// A relocatable object (`.o`, `.ko`).
    pub fn is_relocatable(&self) -> bool {
        self.file.kind() == object::ObjectKind::Relocatable
    }

    /// The parsed file, for symbols and segments.
    pub fn object(&self) -> &object::File<'d> {
        &self.file
    }

    /// The build-id, if the linker wrote one.
    pub fn build_id(&self) -> Option<&'d [u8]> {
        self.file.build_id().ok().flatten()
    }

    /// File name and CRC of the separate debug file (`.gnu_debuglink`).
    pub fn debuglink(&self) -> Option<(String, u32)> {
        let (name, crc) = self.file.gnu_debuglink().ok().flatten()?;
        Some((String::from_utf8_lossy(name).into_owned(), crc))
    }

    /// File name and build-id of the dwz multifile (`.gnu_debugaltlink`).
    pub fn debugaltlink(&self) -> Option<(String, Vec<u8>)> {
        let (name, id) = self.file.gnu_debugaltlink().ok().flatten()?;
        Some((String::from_utf8_lossy(name).into_owned(), id.to_vec()))
    }

    /// The section exists and has bytes in the file.
    pub fn has(&self, name: &str) -> bool {
        self.sections(name).any(|s| s.file_range().is_some_and(|(_, n)| n > 0))
    }

    /// Contents of a section, decompressed and relocated; empty when there is none. `.debug_x` also finds the old
    /// compressed `.zdebug_x`. Objects have one section per type unit: those of one name are joined.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it lies outside of the file or does not inflate.
    pub fn section(&self, name: &str) -> Result<Cow<'d, [u8]>, Error> {
        let mut found = self.sections(name).map(|s| self.load(name, &s));
        let Some(first) = found.next() else { return Ok(Cow::Borrowed(&[])) };
        let mut data = first?;
        for more in found {
            data.to_mut().extend_from_slice(&more?);
        }
        Ok(data)
    }

    /// Sections of a name. More than a few occur in objects with type units only.
    fn sections<'s>(&'s self, name: &'s str) -> impl Iterator<Item = object::Section<'d, 's>> {
        let old = name.strip_prefix(".debug_");
        let matches = move |found: &str| {
            found == name || old.is_some_and(|o| found.strip_prefix(".zdebug_").is_some_and(|f| f == o))
        };
        self.file.sections().filter(move |s| s.name().is_ok_and(matches)).take(SECTIONS_MAX)
    }

    fn load(&self, name: &str, section: &object::Section<'d, '_>) -> Result<Cow<'d, [u8]>, Error> {
        let bad = |e: object::Error| Error::malformed(name, 0, e);
        let packed = section.compressed_data().map_err(bad)?;
        let data = inflate(name, &packed)?;
        if self.is_relocatable() { self.relocate(section, data) } else { Ok(data) }
    }

    /// A section of a file that the caller keeps alive by reference counting.
    pub(crate) fn shared(&self, name: &str, owner: &Bytes) -> Result<SectionData<'static>, Error> {
        Ok(match self.section(name)? {
            Cow::Owned(v) => SectionData::Owned(v.into()),
            Cow::Borrowed(s) => {
                let whole = (**owner).as_ref().as_ptr() as usize;
                let start = (s.as_ptr() as usize).wrapping_sub(whole);
                let inside = start.checked_add(s.len()).is_some_and(|e| e <= (**owner).as_ref().len());
                if s.is_empty() || !inside {
                    SectionData::Owned(s.into())
                } else {
                    SectionData::Part(owner.clone(), start..start + s.len())
                }
            }
        })
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> &'d [u8] {
        self.bytes
    }

    /// What a segment holds from an address on: of a core dump, memory; of a program, what it is loaded with.
    pub fn memory(&self, address: u64) -> Option<&'d [u8]> {
        let holds =
            |s: &object::Segment<'d, '_>| address.checked_sub(s.address()).is_some_and(|at| at < s.size());
        let segment = self.file.segments().find(holds)?;
        let at = usize::try_from(address - segment.address()).ok()?;
        segment.data().ok()?.get(at..).filter(|rest| !rest.is_empty())
    }

    /// Size of the file in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: a parsed file has a header.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes `symbol + addend` where the relocations of a `.o` or `.ko` say so. Only absolute ones occur in debug
    /// sections of the architectures we read; others are left alone.
    fn relocate(
        &self,
        section: &object::Section<'d, '_>,
        data: Cow<'d, [u8]>,
    ) -> Result<Cow<'d, [u8]>, Error> {
        let mut relocations = section.relocations().peekable();
        if relocations.peek().is_none() {
            return Ok(data);
        }
        let mut data = data.into_owned();
        let little = self.little_endian();
        for (offset, relocation) in relocations {
            let Some(bytes) = width(&relocation, self.file.architecture()) else { continue };
            let base = match relocation.target() {
                RelocationTarget::Symbol(i) => self.file.symbol_by_index(i).map_or(0, |s| s.address()),
                _ => 0,
            };
            let Ok(at) = usize::try_from(offset) else { continue };
            let Some(slot) = at.checked_add(bytes).and_then(|end| data.get_mut(at..end)) else { continue };
            let old = if relocation.has_implicit_addend() { load(slot, little) } else { 0 };
            let value = base.wrapping_add(relocation.addend() as u64).wrapping_add(old);
            store(slot, value, little);
        }
        Ok(Cow::Owned(data))
    }
}

/// The file begins like an ELF.
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// Bytes that an absolute relocation writes.
fn width(relocation: &object::Relocation, arch: object::Architecture) -> Option<usize> {
    use object::RelocationKind as Kind;
    if relocation.kind() == Kind::Absolute {
        return match relocation.size() {
            32 => Some(4),
            64 => Some(8),
            16 => Some(2),
            8 => Some(1),
            _ => None,
        };
    }
    // RISC-V and LoongArch name their absolute ones in ways that the generic table does not cover.
    match (arch, relocation.flags()) {
        (object::Architecture::Riscv64 | object::Architecture::Riscv32, RelocationFlags::Elf { r_type }) => {
            match r_type {
                object::elf::R_RISCV_32 => Some(4),
                object::elf::R_RISCV_64 => Some(8),
                _ => None,
            }
        }
        _ => None,
    }
}

fn load(slot: &[u8], little: bool) -> u64 {
    let fold = |n: u64, b: &u8| n << 8 | u64::from(*b);
    if little { slot.iter().rev().fold(0, fold) } else { slot.iter().fold(0, fold) }
}

fn store(slot: &mut [u8], value: u64, little: bool) {
    let n = slot.len();
    for (i, b) in slot.iter_mut().enumerate() {
        let at = if little { i } else { n - 1 - i };
        *b = (value >> (8 * at as u32).min(63)) as u8;
    }
}

fn inflate<'d>(name: &str, packed: &object::CompressedData<'d>) -> Result<Cow<'d, [u8]>, Error> {
    use object::CompressionFormat as Format;
    let claimed = packed.uncompressed_size;
    let mut out = Vec::new();
    let size = match packed.format {
        Format::None => return Ok(Cow::Borrowed(packed.data)),
        _ if claimed
            > INFLATED_MAX.min(SMALL_INFLATED.max(packed.data.len() as u64 * INFLATED_TIMES_MAX)) =>
        {
            return Err(Error::malformed(name, 0, format!("claims to inflate to {claimed} bytes")));
        }
        Format::Zlib => {
            // deflate cannot pack better than 1032:1, so a false claim cannot make us reserve much
            out.reserve_exact(claimed.min(packed.data.len() as u64 * 1032) as usize);
            flate2::read::ZlibDecoder::new(packed.data).take(claimed).read_to_end(&mut out)
        }
        Format::Zstandard => {
            out.reserve(claimed.min(packed.data.len() as u64 * 8) as usize);
            inflate_zstd(packed.data, claimed, &mut out)
        }
        other => {
            return Err(Error::Unsupported { section: name.into(), what: format!("compression {other:?}") });
        }
    }
    .map_err(|e| Error::malformed(name, 0, format!("does not decompress: {e}")))?;
    if size as u64 != claimed {
        return Err(Error::malformed(
            name,
            size as u64,
            format!("decompresses to {size} bytes of {claimed}"),
        ));
    }
    Ok(Cow::Owned(out))
}

/// A section may hold several frames, one after another (binutils and lld write one per chunk).
fn inflate_zstd(mut data: &[u8], claimed: u64, out: &mut Vec<u8>) -> std::io::Result<usize> {
    while !data.is_empty() && (out.len() as u64) < claimed {
        let room = claimed - out.len() as u64;
        let frame = ruzstd::decoding::StreamingDecoder::new(&mut data)
            .map_err(|e| std::io::Error::other(e.to_string()))?;
        if frame.take(room).read_to_end(out)? == 0 {
            break;
        }
    }
    Ok(out.len())
}

/// Section bytes, borrowed from the main file, inflated, or part of a companion file.
#[derive(Clone)]
pub enum SectionData<'d> {
    /// Part of the main file.
    Borrowed(&'d [u8]),
    /// Inflated or relocated.
    Owned(Arc<[u8]>),
    /// Part of a companion file.
    Part(Bytes, Range<usize>),
}

impl Default for SectionData<'_> {
    fn default() -> Self {
        SectionData::Borrowed(&[])
    }
}

impl<'d> From<Cow<'d, [u8]>> for SectionData<'d> {
    fn from(data: Cow<'d, [u8]>) -> Self {
        match data {
            Cow::Borrowed(b) => SectionData::Borrowed(b),
            Cow::Owned(v) => SectionData::Owned(v.into()),
        }
    }
}

impl SectionData<'_> {
    /// The bytes.
    pub fn get(&self) -> &[u8] {
        match self {
            SectionData::Borrowed(b) => b,
            SectionData::Owned(v) => v,
            SectionData::Part(owner, range) => (**owner).as_ref().get(range.clone()).unwrap_or(&[]),
        }
    }
}

/// The kernel's name of the architecture that an ELF file is for. Raw BTF and snapshots do not tell.
pub fn arch(bytes: &[u8]) -> Option<String> {
    if !bytes.starts_with(b"\x7fELF") {
        return None;
    }
    let machine = bytes.get(18..20).map(|b| match bytes.get(5) {
        Some(2) => u16::from_be_bytes([b[0], b[1]]),
        _ => u16::from_le_bytes([b[0], b[1]]),
    })?;
    let name = match machine {
        3 => "x86",
        20 | 21 => "powerpc",
        22 => "s390",
        40 => "arm",
        62 => "x86_64",
        183 => "arm64",
        243 => "riscv",
        258 => "loongarch",
        _ => return None,
    };
    Some(name.into())
}
