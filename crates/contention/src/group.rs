//! Lines that tell the same story, as one: the lines of an array of small elements, equal objects of one site.

use crate::analysis::{Counts, LineContention};
use crate::fields::{FieldName, Namer};
use crate::lines::Range;
use crate::objective::LineCost;
use crate::window::LineE;
use std::collections::BTreeMap;
use tussle_evidence::*;

/// From this share of its cost that a layout can remove on, a group is named by two different fields.
const PART_SHARE_MIN: f64 = 0.15;

/// From this share on of what two fields cost each other under no common lock, this alone counts in the name.
const FREE_SHARE_MIN: f64 = 0.25;

/// Lines with the same fields of the same kind of object.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// Its lines, worst first.
    pub lines: Vec<&'a LineContention>,
    /// Fields on them, those that matter most first.
    pub fields: Vec<FieldUse>,
    /// Who invalidates whom, largest E first.
    pub pairs: Vec<FieldPair>,
    /// Sums over all lines, `e` at the question's split; who does it to whom is in `pairs` and `actor_e`.
    pub e: LineE,
    /// Stores elsewhere and copies lost on all lines, and what of them the best layout leaves.
    pub cost: LineCost,
    /// Accesses of all lines.
    pub accesses: f64,
    /// E in which an actor stores or loses.
    pub actor_e: BTreeMap<u32, f64>,
}

/// Of what lines cost together, this share may be on lines at which no turns were seen: a node beside something else.
const OTHERS_MAX: f64 = 0.05;

/// On each of these lines threads take turns ([`LineContention::by_turns`]). Hand-offs of many lines together are no
/// habit: a node that goes from thread to thread once is not taken by turns. Where turns were seen, or a lock demands
/// them, a few lines say nothing.
pub fn by_turns(lines: &[&LineContention]) -> bool {
    let cost = |l: &&LineContention| l.cost.total();
    let (all, others): (f64, f64) =
        (lines.iter().map(cost).sum(), lines.iter().filter(|l| !l.in_turn).map(cost).sum());
    lines.iter().all(|l| l.by_turns()) || others <= OTHERS_MAX * all
}

/// Stores to one field that take the line from users of another (or of the same).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldPair {
    /// Field stored to, as index of [`Group::fields`].
    pub stored: usize,
    /// Field whose user loses the line.
    pub lost: usize,
    /// Some bytes are touched by both; false for different elements of one array.
    pub same_bytes: bool,
    /// Expected invalidations.
    pub e: f64,
    /// Of these, between different elements of an array.
    pub across_e: f64,
    /// Of these, between accesses that one lock orders.
    pub ordered_e: f64,
}

/// One field on the lines of a group; elements of arrays together.
#[derive(Clone, Debug)]
pub struct FieldUse {
    /// `struct stats.hits`, `workers[].done`.
    pub path: String,
    /// An object that has it.
    pub object: u32,
    /// Where in that object (the first one seen).
    pub offset: u64,
    /// Bytes there.
    pub size: u64,
    /// Certainty of the name, 0 to 1.
    pub certainty: f32,
    /// It is of a synchronisation type.
    pub opaque: bool,
    /// Lowest and highest element, for arrays.
    pub elements: Option<(u64, u64)>,
    /// What was done to it.
    pub counts: Counts,
    /// By whom.
    pub actors: BTreeMap<u32, Counts>,
    /// Part of the group's E in which it is stored to or its user suffers; for order.
    pub weight: f64,
}

impl FieldUse {
    /// No array's, or one element of it.
    fn is_one(&self) -> bool {
        self.elements.is_none_or(|(low, high)| low == high)
    }
}

/// Groups lines, worst group first.
pub fn groups<'a>(
    e: &Evidence,
    namer: &Namer,
    lines: impl Iterator<Item = &'a LineContention>,
) -> Vec<Group<'a>> {
    let mut by_key: BTreeMap<String, Vec<(&LineContention, Vec<FieldName>)>> = BTreeMap::new();
    for line in lines {
        let name =
            |p: &crate::analysis::Part| namer.name(p.range.object, p.range.offset, u64::from(p.range.size));
        let names: Vec<FieldName> = line.parts.iter().map(name).collect();
        by_key.entry(key(e, namer, line, &names)).or_default().push((line, names));
    }
    let mut out: Vec<Group> = one_story(e, namer, by_key.into_values()).iter().map(|l| group(l)).collect();
    out.sort_by(|a, b| {
        let rank = |g: &Group| (-g.e.e, g.lines.first().map(|l| l.address));
        rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal)
    });
    out
}

type Named<'a> = (&'a LineContention, Vec<FieldName>);

