//! Recognises types that were read before, without reading them again.
//!
//! The *print* of an entry is a hash over its own attributes and those of everything inside it, strings by their
//! offset and files by their path. What members refer to goes in by tag, name and size. Equal prints of one program
//! are taken as the same type; unequal ones are compared in full by [`super::ident`].

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::hash_map::Entry;

use gimli::{AttributeValue, DebugLineOffset, DwTag, Section, constants as dw};

use super::die::is_aggregate;
use super::files::Slice;
use super::hash::{IntMap, bytes as hash_bytes, mix};
use super::plan::{Cursor, Op, Plan, Plans, Role, Widths};
use super::units::Units;

/// Entries nested deeper than this take the general way.
const DEPTH_MAX: usize = 200;

/// References are followed this far to tell what a member is.
const PEEK_MAX: usize = 4;

/// Entries of the cache of references.
const PEEKED: usize = 1 << 10;

/// A type of known print.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// Id in the table; `u32::MAX` until it is read.
    pub id: u32,
    /// Its layout hash, 0 until it is read.
    pub layout: u64,
}

/// Types by print.
pub(super) type Prints = IntMap<u64, Known>;

/// A type that has not been seen before.
#[derive(Clone, Copy)]
pub(super) struct Fresh {
    pub offset: u32,
    pub tag: DwTag,
    pub print: u64,
}

/// An entry whose children are being looked at.
struct Open {
    fresh: Option<Fresh>,
    /// Hash of the scopes around its children.
    scope: u64,
}

/// A unit opened for recognising.
pub(super) struct Unit<'f> {
    plans: Plans,
    cursor: Cursor<'f>,
    /// Offset of the root entry in `cursor.bytes`.
    root: usize,
    dwarf: &'f gimli::Dwarf<Slice<'f>>,
    line: Option<DebugLineOffset>,
    strings: Option<(&'f [u8], usize)>,
    files: OnceCell<Vec<u64>>,
    /// Names of the unit's language have scopes; the prints of its structs by offset are then kept here.
    scoped: bool,
    printed: RefCell<IntMap<u32, u64>>,
    /// Results of [`Unit::peek`] by offset modulo the length.
    peeked: Box<[Cell<(u64, u64)>]>,
}

impl<'f> Unit<'f> {
    /// Opens a unit. `None` when the unit has to take the general way.
    pub fn open(units: &'f Units<'f>, id: u32) -> Option<Unit<'f>> {
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
        let offset = usize::from(header.format().word_size());
        let address = usize::from(header.address_size());
        let reference = if header.version() < 3 { address } else { offset };
        let widths = Widths { little: units.little_endian(), address, offset, reference };
        let abbrev = dwarf.debug_abbrev.reader().slice();
        let plans = Plans::compile(abbrev, header.debug_abbrev_offset().0, widths)?;
        let cursor = Cursor { bytes, at: 0, failed: false, widths };
        let root = header.root_offset().0;
        let peeked = vec![Cell::new((0, 0)); PEEKED].into_boxed_slice();
        let mut unit = Unit {
            plans,
            cursor,
            root,
            dwarf,
            line: None,
            strings: None,
            files: OnceCell::new(),
            scoped: false,
            printed: RefCell::default(),
            peeked,
        };
        unit.read_root(header.version()).then_some(unit)
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

