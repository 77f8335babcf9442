//! Access rows onto cache lines: what lies on one line, for given bases and line size.

use crate::under::{self, Under};
use crate::window::Piece;
use std::collections::HashMap;
use tussle_evidence::{Access, Evidence, Object, threads};
use tussle_model::LineSize;

/// A row may reach over this many lines; a longer one is no access but a mistake of its source.
pub(crate) const LINES_PER_ROW_MAX: u64 = 4096;

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
    /// All stores and RMWs: no line has a larger E.
    pub fn stores(&self) -> f64 {
        self.pieces.iter().map(Piece::stores).sum()
    }

    /// This byte of an object lies on it, where the line has so many bytes.
    pub(crate) fn holds(&self, (object, offset): (u32, u64), bytes: u64) -> bool {
        let of_object = |p: &&Piece| self.ranges.get(p.part as usize).is_some_and(|r| r.object == object);
        let Some(p) = self.pieces.iter().find(of_object) else { return false };
        // How far into the line the object begins, or before it.
        let before = self.ranges[p.part as usize].offset.wrapping_sub(u64::from(p.first));
        offset.wrapping_sub(before) < bytes
    }

    /// At least two actors, at least one store: otherwise nothing can be invalidated.
    pub fn can_fight(&self) -> bool {
        let first = self.pieces.first().map(|p| p.actor);
        self.pieces.iter().any(|p| Some(p.actor) != first) && self.pieces.iter().any(|p| p.stores() > 0.0)
    }
}

/// Distributes rows over lines. `base` gives the address of an object, or `None` to leave it out.
/// The second value counts rows left out because they reach over too many lines or there were too many.
pub fn lines(
    e: &Evidence,
    size: LineSize,
    base: &dyn Fn(u32, &Object) -> Option<u64>,
) -> (Vec<LinePieces>, u64) {
    let (keys, left_out) = keys(e, e.accesses.iter(), size, base);
    let mut out = Vec::new();
    keys.chunk_by(same_line).for_each(|line| epochs(e, line, size, &mut |l| out.push(l)));
    (out, left_out)
}

/// A row on a line, before it is looked at closely: millions of them are sorted.
struct Key<'a> {
    line: u64,
    process: u32,
    row: &'a Access,
    at: u64,
}

/// What [`map_fights`] went over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked<R> {
    /// What was made of the fights, in order of their lines.
    pub found: Vec<R>,
    /// Lines that anyone touched.
    pub lines: u64,
    /// As of [`lines`].
    pub rows_left_out: u64,
}

/// What `each` makes of those lines only that several actors used, with so many stores at least, and one: most lines
/// are one actor's, and cost no more here than a look at their rows. On all CPUs, in parts.
pub fn map_fights<'a, R: Send>(
    e: &'a Evidence,
    rows: impl Iterator<Item = &'a Access>,
    (size, stores_min): (LineSize, f64),
    base: &dyn Fn(u32, &Object) -> Option<u64>,
    each: &(dyn Fn(LinePieces) -> Option<R> + Sync),
) -> Walked<R> {
    let (keys, rows_left_out) = keys(e, rows, size, base);
    let parts = threads::parts(&keys, |k| (k.process, k.line));
    let one = |part: &std::ops::Range<usize>| fights(e, &keys[part.clone()], (size, stores_min), each);
    let mut out = Walked { found: Vec::new(), lines: 0, rows_left_out };
    for (found, lines) in threads::map(&parts, one) {
        out.found.extend(found);
        out.lines += lines;
    }
    out
}

/// [`map_fights`] of whole lines; also how many there are.
fn fights<R>(
    e: &Evidence,
    keys: &[Key],
    (size, stores_min): (LineSize, f64),
    each: &dyn Fn(LinePieces) -> Option<R>,
) -> (Vec<R>, u64) {
    let (mut found, mut lines) = (Vec::new(), 0);
    for line in keys.chunk_by(same_line) {
        let one_object = line.iter().all(|k| k.row.object == line[0].row.object);
        if one_object && !could_fight(line, stores_min) {
            lines += 1;
            continue;
        }
        epochs(e, line, size, &mut |l| {
            lines += 1;
            if l.can_fight() && l.stores() >= stores_min {
                found.extend(each(l));
            }
        });
    }
    (found, lines)
}

