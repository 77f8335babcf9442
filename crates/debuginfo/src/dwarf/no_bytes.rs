//! Members of Rust structs that rustc describes with bytes which they do not have.
//!
//! The unsized tail of a struct (`[u64]`, `str`) is described as one element behind the struct's end. A function item,
//! which has no bytes, is described as a pointer to a function (rustc's `build_subroutine_type_di_node` serves both).

use tussle_model::{Aggregate, AggregateKind, Member, MemberRole, Type, TypeId, TypeTable};

/// Takes their bytes from such members: tails become arrays without a length, function items arrays of none.
pub(super) fn mend(table: &mut TypeTable, a: &mut Aggregate) {
    if a.kind == AggregateKind::Union {
        return;
    }
    let end = a.size.saturating_mul(8);
    for i in 0..a.members.len() {
        let m = &a.members[i];
        let Some(bits) = bits(table, m).filter(|_| m.role == MemberRole::Field) else { continue };
        let count = if is_function(table, m.ty) && !has_room(table, a, i, m.offset_bits.saturating_add(bits))
        {
            Some(0)
        } else if i + 1 == a.members.len() && m.offset_bits == end {
            None
        } else {
            continue;
        };
        a.members[i].ty = table.push(Type::Array { elem: a.members[i].ty, counts: vec![count] });
    }
}

/// Bits of a member; `None` of those that have none, and of bit-fields, which Rust does not have.
fn bits(table: &TypeTable, m: &Member) -> Option<u64> {
    table.size(m.ty)?.checked_mul(8).filter(|&n| n > 0 && m.bit_size.is_none())
}

/// `fn(u8) -> bool`, `unsafe extern "C" fn()`: the name of a function's type, which rustc gives to the pointer.
fn is_function(table: &TypeTable, id: TypeId) -> bool {
    let named = |n: &str| n.starts_with("fn(") || n.contains(" fn(") && !n.contains('<');
    matches!(table.get(id), Type::Typedef { name, .. } if named(name))
}

/// The member ends inside of the struct, and no other lies on its bytes.
fn has_room(table: &TypeTable, a: &Aggregate, i: usize, end: u64) -> bool {
    let start = a.members[i].offset_bits;
    let beside = |other: &Member| {
        let bits = bits(table, other).unwrap_or(0);
        bits == 0 || other.offset_bits >= end || other.offset_bits.saturating_add(bits) <= start
    };
    end <= a.size.saturating_mul(8) && a.members.iter().enumerate().all(|(k, other)| k == i || beside(other))
}
