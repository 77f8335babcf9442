//! What a layout costs: the classifier's objective (stores that find the line elsewhere, and read copies lost) of the
//! recorded accesses under it, at every phase it allows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tussle_contention::objective::transfers;
use tussle_contention::window::{Piece, line_e};
use tussle_evidence::tables::MALLOC_ALIGN;
use tussle_evidence::{Object, ObjectKind};
use tussle_model::{Language, MemberRole, Type, TypeId, TypeTable};

use crate::relayout::{Relayout, RelayoutError};
use crate::scene::{Cluster, Hit, Scene};

/// Where bytes of objects lie under a layout.
pub trait Layout {
    /// New offset of byte `offset` of one object of type `ty`.
    fn translate(&self, ty: TypeId, offset: u64) -> Result<u64, RelayoutError>;
    /// Size of `ty` in bytes.
    fn size(&self, ty: TypeId) -> Result<Option<u64>, RelayoutError>;
    /// Alignment of `ty` in bytes.
    fn align(&self, ty: TypeId) -> Result<u64, RelayoutError>;
    /// The same where the layout raises it, so that allocations are changed with it; else 1.
    fn raised_align(&self, ty: TypeId) -> Result<u64, RelayoutError> {
        self.align(ty)
    }
    /// Bytes of the blocks in which the heap gives objects of `ty`, where the layout says so.
    fn heap_block(&self, _ty: TypeId) -> Option<u64> {
        None
    }
    /// How a variable lies that is changed by itself.
    fn variable(&self, _object: &Object) -> Option<Variable> {
        None
    }
}

/// A variable that begins on a multiple of `align` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Bytes.
    pub align: u64,
    /// Bytes from element to element of an array, before and after.
    pub stride: Option<(u64, u64)>,
}

impl Variable {
    /// Its bytes, of `size` before.
    pub fn size(&self, size: u64) -> u64 {
        self.offset(size)
    }

    /// Where byte `offset` lies.
    pub fn offset(&self, offset: u64) -> u64 {
        match self.stride {
            Some((old, new)) if old > 0 => (offset / old).saturating_mul(new).saturating_add(offset % old),
            _ => offset,
        }
    }
}

impl Layout for Relayout<'_> {
    fn translate(&self, ty: TypeId, offset: u64) -> Result<u64, RelayoutError> {
        Relayout::translate(self, ty, offset)
    }

    fn size(&self, ty: TypeId) -> Result<Option<u64>, RelayoutError> {
        Relayout::size(self, ty)
    }

    fn align(&self, ty: TypeId) -> Result<u64, RelayoutError> {
        Relayout::align(self, ty)
    }

    fn raised_align(&self, ty: TypeId) -> Result<u64, RelayoutError> {
        Relayout::raised_align(self, ty)
    }

    fn heap_block(&self, ty: TypeId) -> Option<u64> {
        Relayout::heap_block(self, ty)
    }
}

/// Stores that find the line elsewhere and copies lost, over the phases of one layout. Comparable within one evidence
/// only.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// At the recorded addresses.
    pub observed: f64,
    /// Mean over all phases.
    pub mean: f64,
    /// At the worst phase.
    pub worst: f64,
    /// Number of phases of the cluster with the most.
    pub phases: u32,
    /// Lines that one actor touches, mean over actors and phases: what the layout costs without contention.
    pub lines_per_actor: f64,
}

/// Pairs of fields, and parts of true and false sharing, at the recorded addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sharing {
    /// Fields of different actors, at least one written, that share a line in some phase.
    pub pairs: BTreeSet<(String, String)>,
    /// Expected invalidations between actors on the same bytes: no layout helps.
    pub e_true: f64,
    /// The rest.
    pub e_false: f64,
    /// Fields of which other actors' accesses cost most, with their expected invalidations, in falling order.
    pub hottest: Vec<(String, f64)>,
}

