//! Makes an evidence consistent with itself: after this, every id refers to something and no range overflows.

use crate::bounds::{self, Total, VT_MAX};
use crate::problem::Problems;
use crate::tables::*;
use crate::threads;
use tussle_model::TypeTable;

/// Repairs or drops what refers to nothing, and says so.
pub(crate) fn validate(e: &mut Evidence, problems: &mut Problems) {
    run(&mut e.run, problems);
    types(e, problems);
    let counts = Counts::of(e);
    let mut lost = 0;
    for a in &mut e.actors {
        lost += counts.actor(a);
    }
    say(problems, "actors", lost, "references to nothing became unknown");
    lost = 0;
    for o in &mut e.objects {
        lost += counts.object(o, &e.types);
    }
    say(problems, "objects", lost, "impossible values were repaired");
    lost = 0;
    for c in &mut e.code {
        lost += counts.code(c);
    }
    say(problems, "code", lost, "references to nothing were dropped");
    rows(e, &counts, problems);
}

struct Counts {
    processes: usize,
    modules: usize,
    actors: usize,
    objects: usize,
    code: usize,
    regions: usize,
    schedules: usize,
}

impl Counts {
    fn of(e: &Evidence) -> Counts {
        Counts {
            processes: e.processes.len(),
            modules: e.modules.len(),
            actors: e.actors.len(),
            objects: e.objects.len(),
            code: e.code.len(),
            regions: e.regions.as_ref().map_or(0, Vec::len),
            schedules: e.schedules.as_ref().map_or(0, Vec::len),
        }
    }
}

/// The rows that nothing refers to, of an evidence whose other tables are valid already.
pub(crate) fn last_rows(e: &mut Evidence) {
    let counts = Counts::of(e);
    let problems = &mut Problems::default();
    accesses(e, &counts, problems);
    touches(e, &counts, problems);
    samples(e, &counts, problems);
    transfers(e, &counts, problems);
    rates(e, &counts, problems);
    heat(e, problems);
    operations(e, &counts, problems);
}

/// Makes an id unknown when it is out of range; counts repairs.
fn known(id: &mut Option<u32>, count: usize) -> u64 {
    let bad = id.is_some_and(|i| i as usize >= count);
    if bad {
        *id = None;
    }
    u64::from(bad)
}

/// Makes a time that no run reaches the last one; counts repairs.
fn early(vt: &mut u64) -> u64 {
    let bad = *vt > VT_MAX;
    *vt = (*vt).min(VT_MAX);
    u64::from(bad)
}

impl Counts {
    fn actor(&self, a: &mut Actor) -> u64 {
        known(&mut a.process, self.processes)
            + known(&mut a.creator, self.actors)
            + known(&mut a.start, self.code)
            + early(&mut a.vt0)
            + early(&mut a.vt1)
    }

    fn object(&self, o: &mut Object, types: &TypeTable) -> u64 {
        let mut n = known(&mut o.alloc_code, self.code)
            + known(&mut o.alloc_actor, self.actors)
            + known(&mut o.region, self.regions);
        if o.ty.is_some_and(|t| t.0 as usize >= types.len()) {
            o.ty = None;
            n += 1;
        }
        if !(0.0..=1.0).contains(&o.confidence) {
            o.confidence = 0.0;
            n += 1;
        }
        if !o.align.is_power_of_two() {
            o.align = 1;
            n += 1;
        }
        n + bounds::object(o, types)
    }

    fn code(&self, c: &mut Code) -> u64 {
        let before = c.chain.len();
        c.chain.retain(|&i| (i as usize) < self.code);
        let dropped = (before - c.chain.len()) as u64;
        c.chain.truncate(CHAIN_MAX);
        dropped + known(&mut c.module, self.modules)
    }
}

/// Callers kept per code row.
const CHAIN_MAX: usize = 8;

fn run(r: &mut Run, problems: &mut Problems) {
    if !r.line_bytes.is_power_of_two() || !(16..=256).contains(&r.line_bytes) {
        problems.push("run", 0, 0, &format!("line_bytes {} is impossible; 64 assumed", r.line_bytes));
        r.line_bytes = 64;
    }
    if r.window_vt == 0 || r.window_vt > VT_MAX {
        problems.push("run", 0, 0, &format!("window_vt {} is impossible; 1000 assumed", r.window_vt));
        r.window_vt = 1000;
    }
}

