//! The first member whose insertion, growth or removal shifted the rest.

use super::Side;
use crate::align::takes_room;
use crate::phases::object_align;
use crate::slots::{NewField, Slot, slots};
use tussle_model::{AggregateKind, Type, TypeId, TypeTable};

/// What was done to the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Inserted,
    /// It has another size: old and new bytes.
    Resized(u64, u64),
    /// It is gone.
    Removed,
    /// It stood elsewhere in the order of declaration.
    Reordered,
}

/// Why fields moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The member.
    pub member: String,
    /// What happened to it.
    pub change: Change,
    /// Offset of the member, bytes: in the new build, or in the old one when it was removed.
    pub offset: u64,
    /// Member behind which it stands; empty at the start.
    pub after: String,
    /// The first member that moved because of it.
    pub first_moved: Option<String>,
    /// How far that one moved, bytes.
    pub shift: i64,
    /// For an inserted member: places in the old layout where nothing would have moved.
    pub free_slots: Vec<Slot>,
}

/// A named member, unnamed structs flattened, in order of declaration.
#[derive(Clone)]
struct Flat {
    name: String,
    offset: u64,
    size: u64,
    ty: TypeId,
}

fn flat(table: &TypeTable, id: TypeId) -> Vec<Flat> {
    let mut out = Vec::new();
    flatten(table, table.strip(id), 0, 0, &mut out);
    out
}

fn flatten(table: &TypeTable, id: TypeId, base: u64, depth: usize, out: &mut Vec<Flat>) {
    let Type::Aggregate(a) = table.get(id) else { return };
    if depth > 16 || out.len() > 65_536 {
        return;
    }
    for m in a.members.iter().filter(|m| takes_room(m.role)) {
        let offset = base.saturating_add(m.offset());
        match &m.name {
            Some(name) => {
                let size = match m.bit_size {
                    Some(bits) => u64::from(bits).div_ceil(8),
                    None => table.size(m.ty).unwrap_or(0),
                };
                out.push(Flat { name: name.clone(), offset, size, ty: m.ty });
            }
            None => {
                let ty = table.strip(m.ty);
                let union = table.aggregate(ty).is_some_and(|x| x.kind == AggregateKind::Union);
                if union {
                    let size = table.size(ty).unwrap_or(0);
                    out.push(Flat { name: first_name(table, ty), offset, size, ty });
                } else {
                    flatten(table, ty, offset, depth + 1, out);
                }
            }
        }
    }
}

/// An unnamed union goes by the name of its first member.
fn first_name(table: &TypeTable, mut id: TypeId) -> String {
    for _ in 0..16 {
        match table.aggregate(id).and_then(|a| a.members.first()) {
            Some(m) => match &m.name {
                Some(name) => return name.clone(),
                None => id = m.ty,
            },
            None => break,
        }
    }
    "(unnamed)".into()
}

/// `None` when no member that both builds have moved and nothing was inserted, removed or resized at this level.
pub(super) fn find(old: Side<'_>, old_id: TypeId, new: Side<'_>, new_id: TypeId) -> Option<Cause> {
    let (a, b) = (flat(old.table, old_id), flat(new.table, new_id));
    let in_old = |n: &str| a.iter().find(|f| f.name == n);
    let in_new = |n: &str| b.iter().find(|f| f.name == n);
    let shift = |f: &Flat| in_old(&f.name).map(|o| (f.offset as i64).wrapping_sub(o.offset as i64));
    // The first member, in the new order, that both builds have and that lies elsewhere now.
    let moved = b.iter().position(|f| shift(f).is_some_and(|s| s != 0));
    let upto = moved.unwrap_or(b.len());
    // Changes between the last member that stayed and the first that moved; the last one before the move decides,
    // earlier ones were absorbed by holes.
    let from = (0..upto).rev().find(|&i| shift(&b[i]) == Some(0) && same_size(&b[i], in_old(&b[i].name)));
    let window = &b[from.map_or(0, |i| i + 1)..upto];
    let found = window.iter().find_map(|f| match in_old(&f.name) {
        None => Some((f.clone(), Change::Inserted)),
        Some(o) if o.size != f.size => Some((f.clone(), Change::Resized(o.size, f.size))),
        _ => None,
    });
    let first_moved = moved.map(|i| b[i].clone());
    let (member, change) = found
        .or_else(|| removed_before(&a, first_moved.as_ref(), in_new).map(|f| (f, Change::Removed)))
        .or_else(|| first_moved.clone().map(|f| (f, Change::Reordered)))?;
    let list = if change == Change::Removed { &a } else { &b };
    let position = list.iter().position(|f| f.name == member.name)?;
    let free_slots = match change {
        Change::Inserted => free(old, old_id, new, &member),
        _ => Vec::new(),
    };
    Some(Cause {
        member: member.name.clone(),
        change,
        offset: member.offset,
        after: position.checked_sub(1).map_or(String::new(), |i| list[i].name.clone()),
        shift: first_moved.as_ref().and_then(shift).unwrap_or(0),
        first_moved: first_moved.map(|f| f.name),
        free_slots,
    })
}

fn same_size(f: &Flat, old: Option<&Flat>) -> bool {
    old.is_some_and(|o| o.size == f.size)
}

/// The last member of the old build in front of the first moved one that the new build lacks.
fn removed_before<'a>(
    a: &[Flat],
    moved: Option<&Flat>,
    in_new: impl Fn(&str) -> Option<&'a Flat>,
) -> Option<Flat> {
    let upto = moved.and_then(|m| a.iter().position(|f| f.name == m.name)).unwrap_or(a.len());
    a[..upto].iter().rev().find(|f| in_new(&f.name).is_none()).cloned()
}

fn free(old: Side<'_>, old_id: TypeId, new: Side<'_>, member: &Flat) -> Vec<Slot> {
    let field = NewField {
        name: member.name.clone(),
        size: member.size,
        align: object_align(new.table, member.ty, new.btf),
    };
    if field.size == 0 {
        return Vec::new();
    }
    slots(old.table, old_id, &field, old.btf, 8).into_iter().filter(Slot::is_free).collect()
}
