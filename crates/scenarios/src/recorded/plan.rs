//! From the tables of an evidence to operations that can be repeated.

use super::fields::Fields;
use super::lock::{self, Found};
use super::replicas;
use super::{
    ACCESS_NS, Held, INSTRUCTION_NS, OPERATIONS_MAX, OperationShape, RecordedError, Recording, Spot, Step,
    THINK_NS, Think, TouchedObject, VISITS_MAX, Visit,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use tussle_contention::fields::Namer;
use tussle_evidence::tables::{ActorKind, Evidence, Object, ObjectKind, Operation, TouchKind};

/// Bytes within which objects disturb each other: a pair of lines.
const BLOCK: u64 = 128;
/// A wide visit (a structure copied) touches its first word and one of each 64 bytes, up to this many.
const WIDE_MAX: u64 = 16;

/// Visits of all operations beyond this many are left out.
const VISITS_ALL: usize = 200_000;

/// Actors that do less than this part of what the busiest one does are left out.
const BUSY_SHARE: u128 = 100;
/// Accesses to own memory in a row, at most.
const GAP_MAX: u64 = 1 << 20;
/// Locks inside one operation, at most.
const INNER_MAX: usize = 64;
/// Fields beyond this many are memory of the actor's own.
const SPOTS_MAX: usize = 50_000;

/// Collects what operations touch.
struct Plan<'a> {
    evidence: &'a Evidence,
    fields: Fields<'a>,
    namer: Namer<'a>,
    objects: HashMap<u32, usize>,
    places: Vec<TouchedObject>,
    /// Lowest and highest offset touched, by place.
    extent: Vec<(u64, u64)>,
    spot_of: HashMap<(usize, u64), u32>,
    spots: Vec<Spot>,
    lock_of: HashMap<(usize, u64), usize>,
    locks: Vec<Held>,
    found: HashMap<(u32, u64), Found>,
    inside: u64,
}

/// See [`Recording::new`].
pub fn recording(ev: &Evidence) -> Result<Recording, RecordedError> {
    let all = ev.operations.as_deref().filter(|o| !o.is_empty()).ok_or(RecordedError::NoOperations)?;
    let kept = busy(frequent(ev, all));
    let mut actors: BTreeMap<u32, usize> = kept.iter().map(|o| (o.actor, 0)).collect();
    actors.values_mut().enumerate().for_each(|(i, a)| *a = i);
    match actors.len() {
        0 => return Err(RecordedError::Dangling(all.len())),
        1 => return Err(RecordedError::OneActor),
        _ => {}
    }
    let mut plan = Plan {
        evidence: ev,
        fields: Fields::new(&ev.types),
        namer: Namer::new(ev),
        objects: HashMap::new(),
        places: Vec::new(),
        extent: Vec::new(),
        spot_of: HashMap::new(),
        spots: Vec::new(),
        lock_of: HashMap::new(),
        locks: Vec::new(),
        found: HashMap::new(),
        inside: 0,
    };
    let mut shapes = Vec::with_capacity(kept.len());
    for op in &kept {
        if let Some(&actor) = actors.get(&op.actor) {
            shapes.push(plan.shape(op, actor));
        }
    }
    plan.group();
    let think = think(&mut shapes, &accesses_between(ev, &kept, &actors));
    let crossed = uncross(&mut shapes);
    let sum = |ops: &mut dyn Iterator<Item = u64>| ops.fold(0u64, u64::saturating_add);
    let operations = (sum(&mut all.iter().map(|o| o.repeats)), sum(&mut kept.iter().map(|o| o.repeats)));
    let accesses = plan.accesses();
    let mut recording = Recording {
        actors: actors.len(),
        actor_ids: actors.keys().copied().collect(),
        shapes,
        accesses: (accesses, plan.inside),
        spots: plan.spots,
        places: plan.places,
        locks: plan.locks,
        think,
        crossed,
        no_replicas: replicas::refusal(ev, &actors, &kept),
        command: ev.run.command.join(" ").chars().filter(|c| !c.is_control()).take(120).collect(),
        operations,
    };
    forget_private(&mut recording);
    Ok(recording)
}

