//! Lines that lie side by side, named as one object: a lock whose count ends one line and whose owner begins the next
//! says too little on either.

use crate::families::family;
use crate::guess::{Candidate, candidates, together};
use crate::text::TextLine;
use tussle_model::TypeTable;

/// Lines that one object is tried on.
const LINES_MAX: usize = 4;

/// What a line can be, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Address of the line.
    pub address: u64,
    /// Candidates, as of [`candidates`].
    pub candidates: Vec<Candidate>,
    /// Addresses of all lines that the first candidate was fitted on.
    pub fitted: Vec<u64>,
}

/// A lock or another primitive whose place is sure, whatever holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Primitive {
    /// Its type.
    pub type_name: String,
    /// Address of its first byte.
    pub base: u64,
    /// How well functions and fields fit, 0 to 1.
    pub fit: f64,
    /// `(address, field)`.
    pub fields: Vec<(u64, String)>,
}

/// Names lines, alone and with those beside them. A line that alone is at least `decided` sure keeps its answer; the
/// others get that of their neighbourhood, if it is as sure and contradicts no line that is decided.
pub fn name(lines: &[TextLine], builds: &[&TypeTable], line_bytes: u64, decided: f64) -> Vec<Named> {
    let alone = |l: &TextLine| Named {
        address: l.address,
        candidates: candidates(l, builds, line_bytes),
        fitted: vec![l.address],
    };
    let mut out: Vec<Named> = lines.iter().map(alone).collect();
    for window in windows(lines, line_bytes) {
        let open = |n: &Named| window.iter().any(|l| l.address == n.address) && !sure(n, decided);
        if !out.iter().any(open) {
            continue;
        }
        let Some(found) = together(&window, builds, line_bytes).into_iter().next() else { continue };
        if found.confidence >= decided && agrees(&found, &window, &out, decided) {
            adopt(&found, &window, &mut out, decided, line_bytes);
        }
    }
    out
}

fn sure(n: &Named, decided: f64) -> bool {
    n.candidates.first().is_some_and(|c| c.confidence >= decided)
}

/// Runs of adjacent lines, longest first; each is in order of address.
fn windows(lines: &[TextLine], line_bytes: u64) -> Vec<Vec<&TextLine>> {
    let mut sorted: Vec<&TextLine> = lines.iter().filter(|l| !l.rows.is_empty()).collect();
    sorted.sort_by_key(|l| l.address);
    sorted.dedup_by_key(|l| l.address);
    let runs = sorted.chunk_by(|a, b| b.address.wrapping_sub(a.address) == line_bytes);
    let runs: Vec<&[&TextLine]> = runs.collect();
    let of = |n: usize| runs.iter().flat_map(move |r| r.windows(n)).map(<[_]>::to_vec);
    (2..=LINES_MAX).rev().flat_map(of).collect()
}

/// No line that is decided alone says another object.
fn agrees(found: &Candidate, window: &[&TextLine], out: &[Named], decided: f64) -> bool {
    let inside = |n: &&Named| window.iter().any(|l| l.address == n.address) && sure(n, decided);
    let same = |n: &Named| {
        n.candidates.first().is_some_and(|c| {
            let at = |c: &Candidate, from: u64| -> Vec<(u64, String)> {
                c.fields.iter().map(|f| (from.wrapping_add(f.0), f.2.clone())).collect()
            };
            let first = window.first().map_or(0, |l| l.address);
            let whole = at(found, first);
            at(c, n.address).iter().all(|(a, field)| {
                whole
                    .iter()
                    .any(|(b, outer)| a == b && (outer == field || outer.ends_with(&format!(".{field}"))))
            })
        })
    };
    out.iter().filter(inside).all(same)
}

/// Gives the answer to the lines that have none, each with its own fields.
fn adopt(found: &Candidate, window: &[&TextLine], out: &mut [Named], decided: f64, line_bytes: u64) {
    let first = window.first().map_or(0, |l| l.address);
    for n in out.iter_mut().filter(|n| window.iter().any(|l| l.address == n.address)) {
        if sure(n, decided) {
            continue;
        }
        let from = n.address.wrapping_sub(first);
        let own = found.fields.iter().filter(|f| f.0.wrapping_sub(from) < line_bytes);
        let fields = own.map(|f| (f.0 - from, f.1.clone(), f.2.clone())).collect();
        n.candidates.insert(0, Candidate { fields, ..found.clone() });
        n.fitted = window.iter().map(|l| l.address).collect();
    }
}

/// Locks, trees and their like that the functions of one family place by themselves: at two offsets at least, with one
/// answer. It holds where the object around them is not known.
pub fn primitives(
    lines: &[TextLine],
    builds: &[&TypeTable],
    line_bytes: u64,
    decided: f64,
) -> Vec<Primitive> {
    let mut out: Vec<Primitive> = Vec::new();
    let single = lines.iter().map(|l| vec![l]);
    for window in windows(lines, line_bytes).into_iter().chain(single) {
        for own in by_family(&window) {
            let own: Vec<&TextLine> = own.iter().collect();
            let found = primitive(&own, builds, line_bytes, decided);
            let new = |p: &Primitive| !out.iter().any(|o| overlap(o, p));
            out.extend(found.filter(new));
        }
    }
    out.sort_by_key(|p| p.base);
    out
}

fn overlap(a: &Primitive, b: &Primitive) -> bool {
    a.base == b.base || b.fields.iter().all(|f| a.fields.iter().any(|g| g.0 == f.0))
}

/// The lines with the rows of one family at a time.
fn by_family(window: &[&TextLine]) -> Vec<Vec<TextLine>> {
    let rows = || window.iter().flat_map(|l| &l.rows).filter_map(|r| family(&r.symbol));
    let mut families: Vec<&'static crate::families::Family> = Vec::new();
    for f in rows() {
        if !families.iter().any(|o| std::ptr::eq(*o, f)) {
            families.push(f);
        }
    }
    // Spinners of a sleeping lock stand in its queue, which is a part of it.
    let belongs = |symbol: &str, f: &crate::families::Family| {
        family(symbol)
            .is_some_and(|o| std::ptr::eq(o, f) || sleeping(f) && o.types == ["optimistic_spin_queue"])
    };
    let only = |f: &'static crate::families::Family| -> Vec<TextLine> {
        let cut = window.iter().map(|l| TextLine {
            rows: l.rows.iter().filter(|r| belongs(&r.symbol, f)).cloned().collect(),
            ..(**l).clone()
        });
        cut.filter(|l| !l.rows.is_empty()).collect()
    };
    families.into_iter().map(only).collect()
}

fn sleeping(f: &crate::families::Family) -> bool {
    f.types.iter().any(|t| matches!(*t, "rw_semaphore" | "mutex"))
}

fn primitive(own: &[&TextLine], builds: &[&TypeTable], line_bytes: u64, decided: f64) -> Option<Primitive> {
    let first = own.first()?.address;
    let best = together(own, builds, line_bytes).into_iter().next()?;
    let wanted = own.iter().flat_map(|l| &l.rows).filter_map(|r| family(&r.symbol));
    let known = wanted.into_iter().any(|f| f.types.iter().any(|t| best.type_name.ends_with(t)));
    let fields: Vec<(u64, String)> =
        best.fields.iter().map(|f| (first.wrapping_add(f.0), f.2.clone())).collect();
    (known && fields.len() > 1 && best.confidence >= decided).then_some(Primitive {
        type_name: best.type_name,
        base: best.base,
        fit: best.fit,
        fields,
    })
}
