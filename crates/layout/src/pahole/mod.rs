//! The text that Debian's pahole 1.24 prints, byte for byte.
//!
//! Columns, double blanks and the rules for when a comment appears are held against the real thing over every type of
//! a kernel and over structs compiled for the purpose (`tests/differential.rs`).

mod aggregate;
mod member;
mod names;
mod stats;

pub use names::type_name;

use crate::holes::Holes;
use tussle_model::{AggregateKind, LineSize, Type, TypeId, TypeTable};

/// What changes the text.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `-E`: members of aggregate type are written out.
    pub expand: bool,
    /// `-c`: line size of the cacheline comments.
    pub line: LineSize,
    /// The types come from BTF: `aligned` is guessed from gaps because BTF does not keep it, and constants of
    /// enumerations print unsigned.
    pub btf: bool,
    /// `--hex`: offsets and sizes of members in hexadecimal.
    pub hex: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { expand: false, line: LineSize::L64, btf: false, hex: false }
    }
}

/// The text of one struct, class or union, with its final newline. Empty for other types.
pub fn text(table: &TypeTable, id: TypeId, options: Options) -> String {
    let Type::Aggregate(a) = table.get(table.strip(id)) else {
        return String::new();
    };
    let mut w = aggregate::Writer { table, options, out: String::new(), depth: 0 };
    let union = a.kind == AggregateKind::Union;
    let mut conf = aggregate::Conf::top(options.expand, union);
    conf.stats = !union;
    let mut line = 0;
    w.aggregate(a, &conf, &mut line);
    w.out.push_str(";\n");
    w.out
}

/// One line of `-s`: name, size in bytes and number of holes, separated by tabs.
pub fn sizes_line(table: &TypeTable, id: TypeId) -> Option<String> {
    let a = table.aggregate(id)?;
    let holes = Holes::of(table, a).count;
    Some(format!("{}\t{}\t{holes}\n", a.name.as_deref()?, a.size))
}