    fn at(&self, offset: usize) -> Cursor<'f> {
        Cursor { at: offset, ..self.cursor }
    }

    /// Lists the types that are not in `prints`, in the order of their entries, nested ones before the outer one,
    /// and adds them. `None` when the unit is damaged: what was added stays unread and harmless.
    pub fn scan(&self, prints: &mut Prints) -> Option<Vec<Fresh>> {
        let mut fresh = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        let mut cursor = self.at(self.root);
        while cursor.at < cursor.bytes.len() {
            let offset = cursor.at;
            let code = cursor.uleb();
            if code == 0 {
                fresh.extend(open.pop().and_then(|o| o.fresh));
                continue;
            }
            let plan = self.plans.get(code)?;
            let tag = DwTag(plan.tag);
            let outer = open.last().map_or(0, |o| o.scope);
            let mut this = Open { fresh: None, scope: outer };
            let mut inside = plan.children;
            if is_root(tag) {
                let mut end = cursor;
                let print = mix(self.print(plan, &mut end), outer);
                this.scope = if self.scoped { print } else { 0 };
                if self.scoped && is_aggregate(tag) {
                    self.printed.borrow_mut().insert(offset as u32, print);
                }
                match prints.entry(print) {
                    Entry::Occupied(_) => {
                        cursor = end;
                        inside = false;
                    }
                    Entry::Vacant(new) => {
                        new.insert(Known { id: u32::MAX, layout: 0 });
                        self.plans.skip(plan, &mut cursor);
                        this.fresh = Some(Fresh { offset: offset as u32, tag, print });
                    }
                }
            } else if self.scoped && opens_scope(tag) {
                this.scope = self.scope(plan, &mut cursor, outer);
            } else {
                self.plans.skip(plan, &mut cursor);
            }
            match inside {
                true => open.push(this),
                false => fresh.extend(this.fresh),
            }
            if cursor.failed || open.len() > DEPTH_MAX {
                return None;
            }
        }
        Some(fresh)
    }

    /// Hash of the scope that a namespace or function opens.
    fn scope(&self, plan: Plan, cursor: &mut Cursor<'f>, outer: u64) -> u64 {
        let mut scope = mix(outer, u64::from(plan.tag));
        for op in self.plans.ops(plan) {
            match op.role {
                Role::Text => scope = mix(scope, self.text(op, cursor)),
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
            if is_root(tag) {
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
        let start = cursor.at;
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

    /// The print of the struct, union or class at an offset and the bytes that it took; `None` for other entries.
    pub fn print_at(&self, offset: u32) -> Option<(u64, usize)> {
        if self.scoped {
            return self.printed.borrow().get(&offset).map(|&print| (print, 1));
        }
        let mut cursor = self.at(offset as usize);
        let plan = self.plans.get(cursor.uleb()).filter(|p| is_aggregate(DwTag(p.tag)))?;
        let print = mix(self.print(plan, &mut cursor), 0);
        (!cursor.failed).then_some((print, cursor.at.saturating_sub(offset as usize)))
    }

    /// Hashes an entry whose code was read, and moves the cursor behind its children.
    fn print(&self, plan: Plan, cursor: &mut Cursor<'f>) -> u64 {
        let mut hash = self.attributes(plan, cursor, 0);
        let mut depth = usize::from(plan.children);
        while depth > 0 && cursor.at < cursor.bytes.len() {
            let code = cursor.uleb();
            if code == 0 {
                depth -= 1;
                hash = mix(hash, depth as u64);
                continue;
            }
            let Some(plan) = self.plans.get(code) else {
                cursor.failed = true;
                break;
            };
            depth += usize::from(plan.children);
            hash = self.attributes(plan, cursor, hash);
        }
        hash
    }

    #[inline]
    fn attributes(&self, plan: Plan, cursor: &mut Cursor<'f>, hash: u64) -> u64 {
        let mut hash = mix(hash, u64::from(plan.tag));
        for op in self.plans.ops(plan) {
            let part = match op.role {
                Role::Ignored | Role::Unit => {
                    cursor.skip_op(op);
                    continue;
                }
                Role::File => {
                    let file = cursor.value(op);
                    // the file of a member is that of its struct
                    if !is_root(DwTag(plan.tag)) {
                        continue;
                    }
                    self.file(file)
                }
                Role::Text => self.text(op, cursor),
                Role::Reference => self.reference(op, cursor),
                Role::Value => cursor.value(op),
            };
            hash = mix(hash, part ^ u64::from(op.at) << 56);
        }
        hash
    }

    /// Identity of a string: its offset, or its text where offsets do not identify it.
    fn text(&self, op: &Op, cursor: &mut Cursor<'f>) -> u64 {
        let value = cursor.value(op);
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
        let width = self.cursor.widths.offset;
        let at = usize::try_from(index).ok()?.checked_mul(width)?.checked_add(base)?;
        let mut cursor = Cursor { bytes: section, at, ..self.cursor };
        let offset = cursor.fixed(width);
        (!cursor.failed).then_some(offset)
    }

    fn reference(&self, op: &Op, cursor: &mut Cursor<'f>) -> u64 {
        let value = cursor.value(op);
        match op.form {
            dw::DW_FORM_ref1
            | dw::DW_FORM_ref2
            | dw::DW_FORM_ref4
            | dw::DW_FORM_ref8
            | dw::DW_FORM_ref_udata => self.peek_cached(value),
            // a section offset or signature is the same from everywhere
            _ => value,
        }
    }

    /// [`Unit::peek`], remembered: a few entries are referred to over and over.
    #[inline]
    fn peek_cached(&self, offset: u64) -> u64 {
        let slot = &self.peeked[offset as usize % PEEKED];
        let (of, hash) = slot.get();
        if of == offset {
            return hash;
        }
        let hash = self.peek(offset, 0);
        slot.set((offset, hash));
        hash
    }

    /// What the entry at an offset is: its tag, name and size, and the same of what it refers to while it has no
    /// name of its own.
    fn peek(&self, offset: u64, depth: usize) -> u64 {
        let mut cursor = self.at(usize::try_from(offset).unwrap_or(usize::MAX));
        let Some(plan) = self.plans.get(cursor.uleb()) else { return 1 };
        let mut hash = u64::from(plan.tag);
        let mut named = false;
        for op in self.plans.ops(plan) {
            match op.role {
                Role::Text => {
                    named = true;
                    hash = mix(hash, self.text(op, &mut cursor));
                }
                Role::Value if op.at == dw::DW_AT_byte_size.0 => hash = mix(hash, cursor.value(op)),
                Role::Reference if !named && depth < PEEK_MAX && op.form == dw::DW_FORM_ref4 => {
                    let to = cursor.value(op);
                    return mix(hash, self.peek(to, depth + 1));
                }
                _ => cursor.skip_op(op),
            }
        }
        hash
    }

    fn file(&self, index: u64) -> u64 {
        let files = self.files.get_or_init(|| self.read_files().unwrap_or_default());
        usize::try_from(index).ok().and_then(|i| files.get(i).copied()).unwrap_or(index)
    }

    /// A hash per file of the unit's file table.
    fn read_files(&self) -> Option<Vec<u64>> {
        let address = self.cursor.widths.address as u8;
        let program = self.dwarf.debug_line.program(self.line?, address, None, None).ok()?;
        let header = program.header();
        let first = usize::from(header.version() < 5);
        let count = header.file_names().len();
        let hash = |value: AttributeValue<Slice<'f>>| match value {
            AttributeValue::DebugLineStrRef(at) => mix(41, at.0 as u64),
            AttributeValue::DebugStrRef(at) => mix(43, at.0 as u64),
            AttributeValue::String(s) => hash_bytes(47, s.slice()),
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

fn is_root(tag: DwTag) -> bool {
    is_aggregate(tag) || matches!(tag, dw::DW_TAG_typedef | dw::DW_TAG_enumeration_type)
}

fn opens_scope(tag: DwTag) -> bool {
    matches!(tag, dw::DW_TAG_namespace | dw::DW_TAG_subprogram | dw::DW_TAG_module)
}

/// Languages whose types have no scopes.
fn is_c(language: u64) -> bool {
    let c = [dw::DW_LANG_C, dw::DW_LANG_C89, dw::DW_LANG_C99, dw::DW_LANG_C11];
    c.iter().any(|l| u64::from(l.0) == language) || language == 0x2c
}
