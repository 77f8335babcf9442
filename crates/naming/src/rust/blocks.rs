//! Blocks of Rust's containers that hold more than elements: the counts of an `Arc<[T]>` before them, the control bytes
//! of a hash map behind them.
//!
//! No type of the program describes such a block as a whole. Its elements become an object of their own; the rest keeps
//! the allocation.

use tussle_evidence::{Basis, Evidence, Object, ObjectKind};
use tussle_model::TypeTable;

use crate::alloc::Candidate;
use crate::image::Images;
use crate::retarget::{self, Piece, Pieces};
use crate::site::{Site, Sites};
use crate::types::{Pending, align_of};

/// Strong and weak count of `ArcInner` and `RcInner` (alloc/src/sync.rs, rc.rs), bytes.
const COUNTS_BYTES: u64 = 16;

/// Width of a group of control bytes with SSE2, which every x86-64 has (hashbrown, control/group/sse2.rs), bytes.
const GROUP_BYTES: u64 = 16;

/// How sure an element type is that the container's own functions name.
const CONFIDENCE: f32 = 0.9;

/// Which elements lie where in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Elements {
    start: u64,
    count: u64,
    bytes: u64,
}

/// What the frames of an allocation say about its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Counted,
    Hashed,
}

/// Gives the elements in such blocks objects of their own.
pub(crate) fn part(evidence: &mut Evidence, images: &mut Images, sites: &mut Sites, pending: &mut Pending) {
    let mut pieces = Pieces::new();
    let mut new: Vec<Object> = Vec::new();
    for id in 0..evidence.objects.len() {
        let o = &evidence.objects[id];
        let Some(code) = o.alloc_code.filter(|_| o.kind == ObjectKind::Heap && o.ty.is_none()) else {
            continue;
        };
        let frames = sites.of_code(evidence, images, code);
        let frames = super::past_allocator(&frames);
        let Some(shape) = shape(frames) else { continue };
        let Some((c, found)) = element(images, frames, shape, o.size) else { continue };
        let object = (evidence.objects.len() + new.len()) as u32;
        let ty = Some(pending.image(images, c.image, c.ty));
        let size = found.count * found.bytes;
        new.push(Object {
            base: o.base + found.start,
            size,
            ty,
            count: found.count,
            confidence: CONFIDENCE,
            basis: Some(Basis::Allocation),
            why: c.why,
            align: 1 << (o.base + found.start).trailing_zeros().min(o.align.trailing_zeros()),
            ..o.clone()
        });
        pieces.entry(id as u32).or_default().push(Piece {
            start: found.start,
            end: found.start + size,
            object,
            at: 0,
        });
        evidence.objects[id].why = "what the container keeps beside its elements".into();
    }
    retarget::apply(evidence, pieces, new);
}

pub(super) fn shape(frames: &[Site]) -> Option<BlockKind> {
    let own = frames.iter().take_while(|f| super::is_library(&f.frame));
    own.into_iter().find_map(|f| {
        let (file, function) = (&f.frame.file, &f.frame.function);
        let counted = file.ends_with("/alloc/src/sync.rs") || file.ends_with("/alloc/src/rc.rs");
        if counted && (function.contains("allocate_for_slice") || function.contains("<[")) {
            return Some(BlockKind::Counted);
        }
        let hashed = function.contains("RawTableInner") && super::is_hashbrown(file);
        hashed.then_some(BlockKind::Hashed)
    })
}

/// The innermost container's `T` with which the block works out.
fn element(images: &Images, frames: &[Site], shape: BlockKind, bytes: u64) -> Option<(Candidate, Elements)> {
    super::elements(images, frames).find_map(|(image, ty)| {
        let table = &images.get(image).types;
        let (size, align) = (table.size(ty)?, align_of(table, ty));
        let found = match shape {
            BlockKind::Counted => counted(size, align, bytes),
            BlockKind::Hashed => hashed(size, align, bytes),
        }?;
        let why = "element type of the container that allocates".to_string();
        named(table, ty).then_some((
            Candidate { image, ty, prior: CONFIDENCE, basis: Basis::Allocation, why, leads: false },
            found,
        ))
    })
}

fn named(table: &TypeTable, ty: tussle_model::TypeId) -> bool {
    crate::nest::structured(table, ty)
}

/// Counts, then elements (`Layout::extend`).
fn counted(size: u64, align: u64, bytes: u64) -> Option<Elements> {
    let start = COUNTS_BYTES.next_multiple_of(align.max(1));
    let rest = bytes.checked_sub(start).filter(|_| size > 0)?;
    let whole = rest / size > 0 && (start + rest / size * size).next_multiple_of(align.max(8)) == bytes;
    whole.then_some(Elements { start, count: rest / size, bytes: size })
}

/// Buckets, one control byte for each and a group of them more (`TableLayout::calculate_layout_for`). The buckets end
/// where the control bytes begin.
fn hashed(size: u64, align: u64, bytes: u64) -> Option<Elements> {
    let align = align.max(GROUP_BYTES);
    (0..40).map(|n| 1u64 << n).take_while(|b| *b < bytes).find_map(|buckets| {
        let control = buckets.checked_mul(size)?.checked_next_multiple_of(align)?;
        let whole = control + buckets + GROUP_BYTES == bytes && size > 0;
        whole.then_some(Elements { start: control - buckets * size, count: buckets, bytes: size })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_elements_and_something_beside_them() {
        assert_eq!(counted(24, 8, 16 + 4 * 24), Some(Elements { start: 16, count: 4, bytes: 24 }));
        assert_eq!(counted(64, 64, 64 + 3 * 64), Some(Elements { start: 64, count: 3, bytes: 64 }));
        assert_eq!(counted(3, 1, 32), Some(Elements { start: 16, count: 5, bytes: 3 }));
        assert_eq!(counted(24, 8, 48 + 3), None);
        assert_eq!(hashed(24, 8, 8 * 24 + 8 + 16), Some(Elements { start: 0, count: 8, bytes: 24 }));
        assert_eq!(hashed(12, 4, 48 + 4 + 16), Some(Elements { start: 0, count: 4, bytes: 12 }));
        assert_eq!(hashed(3, 1, 16 + 4 + 16), Some(Elements { start: 4, count: 4, bytes: 3 }));
        assert_eq!(hashed(24, 8, 200), None);
    }
}
