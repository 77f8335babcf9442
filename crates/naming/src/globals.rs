//! Module memory to variables: every touched variable becomes an object of its own.

use std::collections::HashMap;

use tussle_debuginfo::symbols::Variable;
use tussle_evidence::tables::MALLOC_ALIGN;
use tussle_evidence::{Basis, Evidence, Object, ObjectKind};

use crate::image::{ImageId, Images};
use crate::retarget::{self, Piece, Pieces};
use crate::types::{Pending, align_of};

/// gcc and clang align large variables at least to this.
const LARGE_VARIABLE_ALIGN: u64 = 32;

/// A module of one process with its addresses.
struct Mapped {
    process: u32,
    module: u32,
    bias: u64,
    image: ImageId,
}

/// A variable found at a run-time address.
struct Found {
    key: Key,
    start: u64,
    end: u64,
    image: ImageId,
    variable: Variable,
}

/// Process, module, place in the file, and the thread's block for thread-local ones.
type Key = (u32, u32, u64, Option<u32>);

/// Splits unknown and thread-local memory.
pub(crate) fn split(evidence: &mut Evidence, images: &mut Images, pending: &mut Pending) {
    let mapped: Vec<Mapped> = (0..evidence.modules.len() as u32)
        .filter_map(|module| {
            let image = images.of_module(evidence, module)?;
            let row = &evidence.modules[module as usize];
            Some(Mapped { process: row.process, module, bias: row.bias, image })
        })
        .collect();
    let mut made = Made { new: Vec::new(), ids: HashMap::new(), pieces: Pieces::new() };
    for (object, offset, size) in ranges(evidence) {
        let row = &evidence.objects[object as usize];
        let end = row.base.saturating_add(offset).saturating_add(size);
        let mut at = row.base.saturating_add(offset);
        while at < end {
            let found = match row.kind {
                ObjectKind::Tls => tls_variable(evidence, &mapped, images, object, at),
                _ => static_variable(&mapped, images, row.process, at),
            };
            let Some(found) = found else {
                at += 1;
                continue;
            };
            at = found.end;
            made.add(evidence, images, pending, object, found);
        }
    }
    retarget::apply(evidence, made.pieces, made.new);
}

