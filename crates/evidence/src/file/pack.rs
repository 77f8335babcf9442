//! Columns of a block as bytes: values of one kind together, numbers as differences where that is shorter, texts by
//! number of a dictionary, lists and structs taken apart. It explains itself: who knows no column can still read it.
//!
//! ```text
//! column  = node
//! node    = kind                           all values are of this kind, or
//!           0xff kind*                     one kind for each value
//!           payload of each kind that occurs, in order of kinds
//! kinds   = 0 null, 1 false, 2 true, 3 int, 4 int below zero, 5 float, 6 text, 7 list, 8 struct
//! int     = 0 varint*  |  1 varint*        plain, or zigzag differences to the value before
//! float   = 8 bytes, little endian
//! text    = n, n times (length, UTF-8); int payload: which of them
//! list    = 0 int payload (lengths), node of all elements  |  1 n, n nodes (each list has n elements)
//! struct  = n, n times (m, m names); int payload: which of them; for each, a node for each name
//! ```

use crate::cell::Column;
use serde_json::{Map, Number, Value};
use std::collections::HashMap;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const BELOW: u8 = 4;
const FLOAT: u8 = 5;
const TEXT: u8 = 6;
const LIST: u8 = 7;
const STRUCT: u8 = 8;
const MIXED: u8 = 0xff;

/// Lists and structs inside of each other at most.
const DEPTH_MAX: u32 = 24;

/// Elements of lists that are stored by position at most.
const POSITIONS_MAX: usize = 16;

/// Values that one byte may stand for on average, what repeats itself: bounds memory.
const VALUES_PER_BYTE_MAX: usize = 64;

/// Appends one column.
pub(super) fn put(out: &mut Vec<u8>, column: &[Value]) {
    node(out, &column.iter().collect::<Vec<_>>());
}

/// Appends a column that is sorted by kind already: the same bytes as [`put`] of its values.
pub(super) fn put_column(out: &mut Vec<u8>, column: &Column) {
    match column {
        Column::Values(all) => put(out, all),
        Column::Sparse { at, of } => {
            out.push(MIXED);
            out.extend(at.iter().map(|at| at.map_or(NULL, |_| kind_of(of))));
            column_payload(out, of);
        }
        _ => {
            out.push(kind_of(column));
            column_payload(out, column);
        }
    }
}

/// The kind of all cells of a column; without any, that of none.
fn kind_of(column: &Column) -> u8 {
    match column {
        Column::Ints(all) if !all.is_empty() => INT,
        Column::Texts { which, .. } if !which.is_empty() => TEXT,
        Column::Lists(rows, _) if *rows > 0 => LIST,
        _ => NULL,
    }
}

fn column_payload(out: &mut Vec<u8>, column: &Column) {
    match column {
        Column::Ints(all) if !all.is_empty() => ints(out, all),
        Column::Texts { words, which } if !which.is_empty() => {
            varint(out, words.len() as u64);
            words.iter().for_each(|s| text(out, s));
            ints(out, which);
        }
        Column::Lists(rows, of) if *rows > 0 => {
            out.push(1);
            varint(out, of.len() as u64);
            of.iter().for_each(|c| put_column(out, c));
        }
        _ => {}
    }
}

fn kind(v: &Value) -> u8 {
    match v {
        Value::Null => NULL,
        Value::Bool(false) => FALSE,
        Value::Bool(true) => TRUE,
        Value::Number(n) if n.is_u64() => INT,
        Value::Number(n) if n.is_i64() => BELOW,
        Value::Number(_) => FLOAT,
        Value::String(_) => TEXT,
        Value::Array(_) => LIST,
        Value::Object(_) => STRUCT,
    }
}

fn node(out: &mut Vec<u8>, values: &[&Value]) {
    let kinds: Vec<u8> = values.iter().map(|v| kind(v)).collect();
    let first = kinds.first().copied().unwrap_or(NULL);
    if kinds.iter().all(|k| *k == first) {
        out.push(first);
        return payload(out, first, values);
    }
    out.push(MIXED);
    out.extend(&kinds);
    for k in INT..=STRUCT {
        let of: Vec<&Value> = values.iter().zip(&kinds).filter(|(_, x)| **x == k).map(|(v, _)| *v).collect();
        if !of.is_empty() {
            payload(out, k, &of);
        }
    }
}

