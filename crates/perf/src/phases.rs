//! What the phase of an object does to its hot fields, and how two runs differ in it.

use crate::guess::Candidate;
use tussle_model::TypeTable;
use tussle_model::leaf::{Arrays, leaves};

/// A candidate that fits worse says nothing about a move: the layout of another build fits a table in part.
const FIT_MIN: f64 = 0.8;

/// Which hot fields share lines at one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtPhase {
    /// Bytes into a line at which the object begins.
    pub phase: u64,
    /// Fields by line, in order of address.
    pub lines: Vec<Vec<String>>,
}

/// The fields of a candidate at every phase of 8 bytes.
pub fn all_phases(c: &Candidate, line_address: u64, line_bytes: u64) -> Vec<AtPhase> {
    let at = |offset: u64| line_address.wrapping_add(offset).wrapping_sub(c.base);
    (0..line_bytes / 8)
        .map(|i| {
            let phase = 8 * i;
            let mut lines: Vec<(u64, Vec<String>)> = Vec::new();
            for (offset, _, field) in &c.fields {
                let line = at(*offset).wrapping_add(phase) / line_bytes;
                match lines.iter_mut().find(|l| l.0 == line) {
                    Some(l) => l.1.push(field.clone()),
                    None => lines.push((line, vec![field.clone()])),
                }
            }
            AtPhase { phase, lines: lines.into_iter().map(|l| l.1).collect() }
        })
        .collect()
}

/// Two candidates of two tables that can be the same object type in the same configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair<'a> {
    /// In the first table.
    pub before: &'a Candidate,
    /// In the second.
    pub after: &'a Candidate,
}

impl Pair<'_> {
    /// Bytes by which the phase moved, modulo a line.
    pub fn moved(&self, line_bytes: u64) -> u64 {
        (self.after.phase + line_bytes - self.before.phase % line_bytes) % line_bytes
    }
}

/// Pairs the best candidates of two tables: the same type with the same members (in any order), and the functions
/// that occur in both tables on the same fields.
pub fn pairs<'a>(before: &'a [Candidate], after: &'a [Candidate], builds: &[&TypeTable]) -> Vec<Pair<'a>> {
    let members = |c: &Candidate| {
        let table = builds.get(c.build)?;
        let mut all: Vec<String> = leaves(table, c.ty, Arrays::Whole).into_iter().map(|l| l.path).collect();
        all.sort_unstable();
        Some(all)
    };
    let mut out = Vec::new();
    for b in before.iter().filter(|b| b.fit >= FIT_MIN) {
        let own = members(b);
        let fits = |a: &&Candidate| a.type_name == b.type_name && members(a) == own && agree(b, a);
        let after = after.iter().filter(|a| a.fit >= FIT_MIN);
        out.extend(after.filter(fits).map(|after| Pair { before: b, after }));
    }
    let sum = |p: &Pair| p.before.fit + p.after.fit;
    out.sort_by(|x, y| sum(y).total_cmp(&sum(x)));
    let best = out.first().map_or(0.0, sum);
    out.retain(|p| sum(p) >= best - 0.1);
    out
}

/// No function that is in both tables works on two different fields of the two.
fn agree(a: &Candidate, b: &Candidate) -> bool {
    let of = |c: &Candidate, f: &String| -> Vec<String> {
        c.fields.iter().filter(|x| x.1.contains(f)).map(|x| x.2.clone()).collect()
    };
    let functions = a.fields.iter().flat_map(|f| &f.1);
    functions.map(|f| (of(a, f), of(b, f))).all(|(x, y)| y.is_empty() || y.iter().any(|p| x.contains(p)))
}
