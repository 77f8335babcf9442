//! Types of which not everything is known. What is not known must not be taken for "nothing there".

use crate::bases::virtual_bases;
use crate::types::{Aggregate, Member, MemberRole, Type, TypeId, TypeTable, split_keyword};
use std::collections::HashSet;

impl TypeTable {
    /// Marks a type: not everything of it is known. The first reason stays.
    pub fn doubt(&mut self, id: TypeId, why: impl Into<String>) {
        if id != TypeId::VOID {
            self.doubts.entry(id).or_insert_with(|| why.into());
        }
    }

    /// Why the type itself was marked.
    pub fn own_doubt(&self, id: TypeId) -> Option<&str> {
        self.doubts.get(&id).map(String::as_str)
    }

    /// Why the layout of an object of this type is not known to the last byte: it, or a part that it holds by value,
    /// was marked.
    pub fn damaged(&self, id: TypeId) -> Option<String> {
        if self.doubts.is_empty() {
            return None;
        }
        self.first_part(id, |part, _| self.own_doubt(part).map(String::from))
    }

    /// Why a definition of that name (`foo`, `struct foo`) has no layout, if there is such a one.
    pub fn find_unsized(&self, name: &str) -> Option<String> {
        let (kind, bare) = split_keyword(name);
        let fits = |a: &Aggregate| {
            a.declaration && a.name.as_deref() == Some(bare) && kind.is_none_or(|k| a.kind == k)
        };
        self.doubts.iter().find_map(|(&id, why)| match self.get(id) {
            Type::Aggregate(a) if fits(a) => Some(format!("{}: {why}", a.display_name())),
            _ => None,
        })
    }

    /// Why not all of its bytes have names: it is [`TypeTable::damaged`], or holds what is only declared.
    pub fn incomplete(&self, id: TypeId) -> Option<String> {
        self.damaged(id).or_else(|| {
            self.first_part(id, |_, ty| match ty {
                Type::Aggregate(a) if a.declaration => Some("is only declared".into()),
                _ => None,
            })
        })
    }

    /// The first part, the type itself included, of which `says` has something to say. Each type is looked at once.
    fn first_part(&self, id: TypeId, says: impl Fn(TypeId, &Type) -> Option<String>) -> Option<String> {
        let (mut todo, mut seen) = (vec![id], HashSet::from([id]));
        while let Some(at) = todo.pop() {
            let ty = self.get(at);
            if let Some(what) = says(at, ty) {
                return Some(format!("{}: {what}", self.name(at)));
            }
            let mut inside = |to: TypeId| {
                if seen.insert(to) {
                    todo.push(to);
                }
            };
            match ty {
                Type::Aggregate(a) => {
                    a.members.iter().filter(|m| m.role != MemberRole::Static).for_each(|m| inside(m.ty))
                }
                Type::Array { elem: to, .. }
                | Type::Typedef { to, .. }
                | Type::Const(to)
                | Type::Volatile(to)
                | Type::Restrict(to)
                | Type::Atomic(to) => inside(*to),
                _ => {}
            }
        }
        None
    }
}

/// What no compiler lays out so: a member without a type, or one that does not lie in its object.
pub fn misfit(table: &TypeTable, a: &Aggregate) -> Option<&'static str> {
    let placed = |m: &&Member| !matches!(m.role, MemberRole::Static | MemberRole::VirtualBase);
    a.members.iter().filter(placed).find_map(|m| member_misfit(table, a, m))
}

fn member_misfit(table: &TypeTable, a: &Aggregate, m: &Member) -> Option<&'static str> {
    let outside = Some("a member lies outside of it");
    if *table.get(table.element(m.ty)) == Type::Void {
        return Some("a member has no type that can be read");
    }
    if a.declaration || m.offset() > a.size {
        return outside.filter(|_| !a.declaration);
    }
    // the padding of bases is used again, and virtual bases of theirs lie elsewhere
    if m.role == MemberRole::Base || end_bits(table, m)? <= a.size.saturating_mul(8) {
        return None;
    }
    match table.aggregate(m.ty) {
        Some(class) if class.members.is_empty() || !virtual_bases(table, class).is_empty() => None,
        _ => Some("a member reaches beyond its end"),
    }
}

fn end_bits(table: &TypeTable, m: &Member) -> Option<u64> {
    let bits = match m.bit_size {
        Some(bits) => u64::from(bits),
        None => table.size(m.ty)?.checked_mul(8)?,
    };
    m.offset_bits.checked_add(bits)
}
