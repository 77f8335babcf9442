//! What kind of executable a file is, as far as recording is concerned. Reads only; runs nothing.

use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, elf};
use std::path::{Path, PathBuf};

/// Owner of the note that the runtime carries.
const NOTE: &[u8] = b"tussle\0";

/// What [`inspect`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// Built by `tussle cc`: the runtime is inside.
    OwnRuntime,
    /// Loads `libtsan.so` dynamically; the file names that it asks for.
    NeedsLibtsan(Vec<String>),
    /// Loads `libtsan.so`, and its DT_RPATH finds one before any environment variable: that file.
    LibtsanByRpath(PathBuf),
    /// The sanitizer's own runtime is linked in statically.
    StaticLibtsan,
    /// Not instrumented, but these libraries that it loads are.
    InstrumentedLibraries(Vec<PathBuf>),
    /// Nothing instrumented was found. `dynamic`: libraries loaded later may be.
    NotInstrumented {
        /// Has an interpreter, so that libraries can be preloaded.
        dynamic: bool,
    },
    /// `#!` and the interpreter.
    Script(String),
    /// 32-bit, or of another machine.
    Foreign(String),
    /// Not an executable at all, or cut off.
    Broken(String),
}

/// Looks at the bytes of an executable. `libraries` finds a needed library's bytes by name (and where it lies).
pub fn inspect(
    bytes: &[u8],
    libraries: &mut dyn FnMut(&str, &[PathBuf]) -> Option<(PathBuf, Vec<u8>)>,
) -> Inspection {
    if let Some(rest) = bytes.strip_prefix(b"#!") {
        let line = rest.split(|&b| b == b'\n').next().unwrap_or(&[]);
        return Inspection::Script(String::from_utf8_lossy(line).trim().to_string());
    }
    if bytes.len() < 20 || !bytes.starts_with(b"\x7fELF") {
        return Inspection::Broken("it is not an ELF executable".into());
    }
    if bytes[4] != 2 {
        return Inspection::Foreign("32-bit".into());
    }
    let machine = elf::Machine(u16::from_le_bytes([bytes[18], bytes[19]]));
    if machine != elf::EM_X86_64 || bytes[5] != 1 {
        return Inspection::Foreign(machine_name(machine));
    }
    match Image::new(bytes) {
        Ok(image) => image.inspect(libraries),
        Err(e) => Inspection::Broken(format!("its ELF structure is damaged ({e})")),
    }
}

pub(crate) fn machine_name(machine: elf::Machine) -> String {
    match machine {
        elf::EM_AARCH64 => "64-bit Arm".into(),
        elf::EM_RISCV => "RISC-V".into(),
        elf::EM_PPC64 => "POWER".into(),
        elf::EM_S390 => "s390".into(),
        elf::EM_386 => "32-bit x86".into(),
        elf::EM_ARM => "32-bit Arm".into(),
        other => format!("ELF machine {}", other.0),
    }
}

type Header = elf::FileHeader64<Endianness>;

/// What the dynamic section of a file says.
struct Image<'a> {
    header: &'a Header,
    bytes: &'a [u8],
    needed: Vec<String>,
    rpath: Vec<PathBuf>,
    runpath: Vec<PathBuf>,
    dynamic: bool,
}

