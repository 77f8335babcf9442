//! Types of columns, as few as the tables need, and the columns of each table.

/// What the cells of a column are. Every cell may be null: unknown, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not below zero.
    U64,
    /// Any whole number.
    I64,
    /// A number.
    F64,
    /// Yes or no.
    Bool,
    /// Text.
    Text,
    /// Anything, written as JSON.
    Json,
    /// Several of one kind.
    List(&'static Kind),
    /// Parts with names.
    Struct(&'static [Field]),
}

/// A column or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name, unit last.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
}

/// Fields by kind: `fields![U64: a b; Text: c]`.
#[macro_export]
macro_rules! fields {
    ($($kind:expr => $($name:ident)+);+ $(;)?) => {{
        use $crate::Kind::*;
        &[$($($crate::Field { name: stringify!($name), kind: $kind },)+)+]
    }};
}
