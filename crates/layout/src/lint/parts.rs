//! The fields of a type with what they are for.

use super::words;
use crate::diff::kinds::{Kind, of_type};
use tussle_model::{Aggregate, Member, MemberRole, Type, TypeId, TypeTable};

/// Embedded structs are looked into this deep.
const DEPTH_MAX: usize = 4;
/// Fields of one type looked at; beyond lie generated tables.
const PARTS_MAX: usize = 4096;

/// What a field is for, as far as its type tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Written by several threads.
    Written(Kind),
    /// An index or flag that threads share (`volatile`).
    Volatile,
    /// Set up once: pointers to functions, references, pointers to tables of functions.
    Functions,
    /// Anything else.
    Other,
}

/// A field.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub path: String,
    /// Its last name.
    pub name: String,
    /// Which direct member it belongs to; members of anonymous structs count as direct.
    pub top: usize,
    pub offset: u64,
    pub size: u64,
    pub ty: TypeId,
    pub purpose: Use,
    /// Line of the direct member, 0 when unknown.
    pub line: u32,
}

impl Part {
    pub fn overlaps(&self, other: &Part) -> bool {
        self.offset < other.offset + other.size && other.offset < self.offset + self.size
    }
}

/// The fields of a type, embedded structs looked into; arrays are one field.
pub(super) fn parts(table: &TypeTable, a: &Aggregate) -> Vec<Part> {
    let mut walk = Walk { table, out: Vec::new(), tops: 0 };
    walk.members(a, &At { path: "", offset: 0, depth: 0, top: None, line: 0 });
    walk.out
}

struct At<'a> {
    path: &'a str,
    offset: u64,
    depth: usize,
    /// The direct member that is looked into.
    top: Option<usize>,
    line: u32,
}

struct Walk<'a> {
    table: &'a TypeTable,
    out: Vec<Part>,
    tops: usize,
}

impl Walk<'_> {
    fn members(&mut self, a: &Aggregate, at: &At<'_>) {
        for m in a.members.iter().filter(|m| m.role == MemberRole::Field || m.role == MemberRole::Base) {
            if at.depth <= DEPTH_MAX && self.out.len() < PARTS_MAX {
                self.member(m, at);
            }
        }
    }

    fn member(&mut self, m: &Member, at: &At<'_>) {
        let Some(name) = m.name.as_deref() else {
            let inside = self.table.aggregate(m.ty).cloned();
            let offset = at.offset.saturating_add(m.offset());
            return inside.iter().for_each(|a| self.members(a, &At { offset, depth: at.depth + 1, ..*at }));
        };
        let top = at.top.unwrap_or_else(|| {
            self.tops += 1;
            self.tops
        });
        let path = if at.path.is_empty() { name.to_string() } else { format!("{}.{name}", at.path) };
        let offset = at.offset.saturating_add(m.offset());
        let line = if at.line == 0 { m.decl_line } else { at.line };
        let purpose = purpose(self.table, m.ty);
        let inside = self.table.aggregate(m.ty).filter(|_| purpose == Use::Other).cloned();
        let size = self.table.size(m.ty).unwrap_or(0);
        let (name, ty) = (name.to_string(), m.ty);
        self.out.push(Part { path: path.clone(), name, top, offset, size, ty, purpose, line });
        if let Some(a) = inside {
            self.members(&a, &At { path: &path, offset, depth: at.depth + 1, top: Some(top), line });
        }
    }
}

/// What a field of that type is for.
fn purpose(table: &TypeTable, id: TypeId) -> Use {
    if let Some(kind) = written(table, id) {
        return Use::Written(kind);
    }
    match table.get(id) {
        Type::Volatile(to) if integer(table, *to) => Use::Volatile,
        _ if functions(table, id) => Use::Functions,
        _ => Use::Other,
    }
}

/// Locks, reference counts and atomics, by the names of their types.
pub(super) fn written(table: &TypeTable, id: TypeId) -> Option<Kind> {
    let plain = matches!(table.get(table.strip(id)), Type::Base(_) | Type::Aggregate(_));
    let own =
        || plain && (words::lock_type(&table.name(id)) || words::lock_type(&table.name(table.strip(id))));
    of_type(table, id).or_else(|| own().then_some(Kind::Lock))
}

pub(super) fn integer(table: &TypeTable, id: TypeId) -> bool {
    use tussle_model::Encoding::{Signed, Unsigned};
    matches!(table.get(table.strip(id)), Type::Base(b) if matches!(b.encoding, Signed | Unsigned) && b.size >= 4)
}

/// A pointer to a function, or to a struct that holds little else.
fn functions(table: &TypeTable, id: TypeId) -> bool {
    let Type::Pointer { to, .. } = table.get(table.strip(id)) else { return false };
    let to = table.strip(*to);
    match table.get(to) {
        Type::Function { .. } => true,
        Type::Aggregate(a) if a.members.len() >= 3 => {
            let direct = |m: &&Member| {
                let Type::Pointer { to, .. } = table.get(table.strip(m.ty)) else { return false };
                matches!(table.get(table.strip(*to)), Type::Function { .. })
            };
            a.members.iter().filter(direct).count() * 4 >= a.members.len() * 3
        }
        _ => false,
    }
}
