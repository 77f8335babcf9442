//! A unit opened for reading: its abbreviations, language, file table and the scopes of its types.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use gimli::{AttributeValue, DwTag, Endianity, Reader, Section, constants as dw};
use tussle_model::{Language, is_fetched};

use super::die::{Die, Value, is_aggregate};
use super::files::Slice;
use super::hash;
use super::units::Units;
use crate::text::{Budget, clip};

/// Nesting of entries beyond this is cut; compilers stay below 100.
const DEPTH_MAX: usize = 256;

/// An opened unit.
pub(super) struct Context<'f> {
    pub id: u32,
    pub dwarf_index: u32,
    pub units: &'f Units<'f>,
    pub unit: gimli::Unit<Slice<'f>>,
    pub language: Language,
    /// The alignment of a struct, where it is given, is that of its objects.
    pub states_alignments: bool,
    dwarf: &'f gimli::Dwarf<Slice<'f>>,
    /// The skeleton of a split unit: it has the file table.
    skeleton: Option<Box<gimli::Unit<Slice<'f>>>>,
    paths: RefCell<Vec<Option<u64>>>,
    /// Scope of every entry below a namespace, class or function, by ascending offset; only where names need it.
    scopes: Vec<(u32, u32)>,
    scope_names: Vec<String>,
    roots: OnceCell<Vec<Root>>,
    pub budget: Rc<Budget>,
}

/// Offset and tag of a struct, union, class, typedef or enumeration.
pub(super) type Root = (u32, DwTag);

