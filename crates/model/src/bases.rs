//! Where virtual bases lie in a complete object.
//!
//! Debug information gives their offset as a walk through the vtable of a running program. Under the Itanium C++ ABI
//! (2.4.III) they follow the rest of the object in the order of a depth-first walk over the bases, each at its
//! alignment, and the object ends with the last of them: often that leaves one place only. Where it leaves several, the
//! place is unknown, unless the reader of the file knew it from the vtable.

use crate::types::{Aggregate, Language, Member, MemberRole, TypeId, TypeTable};

/// Virtual bases beyond this many are not placed.
const BASES_MAX: usize = 256;

/// Nesting of bases beyond this is cut.
const DEPTH_MAX: usize = 32;

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
    collect(table, a, 0, &mut types);
    if types.is_empty() {
        return Vec::new();
    }
    let parts: Vec<Part> = types.iter().map(|&ty| part(table, ty)).collect();
    let mut found = place(table, a, &parts);
    for base in &mut found {
        let known =
            a.members.iter().find(|m| m.role == MemberRole::VirtualBase && table.strip(m.ty) == base.ty);
        let known = known.filter(|m| m.offset_bits != Member::UNPLACED);
        base.offset = known.map(Member::offset).or(base.offset);
    }
    found
}

/// In inheritance graph order: a base, then what it inherits.
fn collect(table: &TypeTable, a: &Aggregate, depth: usize, out: &mut Vec<TypeId>) {
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
        if let Some(base) = table.aggregate(ty) {
            collect(table, base, depth + 1, out);
        }
    }
}

fn part(table: &TypeTable, ty: TypeId) -> Part {
    let Some(a) = table.aggregate(ty) else { return Part { ty, least: 0, most: 0, align: 1 } };
    let own = own_end(table, a, 0);
    // A base without data of its own may share the vtable pointer of the whole, or lie anywhere if it is empty.
    let least = if has_data(table, a, 0) { own } else { 0 };
    // A base with virtual bases of its own leaves them to the whole.
    let alone = !has_virtual(table, a, 0);
    let most = if alone { a.size } else { own.max(1) };
    Part { ty, least, most: most.max(least), align: alignment(table, a, 0) }
}

/// First byte behind what the type holds without its virtual bases, at least: the padding at the end of a class is used
/// again where it is a base, or a member that is `[[no_unique_address]]`, which debug information does not tell.
fn own_end(table: &TypeTable, a: &Aggregate, depth: usize) -> u64 {
    if depth > DEPTH_MAX {
        return a.size;
    }
    let end = |m: &Member| match (m.role, m.bit_size) {
        (_, Some(bits)) => m.offset_bits.saturating_add(u64::from(bits)).div_ceil(8),
        (MemberRole::Base, None) => {
            let inner = table.aggregate(m.ty).map_or(0, |b| own_end(table, b, depth + 1));
            m.offset().saturating_add(inner)
        }
        _ => m.offset().saturating_add(match table.aggregate(m.ty) {
            Some(class) if class.language == Language::Cpp => own_end(table, class, depth + 1),
            _ => table.size(m.ty).unwrap_or(0),
        }),
    };
    a.members.iter().filter(|m| in_place(m)).map(end).max().unwrap_or(0)
}

fn has_data(table: &TypeTable, a: &Aggregate, depth: usize) -> bool {
    let data = |m: &Member| match m.role {
        MemberRole::Base => {
            depth > DEPTH_MAX || table.aggregate(m.ty).is_some_and(|b| has_data(table, b, depth + 1))
        }
        MemberRole::Static | MemberRole::VirtualBase | MemberRole::Vptr => false,
        _ => true,
    };
    a.members.iter().any(data)
}

fn has_virtual(table: &TypeTable, a: &Aggregate, depth: usize) -> bool {
    let inner = |m: &Member| match m.role {
        MemberRole::VirtualBase => true,
        MemberRole::Base => {
            depth <= DEPTH_MAX && table.aggregate(m.ty).is_some_and(|b| has_virtual(table, b, depth + 1))
        }
        _ => false,
    };
    a.members.iter().any(inner)
}

/// Of what the type holds without its virtual bases.
fn alignment(table: &TypeTable, a: &Aggregate, depth: usize) -> u64 {
    let declared = a.align.map_or(1, |x| x.bytes);
    let of = |m: &Member| m.align.unwrap_or(1).max(type_alignment(table, m.ty, depth + 1));
    a.members.iter().filter(|m| in_place(m)).map(of).fold(declared, u64::max).max(1)
}

fn type_alignment(table: &TypeTable, id: TypeId, depth: usize) -> u64 {
    use crate::types::Type;
    if let Some(known) = table.exact_align(id) {
        return known;
    }
    match table.get(table.strip(id)) {
        _ if depth > DEPTH_MAX => 1,
        Type::Aggregate(a) => alignment(table, a, depth),
        Type::Array { elem, .. } => type_alignment(table, *elem, depth + 1),
        // no scalar of a common ABI needs more than 16
        _ => table.size(id).filter(|n| n.is_power_of_two()).map_or(1, |n| n.min(16)),
    }
}

fn in_place(m: &Member) -> bool {
    !matches!(m.role, MemberRole::Static | MemberRole::VirtualBase)
}

/// The earliest and the latest place of each part; one that has a single place is there.
fn place(table: &TypeTable, a: &Aggregate, parts: &[Part]) -> Vec<VirtualBase> {
    let up = |n: u64, align: u64| n.checked_next_multiple_of(align).unwrap_or(u64::MAX);
    let mut earliest = Vec::with_capacity(parts.len());
    let mut end = own_end(table, a, 0);
    for p in parts {
        let at = up(end, p.align);
        earliest.push(at);
        if p.least > 0 {
            end = at.saturating_add(p.least);
        }
    }
    // The object ends with its last part, but for what its alignment adds.
    let whole = parts.iter().map(|p| p.align).fold(alignment(table, a, 0), u64::max);
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
