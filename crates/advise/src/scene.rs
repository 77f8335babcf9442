//! The part of an evidence that a change of one struct can affect: objects that hold it, with their neighbours.
//!
//! Objects that lie within a line of each other form a *cluster*. When a struct grows, the objects behind it in its
//! cluster move along; the gap between neighbours (an allocator's header, a linker's padding) stays. A cluster as a
//! whole can begin at any phase that its alignment allows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

use tussle_contention::fields::Namer;
use tussle_contention::under::{Under, turns_at};
use tussle_evidence::tables::{NEAR_BYTES, WHOLE_BYTES};
use tussle_evidence::{Evidence, Object, ObjectKind};
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::{Type, TypeId, TypeTable};

use crate::room;

/// Rows of accesses kept for the search, by whole pairs of lines, those where threads meet most first: a bound on time.
pub const HITS_MAX: usize = 60_000;

/// One row of accesses, in terms of its cluster.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    /// Index into [`Cluster::objects`].
    pub(crate) slot: u32,
    /// Offset in the object.
    pub(crate) offset: u64,
    pub(crate) size: u32,
    pub(crate) actor: u32,
    pub(crate) vt0: u64,
    pub(crate) vt1: u64,
    pub(crate) reads: f64,
    pub(crate) writes: f64,
    pub(crate) rmws: f64,
    /// The lock under which they happened.
    pub(crate) under: Under,
    /// Index into [`Scene::fields`].
    pub(crate) field: u32,
}

/// Objects that may share lines.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// Object ids in ascending order of address.
    pub(crate) objects: Vec<u32>,
    pub(crate) hits: Vec<Hit>,
}

/// What the search works on.
pub struct Scene<'a> {
    pub(crate) evidence: &'a Evidence,
    pub(crate) target: TypeId,
    pub(crate) clusters: Vec<Cluster>,
    /// Names of fields, as reports print them.
    pub(crate) fields: Vec<String>,
    /// Whether a field belongs to an object that holds the target.
    pub(crate) own: Vec<bool>,
    /// Whether the change reaches the layout of an object.
    affected: Vec<bool>,
    /// Objects in memory with room behind their last element.
    roomy: HashSet<u32>,
    pub(crate) line: u64,
    /// How many times as much as what is here threads can do to each other in all that was recorded: above 1 where
    /// [`HITS_MAX`] leaves lines out.
    pub scale: f64,
}

