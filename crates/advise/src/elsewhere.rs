//! Where the bytes of recorded objects would lie in another layout: after moves, or in another build.

use std::collections::{HashMap, HashSet};

use tussle_evidence::{Evidence, Object};
use tussle_model::leaf::{Arrays, Leaf, leaf_at, leaves};
use tussle_model::{TypeId, TypeTable};

use crate::abi::Shapes;
use crate::cost::from_c_heap;
use crate::edit::Edit;
use crate::holders::{PLACES_MAX, places};
use crate::relayout::{Relayout, RelayoutError};

/// Another layout of recorded objects.
pub trait Elsewhere {
    /// What is changed, in words.
    fn words(&self) -> String;
    /// Address of byte `offset` of object `id`; `None` for a field that the layout has not.
    fn address(&self, id: u32, offset: u64) -> Option<u64>;
    /// The change reaches objects like this one.
    fn reaches(&self, object: &Object) -> bool;
}

/// Why objects cannot be followed into another layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElsewhereError {
    /// No object has the type.
    #[error("no recorded object has or holds the type `{0}`{1}")]
    NoSuchType(String, String),
    /// The moves do not apply.
    #[error(transparent)]
    Relayout(#[from] RelayoutError),
    /// A type holds the changed one too often.
    #[error("{0} holds {1} at more than {PLACES_MAX} places, or is nested too deep")]
    TooMany(String, String),
    /// The ordered log is of other objects.
    #[error(
        "the ordered log holds no accesses to {0}: it covers the objects of the hottest lines only, so nothing can be \
         said of this change"
    )]
    NotLogged(String),
    /// The other build has no type in common.
    #[error("none of the recorded types is in there")]
    NothingInCommon,
}

fn no_such_type(evidence: &Evidence, name: &str) -> ElsewhereError {
    ElsewhereError::NoSuchType(name.into(), crate::named::close_to(evidence, name))
}

/// What a user asks: `TYPE: MOVE; MOVE`.
#[derive(Clone, Debug)]
pub struct Change {
    type_name: String,
    edits: Vec<Edit>,
}

impl Change {
    /// Edits of one struct.
    pub fn new(type_name: &str, edits: &[Edit]) -> Change {
        Change { type_name: type_name.into(), edits: edits.to_vec() }
    }
}

impl std::str::FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Change, String> {
        let how = "write `TYPE: MOVE; MOVE`, a MOVE as of `tussle fix --move`";
        let (name, moves) = text.split_once(": ").ok_or(how)?;
        let moves = moves.split(';').map(str::trim).filter(|m| !m.is_empty());
        let edits: Vec<Edit> =
            moves.map(|m| m.parse().map_err(|e| format!("{e}"))).collect::<Result<_, _>>()?;
        let places = edits.iter().filter(|e| matches!(e, Edit::Place { .. })).count();
        match (edits.len(), places) {
            (0, _) => Err(how.into()),
            (n, p) if p > 0 && p < n => Err("FIELD@OFFSET does not go together with other moves".into()),
            _ => Ok(Change { type_name: name.trim().into(), edits }),
        }
    }
}

/// Objects after moves of one struct's members.
pub struct Moved<'a> {
    evidence: &'a Evidence,
    relayout: Relayout<'a>,
    /// Types that are the struct or hold it.
    inside: HashSet<TypeId>,
    words: String,
}

impl<'a> Moved<'a> {
    /// Follows `change`; `shapes` are those of the evidence's types.
    ///
    /// # Errors
    /// The type or a field is not there, or the change cannot be followed, or the ordered log knows nothing of it.
    pub fn new(
        evidence: &'a Evidence,
        shapes: &'a Shapes<'a>,
        change: &Change,
    ) -> Result<Moved<'a>, ElsewhereError> {
        let types = &evidence.types;
        let target = types.find(&change.type_name);
        let target = target.ok_or_else(|| no_such_type(evidence, &change.type_name))?;
        let relayout = Relayout::new(shapes, target, &change.edits)?;
        let inside = holders(evidence, target)?;
        if !logged(evidence, &inside) {
            return Err(ElsewhereError::NotLogged(types.name(target)));
        }
        let words: Vec<String> = change.edits.iter().map(Edit::sentence).collect();
        let words = format!("{}: {}", types.name(target), words.join("; "));
        Ok(Moved { evidence, relayout, inside, words })
    }
}

/// Types of objects that are `target` or hold it by value.
fn holders(e: &Evidence, target: TypeId) -> Result<HashSet<TypeId>, ElsewhereError> {
    let name = |ty| e.types.name(ty);
    let mut inside = HashSet::new();
    for ty in e.objects.iter().filter_map(|o| o.ty).collect::<HashSet<_>>() {
        let at = places(&e.types, target, ty);
        if !at.ok_or_else(|| ElsewhereError::TooMany(name(ty), name(target)))?.is_empty() {
            inside.insert(ty);
        }
    }
    Ok(inside)
}

/// The ordered log, if there is one, holds an access to an object of these types.
fn logged(e: &Evidence, inside: &HashSet<TypeId>) -> bool {
    let Some(order) = &e.order else { return true };
    let objects = order.iter().flat_map(|t| &t.visits).filter_map(|v| e.objects.get(v.0 as usize));
    objects.filter_map(|o| o.ty).any(|t| inside.contains(&t))
}