/// Operations of actors that exist, the most frequent ones if there are too many, in the order of their virtual time.
fn frequent<'a>(ev: &Evidence, all: &'a [Operation]) -> Vec<&'a Operation> {
    let exists = |o: &&Operation| (o.actor as usize) < ev.actors.len() && o.repeats > 0;
    let mut kept: Vec<&Operation> = all.iter().filter(exists).collect();
    let visits = |o: &Operation| o.visits.len().min(VISITS_MAX);
    let total: usize = kept.iter().map(|o| visits(o)).sum();
    if kept.len() > OPERATIONS_MAX || total > VISITS_ALL {
        kept.sort_by_key(|o| std::cmp::Reverse(o.repeats));
        kept.truncate(OPERATIONS_MAX);
        let mut room = VISITS_ALL;
        kept.retain(|o| {
            let fits = visits(o) <= room;
            room -= if fits { visits(o) } else { 0 };
            fits
        });
    }
    kept.sort_by_key(|o| (o.actor, o.vt0));
    kept
}

/// Takes out actors that do less than one hundredth of what the busiest one does, such as the thread that starts the
/// others and reads their results: repeated for ever, they would be in everybody's way. Two actors stay in any case.
fn busy(mut kept: Vec<&Operation>) -> Vec<&Operation> {
    let mut done: BTreeMap<u32, u128> = BTreeMap::new();
    for o in &kept {
        let accesses: u128 = o.visits.iter().map(|v| u128::from(v.4) + 1).sum();
        let sum = done.entry(o.actor).or_default();
        *sum = sum.saturating_add(accesses.saturating_add(1).saturating_mul(u128::from(o.repeats)));
    }
    let mut most: Vec<u128> = done.values().copied().collect();
    most.sort_unstable_by(|a, b| b.cmp(a));
    let least = most.first().map_or(0, |m| m / BUSY_SHARE).min(most.get(1).copied().unwrap_or(0));
    kept.retain(|o| done.get(&o.actor).is_some_and(|d| *d >= least));
    kept
}

/// Locks taken inside of an operation, by the visit before which they are taken or given up.
struct Inner {
    /// (first visit, one past the last, lock, shared), in the order in which they are taken.
    spans: Vec<(u32, u32, u32, bool)>,
    next: usize,
    held: Vec<(u32, u32, bool)>,
}

impl Inner {
    fn new(plan: &mut Plan<'_>, op: &Operation, actor: usize, outer: Option<usize>) -> Inner {
        let mut spans = Vec::new();
        for &(first, end, object, offset, shared) in op.inner.iter().flatten().take(INNER_MAX) {
            let Some(lock) = plan.lock(object, offset, actor, op.repeats) else { continue };
            // Readers of one lock may nest; simulated, once is enough.
            if Some(lock) != outer {
                let readers = plan.locks[lock].found.model.has_readers();
                spans.push((first, end.max(first), lock as u32, readers && shared.unwrap_or(false)));
            }
        }
        spans.sort_by_key(|s| (s.0, std::cmp::Reverse(s.1)));
        Inner { spans, next: 0, held: Vec::new() }
    }

    /// What happens before visit `i`.
    fn at(&mut self, i: u32, steps: &mut Vec<Step>) {
        while let Some(&(first, end, lock, shared)) = self.spans.get(self.next).filter(|s| s.0 <= i) {
            self.release(first, steps);
            if !self.held.iter().any(|h| h.1 == lock) {
                steps.push(Step::Lock(lock, shared));
                self.held.push((end, lock, shared));
            }
            self.next += 1;
        }
        self.release(i, steps);
    }

    /// Gives up what ends at or before visit `i`, the last taken first.
    fn release(&mut self, i: u32, steps: &mut Vec<Step>) {
        let mut ended: Vec<(u32, u32, bool)> = self.held.iter().filter(|h| h.0 <= i).copied().collect();
        self.held.retain(|h| h.0 > i);
        while let Some((_, lock, shared)) = ended.pop() {
            steps.push(Step::Unlock(lock, shared));
        }
    }
}

