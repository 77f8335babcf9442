//! What changed between two builds of a type, which fields share lines now, and why.

mod cause;
mod view;

pub use cause::{Cause, Change};
pub use view::{summary_view, type_view};

use crate::phases::{Where, is_below, line_count, span};
use std::collections::{BTreeMap, HashMap, HashSet};
use tussle_model::leaf::Arrays;
use tussle_model::{Aggregate, Leaf, LineSize, Type, TypeId, TypeTable, leaves};

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
    let (a, b) = (leaves(old.table, old_id, Arrays::Whole), leaves(new.table, new_id, Arrays::Whole));
    let phases = options.at.phases(old.table, old_id, options.line, old.btf);
    let new_phases = options.at.phases(new.table, new_id, options.line, new.btf);
    let size = (old.table.size(old_id).unwrap_or(0), new.table.size(new_id).unwrap_or(0));
    let most = |size: u64, phases: &[u64]| {
        phases.iter().map(|&p| line_count(size, p, options.line)).max().unwrap_or(0)
    };
    let mut d = TypeDiff {
        name: new.table.name(new_id),
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

fn members(a: &[Leaf], b: &[Leaf], d: &mut TypeDiff) {
    let old: HashMap<&str, &Leaf> = a.iter().map(|l| (l.path.as_str(), l)).collect();
    let new: HashSet<&str> = b.iter().map(|l| l.path.as_str()).collect();
    for l in b {
        match old.get(l.path.as_str()) {
            None => d.added.push((l.path.clone(), l.offset)),
            Some(o) => {
                if o.size != l.size {
                    d.resized.push((l.path.clone(), o.size, l.size));
                }
                if o.offset != l.offset {
                    d.moved.push(Moved { path: l.path.clone(), old: o.offset, new: l.offset });
                }
            }
        }
    }
    d.removed =
        a.iter().filter(|l| !new.contains(l.path.as_str())).map(|l| (l.path.clone(), l.offset)).collect();
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
    let mut gained: BTreeMap<Both, Vec<u64>> = BTreeMap::new();
    let mut lost: BTreeMap<Both, Vec<u64>> = BTreeMap::new();
    for &phase in &d.phases {
        let old = pairs(&common, |c| c.0, phase, options.line);
        let new = pairs(&common, |c| c.1, phase, options.line);
        let wanted = |p: &&Both| wanted(&options.hot, &hot[p.0 as usize], &hot[p.1 as usize]);
        for p in missing_in(&new, &old).iter().filter(wanted) {
            gained.entry(*p).or_default().push(phase);
        }
        for p in missing_in(&old, &new).iter().filter(wanted) {
            lost.entry(*p).or_default().push(phase);
        }
    }
    let name = |((i, j), phases): (Both, Vec<u64>)| Pair {
        a: common[i as usize].0.path.clone(),
        b: common[j as usize].0.path.clone(),
        phases,
    };
    d.now_share = gained.into_iter().take(PAIRS_MAX).map(name).collect();
    d.now_apart = lost.into_iter().take(PAIRS_MAX).map(name).collect();
}

/// Which of the hot fields a leaf belongs to.
fn hot_of(path: &str, hot: &[String]) -> Vec<usize> {
    (0..hot.len()).filter(|&i| is_below(path, &hot[i])).collect()
}

/// With one hot field its own parts count and its neighbours; with several only pairs among them.
fn wanted(hot: &[String], a: &[usize], b: &[usize]) -> bool {
    match hot.len() {
        0 => true,
        1 => !a.is_empty() || !b.is_empty(),
        _ => !a.is_empty() && !b.is_empty(),
    }
}

/// Two leaves by their index among the common ones, the smaller first.
type Both = (u32, u32);

/// All pairs of leaves that share a line at that phase, sorted. Members of one union overlap in every layout and are
/// left out.
fn pairs<'a>(
    common: &[(&'a Leaf, &'a Leaf)],
    side: impl Fn(&(&'a Leaf, &'a Leaf)) -> &'a Leaf,
    phase: u64,
    line: LineSize,
) -> Vec<Both> {
    let mut by_line: Vec<(u64, u32)> = Vec::with_capacity(common.len() * 2);
    for (i, c) in common.iter().enumerate() {
        let s = span(side(c), phase, line);
        // A long array fills its inner lines alone: only its ends can meet others.
        by_line.push((s.first, i as u32));
        if s.straddles() {
            by_line.push((s.end - 1, i as u32));
        }
    }
    by_line.sort_unstable();
    let mut out = Vec::new();
    for list in by_line.chunk_by(|x, y| x.0 == y.0) {
        let list = &list[..list.len().min(LINE_LEAVES_MAX)];
        for (n, &(_, i)) in list.iter().enumerate() {
            let others = list[n + 1..].iter().map(|x| x.1);
            let over = common[i as usize].0.overlaps;
            out.extend(others.filter(|&j| !(over && common[j as usize].0.overlaps)).map(|j| (i, j)));
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// What the sorted list `a` has and the sorted list `b` lacks.
fn missing_in(a: &[Both], b: &[Both]) -> Vec<Both> {
    let mut rest = b.iter().peekable();
    let lacks = |p: &&Both| {
        while rest.next_if(|q| *q < *p).is_some() {}
        rest.peek() != Some(p)
    };
    a.iter().filter(lacks).copied().collect()
}

/// Types of the same name and kind in both tables whose bodies differ. Of several definitions of a name in one build
/// the first counts.
pub fn changed(old: &TypeTable, new: &TypeTable) -> Vec<(TypeId, TypeId)> {
    let index = |t: &'_ TypeTable| {
        let mut map: HashMap<(String, u8), TypeId> = HashMap::new();
        for (id, a) in t.aggregates() {
            if let Some(name) = &a.name {
                map.entry((name.clone(), a.kind as u8)).or_insert(id);
            }
        }
        map
    };
    let olds = index(old);
    let mut out: Vec<(TypeId, TypeId)> = index(new)
        .into_iter()
        .filter_map(|(key, n)| Some((*olds.get(&key)?, n)))
        .filter(|&(o, n)| Shape::of(old, o) != Shape::of(new, n))
        .collect();
    out.sort();
    out
}

/// Offsets, sizes and names of everything inside, without the cost of building paths.
#[derive(PartialEq)]
struct Shape(u64, Vec<(Option<String>, u64, Option<u32>, u64)>);

impl Shape {
    fn of(table: &TypeTable, id: TypeId) -> Shape {
        let mut out = Vec::new();
        if let Type::Aggregate(a) = table.get(id) {
            Shape::walk(table, a, 0, 0, &mut out);
        }
        Shape(table.size(id).unwrap_or(0), out)
    }

    fn walk(
        table: &TypeTable,
        a: &Aggregate,
        base: u64,
        depth: usize,
        out: &mut Vec<(Option<String>, u64, Option<u32>, u64)>,
    ) {
        if depth > 32 || out.len() > 65_536 {
            return;
        }
        for m in &a.members {
            let at = base.saturating_add(m.offset_bits);
            out.push((m.name.clone(), at, m.bit_size, table.size(m.ty).unwrap_or(0)));
            if let Some(inner) = table.aggregate(m.ty) {
                Shape::walk(table, inner, at, depth + 1, out);
            }
        }
    }
}
