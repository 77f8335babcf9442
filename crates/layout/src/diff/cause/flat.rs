//! The members of a type as they are declared, unnamed structs flattened.

use super::DEPTH_MAX;
use crate::align::takes_room;
use crate::diff::Side;
use crate::phases::object_align;
use foldhash::{HashMap, HashMapExt};
use tussle_model::{AggregateKind, Type, TypeId, TypeTable};

/// A named member, unnamed structs flattened, in order of declaration.
#[derive(Clone, Copy)]
pub(super) struct Flat<'a> {
    pub name: &'a str,
    /// First bit from the start of the type.
    pub first_bit: u64,
    /// Bytes; those of a bit-field's bits.
    pub size: u64,
    pub ty: TypeId,
    /// Alignment that its declaration asks for, bytes.
    pub align: u64,
    /// Width of a bit-field.
    pub bits: Option<u32>,
}

impl Flat<'_> {
    /// Bytes from the start of the type.
    pub fn offset(&self) -> u64 {
        self.first_bit / 8
    }

    /// Of the same size or width.
    pub fn is_as_wide(&self, other: &Flat<'_>) -> bool {
        (self.size, self.bits) == (other.size, other.bits)
    }

    /// What its type and its declaration ask for, bytes.
    pub fn alignment(&self, side: Side<'_>) -> u64 {
        object_align(side.table, self.ty, side.btf).max(self.align)
    }
}

pub(super) fn flat(table: &TypeTable, id: TypeId) -> Vec<Flat<'_>> {
    let mut out = Vec::new();
    flatten(table, table.strip(id), 0, 0, &mut out);
    out
}

fn flatten<'a>(table: &'a TypeTable, id: TypeId, base_bits: u64, depth: usize, out: &mut Vec<Flat<'a>>) {
    let Type::Aggregate(a) = table.get(id) else { return };
    if depth > DEPTH_MAX || out.len() > 65_536 {
        return;
    }
    for m in a.members.iter().filter(|m| takes_room(m.role)) {
        let first_bit = base_bits.saturating_add(m.offset_bits);
        let (align, bits) = (m.align.unwrap_or(1), m.bit_size);
        match &m.name {
            Some(name) => {
                let size = match bits {
                    Some(bits) => u64::from(bits).div_ceil(8),
                    None => table.size(m.ty).unwrap_or(0),
                };
                out.push(Flat { name, first_bit, size, ty: m.ty, align, bits });
            }
            None => {
                let ty = table.strip(m.ty);
                let union = table.aggregate(ty).is_some_and(|x| x.kind == AggregateKind::Union);
                if union {
                    let size = table.size(ty).unwrap_or(0);
                    out.push(Flat { name: first_name(table, ty), first_bit, size, ty, align, bits });
                } else {
                    flatten(table, ty, first_bit, depth + 1, out);
                }
            }
        }
    }
}

/// An unnamed union goes by the name of its first member.
fn first_name(table: &TypeTable, mut id: TypeId) -> &str {
    for _ in 0..16 {
        match table.aggregate(id).and_then(|a| a.members.first()) {
            Some(m) => match &m.name {
                Some(name) => return name,
                None => id = m.ty,
            },
            None => break,
        }
    }
    "(unnamed)"
}

/// The first position of each name.
pub(super) fn places<'a>(list: &[Flat<'a>]) -> HashMap<&'a str, usize> {
    let mut at = HashMap::with_capacity(list.len());
    for (i, f) in list.iter().enumerate() {
        at.entry(f.name).or_insert(i);
    }
    at
}

/// An unnamed union stands somewhere among the members.
pub(super) fn hides(table: &TypeTable, id: TypeId, depth: usize) -> bool {
    let Some(a) = table.aggregate(id).filter(|_| depth <= DEPTH_MAX) else { return false };
    let inner = |ty: TypeId| {
        table.aggregate(ty).is_some_and(|x| x.kind == AggregateKind::Union || hides(table, ty, depth + 1))
    };
    a.members.iter().any(|m| m.name.is_none() && inner(m.ty))
}

/// What an array is of.
pub(super) fn element(table: &TypeTable, id: TypeId) -> TypeId {
    match table.get(table.strip(id)) {
        Type::Array { elem, .. } => table.strip(*elem),
        _ => table.strip(id),
    }
}

/// The name of a member's struct, or of what an array is of: its own, else that of the typedef next to it.
pub(super) fn called(table: &TypeTable, mut id: TypeId) -> Option<String> {
    let mut typedef = None;
    for _ in 0..64 {
        id = match table.get(id) {
            Type::Aggregate(a) if a.name.is_some() => return Some(a.display_name()),
            Type::Aggregate(_) => return typedef,
            Type::Typedef { name, to } => {
                typedef = Some(name.clone());
                *to
            }
            Type::Const(to) | Type::Volatile(to) | Type::Restrict(to) | Type::Atomic(to) => *to,
            Type::Array { elem, .. } => {
                typedef = None;
                *elem
            }
            _ => return None,
        };
    }
    None
}
