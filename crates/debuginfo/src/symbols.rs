//! Names of one ELF image's addresses: code to inlined frames, data to variables, and what identifiers mean at a place
//! in the code.
//!
//! All addresses here are *file addresses* (stated virtual memory addresses, `svma`): the run-time address minus the
//! module's bias. Types are named by the offset of their entry in `.debug_info`, which the type reader maps to ids.

mod elf;
mod places;
mod scopes;
mod variables;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use gimli::{EndianArcSlice, RunTimeEndian};
use tussle_model::SourceLoc;

use crate::elf::Elf;
use crate::error::{Damage, Damages, Error};
use crate::golang::GoTable;

pub use places::{Function, Location, Placed};
pub use scopes::{FileName, Scope};

/// Reader that owns its section, so that [`Symbols`] outlives the file's bytes.
pub(crate) type Reader = EndianArcSlice<RunTimeEndian>;

/// A part of the image that is mapped into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address.
    pub svma: u64,
    /// Bytes in memory.
    pub size: u64,
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// Bytes in the file; the rest is zero.
    pub file_size: u64,
    /// May hold writable data.
    pub writable: bool,
}

/// The template of thread-local storage (`PT_TLS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsSegment {
    /// Bytes in memory.
    pub size: u64,
    /// Alignment, a power of two.
    pub align: u64,
}

impl TlsSegment {
    /// Distance from the start of the executable's block to the thread pointer on x86-64 (TLS variant II): the block
    /// ends at the thread pointer, its start is aligned.
    pub fn below_thread_pointer(&self) -> u64 {
        self.size.div_ceil(self.align.max(1)).saturating_mul(self.align.max(1))
    }
}

/// What a symbol stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    /// Code.
    Code,
    /// Data.
    Data,
    /// Thread-local data; the address is an offset into the TLS template.
    Tls,
}

/// An entry of the symbol table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Demangled.
    pub name: String,
    /// Address, or offset in the TLS template.
    pub svma: u64,
    /// Bytes; 0 when the table does not say.
    pub size: u64,
    /// Code, data or TLS.
    pub kind: SymbolKind,
}

/// A global, static or thread-local variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// `counter`, `ns::Foo::shared`, `main::calls` for a static inside a function.
    pub name: String,
    /// Address, or offset in the TLS template.
    pub svma: u64,
    /// Bytes by the symbol table, if it has the variable.
    pub size: Option<u64>,
    /// Entry of its type in `.debug_info`; `None` when only the symbol table knows it.
    pub ty: Option<usize>,
    /// Where it is declared.
    pub decl: Option<SourceLoc>,
    /// Thread-local.
    pub tls: bool,
    /// Alignment that the source asks for, bytes.
    pub align: Option<u64>,
}

/// A place in code; inlined functions have one each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeFrame {
    /// Demangled; empty when not known.
    pub function: String,
    /// Path as the debug information has it; empty when not known.
    pub file: String,
    /// 1-based; 0 when not known.
    pub line: u32,
    /// 1-based, in bytes; 0 when not known.
    pub column: u32,
}

/// Names of one image. Lookups cache what they read of the debug information.
pub struct Symbols {
    /// Hex, lower case.
    pub build_id: Option<String>,
    /// `PT_LOAD` segments in order of address.
    pub segments: Vec<Segment>,
    /// Thread-local storage, if any.
    pub tls: Option<TlsSegment>,
    /// In order of (TLS last, address); variables do not repeat.
    pub variables: Vec<Variable>,
    /// File has line tables or more.
    pub has_debug_info: bool,
    symbols: Vec<Symbol>,
    /// Go's own table, where there is no debug information.
    go: Option<GoTable>,
    context: Option<addr2line::Context<Reader>>,
    units: RefCell<HashMap<usize, Arc<scopes::Unit>>>,
    places: RefCell<HashMap<usize, Arc<places::Places>>>,
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Symbols {{ build_id: {:?}, variables: {} }}", self.build_id, self.variables.len())
    }
}

