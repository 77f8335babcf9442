//! Finds a few types by name without reading all units.

use gimli::constants as dw;
use tussle_model::{Type, TypeId};

use super::die::{self, is_aggregate};
use super::types::{Loaded, Types};
use super::units::DieRef;

impl Types<'_> {
    /// Reads the first definition of each name (`foo`, `struct foo`, `ns::Foo`, a typedef of a struct).
    pub fn read_named(&mut self, names: &[String]) {
        self.stubs = true;
        let mut missing: Vec<Wanted<'_>> = names.iter().map(|n| Wanted::new(n)).collect();
        for &unit in self.units.order() {
            if missing.is_empty() {
                break;
            }
            if let Some(ctx) = self.context(unit) {
                self.read_named_in(&ctx, &mut missing);
                self.drain();
            }
        }
    }

    fn read_named_in(&mut self, ctx: &Loaded<'_>, missing: &mut Vec<Wanted<'_>>) {
        let Ok(roots) = ctx.roots() else { return };
        for &(offset, tag) in roots {
            let at = DieRef { unit: ctx.id, offset };
            let Ok(Some(die)) =
                ctx.unit.entries_raw(Some(at.unit_offset())).and_then(|mut raw| die::read(&mut raw))
            else {
                continue;
            };
            let Some(text) = die.name.map(|v| ctx.text_of(&v)) else { continue };
            let Some(index) = missing.iter().position(|w| w.matches(tag, text, ctx.scope(offset))) else {
                continue;
            };
            if die.declaration && die.signature.is_none() {
                continue;
            }
            let id = self.id(Some(at), 0);
            if self.is_definition(id) {
                missing.swap_remove(index);
                self.appeared.push(id);
            }
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
        Wanted { tag: found.map(|(tag, _)| tag), scope, last }
    }

    fn matches(&self, tag: gimli::DwTag, name: &[u8], scope: &str) -> bool {
        let right_kind = match self.tag {
            None => true,
            Some(dw::DW_TAG_structure_type | dw::DW_TAG_class_type) => {
                is_aggregate(tag) && tag != dw::DW_TAG_union_type
            }
            Some(wanted) => tag == wanted,
        };
        right_kind && name == self.last.as_bytes() && scope == self.scope
    }
}

/// The last `::` outside of template arguments.
fn last_separator(name: &str) -> Option<usize> {
    let mut depth = 0i32;
    let bytes = name.as_bytes();
    (1..bytes.len()).rev().find_map(|i| {
        match bytes[i] {
            b'>' => depth += 1,
            b'<' => depth -= 1,
            b':' if depth == 0 && bytes[i - 1] == b':' => return Some(i - 1),
            _ => {}
        }
        None
    })
}
