//! What changed between two builds of a type, which fields share lines now, and why.

mod cause;
mod grain;
pub mod kinds;
mod members;
mod summary;
mod view;

pub use cause::{Cause, Change};
pub use summary::{HotPair, Recorded, hot_pairs, recorded_view, summary_view};
pub use view::type_view;

use crate::near::near_paths;
use crate::phases::{Where, is_below, line_count, span};
use foldhash::{HashMap, HashMapExt};
use std::collections::BTreeSet;
use tussle_model::leaf::Arrays;
use tussle_model::{Aggregate, Leaf, LineSize, Type, TypeId, TypeTable, fields_of_both, leaves, resolve};

/// One side of a comparison.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// All its types.
    pub table: &'a TypeTable,
    /// It comes from BTF, which does not keep `aligned`.
    pub btf: bool,
}

/// What to compare and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Line size.
    pub line: LineSize,
    /// Phases to answer for.
    pub at: Where,
    /// Report sharing between these fields only (with what lies below them); empty means all.
    pub hot: Vec<String>,
}

/// A leaf that both builds have, at different places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Path.
    pub path: String,
    /// Old offset, bytes.
    pub old: u64,
    /// New offset, bytes.
    pub new: u64,
    /// Old and new first bit in that byte, for a bit-field that begins at another bit of its byte.
    pub bits: Option<(u64, u64)>,
}

/// How wide a leaf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// So many bytes.
    Bytes(u64),
    /// A bit-field of so many bits.
    Bits(u32),
}

/// A leaf that both builds have, of different widths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resized {
    /// Path.
    pub path: String,
    /// Old width.
    pub old: Width,
    /// New width.
    pub new: Width,
}

/// Two leaves that begin or cease to share a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The one at the lower offset.
    pub a: String,
    /// The other.
    pub b: String,
    /// Phases in which it changed, bytes.
    pub phases: Vec<u64>,
}

/// Everything that changed in one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeDiff {
    /// `struct foo`.
    pub name: String,
    /// Old and new size, bytes.
    pub size: (u64, u64),
    /// Old and new number of lines, in the phase where it is largest.
    pub lines: (u64, u64),
    /// Phases that the answer covers, bytes.
    pub phases: Vec<u64>,
    /// Leaves that are new, with their offset.
    pub added: Vec<(String, u64)>,
    /// Leaves that are gone, with their old offset.
    pub removed: Vec<(String, u64)>,
    /// Leaves of another width.
    pub resized: Vec<Resized>,
    /// Leaves at another offset.
    pub moved: Vec<Moved>,
    /// Pairs that share a line now and did not before.
    pub now_share: Vec<Pair>,
    /// Pairs that shared a line and no longer do.
    pub now_apart: Vec<Pair>,
    /// Pairs beyond [`PAIRS_MAX`] that the two lists leave out.
    pub pairs_left_out: u64,
    /// What shifted the rest.
    pub cause: Option<Cause>,
}

impl TypeDiff {
    /// Some pair of fields shares a line in one build and not in the other.
    pub fn sharing_changed(&self) -> bool {
        !self.now_share.is_empty() || !self.now_apart.is_empty()
    }

    /// Nothing changed at all.
    pub fn is_same(&self) -> bool {
        let same = self.added.is_empty() && self.removed.is_empty() && self.resized.is_empty();
        same && self.moved.is_empty() && self.size.0 == self.size.1
    }
}

