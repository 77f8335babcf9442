//! `FIELD@OFFSET`: a field changes places with as many bytes of the same struct, whatever lies there. No order of
//! members need give that; it asks where a field would do less harm.

use tussle_model::leaf::{Arrays, Leaf, leaves};
use tussle_model::{TypeId, TypeTable, near};

/// Why bytes cannot change places.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// No such field.
    #[error("{ty} has no field `{field}`{close}")]
    NoSuchField {
        /// Type.
        ty: String,
        /// Path looked for.
        field: String,
        /// Paths like it, as the sentence ends; may be empty.
        close: String,
    },
    /// The goal lies outside.
    #[error("{field} at byte {to} would reach behind the {size} bytes of {ty}")]
    Behind {
        /// Type.
        ty: String,
        /// Path.
        field: String,
        /// Byte asked for.
        to: u64,
        /// Bytes of the type.
        size: u64,
    },
    /// The goal is not aligned for the field.
    #[error("{field} at byte {to} would not be aligned to {align} bytes")]
    Misaligned {
        /// Path.
        field: String,
        /// Byte asked for.
        to: u64,
        /// Bytes.
        align: u64,
    },
    /// The bytes at the goal end inside of another field.
    #[error("{field}: the {bytes} bytes from {to} would cut `{other}` at {start}..{end}")]
    Cuts {
        /// Path.
        field: String,
        /// Its size.
        bytes: u64,
        /// Byte asked for.
        to: u64,
        /// The field that would be cut.
        other: String,
        /// Its first byte.
        start: u64,
        /// One past its last byte.
        end: u64,
    },
    /// Two ranges meet.
    #[error("{field}: the bytes from {to} overlap what moves already")]
    Overlap {
        /// Path.
        field: String,
        /// Byte asked for.
        to: u64,
    },
}

/// Ranges of equal length within one type that change places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// (one, other, bytes)
    ranges: Vec<(u64, u64, u64)>,
}

impl Exchange {
    /// Finds the ranges for fields of `target`, nested ones by their path, and the bytes that they shall begin on.
    pub fn new(
        table: &TypeTable,
        target: TypeId,
        wanted: &[(String, u64)],
    ) -> Result<Exchange, ExchangeError> {
        let all = leaves(table, target, Arrays::Whole);
        let size = table.size(target).unwrap_or(0);
        let mut out = Exchange::default();
        for (field, to) in wanted {
            let range = out.range(&all, size, field, *to).map_err(|e| named(e, &table.name(target)))?;
            out.ranges.push(range);
        }
        Ok(out)
    }

    fn range(&self, all: &[Leaf], size: u64, path: &str, to: u64) -> Result<(u64, u64, u64), ExchangeError> {
        let field = || path.to_string();
        let (dot, index) = (format!("{path}."), format!("{path}["));
        let under = |l: &&Leaf| l.path == path || l.path.starts_with(&dot) || l.path.starts_with(&index);
        let of: Vec<&Leaf> = all.iter().filter(under).collect();
        let (from, end) = (of.iter().map(|l| l.offset).min(), of.iter().map(|l| l.end()).max());
        let (Some(from), Some(end)) = (from, end) else {
            let close = near::also(&near::near_paths(all.iter().map(|l| l.path.as_str()), path, 3));
            return Err(ExchangeError::NoSuchField { ty: String::new(), field: field(), close });
        };
        let bytes = end - from;
        if to.checked_add(bytes).is_none_or(|e| e > size) {
            return Err(ExchangeError::Behind { ty: String::new(), field: field(), to, size });
        }
        let align = of.iter().map(|l| l.size.clamp(1, 8).next_power_of_two()).max().unwrap_or(1);
        if to % align != from % align {
            return Err(ExchangeError::Misaligned { field: field(), to, align });
        }
        let cut =
            |l: &&Leaf| l.offset < to + bytes && to < l.end() && (l.offset < to || to + bytes < l.end());
        if let Some(l) = all.iter().find(cut) {
            let (other, start, end) = (l.path.clone(), l.offset, l.end());
            return Err(ExchangeError::Cuts { field: field(), bytes, to, other, start, end });
        }
        let ends = self.ranges.iter().flat_map(|r| [(r.0, r.2), (r.1, r.2)]);
        let taken = |at: u64| ends.clone().any(|(b, n)| at < b + n && b < at + bytes);
        if from != to && (from < to + bytes && to < end) || taken(from) || taken(to) {
            return Err(ExchangeError::Overlap { field: field(), to });
        }
        Ok((from, to, bytes))
    }

    /// Nothing changes places.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Where byte `offset` lies afterwards.
    pub fn translate(&self, offset: u64) -> u64 {
        for &(a, b, n) in &self.ranges {
            if (a..a + n).contains(&offset) {
                return offset - a + b;
            }
            if (b..b + n).contains(&offset) {
                return offset - b + a;
            }
        }
        offset
    }
}

fn named(error: ExchangeError, name: &str) -> ExchangeError {
    let ty = name.to_string();
    match error {
        ExchangeError::NoSuchField { field, close, .. } => ExchangeError::NoSuchField { ty, field, close },
        ExchangeError::Behind { field, to, size, .. } => ExchangeError::Behind { ty, field, to, size },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    #[test]
    fn exchanges_cut_no_field_and_keep_alignment() {
        let (t, s) = table();
        let ask = |field: &str, at| {
            Exchange::new(&t, s, &[(field.into(), at)]).map(|e| e.ranges).map_err(|e| e.to_string())
        };
        assert_eq!(ask("c", 16), Ok(vec![(8, 16, 8)]));
        assert_eq!(ask("c", 0), Ok(vec![(8, 0, 8)]));
        assert_eq!(ask("a", 4), Ok(vec![(0, 4, 4)]));
        assert_eq!(ask("a", 8).unwrap_err(), "a: the 4 bytes from 8 would cut `c` at 8..16");
        assert_eq!(ask("a", 6).unwrap_err(), "a at byte 6 would not be aligned to 4 bytes");
        assert_eq!(ask("e", 6).unwrap_err(), "struct s has no field `e`");
        assert!(ask("d", 24).unwrap_err().contains("behind the 24 bytes"));
        let twice = Exchange::new(&t, s, &[("a".into(), 4), ("b".into(), 0)]);
        assert!(matches!(twice, Err(ExchangeError::Overlap { .. })));
    }

    #[test]
    fn bytes_change_places() {
        let swaps = Exchange { ranges: vec![(0, 64, 8)] };
        let moved: Vec<u64> = [0, 7, 8, 63, 64, 71, 72].iter().map(|o| swaps.translate(*o)).collect();
        assert_eq!(moved, [64, 71, 8, 63, 0, 7, 72]);
    }
}
