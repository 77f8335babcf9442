//! Which types lie inside which, and where.

use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{AggregateKind, AlignmentSource, MemberRole, Type, TypeId, TypeTable};

/// The same type, whatever qualifiers and typedefs stand around it and whichever unit it came from.
pub(crate) fn same(table: &TypeTable, a: TypeId, b: TypeId) -> bool {
    let (a, b) = (table.strip(a), table.strip(b));
    if a == b {
        return true;
    }
    match (table.get(a), table.get(b)) {
        (Type::Aggregate(x), Type::Aggregate(y)) => {
            let kind = |k: AggregateKind| k == AggregateKind::Union;
            x.name.is_some()
                && x.name == y.name
                && kind(x.kind) == kind(y.kind)
                && (x.size == y.size || x.declaration || y.declaration)
        }
        (Type::Base(x), Type::Base(y)) => x.size == y.size && x.encoding == y.encoding,
        (Type::Pointer { .. }, Type::Pointer { .. }) => true,
        (Type::Enum(x), Type::Enum(y)) => x.name == y.name && x.size == y.size,
        _ => false,
    }
}

/// An `inner` starts `offset` bytes into an `outer` (the whole included).
pub(crate) fn holds(table: &TypeTable, outer: TypeId, offset: u64, inner: TypeId) -> bool {
    holds_at(table, outer, offset, &|ty| same(table, ty, inner), 0)
}

/// The same of a type of another table, by its name and size: `pthread_mutex_t` as the C library has it.
pub(crate) fn holds_named(
    table: &TypeTable,
    outer: TypeId,
    offset: u64,
    (inners, inner): (&TypeTable, TypeId),
) -> bool {
    let (name, size) = (inners.name(inner), inners.size(inner));
    let is = |ty| size.is_some() && table.size(ty) == size && table.name(ty) == name;
    holds_at(table, outer, offset, &is, 0)
}

fn holds_at(
    table: &TypeTable,
    outer: TypeId,
    offset: u64,
    is: &dyn Fn(TypeId) -> bool,
    depth: usize,
) -> bool {
    if offset == 0 && is(outer) {
        return true;
    }
    if depth > DEPTH_MAX {
        return false;
    }
    let id = table.strip(outer);
    match table.get(id) {
        Type::Array { elem, counts } => {
            let Some(stride) = table.size(*elem).filter(|s| *s > 0) else { return false };
            let flexible = counts.iter().any(|c| c.is_none_or(|n| n == 0));
            let inside = flexible || offset < table.size(id).unwrap_or(0);
            inside && holds_at(table, *elem, offset % stride, is, depth + 1)
        }
        Type::Aggregate(a) => a.members.iter().any(|m| {
            if m.role == MemberRole::Static || m.bit_size.is_some() || offset < m.offset() {
                return false;
            }
            let size = table.size(m.ty);
            let open =
                size.is_none_or(|s| s == 0) && matches!(table.get(table.strip(m.ty)), Type::Array { .. });
            let at = offset - m.offset();
            (open || at < size.unwrap_or(0) || (at == 0 && size == Some(0)))
                && holds_at(table, m.ty, at, is, depth + 1)
        }),
        _ => false,
    }
}

/// Places at regular distances where one type begins inside of another: `first + k·stride`, `k < count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    first: u64,
    stride: u64,
    count: u64,
}

impl Places {
    /// One of them lies in `low..=high`.
    pub fn meets(&self, low: u64, high: u64) -> bool {
        if high < self.first {
            return false;
        }
        let k = match self.stride {
            0 => 0,
            s => ((high - self.first) / s).min(self.count.saturating_sub(1)),
        };
        let last = self.first.saturating_add(k.saturating_mul(self.stride));
        (low..=high).contains(&last)
    }
}

/// More places than this are not told apart: a type with that many is no evidence.
const PLACES_MAX: usize = 512;

/// Where an `inner` begins in an `outer`, the whole included.
pub(crate) fn places(table: &TypeTable, outer: TypeId, inner: TypeId) -> Vec<Places> {
    let mut out = Vec::new();
    places_at(table, outer, 0, inner, 0, &mut out);
    out
}

fn places_at(table: &TypeTable, outer: TypeId, at: u64, inner: TypeId, depth: usize, out: &mut Vec<Places>) {
    if out.len() >= PLACES_MAX || depth > DEPTH_MAX {
        return;
    }
    if same(table, outer, inner) {
        out.push(Places { first: at, stride: 0, count: 1 });
    }
    let id = table.strip(outer);
    match table.get(id) {
        Type::Aggregate(a) => {
            for m in a.members.iter().filter(|m| m.role != MemberRole::Static && m.bit_size.is_none()) {
                places_at(table, m.ty, at.saturating_add(m.offset()), inner, depth + 1, out);
            }
        }
        Type::Array { elem, counts } => {
            let Some(stride) = table.size(*elem).filter(|s| *s > 0) else { return };
            let count = counts.iter().try_fold(1u64, |n, c| n.checked_mul((*c)?)).filter(|n| *n > 0);
            let mut element = Vec::new();
            places_at(table, *elem, at, inner, depth + 1, &mut element);
            for p in element {
                if p.stride == 0 {
                    // A flexible array has no end.
                    out.push(Places { first: p.first, stride, count: count.unwrap_or(u64::MAX) });
                    continue;
                }
                for k in 0..count.unwrap_or(1).min(PLACES_MAX as u64) {
                    out.push(Places { first: p.first.saturating_add(k.saturating_mul(stride)), ..p });
                }
            }
        }
        _ => {}
    }
    out.truncate(PLACES_MAX);
}

