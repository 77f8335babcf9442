//! Memory behind the kernel's global pointers: node data, hash tables, arrays that were allocated as bare pages.

use tussle_model::leaf::{Arrays, leaves};
use tussle_model::{Type, TypeId};

use super::{Atlas, BOOT_BLOCK_MAX, OWNERLESS};
use crate::image::KernelTypes;
use crate::slab::PAGE;
use crate::typed::Pointed;
use crate::wish::is_link;

/// Pages of an array that are looked at; larger ones stay without a type.
const ARRAY_PAGES_MAX: usize = 4096;

/// Members of one variable that are looked at.
const LEAVES_MAX: usize = 2000;

impl Atlas<'_> {
    /// Structs that pointers of global variables lead to, outside of slabs, and that `types` only declares: types of
    /// variables do not bring what is behind them.
    pub fn wanted(&self, types: &KernelTypes) -> Vec<String> {
        let leads = |(_, value, to): (String, u64, TypeId)| {
            let name = types.table.aggregate(types.table.strip(to))?.name.clone()?;
            (types.named(&name).is_none() && !is_link(&name) && self.is_no_slab(value)).then_some(name)
        };
        let mut out: Vec<String> = self.pointers(types).into_iter().filter_map(leads).collect();
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Follows the pointers of global variables; `types` has what [`Atlas::wanted`] asked for.
    pub fn follow(&mut self, types: &KernelTypes) {
        self.find_roots(types);
        self.find_arrays(types);
    }

    /// Pointers in all global variables: variable with member, value, what it points to.
    fn pointers(&self, types: &KernelTypes) -> Vec<(String, u64, TypeId)> {
        let mut out = Vec::new();
        for v in self.image.symbols.static_variables() {
            let Some(ty) = types.entry(v.ty).filter(|_| v.svma >= 0xffff_ffff_8000_0000) else { continue };
            for (offset, path, to) in pointers(types, ty) {
                let value = self.memory.u64(v.svma.wrapping_add(offset));
                out.extend(value.map(|value| (format!("{}{path}", v.name), value, to)));
            }
        }
        out
    }

    /// Global pointers lead to what was allocated before the slab allocator: node data, hash tables.
    fn find_roots(&mut self, types: &KernelTypes) {
        for v in self.image.symbols.static_variables() {
            let Some(ty) = types.entry(v.ty).filter(|_| v.svma >= 0xffff_ffff_8000_0000) else { continue };
            let (ty, count) = match types.table.get(types.table.strip(ty)) {
                Type::Array { elem, counts } => (*elem, counts.first().copied().flatten().unwrap_or(0)),
                _ => (ty, 1),
            };
            let Type::Pointer { to, .. } = types.table.get(types.table.strip(ty)) else { continue };
            let behind = types.table.aggregate(*to).and_then(|a| a.name.clone());
            for i in 0..count.min(64) {
                let Some(value) = self.memory.u64(v.svma + 8 * i) else { break };
                if self.is_no_slab(value) {
                    let size = self.size_behind(&behind, types, *to);
                    self.roots.entry(value).or_insert((v.name.clone(), behind.clone(), size));
                }
            }
        }
    }

    /// Pointers to complete structs in all global variables, and in the structs that these are.
    fn find_arrays(&mut self, types: &KernelTypes) {
        for (variable, value, to) in self.pointers(types) {
            let Some((name, size)) = complete(types, to).filter(|_| self.is_no_slab(value)) else { continue };
            self.arrays.entry(value).or_insert((Pointed { name, variable }, size));
        }
    }

    /// In the direct map, and in no slab: an object of a cache ends where it ends, whatever the pointer's type says of
    /// what comes behind (`e820_table` points to a copy that is shorter than its struct).
    fn is_no_slab(&self, address: u64) -> bool {
        let end = (u64::MAX - 1, u64::MAX - 1);
        self.slabs.page_of(address).is_some() && self.slabs.object(address, end).is_none()
    }

    /// The element of an array behind a global pointer, if no other page use begins between its start and the address.
    pub(super) fn element(&self, address: u64) -> Option<(u64, u64, Pointed)> {
        let (start, (pointed, size)) = self.arrays.range(..=address).next_back()?;
        let at = address - start;
        if at >= BOOT_BLOCK_MAX || *size == 0 {
            return None;
        }
        let pages = (start / PAGE * PAGE..=address).step_by(PAGE as usize);
        let bare = |a: u64| self.slabs.page_of(a).is_some_and(|p| self.page_use(p) == OWNERLESS);
        let alike = pages.take(ARRAY_PAGES_MAX + 1).enumerate().all(|(i, a)| i < ARRAY_PAGES_MAX && bare(a));
        alike.then(|| (start + at / size * size, *size, pointed.clone()))
    }

    fn size_behind(&self, name: &Option<String>, types: &KernelTypes, to: TypeId) -> u64 {
        let named = name.as_ref().and_then(|n| types.named(n));
        named.or(Some(to)).and_then(|t| types.table.size(t)).unwrap_or(0)
    }
}

/// Pointers in a variable of this type, with offset and path behind the variable's name.
fn pointers(types: &KernelTypes, ty: TypeId) -> Vec<(u64, String, TypeId)> {
    leaves(&types.table, ty, Arrays::Whole)
        .into_iter()
        .take(LEAVES_MAX)
        .filter_map(|leaf| match types.table.get(types.table.strip(leaf.ty)) {
            Type::Pointer { to, .. } if leaf.path.is_empty() => Some((leaf.offset, String::new(), *to)),
            Type::Pointer { to, .. } => Some((leaf.offset, format!(".{}", leaf.path), *to)),
            _ => None,
        })
        .collect()
}

/// Name and size of a struct that can be an array's element: links of lists lead into other structs, never to one.
fn complete(types: &KernelTypes, to: TypeId) -> Option<(String, u64)> {
    let name = types.table.aggregate(types.table.strip(to))?.name.clone()?;
    if is_link(&name) {
        return None;
    }
    let size = types.named(&name).and_then(|t| types.table.size(t)).filter(|s| *s > 0)?;
    Some((name, size))
}
