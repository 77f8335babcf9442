//! Rows of a table by object: every section of a report asks for those of a few.

use tussle_evidence::{Access, Touch};

/// A row that tells of an object.
pub(crate) trait OfObject {
    /// Its number.
    fn object(&self) -> u32;
}

impl OfObject for Touch {
    fn object(&self) -> u32 {
        self.object
    }
}

impl OfObject for Access {
    fn object(&self) -> u32 {
        self.object
    }
}

/// Positions of rows, those of one object side by side in their order.
pub(crate) struct ByObject<'a, T> {
    rows: &'a [T],
    order: Vec<u32>,
}

impl<'a, T: OfObject> ByObject<'a, T> {
    /// Of all of them.
    pub fn new(rows: &'a [T]) -> ByObject<'a, T> {
        // Object and position in one number: there are millions, and a look at the row for every comparison is dear.
        let key = |(i, row): (u32, &T)| u64::from(row.object()) << 32 | u64::from(i);
        let mut keys: Vec<u64> = (0u32..).zip(rows).map(key).collect();
        keys.sort_unstable();
        ByObject { rows, order: keys.into_iter().map(|k| k as u32).collect() }
    }

    /// Those of an object.
    pub fn of(&self, object: u32) -> impl Iterator<Item = &'a T> {
        let rows = self.rows;
        let from = self.order.partition_point(|&i| rows[i as usize].object() < object);
        let to = self.order.partition_point(|&i| rows[i as usize].object() <= object);
        self.order[from..to].iter().map(move |&i| &rows[i as usize])
    }
}
