//! Places of virtual bases as the program itself finds them: through the vtables in its data.
//!
//! Itanium C++ ABI 2.6.2: the table of vtables (VTT) of a class begins with the address of its vtable. The offset of a
//! virtual base is a number in front of that address, at a distance that the debug information names.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, Relocation, RelocationTarget};
use tussle_model::canonical;

use crate::elf::{Bytes, Elf};
use crate::symbols::demangle;

/// Bytes in front of a vtable that are kept: 64 virtual bases and functions.
const WINDOW_BYTES: u64 = 512;

/// Words of a vtable among which the pointer to the type's description is looked for.
const WORDS_MAX: u64 = 32;

/// Classes beyond this many are left out.
const CLASSES_MAX: usize = 1 << 16;

/// What lies in front of the vtables of a program, read when the first virtual base is met.
pub(crate) struct Vtables<'d> {
    data: &'d [u8],
    names: Option<Bytes>,
    windows: OnceLock<Windows>,
}

/// By the canonical name of the class; `None` where several classes of one name disagree.
type Windows = HashMap<String, Option<Vec<u8>>>;

/// A place in a section's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Spot {
    section: object::SectionIndex,
    offset: u64,
}

impl<'d> Vtables<'d> {
    /// Of the program in `data`; `names` is its separate debug file, which has the local symbols.
    pub fn new(data: &'d [u8], names: Option<Bytes>) -> Vtables<'d> {
        Vtables { data, names, windows: OnceLock::new() }
    }

    /// The number that lies `distance` bytes in front of the vtable of `class`.
    pub fn before(&self, class: &str, distance: u64, pointer_size: u8, little_endian: bool) -> Option<u64> {
        let windows = self.windows.get_or_init(|| self.read().unwrap_or_default());
        let window = windows.get(&canonical(class))?.as_deref()?;
        let at = window.len().checked_sub(usize::try_from(distance).ok()?)?;
        number(window.get(at..)?, pointer_size, little_endian)
    }

    fn read(&self) -> Option<Windows> {
        let data = Elf::parse(self.data).ok()?;
        let names = self.names.as_ref().and_then(|b| Elf::parse((**b).as_ref()).ok());
        let classes = classes(&data, names.as_ref());
        let relocations = relocations(&data, &classes);
        let mut windows = Windows::new();
        for (mangled, class) in &classes {
            let point = class.point(&data, &relocations);
            let Some((name, window)) = class_name(mangled).zip(point.and_then(|p| window(&data, p))) else {
                continue;
            };
            let slot = windows.entry(name).or_insert_with(|| Some(window.clone()));
            if slot.as_ref() != Some(&window) {
                *slot = None;
            }
        }
        Some(windows)
    }
}

/// What the symbol table has of one class.
#[derive(Default)]
struct Class {
    /// `_ZTT`.
    tables: Option<Spot>,
    /// `_ZTV`.
    vtable: Option<Spot>,
    /// `_ZTI`.
    info: Option<Spot>,
}

impl Class {
    /// Where objects of the class point: the first word of its VTT says. Where the compiler needed none, the primary
    /// vtable begins behind the first pointer to the type's description.
    fn point(&self, elf: &Elf<'_>, relocations: &Pointers) -> Option<Spot> {
        let tables = self.tables.and_then(|t| pointer(elf, t, relocations));
        tables.or_else(|| {
            let info = self.info?;
            let at = self.words(elf).find(|w| pointer(elf, *w, relocations) == Some(info))?;
            Some(Spot { offset: at.offset.checked_add(u64::from(elf.pointer_size()))?, ..at })
        })
    }

