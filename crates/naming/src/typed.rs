//! Samples to structs by code: instruction → base register → variable → type and offset.
//!
//! A sample tells the address of an instruction and the address that it accessed. When DWARF says that the base
//! register of the instruction's operand holds a pointer to a struct, the struct begins at the accessed address minus
//! the offset in the operand. Needs no registers in the samples; where they are sampled, they are checked.

mod percpu;
mod x86;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use tussle_evidence::{Basis, Evidence, Object, ObjectKind, Rate, Sampled};
use tussle_model::TypeId;
use tussle_model::leaf::{Arrays, Leaf, leaves_within};

use crate::SampledRegisters;
use crate::image::{ImageId, Images};
use crate::nest;
use crate::retarget::{self, Pieces};
use crate::types::{Pending, align_of};
use x86::Operand;

pub(crate) use x86::flatten;

/// Addresses from here on are the kernel's.
const KERNEL_START: u64 = 1 << 63;

/// Objects looked at before an address when an enclosing one is searched.
const LOOK_BACK: usize = 32;

/// How sure a type is that the code names: DWARF may be wrong where compilers are.
const CONFIDENCE: f32 = 0.9;

/// Perf's register numbers by DWARF's.
const PERF: [u32; 16] = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];

/// A struct at an address.
#[derive(Clone, Debug)]
struct Found {
    process: u32,
    image: ImageId,
    ty: TypeId,
    base: u64,
    size: u64,
    why: String,
    /// Sample rows that say so.
    rows: Vec<u32>,
    /// Their code.
    codes: BTreeSet<u32>,
}

/// Gives sampled memory without a name the structs that the sampled code works on.
pub(crate) fn place(
    evidence: &mut Evidence,
    images: &mut Images,
    pending: &mut Pending,
    registers: &SampledRegisters,
) {
    if evidence.samples.as_ref().is_none_or(Vec::is_empty) {
        return;
    }
    let old = evidence.objects.len();
    let per_cpu = percpu::place(evidence, images, pending);
    move_rows(evidence, &per_cpu, old);
    let old = evidence.objects.len();
    let found = votes(evidence, images, registers);
    let (objects, mut of_row) = merge(images, found);
    by_address(evidence, images, &objects, &mut of_row);
    let of_row = add_objects(evidence, images, pending, &objects, &of_row);
    move_rows(evidence, &of_row, old);
}

/// Address of a sample in memory that nobody has named yet.
fn address(evidence: &Evidence, s: &Sampled) -> Option<u64> {
    let o = evidence.objects.get(s.object as usize)?;
    let unnamed = o.kind == ObjectKind::Unknown && o.ty.is_none() && o.name.is_none();
    unnamed.then(|| o.base.wrapping_add(s.offset))
}

/// Image and file address of a sample's code.
fn code_of(evidence: &Evidence, images: &mut Images, s: &Sampled) -> Option<(ImageId, u64)> {
    let code = evidence.code.get(s.code? as usize)?;
    let image = images.of_module(evidence, code.module?)?;
    let bias = evidence.modules.get(code.module? as usize)?.bias;
    Some((image, code.address.wrapping_sub(bias)))
}

