//! Declarations replaced by the definition of their name, where there is exactly one.

use std::collections::HashMap;

use tussle_model::{AggregateKind, Type, TypeId, TypeTable};

/// For each type the one that stands for it: itself, or the only definition of a declared name.
pub(crate) fn stand_ins(table: &TypeTable) -> Vec<TypeId> {
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

/// Lets references to declarations point to their definitions. Ids stay as they are.
pub(crate) fn replace_declarations(table: TypeTable) -> TypeTable {
    let new = stand_ins(&table);
    let order: Vec<TypeId> = (0..table.len() as u32).map(TypeId).collect();
    table.reordered(&order, &new)
}
