//! What object a line of a text is, without debug information of that build: every type of a similar build, at every
//! place in the line, scored by how well the rows' functions fit the fields at their offsets.

use crate::families::{FAMILY, NEUTRAL, family, fit};
use crate::text::{TextLine, TextRow};
use std::collections::HashMap;
use tussle_model::leaf::{Arrays, Leaf, leaf_at, leaves};
use tussle_model::{Type, TypeId, TypeTable};

/// Types with more fields than this are no candidates: arrays of tables fit anything.
const LEAVES_MAX: usize = 4096;

/// Candidates kept.
const KEPT_MAX: usize = 12;

/// A sum of fits per row below this share of the best possible is no candidate.
const FIT_MIN: f64 = 0.5;

/// One place that a line can have in an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Build: index of its table in the slice given to [`candidates`].
    pub build: usize,
    /// Type of the object.
    pub ty: TypeId,
    /// Name of it.
    pub type_name: String,
    /// Bytes into a line at which the object begins.
    pub phase: u64,
    /// Address of the object's first byte.
    pub base: u64,
    /// How well functions and fields fit, 0 to 1.
    pub fit: f64,
    /// 0 to 1: the fit, shared with the other answers that fit as well.
    pub confidence: f64,
    /// `(offset in the line, functions, field)`; behind the line's end where the object lies on several.
    pub fields: Vec<(u64, Vec<String>, String)>,
}

/// What the rows of a line say: functions by offset, each with its share of the samples.
struct Clue<'a> {
    offset: u64,
    function: &'a str,
    weight: f64,
}

fn clues<'a>(lines: &[&'a TextLine]) -> Vec<Clue<'a>> {
    let first = lines.first().map_or(0, |l| l.address);
    let mut sums: HashMap<(u64, &str), f64> = HashMap::new();
    for line in lines {
        let at = line.address.wrapping_sub(first);
        for r in &line.rows {
            *sums.entry((at.wrapping_add(r.offset), r.symbol.as_str())).or_default() += share(r, line);
        }
    }
    let all: f64 = sums.values().sum::<f64>().max(1e-9);
    let mut out: Vec<Clue> = sums
        .into_iter()
        // Each function counts, a frequent one up to twice: one spinning loop must not drown the rest.
        .map(|((offset, function), s)| Clue { offset, function, weight: 1.0 + s / all })
        .collect();
    out.sort_unstable_by(|a, b| (a.offset, a.function).cmp(&(b.offset, b.function)));
    out
}

/// Samples of a row: HITM, or records where there are none.
fn share(r: &TextRow, line: &TextLine) -> f64 {
    let hitm = r.hitm(line);
    if hitm > 0.0 { hitm } else { r.records.unwrap_or(0) as f64 / 1e6 }
}

/// One aggregate with its fields and what scoring needs of them.
struct Suspect {
    build: usize,
    ty: TypeId,
    name: String,
    size: u64,
    leaves: Vec<Leaf>,
    /// Names of the types around each leaf.
    types: Vec<Vec<String>>,
}

/// Candidates for `line`, best first. `line_bytes` is 64 almost everywhere.
pub fn candidates(line: &TextLine, builds: &[&TypeTable], line_bytes: u64) -> Vec<Candidate> {
    together(&[line], builds, line_bytes)
}

/// Candidates for one object that lies on all of `lines`, in order of address. Offsets of the fields count from the
/// first line.
pub(crate) fn together(lines: &[&TextLine], builds: &[&TypeTable], line_bytes: u64) -> Vec<Candidate> {
    let clues = clues(lines);
    let first = lines.first().map_or(0, |l| l.address);
    if !clues.iter().any(|c| family(c.function).is_some()) {
        return Vec::new();
    }
    let mut out: Vec<(Candidate, u64)> = Vec::new();
    for (build, table) in builds.iter().enumerate() {
        for (ty, a) in table.aggregates() {
            if a.name.is_none() || a.size < 16 {
                continue;
            }
            let Some(shape) = shape(build, table, ty, a.size, &clues) else { continue };
            out.extend(places(&shape, &clues, first, line_bytes).map(|c| (c, a.size)));
        }
    }
    // The smallest type that explains all: what embeds it explains it as well, and says less.
    out.sort_by(|(a, n), (b, m)| b.fit.total_cmp(&a.fit).then(n.cmp(m)).then(a.phase.cmp(&b.phase)));
    let mut kept: Vec<Candidate> = Vec::new();
    for (c, _) in out {
        let embedded = |k: &Candidate| k.build == c.build && k.fit >= c.fit && same_fields(k, &c);
        if !kept.iter().any(embedded) && kept.len() < KEPT_MAX {
            kept.push(c);
        }
    }
    confide(&mut kept);
    let sure = certainty(&clues);
    kept.iter_mut().for_each(|c| c.confidence *= sure);
    kept
}

/// How far the clues can decide, 0 to 1. Known functions at two places hold a type fast; at one place, what else the
/// line says is not explained by anything.
fn certainty(clues: &[Clue]) -> f64 {
    let known = |c: &&Clue| family(c.function).is_some();
    let mut places: Vec<u64> = clues.iter().filter(known).map(|c| c.offset).collect();
    places.dedup();
    let weight = |all: &mut dyn Iterator<Item = &Clue>| all.map(|c| c.weight).sum::<f64>();
    match places.len() {
        0 | 1 => weight(&mut clues.iter().filter(known)) / weight(&mut clues.iter()).max(1e-9),
        _ => 1.0,
    }
}