/// A cluster as placed by a layout.
struct Placed {
    /// New base of every object when the first one keeps its place.
    bases: Vec<u64>,
    /// New offset of every hit in its object.
    offsets: Vec<u64>,
    /// The cluster moves in steps of this.
    align: u64,
}

impl Scene<'_> {
    /// Evaluates a layout.
    pub fn cost(&self, layout: &dyn Layout) -> Result<Cost, RelayoutError> {
        let mut total = Cost::default();
        let mut lines = BTreeMap::new();
        for cluster in &self.clusters {
            let placed = self.place(cluster, layout)?;
            let shifts = self.shifts(&placed);
            let (mut sum, mut worst) = (0.0, 0.0f64);
            for (n, shift) in shifts.iter().enumerate() {
                let buckets = self.buckets(cluster, &placed, *shift);
                let mut e = 0.0;
                for pieces in buckets.values() {
                    e += self.share_of_target(pieces);
                }
                if n == 0 {
                    total.observed += e;
                }
                sum += e;
                worst = worst.max(e);
                count_lines(&buckets, shifts.len(), &mut lines);
            }
            total.mean += sum / shifts.len() as f64;
            total.worst += worst;
            total.phases = total.phases.max(shifts.len() as u32);
        }
        for sum in [&mut total.observed, &mut total.mean, &mut total.worst] {
            *sum *= self.scale;
        }
        if !lines.is_empty() {
            total.lines_per_actor = lines.values().sum::<f64>() / lines.len() as f64;
        }
        Ok(total)
    }

    /// Names who shares with whom under a layout.
    pub fn sharing(&self, layout: &dyn Layout) -> Result<Sharing, RelayoutError> {
        let mut out = Sharing::default();
        let mut hot: HashMap<u32, f64> = HashMap::new();
        let mut pairs: HashSet<(u32, u32)> = HashSet::new();
        for cluster in &self.clusters {
            let placed = self.place(cluster, layout)?;
            for (n, shift) in self.shifts(&placed).into_iter().enumerate() {
                for pieces in self.buckets(cluster, &placed, shift).values() {
                    sharing_pairs(pieces, &mut pairs);
                    if n == 0 && pieces.iter().any(|p| self.is_own(p.part)) {
                        let e = line_e(pieces, self.evidence.run.window_vt, &|actor| actor);
                        out.e_true += e.e_true;
                        out.e_false += e.e_false + e.e_mixed;
                        for (writer, victim, e) in e.pairs {
                            *hot.entry(writer).or_default() += e;
                            *hot.entry(victim).or_default() += e;
                        }
                    }
                }
            }
        }
        let name = |f: u32| self.fields.get(f as usize).cloned().unwrap_or_default();
        pairs.retain(|(a, b)| self.is_own(*a) || self.is_own(*b));
        let named = pairs.into_iter().map(|(a, b)| ordered(name(a), name(b)));
        out.pairs = named.filter(|(a, b)| a != b).collect();
        out.e_true *= self.scale;
        out.e_false *= self.scale;
        out.hottest = hot.into_iter().map(|(f, e)| (name(f), e * self.scale)).collect();
        out.hottest.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        Ok(out)
    }

    /// What the target's accesses add to a line: everything on it less what its neighbours cost among themselves. So
    /// an edit is neither blamed nor praised for what happens without it.
    fn share_of_target(&self, pieces: &[Piece]) -> f64 {
        let others: Vec<Piece> = pieces.iter().filter(|p| !self.is_own(p.part)).copied().collect();
        if others.len() == pieces.len() {
            return 0.0;
        }
        let cost = |pieces: &[Piece]| transfers(pieces, self.evidence.run.window_vt).total();
        (cost(pieces) - cost(&others)).max(0.0)
    }

    fn is_own(&self, field: u32) -> bool {
        self.own.get(field as usize).copied().unwrap_or(false)
    }

    /// Offsets in objects of the target's members that take part in contention, for the choice of candidates.
    pub(crate) fn hot_bytes(&self) -> Vec<(TypeId, u64, f64)> {
        let mut out: HashMap<(TypeId, u64), f64> = HashMap::new();
        for cluster in &self.clusters {
            for hit in &cluster.hits {
                let object = self.object(cluster, hit.slot);
                let Some(ty) = object.ty else { continue };
                let size = self.evidence.types.size(ty).unwrap_or(0).max(1);
                *out.entry((ty, hit.offset % size)).or_default() += hit.reads + 4.0 * (hit.writes + hit.rmws);
            }
        }
        let mut out: Vec<_> = out.into_iter().map(|((t, o), n)| (t, o, n)).collect();
        out.sort_unstable_by(|a, b| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1))));
        out
    }

    fn object(&self, cluster: &Cluster, slot: u32) -> &Object {
        &self.evidence.objects[cluster.objects[slot as usize] as usize]
    }

    fn place(&self, cluster: &Cluster, layout: &dyn Layout) -> Result<Placed, RelayoutError> {
        let mut bases = Vec::with_capacity(cluster.objects.len());
        let mut align = 1;
        // Old and new end of the object that reaches farthest.
        let mut reach: Option<(u64, u64)> = None;
        for (slot, &id) in cluster.objects.iter().enumerate() {
            let o = self.object(cluster, slot as u32);
            let needs = self.object_align(o, layout)?;
            align = needs.max(align);
            let old = if self.evidence.run.sees.phases { o.base } else { o.base - o.base % self.line };
            let base = match reach {
                // Memory that was freed and used again, or a gap to keep.
                Some((old_end, new_end)) if old >= old_end => new_end + (old - old_end),
                Some((old_end, new_end)) => new_end - (old_end - old).min(new_end),
                None => old,
            };
            let base = base.div_ceil(needs).saturating_mul(needs);
            let size = self.object_size(id, layout)?;
            let ends = (old.saturating_add(o.size), base.saturating_add(size));
            if reach.is_none_or(|r| ends.0 >= r.0) {
                reach = Some(ends);
            }
            bases.push(base);
        }
        let mut cache: HashMap<(TypeId, u64), u64> = HashMap::new();
        let mut offsets = Vec::with_capacity(cluster.hits.len());
        for hit in &cluster.hits {
            offsets.push(self.hit_offset(cluster, hit, layout, &mut cache)?);
        }
        Ok(Placed { bases, offsets, align })
    }

    fn hit_offset(
        &self,
        cluster: &Cluster,
        hit: &Hit,
        layout: &dyn Layout,
        cache: &mut HashMap<(TypeId, u64), u64>,
    ) -> Result<u64, RelayoutError> {
        let o = self.object(cluster, hit.slot);
        if let Some(variable) = layout.variable(o) {
            return Ok(variable.offset(hit.offset));
        }
        let Some(ty) = o.ty else { return Ok(hit.offset) };
        let old = self.evidence.types.size(ty).unwrap_or(0);
        if old == 0 {
            return Ok(hit.offset);
        }
        if hit.offset >= old && elements(o, old) == 1 && ends_open(&self.evidence.types, ty) {
            return layout.translate(ty, hit.offset);
        }
        let inner = hit.offset % old;
        let new_inner = match cache.get(&(ty, inner)) {
            Some(n) => *n,
            None => {
                let n = layout.translate(ty, inner)?;
                cache.insert((ty, inner), n);
                n
            }
        };
        let new = layout.size(ty)?.unwrap_or(old);
        let elements = elements(o, old);
        if hit.offset / old < elements {
            return Ok((hit.offset / old).saturating_mul(new).saturating_add(new_inner));
        }
        let beyond = hit.offset - elements.saturating_mul(old);
        Ok(elements.saturating_mul(new).saturating_add(beyond))
    }

    /// New size of an object: its elements, plus what it had beyond them. What only fills up a line that was asked for
    /// is filled up anew, and what nobody uses of a block of so many bytes is room to grow.
    pub(crate) fn object_size(&self, object: u32, layout: &dyn Layout) -> Result<u64, RelayoutError> {
        let o = &self.evidence.objects[object as usize];
        if let Some(variable) = layout.variable(o) {
            return Ok(variable.size(o.size));
        }
        let Some(ty) = o.ty else { return Ok(o.size) };
        let old = self.evidence.types.size(ty).unwrap_or(0);
        if old == 0 {
            return Ok(o.size);
        }
        let new = layout.size(ty)?.unwrap_or(old);
        let count = elements(o, old);
        if count == 1 && o.size > old && ends_open(&self.evidence.types, ty) {
            return layout.translate(ty, o.size);
        }
        let beyond = o.size.saturating_sub(count.saturating_mul(old));
        let size = match filled_up(o, old) {
            _ if self.is_roomy(object) => count.saturating_mul(new).max(o.size),
            Some(line) => new.div_ceil(line).saturating_mul(line),
            None => count.saturating_mul(new).saturating_add(beyond),
        };
        Ok(heap_block(o, layout).map_or(size, |block| size.div_ceil(block).saturating_mul(block)))
    }

    /// Alignment that the object really gets: an allocator that was not asked gives what it always gives.
    fn object_align(&self, o: &Object, layout: &dyn Layout) -> Result<u64, RelayoutError> {
        let given = o.align.max(1).next_power_of_two().min(1 << 20);
        let given = given.max(heap_block(o, layout).unwrap_or(1));
        let given = given.max(layout.variable(o).map_or(1, |v| v.align));
        let Some(ty) = o.ty.filter(|ty| honours_alignment(o, self.language(*ty))) else { return Ok(given) };
        // C's `malloc` knows nothing of what the type has asked for all along.
        let by_c = from_c_heap(o) && self.language(ty) != Language::Rust;
        Ok(given.max(if by_c { layout.raised_align(ty)? } else { layout.align(ty)? }))
    }

    fn language(&self, ty: TypeId) -> Language {
        language(&self.evidence.types, ty).unwrap_or(Language::C)
    }

    fn shifts(&self, placed: &Placed) -> Vec<u64> {
        let step = placed.align.clamp(1, self.line);
        (0..self.line / step).map(|n| n * step).collect()
    }

    /// Pieces by line, in order: sums over lines are the same to the last bit in every run.
    fn buckets(&self, cluster: &Cluster, placed: &Placed, shift: u64) -> BTreeMap<u64, Vec<Piece>> {
        let mut out: BTreeMap<u64, Vec<Piece>> = BTreeMap::new();
        for (hit, offset) in cluster.hits.iter().zip(&placed.offsets) {
            let mut at = placed.bases[hit.slot as usize].saturating_add(*offset).saturating_add(shift);
            let end = at.saturating_add(u64::from(hit.size));
            while at < end {
                let line = at / self.line;
                let stop = end.min((line + 1).saturating_mul(self.line)).max(at + 1);
                out.entry(line).or_default().push(Piece {
                    actor: hit.actor,
                    part: hit.field,
                    first: (at % self.line) as u32,
                    size: (stop - at) as u32,
                    vt0: hit.vt0,
                    vt1: hit.vt1,
                    reads: hit.reads,
                    writes: hit.writes,
                    rmws: hit.rmws,
                    under: hit.under,
                });
                at = stop;
            }
        }
        out
    }
}