/// Whether a line's rows, all of each, are of several actors with a store, and with so many stores.
fn could_fight(line: &[Key], stores_min: f64) -> bool {
    let stores: f64 = line.iter().map(|k| k.row.writes as f64 + k.row.rmws as f64).sum();
    stores > 0.0 && stores >= stores_min && line.iter().any(|k| k.row.actor != line[0].row.actor)
}

fn same_line(a: &Key, b: &Key) -> bool {
    (a.process, a.line) == (b.process, b.line)
}

/// Rows by process and line, those of one line in the order in which they came; and how many were left out.
fn keys<'a>(
    e: &'a Evidence,
    rows: impl Iterator<Item = &'a Access>,
    size: LineSize,
    base: &dyn Fn(u32, &Object) -> Option<u64>,
) -> (Vec<Key<'a>>, u64) {
    let mut keys: Vec<Key> = Vec::new();
    let mut left_out = 0;
    for row in rows {
        let Some(object) = e.objects.get(row.object as usize) else { continue };
        let Some(at) = base(row.object, object).and_then(|b| b.checked_add(row.offset)) else { continue };
        let span = size.span(at, u64::from(row.size));
        if span.lines() > LINES_PER_ROW_MAX || keys.len() >= PIECES_MAX {
            left_out += 1;
            continue;
        }
        keys.extend((span.first..span.end).map(|line| Key { line, process: object.process, row, at }));
    }
    // Sources write line by line mostly: a sort that keeps the order of equals sees that.
    keys.sort_by_key(|k| (k.process, k.line));
    (keys, left_out)
}

/// A row's part of one line. Its accesses are taken to be spread evenly over its bytes.
fn cut(e: &Evidence, k: &Key, size: LineSize, only: Option<u64>) -> (Range, Piece) {
    let a = k.row;
    let end = k.at.saturating_add(u64::from(a.size));
    let from = k.at.max(k.line * size.bytes());
    let to = end.min((k.line + 1).saturating_mul(size.bytes()));
    let bytes = to.saturating_sub(from) as u32;
    let share = f64::from(bytes) / f64::from(a.size.max(1));
    let range = Range { object: a.object, offset: a.offset + (from - k.at), size: bytes };
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
        under: Under::of(e, a, turns_of(e, k, size, only)),
    };
    (range, piece)
}

/// Whose turns a row's turns are, as the number of a lock: those of its own line. All lines of an object that lies
/// elsewhere than it did are handed on together; so are those that a wider line joins. Where one lock and no other
/// orders the rest of what is joined, `only`, it orders the turns, too.
fn turns_of(e: &Evidence, k: &Key, size: LineSize, only: Option<u64>) -> u64 {
    let first = LineSize::L64.index(under::address(e, k.row.object, 0)) * LineSize::L64.bytes();
    match only {
        Some(lock) => lock,
        None if is_moved(e, k, size) => under::turns_at(first),
        None => under::turns_at(first.max(k.line.saturating_mul(size.bytes()))),
    }
}

/// The row lies elsewhere in its line than it did.
fn is_moved(e: &Evidence, k: &Key, size: LineSize) -> bool {
    size.offset(under::address(e, k.row.object, k.row.offset)) != size.offset(k.at)
}

/// The one lock under which the rows of several lines that became one were, but for turns.
fn only_lock(e: &Evidence, line: &[Key], size: LineSize) -> Option<u64> {
    if size == LineSize::L64 && !is_moved(e, &line[0], size) {
        return None;
    }
    let mut locks = line.iter().filter_map(|k| under::lock_of(e, k.row));
    let first = locks.next()?;
    locks.all(|l| l == first).then_some(first)
}