/// Compares one type.
pub fn diff(old: Side<'_>, old_id: TypeId, new: Side<'_>, new_id: TypeId, options: &Options) -> TypeDiff {
    let phases = options.at.phases(old.table, old_id, options.line, old.btf);
    let new_phases = options.at.phases(new.table, new_id, options.line, new.btf);
    let size = (old.table.size(old_id).unwrap_or(0), new.table.size(new_id).unwrap_or(0));
    let most = |size: u64, phases: &[u64]| {
        phases.iter().map(|&p| line_count(size, p, options.line)).max().unwrap_or(0)
    };
    let mut d = TypeDiff {
        name: title(new.table, new_id),
        size,
        lines: (most(size.0, &phases), most(size.1, &new_phases)),
        ..TypeDiff::default()
    };
    // Only phases that both builds can have say something about the change itself.
    let both: Vec<u64> = phases.iter().copied().filter(|p| new_phases.contains(p)).collect();
    d.phases = if both.is_empty() { vec![0] } else { both };
    let hot = Hot::of((old.table, old_id), (new.table, new_id), &options.hot);
    let (a, b) = fields_of_both((old.table, old_id), (new.table, new_id), Arrays::Whole);
    let found = Found::of(&a, &b);
    match grain::remade(&found) {
        whole if whole.is_empty() => compare(&found, options, &hot, &mut d),
        whole => {
            let (a, b) = (grain::joined(a.clone(), &whole), grain::joined(b.clone(), &whole));
            compare(&Found::of(&a, &b), options, &hot, &mut d);
        }
    }
    if !d.is_same() {
        d.cause = cause::find(old, old_id, new, new_id);
    }
    d
}

/// The leaves of both builds.
struct Found<'a> {
    old: &'a [Leaf],
    new: &'a [Leaf],
    /// Their positions by path.
    at: (HashMap<&'a str, usize>, HashMap<&'a str, usize>),
}

impl<'a> Found<'a> {
    fn of(old: &'a [Leaf], new: &'a [Leaf]) -> Found<'a> {
        let index = |list: &'a [Leaf]| list.iter().enumerate().map(|(i, l)| (l.path.as_str(), i)).collect();
        Found { old, new, at: (index(old), index(new)) }
    }

    fn in_old(&self, path: &str) -> Option<&'a Leaf> {
        self.at.0.get(path).map(|&i| &self.old[i])
    }

    fn in_new(&self, path: &str) -> Option<&'a Leaf> {
        self.at.1.get(path).map(|&i| &self.new[i])
    }
}

fn compare(found: &Found<'_>, options: &Options, hot: &Hot<'_>, d: &mut TypeDiff) {
    members::compare(found, d);
    if !d.is_same() {
        sharing(found, options, hot, d);
    }
}

/// The type's name; that of its typedef where it has none of its own.
fn title(table: &TypeTable, id: TypeId) -> String {
    if table.aggregate(id).is_some_and(|a| a.name.is_some()) {
        return table.name(id);
    }
    let typedef = table.iter().find_map(|(_, t)| match t {
        Type::Typedef { name, to } if table.strip(*to) == id => Some(name.clone()),
        _ => None,
    });
    typedef.unwrap_or_else(|| table.name(id))
}

/// `a`, `a.b` and `a.b[1]` for `a.b[1]`.
fn above(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.char_indices().filter(|(i, c)| *i > 0 && matches!(c, '.' | '[')).map(|(i, _)| i);
    ends.chain([path.len()]).map(|end| &path[..end])
}

/// At most this many pairs are collected per direction: a shift of a struct with a thousand fields changes more than
/// anybody reads, and the cause says it better.
pub const PAIRS_MAX: usize = 4096;

/// Leaves of one line that are paired: a line of single bits has 512.
const LINE_LEAVES_MAX: usize = 512;

fn sharing(found: &Found<'_>, options: &Options, hot: &Hot<'_>, d: &mut TypeDiff) {
    // Both sides as lists of the leaves that both have, in the same order.
    let common: Vec<(&Leaf, &Leaf)> = found
        .old
        .iter()
        .filter_map(|l| Some((l, found.in_new(&l.path)?)))
        .filter(|(l, _)| l.size > 0)
        .collect();
    let hot: Vec<Vec<usize>> = common.iter().map(|(old, new)| hot.which(old, new)).collect();
    let unions = unions(&common);
    let mut gained: Vec<(Both, u64)> = Vec::new();
    let mut lost: Vec<(Both, u64)> = Vec::new();
    for &phase in &d.phases {
        let old = Lines::of(common.iter().map(|c| c.0), phase, options.line);
        let new = Lines::of(common.iter().map(|c| c.1), phase, options.line);
        let add = |to: &mut Vec<(Both, u64)>, (here, there): (&Lines, &Lines)| {
            here.each_pair(|i, j| {
                let apart = unions[i as usize] == 0 || unions[i as usize] != unions[j as usize];
                let wanted = || wanted(&options.hot, &hot[i as usize], &hot[j as usize]);
                if apart && !there.share(i, j) && wanted() {
                    to.push(((i, j), phase));
                }
            });
        };
        add(&mut gained, (&new, &old));
        add(&mut lost, (&old, &new));
    }
    let left_out = [&mut gained, &mut lost].map(|all| keep(all));
    d.pairs_left_out = left_out.iter().sum();
    let name = |of: &[(Both, u64)]| Pair {
        a: common[of[0].0.0 as usize].0.path.clone(),
        b: common[of[0].0.1 as usize].0.path.clone(),
        phases: of.iter().map(|x| x.1).collect(),
    };
    d.now_share = gained.chunk_by(|x, y| x.0 == y.0).map(name).collect();
    d.now_apart = lost.chunk_by(|x, y| x.0 == y.0).map(name).collect();
}