/// Lines on which the same two fields of the same kind of object fight, whatever else lies on them (objects of one
/// site at several phases).
fn one_story<'a>(
    e: &Evidence,
    namer: &Namer,
    parts: impl Iterator<Item = Vec<Named<'a>>>,
) -> Vec<Vec<Named<'a>>> {
    let mut by_title: BTreeMap<(u32, String, String), Vec<Named>> = BTreeMap::new();
    for part in parts {
        let g = group(&part);
        let worst = g.fields.first().and_then(|f| e.objects.get(f.object as usize));
        let site = worst.map(|o| format!("{} {:?}", namer.root(o), o.alloc_code)).unwrap_or_default();
        let process = g.lines.first().map_or(0, |l| l.process);
        by_title.entry((process, site, g.title())).or_default().extend(part);
    }
    by_title.into_values().collect()
}

/// What must be equal for two lines to be one story.
fn key(e: &Evidence, namer: &Namer, line: &LineContention, names: &[FieldName]) -> String {
    let mut words = vec![line.process.to_string()];
    for object in line.objects() {
        let Some(o) = e.objects.get(object as usize) else { continue };
        words.push(format!("{} {:?}", namer.root(o), o.alloc_code));
    }
    let small = |o: u32| {
        let o = e.objects.get(o as usize);
        o.and_then(|o| o.ty).is_none_or(|t| e.types.size(t).is_none_or(|s| s <= line.line.bytes()))
    };
    let array = names.iter().all(|n| n.index.is_some()) && line.objects().into_iter().all(small);
    let unnamed = names.iter().all(|n| n.leaf.is_none());
    if !array && !unnamed {
        words.extend(names.iter().map(|n| n.path.clone()));
    }
    words.sort_unstable();
    words.dedup();
    words.join("\n")
}

/// Field stored to, field whose user loses, whether by the same bytes: expected invalidations, and of these the ones
/// between different elements, and those under one lock.
type Pairs = BTreeMap<(usize, usize, bool), (f64, f64, f64)>;

fn group<'a>(lines: &[Named<'a>]) -> Group<'a> {
    let mut lines: Vec<&Named<'a>> = lines.iter().collect();
    lines.sort_by(|a, b| b.0.ranked_e().partial_cmp(&a.0.ranked_e()).unwrap_or(std::cmp::Ordering::Equal));
    let mut g = Group {
        lines: lines.iter().map(|l| l.0).collect(),
        fields: Vec::new(),
        pairs: Vec::new(),
        e: LineE::default(),
        cost: LineCost::default(),
        accesses: 0.0,
        actor_e: BTreeMap::new(),
    };
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    let mut pairs: Pairs = BTreeMap::new();
    let mut ranked = 0.0;
    for (line, names) in lines {
        g.e.add_sums(&line.e, 1.0);
        ranked += line.ranked_e();
        g.cost.add(&line.cost);
        g.accesses += line.accesses;
        for &(actor, e) in &line.e.actor_e {
            *g.actor_e.entry(actor).or_default() += e;
        }
        let at: Vec<usize> =
            line.parts.iter().zip(names).map(|(p, n)| field(&mut g, &mut index, p, n)).collect();
        for &(part, other, e) in &line.e.pairs {
            let (Some(&a), Some(&b)) = (at.get(part as usize), at.get(other as usize)) else { continue };
            let element = |part: u32| names.get(part as usize).and_then(|n| n.index);
            let sums = pairs.entry((a, b, meet(line, part, other))).or_default();
            sums.0 += e;
            sums.1 += if element(part) == element(other) { 0.0 } else { e };
            let ordered = line.e.ordered.binary_search_by_key(&(part, other), |p| (p.0, p.1));
            sums.2 += ordered.map_or(0.0, |at| line.e.ordered[at].2);
            g.fields[a].weight += e;
            g.fields[b].weight += if a == b { 0.0 } else { e };
        }
    }
    g.e.e = ranked;
    order(&mut g, pairs);
    g
}

/// Two parts of a line have bytes in common.
fn meet(line: &LineContention, a: u32, b: u32) -> bool {
    let range = |part: u32| line.parts.get(part as usize).map(|p| p.range);
    let (Some(a), Some(b)) = (range(a), range(b)) else { return false };
    let behind = |x: &Range, y: &Range| y.offset >= x.offset.saturating_add(u64::from(x.size));
    a.object == b.object && !behind(&a, &b) && !behind(&b, &a)
}

fn field(
    g: &mut Group,
    index: &mut BTreeMap<String, usize>,
    part: &crate::analysis::Part,
    name: &FieldName,
) -> usize {
    let known = index.get(&name.path).copied();
    let at = known.unwrap_or(g.fields.len());
    if known.is_none() {
        index.insert(name.path.clone(), at);
        g.fields.push(FieldUse {
            path: name.path.clone(),
            object: part.range.object,
            offset: part.range.offset,
            size: u64::from(part.range.size),
            certainty: name.certainty,
            opaque: name.opaque,
            elements: None,
            counts: Counts::default(),
            actors: BTreeMap::new(),
            weight: 0.0,
        });
    }
    let f = &mut g.fields[at];
    if let Some(i) = name.index {
        let (low, high) = f.elements.unwrap_or((i, i));
        f.elements = Some((low.min(i), high.max(i)));
    }
    f.counts.add(&part.counts);
    for (actor, counts) in &part.actors {
        f.actors.entry(*actor).or_default().add(counts);
    }
    at
}

