//! Edits that put two fields of a struct on different lines, found from the layout alone. Nothing is counted, so
//! nothing is said of how much they bring: only that the pair is apart afterwards, and what else changes.

use std::collections::BTreeSet;

use tussle_model::leaf::{Arrays, Leaf, leaves};
use tussle_model::{TypeId, TypeTable};

use crate::abi::Shapes;
use crate::edit::Edit;
use crate::moves::candidates;
use crate::owners::Owners;
use crate::relayout::{Relayout, RelayoutError};

/// Layouts tried at most.
const TRIED_MAX: usize = 20_000;

/// Two places of a struct that meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Bytes from the object's beginning to the first field.
    pub a: u64,
    /// And to the second.
    pub b: u64,
}

/// An edit with what it does to the pair.
#[derive(Clone, Debug, PartialEq)]
pub struct Parting {
    /// What to do.
    pub edits: Vec<Edit>,
    /// Phases (bytes into a line at which objects begin) at which the pair still shares a line.
    pub phases_left: Vec<u64>,
    /// Bytes more of one object.
    pub bytes_added: i64,
    /// Fields, by the member of the struct, whose line changes at the first phase.
    pub moved: Vec<String>,
    /// Other hot fields that come onto a line of the pair, with the field that they meet.
    pub joined: Vec<(String, String)>,
}

impl Parting {
    /// The pair shares a line at no phase.
    pub fn complete(&self) -> bool {
        self.phases_left.is_empty()
    }
}

/// A pair of fields that [`part`] shall put on different lines, and where.
#[derive(Clone, Copy, Debug)]
pub struct ToPart<'a> {
    /// The struct.
    pub target: TypeId,
    /// Fields that shall be apart.
    pub pair: &'a Pair,
    /// Other places of the object where samples are.
    pub hot: &'a [u64],
    /// Bytes into a line at which objects begin: those seen, or all that can be.
    pub phases: &'a [u64],
    /// Bytes.
    pub line: u64,
}

/// The name of the field at a byte: its whole path.
pub fn field(all: &[Leaf], at: u64) -> String {
    all.iter()
        .find(|l| l.offset <= at && at < l.end())
        .map_or_else(|| format!("byte {at}"), |l| l.path.clone())
}

/// Edits that part the pair at most phases, the least intrusive first, `rows` at most. Of several with the same bill,
/// which move the same members to other lines, the first stands for all.
///
/// # Errors
/// The struct's layout cannot be computed.
pub fn part(table: &TypeTable, question: &ToPart<'_>, rows: usize) -> Result<Vec<Parting>, RelayoutError> {
    let shapes = Shapes::new(table);
    let all = leaves(table, question.target, Arrays::Whole);
    Relayout::new(&shapes, question.target, &[])?;
    let hot: Vec<String> = [question.pair.a, question.pair.b].iter().map(|at| member(&all, *at)).collect();
    let list = candidates(table, question.target, (&hot, &Owners::default()), question.line);
    let tried = list.into_iter().take(TRIED_MAX);
    let scene = Scene { table, shapes: &shapes, all: &all, question };
    let mut out: Vec<Parting> = tried.filter_map(|edits| scene.bill(edits)).collect();
    out.sort_by_key(rank);
    out.dedup_by(|a, b| rank(a) == rank(b) && a.moved == b.moved);
    if out.first().is_some_and(Parting::complete) {
        out.retain(Parting::complete);
    }
    out.truncate(rows);
    Ok(out)
}

/// Member of the struct at a byte.
fn member(all: &[Leaf], at: u64) -> String {
    field(all, at).split(['.', '[']).next().unwrap_or_default().to_string()
}

/// Fewest phases left, nothing new beside the pair, fewest bytes, fewest moved members, fewest statements.
fn rank(p: &Parting) -> (usize, usize, i64, usize, usize) {
    let statements = p.edits.iter().map(Edit::statements).sum();
    (p.phases_left.len(), p.joined.len(), p.bytes_added.max(0), p.moved.len(), statements)
}

struct Scene<'a> {
    table: &'a TypeTable,
    shapes: &'a Shapes<'a>,
    all: &'a [Leaf],
    question: &'a ToPart<'a>,
}

