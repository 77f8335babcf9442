//! The kernel's file with debug information: symbols, functions, layouts of the structs that are walked.

use std::collections::HashMap;

use object::{Object, ObjectSymbol};
use tussle_debuginfo::dwarf::{Files, Types};
use tussle_debuginfo::symbols::Symbols;
use tussle_debuginfo::{Damage, Elf, NoCompanions};
use tussle_model::{TypeId, TypeTable};

/// Why a file cannot serve as the kernel's debug information.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file is no ELF with DWARF.
    #[error(transparent)]
    Debug(#[from] tussle_debuginfo::Error),
    /// The file has no such symbol, so it is no x86-64 Linux kernel that we can read.
    #[error("no symbol `{0}`: not a Linux kernel for x86-64 with its symbol table")]
    Symbol(&'static str),
    /// A struct that is walked has no such member.
    #[error("struct {0} has no member {1}")]
    Member(&'static str, &'static str),
}

/// A function's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Name in the symbol table, `.constprop.0` and the like included.
    pub name: String,
    /// First byte.
    pub start: u64,
    /// One past the last.
    pub end: u64,
}

/// A kernel's symbol table: read in a moment, and enough to boot it.
#[derive(Clone, Debug)]
pub struct KernelNames {
    /// Hex.
    pub build_id: Option<String>,
    labels: HashMap<String, u64>,
    functions: Vec<Function>,
}

/// A function; assembler's have no type where they are local.
fn is_code<'d>(file: &object::File<'d>, s: &impl ObjectSymbol<'d>) -> bool {
    use object::{ObjectSection, SectionKind, SymbolKind};
    let in_text = || {
        let section = s.section_index().and_then(|i| file.section_by_index(i).ok());
        section.is_some_and(|section| section.kind() == SectionKind::Text)
    };
    match s.kind() {
        SymbolKind::Text => true,
        SymbolKind::Unknown | SymbolKind::Label => in_text(),
        _ => false,
    }
}

impl KernelNames {
    /// Reads the symbol table, and looks whether there is debug information.
    ///
    /// # Errors
    /// The file is no kernel with debug information.
    pub fn read(bytes: &[u8]) -> Result<KernelNames, ImageError> {
        let elf = Elf::parse(bytes)?;
        if !elf.has(".debug_info") {
            return Err(ImageError::Debug(tussle_debuginfo::Error::NoDebugInfo { why: "stripped".into() }));
        }
        let mut labels = HashMap::new();
        let mut functions = Vec::new();
        for s in elf.object().symbols() {
            let (Ok(name), false) = (s.name(), s.is_undefined()) else { continue };
            if name.is_empty() {
                continue;
            }
            if s.size() > 0 && is_code(elf.object(), &s) {
                let end = s.address().saturating_add(s.size());
                functions.push(Function { name: name.into(), start: s.address(), end });
            }
            labels.entry(name.to_string()).or_insert(s.address());
        }
        functions.sort_by(|a, b| a.start.cmp(&b.start).then_with(|| a.name.cmp(&b.name)));
        if !labels.contains_key("init_top_pgt") {
            return Err(ImageError::Symbol("init_top_pgt"));
        }
        let build_id = elf.build_id().map(|id| id.iter().map(|b| format!("{b:02x}")).collect());
        Ok(KernelNames { build_id, labels, functions })
    }

    /// Address of a symbol, sized or not.
    pub fn label(&self, name: &str) -> Option<u64> {
        self.labels.get(name).copied()
    }

    /// Functions of one name, also those that the compiler specialised (`name.constprop.0`, `name.isra.0`), in order
    /// of address. Parts that are never executed (`name.cold`) are left out.
    pub fn functions_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Function> + 'a {
        self.functions.iter().filter(move |f| {
            let rest = f.name.strip_prefix(name);
            rest.is_some_and(|r| r.is_empty() || (r.starts_with('.') && !r.contains(".cold")))
        })
    }

    /// Functions whose names begin so, in order of address.
    pub fn functions_beginning<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Function> + 'a {
        self.functions.iter().filter(move |f| f.name.starts_with(prefix))
    }

    /// The function that holds an address.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        let end = self.functions.partition_point(|f| f.start <= address);
        self.functions[..end].iter().rev().take(8).find(|f| address < f.end)
    }
}