impl Plan<'_> {
    fn shape(&mut self, op: &Operation, actor: usize) -> OperationShape {
        let lock = op.lock_object.zip(op.lock_offset).and_then(|(o, at)| self.lock(o, at, actor, op.repeats));
        let own = lock.map(|l| (self.locks[l].object, self.locks[l].found.start, self.locks[l].found.size));
        let mut steps = Vec::with_capacity(op.visits.len().min(VISITS_MAX));
        let (mut gap, mut accesses) = (0u64, 0u64);
        let mut inner = Inner::new(self, op, actor, lock);
        for (i, &(object, offset, size, kind, before)) in op.visits.iter().enumerate().take(VISITS_MAX) {
            inner.at(i as u32, &mut steps);
            gap = gap.saturating_add(before);
            accesses = accesses.saturating_add(before).saturating_add(1);
            let Some(place) = self.place(object) else {
                gap = gap.saturating_add(1);
                continue;
            };
            // What the lock does to its own words is the model's business.
            if own.is_some_and(|(o, start, bytes)| {
                o == place && (start..start.saturating_add(bytes)).contains(&offset)
            }) {
                gap = gap.saturating_add(1);
                continue;
            }
            self.inside = self.inside.saturating_add(op.repeats);
            let (write, atomic) = (kind != TouchKind::Read, kind == TouchKind::Rmw);
            let words = u64::from(size).div_ceil(64).clamp(1, WIDE_MAX);
            for word in 0..words {
                let spot = self.spot(object, place, offset.saturating_add(word * 64), actor);
                steps.push(Step::Visit(Visit { gap: gap.min(GAP_MAX) as u32, spot, write, atomic }));
                gap = 0;
            }
        }
        inner.at(u32::MAX, &mut steps);
        if gap > 0 {
            steps.push(Step::Visit(Visit::own(gap.min(GAP_MAX) as u32)));
        }
        let access_ns = match op.instructions {
            Some(n) => (n as f64 * INSTRUCTION_NS / accesses.max(1) as f64).min(1_000.0),
            None => ACCESS_NS,
        };
        let reads_only = !steps.iter().any(|s| matches!(s, Step::Visit(v) if v.write));
        let readers = lock.is_some_and(|l| self.locks[l].found.model.has_readers());
        let shared = readers && op.shared.unwrap_or(reads_only);
        let think_ns = op.think_instructions.map_or(f64::NAN, |n| n as f64 * INSTRUCTION_NS);
        OperationShape { actor, lock, shared, steps, repeats: op.repeats, access_ns, think_ns }
    }

    fn object(&self, object: u32) -> Option<&Object> {
        self.evidence.objects.get(object as usize)
    }

    fn place(&mut self, object: u32) -> Option<usize> {
        if let Some(&known) = self.objects.get(&object) {
            return Some(known);
        }
        let (o, ev) = (self.object(object)?, self.evidence);
        let ty = o.ty.and_then(|ty| Some((ty, ev.types.size(ty).filter(|s| *s > 0)?)));
        let moves = matches!(o.kind, ObjectKind::Heap | ObjectKind::Slab) || !ev.run.sees.phases;
        let step = moves.then(|| o.align.max(8).checked_next_power_of_two().unwrap_or(BLOCK).min(BLOCK));
        let typed = ty.map(|(id, _)| ev.types.name(id));
        let named = ty.and_then(|t| ev.types.aggregate(t.0)).is_some_and(|a| a.name.is_some());
        // As the report does: a variable is known by its name, everything else by its type.
        let variable = matches!(o.kind, ObjectKind::Global | ObjectKind::PerCpu | ObjectKind::Tls);
        let label = match (typed, &o.name) {
            (_, Some(name)) if variable => name.clone(),
            (Some(t), _) if named => t,
            (_, Some(name)) => name.clone(),
            (Some(t), None) => t,
            (None, None) => format!("object {object}"),
        };
        let label = label.trim_start_matches("struct ").to_string();
        let count = o.count;
        let known = ev.run.sees.phases;
        let place = TouchedObject { label, ty, count, base: o.base, step, known, group: self.places.len() };
        self.places.push(place);
        self.extent.push((u64::MAX, 0));
        self.objects.insert(object, self.places.len() - 1);
        Some(self.places.len() - 1)
    }

    fn spot(&mut self, object: u32, place: usize, offset: u64, actor: usize) -> Option<u32> {
        let of = self.evidence.objects.get(object as usize);
        let (start, size) = of.map_or((offset, 8), |o| self.fields.at(o, offset));
        let next = self.spots.len() as u32;
        if next as usize >= SPOTS_MAX && !self.spot_of.contains_key(&(place, start)) {
            return None;
        }
        let index = *self.spot_of.entry((place, start)).or_insert(next);
        if index == next {
            let leaf = self.namer.name(object, start, size.into()).leaf;
            let name = leaf.unwrap_or_else(|| format!("+{start:#x}"));
            self.spots.push(Spot { object: place, offset: start, size, name, owner: Some(actor) });
        }
        let spot = &mut self.spots[index as usize];
        spot.owner = spot.owner.filter(|o| *o == actor);
        let extent = &mut self.extent[place];
        *extent = (extent.0.min(start), extent.1.max(start));
        Some(index)
    }

    fn lock(&mut self, object: u32, offset: u64, actor: usize, repeats: u64) -> Option<usize> {
        let place = self.place(object)?;
        let ev = self.evidence;
        let kernel = ev.actors.iter().any(|a| a.kind == ActorKind::Cpu);
        let (ty, count) = self.object(object).map(|o| (o.ty, o.count))?;
        let fields = &mut self.fields;
        let find = || lock::find(&ev.types, fields, (ty, count), offset, kernel);
        let found = self.found.entry((object, offset)).or_insert_with(find).clone();
        let next = self.locks.len();
        let index = *self.lock_of.entry((place, found.start)).or_insert(next);
        if index == next {
            let extent = &mut self.extent[place];
            for (at, _) in &found.words {
                *extent = (extent.0.min(*at), extent.1.max(*at));
            }
            self.locks.push(Held { object: place, found, owner: Some(actor), operations: 0 });
        }
        let held = &mut self.locks[index];
        held.owner = held.owner.filter(|o| *o == actor);
        held.operations = held.operations.saturating_add(repeats);
        Some(index)
    }

    /// Accesses recorded to the objects of operations, but for what locks did to their own words.
    fn accesses(&self) -> u64 {
        let mut locks: Vec<Vec<(u64, u64)>> = vec![Vec::new(); self.places.len()];
        for l in &self.locks {
            locks[l.object].push((l.found.start, l.found.start.saturating_add(l.found.size)));
        }
        locks.iter_mut().for_each(|l| l.sort_unstable());
        let data = |a: &tussle_evidence::Access| {
            let Some(ranges) = self.objects.get(&a.object).and_then(|&p| locks.get(p)) else { return 0 };
            let before = ranges.partition_point(|r| r.0 <= a.offset);
            let own = before.checked_sub(1).and_then(|i| ranges.get(i)).is_some_and(|r| a.offset < r.1);
            if own { 0 } else { a.total() }
        };
        self.evidence.accesses.iter().map(data).fold(0, u64::saturating_add)
    }

    /// Objects that lay on one pair of lines at the same time stay together.
    fn group(&mut self) {
        let mut order: Vec<(u32, usize)> = self.objects.iter().map(|(o, p)| (*o, *p)).collect();
        let ev = self.evidence;
        if !ev.run.sees.phases {
            return;
        }
        order.retain(|(_, p)| self.extent[*p].0 <= self.extent[*p].1);
        order.sort_by_key(|(o, p)| {
            let at = ev.objects.get(*o as usize);
            (at.map_or(0, |o| o.process), self.places[*p].base.saturating_add(self.extent[*p].0), *o)
        });
        for pair in order.windows(2) {
            let ((a, pa), (b, pb)) = (pair[0], pair[1]);
            let (Some(oa), Some(ob)) = (self.object(a), self.object(b)) else { continue };
            let last = self.places[pa].base.saturating_add(self.extent[pa].1);
            let first = self.places[pb].base.saturating_add(self.extent[pb].0);
            let apart = oa.base.saturating_add(oa.size.max(1)) <= ob.base;
            let together = oa.vt0 <= ob.vt1.unwrap_or(u64::MAX) && ob.vt0 <= oa.vt1.unwrap_or(u64::MAX);
            if oa.process == ob.process && last / BLOCK == first / BLOCK && apart && together {
                self.places[pb].group = self.places[pa].group;
            }
        }
    }
}

