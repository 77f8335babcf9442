//! Rules against builds.

use super::{Demand, Error, Group, Rule, When};
use crate::near::near;
use crate::phases::{Where, is_below, line_count, list, select, span};
use tussle_model::leaf::Arrays;
use tussle_model::{Aggregate, Leaf, LineSize, MemberRole, SourceLoc, TypeId, TypeTable, leaves};

/// One build to check.
pub struct Build<'a> {
    /// File, as the user named it.
    pub name: String,
    /// Its types.
    pub table: &'a TypeTable,
    /// It comes from BTF.
    pub btf: bool,
    /// Architecture, if known.
    pub arch: Option<String>,
    /// Text of the build's `.config`, if known.
    pub config: Option<String>,
    /// Slab geometry, if given: phases that really occur.
    pub caches: Option<&'a [crate::slab::Cache]>,
}

/// How a rule fared in one build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Holds.
    Pass,
    /// Does not.
    Fail {
        /// What is wrong, in one sentence with offsets and phases.
        message: String,
        /// Declaration of the field at fault, if known.
        at: Option<SourceLoc>,
    },
    /// `when` excludes this build.
    NotForThis,
    /// `when` asks for something that is not known of this build.
    Unknown(String),
}

/// One rule in one build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Position of the rule in the list given.
    pub rule: usize,
    /// Position of the build in the list given.
    pub build: usize,
    /// What came of it.
    pub status: Status,
}

/// Applies every rule to every build, rule by rule.
///
/// # Errors
/// [`Error::NoType`] and [`Error::NoField`] for names that do not exist in a build that the rule is for.
pub fn check(rules: &[Rule], builds: &[Build<'_>]) -> Result<Vec<Outcome>, Error> {
    let mut out = Vec::new();
    for (r, rule) in rules.iter().enumerate() {
        for (b, build) in builds.iter().enumerate() {
            let status = match applies(&rule.when, build) {
                Ok(true) => one(rule, build)?,
                Ok(false) => Status::NotForThis,
                Err(what) => Status::Unknown(what),
            };
            out.push(Outcome { rule: r, build: b, status });
        }
    }
    Ok(out)
}

fn applies(when: &When, build: &Build<'_>) -> Result<bool, String> {
    if !when.arch.is_empty() {
        let arch = build.arch.as_ref().ok_or("its architecture is not known")?;
        if !when.arch.contains(arch) {
            return Ok(false);
        }
    }
    if when.config.is_empty() {
        return Ok(true);
    }
    let config = build.config.as_ref().ok_or("its .config is not known")?;
    Ok(when.config.iter().all(|want| option_holds(config, want)))
}

/// `CONFIG_X`, `!CONFIG_X` and `CONFIG_X=value` against the text of a `.config`.
fn option_holds(config: &str, want: &str) -> bool {
    let (name, negated) = want.strip_prefix('!').map_or((want, false), |n| (n, true));
    let (name, value) = name.split_once('=').map_or((name, None), |(n, v)| (n, Some(v)));
    let set = config.lines().find_map(|l| l.trim().strip_prefix(name)?.strip_prefix('='));
    let holds = match value {
        None => set.is_some_and(|v| v == "y" || v == "m"),
        Some(v) => set.is_some_and(|s| s.trim_matches('"') == v),
    };
    holds != negated
}

/// What evaluating one rule in one build needs.
struct Case<'a> {
    rule: &'a Rule,
    build: &'a Build<'a>,
    id: TypeId,
    leaves: Vec<Leaf>,
    phases: Vec<u64>,
}

fn one(rule: &Rule, build: &Build<'_>) -> Result<Status, Error> {
    let Some(id) = build.table.find(&rule.ty) else {
        return Err(Error::NoType {
            build: build.name.clone(),
            index: rule.index,
            ty: rule.ty.clone(),
            close: close(near(build.table, &rule.ty, 3)),
        });
    };
    let phases = match (&rule.phases, build.caches) {
        (Some(list), _) => list.clone(),
        (None, Some(caches)) => slab_phases(build, id, caches, rule.line),
        (None, None) => Where::Any.phases(build.table, id, rule.line, build.btf),
    };
    let case = Case { rule, build, id, leaves: leaves(build.table, id, Arrays::Whole), phases };
    case.evaluate()
}

/// Phases that occur in the slabs that hold the type; by alignment when none does.
fn slab_phases(build: &Build<'_>, id: TypeId, caches: &[crate::slab::Cache], line: LineSize) -> Vec<u64> {
    let homes = crate::slab::homes(build.table, id, caches);
    let mut phases: Vec<u64> = homes.iter().flat_map(|h| h.phases(line).into_keys()).collect();
    phases.sort_unstable();
    phases.dedup();
    if phases.is_empty() { Where::Any.phases(build.table, id, line, build.btf) } else { phases }
}