/// A Linux kernel for x86-64 as its file describes it.
#[derive(Debug)]
pub struct KernelImage {
    /// Variables and code addresses.
    pub symbols: Symbols,
    /// Hex.
    pub build_id: Option<String>,
    names: KernelNames,
}

impl KernelImage {
    /// Reads symbols and line tables.
    ///
    /// # Errors
    /// The file is no kernel with debug information.
    pub fn read(bytes: &[u8]) -> Result<(KernelImage, Vec<Damage>), ImageError> {
        KernelImage::with_names(KernelNames::read(bytes)?, bytes)
    }

    /// Reads line tables and variables to the names of the same file.
    ///
    /// # Errors
    /// The debug information cannot be read.
    pub fn with_names(names: KernelNames, bytes: &[u8]) -> Result<(KernelImage, Vec<Damage>), ImageError> {
        let (symbols, problems) = Symbols::read(bytes, None)?;
        Ok((KernelImage { symbols, build_id: names.build_id.clone(), names }, problems))
    }

    /// Address of a symbol, sized or not.
    pub fn label(&self, name: &str) -> Option<u64> {
        self.names.label(name)
    }

    /// The function that holds an address.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        self.names.function_at(address)
    }
}

/// Types of the kernel: by name, and by the entries that variables have.
#[derive(Debug)]
pub struct KernelTypes {
    /// All of them.
    pub table: TypeTable,
    by_entry: HashMap<usize, TypeId>,
    by_name: HashMap<String, TypeId>,
}

impl KernelTypes {
    /// Reads the structs with these names and the types at these entries of `.debug_info`.
    ///
    /// # Errors
    /// The file has no readable debug information.
    pub fn read(bytes: &[u8], names: &[String], entries: &[usize]) -> Result<KernelTypes, ImageError> {
        let elf = Elf::parse(bytes)?;
        let files = Files::load(&elf, &mut NoCompanions)?;
        let mut problems = Vec::new();
        let units = files.units(&mut problems)?;
        let mut types = Types::new(&units, files.pointer_size());
        types.read_named(names);
        let mut by_entry = HashMap::new();
        for &entry in entries {
            if let Some(at) = types.entry(gimli::DebugInfoOffset(entry)) {
                by_entry.insert(entry, types.resolve(at));
            }
        }
        let (table, ids, _) = types.finish_with_ids();
        by_entry.retain(|_, id| match ids.get(id.0 as usize) {
            Some(new) => {
                *id = *new;
                true
            }
            None => false,
        });
        let mut by_name = HashMap::new();
        for (id, a) in table.aggregates() {
            if let (Some(name), false) = (&a.name, a.declaration) {
                by_name.entry(name.clone()).or_insert(id);
            }
        }
        Ok(KernelTypes { table, by_entry, by_name })
    }

    /// Types made by hand.
    #[cfg(test)]
    pub(crate) fn of(table: TypeTable, by_entry: HashMap<usize, TypeId>) -> KernelTypes {
        let named = |(id, a): (TypeId, &tussle_model::Aggregate)| {
            Some((a.name.clone().filter(|_| !a.declaration)?, id))
        };
        let by_name = table.aggregates().filter_map(named).collect();
        KernelTypes { table, by_entry, by_name }
    }

    /// The struct or union of this name.
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// The type of an entry.
    pub fn entry(&self, entry: Option<usize>) -> Option<TypeId> {
        self.by_entry.get(&entry?).copied()
    }

    /// Offset and size in bytes of a member, inside anonymous structs and unions too.
    ///
    /// # Errors
    /// [`ImageError::Member`] when there is none.
    pub fn member(&self, of: &'static str, name: &'static str) -> Result<(u64, u64), ImageError> {
        let found = self.named(of).and_then(|ty| self.find_member(ty, name, 0));
        found.ok_or(ImageError::Member(of, name))
    }

    fn find_member(&self, ty: TypeId, name: &str, depth: u32) -> Option<(u64, u64)> {
        let a = self.table.aggregate(ty).filter(|_| depth < 8)?;
        a.members.iter().find_map(|m| match &m.name {
            Some(n) if n == name => Some((m.offset(), self.table.size(m.ty)?)),
            None => self.find_member(m.ty, name, depth + 1).map(|(o, s)| (m.offset() + o, s)),
            _ => None,
        })
    }
}