/// A struct whose last member is an array without a length: what is behind the struct are its elements.
pub(crate) fn ends_open(types: &TypeTable, ty: TypeId) -> bool {
    let last = types
        .aggregate(types.strip(ty))
        .and_then(|a| a.members.iter().rfind(|m| m.role == MemberRole::Field));
    let array = last.map(|m| types.get(types.strip(m.ty)));
    matches!(array, Some(Type::Array { counts, .. }) if counts.iter().any(|c| c.is_none_or(|n| n == 0)))
}

/// Elements of so many bytes that an object holds.
pub(crate) fn elements(o: &Object, bytes: u64) -> u64 {
    o.count.clamp(1, (o.size / bytes.max(1)).max(1))
}

/// The line that a block of one struct was filled up to: `aligned_alloc(64, round_up(sizeof(x), 64))`.
fn filled_up(o: &Object, bytes: u64) -> Option<u64> {
    let asked = o.kind == ObjectKind::Heap && o.align > MALLOC_ALIGN && o.count <= 1;
    let line = Some(o.align).filter(|_| asked && o.size > bytes)?;
    (o.size == bytes.div_ceil(line).checked_mul(line)?).then_some(line)
}

/// Whole blocks of so many bytes in which `o` is allocated under a layout: only C's functions can be told.
fn heap_block(o: &Object, layout: &dyn Layout) -> Option<u64> {
    o.ty.filter(|_| from_c_heap(o)).and_then(|ty| layout.heap_block(ty))
}

