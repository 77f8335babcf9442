//! Finds a few types by name without reading all units.

use std::collections::HashSet;

use gimli::{Section, constants as dw};
use memchr::memmem::{self, Finder};
use tussle_model::{Type, TypeId};

use super::content::Contents;
use super::die::{self, is_aggregate};
use super::fast;
use super::types::{Loaded, Types};
use super::units::{DieRef, Units};
use crate::definitions::missing_parts;

/// Parts that are only declared are looked for by name, and their parts again, at most so often.
const ROUNDS_MAX: usize = 16;

/// A name that ends so many other strings is looked for everywhere.
const STRINGS_MAX: usize = 64;

impl<'f> Types<'f> {
    /// Reads the first definition of each name (`foo`, `struct foo`, `ns::Foo`, a typedef of a struct).
    pub fn read_named(&mut self, names: &[String]) {
        self.read_wanted(names, false);
    }

    /// Reads every definition of each name.
    pub fn read_definitions(&mut self, names: &[String]) {
        self.read_wanted(names, true);
    }

    fn read_wanted(&mut self, names: &[String], all: bool) {
        self.stubs = true;
        self.read_round(names, all);
        let mut asked = HashSet::new();
        for _ in 0..ROUNDS_MAX {
            let parts: Vec<String> =
                missing_parts(&self.table).into_iter().filter(|n| asked.insert(n.clone())).collect();
            if parts.is_empty() {
                break;
            }
            self.read_round(&parts, all);
        }
    }

    fn read_round(&mut self, names: &[String], all: bool) {
        let mut missing: Vec<Wanted<'_>> = names.iter().map(|n| Wanted::new(n)).collect();
        let units = self.units;
        let mentions = Mentions::of(units, &missing);
        for &unit in units.order() {
            if missing.is_empty() {
                break;
            }
            let skip = mentions.as_ref().is_some_and(|m| !m.possible(units, unit));
            if !skip {
                self.read_named_in(unit, &mut missing, all);
                self.drain();
            }
            self.fast = None;
        }
    }

    fn read_named_in(&mut self, unit: u32, missing: &mut Vec<Wanted<'_>>, all: bool) {
        let fast = fast::Unit::open(self.units, unit, Contents::default());
        let mut quick = fast.as_ref().and_then(|fast| {
            fast.named(|tag, text| missing.iter().any(|w| w.scope.is_empty() && w.starts(tag, text)))
        });
        if all {
            self.fast = fast.map(|f| (unit, f));
            // most units say of a type what others have said
            let unknown = |(offset, _): &(u32, _)| self.recognise(DieRef { unit, offset: *offset }).is_none();
            quick = quick.map(|found| found.into_iter().filter(unknown).collect());
        }
        if quick.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        let Some(ctx) = self.context(unit) else { return };
        let roots = match &quick {
            Some(found) => found.as_slice(),
            None => ctx.roots().unwrap_or(&[]),
        };
        for &(offset, tag) in roots {
            self.read_if_wanted(&ctx, DieRef { unit, offset }, tag, missing, all);
        }
    }

    fn read_if_wanted(
        &mut self,
        ctx: &Loaded<'f>,
        at: DieRef,
        tag: gimli::DwTag,
        missing: &mut Vec<Wanted<'_>>,
        all: bool,
    ) {
        let read = ctx.unit.entries_raw(Some(at.unit_offset())).and_then(|mut raw| die::read(&mut raw));
        let Ok(Some(die)) = read else { return };
        let Some(text) = die.name.map(|v| ctx.text_of(&v)) else { return };
        let wanted = |w: &Wanted<'_>| w.matches(tag, text, ctx.scope(at.offset));
        let Some(index) = missing.iter().position(wanted) else { return };
        if die.declaration && die.signature.is_none() {
            return;
        }
        let id = self.id(Some(at), 0);
        if self.is_definition(id) {
            if all {
                self.remember(at, id);
            } else {
                missing.swap_remove(index);
            }
            self.appeared.push((id, at.unit));
        }
    }

    fn is_definition(&self, id: TypeId) -> bool {
        match self.table.get(self.table.strip(id)) {
            Type::Aggregate(a) => !a.declaration,
            Type::Enum(_) => true,
            _ => false,
        }
    }
}

/// A name as the user wrote it.
struct Wanted<'a> {
    /// Tag that the keyword demands.
    tag: Option<gimli::DwTag>,
    scope: &'a str,
    last: &'a str,
    /// Both: Rust names references, tuples and slices in no scope (`&mut dyn core::fmt::Write`).
    whole: &'a str,
}

