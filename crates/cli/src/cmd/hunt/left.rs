//! Why a case stays as it is, where no patch of it was even tried.

use super::gate::Case;
use super::steps::edits;
use tussle_advise::advice::{Options, advise};
use tussle_evidence::Evidence;
use tussle_evidence::tables::is_of_library;
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
        Ok(report) => match (report.advices.first(), report.refused) {
            (Some(a), _) if a.decl.as_ref().is_some_and(|d| is_of_library(&d.file)) => {
                format!("{name} is a library's: put it into a type of your own, and {} there", edits(a))
            }
            (Some(a), _) => format!("{} was not tried: tussle advise -C {}", edits(a), quoted(name)),
            (None, Some(best)) => format!("no patch would do {best}"),
            (None, None) => format!("no move, exchange or alignment of members of {name} gains enough"),
        },
        Err(_) if case.of.is_none() => NO_MEMBERS.into(),
        Err(why) => why.to_string(),
    })
}

const NO_MEMBERS: &str = "its bytes are no members of a struct: leave lines of 64 bytes between those of different \
                          threads by hand";
