//! Access rows onto cache lines: what lies on one line, for given bases and line size.

use crate::tables::*;
use crate::window::Piece;
use std::collections::HashMap;
use tussle_model::LineSize;

/// A row may reach over this many lines; a longer one is no access but a mistake of its source.
const LINES_PER_ROW_MAX: u64 = 4096;

/// Pieces kept at most: bounds memory for hostile files (about 64 bytes each).
const PIECES_MAX: usize = 16_000_000;

/// A byte range of one object on one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    /// Object id.
    pub object: u32,
    /// First byte from the object's start.
    pub offset: u64,
    /// Bytes.
    pub size: u32,
}

/// Everything that happened on one line while the same objects lay on it.
#[derive(Clone, Debug)]
pub struct LinePieces {
    /// Process id (index).
    pub process: u32,
    /// Address of the line's first byte.
    pub address: u64,
    /// What [`Piece::part`] counts.
    pub ranges: Vec<Range>,
    /// Accesses.
    pub pieces: Vec<Piece>,
}

impl LinePieces {
    /// At least two actors, at least one store: otherwise nothing can be invalidated.
    pub fn can_fight(&self) -> bool {
        let first = self.pieces.first().map(|p| p.actor);
        self.pieces.iter().any(|p| Some(p.actor) != first) && self.pieces.iter().any(|p| p.stores() > 0.0)
    }
}

/// A row's part of one line.
struct Cut {
    process: u32,
    line: u64,
    range: Range,
    piece: Piece,
}

/// Distributes rows over lines. `base` gives the address of an object, or `None` to leave it out.
/// The second value counts rows left out because they reach over too many lines or there were too many.
pub fn lines(
    e: &Evidence,
    size: LineSize,
    base: &dyn Fn(u32, &Object) -> Option<u64>,
) -> (Vec<LinePieces>, u64) {
    let rows = e.accesses.iter();
    lines_of(e, rows, size, base)
}

/// [`lines`] for some rows only.
pub fn lines_of<'a>(
    e: &Evidence,
    rows: impl Iterator<Item = &'a Access>,
    size: LineSize,
    base: &dyn Fn(u32, &Object) -> Option<u64>,
) -> (Vec<LinePieces>, u64) {
    let mut cuts = Vec::new();
    let mut left_out = 0;
    for a in rows {
        let Some(object) = e.objects.get(a.object as usize) else { continue };
        let Some(at) = base(a.object, object).and_then(|b| b.checked_add(a.offset)) else { continue };
        if size.span(at, u64::from(a.size)).lines() > LINES_PER_ROW_MAX || cuts.len() >= PIECES_MAX {
            left_out += 1;
            continue;
        }
        cut(a, object.process, at, size, &mut cuts);
    }
    cuts.sort_by_key(|c| (c.process, c.line, c.range));
    let mut out = Vec::new();
    let mut rest = cuts.as_slice();
    while let Some(first) = rest.first() {
        let stop = rest.iter().take_while(|c| (c.process, c.line) == (first.process, first.line)).count();
        let (now, later) = rest.split_at(stop);
        epochs(e, now, size, &mut out);
        rest = later;
    }
    (out, left_out)
}

/// A row's accesses are taken to be spread evenly over its bytes.
fn cut(a: &Access, process: u32, at: u64, size: LineSize, out: &mut Vec<Cut>) {
    let span = size.span(at, u64::from(a.size));
    let end = at.saturating_add(u64::from(a.size));
    for line in span.first..span.end {
        let from = at.max(line * size.bytes());
        let to = end.min((line + 1).saturating_mul(size.bytes()));
        let bytes = to.saturating_sub(from) as u32;
        let share = f64::from(bytes) / f64::from(a.size.max(1));
        let range = Range { object: a.object, offset: a.offset + (from - at), size: bytes };
        let piece = Piece {
            actor: a.actor,
            part: 0,
            first: size.offset(from) as u32,
            size: bytes,
            vt0: a.vt0,
            vt1: a.vt1,
            reads: a.reads as f64 * share,
            writes: a.writes as f64 * share,
            rmws: a.rmws as f64 * share,
        };
        out.push(Cut { process, line, range, piece });
    }
}

