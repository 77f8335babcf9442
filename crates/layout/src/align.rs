//! Alignment that the source did not say, or that BTF lost.

use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Aggregate, MemberRole, Type, TypeId, TypeTable};

/// Natural alignment in bytes: that of the widest scalar inside. At least 1; `aligned` attributes do not count.
pub fn natural(table: &TypeTable, id: TypeId) -> u64 {
    natural_at(table, id, 0).max(1)
}

fn natural_at(table: &TypeTable, id: TypeId, depth: usize) -> u64 {
    if depth > DEPTH_MAX {
        return 1;
    }
    let id = table.strip(id);
    match table.get(id) {
        Type::Array { elem, .. } => natural_at(table, *elem, depth + 1),
        Type::Aggregate(a) => natural_of_members(table, a, depth),
        _ => table.size(id).unwrap_or(1),
    }
}

fn natural_of_members(table: &TypeTable, a: &Aggregate, depth: usize) -> u64 {
    a.members
        .iter()
        .filter(|m| takes_room(m.role))
        .map(|m| natural_at(table, m.ty, depth + 1))
        .max()
        .unwrap_or(1)
}

/// Members that lie at a fixed place in the object.
pub fn takes_room(role: MemberRole) -> bool {
    !matches!(role, MemberRole::Static | MemberRole::VirtualBase)
}

/// Guesses an `aligned` attribute from a gap, as the tools that read BTF do: when `at` (a member's offset or the
/// size of the whole) lies further from the end of what precedes it (`end`) than natural alignment explains, the
/// smallest power of two that explains the gap is assumed, or the line size if the place is on a line boundary.
/// `None` when nothing needs explaining.
pub fn inferred(at: u64, end: u64, natural: u64, line: u64) -> Option<u64> {
    let gap = at.checked_sub(end)?;
    if gap == 0 || at % 2 != 0 {
        return None;
    }
    let guess = (gap + 1).checked_next_power_of_two()?;
    if guess <= natural || guess == 1 {
        return None;
    }
    if guess < line && at % line == 0 { Some(line) } else { Some(guess) }
}
