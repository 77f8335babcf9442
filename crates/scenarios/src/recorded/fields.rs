//! Which field a byte of a recorded object belongs to: where it begins and how long it is. Its name is the report's.

use std::collections::HashMap;
use tussle_evidence::Object;
use tussle_model::leaf::{Arrays, Leaf, leaves};
use tussle_model::{MemberRole, Type, TypeId, TypeTable};

/// Leaves that are kept, and types whose leaves are looked for: a hostile file can describe many in a few bytes.
const LEAVES_MAX: usize = 500_000;
const TYPES_MAX: usize = 1_000;
/// A leaf that begins further back than this many others is not looked for.
const BACK_MAX: usize = 16;

/// Structs in structs on the way to a flexible array.
const DEPTH_MAX: usize = 16;

/// First byte and size.
pub type Field = (u64, u8);

/// Looks fields up, and remembers what it found.
pub struct Fields<'a> {
    table: &'a TypeTable,
    leaves: HashMap<TypeId, Vec<Leaf>>,
    kept: usize,
    found: HashMap<(TypeId, u64), Option<Field>>,
}

impl<'a> Fields<'a> {
    /// Of this table.
    pub fn new(table: &'a TypeTable) -> Fields<'a> {
        Fields { table, leaves: HashMap::new(), kept: 0, found: HashMap::new() }
    }

    /// The fields of a type in order of their offsets; none once too many have been looked at.
    pub fn of(&mut self, ty: TypeId) -> &[Leaf] {
        let room = self.kept < LEAVES_MAX && self.leaves.len() < TYPES_MAX;
        let table = self.table;
        let kept = &mut self.kept;
        self.leaves.entry(ty).or_insert_with(|| {
            let all = if room { leaves(table, ty, Arrays::Elements) } else { Vec::new() };
            *kept += all.len();
            all
        })
    }

    /// First byte and size of the field, or of the word of a wide or untyped one, at `offset`.
    pub fn at(&mut self, object: &Object, offset: u64) -> Field {
        let untyped = (offset / 8 * 8, 8);
        object.ty.and_then(|ty| self.of_type(ty, object.count, offset)).unwrap_or(untyped)
    }

    /// The same in `count` elements of a type, side by side. Behind them lies the last one's flexible array, if it has
    /// one, and else what nobody knows.
    pub fn of_type(&mut self, ty: TypeId, count: u64, offset: u64) -> Option<Field> {
        let size = self.table.size(ty).filter(|s| *s > 0)?;
        let element = element(size, count, offset);
        let at = offset - element;
        let inside = if at < size { self.within(ty, at) } else { None };
        let (start, bytes) = match inside {
            Some(field) => field,
            None if count <= 1 => {
                let (first, elem, stride) = flexible(self.table, ty)?;
                let index = at.checked_sub(first)? / stride;
                let (start, bytes) = self.within(elem, at - first - index * stride)?;
                (first + index * stride + start, bytes)
            }
            None => return None,
        };
        Some((element + start, bytes))
    }

    fn within(&mut self, ty: TypeId, at: u64) -> Option<Field> {
        if let Some(known) = self.found.get(&(ty, at)) {
            return *known;
        }
        let all = self.of(ty);
        let after = all.partition_point(|l| l.offset <= at);
        let around = all[..after].iter().rev().take(BACK_MAX).filter(|l| at < l.end());
        let leaf = around.min_by_key(|l| (l.offset != at, l.size));
        let found = leaf.map(|l| {
            // A wide leaf (an array of characters, a long double) is taken word by word.
            let word = (at - l.offset) / 8 * 8;
            let bytes = (l.size - word).clamp(1, 8).next_power_of_two() as u8;
            (l.offset + word, bytes)
        });
        self.found.insert((ty, at), found);
        found
    }
}

/// First byte of the element around `offset`, of `count` elements of `size` bytes side by side. What lies behind them
/// belongs to the first: a flexible array, or the rest of an allocation.
pub fn element(size: u64, count: u64, offset: u64) -> u64 {
    match offset.checked_div(size) {
        Some(index) if count > 1 && index < count => index * size,
        _ => 0,
    }
}

/// Offset, element and its size of the flexible array at the end of a type.
fn flexible(table: &TypeTable, ty: TypeId) -> Option<(u64, TypeId, u64)> {
    let (mut id, mut start) = (ty, 0u64);
    for _ in 0..DEPTH_MAX {
        let last = match table.get(table.strip(id)) {
            Type::Aggregate(a) => a
                .members
                .iter()
                .filter(|m| m.role != MemberRole::Static && m.bit_size.is_none())
                .max_by_key(|m| m.offset())?,
            Type::Array { elem, .. } if table.size(id).unwrap_or(0) == 0 => {
                let stride = table.size(*elem).filter(|s| *s > 0)?;
                return Some((start, *elem, stride));
            }
            _ => return None,
        };
        start = start.checked_add(last.offset())?;
        id = last.ty;
    }
    None
}