/// Sorts pairs with their phases and keeps the first [`PAIRS_MAX`] pairs; returns how many more there are.
fn keep(all: &mut Vec<(Both, u64)>) -> u64 {
    // one sorted run or few per phase, which a stable sort merges
    all.sort();
    all.dedup();
    let (mut pairs, mut kept) = (0, 0);
    for of in all.chunk_by(|x, y| x.0 == y.0) {
        pairs += 1;
        if pairs <= PAIRS_MAX {
            kept += of.len();
        }
    }
    all.truncate(kept);
    pairs.saturating_sub(PAIRS_MAX) as u64
}

/// The first hot field that no type has in either build, and fields near it.
pub fn unknown_hot(
    old: Side<'_>,
    new: Side<'_>,
    types: &[(TypeId, TypeId)],
    hot: &[String],
) -> Option<(String, Vec<String>)> {
    let all = |side: Side<'_>, id| leaves(side.table, id, Arrays::Whole).into_iter().map(|l| l.path);
    let paths: BTreeSet<String> = types.iter().flat_map(|&(a, b)| all(old, a).chain(all(new, b))).collect();
    let missing = hot.iter().find(|h| !paths.iter().any(|p| is_below(p, h)))?;
    Some((missing.clone(), near_paths(paths.iter().map(String::as_str), missing, 3)))
}

/// The first hot field of which a part is no member of any type, in either table, and members close to it.
pub fn unheard_hot(old: Side<'_>, new: Side<'_>, hot: &[String]) -> Option<(String, Vec<String>)> {
    let tables = [old.table, new.table];
    let members: BTreeSet<&str> = tables
        .iter()
        .flat_map(|t| t.aggregates())
        .flat_map(|(_, a)| a.members.iter().filter_map(|m| m.name.as_deref()))
        .collect();
    let known = |part: &str| members.contains(part.split('[').next().unwrap_or(part));
    let field = hot.iter().find(|h| !h.split('.').all(known))?;
    let part = field.split('.').find(|part| !known(part)).unwrap_or(field);
    Some((field.clone(), near_paths(members.iter().copied(), part, 3)))
}

/// The hot fields of a comparison, by name and by place: a leaf's name leaves out what its path says twice.
struct Hot<'a> {
    names: &'a [String],
    /// First byte and first byte after it of each field that a name stands for, in both builds.
    places: [Vec<Vec<(u64, u64)>>; 2],
}

