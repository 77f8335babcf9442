//! One rule on one object.

use super::eval::{Build, Home};
use super::{Demand, Group, Rule};
use crate::near::{also, near_paths};
use crate::phases::{is_below, line_count, list};
use std::ops::Range;
use tussle_model::leaf::Arrays;
use tussle_model::{Leaf, LineSpan, SourceLoc, Spot, Type, leaves_told, leaves_within, resolve};

/// Faults of one rule on one object that are told.
const FAULTS_MAX: usize = 256;

/// What evaluating one rule on one object needs.
pub(super) struct Case<'a> {
    pub rule: &'a Rule,
    pub build: &'a Build<'a>,
    pub home: &'a Home,
    pub phases: Vec<u64>,
}

/// One way in which the rule does not hold.
pub(super) struct Fault {
    pub message: String,
    pub at: Option<SourceLoc>,
    /// The fields at fault, without offsets.
    pub what: String,
}

/// Why a rule cannot be decided.
pub(super) enum Failure {
    /// No such field, or several.
    Missing(String),
    /// The field's place is not known.
    Unplaced(String),
}

type Faults = Result<Vec<Fault>, Failure>;

/// A field that a rule names, with the bytes of its leaves.
struct Field {
    spot: Spot,
    pieces: Vec<(u64, u64)>,
}

impl Field {
    fn path(&self) -> &str {
        &self.spot.path
    }

    fn first(&self) -> u64 {
        self.pieces.iter().map(|p| p.0).min().unwrap_or(self.spot.offset)
    }

    fn end(&self) -> u64 {
        self.pieces.iter().map(|p| p.0.saturating_add(p.1)).max().unwrap_or(self.spot.end())
    }
}

