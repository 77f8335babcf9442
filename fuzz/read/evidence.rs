//! Evidence files: what is read can be analysed, shown, advised on and written again.

use tussle_contention::analysis::{Bases, Question, contention, latent};
use tussle_evidence::{Evidence, file};
use tussle_report::{Options, compare, report};

/// Structs of one file that are advised on; the work grows with them.
const STRUCTS_MAX: usize = 3;

pub fn read(bytes: &[u8]) {
    let Ok((e, problems)) = file::read(bytes) else { return };
    let observed = contention(&e, &Question::observed());
    latent(&e, &observed, &|l| l.cost.removable() >= 1.0);
    report(&e, &problems, &Options::default());
    let question = Question { bases: Bases::Phase(8), ..Question::observed() };
    report(&e, &problems, &Options { question, ..Options::default() });
    compare(&e, &e, [&[], &[]], &Options::default());
    let names: Vec<String> = e.types.aggregates().filter_map(|(_, a)| a.name.clone()).collect();
    for name in names.iter().take(STRUCTS_MAX) {
        let _ = tussle_advise::advise(&e, name, &tussle_advise::Options::default());
    }
    let _ = tussle_scenarios::recorded::Recording::new(&e);
    again(&e);
}

/// What was repaired once is sound.
fn again(e: &Evidence) {
    let mut out = Vec::new();
    file::write(e, &mut out).expect("an evidence can be written");
    let (_, problems) = file::read(&out).expect("what was written can be read");
    assert!(problems.iter().all(|p| p.line == 0 && p.table.is_empty()), "{problems:?}");
}