/// The same fields inside another type: `inode.i_data.i_mmap` for `address_space.i_mmap`.
fn same_fields(inner: &Candidate, outer: &Candidate) -> bool {
    inner.ty != outer.ty
        && inner.fields.iter().zip(&outer.fields).all(|(a, b)| b.2.ends_with(&format!(".{}", a.2)))
}

/// Shares certainty among answers that name other fields and fit as well.
fn confide(kept: &mut [Candidate]) {
    let answers: Vec<(f64, Vec<String>)> =
        kept.iter().map(|c| (c.fit, c.fields.iter().map(|f| f.2.clone()).collect())).collect();
    for c in kept.iter_mut() {
        let own: Vec<String> = c.fields.iter().map(|f| f.2.clone()).collect();
        let rivals = answers.iter().filter(|(fit, fields)| *fit >= c.fit - 0.02 && *fields != own);
        let mut different: Vec<&Vec<String>> = rivals.map(|r| &r.1).collect();
        different.sort_unstable();
        different.dedup();
        c.confidence = c.fit / (1.0 + different.len() as f64);
    }
}

/// The fields of a type, if it has any that the line's functions work on.
fn shape(build: usize, table: &TypeTable, ty: TypeId, size: u64, clues: &[Clue]) -> Option<Suspect> {
    let all = leaves(table, ty, Arrays::Whole);
    if all.is_empty() || all.len() > LEAVES_MAX {
        return None;
    }
    let types: Vec<Vec<String>> = all.iter().map(|l| around(table, ty, l.offset)).collect();
    let wanted = clues
        .iter()
        .filter_map(|c| family(c.function))
        .all(|f| types.iter().flatten().any(|t| f.types.contains(&t.as_str())));
    wanted.then(|| Suspect { build, ty, name: table.name(ty), size, leaves: all, types })
}

/// Names of the aggregates that hold the byte at `offset`, outermost first.
fn around(table: &TypeTable, ty: TypeId, offset: u64) -> Vec<String> {
    let (mut out, mut at, mut ty) = (Vec::new(), offset, ty);
    for _ in 0..16 {
        match table.get(table.strip(ty)) {
            Type::Aggregate(a) => {
                out.extend(a.name.clone());
                let inside = |m: &&tussle_model::Member| {
                    let size = table.size(m.ty).unwrap_or(0);
                    m.offset() <= at && at - m.offset() < size.max(1)
                };
                let Some(m) = a.members.iter().find(inside) else { break };
                (at, ty) = (at - m.offset(), m.ty);
            }
            Type::Array { elem, .. } => {
                at %= table.size(*elem).unwrap_or(1).max(1);
                ty = *elem;
            }
            _ => break,
        }
    }
    out
}

/// All places of the object around the line, by phases of 8 bytes, that fit well enough.
fn places<'a>(
    shape: &'a Suspect,
    clues: &'a [Clue],
    first: u64,
    line_bytes: u64,
) -> impl Iterator<Item = Candidate> + 'a {
    // `shift` is how far before the line the object begins, or after it when negative.
    let lines = shape.size.div_ceil(8) as i64;
    (-(line_bytes as i64 / 8) + 1..lines).filter_map(move |step| {
        let shift = 8 * step;
        score(shape, clues, shift).map(|(fit, fields)| Candidate {
            build: shape.build,
            ty: shape.ty,
            type_name: shape.name.clone(),
            phase: (-shift).rem_euclid(line_bytes as i64) as u64,
            base: first.wrapping_sub(shift as u64),
            fit,
            confidence: 0.0,
            fields,
        })
    })
}

/// Fit of one place and the fields that it names; `None` below [`FIT_MIN`].
#[allow(clippy::type_complexity)]
fn score(shape: &Suspect, clues: &[Clue], shift: i64) -> Option<(f64, Vec<(u64, Vec<String>, String)>)> {
    let (mut sum, mut best) = (0.0, 0.0);
    let mut fields: Vec<(u64, Vec<String>, String)> = Vec::new();
    for c in clues {
        let at = u64::try_from(c.offset as i64 + shift).ok();
        let leaf = at.and_then(|at| leaf_at(&shape.leaves, at));
        let most = if family(c.function).is_some() { FAMILY } else { NEUTRAL };
        let Some(leaf) = leaf else {
            best += c.weight * most;
            sum -= c.weight;
            continue;
        };
        let index = shape.leaves.iter().position(|l| std::ptr::eq(l, leaf)).unwrap_or(0);
        let types = &shape.types[index];
        let given = fit(c.function, &leaf.path, types);
        best += c.weight * most.max(given);
        sum += c.weight * given;
        match fields.last_mut().filter(|f| f.0 == c.offset) {
            Some(f) => f.1.push(c.function.into()),
            None => fields.push((c.offset, vec![c.function.into()], leaf.path.clone())),
        }
    }
    let fit = (sum / f64::max(best, 1e-9)).clamp(0.0, 1.0);
    (fit >= FIT_MIN).then_some((fit, fields))
}
