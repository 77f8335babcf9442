//! One cell of a table on its way from a file into a field, without a value of its own on the heap.

use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

/// What a cell holds.
pub(crate) enum Cell<'a> {
    /// Unknown, or not there.
    Null,
    /// A number that is not below zero.
    Int(u64),
    /// Text.
    Text(&'a str),
    /// A list: this row of these columns.
    List(&'a mut [Column], usize),
    /// Anything.
    Value(Value),
}

impl Cell<'_> {
    fn into_value(self) -> Value {
        match self {
            Cell::Null => Value::Null,
            Cell::Int(n) => Value::from(n),
            Cell::Text(s) => Value::from(s),
            Cell::List(of, row) => of.iter_mut().map(|c| c.take(row).into_value()).collect(),
            Cell::Value(v) => v,
        }
    }
}

impl<'de> Deserializer<'de> for Cell<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Cell::Null => visitor.visit_unit(),
            Cell::Int(n) => visitor.visit_u64(n),
            Cell::Text(s) => visitor.visit_str(s),
            Cell::List(of, row) => list(of, row, visitor),
            Cell::Value(v) => v.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Cell::Null | Cell::Value(Value::Null) => visitor.visit_none(),
            cell => visitor.visit_some(cell),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Cell::Text(s) => visitor.visit_enum(s.into_deserializer()),
            cell => cell.into_value().deserialize_enum(name, variants, visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map struct identifier ignored_any
    }
}

/// A list that is longer than what it becomes is wrong, as one of values is.
fn list<'de, V: Visitor<'de>>(of: &mut [Column], row: usize, visitor: V) -> Result<V::Value, Error> {
    let length = of.len();
    let mut rest = Elements { of: of.iter_mut(), row };
    let list = visitor.visit_seq(&mut rest)?;
    match rest.of.len() {
        0 => Ok(list),
        _ => Err(Error::invalid_length(length, &"fewer elements in array")),
    }
}

/// What is left of a list.
struct Elements<'a> {
    of: std::slice::IterMut<'a, Column>,
    row: usize,
}

impl<'de> SeqAccess<'de> for &mut Elements<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.of.next().map(|c| seed.deserialize(c.take(self.row))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.of.len())
    }
}

/// Cells of one column.
pub(crate) enum Column {
    /// So many nulls.
    Nulls(usize),
    /// Numbers that are not below zero.
    Ints(Vec<u64>),
    /// Texts by number of a dictionary.
    Texts {
        /// The dictionary.
        words: Vec<String>,
        /// Of each cell, its number there.
        which: Vec<u64>,
    },
    /// Nulls, and cells of a shorter column.
    Sparse {
        /// Of each cell, its number there.
        at: Vec<Option<u32>>,
        /// The others.
        of: Box<Column>,
    },
    /// So many lists of one length: a column for each position.
    Lists(usize, Vec<Column>),
    /// Anything.
    Values(Vec<Value>),
}

impl Column {
    fn len(&self) -> usize {
        match self {
            Column::Nulls(n) | Column::Lists(n, _) => *n,
            Column::Ints(all) => all.len(),
            Column::Texts { which, .. } => which.len(),
            Column::Sparse { at, .. } => at.len(),
            Column::Values(all) => all.len(),
        }
    }

    /// The cell of a row; what is taken is gone.
    pub(crate) fn take(&mut self, row: usize) -> Cell<'_> {
        match self {
            Column::Nulls(_) => Cell::Null,
            Column::Ints(all) => all.get(row).map_or(Cell::Null, |n| Cell::Int(*n)),
            Column::Texts { words, which } => {
                let word = which.get(row).and_then(|i| words.get(usize::try_from(*i).ok()?));
                word.map_or(Cell::Null, |w| Cell::Text(w))
            }
            Column::Sparse { at, of } => match at.get(row).copied().flatten() {
                Some(row) => of.take(row as usize),
                None => Cell::Null,
            },
            Column::Lists(rows, of) if row < *rows => Cell::List(of, row),
            Column::Lists(..) => Cell::Null,
            Column::Values(all) => all.get_mut(row).map_or(Cell::Null, |v| Cell::Value(v.take())),
        }
    }

    /// All cells as numbers; `None` where one is none.
    pub(crate) fn ints(&self) -> Option<&[u64]> {
        match self {
            Column::Ints(all) => Some(all),
            _ => None,
        }
    }

    /// All cells as values.
    pub(crate) fn into_values(mut self) -> Vec<Value> {
        match self {
            Column::Values(all) => all,
            _ => (0..self.len()).map(|row| self.take(row).into_value()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        Read,
        Write,
    }

    /// The same as from a value, errors included.
    fn check<T: for<'de> Deserialize<'de> + std::fmt::Debug + PartialEq>(column: impl Fn() -> Column) {
        let value = column().take(0).into_value();
        let from_value = serde_json::from_value::<T>(value).map_err(|e| e.to_string());
        assert_eq!(T::deserialize(column().take(0)).map_err(|e| e.to_string()), from_value);
    }

    #[test]
    fn cells_are_read_as_values_are() {
        let text = |s: &str| Column::Texts { words: vec![s.into()], which: vec![0] };
        let list = |of: &[u64]| Column::Lists(1, of.iter().map(|n| Column::Ints(vec![*n])).collect());
        let some = |of: Column| Column::Sparse { at: vec![Some(0)], of: Box::new(of) };
        let columns: [&dyn Fn() -> Column; 15] = [
            &|| Column::Nulls(1),
            &|| Column::Ints(vec![7]),
            &|| Column::Ints(vec![u64::MAX]),
            &|| text("write"),
            &|| text("other"),
            &|| Column::Sparse { at: vec![None], of: Box::new(text("write")) },
            &|| some(Column::Ints(vec![7])),
            &|| some(list(&[1, 2])),
            &|| list(&[]),
            &|| list(&[1, 2, 3]),
            &|| Column::Lists(1, vec![text("write"), list(&[1]), Column::Nulls(1)]),
            &|| Column::Values(vec![json!(-1)]),
            &|| Column::Values(vec![json!(0.5)]),
            &|| Column::Values(vec![json!(null)]),
            &|| Column::Values(vec![json!([1, 2])]),
        ];
        for column in columns {
            check::<u64>(column);
            check::<u32>(column);
            check::<Option<u8>>(column);
            check::<f64>(column);
            check::<Option<String>>(column);
            check::<Word>(column);
            check::<Option<Word>>(column);
            check::<Vec<u64>>(column);
            check::<Option<(u32, u64)>>(column);
            check::<(Word, Vec<u8>, Option<u8>)>(column);
            check::<bool>(column);
        }
    }
}