impl Symbols {
    /// Reads an image. `debug` holds the bytes of a separate debug file, if there is one. Damaged debug information
    /// costs the names that it held, never the rest.
    ///
    /// # Errors
    /// [`Error::Format`] and [`Error::Malformed`] when `bytes` is no readable ELF.
    pub fn read(bytes: &[u8], debug: Option<&[u8]>) -> Result<(Symbols, Vec<Damage>), Error> {
        let image = Elf::parse(bytes)?;
        let mut problems = Damages::default();
        let separate = debug.and_then(|d| match Elf::parse(d) {
            Ok(e) => Some(e),
            Err(e) => {
                problems.add("separate debug file", 0, e);
                None
            }
        });
        let source = separate.as_ref().unwrap_or(&image);
        let mut symbols = elf::symbols(&image);
        if let Some(s) = &separate {
            symbols.extend(elf::symbols(s));
            elf::sort(&mut symbols);
        }
        let has_debug_info = source.has(".debug_info") || source.has(".zdebug_info");
        let dwarf = if has_debug_info { load(source, &mut problems) } else { None };
        let mut variables = Vec::new();
        if let Some(dwarf) = &dwarf {
            variables = variables::read(dwarf, &mut problems);
        }
        let go = if has_debug_info { None } else { GoTable::read(&image) };
        if let Some(table) = &go {
            elf::add_go(&mut symbols, table);
        }
        elf::merge(&mut variables, &symbols);
        let context = dwarf.and_then(|d| match addr2line::Context::from_dwarf(d) {
            Ok(c) => Some(c),
            Err(e) => {
                problems.add(".debug_aranges", 0, e);
                None
            }
        });
        let result = Symbols {
            build_id: image.build_id().map(hex),
            segments: elf::segments(&image),
            tls: elf::tls(bytes),
            variables,
            has_debug_info: context.is_some(),
            symbols,
            go,
            context,
            units: RefCell::default(),
            places: RefCell::default(),
        };
        Ok((result, problems.0))
    }

    /// Functions at an address, innermost inlined first; from the symbol table alone when there are no line tables.
    /// Empty when nothing is known.
    pub fn frames(&self, svma: u64) -> Vec<CodeFrame> {
        let mut frames = self.debug_frames(svma);
        if frames.iter().all(|f| f.function.is_empty())
            && let Some(s) = self.symbol(svma, SymbolKind::Code)
        {
            match frames.first_mut() {
                Some(f) => f.function = s.name.clone(),
                None => {
                    let (file, line) = self.go.as_ref().and_then(|g| g.line(svma)).unwrap_or_default();
                    frames.push(CodeFrame { function: s.name.clone(), file, line, column: 0 });
                }
            }
        }
        frames
    }