/// Memory of one actor alone costs time and no transfers: it needs no place.
fn forget_private(r: &mut Recording) {
    let mut owners: HashMap<usize, Option<usize>> = HashMap::new();
    for s in &r.spots {
        let group = r.places[s.object].group;
        let o = owners.entry(group).or_insert(s.owner);
        *o = o.filter(|o| s.owner == Some(*o));
    }
    let locked: HashSet<usize> = r.locks.iter().map(|l| r.places[l.object].group).collect();
    let alone = |s: &Spot| {
        let group = r.places[s.object].group;
        !locked.contains(&group) && owners.get(&group).copied().flatten().is_some()
    };
    let keep: Vec<bool> = r.spots.iter().map(|s| !alone(s)).collect();
    let mut number = vec![None; keep.len()];
    for (next, (i, _)) in keep.iter().enumerate().filter(|(_, k)| **k).enumerate() {
        number[i] = Some(next as u32);
    }
    let mut index = 0;
    r.spots.retain(|_| {
        index += 1;
        keep[index - 1]
    });
    for shape in &mut r.shapes {
        let mut steps: Vec<Step> = Vec::with_capacity(shape.steps.len());
        let mut gap = 0u32;
        for step in &shape.steps {
            let Step::Visit(v) = step else {
                if gap > 0 {
                    steps.push(Step::Visit(Visit::own(std::mem::take(&mut gap))));
                }
                steps.push(*step);
                continue;
            };
            let spot = v.spot.and_then(|i| number[i as usize]);
            gap = gap.saturating_add(v.gap);
            match spot {
                Some(_) => steps.push(Step::Visit(Visit { gap: std::mem::take(&mut gap), spot, ..*v })),
                None => gap = gap.saturating_add(u32::from(v.spot.is_some())),
            }
        }
        if gap > 0 {
            steps.push(Step::Visit(Visit::own(gap)));
        }
        shape.steps = steps;
    }
}

