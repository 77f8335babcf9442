//! Why a case stays as it is, where no patch of it was even tried.

use super::gate::Case;
use super::steps::edits;
use tussle_advise::advice::{Options, advise, source_name};
use tussle_evidence::Evidence;
use tussle_evidence::tables::is_of_library;
use tussle_model::{Aggregate, AggregateKind, Member, MemberRole};
use tussle_render::shell::quoted;

/// In words; `None` where a change was tried, which says it itself.
pub fn because(
    e: &Evidence,
    case: &Case,
    tried: &[(String, String)],
    options: &Options<'_>,
) -> Option<String> {
    let name = case.of.as_ref().unwrap_or(&case.root);
    let is_of =
        |change: &str| change.split_once(": ").is_some_and(|(of, _)| of == name || case.title.contains(of));
    if tried.iter().any(|(change, _)| is_of(change)) {
        return None;
    }
    Some(match advise(e, name, options) {
        Ok(report) => match (report.advices.first(), report.refused.as_ref()) {
            (Some(a), _) if a.decl.as_ref().is_some_and(|d| is_of_library(&d.file)) => {
                format!("{name} is a library's: put it into a type of your own, and {} there", edits(a))
            }
            (Some(a), _) => format!("{} was not tried: tussle advise -C {}", edits(a), quoted(name)),
            (None, Some(best)) => format!("no patch would do {best}"),
            (None, None) if is_in_an_enum(e, name) => format!(
                "{name} lies in an enum, which tussle changes nothing in: give the fields of each thread a struct of \
                 their own, aligned to 64 bytes"
            ),
            (None, None) if is_a_library_s(e, name) => format!(
                "{name} is a library's: put each into a struct of your own that is aligned to 64 bytes"
            ),
            (None, None) if has_unions_without_a_name(e, name) => format!(
                "{name} has a union without a name, which tussle leaves where it is: align that or what follows it \
                 by hand"
            ),
            (None, None) => report.stays.map_or_else(
                || format!("no move, exchange or alignment of members of {name} gains enough"),
                |stays| stays.words(),
            ),
        },
        Err(_) if case.of.is_none() => NO_MEMBERS.into(),
        Err(why) => why.to_string(),
    })
}

/// A variant of an enum, or what it holds: several lie at the same bytes, and no count of accesses says whose.
fn is_in_an_enum(e: &Evidence, name: &str) -> bool {
    let (types, is) = (&e.types, |ty| source_name(&e.types, ty).as_deref() == Some(name));
    let variants = types.aggregates().into_iter().flat_map(|(_, a)| &a.members);
    variants.filter(|m| m.role == MemberRole::Variant).any(|m| {
        let held = types.aggregate(m.ty).into_iter().flat_map(|v| &v.members);
        is(types.strip(m.ty)) || held.into_iter().any(|f| is(types.strip(f.ty)))
    })
}

fn named<'e>(e: &'e Evidence, name: &str) -> impl Iterator<Item = &'e Aggregate> {
    let is = move |ty| source_name(&e.types, ty).as_deref() == Some(name);
    e.types.aggregates().into_iter().filter(move |(ty, _)| is(*ty)).map(|(_, a)| a)
}

fn is_a_library_s(e: &Evidence, name: &str) -> bool {
    named(e, name).any(|a| a.decl.as_ref().is_some_and(|d| is_of_library(&d.file)))
}

fn has_unions_without_a_name(e: &Evidence, name: &str) -> bool {
    let union = |m: &Member| e.types.aggregate(m.ty).is_some_and(|a| a.kind == AggregateKind::Union);
    named(e, name).flat_map(|a| &a.members).any(|m| m.name.is_none() && union(m))
}

const NO_MEMBERS: &str = "its bytes are no members of a struct: leave lines of 64 bytes between those of different \
                          threads by hand";