/// A member called `name` covers `offset`, at any depth of nesting.
pub(crate) fn member_covers(table: &TypeTable, ty: TypeId, offset: u64, name: &str) -> bool {
    covers_at(table, ty, offset, name, 0)
}

fn covers_at(table: &TypeTable, ty: TypeId, offset: u64, name: &str, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    let id = table.strip(ty);
    match table.get(id) {
        Type::Array { elem, .. } => match table.size(*elem) {
            Some(stride) if stride > 0 => covers_at(table, *elem, offset % stride, name, depth + 1),
            _ => false,
        },
        Type::Aggregate(a) => a.members.iter().any(|m| {
            let size = match m.bit_size {
                Some(bits) => u64::from(bits.div_ceil(8)).max(1),
                None => table.size(m.ty).unwrap_or(u64::MAX),
            };
            let inside = m.role != MemberRole::Static && offset >= m.offset() && offset - m.offset() < size;
            inside
                && (m.name.as_deref() == Some(name)
                    || covers_at(table, m.ty, offset - m.offset(), name, depth + 1))
        }),
        _ => false,
    }
}

/// The last member is an array without a bound (or of length 0 or 1, the old way to write it).
pub(crate) fn flexible(table: &TypeTable, ty: TypeId) -> bool {
    last_bound(table, ty).is_some_and(|c| c.is_none_or(|n| n <= 1))
}

/// The same without the old way of length 1, which an array of one is, too.
pub(crate) fn unbounded(table: &TypeTable, ty: TypeId) -> bool {
    last_bound(table, ty).is_some_and(|c| c.is_none_or(|n| n == 0))
}

/// Of the array that is the last member.
fn last_bound(table: &TypeTable, ty: TypeId) -> Option<Option<u64>> {
    let fields = table.aggregate(ty)?.members.iter().filter(|m| m.role != MemberRole::Static);
    match table.get(table.strip(fields.max_by_key(|m| m.offset_bits)?.ty)) {
        Type::Array { counts, .. } => counts.first().copied(),
        _ => None,
    }
}

/// What the source asks a type to be aligned to (`alignas`), for itself or for what lies in it, bytes; 1 if it does
/// not.
pub(crate) fn declared_align(table: &TypeTable, ty: TypeId) -> u64 {
    declared_at(table, ty, 0)
}

fn declared_at(table: &TypeTable, ty: TypeId, depth: usize) -> u64 {
    if depth > DEPTH_MAX {
        return 1;
    }
    let inside = match table.get(table.strip(ty)) {
        Type::Aggregate(a) => {
            let own = a.align.filter(|x| x.source == AlignmentSource::Declared).map_or(1, |x| x.bytes);
            let members = a.members.iter().filter(|m| m.role != MemberRole::Static);
            members.fold(own, |n, m| n.max(m.align.unwrap_or(1)).max(declared_at(table, m.ty, depth + 1)))
        }
        Type::Array { elem, .. } => declared_at(table, *elem, depth + 1),
        _ => 1,
    };
    inside.max(table.exact_align(ty).unwrap_or(1))
}

/// Bytes without a structure of their own: `void`, characters, `uint8_t`, `std::byte`.
pub(crate) fn raw_bytes(table: &TypeTable, ty: TypeId) -> bool {
    match table.get(table.strip(ty)) {
        Type::Void | Type::Function { .. } => true,
        Type::Base(b) => b.size <= 1,
        Type::Enum(e) => e.size <= 1,
        Type::Array { elem, .. } => raw_bytes(table, *elem),
        _ => false,
    }
}

/// A struct, class or union with members, directly or as the element of an array.
pub(crate) fn structured(table: &TypeTable, ty: TypeId) -> bool {
    match table.get(table.strip(ty)) {
        Type::Aggregate(a) => !a.declaration && a.size > 0,
        Type::Array { elem, .. } => table.aggregate(*elem).is_some_and(|a| !a.declaration && a.size > 0),
        _ => false,
    }
}

/// The struct's own name instead of a typedef of it; where the struct has none, the first typedef of it, whatever
/// qualifiers and further typedefs stand around that.
pub(crate) fn plain(table: &TypeTable, ty: TypeId) -> TypeId {
    let bare = table.strip(ty);
    match table.get(bare) {
        Type::Aggregate(a) if a.name.is_some() => bare,
        Type::Aggregate(_) => table.first_typedef(ty).unwrap_or(bare),
        _ => ty,
    }
}