fn votes(evidence: &Evidence, images: &mut Images, registers: &SampledRegisters) -> Vec<Found> {
    let mut known: HashMap<(ImageId, u64), Option<Rc<Operand>>> = HashMap::new();
    let mut out: BTreeMap<(u32, ImageId, TypeId, u64), Found> = BTreeMap::new();
    for (row, s) in evidence.samples.iter().flatten().enumerate() {
        let Some(address) = address(evidence, s) else { continue };
        let Some((image, svma)) = code_of(evidence, images, s) else { continue };
        let process = evidence.objects[s.object as usize].process;
        let loaded = images.get(image);
        let operand = known
            .entry((image, svma))
            .or_insert_with(|| loaded.x86_64().then(|| x86::operand(loaded, svma)).flatten().map(Rc::new));
        let Some(operand) = operand.clone() else { continue };
        let values = registers.get(&(row as u32));
        let Some((pointer, offset)) = resolve(loaded, &operand, address, values.map(Vec::as_slice)) else {
            continue;
        };
        let Some(size) = loaded.types.size(pointer.ty) else { continue };
        let ty = nest::plain(&loaded.types, pointer.ty);
        let base = address.wrapping_sub(offset);
        let why = pointer.why;
        let fresh =
            || Found { process, image, ty, base, size, why, rows: Vec::new(), codes: BTreeSet::new() };
        let f = out.entry((process, image, ty, base)).or_insert_with(fresh);
        f.rows.push(row as u32);
        f.codes.extend(s.code);
    }
    out.into_values().collect()
}

/// The struct of one sample, and the byte of it.
fn resolve(
    image: &crate::image::Image,
    operand: &Operand,
    address: u64,
    values: Option<&[(u32, u64)]>,
) -> Option<(x86::Pointer, u64)> {
    let base = operand.base?;
    let value = |dwarf: usize| {
        let wanted = PERF.get(dwarf)?;
        values?.iter().find(|v| v.0 == *wanted).map(|v| v.1)
    };
    if operand.overwritten || value(base).is_none() {
        // Without the values an index could be anything.
        if operand.index.is_some() || operand.gs {
            return None;
        }
        return operand.choose(image, &|p| p.offset.wrapping_add(operand.displacement) as u64);
    }
    let (held, scaled) = (
        value(base)?,
        match operand.index {
            Some((r, factor)) => value(r)?.wrapping_mul(factor),
            None => 0,
        },
    );
    // The sample is of another instruction when its address is not the operand's.
    if held.wrapping_add(scaled).wrapping_add(operand.displacement as u64) != address {
        return None;
    }
    operand.choose(image, &|p| address.wrapping_sub(held.wrapping_sub(p.offset as u64)))
}

/// Structs inside of others become part of them. Returns the remaining ones and the one of each row.
fn merge(images: &Images, mut found: Vec<Found>) -> (Vec<Found>, HashMap<u32, usize>) {
    found.sort_by_key(|f| (std::cmp::Reverse(f.size), f.process, f.base));
    let mut kept: Vec<Found> = Vec::new();
    let mut by_base: BTreeMap<(u32, u64), Vec<usize>> = BTreeMap::new();
    let mut of_row = HashMap::new();
    for f in found {
        let before = by_base.range((f.process, 0)..=(f.process, f.base)).rev().take(LOOK_BACK);
        let around = before.flat_map(|(_, ids)| ids.iter().copied());
        let outer = around.into_iter().find(|id| {
            let o = &kept[*id];
            let (inside, table) = (f.base - o.base, |image| &images.get(image).types);
            let holds = match o.image == f.image {
                true => nest::holds(table(f.image), o.ty, inside, f.ty),
                false => nest::holds_named(table(o.image), o.ty, inside, (table(f.image), f.ty)),
            };
            inside.saturating_add(f.size) <= o.size && holds
        });
        let id = outer.unwrap_or_else(|| {
            by_base.entry((f.process, f.base)).or_default().push(kept.len());
            kept.push(Found { rows: Vec::new(), ..f.clone() });
            kept.len() - 1
        });
        of_row.extend(f.rows.iter().map(|r| (*r, id)));
        kept[id].rows.extend(f.rows);
        kept[id].codes.extend(f.codes);
    }
    (kept, of_row)
}