impl Scene<'_> {
    /// What the edits do; `None` where they cannot be, or part the pair at no phase.
    fn bill(&self, edits: Vec<Edit>) -> Option<Parting> {
        let q = self.question;
        let layout = Relayout::new(self.shapes, q.target, &edits).ok()?;
        let new = |at: u64| layout.translate(q.target, at).ok();
        let (a, b) = (new(q.pair.a)?, new(q.pair.b)?);
        // An alignment of a line holds for the object, too: it begins there.
        let aligned = layout.align(q.target).ok()? >= q.line;
        let phases: Vec<u64> = if aligned { vec![0] } else { q.phases.to_vec() };
        let meets = |phase: &u64, x: u64, y: u64| (phase + x) / q.line == (phase + y) / q.line;
        let left: Vec<u64> = phases.iter().copied().filter(|p| meets(p, a, b)).collect();
        if left.len() >= phases.len() {
            return None;
        }
        let size = self.table.size(q.target)?;
        let bytes_added = layout.size(q.target).ok().flatten()? as i64 - size as i64;
        Some(Parting {
            moved: self.moved(&new, &phases),
            joined: self.joined(&new, &phases),
            edits,
            phases_left: left,
            bytes_added,
        })
    }

    /// Members any of whose bytes has another line than before, at the first phase.
    fn moved(&self, new: &dyn Fn(u64) -> Option<u64>, phases: &[u64]) -> Vec<String> {
        let (line, phase) = (self.question.line, phases.first().copied().unwrap_or(0));
        let other =
            |l: &&Leaf| new(l.offset).is_some_and(|n| (phase + n) / line != (phase + l.offset) / line);
        let names: BTreeSet<String> =
            self.all.iter().filter(other).map(|l| member(self.all, l.offset)).collect();
        names.into_iter().collect()
    }

    /// Hot fields that share a line with one of the pair only afterwards.
    fn joined(&self, new: &dyn Fn(u64) -> Option<u64>, phases: &[u64]) -> Vec<(String, String)> {
        let q = self.question;
        let mut out = Vec::new();
        for at in q.hot.iter().filter(|at| ![q.pair.a, q.pair.b].contains(at)) {
            for with in [q.pair.a, q.pair.b] {
                let meets = |x: u64, y: u64, p: &u64| (p + x) / q.line == (p + y) / q.line;
                let before = q.phases.iter().any(|p| meets(*at, with, p));
                let after = new(*at).zip(new(with));
                let after = after.is_some_and(|(x, y)| phases.iter().any(|p| meets(x, y, p)));
                if after && !before {
                    out.push((field(self.all, *at), field(self.all, with)));
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tussle_model::types::{Base, Encoding};
    use tussle_model::{Aggregate, AggregateKind, Member, Type};

    /// `struct s { long a; lock { long count, owner } l; long pad[8]; long h; }`, the lock at 8.
    fn table() -> (TypeTable, TypeId) {
        let mut t = TypeTable::new(8);
        let long = t.push(Type::Base(Base { name: "long".into(), size: 8, encoding: Encoding::Signed }));
        let f = |n, ty, at| Member::field(Some(n), ty, at);
        let lock = vec![f("count", long, 0), f("owner", long, 8)];
        let lock = t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, Some("lock"), 16, lock)));
        let mut members = vec![f("a", long, 0), f("l", lock, 8)];
        let names = ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"];
        members.extend(names.iter().enumerate().map(|(i, n)| f(n, long, 24 + 8 * i as u64)));
        let s = t.push(Type::Aggregate(Aggregate::new(AggregateKind::Struct, Some("s"), 88, members)));
        (t, s)
    }

    fn ask(pair: (u64, u64), phases: &[u64]) -> Vec<Parting> {
        let (t, target) = table();
        let pair = Pair { a: pair.0, b: pair.1 };
        let question = ToPart { target, pair: &pair, hot: &[8, 16, 80], phases, line: 64 };
        part(&t, &question, 5).unwrap()
    }

    /// Counted by hand: the lock behind m4 begins at byte 48+..: count at 56, owner at 64.
    #[test]
    fn a_lock_is_cut_by_the_end_of_a_line() {
        let found = ask((8, 16), &[0]);
        assert!(!found.is_empty());
        assert!(found.iter().all(Parting::complete), "{found:?}");
        for p in &found {
            let (t, target) = table();
            let shapes = Shapes::new(&t);
            let layout = Relayout::new(&shapes, target, &p.edits).unwrap();
            let at = |x| layout.translate(target, x).unwrap() / 64;
            assert_ne!(at(8), at(16), "{p:?}");
        }
    }

    #[test]
    fn fields_side_by_side_at_all_phases_cannot_be_parted_by_a_move_alone() {
        let phases: Vec<u64> = (0..8).map(|i| 8 * i).collect();
        let found = ask((8, 16), &phases);
        let moves = found.iter().filter(|p| p.edits.iter().all(|e| matches!(e, Edit::Move { .. })));
        assert!(moves.into_iter().all(|p| !p.complete()), "{found:?}");
    }

    #[test]
    fn two_members_are_parted_at_every_phase() {
        let phases: Vec<u64> = (0..8).map(|i| 8 * i).collect();
        let found = ask((0, 8), &phases);
        assert!(found[0].complete(), "{found:?}");
        assert!(found.iter().all(|p| !p.phases_left.contains(&64)));
    }
}
