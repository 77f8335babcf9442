//! Where virtual bases lie in a complete object.
//!
//! Debug information gives their offset as a walk through the vtable of a running program. Under the Itanium C++ ABI
//! (2.4.III) they follow the rest of the object in the order of a depth-first walk over the bases, each at its
//! alignment, and the object ends with the last of them: often that leaves one place only. Where it leaves several, the
//! place is unknown, unless the reader of the file knew it from the vtables.

use crate::types::{Aggregate, Language, Member, MemberRole, Type, TypeId, TypeTable};
use std::collections::{HashMap, HashSet};

/// Virtual bases beyond this many are not placed.
const BASES_MAX: usize = 256;

/// Nesting of bases beyond this is cut.
const DEPTH_MAX: usize = crate::leaf::DEPTH_MAX;

/// A virtual base of a complete object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualBase {
    /// Its type.
    pub ty: TypeId,
    /// Byte offset from the start of the object, if only one is possible.
    pub offset: Option<u64>,
}

/// What is known of one base: bytes that it takes at least and at most, and its alignment.
struct Part {
    ty: TypeId,
    least: u64,
    most: u64,
    align: u64,
}

/// All virtual bases, direct and indirect, of an object of type `a`, in the order in which they lie.
pub fn virtual_bases(table: &TypeTable, a: &Aggregate) -> Vec<VirtualBase> {
    let mut types = Vec::new();
    collect(table, a, 0, &mut HashSet::new(), &mut types);
    if types.is_empty() {
        return Vec::new();
    }
    let mut shapes = OwnParts { table, known: HashMap::new() };
    let mut found = match parts(&mut shapes, a, &types) {
        Some(parts) => place(a, &shapes.of(a, 0), &parts),
        None => types.iter().map(|&ty| VirtualBase { ty, offset: None }).collect(),
    };
    for base in &mut found {
        let known =
            a.members.iter().find(|m| m.role == MemberRole::VirtualBase && table.strip(m.ty) == base.ty);
        let known = known.filter(|m| m.offset_bits != Member::UNPLACED);
        let through = || a.indirect_bases.iter().find(|b| b.0 == base.ty).map(|b| b.1);
        base.offset = known.map(Member::offset).or_else(through).or(base.offset);
    }
    found
}

/// In inheritance graph order: a base, then what it inherits. Types in `seen` were gone through.
fn collect(
    table: &TypeTable,
    a: &Aggregate,
    depth: usize,
    seen: &mut HashSet<TypeId>,
    out: &mut Vec<TypeId>,
) {
    if depth > DEPTH_MAX {
        return;
    }
    for m in a.members.iter().filter(|m| matches!(m.role, MemberRole::Base | MemberRole::VirtualBase)) {
        let ty = table.strip(m.ty);
        if m.role == MemberRole::VirtualBase {
            if out.contains(&ty) || out.len() >= BASES_MAX {
                continue;
            }
            out.push(ty);
        }
        if let Some(base) = table.aggregate(ty).filter(|_| seen.insert(ty)) {
            collect(table, base, depth + 1, seen, out);
        }
    }
}

/// The virtual bases as parts of the object; `None` where too little is known of one of them, or of the rest.
fn parts(shapes: &mut OwnParts<'_>, a: &Aggregate, types: &[TypeId]) -> Option<Vec<Part>> {
    shapes.of(a, 0).complete.then_some(())?;
    let part = |&ty: &TypeId| {
        let shape = shapes.of_type(ty, 0);
        let size = shapes.table.aggregate(ty)?.size;
        // A base without data of its own may share the vtable pointer of the whole, or lie anywhere if it is empty.
        let least = if shape.has_data { shape.own_end } else { 0 };
        // A base with virtual bases of its own leaves them to the whole.
        let most = if shape.has_virtual { shape.own_most.max(1) } else { size };
        let known = shape.complete && !shape.told_for_all;
        known.then_some(Part { ty, least, most: most.max(least), align: shape.align })
    };
    types.iter().map(part).collect()
}

/// A class without its virtual bases.
#[derive(Clone, Copy)]
struct OwnPart {
    /// First byte behind what it holds, at least: the padding at the end of a class is used again where it is a base,
    /// or a member that is `[[no_unique_address]]`, which debug information does not tell.
    own_end: u64,
    /// The same at most.
    own_most: u64,
    align: u64,
    has_data: bool,
    has_virtual: bool,
    /// Nothing of it is only declared.
    complete: bool,
    /// The alignment was told, and of the whole object: what it needs without the virtual bases is less, perhaps.
    told_for_all: bool,
}

/// Looks at every class once: hostile files inherit one 2^32 times.
struct OwnParts<'a> {
    table: &'a TypeTable,
    known: HashMap<TypeId, OwnPart>,
}