fn close(names: Vec<String>) -> String {
    if names.is_empty() { String::new() } else { format!("; close: {}", names.join(", ")) }
}

impl Case<'_> {
    fn evaluate(&self) -> Result<Status, Error> {
        match &self.rule.demand {
            Demand::Separate(fields) => self.separate(fields),
            Demand::Together(fields) => self.together(fields),
            Demand::Alone(fields) => self.alone(fields),
            Demand::SameLine(fields) => self.same_line(fields),
            Demand::Straddle(fields) => self.straddle(fields),
            Demand::MaxLines(most) => Ok(self.max_lines(*most)),
            Demand::MaxSize(most) => {
                let size = self.build.table.size(self.id).unwrap_or(0);
                let text = format!("{} has {size} bytes, more than {most}", self.rule.ty);
                Ok(if size <= *most { Status::Pass } else { self.fail(text, None) })
            }
            Demand::Offset(list) => self.offset(list),
            Demand::Group(group) => self.group(group),
        }
    }

    /// The leaves of a field.
    fn field(&self, path: &str) -> Result<Vec<&Leaf>, Error> {
        let found = select(&self.leaves, path);
        if !found.is_empty() {
            return Ok(found);
        }
        let last = path.rsplit('.').next().unwrap_or(path);
        let alike = |l: &&Leaf| l.path.split(['.', '[']).any(|part| part == last);
        let names: Vec<String> = self.leaves.iter().filter(alike).take(3).map(|l| l.path.clone()).collect();
        Err(Error::NoField {
            build: self.build.name.clone(),
            index: self.rule.index,
            ty: self.rule.ty.clone(),
            field: path.into(),
            close: close(names),
        })
    }

    fn fields<'s>(&'s self, paths: &'s [String]) -> Result<Vec<(&'s str, Vec<&'s Leaf>)>, Error> {
        paths.iter().map(|p| Ok((p.as_str(), self.field(p)?))).collect()
    }

    /// Phases in which `bad` holds.
    fn phases_where(&self, bad: impl Fn(u64) -> bool) -> Vec<u64> {
        self.phases.iter().copied().filter(|&p| bad(p)).collect()
    }

    fn fail(&self, message: String, field: Option<&str>) -> Status {
        Status::Fail { message, at: self.declared(field) }
    }

    /// Where the outermost member of the field, or else the type, is declared: that is the line people edit.
    fn declared(&self, field: Option<&str>) -> Option<SourceLoc> {
        let table = self.build.table;
        let a = table.aggregate(self.id)?;
        let name = field.and_then(|f| f.split(['.', '[']).next()).unwrap_or_default();
        let line = member(table, a, name, 0).filter(|(_, m)| m.decl_line > 0).and_then(|(owner, m)| {
            let file = owner.decl.as_ref().or(a.decl.as_ref())?.file.clone();
            Some(SourceLoc { file, line: m.decl_line })
        });
        line.or_else(|| a.decl.clone()).filter(|l| l.line > 0)
    }

    fn separate(&self, paths: &[String]) -> Result<Status, Error> {
        let fields = self.fields(paths)?;
        for (i, (a, x)) in fields.iter().enumerate() {
            for (b, y) in &fields[i + 1..] {
                let bad = self.phases_where(|p| meet(x, y, p, self.rule.line));
                if !bad.is_empty() {
                    let text = format!(
                        "{a} at {} and {b} at {} share a {}-byte line in {}",
                        x[0].offset,
                        y[0].offset,
                        self.rule.line.bytes(),
                        list(&bad, self.phases.len())
                    );
                    return Ok(self.fail(text, Some(b)));
                }
            }
        }
        Ok(Status::Pass)
    }

    fn together(&self, paths: &[String]) -> Result<Status, Error> {
        let fields = self.fields(paths)?;
        let (first, end) = extent(fields.iter().flat_map(|f| f.1.iter().copied()));
        let bytes: u64 = fields
            .iter()
            .map(|f| extent(f.1.iter().copied()))
            .fold(0u64, |n, (a, b)| n.saturating_add(b - a));
        let need = bytes.div_ceil(self.rule.line.bytes()).max(1);
        let bad =
            self.phases_where(|p| self.rule.line.span(first.saturating_add(p), end - first).lines() > need);
        if bad.is_empty() {
            return Ok(Status::Pass);
        }
        let text = format!(
            "{} lie from {first} to {end}: more than {need} line{} in {}",
            paths.join(", "),
            if need == 1 { "" } else { "s" },
            list(&bad, self.phases.len())
        );
        Ok(self.fail(text, paths.first().map(String::as_str)))
    }

    fn same_line(&self, paths: &[String]) -> Result<Status, Error> {
        let fields = self.fields(paths)?;
        let (first, end) = extent(fields.iter().flat_map(|f| f.1.iter().copied()));
        let bad =
            self.phases_where(|p| self.rule.line.span(first.saturating_add(p), end - first).straddles());
        if bad.is_empty() {
            return Ok(Status::Pass);
        }
        let text = format!(
            "{} lie from {first} to {end}, not in one line in {}",
            paths.join(", "),
            list(&bad, self.phases.len())
        );
        Ok(self.fail(text, paths.first().map(String::as_str)))
    }

    fn straddle(&self, paths: &[String]) -> Result<Status, Error> {
        for (path, x) in self.fields(paths)? {
            let (first, end) = extent(x.iter().copied());
            let bad =
                self.phases_where(|p| !self.rule.line.span(first.saturating_add(p), end - first).straddles());
            if !bad.is_empty() {
                let text = format!("{path} at {first} lies in one line in {}", list(&bad, self.phases.len()));
                return Ok(self.fail(text, Some(path)));
            }
        }
        Ok(Status::Pass)
    }

    fn alone(&self, paths: &[String]) -> Result<Status, Error> {
        for (path, x) in self.fields(paths)? {
            let others = self.leaves.iter().filter(|l| l.size > 0 && !is_below(&l.path, path));
            for other in others {
                let bad = self.phases_where(|p| meet(&x, &[other], p, self.rule.line));
                if !bad.is_empty() {
                    let text = format!(
                        "{path} at {} shares a line with {} at {} in {}",
                        x[0].offset,
                        other.path,
                        other.offset,
                        list(&bad, self.phases.len())
                    );
                    return Ok(self.fail(text, Some(path)));
                }
            }
        }
        Ok(Status::Pass)
    }

    fn max_lines(&self, most: u64) -> Status {
        let size = self.build.table.size(self.id).unwrap_or(0);
        let bad = self.phases_where(|p| line_count(size, p, self.rule.line) > most);
        let worst = bad.iter().map(|&p| line_count(size, p, self.rule.line)).max();
        match worst {
            None => Status::Pass,
            Some(n) => {
                let phases = list(&bad, self.phases.len());
                self.fail(format!("{} takes {n} lines in {phases}, more than {most}", self.rule.ty), None)
            }
        }
    }

    fn offset(&self, wanted: &[(String, u64)]) -> Result<Status, Error> {
        for (path, want) in wanted {
            let at = self.field(path)?[0].offset;
            if at != *want {
                return Ok(self.fail(format!("{path} is at {at}, not at {want}"), Some(path)));
            }
        }
        Ok(Status::Pass)
    }

    fn group(&self, group: &Group) -> Result<Status, Error> {
        let marker = |kind: &str| -> Result<u64, Error> {
            let path = format!("__cacheline_group_{kind}__{}", group.name);
            // Clang and older kernels drop the markers' leaves when they have no size; they still have an offset.
            Ok(self.field(&path)?[0].offset)
        };
        let (begin, end) = (marker("begin")?, marker("end")?);
        let size = end.saturating_sub(begin);
        if let Some(most) = group.max_size.filter(|most| size > *most) {
            let text = format!("group {} spans {size} bytes, more than {most}", group.name);
            return Ok(self.fail(text, Some(&format!("__cacheline_group_begin__{}", group.name))));
        }
        for path in &group.members {
            let (first, last) = extent(self.field(path)?.into_iter());
            if first < begin || last > end {
                let text = format!("{path} at {first} lies outside group {} ({begin} to {end})", group.name);
                return Ok(self.fail(text, Some(path)));
            }
        }
        Ok(Status::Pass)
    }
}

/// The member of that name, also inside unnamed members, with the aggregate that declares it.
fn member<'a>(
    table: &'a TypeTable,
    a: &'a Aggregate,
    name: &str,
    depth: usize,
) -> Option<(&'a Aggregate, &'a tussle_model::Member)> {
    if depth > 16 {
        return None;
    }
    if let Some(m) = a.members.iter().find(|m| m.name.as_deref() == Some(name)) {
        return Some((a, m));
    }
    a.members
        .iter()
        .filter(|m| m.name.is_none() && m.role == MemberRole::Field)
        .filter_map(|m| table.aggregate(m.ty))
        .find_map(|inner| member(table, inner, name, depth + 1))
}

fn meet(a: &[&Leaf], b: &[&Leaf], phase: u64, line: LineSize) -> bool {
    a.iter().any(|x| b.iter().any(|y| span(x, phase, line).meets(span(y, phase, line))))
}

/// First byte and end of some leaves.
fn extent<'a>(leaves: impl Iterator<Item = &'a Leaf>) -> (u64, u64) {
    let (first, end) = leaves.fold((u64::MAX, 0), |(a, b), l| (a.min(l.offset), b.max(l.end())));
    (first.min(end), end)
}