fn payload(out: &mut Vec<u8>, kind: u8, values: &[&Value]) {
    match kind {
        INT => ints(out, &values.iter().filter_map(|v| v.as_u64()).collect::<Vec<_>>()),
        BELOW => ints(out, &values.iter().filter_map(|v| Some(!v.as_i64()? as u64)).collect::<Vec<_>>()),
        FLOAT => values.iter().filter_map(|v| v.as_f64()).for_each(|f| out.extend(f.to_le_bytes())),
        TEXT => texts(out, values.iter().filter_map(|v| v.as_str())),
        LIST => lists(out, &values.iter().filter_map(|v| v.as_array()).collect::<Vec<_>>()),
        STRUCT => structs(out, &values.iter().filter_map(|v| v.as_object()).collect::<Vec<_>>()),
        _ => {}
    }
}

fn varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn varint_len(n: u64) -> u32 {
    (64 - (n | 1).leading_zeros()).div_ceil(7)
}

/// Small for small differences of either sign.
fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

fn ints(out: &mut Vec<u8>, values: &[u64]) {
    let mut before = 0u64;
    let differences: Vec<u64> =
        values.iter().map(|v| zigzag(v.wrapping_sub(std::mem::replace(&mut before, *v)) as i64)).collect();
    let len = |list: &[u64]| list.iter().map(|v| u64::from(varint_len(*v))).sum::<u64>();
    let shorter = len(&differences) < len(values);
    out.push(u8::from(shorter));
    (if shorter { &differences[..] } else { values }).iter().for_each(|v| varint(out, *v));
}

fn text(out: &mut Vec<u8>, s: &str) {
    varint(out, s.len() as u64);
    out.extend(s.as_bytes());
}

fn texts<'a>(out: &mut Vec<u8>, values: impl Iterator<Item = &'a str>) {
    let mut known: HashMap<&str, u64> = HashMap::new();
    let mut words: Vec<&str> = Vec::new();
    let which: Vec<u64> = values
        .map(|s| {
            *known.entry(s).or_insert_with(|| {
                words.push(s);
                words.len() as u64 - 1
            })
        })
        .collect();
    varint(out, words.len() as u64);
    words.iter().for_each(|s| text(out, s));
    ints(out, &which);
}

fn lists(out: &mut Vec<u8>, values: &[&Vec<Value>]) {
    let first = values.first().map_or(0, |l| l.len());
    if (1..=POSITIONS_MAX).contains(&first) && values.iter().all(|l| l.len() == first) {
        out.push(1);
        varint(out, first as u64);
        (0..first).for_each(|i| node(out, &values.iter().map(|l| &l[i]).collect::<Vec<_>>()));
        return;
    }
    out.push(0);
    ints(out, &values.iter().map(|l| l.len() as u64).collect::<Vec<_>>());
    node(out, &values.iter().flat_map(|l| l.iter()).collect::<Vec<_>>());
}

fn structs(out: &mut Vec<u8>, values: &[&Map<String, Value>]) {
    let mut known: HashMap<Vec<&str>, usize> = HashMap::new();
    let mut shapes: Vec<(Vec<&str>, Vec<&Map<String, Value>>)> = Vec::new();
    let mut which = Vec::with_capacity(values.len());
    for v in values {
        let names: Vec<&str> = v.keys().map(String::as_str).collect();
        let at = *known.entry(names).or_insert_with_key(|names| {
            shapes.push((names.clone(), Vec::new()));
            shapes.len() - 1
        });
        shapes[at].1.push(v);
        which.push(at as u64);
    }
    varint(out, shapes.len() as u64);
    for (names, _) in &shapes {
        varint(out, names.len() as u64);
        names.iter().for_each(|n| text(out, n));
    }
    ints(out, &which);
    for (names, of) in &shapes {
        names.iter().for_each(|n| node(out, &of.iter().map(|m| &m[*n]).collect::<Vec<_>>()));
    }
}

/// The columns of a block; `None` where the bytes make no sense, and then nothing of them is used.
pub(super) fn take(bytes: &[u8], columns: usize, rows: usize) -> Option<Vec<Column>> {
    let room = columns.checked_mul(rows)?.checked_add(bytes.len().checked_mul(VALUES_PER_BYTE_MAX)?)?;
    let mut unpacker = Unpacker { rest: bytes, room };
    let out = (0..columns).map(|_| unpacker.column(rows, DEPTH_MAX)).collect::<Option<Vec<_>>>()?;
    unpacker.rest.is_empty().then_some(out)
}