impl<'a> Image<'a> {
    fn new(bytes: &'a [u8]) -> Result<Image<'a>, object::read::Error> {
        let header = Header::parse(bytes)?;
        let e = header.endian()?;
        let mut image =
            Image { header, bytes, needed: vec![], rpath: vec![], runpath: vec![], dynamic: false };
        let mut entries = Vec::new();
        for p in header.program_headers(e, bytes)? {
            image.dynamic |= p.p_type(e) == elf::PT_INTERP;
            if let Some(d) = p.dynamic(e, bytes)? {
                entries.extend(d.iter().map(|d| (d.d_tag(e), d.d_val(e))));
            }
        }
        let value = |tag| entries.iter().find(|d| d.0 == tag).map(|d| d.1);
        let strings = value(elf::DT_STRTAB).and_then(|at| image.file_offset(at));
        let text = |at: u64| strings.and_then(|s| c_string(bytes, s.checked_add(at)?)).unwrap_or_default();
        for &(tag, at) in &entries {
            match tag {
                elf::DT_NEEDED => image.needed.push(text(at)),
                elf::DT_RPATH => image.rpath = text(at).split(':').map(PathBuf::from).collect(),
                elf::DT_RUNPATH => image.runpath = text(at).split(':').map(PathBuf::from).collect(),
                _ => {}
            }
        }
        Ok(image)
    }

    fn file_offset(&self, address: u64) -> Option<u64> {
        let e = self.header.endian().ok()?;
        let loads = self.header.program_headers(e, self.bytes).ok()?;
        loads.iter().filter(|p| p.p_type(e) == elf::PT_LOAD).find_map(|p| {
            let from = p.p_vaddr(e);
            let inside = address.checked_sub(from).filter(|&d| d < p.p_filesz(e))?;
            p.p_offset(e).checked_add(inside)
        })
    }

    fn inspect(
        &self,
        libraries: &mut dyn FnMut(&str, &[PathBuf]) -> Option<(PathBuf, Vec<u8>)>,
    ) -> Inspection {
        if self.has_note() {
            return Inspection::OwnRuntime;
        }
        let tsan: Vec<String> = self.needed.iter().filter(|n| n.starts_with("libtsan.so")).cloned().collect();
        if let Some(first) = tsan.first() {
            // DT_RPATH counts only without DT_RUNPATH, and then before LD_LIBRARY_PATH.
            let rpath: &[PathBuf] = if self.runpath.is_empty() { &self.rpath } else { &[] };
            let found = if rpath.is_empty() { None } else { libraries(first, rpath) };
            return match found.filter(|(at, _)| rpath.iter().any(|r| at.starts_with(r))) {
                Some((at, _)) => Inspection::LibtsanByRpath(at),
                None => Inspection::NeedsLibtsan(tsan),
            };
        }
        if self.defines_hooks() {
            return Inspection::StaticLibtsan;
        }
        let paths: Vec<PathBuf> = self.rpath.iter().chain(&self.runpath).cloned().collect();
        let mut instrumented = Vec::new();
        for n in &self.needed {
            if let Some((at, bytes)) = libraries(n, &paths)
                && wants_hooks(&bytes)
            {
                instrumented.push(at);
            }
        }
        match instrumented.is_empty() {
            true => Inspection::NotInstrumented { dynamic: self.dynamic },
            false => Inspection::InstrumentedLibraries(instrumented),
        }
    }

    fn has_note(&self) -> bool {
        let Ok(e) = self.header.endian() else { return false };
        let Ok(headers) = self.header.program_headers(e, self.bytes) else { return false };
        headers.iter().any(|p| {
            let Ok(Some(mut notes)) = p.notes(e, self.bytes) else { return false };
            while let Ok(Some(n)) = notes.next() {
                if n.name_bytes().starts_with(&NOTE[..NOTE.len() - 1]) {
                    return true;
                }
            }
            false
        })
    }

    /// The file defines hooks itself: somebody's runtime is linked in.
    fn defines_hooks(&self) -> bool {
        symbols(self.bytes).any(|(name, defined)| defined && name == b"__tsan_func_entry")
    }
}

/// The library asks for hooks from whoever loads it.
fn wants_hooks(bytes: &[u8]) -> bool {
    symbols(bytes).any(|(name, defined)| !defined && name == b"__tsan_func_entry")
}

/// All symbols, dynamic ones included: (name, defined).
fn symbols(bytes: &[u8]) -> impl Iterator<Item = (Vec<u8>, bool)> {
    use object::{Object, ObjectSymbol};
    let mut out = Vec::new();
    if let Ok(file) = object::File::parse(bytes) {
        for s in file.dynamic_symbols().chain(file.symbols()) {
            match s.name_bytes() {
                Ok(n) if n.starts_with(b"__tsan_func_e") => out.push((n.to_vec(), s.is_definition())),
                _ => {}
            }
        }
    }
    out.into_iter()
}

fn c_string(bytes: &[u8], at: u64) -> Option<String> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|&b| b == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

/// Finds libraries where the dynamic linker would: the given paths, then `LD_LIBRARY_PATH`, then the usual folders.
pub fn find_library(name: &str, paths: &[PathBuf], executable: &Path) -> Option<(PathBuf, Vec<u8>)> {
    const USUAL: [&str; 5] =
        ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"];
    let origin = executable.parent().unwrap_or(Path::new("/"));
    let env = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let given = paths.iter().map(|p| match p.to_str().and_then(|s| s.strip_prefix("$ORIGIN")) {
        Some(rest) => origin.join(rest.trim_start_matches('/')),
        None => p.clone(),
    });
    let all = given.chain(std::env::split_paths(&env)).chain(USUAL.iter().map(PathBuf::from));
    let mut all = all.filter(|p| !p.as_os_str().is_empty());
    all.find_map(|dir| {
        let at = dir.join(name);
        Some((at.clone(), std::fs::read(&at).ok()?))
    })
}

/// Names of the libraries that a file needs.
pub(crate) fn needed(bytes: &[u8]) -> Vec<String> {
    Image::new(bytes).map(|i| i.needed).unwrap_or_default()
}

/// Address in the file's own numbering of its first byte: what is above 0 in programs that are not
/// position-independent.
pub fn first_address(bytes: &[u8]) -> Option<u64> {
    let header = Header::parse(bytes).ok()?;
    let e = header.endian().ok()?;
    let mut loads = header.program_headers(e, bytes).ok()?.iter().filter(|p| p.p_type(e) == elf::PT_LOAD);
    loads.next().map(|p| p.p_vaddr(e).wrapping_sub(p.p_offset(e)))
}

/// The build-id of an ELF file as hex.
pub fn build_id(bytes: &[u8]) -> Option<String> {
    use object::Object;
    let file = object::File::parse(bytes).ok()?;
    let id = file.build_id().ok()??;
    Some(id.iter().map(|b| format!("{b:02x}")).collect())
}
