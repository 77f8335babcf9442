//! Places of virtual bases as the program itself finds them: through the vtables in its data.
//!
//! Itanium C++ ABI 2.5.2, 2.6.2: the vtables of a class are one group of words. Each part of an object that has a
//! pointer to a vtable has one there. In front of the word that the pointer points at lie the address of the type's
//! description, before it the distance back to the start of the object, and before that the offsets of virtual bases,
//! at distances that the debug information names. The table of vtables (VTT) begins with the address of the first.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, Relocation, RelocationTarget};
use tussle_model::canonical;

use crate::elf::{Bytes, Elf};
use crate::symbols::demangle;

/// Words of a group of vtables among which pointers to the type's description are looked for.
const WORDS_MAX: u64 = 4096;

/// The same for classes without a VTT, which hardly have virtual bases, and for symbols without a size.
const WORDS_FEW: u64 = 32;

/// Classes beyond this many are left out.
const CLASSES_MAX: usize = 1 << 16;

/// The vtables of a program, found when the first virtual base is met.
pub(crate) struct Vtables<'d> {
    data: &'d [u8],
    names: Option<Bytes>,
    points: OnceLock<Points>,
}

/// By the canonical name of the class; several for several classes of one name.
type Points = HashMap<String, Vec<Vec<Point>>>;

/// Where one part of an object points.
#[derive(Clone, Copy)]
struct Point {
    /// Offset of that part from the start of the object.
    part: u64,
    /// In the file.
    at: usize,
    /// Where the section begins there.
    start: usize,
}

/// A place in a section's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Spot {
    section: object::SectionIndex,
    offset: u64,
}

impl<'d> Vtables<'d> {
    /// Of the program in `data`; `names` is its separate debug file, which has the local symbols.
    pub fn new(data: &'d [u8], names: Option<Bytes>) -> Vtables<'d> {
        Vtables { data, names, points: OnceLock::new() }
    }

    /// The number that lies `distance` bytes in front of where the part at offset `part` of a complete `class` points.
    /// `None` also where several classes of that name disagree.
    pub fn before(
        &self,
        class: &str,
        part: u64,
        distance: u64,
        pointer_size: u8,
        little_endian: bool,
    ) -> Option<i64> {
        let points = self.points.get_or_init(|| self.read().unwrap_or_default());
        let number = |class: &Vec<Point>| {
            let point = class.iter().find(|p| p.part == part)?;
            let at = point.at.checked_sub(usize::try_from(distance).ok()?).filter(|at| *at >= point.start)?;
            number(self.data.get(at..point.at)?, pointer_size, little_endian)
        };
        let mut all = points.get(&canonical(class))?.iter().map(number);
        let first = all.next()??;
        all.all(|other| other == Some(first)).then_some(first)
    }

    fn read(&self) -> Option<Points> {
        let data = Elf::parse(self.data).ok()?;
        let names = self.names.as_ref().and_then(|b| Elf::parse((**b).as_ref()).ok());
        let classes = classes(&data, names.as_ref());
        let relocations = relocations(&data, &classes);
        let mut points = Points::new();
        for (mangled, class) in &classes {
            let Some(name) = class_name(mangled) else { continue };
            points.entry(name).or_default().push(class.points(&data, &relocations));
        }
        Some(points)
    }
}

/// What the symbol table has of one class.
#[derive(Default)]
struct Class {
    /// `_ZTT`.
    tables: Option<Spot>,
    /// `_ZTV`, and its size in bytes.
    vtable: Option<(Spot, u64)>,
    /// `_ZTI`.
    info: Option<Spot>,
    /// There are several of that name, with local symbols.
    ambiguous: bool,
}

impl Class {
    /// Where the parts of its objects point. That of the object itself is also the first word of the VTT; where the
    /// two differ neither counts.
    fn points(&self, elf: &Elf<'_>, relocations: &Pointers) -> Vec<Point> {
        let mut all = self.described(elf, relocations);
        if let Some(first) = self.tables.and_then(|t| pointer(elf, t, relocations)) {
            all.extend(in_file(elf, first, 0));
        }
        all.sort_by_key(|p| (p.part, p.at));
        all.dedup_by_key(|p| (p.part, p.at));
        let once = |p: &Point| all.iter().filter(|q| q.part == p.part).count() == 1;
        all.iter().copied().filter(once).collect()
    }

