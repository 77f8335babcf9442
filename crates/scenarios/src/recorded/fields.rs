//! Which field a byte of a recorded object belongs to.

use std::collections::HashMap;
use tussle_evidence::Object;
use tussle_model::leaf::{Arrays, Leaf, leaves};
use tussle_model::{TypeId, TypeTable};

/// Leaves that are kept, and types whose leaves are looked for: a hostile file can describe many in a few bytes.
const LEAVES_MAX: usize = 500_000;
const TYPES_MAX: usize = 1_000;
/// A leaf that begins further back than this many others is not looked for.
const BACK_MAX: usize = 16;

/// First byte, size and name.
pub type Field = (u64, u8, String);

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

    /// First byte, size and name of the field, or of the word of a wide or untyped one, at `offset`.
    pub fn at(&mut self, object: &Object, offset: u64) -> Field {
        let word = offset / 8 * 8;
        let untyped = (word, 8, format!("+{word:#x}"));
        object.ty.and_then(|ty| self.of_type(ty, offset)).unwrap_or(untyped)
    }

    /// The same in elements of a type, side by side.
    pub fn of_type(&mut self, ty: TypeId, offset: u64) -> Option<Field> {
        let size = self.table.size(ty).filter(|s| *s > 0)?;
        let element = offset / size * size;
        let (start, bytes, name) = self.within(ty, offset - element)?;
        Some((element + start, bytes, name))
    }

    fn within(&mut self, ty: TypeId, at: u64) -> Option<Field> {
        if let Some(known) = self.found.get(&(ty, at)) {
            return known.clone();
        }
        let all = self.of(ty);
        let after = all.partition_point(|l| l.offset <= at);
        let around = all[..after].iter().rev().take(BACK_MAX).filter(|l| at < l.end());
        let leaf = around.min_by_key(|l| (l.offset != at, l.size));
        let found = leaf.map(|l| {
            // A wide leaf (an array of characters, a long double) is taken word by word.
            let word = (at - l.offset) / 8 * 8;
            let bytes = (l.size - word).clamp(1, 8).next_power_of_two() as u8;
            (l.offset + word, bytes, l.path.clone())
        });
        self.found.insert((ty, at), found.clone());
        found
    }
}
