//! The finished table: structs in the order in which the file first shows them, declarations replaced by definitions.

use std::collections::HashMap;

use tussle_model::{Type, TypeId, TypeTable};

use super::hash::IntMap;
use super::units::Units;
use crate::definitions::stand_ins;

/// Where a name has several definitions, each gets the name of the unit that was read first with it.
pub(super) fn name_units(table: &mut TypeTable, appeared: &[(TypeId, u32)], units: &Units<'_>) {
    let mut of: IntMap<u32, u32> = IntMap::default();
    for &(id, unit) in appeared {
        of.entry(id.0).or_insert(unit);
    }
    let mut by_name: HashMap<&str, Vec<TypeId>> = HashMap::new();
    for (id, a) in table.aggregates() {
        if let Some(name) = a.name.as_deref() {
            by_name.entry(name).or_default().push(id);
        }
    }
    let several: Vec<TypeId> = by_name.into_values().filter(|ids| ids.len() > 1).flatten().collect();
    let mut names: IntMap<u32, Option<String>> = IntMap::default();
    for id in several {
        let Type::Aggregate(a) = table.get(id) else { continue };
        let name = |&unit: &u32| names.entry(unit).or_insert_with(|| units.name(unit)).clone();
        let unit = of.get(&id.0).and_then(name);
        let named = tussle_model::Aggregate { unit, ..a.clone() };
        table.set(id, Type::Aggregate(named));
    }
}

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
