//! The lines of a group as bytes: fields, holes, neighbours, and who touches them.

use crate::by_object::ByObject;
use crate::line::Context;
use crate::names;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use tussle_contention::analysis::{Bases, Counts, LineContention, Part};
use tussle_contention::group::Group;
use tussle_evidence::{Access, Object, Touch, TouchKind};
use tussle_model::Placement;
use tussle_render::{Bytes, Phase, Stretch, StretchKind, Use};

/// Lines of a group that are drawn, its most contended ones.
const LINES_MAX: usize = 3;

/// Code lines that a stretch names.
const CODE_MAX: usize = 4;

impl Context<'_> {
    /// The group's worst lines around its first object, where it began in this run or, supposed, `phase` bytes into a
    /// line; `None` where the object is not known.
    pub(crate) fn drawing(&self, g: &Group, supposed: Option<u64>) -> Option<Bytes> {
        let first = g.fields.first()?.object;
        let mut lines: Vec<&LineContention> =
            g.lines.iter().copied().filter(|l| l.objects().contains(&first)).collect();
        lines.sort_by(|a, b| b.ranked_e().total_cmp(&a.ranked_e()));
        lines.truncate(LINES_MAX);
        let asked = match self.question.bases {
            Bases::Observed => None,
            Bases::Phase(phase) => Some(phase),
        };
        self.around(first, lines, supposed.or(asked))
    }

    /// These lines around an object.
    pub(crate) fn around(
        &self,
        first: u32,
        mut lines: Vec<&LineContention>,
        supposed: Option<u64>,
    ) -> Option<Bytes> {
        let o = self.e.objects.get(first as usize)?;
        lines.sort_by_key(|l| l.address);
        let line = lines.first()?.line;
        let drawn =
            Drawn { o, id: first, phase: supposed.unwrap_or(line.offset(o.base)), alone: supposed.is_some() };
        let mut threads = Vec::new();
        let (mut stretches, mut spans) = (Vec::new(), Vec::new());
        for l in &lines {
            let from = drawn.start(l)?;
            let span = from..from + l.line.bytes() as i64;
            stretches.extend(self.filled(&drawn, span.clone(), &self.parts(&drawn, l), &mut threads));
            spans.push(span);
        }
        let phases = match self.e.run.sees.phases {
            true => Placement::aligned(o.align).phases(line),
            false => Vec::new(),
        };
        let beyond = match phases.len() {
            0 | 1 => Vec::new(),
            _ => self.beyond(&drawn, &spans, &mut threads),
        };
        let phase = |bytes| Phase { bytes: bytes as u32, expected_invalidations: None };
        let root = self.namer.root(o);
        Some(Bytes {
            key: "bytes".into(),
            title: format!("{root} in {}-byte lines: offsets of the object on the left", line.bytes()),
            line_bytes: line.bytes() as u32,
            phase_bytes: drawn.phase as u32,
            phases: phases.into_iter().map(phase).collect(),
            threads: threads.iter().map(|&a| names::threads(self.e, &[a])).collect(),
            stretches,
            beyond,
        })
    }

    /// The object's bytes on the lines beside the drawn ones: where it begins elsewhere, they move into these.
    fn beyond(&self, d: &Drawn, spans: &[Range<i64>], threads: &mut Vec<u32>) -> Vec<Stretch> {
        let size = i64::try_from(d.o.size).unwrap_or(i64::MAX);
        let mut gaps: Vec<Range<i64>> = Vec::new();
        let mut done = 0;
        for (i, span) in spans.iter().enumerate() {
            let reach = span.end - span.start - 1;
            let next = spans.get(i + 1).map_or(size, |next| next.start.min(size));
            gaps.push(done.max(span.start.saturating_sub(reach))..span.start.min(size));
            done = span.end.saturating_add(reach).min(next).max(span.end);
            gaps.push(span.end..done);
        }
        gaps.retain(|gap| gap.start < gap.end);
        let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else { return Vec::new() };
        let accesses = self.accesses.get_or_init(|| ByObject::new(&self.e.accesses));
        let parts = used(accesses.near(d.id, first.start as u64..last.end as u64), d.id);
        let parts: Vec<(i64, &Part)> = parts.iter().map(|p| (p.range.offset as i64, p)).collect();
        gaps.into_iter().flat_map(|gap| self.filled(d, gap, &parts, threads)).collect()
    }

    /// Every one of these bytes: touched ranges first, then what the types say of the rest.
    fn filled(
        &self,
        d: &Drawn,
        bytes: Range<i64>,
        parts: &[(i64, &Part)],
        threads: &mut Vec<u32>,
    ) -> Vec<Stretch> {
        // A large object has thousands, and each is held against each.
        let parts: Vec<(i64, &Part)> = parts.iter().filter(|p| meets(&bytes, p)).copied().collect();
        let mut out = self.touched(d, &bytes, &parts, threads);
        out.sort_by_key(|s| s.start);
        let mut rest = Vec::new();
        let mut at = bytes.start;
        for s in &out {
            rest.extend(self.untouched(d, at..s.start.min(bytes.end)));
            at = at.max(s.start + s.size as i64);
        }
        rest.extend(self.untouched(d, at..bytes.end));
        out.extend(rest);
        out.sort_by_key(|s| s.start);
        out
    }

    /// Parts of the line that somebody used, by their place from the object's first byte.
    fn parts<'l>(&self, d: &Drawn, l: &'l LineContention) -> Vec<(i64, &'l Part)> {
        let mut parts: Vec<(i64, &Part)> = Vec::new();
        for p in &l.parts {
            match self.e.objects.get(p.range.object as usize) {
                _ if p.range.object == d.id => parts.push((p.range.offset as i64, p)),
                Some(other) if !d.alone => {
                    let address = other.base.wrapping_add(p.range.offset);
                    parts.push((address.wrapping_sub(d.o.base) as i64, p));
                }
                _ => {}
            }
        }
        parts.sort_by_key(|(start, p)| (*start, Reverse(p.range.size)));
        parts
    }

    /// Bytes of several parts belong to the one that is used most, so that the memset of a thread that made the object
    /// hides no field.
    fn touched(
        &self,
        d: &Drawn,
        within: &Range<i64>,
        parts: &[(i64, &Part)],
        threads: &mut Vec<u32>,
    ) -> Vec<Stretch> {
        let clipped = |(bytes, owner): (Range<i64>, usize)| {
            (bytes.start.max(within.start)..bytes.end.min(within.end), owner)
        };
        let owned = owners(parts).into_iter().map(clipped).filter(|(bytes, _)| bytes.start < bytes.end);
        owned.map(|(bytes, owner)| self.stretch(d, bytes, owner, parts, threads)).collect()
    }

    /// These bytes of one of the parts, with what all of them did there.
    fn stretch(
        &self,
        d: &Drawn,
        bytes: Range<i64>,
        owner: usize,
        parts: &[(i64, &Part)],
        threads: &mut Vec<u32>,
    ) -> Stretch {
        let (start, p) = parts[owner];
        let (object, size) = (p.range.object, (bytes.end - bytes.start) as u64);
        let mut s = self.named(object, p.range.offset + (bytes.start - start) as u64, size);
        s.start = bytes.start;
        s.kind = if object == d.id { StretchKind::Field } else { StretchKind::Neighbour };
        s.code = self.code_of(object, p.range.offset, u64::from(p.range.size));
        let mut sums: Vec<(u32, Counts)> = Vec::new();
        for (actor, c) in parts.iter().filter(|p| meets(&bytes, p)).flat_map(|(_, p)| &p.actors) {
            match sums.iter_mut().find(|(a, _)| a == actor) {
                Some((_, sum)) => sum.add(c),
                None => sums.push((*actor, *c)),
            }
        }
        s.uses = uses(&sums, threads);
        s
    }

    fn named(&self, object: u32, offset: u64, size: u64) -> Stretch {
        let name = self.namer.name(object, offset, size);
        let last = last_word(&name.path);
        let short = match name.index {
            Some(i) if name.path.contains("[]") => format!("{last} {i}"),
            _ => last,
        };
        Stretch { size, short, name: name.path, ..Stretch::default() }
    }

    /// Fields and holes of the object that nobody touched in this run; memory around it stays empty.
    fn untouched(&self, d: &Drawn, bytes: Range<i64>) -> Vec<Stretch> {
        let mut out: Vec<Stretch> = Vec::new();
        let end = i64::try_from(d.o.size).unwrap_or(i64::MAX).min(bytes.end);
        for at in bytes.start.max(0)..end {
            let name = self.namer.name(d.id, at as u64, 1);
            let hole = d.o.ty.is_some() && name.leaf.is_none();
            let mut s = self.named(d.id, at as u64, 1);
            (s.start, s.name) = (at, without_numbers(&s.name));
            s.short = last_word(&s.name);
            if hole {
                (s.kind, s.name, s.short) = (StretchKind::Hole, String::new(), String::new());
            }
            match out.last_mut().filter(|l| l.name == s.name && l.short == s.short && l.kind == s.kind) {
                Some(last) => last.size += 1,
                None => out.push(s),
            }
        }
        out
    }

    fn code_of(&self, object: u32, offset: u64, size: u64) -> Vec<String> {
        let mut seen: BTreeMap<(String, &str), u64> = BTreeMap::new();
        let meets = |t: &&Touch| t.offset < offset + size && offset < t.offset + u64::from(t.size);
        let over = self.touches.near(object, offset..offset + size).filter(meets);
        for t in over {
            let kind = match t.kind {
                TouchKind::Read => "reads",
                TouchKind::Write => "writes",
                TouchKind::Rmw => "atomic",
            };
            *seen.entry((names::short_path(&names::place(self.e, t.code)).to_string(), kind)).or_default() +=
                t.samples.max(1);
        }
        let mut seen: Vec<_> = seen.into_iter().collect();
        seen.sort_by_key(|(_, n)| Reverse(*n));
        seen.into_iter().take(CODE_MAX).map(|((place, kind), _)| format!("{place} {kind}")).collect()
    }
}