    /// The first words of the vtable.
    fn words(&self, elf: &Elf<'_>) -> impl Iterator<Item = Spot> {
        let size = u64::from(elf.pointer_size());
        let word = move |at: Spot| {
            (0..WORDS_MAX).map(move |i| Spot { offset: at.offset.wrapping_add(i * size), ..at })
        };
        self.vtable.into_iter().flat_map(word)
    }
}

/// Demangled as the VTT of the class, which gives its name in all contexts.
fn class_name(mangled: &str) -> Option<String> {
    let name = demangle(&format!("_ZTT{mangled}"));
    Some(canonical(name.strip_prefix("{vtt(")?.strip_suffix(")}")?))
}

/// Classes with a vtable, by their mangled names. Local symbols of one name, as in unnamed namespaces, are several
/// entries.
fn classes(data: &Elf<'_>, names: Option<&Elf<'_>>) -> Vec<(String, Class)> {
    let mut found: HashMap<String, Class> = HashMap::new();
    let mut twins = Vec::new();
    let mut add = |name: &str, spot: Option<Spot>| {
        let Some((kind, class)) = name.split_at_checked(4).filter(|(_, c)| !c.is_empty()) else { return };
        if found.len() >= CLASSES_MAX || !matches!(kind, "_ZTT" | "_ZTV" | "_ZTI") {
            return;
        }
        let entry = found.entry(class.to_string()).or_default();
        let slot = match kind {
            "_ZTT" => &mut entry.tables,
            "_ZTV" => &mut entry.vtable,
            _ => &mut entry.info,
        };
        match (*slot, spot) {
            (Some(old), Some(new)) if old != new && kind == "_ZTT" => {
                twins.push((class.to_string(), Class { tables: spot, ..Class::default() }));
            }
            (None, Some(_)) => *slot = spot,
            _ => {}
        }
    };
    for s in data.object().symbols().chain(data.object().dynamic_symbols()).filter(|s| !s.is_undefined()) {
        s.name().into_iter().filter(|n| n.starts_with("_ZT")).for_each(|n| add(n, spot_of(data, &s)));
    }
    for s in names.iter().flat_map(|n| n.object().symbols()).filter(|s| !s.is_undefined()) {
        s.name()
            .into_iter()
            .filter(|n| n.starts_with("_ZT"))
            .for_each(|n| add(n, at_address(data, s.address())));
    }
    found.retain(|_, c| c.tables.is_some() || (c.vtable.is_some() && c.info.is_some()));
    found.into_iter().chain(twins).collect()
}

fn spot_of(elf: &Elf<'_>, symbol: &object::Symbol<'_, '_>) -> Option<Spot> {
    if !elf.is_relocatable() {
        return at_address(elf, symbol.address());
    }
    Some(Spot { section: symbol.section_index()?, offset: symbol.address() })
}

fn at_address(elf: &Elf<'_>, address: u64) -> Option<Spot> {
    let holds = |s: &object::Section<'_, '_>| {
        s.address() != 0 && address.checked_sub(s.address()).is_some_and(|at| at < s.size())
    };
    let section = elf.object().sections().find(holds)?;
    Some(Spot { section: section.index(), offset: address - section.address() })
}

/// Where relocated words point.
type Pointers = HashMap<Spot, Spot>;

/// Of the words that are looked at: the first of each VTT and vtable.
fn relocations(elf: &Elf<'_>, classes: &[(String, Class)]) -> Pointers {
    let words = |c: &Class| c.tables.into_iter().chain(c.words(elf)).collect::<Vec<_>>();
    let wanted: HashSet<Spot> = classes.iter().flat_map(|(_, c)| words(c)).collect();
    let mut out = Pointers::new();
    if !elf.is_relocatable() {
        for (address, relocation) in elf.object().dynamic_relocations().into_iter().flatten() {
            let Some(at) = at_address(elf, address).filter(|at| wanted.contains(at)) else { continue };
            out.extend(target(elf, &relocation, true).map(|to| (at, to)));
        }
        return out;
    }
    let sections: HashSet<object::SectionIndex> = wanted.iter().map(|w| w.section).collect();
    for index in sections {
        let Ok(section) = elf.object().section_by_index(index) else { continue };
        for (offset, relocation) in section.relocations() {
            let at = Spot { section: index, offset };
            if wanted.contains(&at) {
                out.extend(target(elf, &relocation, false).map(|to| (at, to)));
            }
        }
    }
    out
}

fn target(elf: &Elf<'_>, relocation: &Relocation, dynamic: bool) -> Option<Spot> {
    let addend = relocation.addend() as u64;
    match relocation.target() {
        RelocationTarget::Symbol(index) => {
            let file = elf.object();
            let symbol = match dynamic {
                true => file.dynamic_symbol_table()?.symbol_by_index(index).ok()?,
                false => file.symbol_by_index(index).ok()?,
            };
            if symbol.is_undefined() {
                return None;
            }
            let base = spot_of(elf, &symbol)?;
            Some(Spot { offset: base.offset.wrapping_add(addend), ..base })
        }
        _ if dynamic => at_address(elf, addend),
        _ => None,
    }
}

/// The place that a word points at.
fn pointer(elf: &Elf<'_>, at: Spot, relocations: &Pointers) -> Option<Spot> {
    if let Some(&to) = relocations.get(&at) {
        return Some(to);
    }
    let bytes = bytes(elf, at.section)?.get(usize::try_from(at.offset).ok()?..)?;
    at_address(elf, number(bytes, elf.pointer_size(), elf.little_endian())?)
}

fn window(elf: &Elf<'_>, point: Spot) -> Option<Vec<u8>> {
    let start = usize::try_from(point.offset.saturating_sub(WINDOW_BYTES)).ok()?;
    Some(bytes(elf, point.section)?.get(start..usize::try_from(point.offset).ok()?)?.to_vec())
}

fn bytes<'d>(elf: &Elf<'d>, section: object::SectionIndex) -> Option<&'d [u8]> {
    elf.object().section_by_index(section).ok()?.data().ok()
}

fn number(bytes: &[u8], size: u8, little_endian: bool) -> Option<u64> {
    let word = bytes.get(..usize::from(size))?;
    let fold = |n: u64, b: &u8| n << 8 | u64::from(*b);
    Some(if little_endian { word.iter().rev().fold(0, fold) } else { word.iter().fold(0, fold) })
}
