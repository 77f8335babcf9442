//! What a user and the source call a type, and which types are worth a look.

use std::collections::{BTreeSet, HashMap, HashSet};

use tussle_evidence::tables::is_of_library;
use tussle_evidence::{Evidence, Object, ObjectKind, Source};
use tussle_model::leaf::DEPTH_MAX;
use tussle_model::near::{also, near, near_paths};
use tussle_model::{Aggregate, AggregateKind, Member, Type, TypeId, TypeTable};

use crate::class::Verdicts;
use crate::cost::{elements, ends_open};
use crate::foreign::is_own;

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
    const TYPES_MAX: usize = 16;
    let table = &evidence.types;
    let named = |id: TypeId| {
        let own = |a: &Aggregate| a.decl.as_ref().is_some_and(|d| is_own_source(&d.file));
        table.aggregate(id).is_some_and(own) && name_of(evidence, id).is_some()
    };
    let mut out: Vec<(u64, TypeId)> = heats(evidence, verdicts)
        .into_iter()
        .filter(|(id, heat)| heat.may_matter() && named(*id) && !is_everywhere(evidence, *id))
        .map(|(id, heat)| (heat.accesses, id))
        .collect();
    out.sort_unstable_by_key(|(n, id)| (std::cmp::Reverse(*n), *id));
    let mut seen = HashSet::new();
    out.into_iter().map(|o| o.1).filter(|id| seen.insert(name_of(evidence, *id))).take(TYPES_MAX).collect()
}

/// What was seen of one type in all objects that hold it.
#[derive(Default)]
struct Heat {
    accesses: u64,
    /// Where in it, bytes.
    offsets: HashSet<u64>,
    /// It is an object's type, or that of an array's elements.
    repeats: bool,
}

impl Heat {
    /// A part with one word that is used has no order; what surrounds it has.
    fn may_matter(&self) -> bool {
        self.repeats || self.offsets.len() > 1
    }
}

/// What was seen of each struct that holds bytes whose fight a layout may end.
fn heats(evidence: &Evidence, verdicts: &Verdicts) -> HashMap<TypeId, Heat> {
    let table = &evidence.types;
    let mut bytes: HashMap<(TypeId, u64), u64> = HashMap::new();
    for a in evidence.accesses.iter().filter(|a| verdicts.may_gain(a.object)) {
        let Some(o) = evidence.objects.get(a.object as usize) else { continue };
        let Some((ty, size)) = o.ty.and_then(|ty| Some((ty, table.size(ty).filter(|size| *size > 0)?)))
        else {
            continue;
        };
        let at = if elements(o, size) == 1 && ends_open(table, ty) { a.offset } else { a.offset % size };
        let n = bytes.entry((table.strip(ty), at)).or_default();
        *n = n.saturating_add(a.reads + a.writes + a.rmws);
    }
    let mut out: HashMap<TypeId, Heat> = HashMap::new();
    for ((ty, at), n) in bytes {
        each_around(table, ty, at, &mut |id, at, repeats| {
            let heat = out.entry(id).or_default();
            heat.accesses = heat.accesses.saturating_add(n);
            heat.offsets.insert(at);
            heat.repeats |= repeats;
        });
    }
    out
}

/// The structs that have a byte of `ty`, from the outermost one: each with the byte's offset in it, and whether it is
/// the whole of an object or of an array's element, or lies in one that is a library's.
fn each_around(table: &TypeTable, ty: TypeId, at: u64, visit: &mut impl FnMut(TypeId, u64, bool)) {
    let mut open = vec![(table.strip(ty), at, true, 0)];
    while let Some((ty, at, repeats, depth)) = open.pop() {
        match table.get(ty) {
            Type::Array { elem, .. } => {
                if let Some(size) = table.size(*elem).filter(|size| *size > 0) {
                    open.push((table.strip(*elem), at % size, true, depth));
                }
            }
            Type::Aggregate(a) => {
                visit(ty, at, repeats);
                // What the program aligns in a library's struct, it aligns that.
                let repeats = repeats && !is_own(a);
                if depth < DEPTH_MAX {
                    open.extend(at_byte(table, a, at).map(|(ty, at)| (ty, at, repeats, depth + 1)));
                }
            }
            _ => {}
        }
    }
}