impl<'a> Hot<'a> {
    fn of(old: (&TypeTable, TypeId), new: (&TypeTable, TypeId), names: &'a [String]) -> Hot<'a> {
        let places = [old, new].map(|(table, id)| {
            let place = |s: tussle_model::Spot| (s.placed && !s.bits).then(|| (s.offset, s.end()));
            let of = |name: &String| resolve(table, id, name).into_iter().filter_map(place).collect();
            names.iter().map(of).collect()
        });
        Hot { names, places }
    }

    /// Which of the hot fields a leaf belongs to: as a part of one, or as the whole field that one names a part of.
    fn which(&self, old: &Leaf, new: &Leaf) -> Vec<usize> {
        let named = |i: usize| is_below(&old.path, &self.names[i]) || is_below(&self.names[i], &old.path);
        (0..self.names.len()).filter(|&i| named(i) || self.lies_in(i, old, new)).collect()
    }

    /// All of the leaf's bytes are the field's. In a union they are others' too: there its last name must be the same.
    fn lies_in(&self, i: usize, old: &Leaf, new: &Leaf) -> bool {
        let last = |path: &str| path.rsplit('.').next() == self.names[i].rsplit('.').next();
        let inside = |side: usize, l: &Leaf| {
            let within = |&(from, end): &(u64, u64)| from <= l.offset && l.end() <= end;
            (!l.overlaps || last(&l.path)) && self.places[side][i].iter().any(within)
        };
        inside(0, old) || inside(1, new)
    }
}

/// With one hot field its own parts count and its neighbours; with several only pairs among them.
fn wanted(hot: &[String], a: &[usize], b: &[usize]) -> bool {
    match hot.len() {
        0 => true,
        1 => !a.is_empty() || !b.is_empty(),
        _ => !a.is_empty() && !b.is_empty(),
    }
}

/// Two leaves by their index among the common ones, the smaller first. Members of one union overlap in every layout
/// and are no pair.
type Both = (u32, u32);

/// In which lines the common leaves lie at one phase.
struct Lines {
    /// First and last line of each leaf. A long array fills its inner lines alone: only its ends can meet others.
    ends: Vec<(u64, u64)>,
    /// The same by line, sorted.
    by_line: Vec<(u64, u32)>,
}

impl Lines {
    fn of<'a>(leaves: impl Iterator<Item = &'a Leaf>, phase: u64, line: LineSize) -> Lines {
        let ends_of = |l: &Leaf| {
            let s = span(l, phase, line);
            (s.first, if s.straddles() { s.end - 1 } else { s.first })
        };
        let ends: Vec<(u64, u64)> = leaves.map(ends_of).collect();
        let mut by_line = Vec::with_capacity(ends.len() * 2);
        for (i, &(first, last)) in ends.iter().enumerate() {
            by_line.push((first, i as u32));
            if last != first {
                by_line.push((last, i as u32));
            }
        }
        // mostly sorted
        by_line.sort();
        Lines { ends, by_line }
    }

    /// Every pair of leaves that share a line, once for each such line.
    fn each_pair(&self, mut visit: impl FnMut(u32, u32)) {
        for list in self.by_line.chunk_by(|x, y| x.0 == y.0) {
            let list = &list[..list.len().min(LINE_LEAVES_MAX)];
            for (n, &(_, i)) in list.iter().enumerate() {
                list[n + 1..].iter().for_each(|&(_, j)| visit(i, j));
            }
        }
    }

    fn share(&self, i: u32, j: u32) -> bool {
        let (a, b) = (self.ends[i as usize], self.ends[j as usize]);
        a.0 == b.0 || a.0 == b.1 || a.1 == b.0 || a.1 == b.1
    }
}

/// For each leaf the union whose bytes it shares with others, counted from 1; 0 for leaves in none.
fn unions(common: &[(&Leaf, &Leaf)]) -> Vec<u32> {
    let (mut count, mut end) = (0, 0);
    let mut of = |l: &Leaf| {
        if !l.overlaps {
            return 0;
        }
        if count == 0 || l.offset >= end {
            count += 1;
            end = 0;
        }
        end = end.max(l.end());
        count
    };
    common.iter().map(|(l, _)| of(l)).collect()
}

/// The types of two files side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// Names that both have.
    pub names: usize,
    /// Definitions that differ, old and new.
    pub changed: Vec<(TypeId, TypeId)>,
    /// Further definitions of such a name that only the old build has.
    pub only_old: Vec<TypeId>,
    /// And that only the new one has.
    pub only_new: Vec<TypeId>,
}

/// Types of the same name and kind in both tables whose bodies differ. Of several definitions of a name those that the
/// other build has too are put aside, the others are compared in their order.
pub fn changed(old: &TypeTable, new: &TypeTable) -> Common {
    let olds = by_name(old);
    let mut out = Common::default();
    for (key, new_ids) in by_name(new) {
        let Some(old_ids) = olds.get(&key) else { continue };
        out.names += 1;
        out.add(old, old_ids, new, &new_ids);
    }
    // a struct without a name is met under each of its typedefs
    out.changed.sort_unstable();
    out.changed.dedup();
    out.only_old.sort_unstable();
    out.only_new.sort_unstable();
    out
}

