//! How far the transfers of a model are explained: by field, by owner only, or by nothing.

use std::collections::{HashMap, HashSet};

use crate::tables::*;

/// Transfers of one evidence by what is known of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Memory of a known type: a struct's field, a variable, a `struct page`; and what the accessing code names itself.
    pub field: u64,
    /// Contents of pages: memory of programs, bytes of files and packets. There are no fields.
    pub contents: u64,
    /// Memory of which only is known who allocated it, or what it is used for.
    pub owner: u64,
    /// Memory of which nobody knows whose it is.
    pub nothing: u64,
}

impl Named {
    /// Sums the transfers of the evidence.
    pub fn of(e: &Evidence) -> Named {
        let mut out = Named::default();
        let told = e.touches.iter().filter(|t| t.field.is_some() && t.role.is_none());
        let told: HashSet<(u32, u64, Option<u32>)> =
            told.map(|t| (t.object, t.offset, Some(t.code))).collect();
        let roles: HashMap<(u32, u64, Option<u32>), Role> = e
            .touches
            .iter()
            .filter_map(|t| Some(((t.object, t.offset, Some(t.code)), t.role.filter(|r| r.is_anywhere())?)))
            .collect();
        for t in e.transfers.iter().flatten() {
            match (e.objects.get(t.object as usize), roles.get(&(t.object, t.offset, t.code))) {
                (_, Some(Role::PageContents)) => out.contents += t.transfers,
                (_, Some(_)) => out.field += t.transfers,
                (Some(o), _) if o.ty.is_some() => out.field += t.transfers,
                (Some(_), _) if told.contains(&(t.object, t.offset, t.code)) => out.field += t.transfers,
                (Some(o), _) if has_owner(o) => out.owner += t.transfers,
                _ => out.nothing += t.transfers,
            }
        }
        out
    }

    /// The shares in a sentence.
    pub fn words(&self) -> String {
        let total = (self.field + self.contents + self.owner + self.nothing).max(1) as f64;
        let share = |n: u64| format!("{:.1}%", 100.0 * n as f64 / total);
        let contents = match self.contents {
            0 => String::new(),
            n => format!(", {} are contents of pages, which have no fields", share(n)),
        };
        let [field, owner, nothing] = [self.field, self.owner, self.nothing].map(share);
        format!(
            "of the transfers {field} have a field's name{contents}, {owner} only an owner's, {nothing} none"
        )
    }
}

/// A slab of a general cache is nobody's unless its allocation was seen; another cache's name tells whose it is.
fn has_owner(o: &Object) -> bool {
    match o.kind {
        ObjectKind::Unknown => false,
        ObjectKind::Slab => {
            o.alloc_code.is_some() || o.name.as_ref().is_some_and(|n| !n.contains("kmalloc-"))
        }
        _ => o.name.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn an_owner_is_no_field() {
        let mut s = Sample::new(1);
        let long = s.long();
        let stats = s.structure("stats", 8, &[("hits", long, 0)]);
        for ty in [Some(stats), None, None, None, None] {
            s.heap(0x1000, 64, ty, 1, 64, None);
        }
        let mut e = s.evidence();
        for (o, (kind, site)) in e.objects.iter_mut().zip([
            (ObjectKind::Slab, None),
            (ObjectKind::Slab, Some(0)),
            (ObjectKind::Slab, None),
            (ObjectKind::Mapped, None),
            (ObjectKind::Unknown, None),
        ]) {
            (o.kind, o.alloc_code, o.name) = (kind, site, Some("kmalloc-512".into()));
        }
        let row = |(object, transfers)| Transfer {
            object,
            offset: 0,
            size: 8,
            code: None,
            actor: None,
            kind: TouchKind::Read,
            transfers,
            dirty: 0,
            schedule: None,
        };
        e.transfers = Some([(0, 70), (1, 8), (2, 6), (3, 12), (4, 3), (9, 1)].map(row).into());
        let named = Named::of(&e);
        assert_eq!((named.field, named.owner, named.nothing), (70, 20, 10));
        assert_eq!(
            named.words(),
            "of the transfers 70.0% have a field's name, 20.0% only an owner's, 10.0% none"
        );
        // A cache made for one type, and code that tells the field.
        e.objects[2].name = Some("ip_dst_cache".into());
        let touch = |object| Touch {
            object,
            offset: 0,
            size: 8,
            code: 3,
            actor: None,
            kind: TouchKind::Read,
            samples: 1,
            field: Some("struct bucket.lock".into()),
            role: None,
        };
        e.touches = vec![touch(4)];
        e.transfers.iter_mut().flatten().for_each(|t| t.code = Some(3));
        let named = Named::of(&e);
        assert_eq!((named.field, named.owner, named.nothing), (73, 26, 1));
        // What a page holds has no fields, and an entry of a page table is one.
        let page = |object, role| Touch { field: None, role: Some(role), ..touch(object) };
        e.touches.extend([page(1, Role::PageContents), page(3, Role::PageTableEntry)]);
        let named = Named::of(&e);
        assert_eq!((named.field, named.contents, named.owner, named.nothing), (85, 8, 6, 1));
        assert!(named.words().contains(", 8.0% are contents of pages, which have no fields, "));
    }
}
