//! Declarations replaced by the definition of their name, where there is one or all of them have one layout.

use std::collections::{HashMap, HashSet};

use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Aggregate, AggregateKind, Member, MemberRole, Type, TypeId, TypeTable};

/// For each type the one that stands for it: itself, or the definition of a declared name.
pub(crate) fn stand_ins(table: &TypeTable) -> Vec<TypeId> {
    let mut defined: HashMap<(bool, &str), Option<TypeId>> = HashMap::new();
    for (id, a) in table.aggregates() {
        let Some(name) = a.name.as_deref() else { continue };
        defined
            .entry((a.kind == AggregateKind::Union, name))
            .and_modify(|known| {
                *known = known.filter(|&k| table.aggregate(k).is_some_and(|k| alike(table, k, a)))
            })
            .or_insert(Some(id));
    }
    let stand_in = |id, ty: &Type| match ty {
        // what has no known size is told apart from what has one
        Type::Aggregate(a) if a.declaration && table.own_doubt(id).is_none() => {
            let name = a.name.as_deref()?;
            defined.get(&(a.kind == AggregateKind::Union, name)).copied()?
        }
        _ => Some(id),
    };
    table.iter().map(|(id, ty)| stand_in(id, ty).unwrap_or(id)).collect()
}

/// Two definitions with the same size and the same members at the same places. A member that is only declared in one
/// of them may have the size that the other knows.
fn alike(table: &TypeTable, a: &Aggregate, b: &Aggregate) -> bool {
    let kept = |a: &Aggregate| {
        a.members.iter().filter(|m| m.role != MemberRole::Static).cloned().collect::<Vec<Member>>()
    };
    let place = |m: &Member| (m.offset_bits, m.bit_size, m.role);
    let same = |(a, b): (&Member, &Member)| {
        let sizes = table.size(a.ty).zip(table.size(b.ty));
        a.name == b.name && place(a) == place(b) && sizes.is_none_or(|(x, y)| x == y)
    };
    let (left, right) = (kept(a), kept(b));
    a.size == b.size && left.len() == right.len() && left.iter().zip(&right).all(same)
}

/// Names of types that are only declared where others hold them by value. clang describes a class with a vtable only
/// where that is, and with type units even its derived classes have no more than the declaration.
pub(crate) fn missing_parts(table: &TypeTable) -> Vec<String> {
    let defined: HashSet<&str> = table.aggregates().filter_map(|(_, a)| a.name.as_deref()).collect();
    let mut names = HashSet::new();
    for m in table.aggregates().flat_map(|(_, a)| &a.members).filter(|m| m.role != MemberRole::Static) {
        let mut ty = table.strip(m.ty);
        for _ in 0..DEPTH_MAX {
            let Type::Array { elem, .. } = table.get(ty) else { break };
            ty = table.strip(*elem);
        }
        let part = table.aggregate(ty).filter(|a| a.declaration).and_then(|a| a.name.as_deref());
        names.extend(part.filter(|n| !defined.contains(n)));
    }
    let mut names: Vec<String> = names.into_iter().map(Into::into).collect();
    names.sort_unstable();
    names
}

/// Lets references to declarations point to their definitions. Ids stay as they are.
pub(crate) fn replace_declarations(table: TypeTable) -> TypeTable {
    let new = stand_ins(&table);
    let order: Vec<TypeId> = (0..table.len() as u32).map(TypeId).collect();
    table.reordered(&order, &new)
}
