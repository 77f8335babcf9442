//! Why a change was not taken, as a table's cell has it.

use std::path::Path;
use tussle_advise::patch::Refusal;
use tussle_advise::{Advice, Edit};
use tussle_host::fix::FixError;

/// Why an attempt failed, with its paths as seen from the program's folder, in one line.
pub fn of(dir: &Path, copies: [&Path; 2], why: &anyhow::Error) -> String {
    seen_from_folder(dir, copies, &format!("{why:#}"))
}

/// The edits, where a compiler would not have them.
pub fn refused_by_compiler(advice: &Advice, why: &anyhow::Error) -> Option<(String, Vec<Edit>)> {
    let failed = matches!(why.downcast_ref(), Some(FixError::BuildFailed { patched: true, .. }));
    failed.then(|| (advice.type_name.clone(), advice.edits.clone()))
}

/// The type, where another order of its members was refused: what only opens gaps may still be taken. A layout that
/// leaves the program stands against everything.
pub fn keeps_order(advice: &Advice, why: &anyhow::Error) -> Option<String> {
    let refused = match why.downcast_ref::<FixError>()? {
        FixError::BuildFailed { .. } | FixError::Use(Refusal::LeavesProcess { .. }) => false,
        _ => advice.edits.iter().any(Edit::reorders),
    };
    refused.then(|| advice.type_name.clone())
}

/// The type, where the sources allocate it in a way that aligns nothing.
pub fn unaligned(advice: &Advice, why: &anyhow::Error) -> Option<String> {
    let allocation = matches!(why.downcast_ref(), Some(FixError::Use(Refusal::Allocation { .. })));
    (allocation && advice.edits.iter().any(Edit::aligns)).then(|| advice.type_name.clone())
}

/// A message with its paths as seen from the program's folder, in one line.
fn seen_from_folder(dir: &Path, copies: [&Path; 2], message: &str) -> String {
    let folder = dir.display().to_string();
    let original = |text: String, copy: &Path| text.replace(&copy.display().to_string(), &folder);
    let text = copies.into_iter().fold(message.to_string(), original);
    in_one_line(&text.replace(&format!("{folder}/"), ""))
}

/// Lines of a compiler's message one behind the other, without what only draws.
fn in_one_line(text: &str) -> String {
    let draws = |line: &&str| line.chars().all(|c| " |^-~+=_/\\".contains(c));
    let lines = text.lines().filter(|l| !draws(l)).map(|l| l.trim_start_matches([' ', '|']).trim_end());
    lines.collect::<Vec<_>>().join("; ").replace(":; ", ": ").replace(";; ", "; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_one_line_seen_from_the_folder() {
        let message = "`make` failed:\n\n  |\n 9 | /tmp/c/a.rs: x\n  |  ^^^ no\nno source below /tmp/c";
        let seen = seen_from_folder(Path::new("/p"), [Path::new("/tmp/c"), Path::new("/p")], message);
        assert_eq!(seen, "`make` failed: 9 | a.rs: x; ^^^ no; no source below /p");
    }
}
