//! Whole columns as the fields that they become, and back. Millions of rows are of a few kinds of column: these are
//! read and written without a look at each cell. What is not as it should be is left to [`Cell`], which says what is
//! wrong.
//!
//! [`Cell`]: crate::cell::Cell

use crate::cell::{Cell, Column};
use crate::tables::{Held, Role, TouchKind};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::Hash;

/// A field that a whole column can become.
pub(crate) trait Typed: Sized {
    /// The cells of a column; `None` where one of them cannot become the field, or is better looked at by itself.
    fn all(column: &Column) -> Option<Vec<Self>>;

    /// The column of these fields.
    fn column<'a>(all: impl Iterator<Item = &'a Self>) -> Column
    where
        Self: 'a;
}

impl Typed for u64 {
    fn all(column: &Column) -> Option<Vec<u64>> {
        column.ints().map(<[u64]>::to_vec)
    }

    fn column<'a>(all: impl Iterator<Item = &'a u64>) -> Column {
        Column::Ints(all.copied().collect())
    }
}

impl Typed for u32 {
    fn all(column: &Column) -> Option<Vec<u32>> {
        let all = column.ints()?;
        let fit = all.iter().fold(0, |bits, n| bits | n) <= u64::from(u32::MAX);
        fit.then(|| all.iter().map(|n| *n as u32).collect())
    }

    fn column<'a>(all: impl Iterator<Item = &'a u32>) -> Column {
        Column::Ints(all.map(|n| u64::from(*n)).collect())
    }
}

impl Typed for Held {
    fn all(column: &Column) -> Option<Vec<Held>> {
        let Column::Lists(_, parts) = column else { return None };
        let [object, offset, sections, storing] = parts.as_slice() else { return None };
        let (object, rest) = (u32::all(object)?, [offset.ints()?, sections.ints()?, storing.ints()?]);
        let held =
            |(i, object): (usize, u32)| Some((object, *rest[0].get(i)?, *rest[1].get(i)?, *rest[2].get(i)?));
        object.into_iter().enumerate().map(held).collect()
    }

    fn column<'a>(all: impl Iterator<Item = &'a Held>) -> Column {
        let mut parts = [const { Vec::new() }; 4];
        for (object, offset, sections, storing) in all {
            let held = [u64::from(*object), *offset, *sections, *storing];
            parts.iter_mut().zip(held).for_each(|(part, n)| part.push(n));
        }
        Column::Lists(parts[0].len(), parts.into_iter().map(Column::Ints).collect())
    }
}

impl Typed for TouchKind {
    fn all(column: &Column) -> Option<Vec<TouchKind>> {
        by_word(column)
    }

    fn column<'a>(all: impl Iterator<Item = &'a TouchKind>) -> Column {
        words(all, word)
    }
}

impl Typed for Role {
    fn all(column: &Column) -> Option<Vec<Role>> {
        by_word(column)
    }

    fn column<'a>(all: impl Iterator<Item = &'a Role>) -> Column {
        words(all, word)
    }
}

impl Typed for String {
    fn all(column: &Column) -> Option<Vec<String>> {
        by_word(column)
    }

    fn column<'a>(all: impl Iterator<Item = &'a String>) -> Column {
        words(all, String::clone)
    }
}

impl<T: Typed> Typed for Option<T> {
    fn all(column: &Column) -> Option<Vec<Option<T>>> {
        match column {
            Column::Nulls(n) => Some((0..*n).map(|_| None).collect()),
            Column::Sparse { at, of } => {
                let mut rest = T::all(of)?.into_iter();
                // Those that are there come in the order of their numbers.
                Some(at.iter().map(|at| at.and_then(|_| rest.next())).collect())
            }
            _ => Some(T::all(column)?.into_iter().map(Some).collect()),
        }
    }

    fn column<'a>(all: impl Iterator<Item = &'a Option<T>>) -> Column
    where
        T: 'a,
    {
        let (mut at, mut n) = (Vec::new(), 0);
        let of = all.filter_map(|one| {
            at.push(one.is_some().then_some(n));
            n += u32::from(one.is_some());
            one.as_ref()
        });
        let of = T::column(of);
        match n as usize {
            0 => Column::Nulls(at.len()),
            n if n == at.len() => of,
            _ => Column::Sparse { at, of: Box::new(of) },
        }
    }
}

/// Each word of a dictionary is read once.
fn by_word<T: Clone + for<'de> Deserialize<'de>>(column: &Column) -> Option<Vec<T>> {
    let Column::Texts { words, which } = column else { return None };
    let words = words.iter().map(|w| T::deserialize(Cell::Text(w)).ok()).collect::<Option<Vec<T>>>()?;
    which.iter().map(|i| words.get(usize::try_from(*i).ok()?).cloned()).collect()
}

/// The word of a value that files hold as one.
fn word<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(String::from)).unwrap_or_default()
}

/// Texts by number of a dictionary, in the order in which they are met first.
fn words<'a, T: Eq + Hash + 'a>(all: impl Iterator<Item = &'a T>, text: impl Fn(&T) -> String) -> Column {
    let mut known: HashMap<&T, u64> = HashMap::new();
    let mut words = Vec::new();
    let number = |word: &'a T| {
        *known.entry(word).or_insert_with(|| {
            words.push(text(word));
            words.len() as u64 - 1
        })
    };
    let which = all.map(number).collect();
    Column::Texts { words, which }
}
