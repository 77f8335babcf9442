//! Where a type lies by value inside another one.

use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Type, TypeId, TypeTable};

/// Places of one struct in another that are followed.
pub const PLACES_MAX: usize = 4096;

/// Types entered in search of them.
const SEARCHED_MAX: usize = 100_000;

/// First bytes at which objects of type `ty` hold one of type `target` by value, in order; `None` when they are more
/// than [`PLACES_MAX`] or nested too deep to be found.
pub fn places(table: &TypeTable, target: TypeId, ty: TypeId) -> Option<Vec<u64>> {
    let mut search = Search { table, target: table.strip(target), places: Vec::new(), entered: 0 };
    search.enter(ty, 0, 0)?;
    Some(search.places)
}

struct Search<'a> {
    table: &'a TypeTable,
    target: TypeId,
    places: Vec<u64>,
    entered: usize,
}

impl Search<'_> {
    fn enter(&mut self, ty: TypeId, at: u64, depth: usize) -> Option<()> {
        let ty = self.table.strip(ty);
        self.entered += 1;
        if self.entered > SEARCHED_MAX || self.places.len() > PLACES_MAX {
            return None;
        }
        if ty == self.target {
            self.places.push(at);
            return Some(());
        }
        if depth > DEPTH_MAX {
            return Some(());
        }
        match self.table.get(ty) {
            Type::Aggregate(a) => a
                .members
                .iter()
                .filter(|m| m.bit_size.is_none())
                .try_for_each(|m| self.enter(m.ty, at.checked_add(m.offset())?, depth + 1)),
            Type::Array { elem, counts } => {
                let Some(size) = self.table.size(*elem) else { return Some(()) };
                let n = counts.iter().try_fold(1u64, |n, c| n.checked_mul((*c)?)).unwrap_or(0);
                // What the first element has not, the others have not.
                let before = self.places.len();
                for i in 0..n {
                    self.enter(*elem, at.checked_add(i.checked_mul(size)?)?, depth + 1)?;
                    if self.places.len() == before {
                        break;
                    }
                }
                Some(())
            }
            _ => Some(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;
    use tussle_model::{Aggregate, AggregateKind, Member};

    #[test]
    fn types_that_hold_another_without_end_are_refused() {
        let (mut t, s) = table();
        let mut many = s;
        for _ in 0..6 {
            many = t.push(Type::Array { elem: many, counts: vec![Some(64)] });
        }
        assert_eq!(places(&t, s, many), None);
        let three = t.push(Type::Array { elem: s, counts: vec![Some(3)] });
        assert_eq!(places(&t, s, three), Some(vec![0, 24, 48]));
        let mut twice = s;
        for _ in 0..60 {
            let members = ["a", "b"].map(|n| Member::field(Some(n), twice, 0)).to_vec();
            let nest = Aggregate::new(AggregateKind::Struct, Some("nest"), 24, members);
            twice = t.push(Type::Aggregate(nest));
        }
        assert_eq!(places(&t, s, twice), None);
    }
}