/// Structs and unions by name and kind; those without a name under the names of their typedefs.
fn by_name(t: &TypeTable) -> HashMap<(&str, u8), Vec<TypeId>> {
    let mut map: HashMap<(&str, u8), Vec<TypeId>> = HashMap::new();
    for (id, a) in t.aggregates() {
        if let Some(name) = a.name.as_deref() {
            map.entry((name, a.kind as u8)).or_default().push(id);
        }
    }
    for (_, ty) in t.iter() {
        let Type::Typedef { name, to } = ty else { continue };
        let id = t.strip(*to);
        let Type::Aggregate(a) = t.get(id) else { continue };
        if a.name.is_some() || a.declaration {
            continue;
        }
        let ids = map.entry((name, TYPEDEF | a.kind as u8)).or_default();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    map
}

/// Typedefs have names of their own in C.
const TYPEDEF: u8 = 1 << 7;

/// What became of all definitions of one name. Those that the other build has too are put aside, the others are
/// compared in their order; what is left has no counterpart.
pub fn matched(old: &TypeTable, old_ids: &[TypeId], new: &TypeTable, new_ids: &[TypeId]) -> Common {
    let mut out = Common::default();
    out.add(old, old_ids, new, new_ids);
    out
}

impl Common {
    fn add(&mut self, old: &TypeTable, old_ids: &[TypeId], new: &TypeTable, new_ids: &[TypeId]) {
        let mut before: Vec<(TypeId, Inside<'_>)> =
            old_ids.iter().map(|&id| (id, Inside::of(old, id))).collect();
        let mut after: Vec<(TypeId, Inside<'_>)> =
            new_ids.iter().map(|&id| (id, Inside::of(new, id))).collect();
        let same = |list: &[(TypeId, Inside<'_>)], shape: &Inside<'_>| list.iter().any(|x| x.1 == *shape);
        let kept: Vec<bool> = after.iter().map(|x| !same(&before, &x.1)).collect();
        before.retain(|x| !same(&after, &x.1));
        let mut kept = kept.into_iter();
        after.retain(|_| kept.next().unwrap_or(true));
        let pairs = before.len().min(after.len());
        self.changed.extend(before.iter().zip(&after).map(|(o, n)| (o.0, n.0)));
        self.only_old.extend(before[pairs..].iter().map(|x| x.0));
        self.only_new.extend(after[pairs..].iter().map(|x| x.0));
    }
}

/// What there is to show of one name: the definitions that differ, else the first two that are the same.
pub fn shown(
    found: &Common,
    old: &TypeTable,
    old_ids: &[TypeId],
    new: &TypeTable,
    new_ids: &[TypeId],
) -> Vec<(TypeId, TypeId)> {
    if !found.changed.is_empty() {
        return found.changed.clone();
    }
    let twin = |&a: &TypeId| {
        let shape = Inside::of(old, a);
        new_ids.iter().find(|&&b| Inside::of(new, b) == shape).map(|&b| (a, b))
    };
    old_ids.iter().find_map(twin).into_iter().collect()
}

/// Offsets, sizes and names of everything inside, without the cost of building paths.
#[derive(PartialEq)]
struct Inside<'t>(u64, Vec<Part<'t>>);

/// Name, bit offset, bits and size.
type Part<'t> = (Option<&'t str>, u64, Option<u32>, u64);

impl<'t> Inside<'t> {
    fn of(table: &'t TypeTable, id: TypeId) -> Inside<'t> {
        let mut out = Vec::new();
        if let Type::Aggregate(a) = table.get(id) {
            Inside::walk(table, a, 0, 0, &mut out);
        }
        Inside(table.size(id).unwrap_or(0), out)
    }

    fn walk(table: &'t TypeTable, a: &'t Aggregate, base: u64, depth: usize, out: &mut Vec<Part<'t>>) {
        if depth > 32 || out.len() > 65_536 {
            return;
        }
        for m in &a.members {
            let at = base.saturating_add(m.offset_bits);
            out.push((m.name.as_deref(), at, m.bit_size, table.size(m.ty).unwrap_or(0)));
            if let Some(inner) = table.aggregate(m.ty) {
                Inside::walk(table, inner, at, depth + 1, out);
            }
        }
    }
}