/// Whether `o` comes from a function of C's heap that a patch can replace ([`crate::patch::alloc`]).
pub fn from_c_heap(o: &Object) -> bool {
    let replaced = |a: &str| matches!(a, "malloc" | "calloc" | "realloc");
    o.kind == ObjectKind::Heap && o.allocator.as_deref().is_some_and(replaced)
}

/// Language of a struct, or of the struct of an array's elements.
pub(crate) fn language(types: &TypeTable, ty: TypeId) -> Option<Language> {
    types.aggregate(types.element(ty)).map(|a| a.language)
}

/// Whether whoever allocates `o` aligns it as its type asks: the linker, Rust and C++17's `new` do, C's `malloc` does
/// where a patch of the type changes the allocation, too, which takes a `sizeof` to be found by.
pub fn honours_alignment(o: &Object, language: Language) -> bool {
    match o.kind {
        // Its containers ask for the alignment of their elements.
        ObjectKind::Heap if language == Language::Rust => true,
        ObjectKind::Global | ObjectKind::Tls | ObjectKind::Stack | ObjectKind::Slab | ObjectKind::PerCpu => {
            true
        }
        ObjectKind::Mapped => true,
        ObjectKind::Heap => {
            let by_new = o.allocator.as_deref().is_some_and(|a| a.contains("new") || a.starts_with("_Zn"));
            (language == Language::Cpp && by_new)
                || (from_c_heap(o) && o.basis == Some(tussle_evidence::Basis::Sizeof))
        }
        ObjectKind::Unknown => false,
    }
}

