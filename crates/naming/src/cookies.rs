//! Arrays of C++ whose elements have a destructor: `new T[n]` keeps n before them (Itanium C++ ABI, 2.7, array
//! cookies).

use tussle_evidence::{Evidence, Object, ObjectKind};
use tussle_model::{TypeId, TypeTable};

use crate::alloc::new_array;
use crate::image::Images;
use crate::retarget::Split;
use crate::site::Sites;
use crate::types::align_of;

/// What counts the elements.
const COUNT_BYTES: u64 = 8;

/// Gives the elements of such blocks an object of their own, to be typed as any block of their allocation.
pub(crate) fn part(evidence: &mut Evidence, images: &mut Images, sites: &mut Sites) {
    let mut split = Split::default();
    for id in 0..evidence.objects.len() {
        let o = &evidence.objects[id];
        let Some(code) = o.alloc_code.filter(|_| o.kind == ObjectKind::Heap && o.ty.is_none()) else {
            continue;
        };
        let frames = sites.of_code(evidence, images, code);
        let Some(c) = frames.first().and_then(|site| new_array(sites, images, site)) else { continue };
        let o = &mut evidence.objects[id];
        let Some(start) = cookie(&images.get(c.image).types, c.ty, o.size) else { continue };
        let align = 1 << (o.align | start).trailing_zeros();
        let elements = Object { base: o.base + start, size: o.size - start, align, ..o.clone() };
        o.why = "the number of elements behind it".into();
        split.add(evidence, id as u32, start, elements);
    }
    split.apply(evidence);
}

/// Bytes before the first of several elements that fill a block but for these. Where elements alone would fill it, too,
/// they are taken to.
fn cookie(table: &TypeTable, ty: TypeId, bytes: u64) -> Option<u64> {
    let size = table.size(ty).filter(|size| *size > 0)?;
    let start = align_of(table, ty).max(COUNT_BYTES);
    let rest = bytes.checked_sub(start)?;
    (bytes % size != 0 && rest >= size && rest % size == 0).then_some(start)
}
