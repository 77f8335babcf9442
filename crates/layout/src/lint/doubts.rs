//! The four doubts.

use super::parts::{Part, Use, integer, parts, written};
use super::words::{lock_type, one_each, opposite_ends, runs_once};
use super::{Doubt, Rule};
use crate::diff::kinds::{Kind, of_name};
use crate::phases::line_count;
use tussle_model::{Aggregate, LineSize, MemberRole, SourceLoc, Type, TypeId, TypeTable};

/// A type and how its objects may lie.
pub(super) struct Asked<'a> {
    pub table: &'a TypeTable,
    pub id: TypeId,
    pub a: &'a Aggregate,
    pub name: &'a str,
    /// Where in a line its objects may begin, bytes.
    pub phases: Vec<u64>,
    pub line: LineSize,
}

/// What is doubtful about one type: each rule once, with all that it is about.
pub(super) fn of(asked: &Asked<'_>) -> Vec<Doubt> {
    // a lock is made of words that fight: that is its work
    if written(asked.table, asked.id).is_some() || of_name(asked.name).is_some() || lock_type(asked.name) {
        return Vec::new();
    }
    let parts = parts(asked.table, asked.a);
    let found = [ends(asked, &parts), locks(asked, &parts), elements(asked, &parts), beside(asked, &parts)];
    found.into_iter().flatten().collect()
}

impl Asked<'_> {
    /// They share a line in at least half of the places where an object may begin.
    fn share(&self, a: &Part, b: &Part) -> bool {
        let lines = |p: &Part, phase: u64| self.line.span(p.offset.saturating_add(phase), p.size);
        let together = self.phases.iter().filter(|p| lines(a, **p).meets(lines(b, **p))).count();
        a.size > 0 && b.size > 0 && !a.overlaps(b) && together * 2 >= self.phases.len()
    }

    fn doubt(&self, rule: Rule, line: u32, what: String) -> Doubt {
        let at = self
            .a
            .decl
            .as_ref()
            .map(|d| SourceLoc { file: d.file.clone(), line: if line == 0 { d.line } else { line } });
        Doubt { rule, ty: self.name.to_string(), what, at }
    }

    /// All pairs of these that share a line and belong to different members.
    fn pairs<'p>(&self, of: &[&'p Part], also: impl Fn(&Part, &Part) -> bool) -> Vec<(&'p Part, &'p Part)> {
        let mut out = Vec::new();
        for (i, a) in of.iter().enumerate() {
            let near = of[i + 1..].iter().filter(|b| a.top != b.top && self.share(a, b) && also(a, b));
            out.extend(near.map(|b| (*a, *b)));
        }
        out
    }
}

/// The fields that are wanted.
fn with<'p>(parts: &'p [Part], wanted: impl Fn(&Part) -> bool) -> Vec<&'p Part> {
    parts.iter().filter(|p| wanted(p)).collect()
}

fn ends(asked: &Asked<'_>, parts: &[Part]) -> Option<Doubt> {
    let shared = |p: &Part| matches!(p.purpose, Use::Written(Kind::Atomic) | Use::Volatile);
    let pairs = asked.pairs(&with(parts, shared), |a, b| opposite_ends(&a.name, &b.name));
    let (a, b) = pairs.first()?;
    let what = format!("`{}` and `{}`, the two ends of a queue, lie in one line", a.path, b.path);
    Some(asked.doubt(Rule::QueueEnds, b.line, what))
}

fn locks(asked: &Asked<'_>, parts: &[Part]) -> Option<Doubt> {
    let pairs = asked.pairs(&with(parts, |p| p.purpose == Use::Written(Kind::Lock)), |_, _| true);
    let (a, b) = pairs.first()?;
    let more = if pairs.len() > 1 { format!(" ({} such pairs)", pairs.len()) } else { String::new() };
    let what = format!("`{}` and `{}`, two locks, lie in one line{more}", a.path, b.path);
    Some(asked.doubt(Rule::Locks, b.line, what))
}

fn elements(asked: &Asked<'_>, parts: &[Part]) -> Option<Doubt> {
    let found = parts.iter().filter_map(|p| Some((p, small_elements(asked, p)?)));
    let (part, what) = found.into_iter().next()?;
    Some(asked.doubt(Rule::Elements, part.line, format!("`{}`: {what}", part.path)))
}

/// Why the elements of that array should not lie in one line.
fn small_elements(asked: &Asked<'_>, part: &Part) -> Option<String> {
    let table = asked.table;
    let Type::Array { elem, counts } = table.get(table.strip(part.ty)) else { return None };
    let count = counts.iter().try_fold(1u64, |n, c| n.checked_mul((*c)?))?;
    let size = table.size(*elem)?;
    if count < 2 || size == 0 || size >= asked.line.bytes() || counts.len() > 1 {
        return None;
    }
    let each = asked.line.bytes() / size;
    let lock = element_lock(table, *elem);
    if lock && count >= 4 {
        return Some(format!("{count} elements of {size} bytes with a lock each, {each} to a line"));
    }
    let counters = integer(table, *elem) && part.size > size || element_counts(table, *elem);
    (one_each(&part.name) && counters)
        .then(|| format!("{count} elements of {size} bytes, by its name one per thread, {each} to a line"))
}

fn element_lock(table: &TypeTable, elem: TypeId) -> bool {
    let lock = |id| written(table, id) == Some(Kind::Lock);
    let inside = |a: &Aggregate| a.members.iter().any(|m| m.role == MemberRole::Field && lock(m.ty));
    // a counter of each CPU takes its lock rarely
    if written(table, elem).is_some_and(|k| k != Kind::Lock) {
        return false;
    }
    lock(elem) || table.aggregate(elem).is_some_and(inside)
}

/// A struct with something that its owner writes: a number, or what several threads write.
fn element_counts(table: &TypeTable, elem: TypeId) -> bool {
    let writes = |id| written(table, id).is_some() || integer(table, id);
    let Some(a) = table.aggregate(elem) else { return written(table, elem).is_some() };
    a.members.iter().any(|m| m.role == MemberRole::Field && m.bit_size.is_none() && writes(m.ty))
}

fn beside(asked: &Asked<'_>, parts: &[Part]) -> Option<Doubt> {
    if line_count(asked.a.size, 0, asked.line) < 2 {
        return None;
    }
    // what is embedded has its own finding
    let own = |p: &Part| !p.path.contains('.');
    let read = with(parts, |p| own(p) && p.purpose == Use::Functions && !runs_once(&p.name));
    let written = with(parts, |p| own(p) && matches!(p.purpose, Use::Written(_)));
    written.iter().find_map(|w| {
        let near: Vec<&&Part> = read.iter().filter(|r| asked.share(w, r)).collect();
        let [first, _, ..] = near.as_slice() else { return None };
        let Use::Written(kind) = w.purpose else { return None };
        let what = format!(
            "`{}` ({}) lies in one line with `{}` and {} more pointers to functions",
            w.path,
            kind.word(),
            first.path,
            near.len() - 1
        );
        Some(asked.doubt(Rule::BesideRead, w.line, what))
    })
}
