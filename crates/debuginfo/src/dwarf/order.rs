//! The finished table: structs in the order in which the file first shows them, declarations replaced by definitions.

use std::collections::HashMap;

use tussle_model::{AggregateKind, Type, TypeId, TypeTable};

/// Rebuilds the table with the aggregates of `appeared` first; also returns the new id of every old one.
pub(super) fn finish(table: TypeTable, appeared: &[TypeId]) -> (TypeTable, Vec<TypeId>) {
    let mut new = definitions(&table);
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

/// For each type the one that stands for it: itself, or the only definition of a declared name.
fn definitions(table: &TypeTable) -> Vec<TypeId> {
    let mut defined: HashMap<(bool, &str), Option<TypeId>> = HashMap::new();
    for (id, a) in table.aggregates() {
        let Some(name) = a.name.as_deref() else { continue };
        defined
            .entry((a.kind == AggregateKind::Union, name))
            .and_modify(|known| *known = None)
            .or_insert(Some(id));
    }
    let stand_in = |id, ty: &Type| match ty {
        Type::Aggregate(a) if a.declaration => {
            let name = a.name.as_deref()?;
            defined.get(&(a.kind == AggregateKind::Union, name)).copied()?
        }
        _ => Some(id),
    };
    table.iter().map(|(id, ty)| stand_in(id, ty).unwrap_or(id)).collect()
}