/// See [`TypeTable::checked`].
fn types(e: &mut Evidence, problems: &mut Problems) {
    let table = std::mem::replace(&mut e.types, TypeTable::new(8));
    let (table, damage) = table.checked();
    e.types = table;
    for d in damage {
        problems.push("types", 0, 0, &format!("type {}: {}", d.ty.0, d.what));
    }
}

fn rows(e: &mut Evidence, counts: &Counts, problems: &mut Problems) {
    accesses(e, counts, problems);
    touches(e, counts, problems);
    samples(e, counts, problems);
    transfers(e, counts, problems);
    rates(e, counts, problems);
    heat(e, problems);
    regions(e, counts, problems);
    order(e, counts, problems);
    operations(e, counts, problems);
    let mut total = Total::default();
    let gone = retain(&mut e.losses, |l| total.loss(l));
    say(problems, "losses", gone, "rows count what no run can; dropped");
}

/// Keeps the rows that are sound; returns how many were not.
fn retain<T>(rows: &mut Vec<T>, sound: impl FnMut(&T) -> bool) -> u64 {
    let before = rows.len();
    rows.retain(sound);
    (before - rows.len()) as u64
}

/// At least one byte, all of them in the object.
fn inside(objects: &[Object], object: u32, offset: u64, size: u32) -> bool {
    let within =
        |o: &Object| size > 0 && offset.checked_add(u64::from(size)).is_some_and(|end| end <= o.size);
    objects.get(object as usize).is_some_and(within)
}

/// Rows that are looked at together.
const PART_ROWS: usize = 1 << 16;

/// Nothing is to be done about any row, which is the rule: found out on all CPUs.
fn all_sound<T: Sync>(rows: &[T], sound: impl Fn(&T, &mut Total) -> bool + Sync) -> bool {
    let parts: Vec<&[T]> = rows.chunks(PART_ROWS).collect();
    let of_part = |rows: &&[T]| {
        let mut total = Total::default();
        rows.iter().all(|r| sound(r, &mut total)).then_some(total)
    };
    let mut all = Total::default();
    threads::map(&parts, of_part).into_iter().all(|total| total.is_some_and(|t| all.join(t)))
}

fn accesses(e: &mut Evidence, counts: &Counts, problems: &mut Problems) {
    let objects = &e.objects;
    let sound = |a: &Access, total: &mut Total| {
        (a.actor as usize) < counts.actors && inside(objects, a.object, a.offset, a.size) && total.access(a)
    };
    let held_well = |a: &Access| a.vt0 < a.vt1 && !is_held_badly(a, counts.objects);
    if all_sound(&e.accesses, |a, total| sound(a, total) && held_well(a)) {
        return;
    }
    let mut total = Total::default();
    let gone = retain(&mut e.accesses, |a| sound(a, &mut total));
    let what = "rows refer to no actor or to no bytes of an object, or count what no run can; dropped";
    say(problems, "accesses", gone, what);
    let mut lost = 0;
    for a in &mut e.accesses {
        // A row without length is one instant; one that ends before it begins is one too.
        a.vt1 = a.vt1.max(a.vt0.saturating_add(1));
        lost += held(a, counts.objects);
    }
    say(problems, "accesses", lost, "locks that cannot be became unknown");
}

/// Drops what cannot be known of a lock: one that is nowhere, or more sections than accesses. Counts repairs.
fn held(a: &mut Access, objects: usize) -> u64 {
    let bad = is_held_badly(a, objects);
    if bad {
        a.held = None;
    }
    u64::from(bad)
}

fn is_held_badly(a: &Access, objects: usize) -> bool {
    let all = a.reads + a.writes + a.rmws;
    a.held.is_some_and(|(o, _, sections, storing)| {
        o as usize >= objects || sections > all || storing > sections
    })
}

