//! Rules against builds: one result per cell.

use super::case::{Case, Failure};
use super::known::fingerprint;
use super::{Rule, When};
use crate::bounds::bounds;
use crate::near::{also, near};
use crate::phases::Possible;
use std::collections::HashSet;
use tussle_model::{LineSize, SourceLoc, Type, TypeId, TypeTable, resolve};

/// Types that hold one of a rule's type are followed up to this number.
const HOLDERS_MAX: usize = 512;

/// Elements of an array that are looked at as holders: their phases repeat after so many.
const ELEMENTS_MAX: u64 = 64;

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
    /// Holds, in all definitions of the type.
    Pass,
    /// Does not.
    Fail(Vec<Violation>),
    /// `when` excludes this build.
    NotForThis,
    /// The build does not tell: `when` asks for something unknown, or a field lies in a place that is not known.
    Unknown(String),
    /// The rule cannot be applied: no such type or field.
    Error(String),
}

/// One way in which a rule is violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong, in one sentence with offsets and phases.
    pub message: String,
    /// Declaration of the field at fault, if known.
    pub at: Option<SourceLoc>,
    /// The same for the same fault in every build.
    pub fingerprint: String,
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

/// Applies every rule to every build, rule by rule. A cell that cannot be decided does not keep others from it.
pub fn check(rules: &[Rule], builds: &[Build<'_>]) -> Vec<Outcome> {
    let cells = rules.iter().enumerate().flat_map(|(r, _)| (0..builds.len()).map(move |b| (r, b)));
    cells.map(|(r, b)| Outcome { rule: r, build: b, status: cell(&rules[r], &builds[b]) }).collect()
}

fn cell(rule: &Rule, build: &Build<'_>) -> Status {
    match applies(rule, build) {
        Ok(true) => as_far_as_read(of_all_definitions(rule, build), build),
        Ok(false) => Status::NotForThis,
        Err(what) => Status::Unknown(what),
    }
}

/// What was not read may hold another definition of the type, or the only one with the fields.
fn as_far_as_read(status: Status, build: &Build<'_>) -> Status {
    match (&status, &build.table.lost) {
        (Status::Pass | Status::NotForThis, Some(what)) => {
            Status::Unknown(format!("not all of the file could be read: {what}"))
        }
        _ => status,
    }
}

fn applies(rule: &Rule, build: &Build<'_>) -> Result<bool, String> {
    let When { arch, config, has: _ } = &rule.when;
    if !arch.is_empty() {
        let known = build.arch.as_ref().ok_or("its architecture is not known")?;
        if !arch.contains(known) {
            return Ok(false);
        }
    }
    if config.is_empty() {
        return Ok(true);
    }
    let text = build.config.as_ref().ok_or("its .config is not known")?;
    Ok(config.iter().all(|want| option_holds(text, want)))
}

/// This definition of the rule's type has the fields that the rule is for, and none that it is not for.
fn has_fields(rule: &Rule, table: &TypeTable, id: TypeId) -> bool {
    rule.when.has.iter().all(|want| {
        let (negated, path) = want.strip_prefix('!').map_or((false, want.as_str()), |path| (true, path));
        resolve(table, id, path).is_empty() == negated
    })
}

fn option_holds(config: &str, want: &str) -> bool {
    let (negated, want) = want.strip_prefix('!').map_or((false, want), |w| (true, w));
    let (name, value) = want.split_once('=').map_or((want, None), |(n, v)| (n, Some(v)));
    let line = config.lines().find_map(|l| l.trim().strip_prefix(name)?.strip_prefix('='));
    let holds = match (line, value) {
        (Some(have), Some(value)) => have.trim_matches('"') == value,
        (Some(have), None) => have != "n",
        (None, _) => false,
    };
    holds != negated
}

/// A rule holds when it holds for every definition of its type.
fn of_all_definitions(rule: &Rule, build: &Build<'_>) -> Status {
    let table = build.table;
    let all = table.find_all(&rule.ty);
    let unsized_one = table.find_unsized(&rule.ty).map(Status::Unknown);
    if let (true, Some(unknown)) = (all.is_empty(), &unsized_one) {
        return unknown.clone();
    }
    if all.is_empty() && rule.when.has.iter().all(|want| want.starts_with('!')) {
        let close = near(table, &rule.ty, 3);
        let close = also(&close);
        return Status::Error(format!("no type named `{}`{close}", rule.ty));
    }
    let several = all.len() > 1;
    let meant: Vec<TypeId> = all.into_iter().filter(|&id| has_fields(rule, table, id)).collect();
    if meant.is_empty() {
        return Status::NotForThis;
    }
    let mut statuses: Vec<Status> = unsized_one.into_iter().collect();
    for &id in &meant {
        let of = if several { definition(table, id) } else { String::new() };
        statuses.push(one(rule, build, Home { id, at: 0, inner: id, path: String::new() }, &of));
        if rule.inherit {
            let (holders, whole) = holders(table, id);
            let cut = || Status::Unknown(format!("more than {HOLDERS_MAX} objects hold a {}", rule.ty));
            statuses.extend((!whole).then(cut));
            statuses.extend(holders.into_iter().map(|h| {
                let of = format!(" in {}", table.name(h.id));
                one(rule, build, h, &of)
            }));
        }
    }
    worst(statuses)
}

/// ` (of a.c)`: which of several definitions is meant.
fn definition(table: &TypeTable, id: TypeId) -> String {
    let Some(a) = table.aggregate(id) else { return String::new() };
    match (&a.unit, &a.decl) {
        (Some(unit), _) => format!(" (as {unit} has it)"),
        (None, Some(at)) => format!(" (of {}:{})", at.file, at.line),
        (None, None) => String::new(),
    }
}

/// The worst is told; an error tells the violations of its cell, too.
fn worst(statuses: Vec<Status>) -> Status {
    let mut failed: Vec<Violation> = Vec::new();
    let (mut error, mut unknown) = (None, None);
    for status in statuses {
        match status {
            Status::Fail(more) => failed.extend(more),
            Status::Error(what) => error = error.or(Some(what)),
            Status::Unknown(what) => unknown = unknown.or(Some(what)),
            Status::Pass | Status::NotForThis => {}
        }
    }
    match (error, failed.is_empty(), unknown) {
        (Some(what), true, _) => Status::Error(what),
        (Some(what), false, _) => {
            let violated: Vec<String> = failed.into_iter().map(|v| v.message).collect();
            Status::Error(format!("{what}; violated besides: {}", violated.join("; ")))
        }
        (None, false, _) => Status::Fail(failed),
        (None, true, Some(what)) => Status::Unknown(what),
        (None, true, None) => Status::Pass,
    }
}

/// An object of the rule's type in another.
pub(super) struct Home {
    /// The outer type; the type itself where it stands alone.
    pub id: TypeId,
    /// Byte at which the inner object begins.
    pub at: u64,
    /// The rule's type.
    pub inner: TypeId,
    /// Path of the inner object, empty where it stands alone.
    pub path: String,
}

fn one(rule: &Rule, build: &Build<'_>, home: Home, of: &str) -> Status {
    if let Some(why) = build.table.damaged(home.id) {
        return Status::Unknown(format!("{why}{of}"));
    }
    let Possible { all, certain } = match (&rule.phases, build.caches) {
        // written for an object of its own
        (Some(list), _) if home.path.is_empty() => Possible::exactly(list.clone()),
        (_, Some(caches)) => slab_phases(build, home.id, caches, rule.line),
        _ => Possible::of(build.table, home.id, rule.line, build.btf),
    };
    let in_phases = |phases: &[u64]| Case { rule, build, home: &home, phases: phases.to_vec() }.evaluate();
    let found = in_phases(&all);
    // what is wrong only in phases that the alignment may rule out is not known to be wrong
    let found = match &found {
        Ok(faults) if !faults.is_empty() && certain != all => match in_phases(&certain) {
            Ok(sure) if sure.is_empty() => Err(Failure::Unplaced(doubt(build, home.id, &faults[0].message))),
            sure => sure,
        },
        _ => found,
    };
    match found {
        Err(Failure::Missing(what)) => Status::Error(format!("{what}{of}")),
        Err(Failure::Unplaced(what)) => Status::Unknown(format!("{what}{of}")),
        Ok(failed) if failed.is_empty() => Status::Pass,
        Ok(failed) => {
            let holder = if home.path.is_empty() { String::new() } else { build.table.name(home.id) };
            let violation = |f: super::case::Fault| Violation {
                message: format!("{}{of}", f.message),
                at: f.at,
                fingerprint: fingerprint(rule, &format!("{}{holder}", f.what)),
            };
            Status::Fail(failed.into_iter().map(violation).collect())
        }
    }
}

/// Why a fault that depends on the alignment is none for certain.
fn doubt(build: &Build<'_>, id: TypeId, fault: &str) -> String {
    let known = bounds(build.table, id, build.btf);
    let name = build.table.name(id);
    let (least, most) = (known.least, known.most);
    format!("perhaps {fault}: the alignment of {name} is not recorded ({least} to {most} bytes are possible)")
}

/// Phases that occur in the slabs that hold the type; by alignment when none does.
fn slab_phases(build: &Build<'_>, id: TypeId, caches: &[crate::slab::Cache], line: LineSize) -> Possible {
    let homes = crate::slab::homes(build.table, id, caches);
    let mut phases: Vec<u64> = homes.iter().flat_map(|h| h.phases(line).into_keys()).collect();
    phases.sort_unstable();
    phases.dedup();
    if phases.is_empty() { Possible::of(build.table, id, line, build.btf) } else { Possible::exactly(phases) }
}

/// Every named type that holds a `ty` by value, at any depth; whether these are all.
fn holders(table: &TypeTable, ty: TypeId) -> (Vec<Home>, bool) {
    let mut found: Vec<Home> = Vec::new();
    let mut todo = vec![(ty, 0u64, String::new())];
    let mut seen = HashSet::new();
    while let Some((inner, at, path)) = todo.pop() {
        for (id, a) in table.aggregates() {
            for m in &a.members {
                let Some((elem, stride, count)) = element(table, m.ty) else { continue };
                if elem != inner || m.bit_size.is_some() || !seen.insert((id, m.offset_bits, at)) {
                    continue;
                }
                for i in 0..count.min(ELEMENTS_MAX) {
                    if found.len() >= HOLDERS_MAX {
                        return (found, false);
                    }
                    let name = m.name.as_deref().unwrap_or_default();
                    let subscript = if count > 1 { format!("[{i}]") } else { String::new() };
                    let parts = [format!("{name}{subscript}"), path.clone()];
                    let parts: Vec<&str> =
                        parts.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
                    let path = if parts.is_empty() { "(base)".into() } else { parts.join(".") };
                    let at = m.offset().saturating_add(i.saturating_mul(stride)).saturating_add(at);
                    if i == 0 {
                        todo.push((id, at, path.clone()));
                    }
                    if a.name.is_some() {
                        found.push(Home { id, at, inner: ty, path });
                    }
                }
            }
        }
    }
    (found, true)
}

/// Element type, stride and number of elements; one for what is no array.
fn element(table: &TypeTable, id: TypeId) -> Option<(TypeId, u64, u64)> {
    let id = table.strip(id);
    match table.get(id) {
        Type::Array { elem, counts } => {
            let count = counts.iter().try_fold(1u64, |n, c| n.checked_mul((*c)?))?;
            Some((table.strip(*elem), table.size(*elem)?, count))
        }
        Type::Aggregate(_) => Some((id, 0, 1)),
        _ => None,
    }
}