/// Splits a line whose memory was reused into times with the same objects; usually there is one.
fn epochs(e: &Evidence, line: &[Key], size: LineSize, sink: &mut dyn FnMut(LinePieces)) {
    let only = only_lock(e, line, size);
    let cuts: Vec<(Range, Piece)> = line.iter().map(|k| cut(e, k, size, only)).collect();
    let place = (line[0].process, line[0].line.saturating_mul(size.bytes()));
    let mut objects: Vec<u32> = cuts.iter().map(|c| c.0.object).collect();
    objects.dedup();
    objects.sort_unstable();
    objects.dedup();
    let sets = if objects.len() > 1 { residents(e, &objects) } else { Vec::new() };
    if sets.len() <= 1 {
        return sink(gather(cuts, place));
    }
    let mut homes: HashMap<u32, Vec<usize>> = HashMap::new();
    for (i, set) in sets.iter().enumerate() {
        for &o in &set.objects {
            homes.entry(o).or_default().push(i);
        }
    }
    let mut split: Vec<Vec<(Range, Piece)>> = vec![Vec::new(); sets.len()];
    for (range, piece) in &cuts {
        let Some(homes) = homes.get(&range.object) else { continue };
        for (k, &home) in homes.iter().enumerate() {
            let from = if k == 0 { 0 } else { sets[home].from };
            let to = homes.get(k + 1).map_or(u64::MAX, |&next| sets[next].from);
            if let Some(p) = clip(piece, from, to) {
                split[home].push((*range, p));
            }
        }
    }
    split.into_iter().filter(|s| !s.is_empty()).for_each(|s| sink(gather(s, place)));
}

/// Objects that lay side by side on a line from some moment on.
struct Residents {
    objects: Vec<u32>,
    from: u64,
}

/// One was found inside of the other, a block of which the rest is an object, too: they live and die together.
fn of_one_block(a: &Object, b: &Object) -> bool {
    let holds = |a: &Object, b: &Object| {
        a.base <= b.base && b.base.saturating_add(b.size) <= a.base.saturating_add(a.size) && a.size > b.size
    };
    (a.vt0, a.vt1) == (b.vt0, b.vt1) && (holds(a, b) || holds(b, a))
}

/// In order of birth, an object that takes another's bytes begins a new set; whoever was still alive moves along.
fn residents(e: &Evidence, objects: &[u32]) -> Vec<Residents> {
    let Some(all) = objects.iter().map(|&o| e.objects.get(o as usize)).collect::<Option<Vec<&Object>>>()
    else {
        return Vec::new();
    };
    let overlap = |a: &Object, b: &Object| {
        let meet = a.base < b.base.saturating_add(b.size) && b.base < a.base.saturating_add(a.size);
        meet && !of_one_block(a, b)
    };
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_unstable_by_key(|&i| (all[i].vt0, i));
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
    let (reads, writes, rmws) = (p.reads * share, p.writes * share, p.rmws * share);
    Some(Piece { vt0, vt1, reads, writes, rmws, under: p.under.share(share), ..*p })
}

/// Different byte ranges on one line; more are named by their 8-byte words.
const RANGES_MAX: usize = 96;

fn gather(mut cuts: Vec<(Range, Piece)>, (process, address): (u32, u64)) -> LinePieces {
    let distinct = |cuts: &[(Range, Piece)]| {
        let mut ranges: Vec<Range> = cuts.iter().map(|c| c.0).collect();
        ranges.sort_unstable();
        ranges.dedup();
        ranges
    };
    let mut ranges = distinct(&cuts);
    if ranges.len() > RANGES_MAX {
        for (r, _) in &mut cuts {
            *r = Range { offset: r.offset / 8 * 8, size: 8, ..*r };
        }
        ranges = distinct(&cuts);
    }
    let pieces = cuts
        .into_iter()
        .map(|(r, p)| Piece { part: ranges.binary_search(&r).unwrap_or(0) as u32, ..p })
        .collect();
    LinePieces { process, address, ranges, pieces }
}