/// Whether a part has any of these bytes.
fn meets(bytes: &Range<i64>, (at, part): &(i64, &Part)) -> bool {
    *at < bytes.end && bytes.start < at + i64::from(part.range.size)
}

/// All recorded uses of an object, by range.
fn used<'a>(accesses: impl Iterator<Item = &'a Access>, object: u32) -> Vec<Part> {
    let mut sums: BTreeMap<(u64, Reverse<u32>), BTreeMap<u32, Counts>> = BTreeMap::new();
    for a in accesses {
        let of = sums.entry((a.offset, Reverse(a.size))).or_default().entry(a.actor).or_default();
        of.add(&Counts { reads: a.reads as f64, writes: a.writes as f64, rmws: a.rmws as f64 });
    }
    let part = |((offset, Reverse(size)), actors): ((u64, Reverse<u32>), BTreeMap<u32, Counts>)| {
        let mut counts = Counts::default();
        actors.values().for_each(|c| counts.add(c));
        let range = tussle_contention::lines::Range { object, offset, size };
        Part { range, counts, actors: actors.into_iter().collect() }
    };
    sums.into_iter().map(part).collect()
}

/// Every used byte with the part that is used most there: ranges of one owner, in order.
fn owners(parts: &[(i64, &Part)]) -> Vec<(Range<i64>, usize)> {
    let end = |&(at, p): &(i64, &Part)| at + i64::from(p.range.size);
    let mut cuts: Vec<i64> = parts.iter().flat_map(|p| [p.0, end(p)]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut out: Vec<(Range<i64>, usize)> = Vec::new();
    for (&from, &to) in cuts.iter().zip(cuts.iter().skip(1)) {
        let over = (0..parts.len()).filter(|&i| parts[i].0 <= from && to <= end(&parts[i]));
        let used = |i: usize| parts[i].1.counts.total();
        // Of two that are used alike the first, as they are sorted.
        let Some(owner) = over.reduce(|a, b| if used(b) > used(a) { b } else { a }) else { continue };
        match out.last_mut().filter(|(bytes, o)| *o == owner && bytes.end == from) {
            Some((bytes, _)) => bytes.end = to,
            None => out.push((from..to, owner)),
        }
    }
    out
}

/// Who has less than a thousandth is no party, as in the table of fields.
fn uses(actors: &[(u32, Counts)], threads: &mut Vec<u32>) -> Vec<Use> {
    let least = 0.001 * actors.iter().map(|(_, c)| c.total()).sum::<f64>();
    let mut out = Vec::new();
    for (actor, c) in actors.iter().filter(|(_, c)| c.total() >= least) {
        let thread = threads.iter().position(|t| t == actor).unwrap_or_else(|| {
            threads.push(*actor);
            threads.len() - 1
        });
        let whole = |x: f64| x.round().max(0.0) as u64;
        out.push(Use { thread, reads: whole(c.reads), writes: whole(c.writes + c.rmws) });
    }
    out
}

/// The last component of a path, as a drawing labels it: `audit_lock..audits` of `struct stats.audit_lock..audits`,
/// `TOTAL` of `app::TOTAL`.
pub(crate) fn last_word(path: &str) -> String {
    let bytes = path.as_bytes();
    let dot = |i: usize| bytes.get(i) == Some(&b'.');
    let (mut before, mut from, mut depth) = (0, 0, 0usize);
    for (i, b) in bytes.iter().enumerate() {
        match b {
            b'<' | b'(' | b'{' => depth += 1,
            b'>' | b')' | b'}' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 => from = i + 1,
            b'.' if depth == 0 && !dot(i + 1) && !(i > 0 && dot(i - 1)) => (before, from) = (from, i + 1),
            b':' if depth == 0 && i > 0 && bytes[i - 1] == b':' => from = i + 1,
            _ => {}
        }
    }
    // A number alone says little of a tuple: `ends.0`.
    let number = from < path.len() && path[from..].bytes().all(|b| b.is_ascii_digit());
    let last = without_modules(&path[if number { before } else { from }..]);
    if last.trim().is_empty() { "(no name)".into() } else { last }
}

/// `Padded<AtomicU64>` of `Padded<core::sync::atomic::AtomicU64>`.
fn without_modules(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (i, word) in name.split("::").enumerate() {
        if i > 0 {
            let kept = out.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').len();
            out.truncate(kept);
        }
        out.push_str(word);
    }
    out
}

/// Elements that nobody touched are one stretch: `bulk[]` of `bulk[7]`.
pub(crate) fn without_numbers(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        if !inside || c == '[' || !c.is_ascii_digit() {
            out.push(c);
        }
    }
    out
}

