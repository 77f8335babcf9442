//! Bit-fields as wide as their type in packed structs: clang describes them as plain members, at the byte in which
//! they begin (LLVM, `DwarfUnit::constructMemberDIE`: a member is a bit-field when its size is not that of its type).
//!
//! One that begins in the last byte of the bit-field before it gives itself away: it begins behind that one.

use tussle_model::{Aggregate, AggregateKind, Member, MemberRole, Type, TypeTable};

/// Makes such members bit-fields again. Says so where nothing behind them tells that no unnamed bits lie between.
pub(super) fn place(table: &TypeTable, a: &mut Aggregate) -> Option<String> {
    if a.kind == AggregateKind::Union {
        return None;
    }
    let mut unsure = None;
    let mut before: Option<u64> = None;
    let mut guessed: Option<usize> = None;
    for i in 0..a.members.len() {
        let m = &a.members[i];
        if m.role != MemberRole::Field {
            continue;
        }
        let begins = before.filter(|&end| shares_byte(end, m)).filter(|_| m.bit_size.is_none());
        match begins.zip(bits(table, m)) {
            Some((end, wide)) => {
                guessed.get_or_insert(i);
                (a.members[i].offset_bits, a.members[i].bit_size) = (end, Some(wide));
            }
            // with the next one right behind, all between fit in one way only
            None if before == Some(m.offset_bits) => guessed = None,
            None => unsure = unsure.or(guessed.take()),
        }
        let m = &a.members[i];
        before = m.bit_size.map(|bits| m.offset_bits.saturating_add(u64::from(bits)));
    }
    let name = |i: usize| a.members[i].name.clone().unwrap_or_default();
    unsure.or(guessed).map(|i| {
        format!("{}: {}: its first bit is not told, only its bytes are sure", a.display_name(), name(i))
    })
}

/// A member that begins at a byte of which bits before `end` are taken.
fn shares_byte(end: u64, m: &Member) -> bool {
    m.offset_bits < end && end < m.offset_bits.saturating_add(8)
}

/// Width of a member whose type can be a bit-field's.
fn bits(table: &TypeTable, m: &Member) -> Option<u32> {
    let scalar = matches!(table.get(table.strip(m.ty)), Type::Base(_) | Type::Enum(_));
    let bytes = table.size(m.ty).filter(|n| scalar && *n > 0)?;
    u32::try_from(bytes.checked_mul(8)?).ok()
}
