//! The member whose insertion, growth or removal shifted the rest: a cause only where it explains the shift.

mod flat;
mod order;
mod replay;
mod window;

use super::Side;
use super::view::sentence;
use crate::phases::object_align;
use crate::slots::{NewField, Slot, slots};
use flat::{Flat, called, element, flat, hides, places};
use foldhash::{HashMap, HashSet, HashSetExt};
use tussle_model::{AggregateKind, TypeId, resolve};
use window::Window;

/// Causes are followed into the types of members this deep.
const DEPTH_MAX: usize = 16;

/// Changes that are told where there are several.
const TOLD_MAX: usize = 2;

/// What was done to the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Inserted,
    /// It has another size: old and new bytes.
    Resized(u64, u64),
    /// A bit-field of another width: old and new bits.
    Rewidened(u32, u32),
    /// It is gone.
    Removed,
    /// It stood elsewhere in the order of declaration.
    Reordered,
    /// Nothing in front of it changed, but it lies elsewhere: it is aligned differently.
    Realigned,
    /// It is of another kind now: the old and the new keyword.
    Recast(&'static str, &'static str),
    /// No single change explains the shift: the changes in words, the first of them, and their number.
    Several(Vec<String>, usize),
}

/// Why fields moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The member.
    pub member: String,
    /// What happened to it.
    pub change: Change,
    /// Offset of the member, bytes: in the new build, or in the old one when it was removed.
    pub offset: u64,
    /// Member behind which it stands; empty at the start.
    pub after: String,
    /// The first member that moved because of it.
    pub first_moved: Option<String>,
    /// How far that one moved, bytes.
    pub shift: i64,
    /// For an inserted member: places in the old layout where nothing would have moved.
    pub free_slots: Vec<Slot>,
    /// The type in which it happened: that of the member whose size changed, where that is a struct that changed
    /// itself. Empty when it happened in the type itself.
    pub root: String,
    /// What happened in that type, as a sentence; empty when nothing explains it.
    pub why: String,
}

/// The members of both builds and where the first of them moved.
struct Pair<'a> {
    old: Side<'a>,
    new: Side<'a>,
    ids: (TypeId, TypeId),
    a: Vec<Flat<'a>>,
    b: Vec<Flat<'a>>,
    /// Position in `a` and `b` by name.
    at: (HashMap<&'a str, usize>, HashMap<&'a str, usize>),
    /// Members that kept their order among the others, by position in `a` and in `b`.
    kept: (Vec<bool>, Vec<bool>),
    /// Members may be hidden in unnamed unions of the old and of the new build.
    hides: (bool, bool),
}

/// One change in front of the first member that moved.
struct Step<'a> {
    member: Flat<'a>,
    change: Change,
}

/// `None` when no member that both builds have moved and nothing was inserted, removed or resized, neither here nor in
/// a member that kept its place and size.
pub(super) fn find(old: Side<'_>, old_id: TypeId, new: Side<'_>, new_id: TypeId) -> Option<Cause> {
    let pair = Pair::of(old, old_id, new, new_id);
    match pair.cause() {
        Some(mut cause) => {
            (cause.root, cause.why) = pair.root(&cause, 0).unwrap_or_default();
            Some(cause)
        }
        None => pair.inside(&mut HashSet::new(), 0),
    }
}

