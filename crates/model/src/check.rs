//! Bounds on what a file may say about types, so that the code behind the readers can add, multiply and recurse.
//!
//! Sizes stay far below what overflows: an offset in bits times the number of leaves that flattening can give still
//! fits 64 bits. The bounds lie above everything that a compiler for today's machines can emit.

use crate::doubt::misfit;
use crate::leaf::DEPTH_MAX;
use crate::types::{Aggregate, Member, MemberRole, Type, TypeId, TypeTable};

/// Largest object, bytes: half of a 48-bit address space, what a process of x86-64 can have.
pub const SIZE_MAX: u64 = 1 << 47;

/// Largest alignment, bytes: what LLVM accepts; ELF and gcc stop at 2^28.
pub const ALIGN_MAX: u64 = 1 << 32;

/// Widest bit-field. C++ lets one be wider than its type, C23 has `_BitInt` of any width; compilers stop at 2^23.
pub const BITS_MAX: u32 = 1 << 23;

/// Longest chain of types that contain each other by value, typedefs and qualifiers included.
pub const NESTING_MAX: u32 = DEPTH_MAX as u32;

/// One thing that a table said and that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Of which type.
    pub ty: TypeId,
    /// What is wrong with it.
    pub what: &'static str,
}

impl TypeTable {
    /// The same table with everything in bounds, and what was not. What cannot be becomes unknown: a type of an
    /// impossible size becomes [`Type::Void`], an impossible attribute of a member is left out, an array of impossible
    /// length has no length, a type that contains itself ends in `void`. All of them are [`TypeTable::doubt`]ed.
    ///
    /// After this, every id is in the table and type 0 is `void`, sizes and offsets are at most [`SIZE_MAX`],
    /// alignments powers of two up to [`ALIGN_MAX`], bit-fields at most [`BITS_MAX`] wide, and by value types nest at
    /// most [`NESTING_MAX`] deep, never in a circle, and no name breaks a line.
    pub fn checked(mut self) -> (TypeTable, Vec<Damage>) {
        let mut damage = Vec::new();
        if !matches!(self.pointer_size, 2 | 4 | 8) {
            self.pointer_size = 8;
            damage.push(Damage { ty: TypeId::VOID, what: "pointers of an impossible size" });
        }
        if self.iter().next().is_none() {
            self.push(Type::Void);
        }
        if *self.get(TypeId::VOID) != Type::Void {
            self.set(TypeId::VOID, Type::Void);
            damage.push(Damage { ty: TypeId::VOID, what: "type 0 is not void" });
        }
        let count = self.len();
        for id in ids(count) {
            let ty = self.get_mut(id);
            crate::one_line::names(ty);
            let refers = refers_inside(ty, count).err();
            let bounds = in_bounds(ty).err();
            damage.extend([refers, bounds].into_iter().flatten().map(|what| Damage { ty: id, what }));
        }
        self.doubts.retain(|id, _| (id.0 as usize) < count);
        self.exact.retain(|id, e| {
            let sound = e.size.is_none_or(|n| n <= SIZE_MAX)
                && [e.align, e.align_most].into_iter().flatten().all(is_alignment);
            (id.0 as usize) < count && sound
        });
        cut_nesting(&mut self, &mut damage);
        for id in ids(count) {
            if matches!(self.get(id), Type::Array { .. }) && self.size(id).is_none_or(|s| s > SIZE_MAX) {
                cut_array(&mut self, id, &mut damage);
            }
        }
        for d in &damage {
            self.doubt(d.ty, d.what);
        }
        self.doubt_misfits();
        (self, damage)
    }

    /// Marks what no compiler lays out so. Nothing is repaired, and so nothing told, but by who judges the type.
    fn doubt_misfits(&mut self) {
        let found = |id| match self.get(id) {
            Type::Aggregate(a) if self.own_doubt(id).is_none() => Some((id, misfit(self, a)?)),
            _ => None,
        };
        let bad: Vec<(TypeId, &'static str)> = ids(self.len()).filter_map(found).collect();
        for (id, what) in bad {
            self.doubt(id, what);
        }
    }
}

fn ids(count: usize) -> impl Iterator<Item = TypeId> {
    (0..count as u32).map(TypeId)
}

/// Makes references to nothing `void`.
fn refers_inside(ty: &mut Type, count: usize) -> Result<(), &'static str> {
    let bad = std::cell::Cell::new(false);
    ty.map_ids(|to| {
        let inside = (to.0 as usize) < count;
        bad.set(bad.get() || !inside);
        if inside { to } else { TypeId::VOID }
    });
    if bad.get() { Err("refers to no type") } else { Ok(()) }
}

fn in_bounds(ty: &mut Type) -> Result<(), &'static str> {
    let size = match ty {
        Type::Base(b) => b.size,
        Type::Pointer { size, .. } | Type::Other { size, .. } => *size,
        Type::Enum(e) => e.size,
        Type::Aggregate(a) => a.size,
        _ => 0,
    };
    if size > SIZE_MAX {
        *ty = Type::Void;
        return Err("larger than any object");
    }
    match ty {
        Type::Aggregate(a) => aggregate(a),
        _ => Ok(()),
    }
}

