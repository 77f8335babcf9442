//! Doubts about layouts from types and names of types alone: no recording, no rule.
//!
//! Nothing here knows which threads touch what. A doubt is told only where the types and names of the fields say that
//! different threads write them, or that some write beside what all read. Types of system headers and of libraries
//! are left out: their users cannot change them.

mod doubts;
mod parts;
mod view;
mod words;

pub use view::view;

use crate::phases::Where;
use std::collections::{HashMap, HashSet};
use tussle_model::{Aggregate, AggregateKind, LineSize, SourceLoc, Type, TypeId, TypeTable};

/// What may be wrong with a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Both ends of a queue in one line: producers write one, consumers the other.
    QueueEnds,
    /// Two locks in one line.
    Locks,
    /// Elements of threads, or with a lock each, several to a line.
    Elements,
    /// A lock or counter beside tables of functions that everybody reads.
    BesideRead,
}

impl Rule {
    /// As findings name it.
    pub fn key(self) -> &'static str {
        match self {
            Rule::QueueEnds => "adjacent-ends",
            Rule::Locks => "adjacent-locks",
            Rule::Elements => "small-elements",
            Rule::BesideRead => "written-beside-read",
        }
    }

    /// What can be done.
    pub fn help(self) -> &'static str {
        match self {
            Rule::QueueEnds => {
                "begin the second at a line of its own, or move what one side alone uses between them"
            }
            Rule::Locks => {
                "move what each lock protects next to it, so that the locks come to lie in different lines"
            }
            Rule::Elements => "align the element to a line, or give each thread its own allocation",
            Rule::BesideRead => "move what is read by all away from what is written, or the other way round",
        }
    }
}

/// One doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Which.
    pub rule: Rule,
    /// Name of the type.
    pub ty: String,
    /// What was seen.
    pub what: String,
    /// Declaration of the field, or of the type.
    pub at: Option<SourceLoc>,
}

/// What was looked at and found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Types looked at.
    pub types: u64,
    /// In order of type name.
    pub doubts: Vec<Doubt>,
}

/// Looks at every named type that the file's own sources define.
pub fn lint(table: &TypeTable, line: LineSize, btf: bool) -> Found {
    let typedefs = typedef_names(table);
    let mut found = Found::default();
    let mut seen = HashSet::new();
    for (id, a) in table.aggregates().filter(|(_, a)| a.kind != AggregateKind::Union && !foreign(a)) {
        let Some(name) = a.name.as_ref().map(|_| a.display_name()).or_else(|| typedefs.get(&id).cloned())
        else {
            continue;
        };
        if !seen.insert(name.clone()) {
            continue;
        }
        found.types += 1;
        let phases = Where::Any.phases(table, id, line, btf);
        found.doubts.extend(doubts::of(&doubts::Asked { table, id, a, name: &name, phases, line }));
    }
    found.doubts.sort_by(|x, y| x.ty.cmp(&y.ty).then(x.rule.cmp(&y.rule)));
    found
}

/// Names that C gives to unnamed structs (`typedef struct { .. } ring_t`).
fn typedef_names(table: &TypeTable) -> HashMap<TypeId, String> {
    let named = table.iter().filter_map(|(_, t)| match t {
        Type::Typedef { name, to } => Some((*to, name.clone())),
        _ => None,
    });
    named.collect()
}

/// Folders of headers and libraries that a project only uses.
const FOREIGN_FOLDERS: [&str; 7] = [
    "/usr/include/",
    "/usr/lib/",
    "/usr/local/include/",
    "/usr/local/go/",
    "/rustc/",
    "/.cargo/registry/",
    "/bits/",
];
/// Namespaces of standard libraries, for types without a source line.
const FOREIGN_NAMES: [&str; 9] =
    ["std::", "__gnu_cxx::", "core::", "alloc::", "hashbrown::", "runtime.", "boost::", "absl::", "pthread_"];

fn foreign(a: &Aggregate) -> bool {
    let file = a.decl.as_ref().is_some_and(|d| FOREIGN_FOLDERS.iter().any(|f| d.file.contains(f)));
    let name = a.name.as_deref().unwrap_or_default();
    file || FOREIGN_NAMES.iter().any(|n| name.starts_with(n))
}

#[cfg(test)]
mod tests;