/// Fills in the time before every operation: instructions where they were counted, else accesses of its actor, else
/// the mean of the others.
fn think(shapes: &mut [OperationShape], accesses: &[Option<f64>]) -> Think {
    let counted = shapes.iter().any(|s| s.think_ns.is_finite());
    for s in shapes.iter_mut().filter(|s| !s.think_ns.is_finite()) {
        if let Some(n) = accesses.get(s.actor).copied().flatten() {
            s.think_ns = n * ACCESS_NS;
        }
    }
    let (mut sum, mut weight) = (0.0, 0.0);
    for s in shapes.iter().filter(|s| s.think_ns.is_finite()) {
        sum += s.think_ns * s.repeats as f64;
        weight += s.repeats as f64;
    }
    let mean = if weight > 0.0 { sum / weight } else { THINK_NS };
    shapes.iter_mut().filter(|s| !s.think_ns.is_finite()).for_each(|s| s.think_ns = mean);
    match (counted, weight > 0.0) {
        (true, _) => Think::Instructions,
        (_, true) => Think::Accesses,
        _ => Think::Unknown,
    }
}

/// Takes inner locks out whose order another operation contradicts (`trylock`, or a lock that a copy of the object
/// stands for): repeated endlessly by everybody, they would deadlock. Returns how many.
fn uncross(shapes: &mut [OperationShape]) -> usize {
    let mut below: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut crossed = 0;
    for shape in shapes.iter_mut() {
        let mut held: Vec<u32> = shape.lock.map(|l| l as u32).into_iter().collect();
        let mut out: HashSet<u32> = HashSet::new();
        for step in &shape.steps {
            match *step {
                Step::Lock(l, _) if held.iter().any(|&h| h == l || reaches(&below, l, h)) => {
                    out.insert(l);
                    crossed += 1;
                }
                Step::Lock(l, _) => {
                    for &h in &held {
                        below.entry(h).or_default().insert(l);
                    }
                    held.push(l);
                }
                Step::Unlock(l, _) => held.retain(|h| *h != l),
                Step::Visit(_) => {}
            }
        }
        if !out.is_empty() {
            shape.steps.retain(|s| !matches!(s, Step::Lock(l, _) | Step::Unlock(l, _) if out.contains(l)));
        }
    }
    crossed
}

/// `from` is held somewhere while `to` is taken, directly or over others.
fn reaches(below: &BTreeMap<u32, BTreeSet<u32>>, from: u32, to: u32) -> bool {
    let (mut todo, mut seen) = (vec![from], BTreeSet::from([from]));
    while let Some(at) = todo.pop() {
        if at == to {
            return true;
        }
        todo.extend(below.get(&at).into_iter().flatten().filter(|l| seen.insert(**l)));
    }
    false
}

/// Mean accesses of every actor between two of its operations: what of its virtual time they leave.
fn accesses_between(ev: &Evidence, kept: &[&Operation], actors: &BTreeMap<u32, usize>) -> Vec<Option<f64>> {
    /// Operations, accesses inside of them, first and last virtual time.
    #[derive(Clone, Copy)]
    struct Sum(u128, u128, u64, u64);
    let mut sums = vec![Sum(0, 0, u64::MAX, 0); actors.len()];
    for o in kept {
        let Some(s) = actors.get(&o.actor).and_then(|&a| sums.get_mut(a)) else { continue };
        let inside: u128 = o.visits.iter().map(|v| u128::from(v.4) + 1).sum();
        s.0 += u128::from(o.repeats);
        s.1 = s.1.saturating_add(inside.saturating_mul(u128::from(o.repeats)));
        (s.2, s.3) = (s.2.min(o.vt0), s.3.max(o.vt1));
    }
    let one = |(&actor, &dense): (&u32, &usize)| {
        let Sum(count, inside, first, last) = sums[dense];
        let whole = ev.actors.get(actor as usize).map_or(0, |a| a.vt1.saturating_sub(a.vt0));
        // Rows of several operations may give the time of one of them only: then the actor's whole life tells.
        let span = [last.saturating_sub(first), whole].into_iter().map(u128::from).find(|s| *s >= inside)?;
        (count > 1).then(|| (span - inside) as f64 / count as f64)
    };
    actors.iter().map(one).collect()
}