fn aggregate(a: &mut Aggregate) -> Result<(), &'static str> {
    let mut found = Ok(());
    if a.align.is_some_and(|x| !is_alignment(x.bytes)) {
        a.align = None;
        found = Err("an impossible alignment");
    }
    let before = a.members.len();
    // A virtual base may have no place of its own.
    let unplaced = |m: &Member| m.role == MemberRole::VirtualBase && m.offset_bits == Member::UNPLACED;
    a.members.retain(|m| m.offset_bits <= 8 * SIZE_MAX || unplaced(m));
    a.indirect_bases.retain(|b| b.1 <= SIZE_MAX);
    if a.members.len() < before {
        found = Err("a member farther away than any object is large");
    }
    for m in &mut a.members {
        found = member(m).and(found);
    }
    found
}

fn member(m: &mut Member) -> Result<(), &'static str> {
    let mut found = Ok(());
    if m.align.is_some_and(|x| !is_alignment(x)) {
        m.align = None;
        found = Err("a member of an impossible alignment");
    }
    if m.bit_size.is_some_and(|b| b > BITS_MAX) {
        m.bit_size = None;
        found = Err("a bit-field of an impossible width");
    }
    found
}

fn is_alignment(bytes: u64) -> bool {
    bytes.is_power_of_two() && bytes <= ALIGN_MAX
}

/// Lets an array of impossible size have no length; if its element alone is too large, or has no size, nothing helps.
fn cut_array(table: &mut TypeTable, id: TypeId, damage: &mut Vec<Damage>) {
    let Type::Array { elem, counts } = table.get(id) else { return };
    // Flexible arrays and those of incomplete types have no size, and need none, unless a count alone is too large.
    let of = table.size(*elem).unwrap_or(1).max(1);
    let total = counts.iter().try_fold(of, |n, c| n.checked_mul(c.unwrap_or(1)).filter(|n| *n <= SIZE_MAX));
    if total.is_some() {
        return;
    }
    let elem = *elem;
    table.set(id, Type::Array { elem, counts: vec![None] });
    damage.push(Damage { ty: id, what: "an array larger than any object" });
}

/// State of a type in the walk over what contains what by value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    No,
    /// On the way down: meeting it again closes a cycle.
    Open,
    /// Height of what it contains.
    Done(u32),
}

/// Cuts what contains itself, and what nests too deeply. Works off a list of its own: a file can nest a million deep.
fn cut_nesting(table: &mut TypeTable, damage: &mut Vec<Damage>) {
    let mut seen = vec![Seen::No; table.len()];
    for root in ids(table.len()) {
        let mut path = vec![(root, 0usize)];
        while let Some((id, next)) = path.pop() {
            if next == 0 && seen[id.0 as usize] != Seen::No {
                continue;
            }
            seen[id.0 as usize] = Seen::Open;
            match contained(table.get(id), next) {
                Some(to) => {
                    path.push((id, next + 1));
                    match seen[to.0 as usize] {
                        Seen::No => path.push((to, 0)),
                        Seen::Open => {
                            cut(table, id, next);
                            damage.push(Damage { ty: id, what: "contains itself" });
                        }
                        Seen::Done(_) => {}
                    }
                }
                None => seen[id.0 as usize] = Seen::Done(height(table, id, &seen, damage)),
            }
        }
    }
}

/// Levels below a type whose parts are done; one that has too many loses its parts.
fn height(table: &mut TypeTable, id: TypeId, seen: &[Seen], damage: &mut Vec<Damage>) -> u32 {
    let mut height = 0;
    let mut part = 0;
    while let Some(to) = contained(table.get(id), part) {
        if let Seen::Done(h) = seen[to.0 as usize] {
            height = height.max(h + 1);
        }
        part += 1;
    }
    if height > NESTING_MAX {
        // a struct keeps its name and its size
        match table.get_mut(id) {
            Type::Aggregate(a) => a.members.clear(),
            other => *other = Type::Void,
        }
        damage.push(Damage { ty: id, what: "nested too deeply" });
        return 0;
    }
    height
}

/// The `n`th type that a type contains by value.
fn contained(ty: &Type, n: usize) -> Option<TypeId> {
    match ty {
        // A static member is elsewhere: C++ classes have such members of their own type.
        Type::Aggregate(a) => {
            a.members.get(n).map(|m| if m.role == MemberRole::Static { TypeId::VOID } else { m.ty })
        }
        Type::Array { elem: to, .. }
        | Type::Typedef { to, .. }
        | Type::Const(to)
        | Type::Volatile(to)
        | Type::Restrict(to)
        | Type::Atomic(to) => (n == 0).then_some(*to),
        _ => None,
    }
}

/// Makes the `n`th contained type `void`.
fn cut(table: &mut TypeTable, id: TypeId, n: usize) {
    match table.get_mut(id) {
        Type::Aggregate(a) => a.members[n].ty = TypeId::VOID,
        other => other.map_ids(|_| TypeId::VOID),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