impl OwnParts<'_> {
    /// Nothing is known of it, but perhaps its size.
    fn unknown(size: u64) -> OwnPart {
        OwnPart {
            own_end: size,
            own_most: size,
            align: 1,
            has_data: true,
            has_virtual: false,
            complete: false,
            told_for_all: false,
        }
    }

    fn of_type(&mut self, ty: TypeId, depth: usize) -> OwnPart {
        let ty = self.table.strip(ty);
        if let Some(&known) = self.known.get(&ty) {
            return known;
        }
        let table = self.table;
        let Some(a) = table.aggregate(ty).filter(|a| !a.declaration && depth <= DEPTH_MAX) else {
            return OwnParts::unknown(table.size(ty).unwrap_or(0));
        };
        // what contains itself
        self.known.insert(ty, OwnParts::unknown(a.size));
        let mut shape = self.of(a, depth);
        shape.told_for_all |= shape.has_virtual && table.exact_align(ty).is_some();
        self.known.insert(ty, shape);
        shape
    }

    fn of(&mut self, a: &Aggregate, depth: usize) -> OwnPart {
        let declared = a.align.map_or(1, |x| x.bytes).max(1);
        let mut all = OwnPart { align: declared, has_data: false, complete: true, ..OwnParts::unknown(0) };
        for m in &a.members {
            match m.role {
                MemberRole::Static => continue,
                MemberRole::VirtualBase => all.has_virtual = true,
                MemberRole::Base => {
                    let base = self.of_type(m.ty, depth + 1);
                    all.has_data |= base.has_data;
                    all.has_virtual |= base.has_virtual;
                    all.told_for_all |= base.told_for_all;
                    all.complete &= base.complete;
                }
                MemberRole::Vptr => {}
                _ => all.has_data = true,
            }
            if m.role != MemberRole::VirtualBase {
                let (least, most) = self.end(m, depth, &mut all.complete);
                all.own_end = all.own_end.max(least);
                all.own_most = all.own_most.max(most);
                all.align = all.align.max(m.align.unwrap_or(1)).max(self.align(m.ty, depth + 1));
            }
        }
        all.told_for_all |= all.has_virtual && a.align.is_some();
        all
    }

    /// First byte behind a member, at least and at most.
    fn end(&mut self, m: &Member, depth: usize, complete: &mut bool) -> (u64, u64) {
        if let Some(bits) = m.bit_size {
            let end = m.offset_bits.saturating_add(u64::from(bits)).div_ceil(8);
            return (end, end);
        }
        let size = self.table.size(m.ty).unwrap_or(0);
        let class = self.table.aggregate(m.ty);
        let (least, most) = match class {
            Some(class) if m.role == MemberRole::Base || class.language == Language::Cpp => {
                let shape = self.of_type(m.ty, depth + 1);
                *complete &= shape.complete;
                let whole = m.role != MemberRole::Base || !shape.has_virtual;
                (shape.own_end, if whole { size } else { shape.own_most })
            }
            _ => (size, size),
        };
        (m.offset().saturating_add(least), m.offset().saturating_add(most))
    }

    fn align(&mut self, id: TypeId, depth: usize) -> u64 {
        if let Some(told) = self.table.exact_align(id) {
            return told;
        }
        match self.table.get(self.table.strip(id)) {
            _ if depth > DEPTH_MAX => 1,
            Type::Aggregate(_) => self.of_type(id, depth).align,
            Type::Array { elem, .. } => self.align(*elem, depth + 1),
            // no scalar of a common ABI needs more than 16
            _ => self.table.size(id).filter(|n| n.is_power_of_two()).map_or(1, |n| n.min(16)),
        }
    }
}

/// The earliest and the latest place of each part; one that has a single place is there.
fn place(a: &Aggregate, own: &OwnPart, parts: &[Part]) -> Vec<VirtualBase> {
    let up = |n: u64, align: u64| n.checked_next_multiple_of(align).unwrap_or(u64::MAX);
    let mut earliest = Vec::with_capacity(parts.len());
    let mut end = own.own_end;
    for p in parts {
        let at = up(end, p.align);
        earliest.push(at);
        if p.least > 0 {
            end = at.saturating_add(p.least);
        }
    }
    // The object ends with its last part, but for what its alignment adds.
    let whole = parts.iter().map(|p| p.align).fold(own.align, u64::max);
    if let (Some(at), Some(p)) = (earliest.last_mut(), parts.last().filter(|p| p.least > 0)) {
        let least = a.size.saturating_add(1).saturating_sub(whole).saturating_sub(p.most);
        *at = up(least, p.align).max(*at);
    }
    let mut limit = Some(a.size);
    let mut latest = vec![None; parts.len()];
    for (slot, p) in latest.iter_mut().zip(parts).rev().filter(|(_, p)| p.least > 0) {
        limit = limit.and_then(|end| Some(end.checked_sub(p.least)? / p.align * p.align));
        *slot = limit;
    }
    let single = |((p, at), last): ((&Part, u64), Option<u64>)| VirtualBase {
        ty: p.ty,
        offset: (p.least > 0 && last == Some(at)).then_some(at),
    };
    parts.iter().zip(earliest).zip(latest).map(single).collect()
}
