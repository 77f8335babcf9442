//! Alignment that the source did not say, or that BTF lost.

use foldhash::{HashSet, HashSetExt};
use tussle_model::{MemberRole, Type, TypeId, TypeTable};

/// Natural alignment in bytes: that of the widest scalar inside. At least 1; `aligned` attributes do not count.
/// Every type is looked at once, however often it occurs inside: hostile files nest one 2^64 times.
pub fn natural(table: &TypeTable, id: TypeId) -> u64 {
    let id = table.strip(id);
    if !matches!(table.get(id), Type::Array { .. } | Type::Aggregate(_)) {
        return table.size(id).unwrap_or(1).max(1);
    }
    let (mut widest, mut seen, mut todo) = (1, HashSet::new(), vec![id]);
    seen.insert(id);
    while let Some(at) = todo.pop() {
        let mut inside = |ty: TypeId| {
            let ty = table.strip(ty);
            if seen.insert(ty) {
                todo.push(ty);
            }
        };
        match table.get(at) {
            Type::Array { elem, .. } => inside(*elem),
            Type::Aggregate(a) => a.members.iter().filter(|m| takes_room(m.role)).for_each(|m| inside(m.ty)),
            _ => widest = widest.max(table.size(at).unwrap_or(1)),
        }
    }
    widest
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
    if gap == 0 || !at.is_multiple_of(2) {
        return None;
    }
    let guess = (gap + 1).checked_next_power_of_two()?;
    if guess <= natural || guess == 1 {
        return None;
    }
    if guess < line && at.is_multiple_of(line) { Some(line) } else { Some(guess) }
}
