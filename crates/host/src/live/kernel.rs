//! The running kernel: its symbols, the bytes of its code, its file with debug information.

use super::error::LiveError;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use tussle_debuginfo::{Bytes, Elf, loads};
use tussle_live::image::Image;
use tussle_live::kallsyms::Symbols;
use tussle_live::kernel::{self, Kernel, Known, Text};
use tussle_live::session::KERNEL_START;

/// `NR_CPUS` of any configuration.
const CPUS_MAX: usize = 8192;

/// Type of a note that holds a build-id.
const NT_GNU_BUILD_ID: u32 = 3;

/// So much belongs to a kernel of which the end is not known.
const KERNEL_BYTES: u64 = 1 << 30;

/// Memory of the running kernel: `/proc/kcore`, an ELF file as large as all addresses.
pub(super) struct Core {
    file: File,
    /// Address, place in the file, bytes.
    parts: Vec<(u64, u64, u64)>,
}

impl Core {
    fn open(path: &Path) -> Option<Core> {
        let file = File::open(path).ok()?;
        let mut head = [0; 64];
        file.read_exact_at(&mut head, 0).ok()?;
        let number = |at: usize, n: usize| {
            head.get(at..at + n).map(|b| b.iter().rev().fold(0u64, |sum, b| sum << 8 | u64::from(*b)))
        };
        let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let mut headers = vec![0; (size * count) as usize];
        file.read_exact_at(&mut headers, table).ok()?;
        let part = |h: &[u8]| -> Option<(u64, u64, u64)> {
            let word = |at: usize| Some(u64::from_le_bytes(h.get(at..at + 8)?.try_into().ok()?));
            // PT_LOAD
            (h.first() == Some(&1)).then_some((word(16)?, word(8)?, word(32)?))
        };
        let parts = headers.chunks_exact((size as usize).max(1)).filter_map(part).collect();
        Some(Core { file, parts }).filter(|_| head.starts_with(b"\x7fELF\x02\x01"))
    }

    /// Reads up to the buffer's size; returns how much could be read.
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let Some(p) = self.parts.iter().find(|p| p.0 <= address && address - p.0 < p.2) else { return 0 };
        let inside = address - p.0;
        let room = buffer.len().min(usize::try_from(p.2 - inside).unwrap_or(usize::MAX));
        self.file.read_at(&mut buffer[..room], p.1.wrapping_add(inside)).unwrap_or(0)
    }
}

/// Where the kernel's code is read from.
#[derive(Default)]
pub(super) enum Memory {
    #[default]
    Nothing,
    Core(Core),
    /// The file, and the address minus the file's own.
    Linked(Box<Image>, u64),
}

impl Memory {
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        match self {
            Memory::Nothing => 0,
            Memory::Core(core) => core.read(address, buffer),
            Memory::Linked(image, bias) => {
                let bytes = image.code(address.wrapping_sub(*bias), buffer.len() as u64).unwrap_or_default();
                buffer[..bytes.len()].copy_from_slice(bytes);
                bytes.len()
            }
        }
    }
}

/// The kernel as far as it can be known here, and what people should know about what is missing.
pub(super) struct Found {
    pub kernel: Kernel,
    pub memory: Memory,
    /// Bytes of `--vmlinux`, under its path.
    pub file: Option<(String, Bytes)>,
    pub remarks: Vec<String>,
}