    fn debug_frames(&self, svma: u64) -> Vec<CodeFrame> {
        let mut out = Vec::new();
        let Some(context) = &self.context else { return out };
        let Ok(mut frames) = context.find_frames(svma).skip_all_loads() else { return out };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|f| f.raw_name().ok());
            let function = name.map(|n| demangle(&n)).unwrap_or_default();
            let place = frame.location.as_ref();
            out.push(CodeFrame {
                function,
                file: place.and_then(|l| l.file).unwrap_or_default().to_string(),
                line: place.and_then(|l| l.line).unwrap_or(0),
                column: place.and_then(|l| l.column).unwrap_or(0),
            });
        }
        out
    }

    /// The symbol that holds an address; one without a size holds everything up to the next.
    pub fn symbol(&self, svma: u64, kind: SymbolKind) -> Option<&Symbol> {
        let end = self.symbols.partition_point(|s| s.svma <= svma);
        let mut candidates = self.symbols[..end].iter().rev().filter(|s| s.kind == kind).take(8);
        candidates.find(|s| s.size == 0 || svma - s.svma < s.size)
    }

    /// The functions whose length the symbol table knows, in order of address.
    pub fn functions(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|s| s.kind == SymbolKind::Code && s.size > 0)
    }

    /// The thread-local variables in order of their offset.
    pub fn tls_variables(&self) -> &[Variable] {
        let first = self.variables.partition_point(|v| !v.tls);
        &self.variables[first..]
    }

    /// The variables in memory in order of address.
    pub fn static_variables(&self) -> &[Variable] {
        let first = self.variables.partition_point(|v| !v.tls);
        &self.variables[..first]
    }

    /// What identifiers mean at a code address: one scope per frame of [`Symbols::frames`], in the same order.
    pub fn scopes(&self, svma: u64) -> Vec<Scope> {
        self.unit(svma).map(|u| u.scopes(svma)).unwrap_or_default()
    }

    /// A variable or function of the file that holds the code address, also one that is only declared there.
    pub fn file_name(&self, svma: u64, name: &str) -> Option<FileName> {
        self.unit(svma).and_then(|u| u.names.get(name).copied())
    }

    /// Paths of the source files that the compiled file at a code address was made of, its headers included, in order
    /// of their names. A header of which only macros were used may be missing.
    pub fn sources(&self, svma: u64) -> Arc<[String]> {
        self.unit(svma).map_or_else(|| Vec::new().into(), |u| u.sources.clone())
    }

    /// Entries of all types that variables have, and that scopes and names at these code addresses mention.
    pub fn type_entries(&self, svmas: &[u64]) -> Vec<usize> {
        for &svma in svmas {
            self.unit(svma);
        }
        let mut out: Vec<usize> = self.variables.iter().filter_map(|v| v.ty).collect();
        for unit in self.units.borrow().values() {
            unit.type_entries(&mut out);
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Variables and parameters whose value is in a register or in memory at a code address, those of inlined
    /// functions too. What DWARF describes in a more involved way is left out.
    pub fn placed(&self, svma: u64) -> Vec<Placed> {
        self.places(svma).map(|p| p.at(svma)).unwrap_or_default()
    }

    /// The function (not inlined) that holds a code address.
    pub fn function(&self, svma: u64) -> Option<Function> {
        let places = self.places(svma)?;
        let end = places.functions.partition_point(|f| f.start <= svma);
        places.functions[..end].last().copied().filter(|f| svma < f.end)
    }

    fn places(&self, svma: u64) -> Option<Arc<places::Places>> {
        let context = self.context.as_ref()?;
        let unit = context.find_dwarf_and_unit(svma).skip_all_loads()?;
        let key = unit.header.debug_info_offset()?.0;
        if let Some(known) = self.places.borrow().get(&key) {
            return Some(known.clone());
        }
        let read = Arc::new(places::Places::read(&unit));
        self.places.borrow_mut().insert(key, read.clone());
        Some(read)
    }

    fn unit(&self, svma: u64) -> Option<Arc<scopes::Unit>> {
        let context = self.context.as_ref()?;
        let unit = context.find_dwarf_and_unit(svma).skip_all_loads()?;
        let key = unit.header.debug_info_offset()?.0;
        if let Some(known) = self.units.borrow().get(&key) {
            return Some(known.clone());
        }
        let read = Arc::new(scopes::Unit::read(&unit));
        self.units.borrow_mut().insert(key, read.clone());
        Some(read)
    }
}

/// Lower-case hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn load(elf: &Elf, problems: &mut Damages) -> Option<gimli::Dwarf<Reader>> {
    let endian = elf.endian();
    let section = |id: gimli::SectionId| -> Result<Reader, gimli::Error> {
        let bytes: Arc<[u8]> = match elf.section(id.name()) {
            Ok(data) => data.into_owned().into(),
            Err(e) => {
                problems.add(id.name(), 0, e);
                Arc::from(&[][..])
            }
        };
        Ok(Reader::new(bytes, endian))
    };
    gimli::Dwarf::load(section).ok()
}

/// Demangles C++ and Rust names; everything else stays.
pub(crate) fn demangle(name: &str) -> String {
    // Mangled names of all languages begin so. C's `a` is no `signed char`, as the grammar of C++'s would have it.
    match name.starts_with('_') {
        true => addr2line::demangle_auto(name.into(), None).into_owned(),
        false => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn names_of_c_are_not_mangled_types() {
        assert_eq!(["a", "b", "main", "_start"].map(demangle), ["a", "b", "main", "_start"]);
        assert_eq!(demangle("_Z3fooi"), "foo(int)");
    }
}