struct Unpacker<'a> {
    rest: &'a [u8],
    /// Values that may still come.
    room: usize,
}

impl Unpacker<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn bytes(&mut self, n: usize) -> Option<&[u8]> {
        let (first, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            n |= u64::from(b & 0x7f) << shift;
            if b < 0x80 {
                return Some(n);
            }
        }
        None
    }

    /// A number of things of which each has at least one byte.
    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok().filter(|n| *n <= self.rest.len())
    }

    fn spend(&mut self, values: usize) -> Option<()> {
        self.room = self.room.checked_sub(values)?;
        Some(())
    }

    fn column(&mut self, count: usize, depth: u32) -> Option<Column> {
        self.spend(count)?;
        let depth = depth.checked_sub(1)?;
        match self.byte()? {
            MIXED => self.mixed(count, depth),
            kind => self.payload(kind, count, depth),
        }
    }

    fn values(&mut self, count: usize, depth: u32) -> Option<Vec<Value>> {
        Some(self.column(count, depth)?.into_values())
    }

    fn mixed(&mut self, count: usize, depth: u32) -> Option<Column> {
        let kinds = self.bytes(count)?.to_vec();
        if let Some(kind) = only_beside_nulls(&kinds) {
            let (at, n) = numbered(&kinds);
            return Some(Column::Sparse { at, of: Box::new(self.payload(kind, n, depth)?) });
        }
        let mut of = (NULL..=STRUCT).map(|_| Vec::new().into_iter()).collect::<Vec<_>>();
        for k in INT..=STRUCT {
            let n = kinds.iter().filter(|x| **x == k).count();
            if n > 0 {
                of[usize::from(k)] = self.payload(k, n, depth)?.into_values().into_iter();
            }
        }
        let value = |k: &u8| match *k {
            NULL => Some(Value::Null),
            FALSE | TRUE => Some(Value::Bool(*k == TRUE)),
            k => of.get_mut(usize::from(k))?.next(),
        };
        kinds.iter().map(value).collect::<Option<_>>().map(Column::Values)
    }

    fn payload(&mut self, kind: u8, count: usize, depth: u32) -> Option<Column> {
        let values = match kind {
            NULL => return Some(Column::Nulls(count)),
            INT => return self.ints(count).map(Column::Ints),
            TEXT => return self.texts(count),
            LIST => return self.lists(count, depth),
            FALSE | TRUE => Some(vec![Value::Bool(kind == TRUE); count]),
            BELOW => Some(self.ints(count)?.into_iter().map(|n| Value::from(!(n as i64))).collect()),
            FLOAT => (0..count).map(|_| self.float()).collect(),
            STRUCT => self.structs(count, depth),
            _ => None,
        };
        values.map(Column::Values)
    }

    fn ints(&mut self, count: usize) -> Option<Vec<u64>> {
        let differences = match self.byte()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        if count > self.rest.len() {
            return None;
        }
        let mut out = Vec::with_capacity(count);
        let mut before = 0u64;
        for _ in 0..count {
            let n = self.varint()?;
            before = if differences { before.wrapping_add(unzigzag(n) as u64) } else { n };
            out.push(before);
        }
        Some(out)
    }

    fn float(&mut self) -> Option<Value> {
        let bytes: [u8; 8] = self.bytes(8)?.try_into().ok()?;
        Number::from_f64(f64::from_le_bytes(bytes)).map(Value::Number)
    }

    fn text(&mut self) -> Option<String> {
        let n = self.count()?;
        Some(std::str::from_utf8(self.bytes(n)?).ok()?.to_string())
    }

    fn texts(&mut self, count: usize) -> Option<Column> {
        let n = self.count()?;
        let words = (0..n).map(|_| self.text()).collect::<Option<Vec<String>>>()?;
        let which = self.ints(count)?;
        // A long text that many rows share would grow beyond all bounds.
        let long: usize = which.iter().filter_map(|i| words.get(*i as usize)).map(|w| w.len() / 16).sum();
        self.spend(long)?;
        let whole = which.iter().all(|i| usize::try_from(*i).is_ok_and(|i| i < words.len()));
        whole.then_some(Column::Texts { words, which })
    }

    fn lists(&mut self, count: usize, depth: u32) -> Option<Column> {
        if self.byte()? == 1 {
            let n = self.count()?.min(POSITIONS_MAX);
            let of = (0..n).map(|_| self.column(count, depth)).collect::<Option<Vec<_>>>()?;
            return Some(Column::Lists(count, of));
        }
        let lengths = self.ints(count)?;
        let total = lengths.iter().try_fold(0usize, |n, l| n.checked_add(usize::try_from(*l).ok()?))?;
        let mut all = self.values(total, depth)?.into_iter();
        let list = |n: u64| Value::Array(all.by_ref().take(n as usize).collect());
        Some(Column::Values(lengths.into_iter().map(list).collect()))
    }

    fn structs(&mut self, count: usize, depth: u32) -> Option<Vec<Value>> {
        let n = self.count()?;
        let mut shapes: Vec<Vec<String>> = Vec::new();
        for _ in 0..n {
            let names = self.count()?;
            shapes.push((0..names).map(|_| self.text()).collect::<Option<_>>()?);
        }
        let which = self.ints(count)?;
        let mut counts = vec![0usize; shapes.len()];
        for w in &which {
            *counts.get_mut(usize::try_from(*w).ok()?)? += 1;
        }
        let mut of: Vec<Vec<std::vec::IntoIter<Value>>> = Vec::new();
        for (names, rows) in shapes.iter().zip(counts) {
            let nodes = names.iter().map(|_| self.values(rows, depth)).collect::<Option<Vec<_>>>()?;
            of.push(nodes.into_iter().map(Vec::into_iter).collect());
        }
        let one = |w: u64| {
            let w = usize::try_from(w).ok()?;
            let cells = shapes.get(w)?.iter().zip(of.get_mut(w)?);
            cells
                .map(|(name, v)| Some((name.clone(), v.next()?)))
                .collect::<Option<Map<_, _>>>()
                .map(Value::Object)
        };
        which.into_iter().map(one).collect()
    }
}

