//! A proposed change as two drawings: an object's bytes today and after it.

use crate::drawing::{last_word, without_numbers};
use crate::names;
use std::collections::BTreeMap;
use tussle_advise::abi::Shapes;
use tussle_advise::advice::Advice;
use tussle_advise::relayout::Relayout;
use tussle_contention::fields::Namer;
use tussle_evidence::{Evidence, Object};
use tussle_model::{LineSize, TypeId};
use tussle_render::{Bytes, Node, Phase, Stretch, StretchKind, Use};

/// Bytes of an object that are drawn: eight lines.
const BYTES_MAX: u64 = 512;

/// Today and `after` the change (in words), of the object that is accessed most; nothing where none has just this type.
pub fn drawings(e: &Evidence, advice: &Advice, line: LineSize, after: &str) -> Vec<Node> {
    both(e, advice, line, after).map_or(Vec::new(), |b| b.map(|b| Node::Bytes(Box::new(b))).into())
}

fn both(e: &Evidence, advice: &Advice, line: LineSize, later: &str) -> Option<[Bytes; 2]> {
    let target = e.types.strip(e.types.find(&advice.type_name)?);
    let (id, o) = busiest(e, target)?;
    let shapes = Shapes::new(&e.types);
    let layout = Relayout::new(&shapes, target, &advice.edits).ok()?;
    let mut threads = Vec::new();
    let stretches = today(e, id, o, &mut threads);
    let (before, after) = (e.types.size(target)?, layout.size(target).ok()??);
    let moved = |at: u64| {
        let inside = layout.translate(target, at % before.max(1)).ok()?;
        Some((at / before.max(1)).checked_mul(after)?.checked_add(inside)? as i64)
    };
    let align = layout.align(target).unwrap_or(1).clamp(1, line.bytes());
    let phase = line.offset(o.base);
    let threads: Vec<String> = threads.iter().map(|&a| names::threads(e, &[a])).collect();
    let name = &advice.type_name;
    let drawn = |key: &str, title: String, phase: u64, stretches| Bytes {
        key: key.into(),
        title,
        line_bytes: line.bytes() as u32,
        phase_bytes: phase as u32,
        phases: phases(line, o.align.max(align)),
        threads: threads.clone(),
        stretches,
        beyond: Vec::new(),
    };
    let elements = if o.count > 1 { format!(", {} elements side by side", o.count) } else { String::new() };
    let first = drawn("before", format!("today: {name}, {before} bytes{elements}"), phase, stretches.clone());
    let then = relaid(stretches, &moved, after * o.count.max(1));
    let second =
        drawn("after", format!("{later}: {name}, {after} bytes{elements}"), phase & !(align - 1), then);
    Some([Bytes { phases: phases(line, o.align), ..first }, second])
}

fn phases(line: LineSize, align: u64) -> Vec<Phase> {
    let all = tussle_model::Placement::aligned(align).phases(line);
    all.into_iter().map(|bytes| Phase { bytes: bytes as u32, expected_invalidations: None }).collect()
}

/// The object of this type with the most accesses.
fn busiest(e: &Evidence, target: TypeId) -> Option<(u32, &Object)> {
    let mut heat: BTreeMap<u32, u64> = BTreeMap::new();
    for a in &e.accesses {
        *heat.entry(a.object).or_default() += a.reads + a.writes + a.rmws;
    }
    let of =
        |id: u32| e.objects.get(id as usize).filter(|o| o.ty.is_some_and(|t| e.types.strip(t) == target));
    heat.into_iter()
        .filter(|(id, _)| of(*id).is_some())
        .max_by_key(|(_, n)| *n)
        .and_then(|(id, _)| Some((id, of(id)?)))
}

/// Every byte of an object by what it is and who touches it; at most [`BYTES_MAX`].
fn today(e: &Evidence, id: u32, o: &Object, threads: &mut Vec<u32>) -> Vec<Stretch> {
    let namer = Namer::new(e);
    let mut uses: BTreeMap<(u64, u64), BTreeMap<u32, (u64, u64)>> = BTreeMap::new();
    for a in e.accesses.iter().filter(|a| a.object == id) {
        let of = uses.entry((a.offset, u64::from(a.size))).or_default().entry(a.actor).or_default();
        *of = (of.0 + a.reads, of.1 + a.writes + a.rmws);
    }
    let mut out: Vec<Stretch> = Vec::new();
    for at in 0..o.size.min(BYTES_MAX) {
        let over = uses.iter().filter(|((start, size), _)| (*start..start + size).contains(&at));
        let mut found: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for (actor, (reads, writes)) in over.flat_map(|(_, u)| u) {
            let of = found.entry(*actor).or_default();
            *of = (of.0 + reads, of.1 + writes);
        }
        let name = namer.name(id, at, 1);
        let element = name.index.filter(|_| o.count > 1);
        let path = without_numbers(&name.path);
        let last = last_word(&path);
        let short = element.map_or_else(|| last.clone(), |i| format!("{last} {i}"));
        let hole = name.leaf.is_none();
        let s = Stretch {
            start: at as i64,
            size: 1,
            name: if hole { String::new() } else { path },
            short: if hole { String::new() } else { short },
            kind: if hole { StretchKind::Hole } else { StretchKind::Field },
            uses: parties(found, threads),
            code: Vec::new(),
        };
        match out.last_mut().filter(|l| (&l.name, &l.short, &l.uses) == (&s.name, &s.short, &s.uses)) {
            Some(last) => last.size += 1,
            None => out.push(s),
        }
    }
    out
}

/// Who has at least a thousandth, as in the report's tables.
fn parties(found: BTreeMap<u32, (u64, u64)>, threads: &mut Vec<u32>) -> Vec<Use> {
    let all: u64 = found.values().map(|(r, w)| r + w).sum();
    let mut out = Vec::new();
    for (actor, (reads, writes)) in
        found.into_iter().filter(|(_, (r, w))| (r + w).saturating_mul(1000) >= all)
    {
        let thread = threads.iter().position(|t| *t == actor).unwrap_or_else(|| {
            threads.push(actor);
            threads.len() - 1
        });
        out.push(Use { thread, reads, writes });
    }
    out
}

/// The stretches where the change puts their bytes; holes are what is left between them.
fn relaid(old: Vec<Stretch>, moved: &dyn Fn(u64) -> Option<i64>, size: u64) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = Vec::new();
    for s in old.into_iter().filter(|s| s.kind != StretchKind::Hole) {
        let mut last: Option<Stretch> = None;
        for at in s.start as u64..s.start as u64 + s.size {
            let Some(to) = moved(at) else { continue };
            match last.as_mut().filter(|l| l.start + l.size as i64 == to) {
                Some(l) => l.size += 1,
                None => out.extend(last.replace(Stretch { start: to, size: 1, ..s.clone() })),
            }
        }
        out.extend(last);
    }
    out.sort_by_key(|s| s.start);
    let mut holes = Vec::new();
    let mut at = 0;
    let end = Stretch { start: size.min(BYTES_MAX) as i64, ..Stretch::default() };
    for s in out.iter().chain([&end]) {
        if at < s.start {
            let size = (s.start - at) as u64;
            holes.push(Stretch { start: at, size, kind: StretchKind::Hole, ..Stretch::default() });
        }
        at = at.max(s.start + s.size as i64);
    }
    out.extend(holes);
    out.sort_by_key(|s| s.start);
    out
}
