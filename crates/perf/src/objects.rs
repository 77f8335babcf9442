//! Tells an evidence what lies at an address.

use crate::maps::KERNEL_START;
use crate::tables::unknown;
use tussle_evidence::{Evidence, Object, ObjectKind};
use tussle_model::{TypeId, TypeTable};

/// An object of `ty` (of `table`) begins at `base`: rows of unknown memory inside it move to it. Returns its id, and
/// `None` when the type has no size or nothing sampled lies in it.
pub fn place(
    e: &mut Evidence,
    base: u64,
    table: &TypeTable,
    ty: TypeId,
    confidence: f32,
    why: &str,
) -> Option<u32> {
    let size = table.size(ty).filter(|s| *s > 0 && base.checked_add(*s).is_some())?;
    let inside = |o: &Object, offset: u64| {
        o.kind == ObjectKind::Unknown
            && o.ty.is_none()
            && o.base.wrapping_add(offset).wrapping_sub(base) < size
    };
    let hit = |object: u32, offset: u64| {
        let o = e.objects.get(object as usize)?;
        inside(o, offset).then_some(o.process)
    };
    let process = e.samples.iter().flatten().find_map(|s| hit(s.object, s.offset))?;
    let (small, ids) = table.extract(&[ty]);
    let fresh = e.types.absorb(small, |_| None);
    let ty = ids.first().and_then(|id| fresh.get(id.0 as usize)).copied();
    let align = if base.is_multiple_of(64) { 64 } else { 8 };
    let name = None;
    let row = Object { ty, name, confidence, why: why.into(), align, ..unknown(process, base, size) };
    let id = e.objects.len() as u32;
    let kind = if base >= KERNEL_START { ObjectKind::Slab } else { ObjectKind::Heap };
    let (old, objects) = (e.objects.len(), &e.objects);
    let moved = |object: &mut u32, offset: &mut u64| {
        let Some(o) = objects.get(*object as usize).filter(|o| o.process == process) else { return };
        if inside(o, *offset) {
            *offset = o.base.wrapping_add(*offset).wrapping_sub(base);
            *object = id;
        }
    };
    let clipped = |object: u32, offset: u64, bytes: &mut u32| {
        if object == id {
            *bytes = u32::try_from(size - offset).unwrap_or(u32::MAX).min(*bytes);
        }
    };
    for s in e.samples.iter_mut().flatten() {
        moved(&mut s.object, &mut s.offset);
        clipped(s.object, s.offset, &mut s.size);
    }
    for a in &mut e.accesses {
        moved(&mut a.object, &mut a.offset);
        clipped(a.object, a.offset, &mut a.size);
    }
    e.touches.iter_mut().for_each(|t| moved(&mut t.object, &mut t.offset));
    debug_assert_eq!(old, id as usize);
    e.objects.push(Object { kind, ..row });
    Some(id)
}
