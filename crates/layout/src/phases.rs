//! Which phases an object can have: by its alignment, by its array or slab, or as the user says.

use crate::bounds::bounds;
pub use crate::bounds::object_align;
use tussle_model::{Leaf, LineSize, LineSpan, Placement, TypeId, TypeTable};

/// What is known about where objects begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// Every phase that the alignment allows.
    Any,
    /// Only this one, as the user says. Bytes.
    Phase(u64),
    /// In this placement.
    Placed(Placement),
}

impl Where {
    /// The phases to answer for, ascending, never empty.
    pub fn phases(&self, table: &TypeTable, id: TypeId, line: LineSize, btf: bool) -> Vec<u64> {
        match self {
            Where::Any => Placement::aligned(object_align(table, id, btf)).phases(line),
            Where::Phase(p) => vec![p % line.bytes()],
            Where::Placed(p) => p.phases(line),
        }
    }
}

/// Phases of objects of which only the alignment is known, and even that perhaps not for certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Possible {
    /// All that can occur, bytes, ascending.
    pub all: Vec<u64>,
    /// Those that do occur, whatever the alignment is: a part of them, never empty.
    pub certain: Vec<u64>,
}

impl Possible {
    /// Of objects of a type.
    pub fn of(table: &TypeTable, id: TypeId, line: LineSize, btf: bool) -> Possible {
        let known = bounds(table, id, btf);
        let phases = |align| Placement::aligned(align).phases(line);
        Possible { all: phases(known.least), certain: phases(known.most) }
    }

    /// Of objects that are known to lie there.
    pub fn exactly(phases: Vec<u64>) -> Possible {
        Possible { certain: phases.clone(), all: phases }
    }
}

/// Lines that a leaf touches when its object has the given phase.
pub fn span(leaf: &Leaf, phase: u64, line: LineSize) -> LineSpan {
    line.span(leaf.offset.saturating_add(phase), leaf.size)
}

/// Both lie in one line at that phase.
pub fn share(a: &Leaf, b: &Leaf, phase: u64, line: LineSize) -> bool {
    span(a, phase, line).meets(span(b, phase, line))
}

/// The leaves that a field path names: the leaf itself, or all leaves below a member (`mmap_lock` names
/// `mmap_lock.owner`), or all elements of an array.
pub fn select<'a>(leaves: &'a [Leaf], path: &str) -> Vec<&'a Leaf> {
    leaves.iter().filter(|l| is_below(&l.path, path)).collect()
}

/// `path` is `root`, or lies inside it.
pub fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
}

/// Lines that any object of `size` bytes touches at that phase.
pub fn line_count(size: u64, phase: u64, line: LineSize) -> u64 {
    line.span(phase, size).lines()
}

/// `0, 8, 16` or `all 8`.
pub fn list(phases: &[u64], of: usize) -> String {
    if phases.len() == of && of > 1 {
        return format!("all {of} phases");
    }
    let list: Vec<String> = phases.iter().map(u64::to_string).collect();
    match phases.len() {
        1 => format!("phase {}", list[0]),
        _ => format!("phases {}", list.join(", ")),
    }
}
