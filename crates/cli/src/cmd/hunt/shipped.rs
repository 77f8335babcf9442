//! Whether the program as it is built for use stores what the instrumented one did. Link-time optimisation, for
//! instance, keeps a counter in a register where calls kept it in memory.

use std::collections::BTreeSet;
use std::path::Path;
use tussle_advise::class::{Class, Judged};
use tussle_contention::analysis::Counts;
use tussle_contention::group::{FieldUse, Group};
use tussle_evidence::{Evidence, ObjectKind};
use tussle_host::for_use::{self, Stores};

/// Stores of the instrumented program, beside which one per thread is none.
const STORES_PER_THREAD_MIN: f64 = 100.0;

/// A case whose stores are gone there.
pub struct Gone {
    /// The pair of fields.
    pub title: String,
    /// Why it is known.
    pub why: String,
}

/// Cases that a layout helps, of which the program at `exe` stores to every field at most once per thread. What cannot
/// be told (heap objects, pointers, stripped programs) is not among them.
pub fn gone(e: &Evidence, judged: &[Judged<'_>], exe: &Path) -> Vec<Gone> {
    let starts = starts(e);
    let of = |stores: &Stores<'_>, j: &Judged<'_>| {
        let functions = once_per_thread(e, &j.group, stores, &starts)?;
        Some(Gone { title: j.group.title(), why: words(&functions) })
    };
    let helped = || judged.iter().filter(|j| j.class == Class::LayoutHelps);
    for_use::ask(exe, |stores| helped().filter_map(|j| of(stores, j)).collect()).unwrap_or_default()
}

fn stored(counts: &Counts) -> f64 {
    counts.writes + counts.rmws
}

/// Functions that begin threads, and `main`.
fn starts(e: &Evidence) -> BTreeSet<String> {
    let rows = e.actors.iter().filter_map(|a| e.code.get(a.start? as usize)?.frames.first());
    rows.map(|f| bare(&f.function).to_string()).chain(["main".into()]).collect()
}

/// The functions that store to the group's fields, if none of them does so more than once per thread.
fn once_per_thread(
    e: &Evidence,
    g: &Group<'_>,
    stores: &Stores<'_>,
    starts: &BTreeSet<String>,
) -> Option<BTreeSet<String>> {
    let mut out = BTreeSet::new();
    // What is stored to little more than once per thread as recorded, too, is none of what fights.
    let often = |f: &&FieldUse| stored(&f.counts) >= STORES_PER_THREAD_MIN * f.actors.len() as f64;
    let mut fields = g.fields.iter().filter(|f| stored(&f.counts) > 0.0).filter(often).peekable();
    fields.peek()?;
    for f in fields {
        out.extend(field(e, f, stores)?);
    }
    out.iter().all(|f| starts.contains(bare(f)) && !stores.is_called(f)).then_some(out)
}

fn field(e: &Evidence, f: &FieldUse, stores: &Stores<'_>) -> Option<BTreeSet<String>> {
    let o = e.objects.get(f.object as usize).filter(|o| o.kind == ObjectKind::Global)?;
    let (offset, size) = if f.elements.is_some() { (0, o.size) } else { (f.offset, f.size) };
    stores.at_most_once_per_call(o.name.as_deref()?, offset, size)
}

fn words(functions: &BTreeSet<String>) -> String {
    let names: Vec<&str> = functions.iter().map(|f| bare(f)).collect();
    match names[..] {
        [] => "only in the instrumented build: the program as built for use does not store to it".into(),
        _ => format!(
            "only in the instrumented build: the program as built for use stores to it once per thread, outside of \
             loops, in {}",
            names.join(", ")
        ),
    }
}

/// Without arguments.
fn bare(function: &str) -> &str {
    function.split('(').next().unwrap_or(function)
}
