//! Why a program that ran recorded nothing.

use super::place;
use super::session::Note;
use crate::elf::{self, Inspection};
use std::path::{Path, PathBuf};

/// A process's file begins with a quarter of it.
const ROOM_MIN: u64 = 1 << 20;

/// What is wrong, and what to do about it. `problems` are those of the raw files.
pub(super) fn hint(problems: &[String], note: &Note, session: &Path) -> String {
    let room = place::room(session);
    match problems.first() {
        Some(p) => p.clone(),
        None if room < ROOM_MIN => {
            format!("the session folder {} has room for {} KiB only: set TMPDIR", session.display(), room >> 10)
        }
        None if note.children => of_launcher(&note.starts),
        None => "it may have failed before main (a missing library), changed its user, or cleared its environment \
                 before starting itself again"
            .into(),
    }
}

/// Of a launcher, which may start these programs.
fn of_launcher(starts: &[PathBuf]) -> String {
    let Some(program) = starts.iter().find(|p| is_instrumented(p)) else {
        return "none of the programs that it started is instrumented".into();
    };
    format!(
        "{} is instrumented and recorded nothing: it was not started, or what starts it takes away the environment \
         (`env -i`, sudo, su), in which {} says where to record; start it with that variable, or without a launcher",
        program.file_name().unwrap_or_default().to_string_lossy(),
        tussle_rt::SESSION_VARIABLE
    )
}

fn is_instrumented(program: &Path) -> bool {
    let Ok(bytes) = std::fs::read(program) else { return false };
    let found = elf::inspect(&bytes, &mut |name, paths| elf::find_library(name, paths, program));
    matches!(found, Inspection::OwnRuntime | Inspection::NeedsLibtsan(_))
}

/// Words of a command that name files, as it sees them from `folder`.
pub(super) fn named_in(command: &[String], folder: Option<&Path>) -> Vec<PathBuf> {
    let at = |word: &String| folder.map_or_else(|| PathBuf::from(word), |f| f.join(word));
    command.iter().skip(1).map(at).filter(|p| p.is_file()).collect()
}