/// The object around which lines are drawn.
struct Drawn<'a> {
    o: &'a Object,
    id: u32,
    /// Where in a line it begins.
    phase: u64,
    /// Its neighbours are not known there.
    alone: bool,
}

impl Drawn<'_> {
    /// The object's byte at which a line begins, from any part of it there; negative before the object.
    fn start(&self, l: &LineContention) -> Option<i64> {
        let part = l.parts.iter().find(|p| p.range.object == self.id)?;
        let (phase, line) = (self.phase as i64, l.line.bytes() as i64);
        let at = i64::try_from(part.range.offset).ok()?.checked_add(phase)?;
        Some(at.div_euclid(line) * line - phase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names() {
        assert_eq!(last_word("struct stats.audit_lock..audits"), "audit_lock..audits");
        assert_eq!(last_word("struct stats[].a.hits"), "hits");
        assert_eq!(last_word("counter"), "counter");
        assert_eq!(last_word("größe.maß"), "maß");
        assert_eq!((last_word("struct s."), last_word("")), ("(no name)".into(), "(no name)".into()));
        assert_eq!(last_word("app::run::{closure#0}::TOTAL"), "TOTAL");
        assert_eq!(last_word("app::Pair<core::sync::AtomicU64, (u8, b::C)>"), "Pair<AtomicU64, (u8, C)>");
        assert_eq!(last_word("app::Pair<a::B, f32>.ends.0"), "ends.0");
        assert_eq!(without_numbers("struct s.v2.bulk[17].x"), "struct s.v2.bulk[].x");
    }
}