impl<'f> Context<'f> {
    pub fn open(
        units: &'f Units<'f>,
        id: u32,
        fallback: Language,
        budget: Rc<Budget>,
    ) -> gimli::Result<Context<'f>> {
        let missing = gimli::Error::UnexpectedEof(gimli::ReaderOffsetId(u64::from(id)));
        let entry = units.get(id).ok_or(missing)?;
        let dwarf = units.dwarf(entry.dwarf).ok_or(missing)?;
        let mut unit = dwarf.unit(entry.header)?;
        let skeleton = entry.skeleton.and_then(|s| {
            let skeleton = units.get(s)?;
            units.dwarf(skeleton.dwarf)?.unit(skeleton.header).ok().map(Box::new)
        });
        if let Some(s) = &skeleton {
            unit.copy_relocated_attributes(s);
        }
        let mut ctx = Context {
            id,
            dwarf_index: entry.dwarf,
            units,
            unit,
            language: fallback,
            states_alignments: false,
            dwarf,
            skeleton,
            paths: RefCell::default(),
            scopes: Vec::new(),
            scope_names: Vec::new(),
            roots: OnceCell::new(),
            budget,
        };
        if let Some(language) = ctx.read_language()? {
            ctx.language = language;
        }
        ctx.states_alignments = ctx.language == Language::Rust || ctx.made_by_gnu();
        if ctx.language != Language::C {
            let walk = ctx.scan(true)?;
            ctx.scopes = walk.scopes;
            ctx.scope_names = walk.names;
            ctx.roots = OnceCell::from(walk.roots);
        }
        Ok(ctx)
    }

    /// The language of the unit, or `None` (dwz's partial units have none).
    fn read_language(&self) -> gimli::Result<Option<Language>> {
        let root = self.unit.entry(self.unit.header.root_offset())?;
        Ok(match root.attr_value(dw::DW_AT_language) {
            Some(AttributeValue::Language(language)) => Some(language_of(language)),
            _ => None,
        })
    }

    /// `GNU C17 12.2.0 ..`, what gcc calls itself.
    fn made_by_gnu(&self) -> bool {
        let root = self.skeleton.as_deref().unwrap_or(&self.unit);
        let dwarf = if self.skeleton.is_some() { self.units.dwarf(0) } else { Some(self.dwarf) };
        let producer = |unit: &gimli::Unit<Slice<'f>>, dwarf: &'f gimli::Dwarf<Slice<'f>>| {
            let value = unit.entry(unit.header.root_offset()).ok()?.attr_value(dw::DW_AT_producer)?;
            Some(dwarf.attr_string(unit, value).ok()?.slice().starts_with(b"GNU "))
        };
        let own = producer(&self.unit, self.dwarf);
        own.or_else(|| producer(root, dwarf?)).unwrap_or(false)
    }

    /// The sections of the unit.
    pub fn dwarf(&self) -> &'f gimli::Dwarf<Slice<'f>> {
        self.dwarf
    }

    /// Byte order of the file.
    pub fn little_endian(&self) -> bool {
        self.dwarf.debug_info.reader().endian().is_little_endian()
    }

    /// The text of a string attribute.
    pub fn text_of(&self, value: &Value<'f>) -> &'f [u8] {
        clip(self.dwarf.attr_string(&self.unit, *value).map_or(&[], |s| s.slice()))
    }

    /// The text of a string attribute, invalid UTF-8 replaced.
    pub fn string(&self, value: Value<'f>) -> String {
        self.budget.string(self.text_of(&value))
    }

    /// Namespaces and classes around an entry, joined by `::`; empty at the top.
    pub fn scope(&self, offset: u32) -> &str {
        let found = self.scopes.binary_search_by_key(&offset, |&(at, _)| at);
        let name = found.ok().and_then(|i| self.scope_names.get(self.scopes.get(i)?.1 as usize));
        name.map_or("", String::as_str)
    }

    /// The name with its scope.
    pub fn qualified(&self, die: &Die<'f>) -> Option<String> {
        let name = without_module(self.string(die.name?));
        let scope = self.scope(die.offset);
        let plain = scope.is_empty() || !self.budget.charge(scope.len());
        Some(if plain { name } else { format!("{scope}::{name}") })
    }

    /// Path of a source file as debug information has it, joined with its folder.
    pub fn path(&self, file: u64) -> Option<String> {
        let unit = self.skeleton.as_deref().unwrap_or(&self.unit);
        let dwarf = if self.skeleton.is_some() { self.units.dwarf(0)? } else { self.dwarf };
        let header = unit.line_program.as_ref()?.header();
        let entry = header.file(file)?;
        let text = |value| dwarf.attr_string(unit, value).ok().map(|s| self.budget.string(s.slice()));
        let name = text(entry.path_name())?;
        if name.starts_with('/') {
            return Some(name);
        }
        let folder = entry.directory(header).and_then(text).unwrap_or_default();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        // Cargo builds each crate of others from its folder, so that `src/lib.rs` is anybody's.
        let of_crate = || unit.comp_dir.as_ref().and_then(|s| s.to_string().ok()).filter(|f| is_fetched(f));
        Some(match of_crate().filter(|_| !path.starts_with('/')) {
            Some(at) => format!("{at}/{path}"),
            None => path,
        })
    }

    /// Hash of [`Context::path`], remembered per file.
    pub fn path_hash(&self, file: u64) -> u64 {
        let Some(index) = usize::try_from(file).ok().filter(|&i| i < 1 << 16) else { return 0 };
        let mut paths = self.paths.borrow_mut();
        if paths.len() <= index {
            paths.resize(index + 1, None);
        }
        *paths[index].get_or_insert_with(|| self.path(file).map_or(0, |p| hash::bytes(1, p.as_bytes())))
    }

    /// The types of the unit in the order of their entries, nested ones before the outer one.
    pub fn roots(&self) -> gimli::Result<&[Root]> {
        if self.roots.get().is_none() {
            let _ = self.roots.set(self.scan(false)?.roots);
        }
        Ok(self.roots.get().map_or(&[], Vec::as_slice))
    }

    fn scan(&self, scopes: bool) -> gimli::Result<Walk> {
        let mut walk = Walk::default();
        self.walk(&mut walk, scopes)?;
        Ok(walk)
    }

    fn walk(&self, walk: &mut Walk, scopes: bool) -> gimli::Result<()> {
        let mut raw = self.unit.entries_raw(None)?;
        while !raw.is_empty() {
            let offset = raw.next_offset().0 as u32;
            let Some(abbrev) = raw.read_abbreviation()? else {
                walk.close();
                continue;
            };
            let tag = abbrev.tag();
            let (mut name, mut declared, mut signature) = (None, None, None);
            if scopes && (opens_scope(tag) || is_root(tag)) {
                for &spec in abbrev.attributes() {
                    let attr = raw.read_attribute(spec)?;
                    match (attr.name(), attr.raw_value()) {
                        (dw::DW_AT_name, value) => name = Some(self.string(value)),
                        (dw::DW_AT_signature, value) => signature = Some(value),
                        (dw::DW_AT_specification, AttributeValue::UnitRef(at)) => declared = Some(at.0),
                        _ => {}
                    }
                }
                walk.note(offset, declared);
            } else {
                raw.skip_attributes(abbrev.attributes())?;
            }
            if !abbrev.has_children() {
                walk.root(offset, tag);
                continue;
            }
            let outer = walk.scope_of(offset);
            let scope = (scopes && opens_scope(tag)).then(|| {
                // clang's type units name the class around theirs by its signature, gcc's leave its namespaces out
                let name = name.or_else(|| self.signed_name(&signature?));
                let around = signature.filter(|_| outer.is_none()).and_then(|s| self.signed_scope(&s));
                around.unwrap_or_default() + &Self::scope_part(tag, name)
            });
            if !walk.enter(Open { offset, tag, scope: outer }, scope, &self.budget) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The name of the type that a signature stands for.
    fn signed_name(&self, value: &Value<'f>) -> Option<String> {
        let AttributeValue::DebugTypesRef(signature) = value else { return None };
        let at = self.units.signature(signature.0)?;
        let entry = self.units.get(at.unit)?;
        let dwarf = self.units.dwarf(entry.dwarf)?;
        let unit = dwarf.unit(entry.header).ok()?;
        let name = unit.entry(at.unit_offset()).ok()?.attr_value(dw::DW_AT_name)?;
        Some(self.budget.string(dwarf.attr_string(&unit, name).ok()?.slice()))
    }

    /// The scopes around the type that a signature stands for, each followed by `::`, as its own unit has them.
    fn signed_scope(&self, value: &Value<'f>) -> Option<String> {
        let AttributeValue::DebugTypesRef(signature) = value else { return None };
        let at = self.units.signature(signature.0)?;
        let entry = self.units.get(at.unit)?;
        let dwarf = self.units.dwarf(entry.dwarf)?;
        let unit = dwarf.unit(entry.header).ok()?;
        let declared = match unit.entry(at.unit_offset()).ok()?.attr_value(dw::DW_AT_specification) {
            Some(AttributeValue::UnitRef(declared)) => declared,
            _ => at.unit_offset(),
        };
        let mut raw = unit.entries_raw(None).ok()?;
        let mut open: Vec<String> = Vec::new();
        while !raw.is_empty() && open.len() <= DEPTH_MAX && self.budget.step(1) {
            if raw.next_offset() == declared {
                return Some(open.concat());
            }
            let Some(abbrev) = raw.read_abbreviation().ok()? else {
                open.pop();
                continue;
            };
            let mut name = None;
            for &spec in abbrev.attributes() {
                let attr = raw.read_attribute(spec).ok()?;
                if attr.name() == dw::DW_AT_name {
                    name = dwarf.attr_string(&unit, attr.raw_value()).ok();
                }
            }
            if abbrev.has_children() {
                let tag = abbrev.tag();
                let name = name.filter(|_| opens_scope(tag)).map(|n| self.budget.string(n.slice()));
                let part = if opens_scope(tag) { Self::scope_part(tag, name) } else { String::new() };
                open.push(if part.is_empty() { part } else { part + "::" });
            }
        }
        None
    }

    fn scope_part(tag: DwTag, name: Option<String>) -> String {
        match name {
            Some(name) => name,
            None if tag == dw::DW_TAG_namespace => "(anonymous namespace)".into(),
            None => String::new(),
        }
    }
}

/// State of [`Context::walk`]: the open entries, innermost last.
#[derive(Default)]
struct Walk {
    roots: Vec<Root>,
    open: Vec<Open>,
    scopes: Vec<(u32, u32)>,
    names: Vec<String>,
}

struct Open {
    offset: u32,
    tag: DwTag,
    /// Index of the scope's full name, if any scope is open.
    scope: Option<u32>,
}

impl Walk {
    /// Remembers in which scope an entry lies: that of its declaration, which may stand elsewhere (`struct A::B {}`,
    /// gcc's type units), or else that of the entries around it.
    fn note(&mut self, offset: u32, declared: Option<usize>) {
        let declared = declared.and_then(|at| self.noted(u32::try_from(at).ok()?));
        if let Some(scope) = declared.or_else(|| self.open.last().and_then(|o| o.scope)) {
            self.scopes.push((offset, scope));
        }
    }

    fn noted(&self, offset: u32) -> Option<u32> {
        let found = self.scopes.binary_search_by_key(&offset, |&(at, _)| at).ok()?;
        self.scopes.get(found).map(|s| s.1)
    }

    /// The scope of the entry that was looked at last.
    fn scope_of(&self, offset: u32) -> Option<u32> {
        let last = self.scopes.last().filter(|s| s.0 == offset).map(|s| s.1);
        last.or_else(|| self.open.last().and_then(|o| o.scope))
    }

    /// Opens an entry in its scope; `part` is the name that it adds.
    fn enter(&mut self, mut open: Open, part: Option<String>, budget: &Budget) -> bool {
        let outer = open.scope;
        open.scope = match part {
            Some(part) if !part.is_empty() => {
                let before = outer.and_then(|s| self.names.get(s as usize));
                let before = before.filter(|b| budget.charge(b.len()));
                let full = before.map(|b| format!("{b}::{part}")).unwrap_or(part);
                self.names.push(full);
                Some(self.names.len() as u32 - 1)
            }
            _ => outer,
        };
        self.open.push(open);
        self.open.len() <= DEPTH_MAX
    }

    fn close(&mut self) {
        if let Some(open) = self.open.pop() {
            self.root(open.offset, open.tag);
        }
    }

    fn root(&mut self, offset: u32, tag: DwTag) {
        if is_root(tag) {
            self.roots.push((offset, tag));
        }
    }
}

fn is_root(tag: DwTag) -> bool {
    is_aggregate(tag) || matches!(tag, dw::DW_TAG_typedef | dw::DW_TAG_enumeration_type)
}

/// Entries whose name is part of the names inside.
fn opens_scope(tag: DwTag) -> bool {
    is_aggregate(tag) || matches!(tag, dw::DW_TAG_namespace | dw::DW_TAG_subprogram | dw::DW_TAG_module)
}

fn language_of(language: gimli::DwLang) -> Language {
    match language {
        dw::DW_LANG_Rust => Language::Rust,
        dw::DW_LANG_C_plus_plus
        | dw::DW_LANG_C_plus_plus_03
        | dw::DW_LANG_C_plus_plus_11
        | dw::DW_LANG_C_plus_plus_14
        | dw::DW_LANG_C_plus_plus_17
        | dw::DW_LANG_C_plus_plus_20 => Language::Cpp,
        _ => Language::C,
    }
}

/// GCC calls a type of a C++ module `Stats@stats` where the module is imported, and `Stats` in the module itself.
fn without_module(name: String) -> String {
    if !name.contains('@') || name.contains('{') {
        return name;
    }
    let module = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':');
    let mut parts = name.split('@');
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |out, part| out + part.trim_start_matches(module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_of_a_module_has_one_name() {
        for (name, want) in [
            ("Stats@stats", "Stats"),
            ("Box<Stats@app.core:part, 4>", "Box<Stats, 4>"),
            ("long int", "long int"),
            ("{closure@src/main.rs:3:5}", "{closure@src/main.rs:3:5}"),
        ] {
            assert_eq!(without_module(name.into()), want);
        }
    }
}
