//! The finished table: structs in the order in which the file first shows them, declarations replaced by definitions.

use tussle_model::{TypeId, TypeTable};

use crate::definitions::stand_ins;

/// Rebuilds the table with the aggregates of `appeared` first; also returns the new id of every old one.
pub(super) fn finish(table: TypeTable, appeared: &[TypeId]) -> (TypeTable, Vec<TypeId>) {
    let mut new = stand_ins(&table);
    let mut order = Vec::with_capacity(table.len());
    let mut placed = vec![false; table.len()];
    let mut place = |id: TypeId| {
        if let Some(slot) = placed.get_mut(id.0 as usize).filter(|p| !**p) {
            *slot = true;
            order.push(id);
        }
    };
    place(TypeId::VOID);
    appeared.iter().copied().for_each(&mut place);
    (0..table.len() as u32).map(TypeId).for_each(&mut place);
    let mut position = vec![TypeId::VOID; order.len()];
    for (at, id) in order.iter().enumerate() {
        position[id.0 as usize] = TypeId(at as u32);
    }
    for id in &mut new {
        *id = position[id.0 as usize];
    }
    (table.reordered(&order, &new), new)
}