/// Fields and pairs, those with most of E first.
fn order(g: &mut Group, pairs: Pairs) {
    let mut order: Vec<usize> = (0..g.fields.len()).collect();
    let weight = |i: usize| g.fields[i].weight;
    order.sort_by(|&a, &b| weight(b).partial_cmp(&weight(a)).unwrap_or(std::cmp::Ordering::Equal));
    let mut place = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new;
    }
    g.fields = order.iter().map(|&i| g.fields[i].clone()).collect();
    let pair = |((a, b, same_bytes), (e, across_e, ordered_e))| {
        let (stored, lost) = (place[a], place[b]);
        FieldPair { stored, lost, same_bytes, e, across_e, ordered_e }
    };
    g.pairs = pairs.into_iter().map(pair).collect();
    g.pairs.sort_by(|a, b| b.e.partial_cmp(&a.e).unwrap_or(std::cmp::Ordering::Equal));
}

impl Group<'_> {
    /// A layout could part what fights here.
    fn can_part(&self) -> bool {
        self.cost.removable_share() >= PART_SHARE_MIN
    }

    /// Share of E that is false or mixed, 0 to 1.
    pub fn false_share(&self) -> f64 {
        self.e.false_share()
    }

    /// The two fields that cost each other most, both directions together; where a layout can part
    /// what fights, two that share no byte, if there are such, and that not one lock brings together.
    pub fn worst_pair(&self) -> Option<(usize, usize)> {
        let apart = self.can_part() && self.pairs.iter().any(|p| !p.same_bytes);
        let pairs = || self.pairs.iter().filter(|p| !(apart && p.same_bytes));
        let (e, ordered) = pairs().fold((0.0, 0.0), |s, p| (s.0 + p.e, s.1 + p.ordered_e));
        let free = apart && e - ordered >= FREE_SHARE_MIN * e;
        let mut sums: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for p in pairs() {
            let sum = sums.entry((p.stored.min(p.lost), p.stored.max(p.lost))).or_default();
            *sum += if free { p.e - p.ordered_e } else { p.e };
        }
        let best = sums.into_iter().max_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(std::cmp::Ordering::Equal));
        best.map(|(pair, _)| pair)
    }

    /// Most of what two fields cost each other is between different elements of an array.
    pub fn across(&self, (a, b): (usize, usize)) -> bool {
        let both = |p: &&FieldPair| (p.stored, p.lost) == (a, b) || (p.stored, p.lost) == (b, a);
        let (e, across) =
            self.pairs.iter().filter(both).fold((0.0, 0.0), |s, p| (s.0 + p.e, s.1 + p.across_e));
        across > 0.5 * e
    }

    /// `a ⟷ b`; one name where all fight over one field.
    pub fn title(&self) -> String {
        let Some((a, b)) = self.worst_pair() else {
            return self.fields.first().map(|f| f.path.clone()).unwrap_or_default();
        };
        let (a, b) = (&self.fields[a], &self.fields[b]);
        match a.path == b.path && (a.is_one() || !self.can_part()) {
            true => a.path.clone(),
            false => format!("{} \u{27f7} {}", a.path, b.path),
        }
    }

    /// Actors with at least 1% of the fight, ascending; all of them where that is not known.
    pub fn fighters(&self) -> Vec<u32> {
        let least = 0.01 * (self.e.e_true + self.e.e_false + self.e.e_mixed);
        let mut ids: Vec<u32> = self.actor_e.iter().filter(|(_, e)| **e >= least).map(|(a, _)| *a).collect();
        if ids.is_empty() {
            ids = self.fields.iter().flat_map(|f| f.actors.keys().copied()).collect();
            ids.sort_unstable();
            ids.dedup();
        }
        ids
    }

    /// On each of its lines threads take turns ([`LineContention::by_turns`]).
    pub fn by_turns(&self) -> bool {
        by_turns(&self.lines)
    }

    /// Threads fight for one lock and nothing beside it: no layout of the program's changes what lies inside.
    pub fn is_one_lock(&self) -> bool {
        let [field] = self.fields.as_slice() else { return false };
        field.opaque && field.is_one() && self.lines.iter().all(|l| l.objects().len() == 1)
    }

    /// Ids of the objects, those of the worst line first.
    pub fn objects(&self) -> Vec<u32> {
        let mut ids = Vec::new();
        for l in &self.lines {
            for o in l.objects() {
                if !ids.contains(&o) && ids.len() < 10_000 {
                    ids.push(o);
                }
            }
        }
        ids
    }
}