/// Rows whose own code says nothing belong to the struct around them, when two pieces of code agree on it, or one and
/// the bytes are just those of a member, and no other struct is seen in the same place.
fn by_address(evidence: &Evidence, images: &Images, objects: &[Found], of_row: &mut HashMap<u32, usize>) {
    let mut sorted: Vec<usize> = (0..objects.len()).collect();
    sorted.sort_by_key(|i| (objects[*i].process, objects[*i].base));
    let mut clashes = vec![false; objects.len()];
    let mut reach: Option<(u32, u64, usize)> = None;
    for &i in &sorted {
        let o = &objects[i];
        if let Some((process, end, other)) = reach
            && process == o.process
            && o.base < end
        {
            (clashes[i], clashes[other]) = (true, true);
        }
        let end = o.base.saturating_add(o.size);
        if reach.is_none_or(|r| r.0 != o.process || r.1 < end) {
            reach = Some((o.process, end, i));
        }
    }
    for (row, s) in evidence.samples.iter().flatten().enumerate() {
        let Some(address) = address(evidence, s).filter(|_| !of_row.contains_key(&(row as u32))) else {
            continue;
        };
        let process = evidence.objects[s.object as usize].process;
        let key = |i: &usize| (objects[*i].process, objects[*i].base) <= (process, address);
        let Some(&i) = sorted.partition_point(key).checked_sub(1).and_then(|i| sorted.get(i)) else {
            continue;
        };
        let o = &objects[i];
        if o.process != process || address - o.base >= o.size || clashes[i] {
            continue;
        }
        let (at, size) = (address - o.base, u64::from(s.size));
        let fits = |l: &Leaf| (l.offset, l.size) == (at, size) && !l.overlaps && l.bits.is_none();
        let member =
            || leaves_within(&images.get(o.image).types, o.ty, Arrays::Whole, at..at + size).iter().any(fits);
        if o.codes.len() >= 2 || member() {
            of_row.insert(row as u32, i);
        }
    }
}

/// New objects; returns the object and offset of each row that lies in one.
fn add_objects(
    evidence: &mut Evidence,
    images: &Images,
    pending: &mut Pending,
    found: &[Found],
    of_row: &HashMap<u32, usize>,
) -> HashMap<u32, (u32, u64)> {
    let old = evidence.objects.len();
    let align = alignments(images, found);
    for f in found {
        let kind = if f.base >= KERNEL_START { ObjectKind::Slab } else { ObjectKind::Heap };
        evidence.objects.push(Object {
            ty: Some(pending.image(images, f.image, f.ty)),
            confidence: CONFIDENCE,
            basis: Some(Basis::Registers),
            why: f.why.clone(),
            align: align.get(&(f.image, f.ty)).copied().unwrap_or(1),
            ..Object::unnamed(f.process, kind, f.base, f.size)
        });
    }
    let samples = evidence.samples.as_deref().unwrap_or_default();
    let place = |(row, id): (&u32, &usize)| {
        let s = samples.get(*row as usize)?;
        let address = evidence.objects.get(s.object as usize)?.base.wrapping_add(s.offset);
        Some((*row, ((old + id) as u32, address.wrapping_sub(found[*id].base))))
    };
    of_row.iter().filter_map(place).collect()
}

/// Moves rows of samples, and the accesses and touches that say the same, to their new objects. Objects from `old` on
/// are new.
fn move_rows(evidence: &mut Evidence, of_row: &HashMap<u32, (u32, u64)>, old: usize) {
    if of_row.is_empty() {
        return;
    }
    let Evidence { samples, accesses, touches, rates, objects, .. } = evidence;
    let samples = samples.get_or_insert_default();
    let parallel = samples.len() == accesses.len();
    let mut moved: HashMap<(u32, u64, Option<u32>), (u32, u64)> = HashMap::new();
    let mut emptied = Pieces::new();
    for (row, s) in samples.iter_mut().enumerate() {
        let Some(to) = of_row.get(&(row as u32)).copied() else { continue };
        moved.insert((s.object, s.offset, s.code), to);
        emptied.entry(s.object).or_default();
        if parallel
            && let Some(a) = accesses.get_mut(row)
            && (a.object, a.offset) == (s.object, s.offset)
        {
            (a.object, a.offset) = to;
        }
        (s.object, s.offset) = to;
    }
    follow(rates, objects, old);
    for t in touches.iter_mut() {
        if let Some(to) = moved.get(&(t.object, t.offset, Some(t.code))) {
            (t.object, t.offset) = *to;
        }
    }
    retarget::drop_unused(evidence, &emptied, old);
}