/// Looks for all of it.
///
/// # Errors
/// The list of symbols is hidden, or the file is of another kernel.
pub(super) fn find(vmlinux: Option<&Path>) -> Result<Found, LiveError> {
    let text = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let symbols = Symbols::read(&text);
    if symbols.is_empty() {
        return Err(LiveError::Symbols);
    }
    let mut remarks = Vec::new();
    let file = vmlinux.map(|path| open(path, &symbols, &mut remarks)).transpose()?;
    let core = Core::open(Path::new("/proc/kcore"));
    let per_cpu = core.as_ref().map(|c| per_cpu(c, &symbols)).unwrap_or_default();
    let of_file = || file.as_ref().and_then(|f| Some((linked(&f.1, &f.2, &symbols)?, f.2.bias)));
    let (text, memory, replaced) = match core.filter(|c| reads_code(c, &symbols)) {
        Some(core) => (Text::Running, Memory::Core(core), Vec::new()),
        None => match of_file() {
            Some(((image, out), bias)) => (Text::AsLinked, Memory::Linked(Box::new(image), bias), out),
            None => (Text::Missing, Memory::Nothing, Vec::new()),
        },
    };
    let types = if file.is_none() { fs::read(TYPES).ok() } else { None };
    let named =
        if file.is_some() { Named::File } else { types.as_ref().map_or(Named::Symbols, |_| Named::Types) };
    remarks.extend(missing(text, named).map(Into::into));
    let known = Known { symbols, per_cpu, text, replaced, file: file.as_ref().map(|f| f.2.clone()), types };
    Ok(Found { kernel: Kernel::new(known), memory, file: file.map(|f| (f.0, f.1)), remarks })
}

/// The kernel's own description of its types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// What gives names to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    File,
    Types,
    Symbols,
}

fn missing(text: Text, named: Named) -> Option<&'static str> {
    match (text, named) {
        (Text::Missing, _) => Some(
            "addresses cannot be told: this kernel has no /proc/kcore (CONFIG_PROC_KCORE, lockdown), and no --vmlinux \
             FILE was given; only functions come out",
        ),
        (Text::AsLinked, _) => Some(
            "no /proc/kcore: code is that of the file, which the running kernel has patched; what it may have patched, \
             per-CPU variables, and instructions before the sampled one are left out",
        ),
        (Text::Running, Named::Types) => Some(
            "no --vmlinux FILE: variables by the kernel's list of symbols, types as far as it describes them itself \
             (what parameters point to, per-CPU variables), no lines of code; `linux-image-*-dbg` or \
             `kernel-debuginfo` has the file",
        ),
        (Text::Running, Named::Symbols) => Some(
            "no --vmlinux FILE: variables by the kernel's list of symbols, no types; `linux-image-*-dbg` or \
             `kernel-debuginfo` has the file",
        ),
        (Text::Running, Named::File) => None,
    }
}

fn reads_code(core: &Core, symbols: &Symbols) -> bool {
    let mut bytes = [0; 16];
    let at = symbols.address("_text").or_else(|| symbols.address("_stext"));
    at.is_some_and(|at| core.read(at, &mut bytes) == bytes.len() && bytes != [0; 16])
}

/// `__per_cpu_offset[]`: where the variables of each CPU lie, less their link address.
fn per_cpu(core: &Core, symbols: &Symbols) -> Vec<u64> {
    let Some(at) = symbols.address("__per_cpu_offset") else { return Vec::new() };
    let configured = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = configured.trim().rsplit(['-', ',']).next().and_then(|n| n.parse::<usize>().ok());
    let mut bytes = vec![0; 8 * (last.unwrap_or(0) + 1).min(CPUS_MAX)];
    let n = core.read(at, &mut bytes);
    let words = bytes[..n].chunks_exact(8).filter_map(|c| c.try_into().ok()).map(u64::from_le_bytes);
    let found: Vec<u64> = words.collect();
    // All of them, or the wrong CPU's would be taken.
    if found.len() * 8 == bytes.len() && found.iter().all(|w| *w != 0) { found } else { Vec::new() }
}

type Opened = (String, Bytes, kernel::File);

