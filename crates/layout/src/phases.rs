//! Which phases an object can have: by its alignment, by its array or slab, or as the user says.

use crate::align::{inferred, natural, takes_room};
use crate::holes::Place;
use std::collections::HashMap;
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{
    Aggregate, AggregateKind, Leaf, LineSize, LineSpan, Member, Placement, Type, TypeId, TypeTable,
};

/// No object is aligned to more than this, bytes.
const ALIGN_MAX: u64 = 1 << 30;

/// Alignment of every object of type `id`, bytes: the strictest of what its members need and what the source
/// declared. A struct in which a member lies off its alignment is packed: only what was declared counts. With `btf`,
/// gaps that only an `aligned` attribute explains count as one (BTF does not keep them).
pub fn object_align(table: &TypeTable, id: TypeId, btf: bool) -> u64 {
    Aligner { table, btf, known: HashMap::new() }.of(id, 0).clamp(1, ALIGN_MAX)
}

/// Looks at every type once; a type that contains itself counts as 1 inside.
struct Aligner<'a> {
    table: &'a TypeTable,
    btf: bool,
    known: HashMap<TypeId, u64>,
}

impl Aligner<'_> {
    fn of(&mut self, id: TypeId, depth: usize) -> u64 {
        let id = self.table.strip(id);
        if let Some(&align) = self.known.get(&id) {
            return align;
        }
        if depth > DEPTH_MAX {
            return 1;
        }
        self.known.insert(id, 1);
        let align = match self.table.get(id) {
            Type::Array { elem, .. } => self.of(*elem, depth + 1),
            Type::Aggregate(a) => self.aggregate(id, a, depth),
            _ => scalar(natural(self.table, id)),
        };
        self.known.insert(id, align);
        align
    }

    fn aggregate(&mut self, id: TypeId, a: &Aggregate, depth: usize) -> u64 {
        let line = LineSize::L64.bytes();
        let guess = self.btf && a.kind != AggregateKind::Union;
        let mut declared = a.align.map_or(1, |x| x.bytes).max(1);
        let mut align = declared;
        let mut packed = false;
        let mut end = 0;
        for m in a.members.iter().filter(|m| takes_room(m.role)) {
            let p = Place::of(self.table, m);
            let own = self.member(m, p.offset, depth);
            declared = declared.max(m.align.unwrap_or(1));
            // in BTF the member's own alignment may be a wrong guess: it then says nothing about the whole
            match p.offset.is_multiple_of(own) && !self.crosses(m, own) {
                true => align = align.max(own),
                false => packed |= !self.btf,
            }
            if guess && p.size != 0 {
                align = align.max(inferred(p.offset, end, natural(self.table, m.ty), line).unwrap_or(1));
                end = p.offset.saturating_add(p.size);
            }
        }
        if guess {
            align = align.max(inferred(a.size, end, natural(self.table, id), line).unwrap_or(1));
        }
        // An alignment that does not divide the size cannot be true.
        match (packed, a.size.is_multiple_of(align)) {
            (false, true) => align,
            (false, false) if self.btf => 1 << a.size.trailing_zeros().min(12),
            _ if a.size.is_multiple_of(declared) => declared,
            _ => 1,
        }
    }

    /// What a member needs. On 32-bit x86 scalars of 8 bytes need 4 in structs, on other 32-bit machines 8.
    fn member(&mut self, m: &Member, offset: u64, depth: usize) -> u64 {
        let own = self.of(m.ty, depth + 1).max(m.align.unwrap_or(1));
        let halved = self.table.pointer_size == 4 && own == 8 && m.align.is_none();
        if halved && !offset.is_multiple_of(8) { 4 } else { own }
    }

    /// A bit-field reaches over a boundary of its type, which only packed ones do.
    fn crosses(&self, m: &Member, own: u64) -> bool {
        let (unit, Some(bits)) = (own.saturating_mul(8), m.bit_size) else { return false };
        let wide = self.table.pointer_size == 4 && own > 4;
        !wide && m.align.is_none() && unit > 0 && m.offset_bits % unit + u64::from(bits) > unit
    }
}

/// Alignment of a scalar of so many bytes: `long double` has 12 on 32-bit x86, and needs 4.
fn scalar(bytes: u64) -> u64 {
    1 << bytes.max(1).trailing_zeros()
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
