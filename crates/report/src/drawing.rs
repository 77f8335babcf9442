//! The lines of a group as bytes: fields, holes, neighbours, and who touches them.

use crate::line::Context;
use crate::names;
use std::collections::BTreeMap;
use tussle_contention::analysis::{Bases, Counts, LineContention};
use tussle_contention::group::Group;
use tussle_evidence::{Object, Touch, TouchKind};
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
        let mut stretches = Vec::new();
        for l in &lines {
            stretches.extend(self.stretches(&drawn, l, &mut threads)?);
        }
        let phases = match self.e.run.sees.phases {
            true => Placement::aligned(o.align).phases(line),
            false => Vec::new(),
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
        })
    }

    /// Every byte of one line: touched ranges first, then what the types say of the rest.
    fn stretches(&self, d: &Drawn, l: &LineContention, threads: &mut Vec<u32>) -> Option<Vec<Stretch>> {
        let from = d.start(l)?;
        let to = from + l.line.bytes() as i64;
        let mut out = self.touched(d, l, threads);
        out.sort_by_key(|s| s.start);
        let mut rest = Vec::new();
        let mut at = from;
        for s in &out {
            rest.extend(self.untouched(d, at..s.start.min(to)));
            at = at.max(s.start + s.size as i64);
        }
        rest.extend(self.untouched(d, at..to));
        out.extend(rest);
        out.sort_by_key(|s| s.start);
        Some(out)
    }

    /// Parts of the line that somebody used; of overlapping ones the bytes go to the first.
    fn touched(&self, d: &Drawn, l: &LineContention, threads: &mut Vec<u32>) -> Vec<Stretch> {
        let mut parts: Vec<(i64, &tussle_contention::analysis::Part)> = Vec::new();
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
        parts.sort_by_key(|(start, p)| (*start, std::cmp::Reverse(p.range.size)));
        let mut out: Vec<Stretch> = Vec::new();
        for (start, p) in parts {
            let end = start + i64::from(p.range.size);
            let free = out.last().map_or(start, |s| (s.start + s.size as i64).max(start));
            if let Some(last) = out.last_mut().filter(|s| start < s.start + s.size as i64) {
                self.uses(&p.actors, threads, &mut last.uses);
            }
            if free < end {
                let mut s =
                    self.named(p.range.object, p.range.offset + (free - start) as u64, (end - free) as u64);
                s.start = free;
                s.kind = if p.range.object == d.id { StretchKind::Field } else { StretchKind::Neighbour };
                s.code = self.code_of(p.range.object, p.range.offset, u64::from(p.range.size));
                self.uses(&p.actors, threads, &mut s.uses);
                out.push(s);
            }
        }
        out
    }

    fn uses(&self, actors: &[(u32, Counts)], threads: &mut Vec<u32>, out: &mut Vec<Use>) {
        // As in the table of fields: who has less than a thousandth is no party.
        let least = 0.001 * actors.iter().map(|(_, c)| c.total()).sum::<f64>();
        for (actor, c) in actors.iter().filter(|(_, c)| c.total() >= least) {
            let thread = threads.iter().position(|t| t == actor).unwrap_or_else(|| {
                threads.push(*actor);
                threads.len() - 1
            });
            let whole = |x: f64| x.round().max(0.0) as u64;
            let (reads, writes) = (whole(c.reads), whole(c.writes + c.rmws));
            match out.iter_mut().find(|u| u.thread == thread) {
                Some(u) => (u.reads, u.writes) = (u.reads + reads, u.writes + writes),
                None => out.push(Use { thread, reads, writes }),
            }
        }
    }

    fn named(&self, object: u32, offset: u64, size: u64) -> Stretch {
        let name = self.namer.name(object, offset, size);
        let last = last_word(&name.path);
        let short = match name.index {
            Some(i) if name.path.contains("[]") => format!("{last} {i}"),
            _ => last.to_string(),
        };
        Stretch { size, short, name: name.path, ..Stretch::default() }
    }

    /// Fields and holes of the object that nobody touched in this run; memory around it stays empty.
    fn untouched(&self, d: &Drawn, bytes: std::ops::Range<i64>) -> Vec<Stretch> {
        let mut out: Vec<Stretch> = Vec::new();
        let end = i64::try_from(d.o.size).unwrap_or(i64::MAX).min(bytes.end);
        for at in bytes.start.max(0)..end {
            let name = self.namer.name(d.id, at as u64, 1);
            let hole = d.o.ty.is_some() && name.leaf.is_none();
            let mut s = self.named(d.id, at as u64, 1);
            (s.start, s.name) = (at, without_numbers(&s.name));
            s.short = last_word(&s.name).to_string();
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
        let over = self.touches.of(object).filter(meets);
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
        seen.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        seen.into_iter().take(CODE_MAX).map(|((place, kind), _)| format!("{place} {kind}")).collect()
    }
}

/// The last component of a path: `audit_lock..audits` of `struct stats.audit_lock..audits`.
pub(crate) fn last_word(path: &str) -> &str {
    let bytes = path.as_bytes();
    let dot = |i: usize| bytes.get(i) == Some(&b'.');
    let ends = |&i: &usize| bytes[i] == b' ' || dot(i) && !dot(i + 1) && !(i > 0 && dot(i - 1));
    (0..bytes.len()).rev().find(ends).map_or(path, |i| &path[i + 1..])
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
        assert_eq!(without_numbers("struct s.v2.bulk[17].x"), "struct s.v2.bulk[].x");
    }
}
