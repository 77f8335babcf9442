//! What changed between two builds of a type, which fields share lines now, and why.

mod cause;
pub mod kinds;
mod summary;
mod view;

pub use cause::{Cause, Change};
pub use summary::{HotPair, Recorded, hot_pairs, recorded_view, summary_view};
pub use view::type_view;

use crate::near::near_paths;
use crate::phases::{Where, is_below, line_count, span};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use std::collections::BTreeSet;
use tussle_model::leaf::Arrays;
use tussle_model::{Aggregate, Leaf, LineSize, Type, TypeId, TypeTable, fields, leaves};

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
    /// Leaves of another size: path, old and new size.
    pub resized: Vec<(String, u64, u64)>,
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
    let (a, b) = (fields(old.table, old_id, Arrays::Whole), fields(new.table, new_id, Arrays::Whole));
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
    members(&a, &b, &mut d);
    // Only phases that both builds can have say something about the change itself.
    let both: Vec<u64> = phases.iter().copied().filter(|p| new_phases.contains(p)).collect();
    d.phases = if both.is_empty() { vec![0] } else { both };
    if !d.is_same() {
        sharing(&a, &b, options, &mut d);
        d.cause = cause::find(old, old_id, new, new_id);
    }
    d
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

fn members(a: &[Leaf], b: &[Leaf], d: &mut TypeDiff) {
    let old: HashMap<&str, &Leaf> = a.iter().map(|l| (l.path.as_str(), l)).collect();
    let new: HashMap<&str, &Leaf> = b.iter().map(|l| (l.path.as_str(), l)).collect();
    // What happened to each path, and to each member above it if all that lies below had the same fate.
    let mut fates: HashMap<&str, Option<Fate>> = HashMap::with_capacity(2 * b.len());
    let all = b.iter().chain(a.iter().filter(|l| !new.contains_key(l.path.as_str())));
    for l in all.clone() {
        let fate = fate(old.get(l.path.as_str()).copied(), new.get(l.path.as_str()).copied());
        for path in above(&l.path) {
            let known = fates.entry(path).or_insert(Some(fate));
            *known = known.filter(|k| *k == fate);
        }
    }
    let mut told = HashSet::new();
    for l in all {
        let Some(path) = above(&l.path).find(|p| fates.get(p).is_some_and(Option::is_some)) else { continue };
        if !told.insert(path) {
            continue;
        }
        let path = path.to_string();
        match fates[path.as_str()] {
            Some(Fate::Added) => d.added.push((path, l.offset)),
            Some(Fate::Removed) => d.removed.push((path, l.offset)),
            Some(Fate::Moved(by)) if by != 0 => {
                d.moved.push(Moved { path, old: l.offset.wrapping_sub(by as u64), new: l.offset });
            }
            Some(Fate::Resized) => {
                let (o, n) = (old[l.path.as_str()], new[l.path.as_str()]);
                if o.offset != n.offset {
                    d.moved.push(Moved { path: path.clone(), old: o.offset, new: n.offset });
                }
                d.resized.push((path, o.size, n.size));
            }
            Some(Fate::Moved(_)) | None => {}
        }
    }
}

/// What happened to a leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Added,
    Removed,
    /// By so many bytes, 0 for a leaf that stayed; its size did not change.
    Moved(i64),
    Resized,
}

fn fate(old: Option<&Leaf>, new: Option<&Leaf>) -> Fate {
    match (old, new) {
        (None, _) => Fate::Added,
        (_, None) => Fate::Removed,
        (Some(o), Some(n)) if o.size == n.size => Fate::Moved(n.offset.wrapping_sub(o.offset) as i64),
        _ => Fate::Resized,
    }
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

fn sharing(a: &[Leaf], b: &[Leaf], options: &Options, d: &mut TypeDiff) {
    let index: HashMap<&str, usize> = b.iter().enumerate().map(|(i, l)| (l.path.as_str(), i)).collect();
    // Both sides as lists of the leaves that both have, in the same order.
    let common: Vec<(&Leaf, &Leaf)> = a
        .iter()
        .filter_map(|l| Some((l, &b[*index.get(l.path.as_str())?])))
        .filter(|(l, _)| l.size > 0)
        .collect();
    let hot: Vec<Vec<usize>> = common.iter().map(|(l, _)| hot_of(&l.path, &options.hot)).collect();
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

/// Which of the hot fields a leaf belongs to: as a part of one, or as the whole field that one names a part of.
fn hot_of(path: &str, hot: &[String]) -> Vec<usize> {
    (0..hot.len()).filter(|&i| is_below(path, &hot[i]) || is_below(&hot[i], path)).collect()
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
    out.changed.sort();
    out.only_old.sort();
    out.only_new.sort();
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
        let mut before: Vec<(TypeId, Shape<'_>)> =
            old_ids.iter().map(|&id| (id, Shape::of(old, id))).collect();
        let mut after: Vec<(TypeId, Shape<'_>)> =
            new_ids.iter().map(|&id| (id, Shape::of(new, id))).collect();
        let same = |list: &[(TypeId, Shape<'_>)], shape: &Shape<'_>| list.iter().any(|x| x.1 == *shape);
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
        let shape = Shape::of(old, a);
        new_ids.iter().find(|&&b| Shape::of(new, b) == shape).map(|&b| (a, b))
    };
    old_ids.iter().find_map(twin).into_iter().collect()
}

/// Offsets, sizes and names of everything inside, without the cost of building paths.
#[derive(PartialEq)]
struct Shape<'t>(u64, Vec<Part<'t>>);

/// Name, bit offset, bits and size.
type Part<'t> = (Option<&'t str>, u64, Option<u32>, u64);

impl<'t> Shape<'t> {
    fn of(table: &'t TypeTable, id: TypeId) -> Shape<'t> {
        let mut out = Vec::new();
        if let Type::Aggregate(a) = table.get(id) {
            Shape::walk(table, a, 0, 0, &mut out);
        }
        Shape(table.size(id).unwrap_or(0), out)
    }

    fn walk(table: &'t TypeTable, a: &'t Aggregate, base: u64, depth: usize, out: &mut Vec<Part<'t>>) {
        if depth > 32 || out.len() > 65_536 {
            return;
        }
        for m in &a.members {
            let at = base.saturating_add(m.offset_bits);
            out.push((m.name.as_deref(), at, m.bit_size, table.size(m.ty).unwrap_or(0)));
            if let Some(inner) = table.aggregate(m.ty) {
                Shape::walk(table, inner, at, depth + 1, out);
            }
        }
    }
}
