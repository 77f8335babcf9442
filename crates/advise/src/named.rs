//! What a user and the source call a type, and which types are worth a look.

use std::collections::{BTreeSet, HashMap, HashSet};

use tussle_evidence::{Evidence, Object, ObjectKind, Source};
use tussle_model::near::{also, near, near_paths};
use tussle_model::{Aggregate, Type, TypeId, TypeTable};

use crate::class::Verdicts;
use crate::scene::holders;

/// The name by which source code calls a type: its tag, or the typedef of an anonymous one.
pub fn source_name(table: &TypeTable, id: TypeId) -> Option<String> {
    let id = table.strip(id);
    let a = table.aggregate(id)?;
    if a.name.is_some() {
        return Some(a.display_name());
    }
    table.iter().find_map(|(_, t)| match t {
        Type::Typedef { name, to } if table.strip(*to) == id => Some(name.clone()),
        _ => None,
    })
}

/// The same where the source has no name for it: that of the global variable that is declared with it.
pub(crate) fn name_of(evidence: &Evidence, id: TypeId) -> Option<String> {
    let table = &evidence.types;
    let id = table.strip(id);
    let own = |ty: TypeId| match table.get(table.strip(ty)) {
        Type::Array { elem, .. } => table.strip(*elem) == id,
        _ => table.strip(ty) == id,
    };
    let variable = |o: &&Object| o.kind == ObjectKind::Global && o.ty.is_some_and(own);
    source_name(table, id)
        .or_else(|| table.aggregate(id).and_then(|_| evidence.objects.iter().find(variable)?.name.clone()))
}

/// The type that a user calls `name`: a struct, or what a variable of that name is declared with.
pub(crate) fn type_named(evidence: &Evidence, name: &str) -> Option<TypeId> {
    let table = &evidence.types;
    let unnamed = || {
        let found = table.aggregates().map(|a| a.0).filter(|id| source_name(table, *id).is_none());
        found.into_iter().find(|id| name_of(evidence, *id).as_deref() == Some(name))
    };
    table.find(name).or_else(unnamed).or_else(|| inside_of(table, name))
}

/// A struct of the program that is called so within its crate, namespace or module, where that is one only.
fn inside_of(table: &TypeTable, name: &str) -> Option<TypeId> {
    let ending = format!("::{name}");
    let own = |a: &&Aggregate| !a.declaration && a.decl.as_ref().is_some_and(|d| is_own_source(&d.file));
    let ends = |a: &Aggregate| a.name.as_ref().is_some_and(|n| !n.contains('<') && n.ends_with(&ending));
    let mut found = table.aggregates().filter(|(_, a)| own(a) && ends(a));
    let (id, first) = found.next()?;
    found.all(|(_, a)| a.name == first.name).then_some(id)
}

/// How an error about a name ends: types and variables like it.
pub(crate) fn close_to(evidence: &Evidence, name: &str) -> String {
    let variables: BTreeSet<&str> = evidence.objects.iter().filter_map(|o| o.name.as_deref()).collect();
    let mut close = near_paths(variables.into_iter(), name, 3);
    for other in near(&evidence.types, name, 3) {
        if !close.contains(&other) {
            close.push(other);
        }
    }
    close.truncate(3);
    also(&close)
}

/// Named types with a source that hold bytes whose fight a layout may end, those with most accesses first. What one
/// thread has for itself does not count: a runtime's tasks have more types than are looked at.
pub(crate) fn contended_types(evidence: &Evidence, verdicts: &Verdicts) -> Vec<TypeId> {
    let table = &evidence.types;
    let mut heat: HashMap<TypeId, u64> = HashMap::new();
    for a in evidence.accesses.iter().filter(|a| verdicts.may_gain(a.object)) {
        let Some(ty) = evidence.objects.get(a.object as usize).and_then(|o| o.ty) else { continue };
        *heat.entry(table.strip(ty)).or_default() += a.reads + a.writes + a.rmws;
    }
    let mut out: Vec<(u64, TypeId)> = table
        .aggregates()
        .filter(|(id, a)| {
            a.decl.as_ref().is_some_and(|d| is_own_source(&d.file)) && name_of(evidence, *id).is_some()
        })
        .filter_map(|(id, _)| {
            if is_everywhere(evidence, id) {
                return None;
            }
            let n: u64 = holders(table, id).iter().filter_map(|h| heat.get(h)).sum();
            (n > 0).then_some((n, id))
        })
        .collect();
    out.sort_unstable_by_key(|(n, id)| (std::cmp::Reverse(*n), *id));
    let mut seen = HashSet::new();
    out.into_iter().map(|o| o.1).filter(|id| seen.insert(name_of(evidence, *id))).take(16).collect()
}

/// A small part that very many structs of a kernel are made of: locks, links of lists and trees. Nobody asks to change
/// these unless by name.
fn is_everywhere(evidence: &Evidence, id: TypeId) -> bool {
    const BYTES_MAX: u64 = 64;
    const HOLDERS_MIN: usize = 4;
    let table = &evidence.types;
    if evidence.run.source != Source::KernelRecorder || table.size(id).is_none_or(|size| size > BYTES_MAX) {
        return false;
    }
    let own = |o: &Object| o.ty.is_some_and(|t| table.strip(t) == id);
    let has = |a: &Aggregate| a.members.iter().any(|m| table.strip(m.ty) == id);
    !evidence.objects.iter().any(own) && table.aggregates().filter(|(_, a)| has(a)).count() >= HOLDERS_MIN
}

/// Whether a source file belongs to the program and not to the system.
pub fn is_own_source(path: &str) -> bool {
    // Rust's library, and crates of others.
    const FOREIGN: [&str; 3] = ["/rustlib/src/", "/registry/src/", "/git/checkouts/"];
    let library = ["/rustc/", "/rust/deps/"].iter().any(|f| path.starts_with(f));
    let foreign = library || FOREIGN.iter().any(|f| path.contains(f));
    !path.is_empty() && !path.starts_with("/usr/") && !path.starts_with('<') && !foreign
}