    /// Those behind a pointer to the type's description.
    fn described(&self, elf: &Elf<'_>, relocations: &Pointers) -> Vec<Point> {
        let Some(info) = self.info.filter(|_| !self.ambiguous) else { return Vec::new() };
        let size = u64::from(elf.pointer_size());
        let mut before = None;
        let mut found = Vec::new();
        for word in self.words(elf) {
            if pointer(elf, word, relocations) == Some(info) {
                let back: Option<i64> = before.and_then(|w| value(elf, w));
                let part = back.and_then(|b| u64::try_from(b.checked_neg()?).ok());
                let next = word.offset.checked_add(size).map(|offset| Spot { offset, ..word });
                found.extend(part.zip(next).and_then(|(part, next)| in_file(elf, next, part)));
            }
            before = Some(word);
        }
        found
    }

    /// The words of the vtables.
    fn words(&self, elf: &Elf<'_>) -> impl Iterator<Item = Spot> {
        let size = u64::from(elf.pointer_size());
        let most = if self.tables.is_some() { WORDS_MAX } else { WORDS_FEW };
        let words = move |(at, bytes): (Spot, u64)| {
            let count = if bytes == 0 { WORDS_FEW } else { (bytes / size.max(1)).min(most) };
            (0..count).map(move |i| Spot { offset: at.offset.wrapping_add(i * size), ..at })
        };
        self.vtable.into_iter().flat_map(words)
    }
}

fn in_file(elf: &Elf<'_>, at: Spot, part: u64) -> Option<Point> {
    let (start, size) = elf.object().section_by_index(at.section).ok()?.file_range()?;
    let start = usize::try_from(start).ok()?;
    let inside = usize::try_from(at.offset).ok().filter(|_| at.offset <= size)?;
    Some(Point { part, at: start.checked_add(inside)?, start })
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
    let mut add = |name: &str, spot: Option<Spot>, size: u64| {
        let Some((kind, class)) = name.split_at_checked(4).filter(|(_, c)| !c.is_empty()) else { return };
        if found.len() >= CLASSES_MAX || !matches!(kind, "_ZTT" | "_ZTV" | "_ZTI") {
            return;
        }
        let entry = found.entry(class.to_string()).or_default();
        let old = match kind {
            "_ZTT" => entry.tables,
            "_ZTV" => entry.vtable.map(|v| v.0),
            _ => entry.info,
        };
        match (old, spot) {
            (Some(old), Some(new)) if old != new => {
                entry.ambiguous = true;
                if kind == "_ZTT" {
                    twins.push((class.to_string(), Class { tables: spot, ..Class::default() }));
                }
            }
            (None, Some(new)) => match kind {
                "_ZTT" => entry.tables = spot,
                "_ZTV" => entry.vtable = Some((new, size)),
                _ => entry.info = spot,
            },
            _ => {}
        }
    };
    for s in data.object().symbols().chain(data.object().dynamic_symbols()).filter(|s| !s.is_undefined()) {
        s.name()
            .into_iter()
            .filter(|n| n.starts_with("_ZT"))
            .for_each(|n| add(n, spot_of(data, &s), s.size()));
    }
    for s in names.iter().flat_map(|n| n.object().symbols()).filter(|s| !s.is_undefined()) {
        s.name()
            .into_iter()
            .filter(|n| n.starts_with("_ZT"))
            .for_each(|n| add(n, at_address(data, s.address()), s.size()));
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

/// Of the words that are looked at: the first of each VTT, and those of vtables.
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
    at_address(elf, value(elf, at)? as u64)
}

/// The number in a word.
fn value(elf: &Elf<'_>, at: Spot) -> Option<i64> {
    let data = elf.object().section_by_index(at.section).ok()?.data().ok()?;
    number(data.get(usize::try_from(at.offset).ok()?..)?, elf.pointer_size(), elf.little_endian())
}

/// The signed number of so many bytes.
fn number(bytes: &[u8], size: u8, little_endian: bool) -> Option<i64> {
    let word = bytes.get(..usize::from(size))?;
    let fold = |n: u64, b: &u8| n << 8 | u64::from(*b);
    let number = if little_endian { word.iter().rev().fold(0, fold) } else { word.iter().fold(0, fold) };
    let unused = 64u32.saturating_sub(8 * u32::from(size));
    Some(((number << unused) as i64) >> unused)
}