/// The members that have a byte, and where in them it is. Structs that share it with each other, in a union, are left
/// out: which of them an access means is not known.
fn at_byte<'a>(table: &'a TypeTable, a: &'a Aggregate, at: u64) -> impl Iterator<Item = (TypeId, u64)> + 'a {
    let is_struct = |m: &Member| table.aggregate(m.ty).is_some_and(|a| a.members.len() > 1);
    let structs = || a.members.iter().filter(|m| is_struct(m)).map(|m| table.strip(m.ty));
    let several = a.kind == AggregateKind::Union && structs().collect::<HashSet<_>>().len() > 1;
    let known = move |m: &&Member| m.bit_size.is_none() && !(several && is_struct(m));
    a.members.iter().filter(known).filter_map(move |m| {
        let open = || {
            matches!(table.get(table.strip(m.ty)), Type::Array { .. })
                && table.size(m.ty).is_none_or(|n| n == 0)
        };
        let has = |at: &u64| table.size(m.ty).is_some_and(|size| *at < size) || open();
        let inside = at.checked_sub(m.offset()).filter(has);
        inside.map(|at| (table.strip(m.ty), at))
    })
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

/// Whether a source file belongs to the program, not to the system or a library.
pub fn is_own_source(path: &str) -> bool {
    !path.is_empty() && !path.starts_with("/usr/") && !path.starts_with('<') && !is_of_library(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// `struct outer { struct s one, two[2]; union { struct s a; struct t { int x, y; } b; int n; } u; }`.
    #[test]
    fn a_byte_belongs_to_each_struct_around_it_but_for_those_that_share_it() {
        let (mut t, s) = testing::table();
        let int = t.iter().find(|(_, ty)| matches!(ty, Type::Base(b) if b.name == "int")).map(|i| i.0);
        let int = int.unwrap_or(s);
        let aggregate =
            |kind, name, size, members| Type::Aggregate(Aggregate::new(kind, name, size, members));
        let field = |n, ty, at| Member::field(Some(n), ty, at);
        let other = t.push(aggregate(
            AggregateKind::Struct,
            Some("t"),
            8,
            vec![field("x", int, 0), field("y", int, 4)],
        ));
        let two = t.push(Type::Array { elem: s, counts: vec![Some(2)] });
        let shared = t.push(aggregate(
            AggregateKind::Union,
            None,
            24,
            vec![field("a", s, 0), field("b", other, 0), field("n", int, 0)],
        ));
        let outer = t.push(aggregate(
            AggregateKind::Struct,
            Some("outer"),
            96,
            vec![field("one", s, 0), field("two", two, 24), field("u", shared, 72)],
        ));
        let around = |at| {
            let mut out = Vec::new();
            each_around(&t, outer, at, &mut |id, at, repeats| out.push((id, at, repeats)));
            out
        };
        assert_eq!(around(8), [(outer, 8, true), (s, 8, false)]);
        assert_eq!(around(24 + 24 + 4), [(outer, 52, true), (s, 4, true)]);
        assert_eq!(around(72), [(outer, 72, true), (shared, 0, false)]);
    }

    #[test]
    fn what_cargo_fetched_is_not_the_programs() {
        for path in ["src/main.rs", "/home/u/rustc/w.c", "/srv/app/include/c++.h"] {
            assert!(is_own_source(path), "{path}");
        }
        for path in [
            "",
            "<built-in>",
            "/usr/include/stdio.h",
            "/opt/gcc/include/c++/13/deque",
            "/rustc/5980/library/core/src/cell.rs",
            "/rust/deps/hashbrown-0.15.2/src/raw.rs",
            "/home/u/.rustup/toolchains/stable/lib/rustlib/src/rust/library/std/src/lib.rs",
            "/home/u/.cargo/registry/src/index/tokio-1.54.1/src/runtime/park.rs",
            "/home/u/.cargo/git/checkouts/dashmap-1/abc/src/lib.rs",
        ] {
            assert!(!is_own_source(path), "{path}");
        }
    }
}