impl Elsewhere for Moved<'_> {
    fn words(&self) -> String {
        self.words.clone()
    }

    fn address(&self, id: u32, offset: u64) -> Option<u64> {
        let o = self.evidence.objects.get(id as usize)?;
        let Some(ty) = o.ty.filter(|t| self.inside.contains(t)) else { return o.base.checked_add(offset) };
        let stride = self.evidence.types.size(ty).filter(|s| *s > 0)?;
        let (element, at) = if o.count > 1 { (offset / stride, offset % stride) } else { (0, offset) };
        let new_stride = self.relayout.size(ty).ok().flatten().unwrap_or(stride);
        let moved = self.relayout.translate(ty, at).ok()?;
        let block = self.relayout.heap_block(ty).filter(|_| from_c_heap(o));
        let same = stride == new_stride && block.is_none();
        let base = block.map_or(base(o, same), |b| base(o, same) / b * b);
        base.checked_add(element.checked_mul(new_stride)?)?.checked_add(moved)
    }

    fn reaches(&self, object: &Object) -> bool {
        object.ty.is_some_and(|t| self.inside.contains(&t))
    }
}

/// Objects with the layouts that another build gives to their types.
pub struct OtherBuild<'a> {
    evidence: &'a Evidence,
    maps: HashMap<TypeId, Mapped>,
    words: String,
}

impl<'a> OtherBuild<'a> {
    /// Names of the recorded types, which the other build should have.
    pub fn wanted(evidence: &Evidence) -> Vec<String> {
        types(evidence).into_iter().filter_map(|t| bare(&evidence.types, t)).collect()
    }

    /// Maps every recorded type that `other`, called `label`, has by name.
    ///
    /// # Errors
    /// [`ElsewhereError::NothingInCommon`].
    pub fn new(
        evidence: &'a Evidence,
        other: &TypeTable,
        label: &str,
    ) -> Result<OtherBuild<'a>, ElsewhereError> {
        let all = types(evidence);
        let map = |&ty: &TypeId| {
            let new = other.find(&bare(&evidence.types, ty)?)?;
            Some((ty, Mapped::new(&evidence.types, ty, other, new)))
        };
        let maps: HashMap<TypeId, Mapped> = all.iter().filter_map(map).collect();
        if maps.is_empty() {
            return Err(ElsewhereError::NothingInCommon);
        }
        let changed = maps.values().filter(|m| m.differs).count();
        let words = format!("layouts of {label}: {changed} of {} recorded types differ", maps.len());
        Ok(OtherBuild { evidence, maps, words })
    }
}

/// Types of the recorded objects, each once.
fn types(e: &Evidence) -> Vec<TypeId> {
    let mut types: Vec<TypeId> = e.objects.iter().filter_map(|o| o.ty).collect();
    types.sort_unstable_by_key(|t| t.0);
    types.dedup();
    types
}

/// Name of a struct, class or union without its keyword.
fn bare(table: &TypeTable, ty: TypeId) -> Option<String> {
    table.aggregate(ty).and_then(|a| a.name.clone())
}

impl Elsewhere for OtherBuild<'_> {
    fn words(&self) -> String {
        self.words.clone()
    }

    fn address(&self, id: u32, offset: u64) -> Option<u64> {
        let o = self.evidence.objects.get(id as usize)?;
        match o.ty.and_then(|t| self.maps.get(&t)).filter(|_| o.count <= 1) {
            Some(m) => base(o, m.same_size).checked_add(m.at(offset)?),
            None => o.base.checked_add(offset),
        }
    }

    fn reaches(&self, object: &Object) -> bool {
        object.ty.and_then(|t| self.maps.get(&t)).is_some_and(|m| m.differs)
    }
}

/// Where an object begins: a resized one gets room of its own, in the same phase.
fn base(o: &Object, same_size: bool) -> u64 {
    const ROOM: u64 = 1024;
    const PAGE: u64 = 4096;
    match same_size {
        true => o.base,
        false => (o.base & 0xffff_ffff_ffff) * ROOM + o.base % PAGE,
    }
}

/// One type in the other file.
struct Mapped {
    old: Vec<Leaf>,
    new: HashMap<String, u64>,
    same_size: bool,
    differs: bool,
}

impl Mapped {
    fn new(table: &TypeTable, ty: TypeId, other: &TypeTable, new_ty: TypeId) -> Mapped {
        let old = leaves(table, ty, Arrays::Whole);
        let new: HashMap<String, u64> =
            leaves(other, new_ty, Arrays::Whole).into_iter().map(|l| (l.path, l.offset)).collect();
        let same_size = table.size(ty) == other.size(new_ty);
        let differs = !same_size || old.iter().any(|l| new.get(&l.path) != Some(&l.offset));
        Mapped { old, new, same_size, differs }
    }

    /// The byte's new offset. Of a union's members, the first that the other file has decides.
    fn at(&self, offset: u64) -> Option<u64> {
        let known = self.old.iter().filter(|l| l.offset <= offset && offset < l.end());
        let known = known.min_by_key(|l| (!self.new.contains_key(&l.path), l.offset != offset, l.size));
        // Bytes behind a struct, and padding, stay.
        let Some(leaf) = known else { return leaf_at(&self.old, offset).is_none().then_some(offset) };
        self.new.get(&leaf.path).and_then(|at| at.checked_add(offset - leaf.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_as_they_are_written() {
        let parse = |t: &str| t.parse::<Change>().map(|c| (c.type_name, c.edits));
        assert_eq!(parse("mm_struct: mmap_lock:first").unwrap().1.len(), 1);
        assert_eq!(
            parse("mm_struct: mmap_lock.owner@192; map_count@0").unwrap().1,
            ["mmap_lock.owner@192".parse().unwrap(), "map_count@0".parse().unwrap()]
        );
        for wrong in ["mm_struct", "mm_struct: ", "mm_struct: a@b", "mm_struct: what", "t: a:first; b@3"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