impl Case<'_> {
    pub fn evaluate(&self) -> Faults {
        let mut faults = match &self.rule.demand {
            Demand::Separate(groups) => self.separate(groups),
            Demand::Together(fields) => self.together(fields),
            Demand::Alone(fields) => self.alone(fields),
            Demand::SameLine(fields) => self.same_line(fields),
            Demand::Straddle(fields) => self.straddle(fields),
            Demand::NothingBetween(fields) => self.nothing_between(fields),
            Demand::Within { fields, lines } => self.within(fields, *lines),
            Demand::MaxLines(most) => Ok(self.max_lines(*most)),
            Demand::MaxSize(most) => Ok(self.max_size(*most)),
            Demand::Offset(list) => self.offset(list),
            Demand::Group(group) => self.group(group),
            Demand::GroupsApart => self.groups_apart(),
        }?;
        faults.truncate(FAULTS_MAX);
        Ok(faults)
    }

    /// The fields that a path names, placed in the outer object.
    fn named(&self, path: &str) -> Result<Vec<Field>, Failure> {
        let table = self.build.table;
        let found = resolve(table, self.home.inner, path);
        if found.is_empty() {
            return Err(Failure::Missing(self.missing(path)));
        }
        if found.len() > 1 && !path.contains('*') {
            let spelled: Vec<String> = found.iter().map(|s| format!("`{}`", s.spelled())).collect();
            let text =
                format!("{}: `{path}` is several fields: name one as {}", self.rule.ty, spelled.join(" or "));
            return Err(Failure::Missing(text));
        }
        let part = |s: &Spot| table.incomplete(s.ty).filter(|_| !self.at_offsets());
        if let Some((spot, why)) = found.iter().find_map(|s| Some((s, part(s)?))) {
            let text = format!("{}: not all of {} is known: {why}", self.rule.ty, spot.path);
            return Err(Failure::Unplaced(text));
        }
        if let Some(spot) = found.iter().find(|s| !s.placed) {
            let text =
                format!("{}: {} lies in a virtual base, whose place is not known", self.rule.ty, spot.path);
            return Err(Failure::Unplaced(text));
        }
        let placed = |mut spot: Spot| {
            spot.offset = spot.offset.saturating_add(self.home.at);
            Field { pieces: spot.pieces(table), spot }
        };
        Ok(found.into_iter().map(placed).collect())
    }

    /// Only where fields begin counts.
    fn at_offsets(&self) -> bool {
        matches!(self.rule.demand, Demand::Offset(_))
    }

    fn missing(&self, path: &str) -> String {
        let table = self.build.table;
        let leaves = leaves_within(table, self.home.inner, Arrays::Whole, 0..u64::MAX);
        let last = path.rsplit('.').next().unwrap_or(path);
        let alike = |l: &&Leaf| l.path.split(['.', '[']).any(|part| part == last);
        let mut close: Vec<String> = leaves.iter().filter(alike).take(3).map(|l| l.path.clone()).collect();
        if close.is_empty() {
            close = near_paths(leaves.iter().map(|l| l.path.as_str()), path, 3);
        }
        let close = also(&close);
        format!("{} has no field `{path}`{close}", self.rule.ty)
    }

    fn fields(&self, paths: &[String]) -> Result<Vec<Field>, Failure> {
        let mut out = Vec::new();
        for path in paths {
            out.extend(self.named(path)?);
        }
        Ok(out)
    }

    /// Phases in which `bad` holds.
    fn phases_where(&self, bad: impl Fn(u64) -> bool) -> Vec<u64> {
        self.phases.iter().copied().filter(|&p| bad(p)).collect()
    }

    fn span(&self, piece: (u64, u64), phase: u64) -> LineSpan {
        self.rule.line.span(piece.0.saturating_add(phase), piece.1)
    }

    /// Lines from the first to the last byte.
    fn extent(&self, first: u64, end: u64, phase: u64) -> LineSpan {
        self.span((first, end.saturating_sub(first)), phase)
    }

    fn meet(&self, a: &[(u64, u64)], b: &[(u64, u64)], phase: u64) -> bool {
        a.iter().any(|&x| b.iter().any(|&y| self.span(x, phase).meets(self.span(y, phase))))
    }

    fn words(&self, bad: &[u64]) -> String {
        list(bad, self.phases.len())
    }

    fn fault(&self, message: String, field: Option<&Field>, what: &[&str]) -> Fault {
        Fault { message, at: self.declared(field), what: what.join("|") }
    }

    /// Where the field, or else the type, is declared: that is the line people edit.
    fn declared(&self, field: Option<&Field>) -> Option<SourceLoc> {
        let table = self.build.table;
        let whole = table.aggregate(self.home.inner)?;
        let line = field.and_then(|f| {
            // the outermost member stands in the type itself
            let first = f.path().split(['.', '[']).next()?;
            let outer = resolve(table, self.home.inner, first).into_iter().next()?;
            let owner = table.aggregate(outer.owner)?;
            let file = owner.decl.as_ref().or(whole.decl.as_ref())?.file.clone();
            (outer.decl_line > 0).then_some(SourceLoc { file, line: outer.decl_line })
        });
        line.or_else(|| whole.decl.clone()).filter(|l| l.line > 0)
    }

    fn separate(&self, groups: &[Vec<String>]) -> Faults {
        let mut groups: Vec<Vec<Field>> = groups.iter().map(|g| self.fields(g)).collect::<Result<_, _>>()?;
        // a pattern alone means its fields among themselves
        if let [only] = groups.as_mut_slice() {
            groups = std::mem::take(only).into_iter().map(|f| vec![f]).collect();
        }
        let mut out = Vec::new();
        for (i, group) in groups.iter().enumerate() {
            for (a, b) in group.iter().flat_map(|a| groups[i + 1..].iter().flatten().map(move |b| (a, b))) {
                let bad = self.phases_where(|p| self.meet(&a.pieces, &b.pieces, p));
                if bad.is_empty() || a.spot == b.spot {
                    continue;
                }
                let text = format!(
                    "{} at {} and {} at {} share a {}-byte line in {}",
                    a.path(),
                    a.first(),
                    b.path(),
                    b.first(),
                    self.rule.line.bytes(),
                    self.words(&bad)
                );
                out.push(self.fault(text, Some(b), &[a.path(), b.path()]));
            }
        }
        Ok(out)
    }

    fn together(&self, paths: &[String]) -> Faults {
        let fields = self.fields(paths)?;
        let bytes = fields.iter().fold(0u64, |n, f| n.saturating_add(f.end() - f.first()));
        let need = bytes.div_ceil(self.rule.line.bytes()).max(1);
        let (first, end) = bounds(&fields);
        let bad = self.phases_where(|p| self.extent(first, end, p).lines() > need);
        Ok(self.extent_fault(&fields, &bad, |names, phases| {
            let s = if need == 1 { "" } else { "s" };
            format!("{names} lie from {first} to {end}: more than {need} line{s} in {phases}")
        }))
    }

    fn same_line(&self, paths: &[String]) -> Faults {
        let fields = self.fields(paths)?;
        let (first, end) = bounds(&fields);
        let bad = self.phases_where(|p| self.extent(first, end, p).straddles());
        Ok(self.extent_fault(&fields, &bad, |names, phases| {
            format!("{names} lie from {first} to {end}, not in one line in {phases}")
        }))
    }

    fn extent_fault(&self, fields: &[Field], bad: &[u64], text: impl Fn(&str, &str) -> String) -> Vec<Fault> {
        if bad.is_empty() {
            return Vec::new();
        }
        let names: Vec<&str> = fields.iter().map(Field::path).collect();
        vec![self.fault(text(&names.join(", "), &self.words(bad)), fields.first(), &names)]
    }

    fn straddle(&self, paths: &[String]) -> Faults {
        let mut out = Vec::new();
        for f in self.fields(paths)? {
            let bad = self.phases_where(|p| !self.extent(f.first(), f.end(), p).straddles());
            if !bad.is_empty() {
                let text = format!("{} at {} lies in one line in {}", f.path(), f.first(), self.words(&bad));
                out.push(self.fault(text, Some(&f), &[f.path()]));
            }
        }
        Ok(out)
    }

    fn within(&self, paths: &[String], most: u64) -> Faults {
        let fields = self.fields(paths)?;
        let count = |phase: u64| {
            let mut lines: Vec<u64> = Vec::new();
            for f in fields.iter().flat_map(|f| &f.pieces).filter(|p| p.1 > 0) {
                let span = self.span(*f, phase);
                // no rule allows more lines than these
                lines.extend((span.first..span.end).take(1 << 16));
            }
            lines.sort_unstable();
            lines.dedup();
            lines.len() as u64
        };
        let bad = self.phases_where(|p| count(p) > most);
        let worst = bad.iter().map(|&p| count(p)).max().unwrap_or(0);
        Ok(self.extent_fault(&fields, &bad, |names, phases| {
            format!("{names} take {worst} lines in {phases}, more than {most}")
        }))
    }

    /// Leaves of the outer object that may share a line with these bytes, the field's own left out.
    fn neighbours(&self, f: &Field) -> Result<Vec<Leaf>, Failure> {
        let line = self.rule.line.bytes();
        let window = f.first().saturating_sub(line)..f.end().saturating_add(line);
        let root = match self.home.path.as_str() {
            "" | "(base)" => f.path().to_string(),
            outer => format!("{outer}.{}", f.path()),
        };
        let near = self.all_within(window)?;
        let own = |l: &Leaf| {
            is_below(&l.path, &root) || (l.offset >= f.spot.offset && l.end() <= f.spot.end() && !l.overlaps)
        };
        // An object of a class without members has a byte, and nothing in it.
        let table = self.build.table;
        let empty = |l: &Leaf| match table.get(l.ty) {
            Type::Aggregate(a) => a.members.is_empty() && !a.declaration,
            _ => false,
        };
        Ok(near.into_iter().filter(|l| l.size > 0 && !own(l) && !empty(l)).collect())
    }

    /// All leaves of the outer object in these bytes, or none.
    fn all_within(&self, window: Range<u64>) -> Result<Vec<Leaf>, Failure> {
        let (leaves, cut) = leaves_told(self.build.table, self.home.id, Arrays::Whole, window);
        let text = || format!("{}: more fields there than are listed", self.rule.ty);
        if cut { Err(Failure::Unplaced(text())) } else { Ok(leaves) }
    }

    /// What holds for all fields that are known, where some are not.
    fn unless_incomplete(&self, faults: Vec<Fault>) -> Faults {
        match self.build.table.incomplete(self.home.id).filter(|_| faults.is_empty()) {
            Some(why) => {
                Err(Failure::Unplaced(format!("{}: perhaps there are other fields: {why}", self.rule.ty)))
            }
            None => Ok(faults),
        }
    }

    fn alone(&self, paths: &[String]) -> Faults {
        let mut out = Vec::new();
        for f in self.fields(paths)? {
            for other in self.neighbours(&f)? {
                let bad = self.phases_where(|p| self.meet(&f.pieces, &[(other.offset, other.size)], p));
                if bad.is_empty() {
                    continue;
                }
                let text = format!(
                    "{} at {} shares a line with {} at {} in {}",
                    f.path(),
                    f.first(),
                    other.path,
                    other.offset,
                    self.words(&bad)
                );
                out.push(self.fault(text, Some(&f), &[f.path(), &other.path]));
            }
        }
        self.unless_incomplete(out)
    }

    fn nothing_between(&self, paths: &[String]) -> Faults {
        let fields = self.fields(paths)?;
        let mut out = Vec::new();
        for (a, b) in fields.iter().zip(fields.iter().skip(1)) {
            if b.first() < a.end() {
                let text = format!("{} at {} does not lie behind {}", b.path(), b.first(), a.path());
                out.push(self.fault(text, Some(b), &[a.path(), b.path()]));
                continue;
            }
            let window = a.end()..b.first();
            if window.is_empty() {
                continue;
            }
            let between = self.all_within(window.clone())?;
            let inside = |l: &&Leaf| l.size > 0 && l.offset >= window.start && l.end() <= window.end;
            for other in between.iter().filter(inside) {
                let (a, b) = (a.path(), b.path());
                let text = format!("{} at {} lies between {a} and {b}", other.path, other.offset);
                out.push(self.fault(text, None, &[a, b, &other.path]));
            }
        }
        self.unless_incomplete(out)
    }

    fn max_size(&self, most: u64) -> Vec<Fault> {
        let size = self.build.table.size(self.home.inner).unwrap_or(0);
        let text = format!("{} has {size} bytes, more than {most}", self.rule.ty);
        if size <= most { Vec::new() } else { vec![self.fault(text, None, &[])] }
    }

    fn max_lines(&self, most: u64) -> Vec<Fault> {
        let size = self.build.table.size(self.home.inner).unwrap_or(0);
        let lines = |phase: u64| line_count(size, self.home.at.saturating_add(phase), self.rule.line);
        let bad = self.phases_where(|p| lines(p) > most);
        let Some(worst) = bad.iter().map(|&p| lines(p)).max() else { return Vec::new() };
        let text = format!("{} takes {worst} lines in {}, more than {most}", self.rule.ty, self.words(&bad));
        vec![self.fault(text, None, &[])]
    }

    fn offset(&self, wanted: &[(String, u64)]) -> Faults {
        let mut out = Vec::new();
        for (path, want) in wanted {
            for f in self.named(path)? {
                let at = f.spot.offset.saturating_sub(self.home.at);
                if at != *want {
                    out.push(self.fault(
                        format!("{} is at {at}, not at {want}", f.path()),
                        Some(&f),
                        &[f.path()],
                    ));
                }
            }
        }
        Ok(out)
    }

    /// The bytes between the two markers of a group.
    fn marked(&self, name: &str) -> Result<(Field, u64), Failure> {
        let marker = |kind: &str| -> Result<Option<Field>, Failure> {
            Ok(self.named(&format!("__cacheline_group_{kind}__{name}"))?.into_iter().next())
        };
        let (begin, end) = (marker("begin")?, marker("end")?);
        let missing = || Failure::Missing(format!("{} has no group `{name}`", self.rule.ty));
        let (begin, end) = (begin.ok_or_else(missing)?, end.ok_or_else(missing)?);
        Ok((begin, end.spot.offset))
    }

    fn group(&self, group: &Group) -> Faults {
        let (marker, end) = self.marked(&group.name)?;
        let begin = marker.spot.offset;
        let size = end.saturating_sub(begin);
        let mut out = Vec::new();
        if let Some(most) = group.max_size.filter(|most| size > *most) {
            let text = format!("group {} spans {size} bytes, more than {most}", group.name);
            out.push(self.fault(text, Some(&marker), &["size"]));
        }
        for f in self.fields(&group.members)? {
            if f.first() < begin || f.end() > end {
                let (path, at) = (f.path(), f.first());
                let text = format!("{path} at {at} lies outside group {} ({begin} to {end})", group.name);
                out.push(self.fault(text, Some(&f), &[path]));
            }
        }
        Ok(out)
    }

    fn groups_apart(&self) -> Faults {
        let prefix = "__cacheline_group_begin__";
        let begins = resolve(self.build.table, self.home.inner, &format!("{prefix}*"));
        let names: Vec<&str> = begins.iter().filter_map(|s| s.path.strip_prefix(prefix)).collect();
        if names.is_empty() {
            return Err(Failure::Missing(format!("{} has no __cacheline_group_begin markers", self.rule.ty)));
        }
        let groups: Vec<(Field, u64)> = names.iter().map(|n| self.marked(n)).collect::<Result<_, _>>()?;
        let piece = |i: usize| (groups[i].0.spot.offset, groups[i].1.saturating_sub(groups[i].0.spot.offset));
        let mut out = Vec::new();
        for i in 0..groups.len() {
            for j in i + 1..groups.len() {
                let bad = self.phases_where(|p| self.meet(&[piece(i)], &[piece(j)], p));
                if !bad.is_empty() && piece(i).1 > 0 && piece(j).1 > 0 {
                    let text =
                        format!("groups {} and {} share a line in {}", names[i], names[j], self.words(&bad));
                    out.push(self.fault(text, Some(&groups[j].0), &[names[i], names[j]]));
                }
            }
        }
        Ok(out)
    }
}

fn bounds(fields: &[Field]) -> (u64, u64) {
    let first = fields.iter().map(Field::first).min().unwrap_or(0);
    (first, fields.iter().map(Field::end).max().unwrap_or(first))
}