fn count_lines(buckets: &BTreeMap<u64, Vec<Piece>>, shifts: usize, lines: &mut BTreeMap<u32, f64>) {
    for pieces in buckets.values() {
        let actors: HashSet<u32> = pieces.iter().map(|p| p.actor).collect();
        for actor in actors {
            *lines.entry(actor).or_default() += 1.0 / shifts as f64;
        }
    }
}

/// Pairs of parts in one line of different actors, at least one of which writes.
fn sharing_pairs(pieces: &[Piece], pairs: &mut HashSet<(u32, u32)>) {
    // Per part: an actor that touches it, whether more do, and whether anybody writes.
    let mut parts: Vec<(u32, u32, bool, bool)> = Vec::new();
    for p in pieces {
        match parts.iter_mut().find(|x| x.0 == p.part) {
            Some(x) => {
                x.2 |= x.1 != p.actor;
                x.3 |= p.stores() > 0.0;
            }
            None => parts.push((p.part, p.actor, false, p.stores() > 0.0)),
        }
    }
    for (i, a) in parts.iter().enumerate() {
        for b in &parts[i + 1..] {
            let different = a.2 || b.2 || a.1 != b.1;
            if different && (a.3 || b.3) {
                pairs.insert((a.0.min(b.0), a.0.max(b.0)));
            }
        }
    }
}

fn ordered(a: String, b: String) -> (String, String) {
    if a <= b { (a, b) } else { (b, a) }
}