impl<'a> Wanted<'a> {
    fn new(name: &'a str) -> Wanted<'a> {
        let words = [
            ("struct ", dw::DW_TAG_structure_type),
            ("union ", dw::DW_TAG_union_type),
            ("class ", dw::DW_TAG_class_type),
            ("enum ", dw::DW_TAG_enumeration_type),
        ];
        let found = words.iter().find_map(|(w, tag)| Some((*tag, name.strip_prefix(w)?)));
        let bare = found.map_or(name, |(_, rest)| rest).trim();
        let at = last_separator(bare);
        let (scope, last) = at.map_or(("", bare), |at| (&bare[..at], &bare[at + 2..]));
        Wanted { tag: found.map(|(tag, _)| tag), scope, last, whole: bare }
    }

    /// Like [`Wanted::matches`] for text that goes on behind the name's terminator.
    fn starts(&self, tag: gimli::DwTag, text: &[u8]) -> bool {
        let name = self.last.as_bytes();
        text.starts_with(name) && text.get(name.len()) == Some(&0) && self.matches(tag, name, "")
    }

    fn matches(&self, tag: gimli::DwTag, name: &[u8], scope: &str) -> bool {
        let right_kind = match self.tag {
            None => true,
            Some(dw::DW_TAG_structure_type | dw::DW_TAG_class_type) => {
                is_aggregate(tag) && tag != dw::DW_TAG_union_type
            }
            Some(wanted) => tag == wanted,
        };
        let named = |n: &str, within: &str| name == n.as_bytes() && scope == within;
        right_kind && (named(self.last, self.scope) || named(self.whole, ""))
    }
}

/// The bytes by which a unit refers to one of the names.
///
/// Names are references into `.debug_str`, so the offset of the name is looked for in the bytes of `.debug_info`, one
/// unit at a time: most searches end early. Linkers let strings share their ends, hence any place where the name ends
/// may be referred to.
struct Mentions<'f> {
    info: &'f [u8],
    patterns: Vec<Finder<'static>>,
}

impl<'f> Mentions<'f> {
    /// `None` when references cannot be told without reading the units.
    fn of(units: &Units<'f>, wanted: &[Wanted<'_>]) -> Option<Mentions<'f>> {
        let dwarf = units.dwarf(0)?;
        if !dwarf.debug_str_offsets.reader().is_empty() || dwarf.sup().is_some() {
            return None;
        }
        let strings = dwarf.debug_str.reader().slice();
        let mut patterns = Vec::new();
        for text in
            wanted.iter().flat_map(|w| [Some(w.last), Some(w.whole).filter(|t| *t != w.last)]).flatten()
        {
            let name = [text.as_bytes(), b"\0"].concat();
            let offsets: Vec<u32> = memmem::find_iter(strings, &name)
                .take(STRINGS_MAX)
                .filter_map(|o| u32::try_from(o).ok())
                .collect();
            if offsets.len() == STRINGS_MAX || name.len() < 4 && !offsets.is_empty() {
                return None;
            }
            let little = units.little_endian();
            let reference = |o: u32| if little { o.to_le_bytes() } else { o.to_be_bytes() };
            patterns.extend(offsets.into_iter().map(|o| Finder::new(&reference(o)).into_owned()));
            patterns.push(Finder::new(&name).into_owned());
        }
        Some(Mentions { info: dwarf.debug_info.reader().slice(), patterns })
    }

    /// The unit may mention a name.
    fn possible(&self, units: &Units<'f>, unit: u32) -> bool {
        let Some(u) = units.get(unit).filter(|u| u.dwarf == 0) else { return true };
        let Some(start) = u.header.debug_info_offset() else { return true };
        let end = start.0.saturating_add(u.header.length_including_self());
        let bytes = self.info.get(start.0..end.min(self.info.len())).unwrap_or(self.info);
        self.patterns.iter().any(|p| p.find(bytes).is_some())
    }
}

/// The last `::` outside of template arguments.
fn last_separator(name: &str) -> Option<usize> {
    let mut depth = 0i32;
    let bytes = name.as_bytes();
    (1..bytes.len()).rev().find_map(|i| {
        match bytes[i] {
            // `fn() -> T`
            b'>' if bytes[i - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth += 1,
            b'<' | b'(' | b'[' | b'{' => depth -= 1,
            b':' if depth == 0 && bytes[i - 1] == b':' => return Some(i - 1),
            _ => {}
        }
        None
    })
}
