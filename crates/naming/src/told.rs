//! Types that the program's own allocator was told by name.

use tussle_evidence::{Basis, Evidence};

use crate::alloc::{Fit, fit};
use crate::image::{ImageId, Images};
use crate::types::Pending;

/// Gives objects the types that their allocator was told, as far as the program's debug information has one of that
/// name that fits.
pub(crate) fn apply(
    evidence: &mut Evidence,
    images: &mut Images,
    pending: &mut Pending,
    told: &[(u32, String)],
) {
    for (id, name) in told {
        let Some(object) = evidence.objects.get(*id as usize).filter(|o| o.ty.is_none()) else { continue };
        let (process, bytes) = (object.process, object.size);
        let Some(image) = image_of(evidence, images, process) else { continue };
        let table = &images.get(image).types;
        let fits = |ty: &&_| match fit(table, **ty, bytes) {
            Fit::Elements(n) => Some(n),
            // What the allocator rounded up.
            Fit::Header => table.size(**ty).map(|size| bytes / size),
            Fit::No => None,
        };
        let named = spellings(name);
        let mut all = named.iter().flat_map(|n| images.get(image).named(n));
        let Some(&ty) = all.find(|ty| fits(ty).is_some()) else { continue };
        let count = fits(&&ty).unwrap_or(1);
        let handle = pending.image(images, image, ty);
        let object = &mut evidence.objects[*id as usize];
        (object.ty, object.count, object.confidence) = (Some(handle), count, 1.0);
        object.basis = Some(Basis::Allocation);
        object.why = "the allocator was told the type".into();
    }
}

/// A name as it was told, and as other languages write it: C++ needs no `struct`.
fn spellings(name: &str) -> [String; 3] {
    let name = name.trim();
    let tag = ["struct ", "union ", "class ", "enum "].iter().find_map(|t| name.strip_prefix(t));
    let bare = tag.map_or(name, str::trim);
    [name.into(), bare.into(), format!("struct {bare}")]
}

/// The image of a process's program.
fn image_of(evidence: &Evidence, images: &mut Images, process: u32) -> Option<ImageId> {
    let exe = &evidence.processes.get(process as usize)?.exe;
    let module = evidence.modules.iter().position(|m| m.process == process && m.path == *exe)?;
    images.of_module(evidence, module as u32)
}