impl<'a> Pair<'a> {
    fn of(old: Side<'a>, old_id: TypeId, new: Side<'a>, new_id: TypeId) -> Pair<'a> {
        let (a, b) = (flat(old.table, old_id), flat(new.table, new_id));
        let hides = (hides(old.table, old_id, 0), hides(new.table, new_id, 0));
        let at = (places(&a), places(&b));
        let kept = (vec![false; a.len()], vec![false; b.len()]);
        let mut pair = Pair { old, new, ids: (old_id, new_id), at, a, b, kept, hides };
        pair.find_kept();
        pair
    }

    /// Fills in which members kept their order.
    fn find_kept(&mut self) {
        let both: Vec<(usize, usize)> = (0..self.b.len())
            .filter(|&i| self.at.1.get(self.b[i].name) == Some(&i))
            .filter_map(|i| Some((*self.at.0.get(self.b[i].name)?, i)))
            .collect();
        let place = |&(o, n): &(usize, usize)| (o, self.a[o].first_bit == self.b[n].first_bit);
        let kept = order::kept(&both.iter().map(place).collect::<Vec<_>>());
        for ((o, n), kept) in both.into_iter().zip(kept) {
            (self.kept.0[o], self.kept.1[n]) = (kept, kept);
        }
    }

    fn in_old(&self, name: &str) -> Option<&Flat<'a>> {
        self.a.get(*self.at.0.get(name)?)
    }

    fn in_new(&self, name: &str) -> Option<&Flat<'a>> {
        self.b.get(*self.at.1.get(name)?)
    }

    /// A struct that became a union, or the other way round: nothing that lies elsewhere has a cause of its own.
    fn recast(&self) -> Option<Change> {
        let kind = |side: Side<'_>, id| Some(side.table.aggregate(id)?.kind);
        let (old, new) = (kind(self.old, self.ids.0)?, kind(self.new, self.ids.1)?);
        let union = AggregateKind::Union;
        ((old == union) != (new == union)).then(|| Change::Recast(old.keyword(), new.keyword()))
    }

    /// Bytes.
    fn shift(&self, f: &Flat<'_>) -> Option<i64> {
        self.in_old(f.name).map(|o| (f.offset() as i64).wrapping_sub(o.offset() as i64))
    }

    /// It lies where it lay, as wide as it was and in the same order.
    fn stayed(&self, i: usize) -> bool {
        let f = &self.b[i];
        self.kept.1[i] && self.in_old(f.name).is_some_and(|o| o.first_bit == f.first_bit && o.is_as_wide(f))
    }

    fn cause(&self) -> Option<Cause> {
        if let Some(change) = self.recast() {
            return Some(Cause { change, ..Cause::nowhere() });
        }
        // The first member, in the new order, that both builds have and that lies elsewhere now.
        let moved =
            self.b.iter().position(|f| self.in_old(f.name).is_some_and(|o| o.first_bit != f.first_bit));
        let (member, change) = match moved {
            Some(first) if !self.kept.1[first] => self.displaced(first),
            _ => self.decide(moved)?,
        };
        let (list, places) =
            if change == Change::Removed { (&self.a, &self.at.0) } else { (&self.b, &self.at.1) };
        let before = match places.get(member.name) {
            Some(i) => i.checked_sub(1).and_then(|i| list.get(i)),
            // inside of an unnamed union
            None => list.iter().rfind(|f| f.offset().saturating_add(f.size) <= member.offset()),
        };
        let free_slots = match change {
            Change::Inserted => free(self.old, self.ids.0, self.new, &member),
            _ => Vec::new(),
        };
        let first = moved.map(|i| &self.b[i]);
        Some(Cause {
            offset: member.offset(),
            after: before.map_or(String::new(), |f| f.name.into()),
            shift: first.and_then(|f| self.shift(f)).unwrap_or(0),
            first_moved: first.map(|f| f.name.into()),
            member: member.name.into(),
            change,
            free_slots,
            ..Cause::nowhere()
        })
    }

    /// The first member that moved is one of those that changed their order.
    fn displaced(&self, first: usize) -> (Flat<'a>, Change) {
        let other = |&i: &usize| {
            i != first
                && !self.kept.1[i]
                && self.at.1.get(self.b[i].name) == Some(&i)
                && self.at.0.contains_key(self.b[i].name)
        };
        let others: Vec<usize> = (0..self.b.len()).filter(other).collect();
        if others.is_empty() {
            return (self.b[first], Change::Reordered);
        }
        let step = |i: usize| told(&Step { member: self.b[i], change: Change::Reordered });
        let words = std::iter::once(first).chain(others.iter().copied()).take(TOLD_MAX).map(step).collect();
        (self.b[first], Change::Several(words, others.len() + 1))
    }

    /// Changes between the last member that stayed and the first that moved.
    fn decide(&self, moved: Option<usize>) -> Option<(Flat<'a>, Change)> {
        let mut window = Window::over(self, moved);
        let Some(first) = moved.map(|i| self.b[i]) else {
            // nothing moved: what came or went did so behind all that stayed, or in holes
            let told = |s: &Step<'_>| !matches!(s.change, Change::Reordered | Change::Realigned);
            let step = window.steps.drain(..).find(told)?;
            return Some((step.member, step.change));
        };
        match window.replay(self, &first).least() {
            Some(least) => several(window.take(&least)),
            None => Some(self.guess(window.steps, &first)),
        }
    }

    /// Where the layout is not the rule's: one change that explains the shift roughly, or all of them.
    fn guess(&self, mut steps: Vec<Step<'a>>, first: &Flat<'a>) -> (Flat<'a>, Change) {
        let own = steps.iter().position(|s| s.member.name == first.name);
        let own = own.map(|i| steps.swap_remove(i)).filter(|s| s.change != Change::Realigned);
        steps.retain(|s| s.change != Change::Realigned);
        if steps.is_empty() {
            return (*first, own.map_or(Change::Realigned, |s| s.change));
        }
        let shift = self.shift(first).unwrap_or(0);
        let exact = steps.len() > 1;
        let reorders = steps.iter().any(|s| s.change == Change::Reordered);
        let fit: Vec<usize> =
            (0..steps.len()).filter(|&i| self.explains(&steps[i], first, shift, exact)).collect();
        match fit.as_slice() {
            [only] if !reorders => {
                let step = steps.swap_remove(*only);
                (step.member, step.change)
            }
            _ if reorders && !exact => (steps[0].member, Change::Reordered),
            _ => (steps[0].member, all_of(&steps)),
        }
    }

    /// The change alone shifts what follows so far: by its own bytes, and by what alignment adds or takes. Beside other
    /// changes it has to be exact.
    fn explains(&self, step: &Step<'_>, first: &Flat<'_>, shift: i64, exact: bool) -> bool {
        let side = if step.change == Change::Removed { self.old } else { self.new };
        let own = step.member.alignment(side);
        let behind = first.alignment(self.new);
        let slack = own.max(behind).saturating_sub(1);
        let far = shift.unsigned_abs();
        let fits = |bytes: u64| match exact {
            true => far == bytes || bytes.checked_next_multiple_of(behind) == Some(far),
            false => far <= bytes.saturating_add(slack) && bytes <= far.saturating_add(slack),
        };
        let size = if step.member.bits.is_some() { 1 } else { step.member.size.max(1) };
        match step.change {
            Change::Inserted => shift > 0 && fits(size),
            Change::Removed => shift < 0 && fits(size),
            Change::Resized(old, new) => (shift > 0) == (new > old) && fits(new.abs_diff(old)),
            Change::Rewidened(old, new) => (shift > 0) == (new > old) && !exact,
            _ => false,
        }
    }

    /// The member in an unnamed union of that build, which goes by its first member's name.
    fn hidden(&self, in_old: bool, f: &Flat<'a>) -> Option<Flat<'a>> {
        let (side, id, hides) = match in_old {
            true => (self.old, self.ids.0, self.hides.0),
            false => (self.new, self.ids.1, self.hides.1),
        };
        if !hides {
            return None;
        }
        let spot = resolve(side.table, id, f.name).into_iter().next()?;
        Some(Flat { first_bit: spot.offset.saturating_mul(8), size: spot.size, ty: spot.declared, ..*f })
    }

    /// The cause in a member that lies where it lay and has the size that it had.
    fn inside(&self, seen: &mut HashSet<(TypeId, TypeId)>, depth: usize) -> Option<Cause> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.b.iter().find_map(|f| {
            let o = self.in_old(f.name)?;
            let (x, y) = (element(self.old.table, o.ty), element(self.new.table, f.ty));
            self.new.table.aggregate(y)?;
            let root = called(self.new.table, f.ty).filter(|_| seen.insert((x, y)))?;
            let pair = Pair::of(self.old, x, self.new, y);
            let cause = pair.cause().map(|c| Cause { root, ..c });
            let cause = cause.or_else(|| pair.inside(seen, depth + 1))?;
            Some(Cause {
                member: format!("{}.{}", f.name, cause.member),
                after: if cause.after.is_empty() {
                    f.name.into()
                } else {
                    format!("{}.{}", f.name, cause.after)
                },
                first_moved: cause.first_moved.map(|m| format!("{}.{m}", f.name)),
                offset: cause.offset.saturating_add(f.offset()),
                free_slots: Vec::new(),
                ..cause
            })
        })
    }

    /// The type in which a member's growth happened, followed from member to member, and what happened there.
    fn root(&self, cause: &Cause, depth: usize) -> Option<(String, String)> {
        if depth > DEPTH_MAX || !matches!(cause.change, Change::Resized(..) | Change::Realigned) {
            return None;
        }
        let (o, n) = (self.in_old(&cause.member)?, self.in_new(&cause.member)?);
        let (old_id, new_id) = (element(self.old.table, o.ty), element(self.new.table, n.ty));
        let (x, y) = (self.old.table.aggregate(old_id)?, self.new.table.aggregate(new_id)?);
        let name = called(self.new.table, n.ty)?;
        if called(self.old.table, o.ty).as_ref() != Some(&name) || x.size == y.size {
            return None;
        }
        let inner = Pair::of(self.old, old_id, self.new, new_id);
        let cause = inner.cause();
        let deeper = cause.as_ref().and_then(|c| inner.root(c, depth + 1));
        Some(deeper.unwrap_or_else(|| (name, cause.as_ref().map(sentence).unwrap_or_default())))
    }
}