fn touches(e: &mut Evidence, counts: &Counts, problems: &mut Problems) {
    let objects = &e.objects;
    let sound = |t: &Touch, total: &mut Total| {
        (t.code as usize) < counts.code && inside(objects, t.object, t.offset, t.size) && total.touch(t)
    };
    let of_somebody = |t: &Touch| t.actor.is_none_or(|a| (a as usize) < counts.actors);
    if all_sound(&e.touches, |t, total| sound(t, total) && of_somebody(t)) {
        return;
    }
    let mut total = Total::default();
    let gone = retain(&mut e.touches, |t| sound(t, &mut total));
    let what = "rows refer to no code or to no bytes of an object, or count what no run can; dropped";
    say(problems, "touches", gone, what);
    for t in &mut e.touches {
        known(&mut t.actor, counts.actors);
    }
}

fn samples(e: &mut Evidence, counts: &Counts, problems: &mut Problems) {
    let Some(samples) = &mut e.samples else { return };
    let mut total = Total::default();
    let gone = retain(samples, |s| inside(&e.objects, s.object, s.offset, s.size) && total.sampled(s));
    say(problems, "samples", gone, "rows refer to no bytes of an object, or count what no run can; dropped");
    for s in samples {
        known(&mut s.code, counts.code);
        known(&mut s.actor, counts.actors);
    }
}

fn transfers(e: &mut Evidence, counts: &Counts, problems: &mut Problems) {
    let Some(transfers) = &mut e.transfers else { return };
    let mut total = Total::default();
    let gone = retain(transfers, |t| inside(&e.objects, t.object, t.offset, t.size) && total.transfer(t));
    say(
        problems,
        "transfers",
        gone,
        "rows refer to no bytes of an object, or count what no run can; dropped",
    );
    for t in transfers {
        known(&mut t.code, counts.code);
        known(&mut t.actor, counts.actors);
        known(&mut t.schedule, counts.schedules);
        t.dirty = t.dirty.min(t.transfers);
    }
}

fn rates(e: &mut Evidence, counts: &Counts, problems: &mut Problems) {
    let Some(rates) = &mut e.rates else { return };
    let mut total = Total::default();
    let gone = retain(rates, |r| inside(&e.objects, r.object, r.offset, r.size) && total.rate(r));
    say(problems, "rates", gone, "rows refer to no bytes of an object, or count what no run can; dropped");
    for r in rates {
        known(&mut r.code, counts.code);
        known(&mut r.actor, counts.actors);
    }
}

fn heat(e: &mut Evidence, problems: &mut Problems) {
    let Some(heat) = &mut e.heat else { return };
    let mut total = Total::default();
    let gone = retain(heat, |h| inside(&e.objects, h.object, h.offset, h.size) && total.heat(h));
    say(problems, "heat", gone, "rows refer to no bytes of an object, or count what no run can; dropped");
}

fn regions(e: &mut Evidence, counts: &Counts, problems: &mut Problems) {
    let lost: u64 = e.regions.iter_mut().flatten().map(|r| known(&mut r.parent, counts.regions)).sum();
    say(problems, "regions", lost, "references to nothing became unknown");
}

/// A turn without one of its visits would be another order: all or nothing.
fn order(e: &mut Evidence, counts: &Counts, problems: &mut Problems) {
    let Some(order) = &mut e.order else { return };
    for t in order.iter_mut() {
        known(&mut t.schedule, counts.schedules);
    }
    let whole = |t: &Turn| {
        (t.actor as usize) < counts.actors && t.visits.iter().all(|v| inside(&e.objects, v.0, v.1, v.2))
    };
    if !order.iter().all(whole) {
        let what = "rows, of which some refer to nothing; the table is dropped";
        say(problems, "order", order.len() as u64, what);
        e.order = None;
    }
}

fn operations(e: &mut Evidence, counts: &Counts, problems: &mut Problems) {
    let Some(operations) = &mut e.operations else { return };
    let mut total = Total::default();
    let gone = retain(operations, |o| {
        (o.actor as usize) < counts.actors
            && o.visits.iter().all(|v| (v.0 as usize) < counts.objects)
            && o.lock_object.is_none_or(|l| (l as usize) < counts.objects)
            && o.inner.iter().flatten().all(|l| (l.2 as usize) < counts.objects)
            && total.operation(o)
    });
    say(problems, "operations", gone, "rows refer to nothing, or count what no run can; dropped");
}

fn say(problems: &mut Problems, table: &str, count: u64, what: &str) {
    if count > 0 {
        problems.push(table, 0, 0, &format!("{count} {what}"));
    }
}