fn open(path: &Path, symbols: &Symbols, remarks: &mut Vec<String>) -> Result<Opened, LiveError> {
    let wrong = |why: String| LiveError::Vmlinux(path.display().to_string(), why);
    let file = File::open(path).map_err(|e| wrong(e.to_string()))?;
    // SAFETY: private and only read, as in `images`.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| wrong(e.to_string()))?;
    let bytes: Bytes = Arc::new(map);
    let elf = Elf::parse((*bytes).as_ref()).map_err(|e| wrong(e.to_string()))?;
    let hex = |id: &[u8]| id.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let own = elf.build_id().map(hex);
    match (&own, fs::read("/sys/kernel/notes").ok().and_then(|n| build_id(&n)).map(|id| hex(&id))) {
        (Some(own), Some(running)) if *own != running => {
            return Err(wrong(format!(
                "of another kernel: its build-id is {own}, the running one's {running}"
            )));
        }
        (Some(_), Some(_)) => {}
        _ => {
            remarks.push("whether --vmlinux is the running kernel's file cannot be told: no build-id".into())
        }
    }
    let first = loads(&elf).iter().map(|l| l.0).filter(|a| *a >= KERNEL_START).min();
    let linked =
        first.ok_or_else(|| wrong("no kernel: nothing is linked to the kernel's addresses".into()))?;
    let start = symbols.address("_text").ok_or_else(|| wrong("the running kernel has no _text".into()))?;
    let end = symbols.address("_end").unwrap_or(start + KERNEL_BYTES);
    let bias = start.wrapping_sub(linked);
    drop(elf);
    let path = fs::canonicalize(path).unwrap_or(path.to_path_buf()).to_string_lossy().into_owned();
    Ok((path.clone(), bytes, kernel::File { path, build_id: own, start, end, bias }))
}

/// Notes: sizes of name and content, type, both padded to four bytes.
fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let mut at = 0usize;
    loop {
        let word = |n: usize| {
            let b = notes.get(at + 4 * n..at + 4 * n + 4)?;
            Some(u32::from_le_bytes(b.try_into().ok()?))
        };
        let (name, size, kind) = (word(0)? as usize, word(1)? as usize, word(2)?);
        let content = at + 12 + name.next_multiple_of(4);
        let bytes = notes.get(content..content.checked_add(size)?)?;
        if kind == NT_GNU_BUILD_ID && notes.get(at + 12..at + 16) == Some(b"GNU\0") {
            return Some(bytes.to_vec());
        }
        at = content + size.next_multiple_of(4);
    }
}

/// The code of the file, with what the kernel replaces of it; none if that is not known.
fn linked(bytes: &Bytes, file: &kernel::File, symbols: &Symbols) -> Option<(Image, Vec<(u64, u64)>)> {
    let image = Image::read(bytes.clone())?;
    let (start, end) = (symbols.address("__alt_instructions")?, symbols.address("__alt_instructions_end")?);
    let table = image.code(start.wrapping_sub(file.bias), end.checked_sub(start)?)?;
    let replaced = kernel::replaced(table, start, file.start..file.end)?;
    Some((image, replaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        [name.len() as u32, content.len() as u32, kind].iter().for_each(|w| out.extend(w.to_le_bytes()));
        out.extend(name);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(content);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let mut notes = note(b"Linux\0", 257, b"6.1.0-x\0\0");
        notes.extend(note(b"Xen\0", 3, b"no"));
        notes.extend(note(b"GNU\0", NT_GNU_BUILD_ID, &[0xab, 0xcd]));
        assert_eq!(build_id(&notes), Some(vec![0xab, 0xcd]));
        assert_eq!(build_id(&notes[..notes.len() - 3]), None, "cut off");
    }

    /// One part of 8 bytes at 0xffffffff81000000, 0x100 bytes into the file.
    #[test]
    fn memory_is_read_where_the_file_says_it_lies() {
        let mut bytes = vec![0u8; 0x110];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let words = [(32, 64u64), (64, 1), (72, 0x100), (80, 0xffff_ffff_8100_0000), (96, 8)];
        words.iter().for_each(|(at, w)| bytes[*at..at + 8].copy_from_slice(&w.to_le_bytes()));
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[0x100..0x108].copy_from_slice(b"codecode");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core");
        fs::write(&path, &bytes).unwrap();
        let core = Core::open(&path).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(core.read(0xffff_ffff_8100_0004, &mut buffer), 4);
        assert_eq!(&buffer[..4], b"code");
        assert_eq!(core.read(0xffff_ffff_8100_0008, &mut buffer), 0);
        assert!(Core::open(Path::new("/dev/null")).is_none());
    }
}