impl Cause {
    fn nowhere() -> Cause {
        Cause {
            member: String::new(),
            change: Change::Reordered,
            offset: 0,
            after: String::new(),
            first_moved: None,
            shift: 0,
            free_slots: Vec::new(),
            root: String::new(),
            why: String::new(),
        }
    }
}

/// Several steps are one change of that kind.
fn several(mut steps: Vec<Step<'_>>) -> Option<(Flat<'_>, Change)> {
    let member = steps.first()?.member;
    match steps.len() {
        1 => steps.pop().map(|s| (s.member, s.change)),
        _ => Some((member, all_of(&steps))),
    }
}

fn all_of(steps: &[Step<'_>]) -> Change {
    Change::Several(steps.iter().take(TOLD_MAX).map(told).collect(), steps.len())
}

fn told(step: &Step<'_>) -> String {
    let what = match &step.change {
        Change::Inserted => "inserted".into(),
        Change::Removed => "removed".into(),
        Change::Resized(old, new) => format!("{old} to {new} bytes"),
        Change::Rewidened(old, new) => format!("{old} to {new} bits"),
        Change::Realigned => "aligned differently".into(),
        _ => "elsewhere".into(),
    };
    format!("{} {what}", step.member.name)
}

fn free(old: Side<'_>, old_id: TypeId, new: Side<'_>, member: &Flat<'_>) -> Vec<Slot> {
    let field = NewField {
        name: member.name.into(),
        size: member.size,
        align: object_align(new.table, member.ty, new.btf),
    };
    if field.size == 0 {
        return Vec::new();
    }
    slots(old.table, old_id, &field, old.btf, 8).into_iter().filter(Slot::is_free).collect()
}
