//! Per-CPU variables of an x86-64 kernel by data.
//!
//! Nothing in a recording says where the CPUs' areas lie. But an instruction `gs:[symbol]` does: the sampled address
//! minus the symbol's is the area of one CPU, and everything in that area has names then. Only kernels whose per-CPU
//! symbols begin at zero (up to Linux 6.14).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tussle_evidence::{Basis, Evidence, Object, ObjectKind};

use super::{KERNEL_START, x86};
use crate::globals::variable_at;
use crate::image::{Image, ImageId, Images};
use crate::types::Pending;

/// The per-CPU symbols begin at zero here.
fn zero_based(image: &Image) -> Option<u64> {
    image.symbols.segments.iter().find(|s| s.svma == 0 && s.writable).map(|s| s.size)
}

/// Where each CPU's area begins, with the image that has its symbols.
fn areas(evidence: &Evidence, images: &mut Images) -> BTreeSet<(u64, ImageId)> {
    let mut known: HashMap<(ImageId, u64), Option<u64>> = HashMap::new();
    let mut out = BTreeSet::new();
    for s in evidence.samples.iter().flatten() {
        let Some(address) = super::address(evidence, s).filter(|a| *a >= KERNEL_START) else { continue };
        let Some((image, svma)) = super::code_of(evidence, images, s) else { continue };
        let loaded = images.get(image);
        let Some(size) = zero_based(loaded).filter(|_| loaded.x86_64()) else { continue };
        let own = || {
            let o = x86::plain(loaded, svma)?;
            let direct = o.gs && o.base.is_none() && o.index.is_none();
            u64::try_from(o.displacement).ok().filter(|d| direct && *d < size)
        };
        if let Some(symbol) = *known.entry((image, svma)).or_insert_with(own) {
            out.insert((address.wrapping_sub(symbol), image));
        }
    }
    out
}

/// New objects for the variables that samples hit; returns the object of each such row.
pub(super) fn place(
    evidence: &mut Evidence,
    images: &mut Images,
    pending: &mut Pending,
) -> HashMap<u32, (u32, u64)> {
    let areas = areas(evidence, images);
    let (mut of_row, mut ids) = (HashMap::new(), BTreeMap::new());
    let mut new: Vec<Object> = Vec::new();
    for (row, s) in evidence.samples.iter().flatten().enumerate() {
        let Some(address) = super::address(evidence, s).filter(|a| *a >= KERNEL_START) else { continue };
        let Some((area, image)) = areas.range(..=(address, ImageId::MAX)).next_back() else { continue };
        let loaded = images.get(*image);
        let inside = address - area;
        if zero_based(loaded).is_none_or(|size| inside >= size) {
            continue;
        }
        let variables = loaded.symbols.static_variables();
        let Some((v, size)) = variable_at(images, *image, variables, inside) else { continue };
        let base = area + v.svma;
        let next = (evidence.objects.len() + new.len()) as u32;
        let id = *ids.entry(base).or_insert_with(|| {
            let ty = loaded.ty(v.ty).map(|t| pending.image(images, *image, t));
            let process = evidence.objects[s.object as usize].process;
            new.push(Object {
                name: Some(v.name.clone()),
                ty,
                confidence: 1.0,
                basis: Some(Basis::Variable),
                why: format!("per-CPU variable of the CPU whose area begins at 0x{area:x}"),
                align: v.align.unwrap_or(1),
                ..Object::unnamed(process, ObjectKind::PerCpu, base, size)
            });
            next
        });
        of_row.insert(row as u32, (id, address - base));
    }
    evidence.objects.extend(new);
    of_row
}