/// Splits a line whose memory was reused into times with the same objects; usually there is one.
fn epochs(e: &Evidence, cuts: &[Cut], size: LineSize, out: &mut Vec<LinePieces>) {
    let mut objects: Vec<u32> = cuts.iter().map(|c| c.range.object).collect();
    objects.dedup();
    objects.sort_unstable();
    objects.dedup();
    let sets = residents(e, &objects);
    if sets.len() <= 1 {
        return out.push(gather(cuts.iter().map(|c| (c.range, c.piece)), &cuts[0], size));
    }
    let mut homes: HashMap<u32, Vec<usize>> = HashMap::new();
    for (i, set) in sets.iter().enumerate() {
        for &o in &set.objects {
            homes.entry(o).or_default().push(i);
        }
    }
    let mut split: Vec<Vec<(Range, Piece)>> = vec![Vec::new(); sets.len()];
    for c in cuts {
        let Some(homes) = homes.get(&c.range.object) else { continue };
        for (k, &home) in homes.iter().enumerate() {
            let from = if k == 0 { 0 } else { sets[home].from };
            let to = homes.get(k + 1).map_or(u64::MAX, |&next| sets[next].from);
            if let Some(p) = clip(&c.piece, from, to) {
                split[home].push((c.range, p));
            }
        }
    }
    out.extend(split.into_iter().filter(|s| !s.is_empty()).map(|s| gather(s.into_iter(), &cuts[0], size)));
}

/// Objects that lay side by side on a line from some moment on.
struct Residents {
    objects: Vec<u32>,
    from: u64,
}

/// In order of birth, an object that takes another's bytes begins a new set; whoever was still alive moves along.
fn residents(e: &Evidence, objects: &[u32]) -> Vec<Residents> {
    let Some(all) = objects.iter().map(|&o| e.objects.get(o as usize)).collect::<Option<Vec<&Object>>>()
    else {
        return Vec::new();
    };
    let overlap = |a: &Object, b: &Object| {
        a.base < b.base.saturating_add(b.size) && b.base < a.base.saturating_add(a.size)
    };
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|&i| (all[i].vt0, i));
    let mut sets: Vec<Residents> = Vec::new();
    let mut now: Vec<usize> = Vec::new();
    for i in order {
        let o = all[i];
        if sets.is_empty() || now.iter().any(|&j| overlap(all[j], o)) {
            now.retain(|&j| !overlap(all[j], o) && all[j].vt1.is_none_or(|end| end > o.vt0));
            sets.push(Residents { objects: now.iter().map(|&j| objects[j]).collect(), from: o.vt0 });
        }
        now.push(i);
        if let Some(set) = sets.last_mut() {
            set.objects.push(objects[i]);
        }
    }
    sets
}

/// The part of a piece inside `[from, to)`, counts in proportion.
fn clip(p: &Piece, from: u64, to: u64) -> Option<Piece> {
    if from == 0 && to == u64::MAX {
        return Some(*p);
    }
    let end = p.vt1.max(p.vt0.saturating_add(1));
    let (vt0, vt1) = (p.vt0.max(from), end.min(to));
    if vt0 >= vt1 {
        return None;
    }
    let share = (vt1 - vt0) as f64 / (end - p.vt0) as f64;
    Some(Piece { vt0, vt1, reads: p.reads * share, writes: p.writes * share, rmws: p.rmws * share, ..*p })
}

/// Different byte ranges on one line; more are named by their 8-byte words.
const RANGES_MAX: usize = 96;

fn gather(cuts: impl Iterator<Item = (Range, Piece)>, at: &Cut, size: LineSize) -> LinePieces {
    let mut cuts: Vec<(Range, Piece)> = cuts.collect();
    let mut ranges: Vec<Range> = cuts.iter().map(|c| c.0).collect();
    ranges.sort_unstable();
    ranges.dedup();
    if ranges.len() > RANGES_MAX {
        for (r, _) in &mut cuts {
            *r = Range { offset: r.offset / 8 * 8, size: 8, ..*r };
        }
        ranges = cuts.iter().map(|c| c.0).collect();
        ranges.sort_unstable();
        ranges.dedup();
    }
    let pieces = cuts
        .into_iter()
        .map(|(r, p)| Piece { part: ranges.binary_search(&r).unwrap_or(0) as u32, ..p })
        .collect();
    LinePieces { process: at.process, address: at.line.saturating_mul(size.bytes()), ranges, pieces }
}