/// Which are not null, counted up, and how many these are.
fn numbered(kinds: &[u8]) -> (Vec<Option<u32>>, usize) {
    let mut n = 0;
    let mut at = vec![None; kinds.len()];
    for (at, _) in at.iter_mut().zip(kinds).filter(|(_, k)| **k != NULL) {
        *at = Some(n);
        n += 1;
    }
    (at, n as usize)
}

/// The kind of all values that are not null; booleans have no payload.
fn only_beside_nulls(kinds: &[u8]) -> Option<u8> {
    let kind = *kinds.iter().find(|k| **k != NULL)?;
    (kind >= INT && kinds.iter().all(|k| matches!(*k, NULL) || *k == kind)).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn round(column: &[Value]) -> usize {
        let mut bytes = Vec::new();
        put(&mut bytes, column);
        let back = take(&bytes, 1, column.len()).unwrap().remove(0);
        assert_eq!(back.into_values(), column);
        bytes.len()
    }

    #[test]
    fn every_kind_of_value_comes_back() {
        round(&[]);
        round(&[
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(-1),
        ]);
        round(&[json!(0.5), json!("a"), json!(""), json!("a"), json!(1e300)]);
        round(&[json!([[1, "x", null], [2, "y", 3]]), json!([]), json!([[0, "z", null]])]);
        round(&[
            json!({"a": 1, "b": [1, 2]}),
            json!({"a": 2, "b": []}),
            json!({"c": {"d": null}}),
            json!({}),
        ]);
    }

    #[test]
    fn neighbours_cost_little() {
        let ids: Vec<Value> = (0..1000u64).map(|i| json!(0x7fff_0000_0000u64 + 64 * i)).collect();
        assert!(round(&ids) < 2_100, "two bytes each");
        let words: Vec<Value> = (0..1000).map(|i| json!(["read", "write"][i % 2])).collect();
        assert!(round(&words) < 1_030, "one byte each");
    }

    #[test]
    fn what_would_fill_memory_is_refused() {
        // One list of 2^60 nulls.
        let mut bytes = vec![LIST, 0, 0];
        varint(&mut bytes, 1 << 60);
        bytes.push(NULL);
        assert!(take(&bytes, 1, 1).is_none());
        let deep: Vec<u8> = std::iter::repeat_n([LIST, 1, 1], 1000).flatten().collect();
        assert!(take(&deep, 1, 1).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), rows in 0usize..40) {
            take(&bytes, 2, rows);
        }

        #[test]
        fn numbers_come_back(column in prop::collection::vec(prop::option::of(any::<u64>()), 0..100)) {
            round(&column.iter().map(|n| json!(n)).collect::<Vec<_>>());
        }
    }
}
