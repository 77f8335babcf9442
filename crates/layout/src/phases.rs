//! Which phases an object can have: by its alignment, by its array or slab, or as the user says.

use crate::align::{inferred, natural, takes_room};
use crate::holes::Place;
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Leaf, LineSize, LineSpan, Placement, Type, TypeId, TypeTable};

/// Alignment of every object of type `id`, bytes: the strictest of what its members need and what the source
/// declared. With `btf`, gaps that only an `aligned` attribute explains count as one (BTF does not keep them).
pub fn object_align(table: &TypeTable, id: TypeId, btf: bool) -> u64 {
    align_at(table, id, btf, 0).max(1)
}

fn align_at(table: &TypeTable, id: TypeId, btf: bool, depth: usize) -> u64 {
    if depth > DEPTH_MAX {
        return 1;
    }
    let id = table.strip(id);
    match table.get(id) {
        Type::Array { elem, .. } => align_at(table, *elem, btf, depth + 1),
        Type::Aggregate(a) => {
            let mut align = a.align.map_or(1, |x| x.bytes);
            let mut end = 0;
            for m in a.members.iter().filter(|m| takes_room(m.role)) {
                let p = Place::of(table, m);
                let own = align_at(table, m.ty, btf, depth + 1).max(m.align.unwrap_or(1));
                // A packed member lies off its alignment and says nothing about the whole.
                if p.offset % own == 0 {
                    align = align.max(own);
                }
                let line = LineSize::L64.bytes();
                if btf && a.kind != tussle_model::AggregateKind::Union && p.size != 0 {
                    align = align.max(inferred(p.offset, end, natural(table, m.ty), line).unwrap_or(1));
                    end = p.offset.saturating_add(p.size);
                }
            }
            if btf && a.kind != tussle_model::AggregateKind::Union {
                align = align.max(inferred(a.size, end, natural(table, id), line_bytes()).unwrap_or(1));
            }
            // An alignment that does not divide the size cannot be true.
            if a.size % align == 0 { align } else { 1 << a.size.trailing_zeros().min(12) }
        }
        _ => natural(table, id),
    }
}

fn line_bytes() -> u64 {
    LineSize::L64.bytes()
}

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