/// Rates go with the memory that they are about. Objects from `old` on are new.
fn follow(rates: &mut Option<Vec<Rate>>, objects: &[Object], old: usize) {
    for r in rates.iter_mut().flatten() {
        let Some(page) = objects.get(r.object as usize).filter(|o| o.kind == ObjectKind::Unknown) else {
            continue;
        };
        let address = page.base.wrapping_add(r.offset);
        let holds = |o: &Object| {
            o.process == page.process
                && o.base <= address
                && address - o.base < o.size
                && o.base.saturating_add(o.size) >= address.saturating_add(u64::from(r.size))
        };
        if let Some(n) = objects.get(old..).and_then(|new| new.iter().position(holds)) {
            (r.object, r.offset) = ((old + n) as u32, address - objects[old + n].base);
        }
    }
}

/// What an allocator gives whoever asks: `malloc` of 64-bit systems, a slab of the kernel.
const GIVEN_ALIGN: [u64; 2] = [16, 8];
/// Bits of the alignment of a line.
const LINE_BITS: u32 = 6;
/// Objects lie by luck where they are this often, to the power of two: less often than once in 128, the allocator keeps
/// to it.
const LUCK_BITS: u32 = 7;

/// To how many bytes the objects of each type are aligned: by the type itself, or as far as all their addresses show
/// more than luck does. One object at the begin of a line lies elsewhere in the next run.
fn alignments(images: &Images, found: &[Found]) -> HashMap<(ImageId, TypeId), u64> {
    let mut all: HashMap<(ImageId, TypeId), BTreeSet<u64>> = HashMap::new();
    for f in found {
        all.entry((f.image, f.ty)).or_default().insert(f.base);
    }
    let judged = |((image, ty), bases): ((ImageId, TypeId), BTreeSet<u64>)| {
        ((image, ty), alignment(&bases, align_of(&images.get(image).types, ty)))
    };
    all.into_iter().map(judged).collect()
}

/// Of objects at these addresses, of a type that asks for `own`.
fn alignment(bases: &BTreeSet<u64>, own: u64) -> u64 {
    let shown = bases.iter().fold(0, |bits, base| bits | base).trailing_zeros().min(LINE_BITS);
    let kernel = bases.first().is_some_and(|b| *b >= KERNEL_START);
    let given = GIVEN_ALIGN[usize::from(kernel)].trailing_zeros();
    let count = u32::try_from(bases.len()).unwrap_or(u32::MAX);
    // Each object halves the odds of every bit beyond what is given anyway.
    let more = shown.saturating_sub(given);
    let sure = (0..=more).rev().find(|bits| *bits == 0 || bits.saturating_mul(count) >= LUCK_BITS);
    let align = 1u64 << shown.min(given + sure.unwrap_or(0));
    align.max(own.min(1 << shown))
}

#[cfg(test)]
mod tests {
    use super::alignment;

    #[test]
    fn one_object_at_the_begin_of_a_line_lies_there_by_luck() {
        let of = |bases: &[u64], own| alignment(&bases.iter().copied().collect(), own);
        assert_eq!(of(&[0x1000], 8), 16);
        assert_eq!(of(&[0x1000], 64), 64, "the type asks for it");
        assert_eq!(of(&[0x1000, 0x1040, 0x1080], 8), 16, "three of them: once in 64 by luck");
        assert_eq!(of(&[0x1000, 0x1040, 0x1080, 0x1100], 8), 64);
        assert_eq!(of(&[0x1000, 0x1018], 8), 8, "memory of the program's own");
        let kernel = 1 << 63;
        assert_eq!(of(&[kernel + 0x40], 8), 8);
    }
}