/// Touched ranges of the objects that may hold variables, each once, at most a page each.
fn ranges(evidence: &Evidence) -> Vec<(u32, u64, u64)> {
    let may = |id: u32| {
        let object = evidence.objects.get(id as usize);
        object.is_some_and(|o| matches!(o.kind, ObjectKind::Unknown | ObjectKind::Tls) && o.name.is_none())
    };
    let accesses = evidence.accesses.iter().map(|a| (a.object, a.offset, a.size));
    let touches = evidence.touches.iter().map(|t| (t.object, t.offset, t.size));
    let mut out: Vec<(u32, u64, u64)> = accesses
        .chain(touches)
        .filter(|(id, _, _)| may(*id))
        .map(|(id, offset, size)| (id, offset, u64::from(size).clamp(1, 4096)))
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

struct Made {
    new: Vec<Object>,
    ids: HashMap<Key, u32>,
    pieces: Pieces,
}

impl Made {
    fn add(
        &mut self,
        evidence: &Evidence,
        images: &Images,
        pending: &mut Pending,
        object: u32,
        found: Found,
    ) {
        let Some(old) = evidence.objects.get(object as usize) else { return };
        let next = evidence.objects.len() as u32 + self.new.len() as u32;
        let id = *self.ids.entry(found.key).or_insert_with(|| {
            self.new.push(object_of(&found, old, images, pending));
            next
        });
        let (first, last) = (old.base, old.base.saturating_add(old.size));
        let (start, end) = (found.start.max(first), found.end.min(last));
        let list = self.pieces.entry(object).or_default();
        let piece =
            Piece { start: start - first, end: end.max(start) - first, object: id, at: start - found.start };
        if start < end && !list.contains(&piece) {
            list.push(piece);
        }
    }
}

fn object_of(found: &Found, old: &Object, images: &Images, pending: &mut Pending) -> Object {
    let v = &found.variable;
    let image = images.get(found.image);
    let ty = image.ty(v.ty);
    let size = found.end - found.start;
    // Without a type it is a word or an array of them, as far as its size and place go together.
    let as_placed = || 1 << (found.start | size | MALLOC_ALIGN).trailing_zeros();
    let natural = ty.map_or_else(as_placed, |t| align_of(&image.types, t)).max(v.align.unwrap_or(1));
    let large = size >= LARGE_VARIABLE_ALIGN && found.start.is_multiple_of(LARGE_VARIABLE_ALIGN);
    let align = if large { natural.max(LARGE_VARIABLE_ALIGN) } else { natural };
    let why = match ty {
        Some(_) => "the variable's type in the debug information",
        None => "symbol table only: compile with -g to see the type",
    };
    Object {
        process: old.process,
        kind: if v.tls { ObjectKind::Tls } else { ObjectKind::Global },
        base: found.start,
        size,
        name: Some(v.name.clone()),
        ty: ty.map(|t| pending.image(images, found.image, t)),
        count: 1,
        confidence: if ty.is_some() { 1.0 } else { 0.0 },
        basis: ty.map(|_| Basis::Variable),
        why: why.into(),
        align,
        allocator: None,
        alloc_code: None,
        alloc_actor: if v.tls { old.alloc_actor } else { None },
        vt0: if v.tls { old.vt0 } else { 0 },
        vt1: if v.tls { old.vt1 } else { None },
        live_max: 1,
        region: old.region,
    }
}

fn static_variable(mapped: &[Mapped], images: &Images, process: u32, address: u64) -> Option<Found> {
    mapped.iter().filter(|m| m.process == process).find_map(|m| {
        let image = images.get(m.image);
        let svma = address.checked_sub(m.bias)?;
        if !image.symbols.segments.iter().any(|s| s.svma <= svma && svma - s.svma < s.size) {
            return None;
        }
        let (v, size) = variable_at(images, m.image, image.symbols.static_variables(), svma)?;
        let start = v.svma.wrapping_add(m.bias);
        let key = (process, m.module, v.svma, None);
        Some(Found { key, start, end: start.checked_add(size)?, image: m.image, variable: v.clone() })
    })
}

/// The executable's block ends at the thread pointer, which is where a thread-local object ends.
fn tls_variable(
    evidence: &Evidence,
    mapped: &[Mapped],
    images: &Images,
    object: u32,
    address: u64,
) -> Option<Found> {
    let o = evidence.objects.get(object as usize)?;
    let exe = evidence.processes.get(o.process as usize).map(|p| p.exe.as_str());
    let m = mapped.iter().find(|m| {
        let path = evidence.modules.get(m.module as usize).map(|r| r.path.as_str());
        m.process == o.process && path == exe
    })?;
    let symbols = &images.get(m.image).symbols;
    let block = o.base.checked_add(o.size)?.checked_sub(symbols.tls?.below_thread_pointer())?;
    let (v, size) = variable_at(images, m.image, symbols.tls_variables(), address.checked_sub(block)?)?;
    let start = block.checked_add(v.svma)?;
    let key = (o.process, m.module, v.svma, Some(object));
    Some(Found { key, start, end: start.checked_add(size)?, image: m.image, variable: v.clone() })
}

/// The variable that holds a file address, and its size.
pub(crate) fn variable_at<'v>(
    images: &Images,
    image: ImageId,
    variables: &'v [Variable],
    svma: u64,
) -> Option<(&'v Variable, u64)> {
    let image = images.get(image);
    let end = variables.partition_point(|v| v.svma <= svma);
    // Few variables overlap (aliases inside of tables), so a short look back is enough.
    variables[..end].iter().rev().take(4).find_map(|v| {
        let by_type = image.ty(v.ty).and_then(|t| image.types.size(t));
        let size = v.size.or(by_type)?;
        (svma - v.svma < size).then_some((v, size))
    })
}