impl<'a> Scene<'a> {
    /// Objects that hold `target` by value, their neighbours, and the accesses where two actors come within a line or
    /// two of each other. `line` in bytes.
    pub fn new(evidence: &'a Evidence, target: TypeId, line: u64) -> Scene<'a> {
        let target = evidence.types.strip(target);
        let wanted = holders(&evidence.types, target);
        let is_affected = |o: &Object| o.ty.is_some_and(|t| wanted.contains(&evidence.types.strip(t)));
        Scene::of(evidence, target, evidence.objects.iter().map(is_affected).collect(), line)
    }

    /// The same for objects that change by themselves, whatever their type.
    pub fn of_objects(evidence: &'a Evidence, objects: &HashSet<u32>, line: u64) -> Scene<'a> {
        let affected = (0..evidence.objects.len() as u32).map(|o| objects.contains(&o)).collect();
        Scene::of(evidence, TypeId(0), affected, line)
    }

    fn of(evidence: &'a Evidence, target: TypeId, affected: Vec<bool>, line: u64) -> Scene<'a> {
        let line = line.max(8);
        let mut scene = Scene {
            evidence,
            target,
            clusters: Vec::new(),
            fields: Vec::new(),
            own: Vec::new(),
            roomy: room::spare(evidence, &affected),
            affected,
            line,
            scale: 1.0,
        };
        let mut groups = clusters(evidence, &scene.affected, line);
        scene.fill(&mut groups, line);
        scene.clusters = groups.into_iter().filter(|c| !c.hits.is_empty()).collect();
        scene
    }

    /// Puts accesses into their clusters, only where more than one actor is near.
    fn fill(&mut self, groups: &mut [Cluster], line: u64) {
        let mut home: HashMap<u32, (usize, u32)> = HashMap::new();
        for (g, cluster) in groups.iter().enumerate() {
            for (slot, object) in cluster.objects.iter().enumerate() {
                home.insert(*object, (g, slot as u32));
            }
        }
        let crowded = crowded_blocks(self.evidence, &home, 2 * line);
        // Another layout may bring any two fields of a struct together, so that all of it counts, as far as recordings
        // keep it (docs/recorder.md).
        let near = |object: u32, block: u64| {
            let o = &self.evidence.objects[object as usize];
            let within = |mut blocks: RangeInclusive<u64>| blocks.any(|b| crowded.contains(&(o.process, b)));
            let reach = NEAR_BYTES / (2 * line);
            match self.affected[object as usize] {
                true if o.size <= WHOLE_BYTES => {
                    let last = o.base.saturating_add(o.size.saturating_sub(1));
                    within(o.base / (2 * line)..=last / (2 * line))
                }
                true => within(block.saturating_sub(reach)..=block.saturating_add(reach)),
                false => within(block..=block),
            }
        };
        let namer = Namer::new(self.evidence);
        let mut names: HashMap<String, u32> = HashMap::new();
        let mut known: HashMap<(u32, u64, u32), u32> = HashMap::new();
        let mut reached: HashMap<(u32, u64), bool> = HashMap::new();
        let mut rows: Vec<(usize, u64, Hit)> = Vec::new();
        for a in &self.evidence.accesses {
            let Some(&(g, slot)) = home.get(&a.object) else { continue };
            let object = &self.evidence.objects[a.object as usize];
            let block = (object.process, object.base.saturating_add(a.offset) / (2 * line));
            if !*reached.entry((a.object, block.1)).or_insert_with(|| near(a.object, block.1)) {
                continue;
            }
            let (fields, own) = (&mut self.fields, &mut self.own);
            let holds = self.affected[a.object as usize];
            let field = *known.entry((a.object, a.offset, a.size)).or_insert_with(|| {
                let path = namer.name(a.object, a.offset, u64::from(a.size)).path;
                *names.entry(path.clone()).or_insert_with(|| {
                    fields.push(path);
                    own.push(false);
                    fields.len() as u32 - 1
                })
            });
            own[field as usize] |= holds;
            let (reads, writes, rmws) = (a.reads as f64, a.writes as f64, a.rmws as f64);
            let (offset, size, actor, vt0, vt1) = (a.offset, a.size.max(1), a.actor, a.vt0, a.vt1);
            let at = object.base.saturating_add(a.offset);
            let under = Under::of(self.evidence, a, turns_at(at - tussle_model::LineSize::L64.offset(at)));
            let hit = Hit { slot, offset, size, actor, vt0, vt1, reads, writes, rmws, under, field };
            rows.push((g, block.1, hit));
        }
        self.scale = thin(&mut rows);
        for (g, _, hit) in rows {
            groups[g].hits.push(hit);
        }
    }

    /// Whether the change reaches an object's layout.
    pub(crate) fn holds(&self, object: u32) -> bool {
        self.affected.get(object as usize).copied().unwrap_or(false)
    }

    /// Whether an object can grow into memory that is there already and that nobody uses.
    pub(crate) fn is_roomy(&self, object: u32) -> bool {
        self.roomy.contains(&object)
    }

    /// Objects whose layout the change reaches.
    pub fn objects(&self) -> impl Iterator<Item = &'a Object> + '_ {
        self.numbered().map(|(_, o)| o)
    }

    /// The same with their ids.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &'a Object)> + '_ {
        let all = (0..).zip(&self.evidence.objects).zip(&self.affected);
        all.filter(|(_, reached)| **reached).map(|(o, _)| o)
    }
}

/// Leaves so many whole blocks that at most [`HITS_MAX`] hits remain, those first where threads meet most; how many
/// times as much all of them have that threads can do to each other.
fn thin(rows: &mut Vec<(usize, u64, Hit)>) -> f64 {
    if rows.len() <= HITS_MAX {
        return 1.0;
    }
    let mut blocks: BTreeMap<(usize, u64), (usize, BTreeMap<u32, (f64, f64)>)> = BTreeMap::new();
    for (g, block, hit) in rows.iter() {
        let of = blocks.entry((*g, *block)).or_default();
        of.0 += 1;
        let actor = of.1.entry(hit.actor).or_default();
        *actor = (actor.0 + hit.writes + hit.rmws, actor.1 + accesses(hit));
    }
    // Stores of each that others can meet: none where nobody stores.
    let met = |actors: &BTreeMap<u32, (f64, f64)>| {
        let all: f64 = actors.values().map(|a| a.1).sum();
        actors.values().map(|(stores, own)| stores.min(all - own)).sum::<f64>()
    };
    let mut order: Vec<((usize, u64), usize, f64)> =
        blocks.into_iter().map(|(at, (hits, actors))| (at, hits, met(&actors))).collect();
    order.sort_unstable_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
    let all: f64 = order.iter().map(|b| b.2).sum();
    // The worst one counts in any case.
    let mut left = HITS_MAX.max(order.first().map_or(0, |b| b.1));
    // Blocks lie beside others: one that is left out takes what its fields would do to the next one with it.
    order.retain(|b| {
        let fits = b.1 <= left;
        left -= if fits { b.1 } else { 0 };
        fits
    });
    let mut kept: f64 = order.iter().map(|b| b.2).sum();
    let kept_blocks: HashSet<(usize, u64)> = order.iter().map(|b| b.0).collect();
    rows.retain(|(g, block, _)| kept_blocks.contains(&(*g, *block)));
    if rows.len() > HITS_MAX {
        // One block by itself.
        let sum = |rows: &[(usize, u64, Hit)]| rows.iter().map(|r| accesses(&r.2)).sum::<f64>();
        let whole = sum(rows);
        rows.sort_by(|a, b| accesses(&b.2).total_cmp(&accesses(&a.2)));
        rows.truncate(HITS_MAX);
        kept *= sum(rows) / whole;
    }
    if kept > 0.0 { (all / kept).max(1.0) } else { 1.0 }
}

fn accesses(hit: &Hit) -> f64 {
    hit.reads + hit.writes + hit.rmws
}

/// Every type that holds `target` by value, itself included.
pub fn holders(table: &TypeTable, target: TypeId) -> HashSet<TypeId> {
    let target = table.strip(target);
    let name = table.aggregate(target).and_then(|a| a.name.clone());
    let mut out: HashSet<TypeId> = HashSet::from([target]);
    if name.is_some() {
        out.extend(table.aggregates().filter(|(_, a)| a.name == name).map(|(id, _)| id));
    }
    // Types may be listed in any order: repeat until nothing is added, at most as often as types nest.
    for _ in 0..DEPTH_MAX {
        let before = out.len();
        for (id, ty) in table.iter() {
            let holds = match ty {
                Type::Array { elem, .. } => out.contains(&table.strip(*elem)),
                Type::Aggregate(a) if !a.declaration => {
                    a.members.iter().any(|m| out.contains(&table.strip(m.ty)))
                }
                _ => false,
            };
            if holds {
                out.insert(id);
            }
        }
        if out.len() == before {
            break;
        }
    }
    out
}

/// Objects near each other, as far as an affected one is among them. What always begins a line, and blocks of whole
/// lines, are walls on the heap: nothing shares a line across them, and where one side lies says nothing of the other.
fn clusters(evidence: &Evidence, affected: &[bool], line: u64) -> Vec<Cluster> {
    let usable = |o: &Object| o.kind != ObjectKind::Unknown && o.kind != ObjectKind::Stack;
    let mut order: Vec<u32> = (0..evidence.objects.len() as u32)
        .filter(|&i| affected[i as usize] || usable(&evidence.objects[i as usize]))
        .collect();
    order.sort_unstable_by_key(|&i| {
        let o = &evidence.objects[i as usize];
        (o.process, o.base, i)
    });
    let mut out: Vec<Cluster> = Vec::new();
    let mut current: Vec<u32> = Vec::new();
    let mut end: Option<(u32, u64)> = None;
    let mut close = |current: &mut Vec<u32>| {
        let objects = std::mem::take(current);
        // Objects without an affected one within reach do not move.
        let last = objects.iter().rposition(|&i| affected[i as usize]);
        let first = objects.iter().position(|&i| affected[i as usize]);
        if let (Some(first), Some(last)) = (first, last) {
            let (first, last) = (first.saturating_sub(1), (last + 2).min(objects.len()));
            out.push(Cluster { objects: objects[first..last].to_vec(), hits: Vec::new() });
        }
    };
    for i in order {
        let o = &evidence.objects[i as usize];
        let walled = |o: &Object| o.kind == ObjectKind::Heap && o.align >= line;
        let near =
            end.is_some_and(|(process, end)| process == o.process && o.base < end.saturating_add(line));
        let last = current.last().map(|&l| &evidence.objects[l as usize]);
        let near = near && !walled(o) && !last.is_some_and(|l| walled(l) && l.size.is_multiple_of(line));
        if !near {
            close(&mut current);
        }
        let stop = o.base.saturating_add(o.size);
        end = Some((o.process, if near { end.map_or(stop, |e| e.1.max(stop)) } else { stop }));
        current.push(i);
    }
    close(&mut current);
    out
}

/// Blocks of `block` bytes where, neighbours included, more than one actor comes and somebody writes.
fn crowded_blocks(evidence: &Evidence, home: &HashMap<u32, (usize, u32)>, block: u64) -> HashSet<(u32, u64)> {
    let mut actors: BTreeMap<(u32, u64), (BTreeSet<u32>, bool)> = BTreeMap::new();
    for a in evidence.accesses.iter().filter(|a| home.contains_key(&a.object)) {
        let o = &evidence.objects[a.object as usize];
        let entry = actors.entry((o.process, o.base.saturating_add(a.offset) / block)).or_default();
        if entry.0.len() < 2 {
            entry.0.insert(a.actor);
        }
        entry.1 |= a.writes + a.rmws > 0;
    }
    let near = |k: &(u32, u64)| [k.1.checked_sub(1), Some(k.1), k.1.checked_add(1)];
    actors
        .keys()
        .filter(|k| {
            let around: Vec<_> =
                near(k).into_iter().flatten().filter_map(|n| actors.get(&(k.0, n))).collect();
            let all: BTreeSet<u32> = around.iter().flat_map(|a| a.0.iter().copied()).collect();
            all.len() > 1 && around.iter().any(|a| a.1)
        })
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(block: u64, actor: u32, writes: f64) -> (usize, u64, Hit) {
        let under = Under::default();
        let (slot, offset, size, vt0, vt1, reads, rmws, field) = (0, 0, 8, 0, 1, 0.0, 0.0, 0);
        (0, block, Hit { slot, offset, size, actor, vt0, vt1, reads, writes, rmws, under, field })
    }

    fn only_read(mut row: (usize, u64, Hit)) -> (usize, u64, Hit) {
        (row.2.reads, row.2.writes) = (row.2.writes, 0.0);
        row
    }

    #[test]
    fn whole_lines_are_left_out_those_where_threads_meet_least_first() {
        let mut few = vec![row(1, 0, 5.0), row(1, 1, 5.0)];
        assert_eq!((thin(&mut few), few.len()), (1.0, 2));
        // One thread alone is busiest, then two that only read; two blocks fight, of which the second does not fit any
        // more.
        let rows = |block, count: usize, each| (0..count).map(move |i| row(block, i as u32 % 2, each));
        let alone = (0..10).map(|_| row(3, 7, 1e9));
        let read = rows(4, 10, 1e6).map(only_read);
        let fight = rows(1, HITS_MAX - 10, 1.0).chain(rows(2, HITS_MAX, 3.0));
        let mut all: Vec<_> = alone.chain(read).chain(fight).collect();
        let scale = thin(&mut all);
        assert!(all.iter().all(|r| r.1 == 2) && all.len() == HITS_MAX);
        assert!((scale - 4.0 / 3.0).abs() < 0.01, "{scale}");
        // The worst block counts, also if it is larger than the bound.
        let mut large: Vec<_> = rows(1, 10, 1.0).chain(rows(2, HITS_MAX + 100, 1.0)).collect();
        let scale = thin(&mut large);
        let (whole, seen) = (HITS_MAX as f64 + 110.0, HITS_MAX as f64);
        assert!((scale - whole / seen).abs() < 1e-9, "{scale}");
        assert!(large.iter().all(|r| r.1 == 2) && large.len() == HITS_MAX);
    }
}
