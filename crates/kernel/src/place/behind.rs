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
    /// Looks where pointers of global variables lead, outside of slabs. The names of structs there that `types` only
    /// declares: types of variables do not bring what is behind them.
    pub fn look_behind(&mut self, types: &KernelTypes) -> Vec<String> {
        let mut led = Vec::new();
        for v in self.image.symbols.static_variables() {
            let Some(ty) = types.entry(v.ty).filter(|_| v.svma >= 0xffff_ffff_8000_0000) else { continue };
            for (offset, path, to) in pointers(types, ty) {
                let Some(value) = self.memory.u64(v.svma.wrapping_add(offset)) else { continue };
                let name = || types.table.aggregate(types.table.strip(to))?.name.clone();
                let Some(name) = name().filter(|n| !is_link(n) && self.is_no_slab(value)) else { continue };
                led.push((value, Pointed { name, variable: format!("{}{path}", v.name) }));
            }
        }
        let mut out: Vec<String> =
            led.iter().map(|(_, to)| &to.name).filter(|n| types.named(n).is_none()).cloned().collect();
        out.sort_unstable();
        out.dedup();
        self.led = led;
        out
    }

    /// Follows those pointers; `behind` has the types that [`Atlas::look_behind`] asked for, `types` all others.
    pub fn follow(&mut self, types: &KernelTypes, behind: &KernelTypes) {
        self.find_roots(types, behind);
        for (value, to) in std::mem::take(&mut self.led) {
            if let Some(size) = size_of(&to.name, types, behind) {
                self.arrays.entry(value).or_insert((to, size));
            }
        }
    }

    /// Global pointers lead to what was allocated before the slab allocator: node data, hash tables.
    fn find_roots(&mut self, types: &KernelTypes, other: &KernelTypes) {
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
                    let named = behind.as_ref().and_then(|name| size_of(name, types, other));
                    let size = named.or_else(|| types.table.size(*to)).unwrap_or(0);
                    self.roots.entry(value).or_insert((v.name.clone(), behind.clone(), size));
                }
            }
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

/// Bytes of the struct of this name, in whichever table knows it whole.
fn size_of(name: &str, types: &KernelTypes, behind: &KernelTypes) -> Option<u64> {
    let of = |table: &KernelTypes| table.named(name).and_then(|t| table.table.size(t)).filter(|s| *s > 0);
    of(types).or_else(|| of(behind))
}
