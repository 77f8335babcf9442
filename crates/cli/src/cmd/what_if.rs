//! `tussle report --what-if` and `--layout`: where the bytes of objects would lie.

use crate::cmd::source::Source;
use crate::global::Global;
use anyhow::{Context, bail};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use tussle_advise::Edit;
use tussle_advise::abi::Shapes;
use tussle_advise::relayout::Relayout;
use tussle_evidence::{Evidence, Object};
use tussle_model::leaf::{Arrays, DEPTH_MAX, Leaf, leaf_at, leaves};
use tussle_model::{Type, TypeId, TypeTable};
use tussle_render::View;
use tussle_report::Options;
use tussle_report::what_if::{Question, what_if};

/// Places of one struct in another that are followed.
const PLACES_MAX: usize = 4096;

/// Types entered in search of them.
const SEARCHED_MAX: usize = 100_000;

/// What a user asks: `TYPE: MOVE; MOVE`.
#[derive(Clone, Debug)]
pub struct Change {
    type_name: String,
    edits: Vec<Edit>,
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

fn answer(e: &Evidence, options: &Options, question: &Question) -> anyhow::Result<View> {
    what_if(e, options, question).context(
        "this evidence holds no ordered log of accesses: `tussle record-kernel` writes one (unless --ops made it too \
         long)",
    )
}

/// The report of a change.
///
/// # Errors
/// The type or a field is not there, or the change cannot be followed.
pub fn of_change(e: &Evidence, options: &Options, change: &Change) -> anyhow::Result<View> {
    let target = e
        .types
        .find(&change.type_name)
        .with_context(|| format!("no recorded object has or holds the type `{}`", change.type_name))?;
    let shapes = Shapes::new(&e.types);
    let relayout = Relayout::new(&shapes, target, &change.edits)?;
    let mut inside: HashSet<TypeId> = HashSet::new();
    for ty in e.objects.iter().filter_map(|o| o.ty).collect::<HashSet<_>>() {
        let at = Search::new(&e.types, target).places(ty).with_context(|| {
            let name = e.types.name(ty);
            format!(
                "{name} holds {} at more than {PLACES_MAX} places, or is nested too deep",
                change.type_name
            )
        })?;
        if !at.is_empty() {
            inside.insert(ty);
        }
    }
    let logged = e.order.iter().flatten().flat_map(|t| &t.visits).filter_map(|v| e.objects.get(v.0 as usize));
    if e.order.is_some() && !logged.filter_map(|o| o.ty).any(|t| inside.contains(&t)) {
        bail!(
            "the ordered log holds no accesses to {}: it covers the objects of the hottest lines only, so nothing can \
             be said of this change",
            e.types.name(target)
        );
    }
    let address = |id: u32, offset: u64| {
        let o = e.objects.get(id as usize)?;
        let Some(ty) = o.ty.filter(|t| inside.contains(t)) else { return o.base.checked_add(offset) };
        let stride = e.types.size(ty).filter(|s| *s > 0)?;
        let (element, at) = if o.count > 1 { (offset / stride, offset % stride) } else { (0, offset) };
        let new_stride = relayout.size(ty).ok().flatten().unwrap_or(stride);
        let moved = relayout.translate(ty, at).ok()?;
        base(o, stride == new_stride).checked_add(element.checked_mul(new_stride)?)?.checked_add(moved)
    };
    let words: Vec<String> = change.edits.iter().map(Edit::sentence).collect();
    let change = format!("{}: {}", e.types.name(target), words.join("; "));
    let reaches = |o: &Object| o.ty.is_some_and(|t| inside.contains(&t));
    answer(e, options, &Question { change, address: &address, reaches: &reaches })
}

/// The report with the layouts of another file.
///
/// # Errors
/// The file cannot be read, or has none of the types.
pub fn of_file(e: &Evidence, options: &Options, path: &Path, global: &Global) -> anyhow::Result<View> {
    let mut types: Vec<TypeId> = e.objects.iter().filter_map(|o| o.ty).collect();
    types.sort_unstable_by_key(|t| t.0);
    types.dedup();
    let bare = |ty: TypeId| e.types.aggregate(ty).and_then(|a| a.name.clone());
    let names: Vec<String> = types.iter().filter_map(|t| bare(*t)).collect();
    let other = Source::open(path, &names, global)?;
    let mut maps: HashMap<TypeId, Mapped> = HashMap::new();
    for &ty in &types {
        if let Some(new) = bare(ty).and_then(|n| other.table.find(&n)) {
            maps.insert(ty, Mapped::new(&e.types, ty, &other.table, new));
        }
    }
    if maps.is_empty() {
        bail!("{}: none of the recorded types is in there", path.display());
    }
    let address = |id: u32, offset: u64| {
        let o = e.objects.get(id as usize)?;
        match o.ty.and_then(|t| maps.get(&t)).filter(|_| o.count <= 1) {
            Some(m) => base(o, m.same_size).checked_add(m.at(offset)?),
            None => o.base.checked_add(offset),
        }
    };
    let changed = maps.values().filter(|m| m.differs).count();
    let change = format!("layouts of {}: {changed} of {} recorded types differ", path.display(), maps.len());
    let reaches = |o: &Object| o.ty.and_then(|t| maps.get(&t)).is_some_and(|m| m.differs);
    answer(e, options, &Question { change, address: &address, reaches: &reaches })
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

/// Where objects of a type hold the target by value.
struct Search<'a> {
    table: &'a TypeTable,
    target: TypeId,
    places: Vec<u64>,
    entered: usize,
}

impl<'a> Search<'a> {
    fn new(table: &'a TypeTable, target: TypeId) -> Search<'a> {
        Search { table, target: table.strip(target), places: Vec::new(), entered: 0 }
    }

    /// `None` when there are too many.
    fn places(mut self, ty: TypeId) -> Option<Vec<u64>> {
        self.enter(ty, 0, 0)?;
        Some(self.places)
    }

    fn enter(&mut self, ty: TypeId, at: u64, depth: usize) -> Option<()> {
        let ty = self.table.strip(ty);
        self.entered += 1;
        if self.entered > SEARCHED_MAX || self.places.len() > PLACES_MAX {
            return None;
        }
        if ty == self.target {
            self.places.push(at);
            return Some(());
        }
        if depth > DEPTH_MAX {
            return Some(());
        }
        match self.table.get(ty) {
            Type::Aggregate(a) => a
                .members
                .iter()
                .filter(|m| m.bit_size.is_none())
                .try_for_each(|m| self.enter(m.ty, at.checked_add(m.offset())?, depth + 1)),
            Type::Array { elem, counts } => {
                let Some(size) = self.table.size(*elem) else { return Some(()) };
                let n = counts.iter().try_fold(1u64, |n, c| n.checked_mul((*c)?)).unwrap_or(0);
                // What the first element has not, the others have not.
                let before = self.places.len();
                for i in 0..n {
                    self.enter(*elem, at.checked_add(i.checked_mul(size)?)?, depth + 1)?;
                    if self.places.len() == before {
                        break;
                    }
                }
                Some(())
            }
            _ => Some(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_model::{Aggregate, AggregateKind, Base, Encoding, Member};

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

    fn table() -> (TypeTable, TypeId) {
        let mut t = TypeTable::new(8);
        let int = t.push(Type::Base(Base { name: "int".into(), size: 4, encoding: Encoding::Signed }));
        let long = t.push(Type::Base(Base { name: "long".into(), size: 8, encoding: Encoding::Signed }));
        let field = |n, ty, at| Member::field(Some(n), ty, at);
        let members = vec![field("a", int, 0), field("b", int, 4), field("c", long, 8), field("d", long, 16)];
        let s = t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, Some("s"), 24, members)));
        (t, s)
    }

    #[test]
    fn types_that_hold_another_without_end_are_refused() {
        let (mut t, s) = table();
        let mut many = s;
        for _ in 0..6 {
            many = t.push(Type::Array { elem: many, counts: vec![Some(64)] });
        }
        assert_eq!(Search::new(&t, s).places(many), None);
        let three = t.push(Type::Array { elem: s, counts: vec![Some(3)] });
        assert_eq!(Search::new(&t, s).places(three), Some(vec![0, 24, 48]));
        let mut twice = s;
        for _ in 0..60 {
            let members = ["a", "b"].map(|n| Member::field(Some(n), twice, 0)).to_vec();
            let nest = Aggregate::new(AggregateKind::Struct, Some("nest"), 24, members);
            twice = t.push(Type::Aggregate(nest));
        }
        assert_eq!(Search::new(&t, s).places(twice), None);
    }
}
