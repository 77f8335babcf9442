//! One cell of a table on its way from a file into a field, without a value of its own on the heap.

use serde::de::{Deserializer, IntoDeserializer, Visitor};
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
    /// Anything.
    Value(Value),
}

impl<'de> Deserializer<'de> for Cell<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Cell::Null => visitor.visit_unit(),
            Cell::Int(n) => visitor.visit_u64(n),
            Cell::Text(s) => visitor.visit_str(s),
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
            Cell::Value(v) => v.deserialize_enum(name, variants, visitor),
            Cell::Null => Value::Null.deserialize_enum(name, variants, visitor),
            Cell::Int(n) => Value::from(n).deserialize_enum(name, variants, visitor),
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
    /// Anything.
    Values(Vec<Value>),
}

impl Column {
    /// The cell of a row; what is taken is gone.
    pub(crate) fn take(&mut self, row: usize) -> Cell<'_> {
        match self {
            Column::Nulls(_) => Cell::Null,
            Column::Ints(all) => all.get(row).map_or(Cell::Null, |n| Cell::Int(*n)),
            Column::Texts { words, which } => {
                let word = which.get(row).and_then(|i| words.get(usize::try_from(*i).ok()?));
                word.map_or(Cell::Null, |w| Cell::Text(w))
            }
            Column::Values(all) => all.get_mut(row).map_or(Cell::Null, |v| Cell::Value(v.take())),
        }
    }

    /// All cells as values.
    pub(crate) fn into_values(self) -> Option<Vec<Value>> {
        Some(match self {
            Column::Nulls(n) => vec![Value::Null; n],
            Column::Ints(all) => all.into_iter().map(Value::from).collect(),
            Column::Texts { words, which } => {
                let word = |i: u64| Some(Value::String(words.get(usize::try_from(i).ok()?)?.clone()));
                which.into_iter().map(word).collect::<Option<_>>()?
            }
            Column::Values(all) => all,
        })
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
    fn check<T: for<'de> Deserialize<'de> + std::fmt::Debug + PartialEq>(cell: impl Fn() -> Cell<'static>) {
        let value = match cell() {
            Cell::Null => Value::Null,
            Cell::Int(n) => json!(n),
            Cell::Text(s) => json!(s),
            Cell::Value(v) => v,
        };
        let from_value = serde_json::from_value::<T>(value).map_err(|e| e.to_string());
        assert_eq!(T::deserialize(cell()).map_err(|e| e.to_string()), from_value);
    }

    #[test]
    fn cells_are_read_as_values_are() {
        let cells: [fn() -> Cell<'static>; 9] = [
            || Cell::Null,
            || Cell::Int(7),
            || Cell::Int(u64::MAX),
            || Cell::Text("write"),
            || Cell::Text("other"),
            || Cell::Value(json!(-1)),
            || Cell::Value(json!(0.5)),
            || Cell::Value(json!(null)),
            || Cell::Value(json!([1, 2])),
        ];
        for cell in cells {
            check::<u64>(cell);
            check::<u32>(cell);
            check::<Option<u8>>(cell);
            check::<f64>(cell);
            check::<Option<String>>(cell);
            check::<Word>(cell);
            check::<Option<Word>>(cell);
            check::<Vec<u64>>(cell);
            check::<bool>(cell);
        }
    }
}
