//! Recognises types that were read before, without reading them again.
//!
//! The *print* of an entry ([`super::content`]) is a hash over what it is, in its scope. Equal prints of one program
//! are taken as the same type; unequal ones are compared in full by [`super::ident`].

use std::cell::OnceCell;
use std::collections::hash_map::Entry;
use std::ops::Range;

use gimli::{AttributeValue, DebugLineOffset, DwTag, Section, constants as dw};

use super::content::Contents;
use super::cursor::{Cursor, Widths};
use super::die::is_aggregate;
use super::file_table;
use super::files::Slice;
use super::hash::{IntMap, bytes as hash_bytes, mix};
use super::plan::{Op, Plan, Plans, Role};
use super::units::Units;

/// Entries nested deeper than this take the general way.
const DEPTH_MAX: usize = 200;

/// Ids of types by print; [`UNREAD`] until they are read.
pub(super) type Prints = IntMap<u64, u32>;

/// The id of a type that is known to be there and not read yet.
pub(super) const UNREAD: u32 = u32::MAX;

/// A type that has not been seen before.
#[derive(Clone, Copy)]
pub(super) struct Fresh {
    pub offset: u32,
    pub tag: DwTag,
    pub print: u64,
}

/// A type of a unit.
struct Met {
    offset: u32,
    end: usize,
    print: u64,
}

/// A unit opened for recognising.
pub(super) struct Unit<'f> {
    pub(super) id: u32,
    pub(super) plans: Plans,
    cursor: Cursor<'f>,
    /// Offset of the root entry in `cursor.bytes`.
    root: usize,
    dwarf: &'f gimli::Dwarf<Slice<'f>>,
    line: Option<DebugLineOffset>,
    strings: Option<(&'f [u8], usize)>,
    files: OnceCell<Vec<u64>>,
    /// Names of the unit's language have scopes.
    pub(super) scoped: bool,
    /// Hash of the scopes around each type that has any.
    scopes: IntMap<u32, u64>,
    pub(super) contents: Contents,
}

