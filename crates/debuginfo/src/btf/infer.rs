//! Alignments that BTF does not record but the layout betrays.
//!
//! A struct whose size is rounded up further than its members need, or a member that lies further from the one
//! before than its type needs, has an `aligned` attribute. The smallest power of two that explains all of it is
//! taken; an attribute that changes nothing stays unknown.

use tussle_model::{Aggregate, AggregateKind, Alignment, AlignmentSource, Type, TypeId, TypeTable};

/// Types nested deeper than this get no alignment.
const DEPTH_MAX: usize = 32;

/// Alignments beyond a page are not inferred: a gap of that size has other reasons.
const ALIGN_MAX: u64 = 4096;

/// Fills in [`Aggregate::align`] where it exceeds what the members need.
pub fn infer_alignments(table: &mut TypeTable) {
    let mut known = vec![None; table.len()];
    let mut found = Vec::new();
    for id in (0..table.len() as u32).map(TypeId) {
        let Type::Aggregate(a) = table.get(id) else { continue };
        if a.declaration || a.align.is_some() {
            continue;
        }
        let natural = members_align(table, a, &mut known, 0);
        let align = align_of(table, id, &mut known, 0);
        if let (Some(natural), Some(align)) = (natural, align)
            && align > natural
        {
            found.push((id, align));
        }
    }
    for (id, bytes) in found {
        if let Type::Aggregate(a) = table.get(id) {
            let align = Some(Alignment { bytes, source: AlignmentSource::Inferred });
            let changed = Aggregate { align, ..a.clone() };
            table.set(id, Type::Aggregate(changed));
        }
    }
}

/// The largest alignment among the members' types.
fn members_align(
    table: &TypeTable,
    a: &Aggregate,
    known: &mut Vec<Option<Option<u64>>>,
    depth: usize,
) -> Option<u64> {
    a.members.iter().try_fold(1, |max: u64, m| Some(max.max(align_of(table, m.ty, known, depth + 1)?)))
}

/// Alignment in bytes, `None` where it cannot be known.
fn align_of(
    table: &TypeTable,
    id: TypeId,
    known: &mut Vec<Option<Option<u64>>>,
    depth: usize,
) -> Option<u64> {
    let id = table.strip(id);
    if depth > DEPTH_MAX {
        return None;
    }
    if let Some(align) = *known.get(id.0 as usize)? {
        return align;
    }
    // a type that contains itself finds "unknown" here
    known[id.0 as usize] = Some(None);
    let align = match table.get(id) {
        Type::Base(b) => scalar_align(b.size),
        Type::Enum(e) => scalar_align(e.size),
        Type::Pointer { size, .. } => scalar_align(*size),
        Type::Array { elem, .. } => align_of(table, *elem, known, depth + 1),
        Type::Aggregate(a) if !a.declaration => aggregate_align(table, a, known, depth),
        _ => None,
    };
    known[id.0 as usize] = Some(align);
    align
}

fn scalar_align(size: u64) -> Option<u64> {
    (size.is_power_of_two() && size <= 16).then_some(size)
}

fn aggregate_align(
    table: &TypeTable,
    a: &Aggregate,
    known: &mut Vec<Option<Option<u64>>>,
    depth: usize,
) -> Option<u64> {
    let natural = members_align(table, a, known, depth)?;
    if is_packed(table, a, known, depth) {
        return Some(1);
    }
    let mut align = natural;
    let mut end = 0;
    for m in &a.members {
        let size = table.size(m.ty).unwrap_or(0);
        let need = align_of(table, m.ty, known, depth + 1)?;
        let bits = m.bit_size.is_some();
        if a.kind != AggregateKind::Union && !bits && m.offset() > end {
            align = align.max(reach(end, m.offset(), need)?);
        }
        end = match m.bit_size {
            Some(b) => end.max(m.offset_bits.saturating_add(b.into()).div_ceil(8)),
            None => end.max(m.offset().saturating_add(size)),
        };
    }
    Some(align.max(reach(end, a.size, align)?))
}

/// The smallest alignment from `least` that rounds `end` up to `at`. `None` when no power of two does.
fn reach(end: u64, at: u64, least: u64) -> Option<u64> {
    let mut align = least.max(1);
    while align <= ALIGN_MAX {
        if end.checked_next_multiple_of(align)? >= at {
            return (end.next_multiple_of(align) == at).then_some(align);
        }
        align *= 2;
    }
    None
}

/// A member off its natural alignment, or a size that is no multiple of it.
fn is_packed(table: &TypeTable, a: &Aggregate, known: &mut Vec<Option<Option<u64>>>, depth: usize) -> bool {
    a.members.iter().any(|m| {
        let need = align_of(table, m.ty, known, depth + 1).unwrap_or(1);
        m.bit_size.is_none() && !(m.offset().is_multiple_of(need) && a.size.is_multiple_of(need))
    })
}