impl<'f> Unit<'f> {
    /// Opens a unit. `None` when the unit has to take the general way. `contents` is of the unit before, or new.
    pub fn open(units: &'f Units<'f>, id: u32, contents: Contents) -> Option<Unit<'f>> {
        let entry = units.get(id)?;
        if entry.skeleton.is_some() {
            return None;
        }
        let dwarf = units.dwarf(entry.dwarf)?;
        let header = &entry.header;
        let section = match header.debug_info_offset() {
            Some(at) => dwarf.debug_info.reader().slice().get(at.0..)?,
            None => dwarf.debug_types.reader().slice().get(header.debug_types_offset()?.0..)?,
        };
        let bytes = section.get(..header.length_including_self())?;
        let (offset, address) = (header.format().word_size(), header.address_size());
        let reference = if header.version() < 3 { address } else { offset };
        let widths = Widths { little: units.little_endian(), address, offset, reference };
        let abbrev = dwarf.debug_abbrev.reader().slice();
        let compile = |scoped| Plans::compile(abbrev, header.debug_abbrev_offset().0, widths, scoped);
        let plans = compile(!contents.after_c)?;
        let cursor = Cursor { bytes, at: 0, failed: false, widths };
        let root = header.root_offset().0;
        let mut unit = Unit {
            id,
            plans,
            cursor,
            root,
            dwarf,
            line: None,
            strings: None,
            files: OnceCell::new(),
            scoped: false,
            scopes: IntMap::default(),
            contents,
        };
        unit.read_root(header.version()).then_some(())?;
        if unit.scoped && unit.contents.after_c {
            unit.plans = compile(true)?;
        }
        unit.contents.after_c = !unit.scoped;
        unit.contents.begin(bytes.len());
        if unit.scoped {
            unit.scopes = unit.read_scopes()?;
        }
        Some(unit)
    }

    /// Reads the language, file table and string offsets; false when the language is unknown (dwz's partial units).
    fn read_root(&mut self, version: u16) -> bool {
        let mut cursor = self.at(self.root);
        let Some(plan) = self.plans.get(cursor.uleb()) else { return false };
        let mut language = None;
        let mut base = None;
        for op in self.plans.ops(plan) {
            if op.role != Role::Unit {
                cursor.skip_op(op);
                continue;
            }
            let value = cursor.value(op);
            match gimli::DwAt(op.at) {
                dw::DW_AT_language => language = Some(value),
                dw::DW_AT_stmt_list => self.line = usize::try_from(value).ok().map(DebugLineOffset),
                dw::DW_AT_str_offsets_base => base = usize::try_from(value).ok(),
                _ => {}
            }
        }
        let section = self.dwarf.debug_str_offsets.reader().slice();
        self.strings = base.or((version < 5).then_some(0)).map(|base| (section, base));
        self.scoped = language.is_some_and(|l| !is_c(l));
        language.is_some() && !cursor.failed
    }

    pub(super) fn at(&self, offset: usize) -> Cursor<'f> {
        Cursor { at: offset, ..self.cursor }
    }

    /// Lists the types that are not in `prints`, in the order of their entries, nested ones before the outer one,
    /// and adds them. `None` when the unit is damaged: what was added stays unread and harmless.
    pub fn scan(&self, prints: &mut Prints) -> Option<Vec<Fresh>> {
        let mut fresh = Vec::new();
        self.scan_range(self.root..self.cursor.bytes.len(), prints, &mut fresh, 0)?;
        Some(fresh)
    }

    /// The same for the entries in a range of the unit.
    fn scan_range(
        &self,
        range: Range<usize>,
        prints: &mut Prints,
        fresh: &mut Vec<Fresh>,
        depth: usize,
    ) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        // all prints before the first is looked for: looking for one waits for memory, for many it does so once
        for met in self.outermost(range)? {
            let Entry::Vacant(new) = prints.entry(met.print) else { continue };
            new.insert(UNREAD);
            let mut cursor = self.at(met.offset as usize);
            let plan = self.plans.get(cursor.uleb())?;
            if plan.children {
                self.plans.skip(plan, &mut cursor);
                self.scan_range(cursor.at..met.end, prints, fresh, depth + 1)?;
            }
            fresh.push(Fresh { offset: met.offset, tag: DwTag(plan.tag), print: met.print });
        }
        Some(())
    }

    /// The types in a range of the unit that lie in no other type there.
    fn outermost(&self, range: Range<usize>) -> Option<Vec<Met>> {
        let mut met = Vec::new();
        let mut cursor = self.at(range.start);
        while cursor.at < range.end {
            let offset = cursor.at as u32;
            let code = cursor.uleb();
            if code == 0 {
                continue;
            }
            let plan = self.plans.get(code)?;
            if plan.root {
                let (content, end) = self.content_from(offset, plan, cursor);
                met.push(Met { offset, end, print: self.print_of(content, offset) });
                cursor.at = end;
            } else {
                self.plans.skip(plan, &mut cursor);
            }
            if self.contents.failed() {
                return None;
            }
        }
        (!cursor.failed).then_some(met)
    }

    /// The print of the type at an offset: its content, in its scope.
    fn print_of(&self, content: u64, offset: u32) -> u64 {
        mix(content, self.scope_of(offset))
    }

    /// Hash of the scopes around the type at an offset.
    pub(super) fn scope_of(&self, offset: u32) -> u64 {
        if self.scoped { self.scopes.get(&offset).copied().unwrap_or(0) } else { 0 }
    }

    /// The print of the struct, union or class at an offset and the bytes that it took; `None` for other entries.
    pub fn print_at(&self, offset: u32) -> Option<(u64, usize)> {
        let mut cursor = self.at(offset as usize);
        self.plans.get(cursor.uleb()).filter(|p| is_aggregate(DwTag(p.tag)))?;
        let before = self.contents.walked();
        let print = self.print_of(self.content(offset).0, offset);
        (!self.contents.failed()).then_some((print, 1 + self.contents.walked() - before))
    }

    /// The scopes of all types. `None` when the unit is damaged.
    fn read_scopes(&self) -> Option<IntMap<u32, u64>> {
        let mut found = IntMap::default();
        let mut open: Vec<u64> = Vec::new();
        let mut cursor = self.at(self.root);
        while cursor.at < cursor.bytes.len() {
            let offset = cursor.at;
            let code = cursor.uleb();
            if code == 0 {
                open.pop();
                continue;
            }
            let plan = self.plans.get(code)?;
            let tag = DwTag(plan.tag);
            let mut outer = open.last().copied().unwrap_or(0);
            if plan.root {
                let declared = self.declared(plan, cursor);
                outer = declared.and_then(|at| found.get(&at).copied()).unwrap_or(outer);
                if outer != 0 {
                    found.insert(offset as u32, outer);
                }
            }
            let scope = match opens_scope(tag) && plan.children {
                true => self.scope(plan, &mut cursor, outer),
                false => {
                    self.plans.skip(plan, &mut cursor);
                    outer
                }
            };
            if plan.children {
                open.push(scope);
            }
            if cursor.failed || open.len() > DEPTH_MAX {
                return None;
            }
        }
        Some(found)
    }

    /// The declaration that an entry completes; it may stand in another scope.
    fn declared(&self, plan: &Plan, mut cursor: Cursor<'f>) -> Option<u32> {
        let mut found = None;
        for op in self.plans.ops(plan) {
            match op.at == dw::DW_AT_specification.0 {
                true => found = u32::try_from(cursor.value(op)).ok(),
                false => cursor.skip_op(op),
            }
        }
        found
    }

    /// Hash of the scope that a namespace, class or function opens: its name in the scopes around it.
    fn scope(&self, plan: &Plan, cursor: &mut Cursor<'f>, outer: u64) -> u64 {
        let mut scope = mix(outer, u64::from(plan.tag));
        for op in self.plans.ops(plan) {
            match op.role {
                Role::Text => scope = mix(scope, self.text(op, cursor.value(op))),
                Role::Reference if op.at == dw::DW_AT_signature.0 => scope = mix(scope, cursor.value(op)),
                _ => cursor.skip_op(op),
            }
        }
        scope
    }

    /// Types for which `wanted` says yes to the tag and the name, declarations included, in the order of their
    /// entries. `None` when the unit has to take the general way.
    pub fn named(&self, wanted: impl Fn(DwTag, &[u8]) -> bool) -> Option<Vec<(u32, DwTag)>> {
        if self.scoped {
            return None;
        }
        let mut found = Vec::new();
        let mut cursor = self.at(self.root);
        while cursor.at < cursor.bytes.len() && !cursor.failed {
            let offset = cursor.at;
            let code = cursor.uleb();
            if code == 0 {
                continue;
            }
            let plan = self.plans.get(code)?;
            let tag = DwTag(plan.tag);
            if plan.root {
                let mut look = cursor;
                for op in self.plans.ops(plan) {
                    if op.role != Role::Text {
                        look.skip_op(op);
                        continue;
                    }
                    if wanted(tag, self.name(op, &mut look)?) {
                        found.push((offset as u32, tag));
                    }
                }
            }
            self.plans.skip(plan, &mut cursor);
        }
        (!cursor.failed).then_some(found)
    }

    /// The text of a name, perhaps with what follows its terminator. `None` for strings in other files.
    fn name(&self, op: &Op, cursor: &mut Cursor<'f>) -> Option<&'f [u8]> {
        let strings = self.dwarf.debug_str.reader().slice();
        let start = cursor.at + usize::from(op.before);
        let value = cursor.value(op);
        let (section, at) = match op.form {
            dw::DW_FORM_string => (cursor.bytes, start),
            dw::DW_FORM_strp => (strings, usize::try_from(value).ok()?),
            dw::DW_FORM_line_strp => {
                (self.dwarf.debug_line_str.reader().slice(), usize::try_from(value).ok()?)
            }
            dw::DW_FORM_GNU_strp_alt | dw::DW_FORM_strp_sup => return None,
            _ => (strings, usize::try_from(self.indexed(value)?).ok()?),
        };
        Some(section.get(at..).unwrap_or(&[]))
    }

    /// Identity of a string: its offset, or its text where offsets do not identify it.
    pub(super) fn text(&self, op: &Op, value: u64) -> u64 {
        match op.form {
            dw::DW_FORM_strx
            | dw::DW_FORM_strx1
            | dw::DW_FORM_strx2
            | dw::DW_FORM_strx3
            | dw::DW_FORM_strx4
            | dw::DW_FORM_GNU_str_index => self.indexed(value).unwrap_or(value),
            dw::DW_FORM_GNU_strp_alt | dw::DW_FORM_strp_sup => mix(31, value),
            _ => value,
        }
    }

    fn indexed(&self, index: u64) -> Option<u64> {
        let (section, base) = self.strings?;
        let width = usize::from(self.cursor.widths.offset);
        let at = usize::try_from(index).ok()?.checked_mul(width)?.checked_add(base)?;
        let mut cursor = Cursor { bytes: section, at, ..self.cursor };
        let offset = cursor.fixed(width);
        (!cursor.failed).then_some(offset)
    }

    pub(super) fn file(&self, index: u64) -> u64 {
        let files = self.files.get_or_init(|| self.read_files().unwrap_or_default());
        usize::try_from(index).ok().and_then(|i| files.get(i).copied()).unwrap_or(index)
    }

    /// A hash per file of the unit's file table.
    fn read_files(&self) -> Option<Vec<u64>> {
        let at = self.line?;
        let section = self.dwarf.debug_line.reader().slice();
        let quick = file_table::hashes(Cursor { bytes: section, at: at.0, ..self.cursor });
        quick.or_else(|| self.read_any_files())
    }

    /// The same for tables of all versions.
    fn read_any_files(&self) -> Option<Vec<u64>> {
        let address = self.cursor.widths.address;
        let program = self.dwarf.debug_line.program(self.line?, address, None, None).ok()?;
        let header = program.header();
        let first = usize::from(header.version() < 5);
        let count = header.file_names().len();
        let hash = |value: AttributeValue<Slice<'f>>| match value {
            AttributeValue::DebugLineStrRef(at) => mix(file_table::LINE_STR, at.0 as u64),
            AttributeValue::DebugStrRef(at) => mix(file_table::STR, at.0 as u64),
            AttributeValue::String(s) => hash_bytes(file_table::IN_PLACE, s.slice()),
            _ => 0,
        };
        let folders: Vec<u64> = header.include_directories().iter().map(|d| hash(*d)).collect();
        let mut files = vec![0; first + count];
        for (slot, file) in files.iter_mut().skip(first).zip(header.file_names()) {
            let index = usize::try_from(file.directory_index()).ok().and_then(|i| i.checked_sub(first));
            let folder = index.and_then(|i| folders.get(i).copied()).unwrap_or(0);
            *slot = mix(hash(file.path_name()), folder);
        }
        Some(files)
    }
}

fn opens_scope(tag: DwTag) -> bool {
    is_aggregate(tag) || matches!(tag, dw::DW_TAG_namespace | dw::DW_TAG_subprogram | dw::DW_TAG_module)
}

/// Languages whose types have no scopes.
fn is_c(language: u64) -> bool {
    let c = [dw::DW_LANG_C, dw::DW_LANG_C89, dw::DW_LANG_C99, dw::DW_LANG_C11];
    c.iter().any(|l| u64::from(l.0) == language) || language == 0x2c
}
